/*
 * The accuracy of the prediction of a kernel from its own probes, and the savings of the clock
 * found from them. SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "lab/core/evaluation.h"
#include "lab/core/online.h"
#include "lab/core/pick.h"

enum { FINE_CLOCKS = 100 };

/* All kernels of a grid, each fitted from its probes with the curve of the others. */
struct probed_grid {
    const struct lull_grid *grid;
    const struct lull_power_curve *curves;
    double slowdown_ratio;
    uint32_t probes[LULL_GRID_PROBES];
    uint32_t probe_count;
    struct lull_fitted_kernel *kernels;
    struct lull_fitted_device device; /* with the curve for the kernel in hand; owns nothing */
    /* |log(measured / predicted)| of each kernel away from the probes, one after the other. */
    double *time_error;
    double *energy_error;
    double *doubt;
    size_t errors_each;
    double *room_error; /* for a copy without one kernel */
    double *room_doubt;
};

static double online_eval_power_of(const struct lull_grid *grid, uint32_t kernel, uint32_t point)
{
    return kernel < grid->powered_count ? lull_grid_powers(grid, kernel)[point] : NAN;
}

static bool online_eval_is_probe(const struct probed_grid *judged, uint32_t point)
{
    for (uint32_t i = 0; i < judged->probe_count; i++)
        if (judged->probes[i] == point)
            return true;
    return false;
}

static void take_curve(struct probed_grid *judged, uint32_t kernel)
{
    const uint32_t powered = judged->grid->powered_count;

    judged->device.curve = judged->curves[kernel < powered ? kernel : powered];
}

/* ---- errors ------------------------------------------------------------------------------- */

static void fit_kernel(struct probed_grid *judged, uint32_t kernel)
{
    const struct lull_grid *const grid = judged->grid;
    struct lull_fitted_point points[LULL_GRID_PROBES];

    take_curve(judged, kernel);
    for (uint32_t i = 0; i < judged->probe_count; i++) {
        const uint32_t at = judged->probes[i];

        points[i] = (struct lull_fitted_point){grid->points[at].sm_mhz, grid->points[at].mem_mhz,
                                               lull_grid_times(grid, kernel)[at],
                                               online_eval_power_of(grid, kernel, at)};
    }
    lull_fitted_probe(&judged->device, points, judged->probe_count, &judged->kernels[kernel]);
}

/* Records the errors of a kernel. Returns the sum of the relative ones of time. */
static double note_errors(const struct probed_grid *judged, uint32_t kernel)
{
    const struct lull_grid *const grid = judged->grid;
    size_t at = kernel * judged->errors_each;
    double sum = 0.0;

    for (uint32_t i = 0; i < grid->point_count; i++) {
        const double time_ms = lull_grid_times(grid, kernel)[i];
        struct lull_fitted_prediction predicted;

        if (online_eval_is_probe(judged, i))
            continue;
        predicted = lull_fitted_predict(&judged->device, &judged->kernels[kernel],
                                        grid->points[i].sm_mhz, grid->points[i].mem_mhz);
        sum += fabs(predicted.time_ms.value / time_ms - 1.0);
        judged->time_error[at] = fabs(log(time_ms / predicted.time_ms.value));
        judged->energy_error[at] =
            fabs(log(time_ms * online_eval_power_of(grid, kernel, i) / predicted.energy_mj.value));
        judged->doubt[at++] = predicted.doubt_ratio;
    }
    return sum;
}

/* The bound of errors of all kernels with power but one. */
static struct lull_error_bound bound_without(const struct probed_grid *judged, const double *errors,
                                             uint32_t kernel)
{
    const size_t before = kernel * judged->errors_each;
    const size_t behind = (judged->grid->powered_count - kernel - 1) * judged->errors_each;
    const size_t next = before + judged->errors_each;
    const struct lull_error_sample sample = {judged->room_error, judged->room_doubt,
                                             before + behind};

    memcpy(judged->room_error, errors, before * sizeof(*errors));
    memcpy(judged->room_error + before, errors + next, behind * sizeof(*errors));
    memcpy(judged->room_doubt, judged->doubt, before * sizeof(*errors));
    memcpy(judged->room_doubt + before, judged->doubt + next, behind * sizeof(*errors));
    return lull_error_bound_new(&sample, judged->grid->powered_count - 1);
}

/* ---- picks -------------------------------------------------------------------------------- */

/* Returns the measured savings of the pick among the grid's points, and whether it is within the
 * tolerance. */
static double judge_pick(const struct probed_grid *judged, uint32_t kernel, double tolerance_ratio,
                         bool *is_within_out)
{
    const struct lull_grid *const grid = judged->grid;
    const struct lull_online_search search = {grid->points, grid->point_count, grid->base,
                                              tolerance_ratio};
    const double *const times_ms = lull_grid_times(grid, kernel);
    const double *const powers_w = lull_grid_powers(grid, kernel);
    struct lull_online_best found;

    lull_online_pick(&judged->device, &judged->kernels[kernel], &search, &found);
    *is_within_out = times_ms[found.best] <= times_ms[grid->base] * (1.0 + tolerance_ratio);
    return 1.0 - times_ms[found.best] * powers_w[found.best] /
                     (times_ms[grid->base] * powers_w[grid->base]);
}

/* Clocks between the measured ones at the base's memory clock, the base first, and what a kernel
 * would measure there if time and power were straight lines between points, in logarithms. */
struct fine {
    struct lull_grid_point points[FINE_CLOCKS];
    double times_ms[FINE_CLOCKS];
    double powers_w[FINE_CLOCKS];
    uint32_t count;
};

