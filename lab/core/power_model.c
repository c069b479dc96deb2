/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/power_model.h"

#include <assert.h>
#include <math.h>

#include "lab/core/nnls.h"

/* Measured: no figure of docs/research/measurements/models.md changes in its third digit after 5
 * rounds. */
enum { ROUNDS = 10 };

/* ---- one kernel --------------------------------------------------------------------------- */

static void fill_row(const struct lull_grid *grid, const struct lull_power_curve *curve,
                     uint32_t point, double *row)
{
    row[0] = 1.0;
    row[1] = curve->rise[point];
    row[2] = grid->points[point].mem_ratio;
}

void lull_power_fit(const struct lull_grid *grid, const struct lull_power_curve *curve,
                    const double *powers_w, const uint32_t *probes, uint32_t probe_count,
                    struct lull_power_model *model_out)
{
    const bool has_memory = lull_grid_has_mem_axis(grid);
    struct lull_nnls fit = lull_nnls_begin(has_memory ? 3 : 2);
    double found[3] = {0.0};

    for (uint32_t i = 0; i < probe_count; i++) {
        double row[3];

        fill_row(grid, curve, probes[i], row);
        lull_nnls_add(&fit, row, powers_w[probes[i]]);
    }
    lull_nnls_solve(&fit, found);
    *model_out =
        (struct lull_power_model){.fixed_w = found[0], .memory_w = found[2], .dynamic_w = found[1]};
}

double lull_power_at(const struct lull_grid *grid, const struct lull_power_curve *curve,
                     const struct lull_power_model *model, uint32_t point)
{
    return model->fixed_w + model->memory_w * grid->points[point].mem_ratio +
           model->dynamic_w * curve->rise[point];
}

/* ---- the device's curve ------------------------------------------------------------------- */

/* One SM clock of the curve: points begin..end - 1 of the grid have it. */
struct clock_sums {
    uint32_t begin;
    uint32_t end;
    double weight;
    double sum; /* weighted; sum / weight is the value */
};

static uint32_t power_model_list_clocks(const struct lull_grid *grid, struct clock_sums *clocks)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < grid->point_count; i++) {
        if (i == 0 || grid->points[i].sm_mhz > grid->points[i - 1].sm_mhz)
            clocks[count++] = (struct clock_sums){.begin = i};
        clocks[count - 1].end = i + 1;
    }
    return count;
}

/* Adds what is left of a kernel's power over its dynamic part: the curve as this kernel shows it.
 */
static void power_model_add_kernel(const struct lull_grid *grid,
                                   const struct lull_power_curve *curve, uint32_t kernel,
                                   struct clock_sums *clocks, uint32_t clock_count)
{
    const double *const powers_w = lull_grid_powers(grid, kernel);
    uint32_t all[LULL_GRID_POINTS];
    struct lull_power_model model;

    for (uint32_t i = 0; i < grid->point_count; i++)
        all[i] = i;
    lull_power_fit(grid, curve, powers_w, all, grid->point_count, &model);
    for (uint32_t c = 0; c < clock_count; c++)
        for (uint32_t i = clocks[c].begin; i < clocks[c].end; i++) {
            const double static_w = model.fixed_w + model.memory_w * grid->points[i].mem_ratio;
            const double share = model.dynamic_w / powers_w[i];

            clocks[c].weight += share * share;
            clocks[c].sum += share * (powers_w[i] - static_w) / powers_w[i];
        }
}

/* Makes the values rise: neighbours that fall become their common mean (pool adjacent violators,
 * Ayer et al. 1955). Returns how many are left. */
static uint32_t pool_falling(struct clock_sums *clocks, uint32_t count)
{
    uint32_t kept = 0;

    for (uint32_t c = 0; c < count; c++) {
        clocks[kept++] = clocks[c];
        while (kept > 1 && clocks[kept - 2].sum * clocks[kept - 1].weight >
                               clocks[kept - 1].sum * clocks[kept - 2].weight) {
            clocks[kept - 2].end = clocks[kept - 1].end;
            clocks[kept - 2].weight += clocks[kept - 1].weight;
            clocks[kept - 2].sum += clocks[kept - 1].sum;
            kept--;
        }
    }
    return kept;
}

/* The curve before the first round: the clock times the square of a voltage that follows it. Of
 * powers 0.5 to 3 the cube fits six networks best, each of which was measured alone on its GPU
 * (docs/research/measurements/models.md). */
static void set_cube(const struct lull_grid *grid, struct lull_power_curve *curve)
{
    const double low_mhz = grid->points[0].sm_mhz;
    const double top_mhz = grid->points[grid->point_count - 1].sm_mhz;
    const double range = pow(top_mhz, 3.0) - pow(low_mhz, 3.0);

    for (uint32_t i = 0; i < grid->point_count; i++) {
        const double mhz = grid->points[i].sm_mhz;

        curve->rise[i] = range > 0.0 ? (pow(mhz, 3.0) - pow(low_mhz, 3.0)) / range : 0.0;
    }
}

/* One round of the alternation. false: no kernel's power rises, and the curve stays. */
static bool power_model_improve(const struct lull_grid *grid, uint32_t without,
                                struct lull_power_curve *curve)
{
    struct clock_sums clocks[LULL_GRID_POINTS];
    const uint32_t clock_count = power_model_list_clocks(grid, clocks);
    uint32_t count;
    double low, range;

    assert(clock_count > 0);
    for (uint32_t kernel = 0; kernel < grid->powered_count; kernel++)
        if (kernel != without)
            power_model_add_kernel(grid, curve, kernel, clocks, clock_count);
    if (!(clocks[0].weight > 0.0))
        return false;
    count = pool_falling(clocks, clock_count);
    low = clocks[0].sum / clocks[0].weight;
    range = clocks[count - 1].sum / clocks[count - 1].weight - low;
    if (!(range > 0.0))
        return false;
    for (uint32_t c = 0; c < count; c++)
        for (uint32_t i = clocks[c].begin; i < clocks[c].end; i++)
            curve->rise[i] = (clocks[c].sum / clocks[c].weight - low) / range;
    return true;
}

void lull_power_curve_fit(const struct lull_grid *grid, uint32_t without,
                          struct lull_power_curve *curve_out)
{
    assert(without <= grid->powered_count);
    set_cube(grid, curve_out);
    for (uint32_t round = 0; round < ROUNDS; round++)
        if (!power_model_improve(grid, without, curve_out))
            break;
}