static void add_fine(const struct lull_grid *grid, uint32_t kernel, uint32_t low, uint32_t high,
                     double part, struct fine *fine)
{
    const double *const times_ms = lull_grid_times(grid, kernel);
    const double *const powers_w = lull_grid_powers(grid, kernel);
    const uint32_t at = fine->count++;

    assert(at < FINE_CLOCKS);
    fine->points[at].sm_mhz =
        grid->points[low].sm_mhz + part * (grid->points[high].sm_mhz - grid->points[low].sm_mhz);
    fine->points[at].mem_mhz = grid->points[grid->base].mem_mhz;
    fine->times_ms[at] = times_ms[low] * pow(times_ms[high] / times_ms[low], part);
    fine->powers_w[at] = powers_w[low] * pow(powers_w[high] / powers_w[low], part);
}

static void online_eval_fill_fine(const struct lull_grid *grid, uint32_t kernel, struct fine *fine)
{
    uint32_t row[LULL_GRID_POINTS];
    uint32_t count = 0, steps;

    for (uint32_t i = 0; i < grid->point_count; i++)
        if (grid->points[i].mem_mhz == grid->points[grid->base].mem_mhz)
            row[count++] = i;
    fine->count = 0;
    add_fine(grid, kernel, grid->base, grid->base, 0.0, fine);
    steps = count > 1 ? (FINE_CLOCKS - 2) / (count - 1) : 0;
    for (uint32_t i = 0; i + 1 < count; i++)
        for (uint32_t step = 0; step < steps; step++)
            add_fine(grid, kernel, row[i], row[i + 1], (double)step / steps, fine);
    if (steps > 0)
        add_fine(grid, kernel, row[count - 1], row[count - 1], 0.0, fine);
}

static void judge_interval(struct probed_grid *judged, uint32_t kernel,
                           struct lull_online_worth *worth)
{
    const struct lull_grid *const grid = judged->grid;
    const double range_mhz = grid->points[grid->point_count - 1].sm_mhz - grid->points[0].sm_mhz;
    struct lull_online_best found;
    struct fine fine;
    struct lull_online_search search;
    double best_mhz;

    online_eval_fill_fine(grid, kernel, &fine);
    search = (struct lull_online_search){fine.points, fine.count, 0, judged->slowdown_ratio};
    best_mhz = fine.points[lull_pick_point(fine.times_ms, fine.powers_w, fine.count, 0,
                                           judged->slowdown_ratio)]
                   .sm_mhz;
    judged->device.probed.time = bound_without(judged, judged->time_error, kernel);
    judged->device.probed.energy = bound_without(judged, judged->energy_error, kernel);
    lull_online_pick(&judged->device, &judged->kernels[kernel], &search, &found);
    if (best_mhz >= found.low_mhz && best_mhz <= found.high_mhz)
        worth->inside_ratio += 1.0 / grid->powered_count;
    worth->width_ratio += (found.high_mhz - found.low_mhz) / range_mhz / grid->powered_count;
}

static void online_eval_judge_picks(struct probed_grid *judged, struct lull_online_worth *worth)
{
    const uint32_t powered = judged->grid->powered_count;

    worth->realised_ratio = worth->kept_ratio = 0.0;
    worth->inside_ratio = worth->width_ratio = 0.0;
    for (uint32_t kernel = 0; kernel < powered; kernel++) {
        bool is_within;
        double saving;

        take_curve(judged, kernel);
        worth->realised_ratio += judge_pick(judged, kernel, INFINITY, &is_within) / powered;
        saving = judge_pick(judged, kernel, judged->slowdown_ratio, &is_within);
        if (is_within)
            worth->kept_ratio += saving / powered;
        judge_interval(judged, kernel, worth);
    }
    if (powered < 2 || judged->errors_each == 0)
        worth->inside_ratio = worth->width_ratio = NAN;
}

/* ---- all of it ---------------------------------------------------------------------------- */

int lull_evaluate_online(const struct lull_grid *grid, const struct lull_power_curve *curves,
                         double slowdown_ratio, struct lull_online_worth *worth_out)
{
    const size_t cells = (size_t)grid->kernel_count * grid->point_count;
    struct lull_memory memory = {0};
    struct probed_grid judged = {
        .grid = grid,
        .curves = curves,
        .slowdown_ratio = slowdown_ratio,
        .kernels = lull_memory_take(&memory, grid->kernel_count, sizeof(*judged.kernels)),
        .device = {.point_count = grid->point_count, .points = grid->points, .base = grid->base},
        .time_error = lull_memory_take(&memory, cells, sizeof(double)),
        .energy_error = lull_memory_take(&memory, cells, sizeof(double)),
        .doubt = lull_memory_take(&memory, cells, sizeof(double)),
        .room_error = lull_memory_take(&memory, cells, sizeof(double)),
        .room_doubt = lull_memory_take(&memory, cells, sizeof(double)),
    };
    double sum = 0.0;

    if (memory.has_failed) {
        lull_memory_free(&memory);
        return -ENOMEM;
    }
    *worth_out = (struct lull_online_worth){NAN, NAN, NAN, NAN, NAN};
    judged.probe_count = lull_grid_probe_middle(grid, judged.probes);
    judged.errors_each = grid->point_count - judged.probe_count;
    for (uint32_t kernel = 0; kernel < grid->kernel_count; kernel++) {
        fit_kernel(&judged, kernel);
        sum += note_errors(&judged, kernel);
    }
    if (judged.errors_each > 0)
        worth_out->time_error = sum / ((double)grid->kernel_count * (double)judged.errors_each);
    if (grid->powered_count > 0)
        online_eval_judge_picks(&judged, worth_out);
    lull_memory_free(&memory);
    return 0;
}
