/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/fitted.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Reach of a model's residual at a point, as a share of the range of clocks. Default: about one
 * step of grids of five to ten clocks. */
static const double left_reach = 0.1;
/* The lower limit of a kernel's power, so that ratios of powers exist where a model predicts
 * none, W. */
static const double min_w = 1e-3;

/* ---- clocks -------------------------------------------------------------------------------- */

static const struct lull_grid_point *first_of(const struct lull_fitted_device *device)
{
    return &device->points[0];
}

static const struct lull_grid_point *fitted_last_of(const struct lull_fitted_device *device)
{
    return &device->points[device->point_count - 1];
}

struct mem_range {
    double low_mhz;
    double high_mhz;
};

static struct mem_range measure_memory(const struct lull_fitted_device *device)
{
    struct mem_range range = {INFINITY, 0.0};

    for (uint32_t i = 0; i < device->point_count; i++) {
        range.low_mhz = fmin(range.low_mhz, device->points[i].mem_mhz);
        range.high_mhz = fmax(range.high_mhz, device->points[i].mem_mhz);
    }
    return range;
}

bool lull_fitted_covers(const struct lull_fitted_device *device, double sm_mhz, double mem_mhz)
{
    const struct mem_range memory = measure_memory(device);

    return sm_mhz >= first_of(device)->sm_mhz && sm_mhz <= fitted_last_of(device)->sm_mhz &&
           mem_mhz >= memory.low_mhz && mem_mhz <= memory.high_mhz;
}

static struct lull_grid_point fitted_point_at(const struct lull_fitted_device *device,
                                              double sm_mhz, double mem_mhz)
{
    const struct lull_grid_point *const base = &device->points[device->base];

    return (struct lull_grid_point){sm_mhz, mem_mhz, sm_mhz / base->sm_mhz,
                                    mem_mhz / base->mem_mhz};
}

/* Returns the device's curve at a clock, between its neighbours. `without` is a clock that is left
 * out; 0: none is. */
static double rise_at(const struct lull_fitted_device *device, double sm_mhz, double without)
{
    const struct lull_grid_point *below = first_of(device);
    double low = device->curve.rise[0];

    for (uint32_t i = 0; i < device->point_count; i++) {
        const struct lull_grid_point *const point = &device->points[i];

        if (point->sm_mhz == without)
            continue;
        if (point->sm_mhz >= sm_mhz) {
            const double width = point->sm_mhz - below->sm_mhz;

            return width > 0.0
                       ? low + (device->curve.rise[i] - low) * (sm_mhz - below->sm_mhz) / width
                       : device->curve.rise[i];
        }
        below = point;
        low = device->curve.rise[i];
    }
    return low;
}

/* ---- one kernel ---------------------------------------------------------------------------- */

/* Points that a kernel is fitted from, with room for what the fits need of them. */
struct fitting {
    struct lull_grid grid; /* only the points count */
    struct lull_power_curve curve;
    struct lull_grid_point points[LULL_GRID_POINTS];
    double times_ms[LULL_GRID_POINTS];
    double powers_w[LULL_GRID_POINTS];
    double *shapes; /* LULL_GRID_POINTS x LULL_TIME_SHAPES */
    double left_ms[LULL_GRID_POINTS];
    double left_w[LULL_GRID_POINTS];
};

static void begin_fitting(struct fitting *fitting)
{
    fitting->grid = (struct lull_grid){.points = fitting->points};
}

static void fitted_add_point(const struct lull_fitted_device *device, struct fitting *fitting,
                             const struct lull_grid_point *point, double without, double time_ms,
                             double power_w)
{
    const uint32_t at = fitting->grid.point_count++;

    assert(at < LULL_GRID_POINTS);
    fitting->points[at] = *point;
    fitting->curve.rise[at] = rise_at(device, point->sm_mhz, without);
    fitting->times_ms[at] = time_ms;
    fitting->powers_w[at] = power_w;
}

static bool has_all_powers(const struct fitting *fitting)
{
    for (uint32_t i = 0; i < fitting->grid.point_count; i++)
        if (isnan(fitting->powers_w[i]))
            return false;
    return true;
}

static void fitted_fit(struct fitting *fitting, struct lull_fitted_kernel *kernel_out)
{
    uint32_t all[LULL_GRID_POINTS];

    for (uint32_t i = 0; i < fitting->grid.point_count; i++)
        all[i] = i;
    *kernel_out = (struct lull_fitted_kernel){.has_power = has_all_powers(fitting)};
    lull_time_shapes(&fitting->grid, fitting->shapes);
    lull_time_fit_with_doubt(fitting->shapes, fitting->times_ms, all, fitting->grid.point_count,
                             &kernel_out->time, &kernel_out->doubt);
    if (kernel_out->has_power)
        lull_power_fit(&fitting->grid, &fitting->curve, fitting->powers_w, all,
                       fitting->grid.point_count, &kernel_out->power);
}

/* The model's time at a point, and in *doubt_out, unless that is null, how much its shapes disagree
 * there, as a part of it. */
static double model_ms(const struct lull_fitted_kernel *kernel, const struct lull_grid_point *point,
                       double *doubt_out)
{
    double shapes[LULL_TIME_SHAPES] = {0.0};
    double time_ms;

    for (uint32_t shape = 0; shape < LULL_TIME_SHAPES; shape++)
        if (kernel->time.scale_ms[shape] > 0.0)
            shapes[shape] = lull_time_shape(shape, point->sm_ratio, point->mem_ratio);
    time_ms = lull_time_at(&kernel->time, shapes);
    if (doubt_out != NULL)
        *doubt_out = lull_time_doubt_at(&kernel->doubt, shapes, time_ms);
    return time_ms;
}

static double model_w(const struct lull_fitted_device *device,
                      const struct lull_fitted_kernel *kernel, const struct lull_grid_point *point,
                      double without)
{
    return fmax(kernel->power.fixed_w + kernel->power.memory_w * point->mem_ratio +
                    kernel->power.dynamic_w * rise_at(device, point->sm_mhz, without),
                min_w);
}

/* Returns the models' residual at a point, from their residuals at `count` others. */
static double left_at(const struct lull_fitted_device *device, const struct lull_grid_point *points,
                      const double *left, uint32_t count, const struct lull_grid_point *point)
{
    const struct mem_range memory = measure_memory(device);
    const double sm_reach =
        left_reach * (fitted_last_of(device)->sm_mhz - first_of(device)->sm_mhz);
    const double mem_reach = left_reach * (memory.high_mhz - memory.low_mhz);
    double weights = 1e-9, sum = 0.0; /* far from all points there is no residual */

    for (uint32_t i = 0; i < count; i++) {
        const double sm = (points[i].sm_mhz - point->sm_mhz) / sm_reach;
        const double mem = mem_reach > 0.0 ? (points[i].mem_mhz - point->mem_mhz) / mem_reach : 0.0;
        const double weight = exp(-0.5 * (sm * sm + mem * mem));

        weights += weight;
        sum += weight * left[i];
    }
    return sum / weights;
}

/* Returns the index of the device's point at these clocks; point_count: there is none. */
static uint32_t fitted_find_point(const struct lull_fitted_device *device,
                                  const struct lull_grid_point *point)
{
    uint32_t i = 0;

    while (i < device->point_count && (device->points[i].sm_mhz != point->sm_mhz ||
                                       device->points[i].mem_mhz != point->mem_mhz))
        i++;
    return i;
}

/* Returns the expected residual at a point, from those at the device's points; null: none. */
static double expected_at(const struct lull_fitted_device *device, const double *left,
                          const struct lull_grid_point *point)
{
    uint32_t at;

    if (left == NULL)
        return 0.0;
    at = fitted_find_point(device, point);
    return at < device->point_count
               ? left[at]
               : left_at(device, device->points, left, device->point_count, point);
}

void lull_fitted_probe_like(const struct lull_fitted_device *device,
                            const struct lull_fitted_point *points, uint32_t count,
                            const double *time_like, const double *power_like,
                            struct lull_fitted_kernel *kernel_out)
{
    double shapes[LULL_GRID_PROBES * LULL_TIME_SHAPES];
    double left_ms[LULL_GRID_PROBES], left_w[LULL_GRID_PROBES];
    struct fitting fitting;

    assert(count >= 1 && count <= LULL_GRID_PROBES);
    begin_fitting(&fitting);
    fitting.shapes = shapes;
    for (uint32_t i = 0; i < count; i++) {
        const struct lull_grid_point point =
            fitted_point_at(device, points[i].sm_mhz, points[i].mem_mhz);

        fitted_add_point(device, &fitting, &point, 0.0, points[i].time_ms, points[i].power_w);
    }
    fitted_fit(&fitting, kernel_out);
    kernel_out->time_like = time_like;
    kernel_out->power_like = power_like;
    for (uint32_t i = 0; i < count; i++) {
        const struct lull_grid_point *const point = &fitting.points[i];

        left_ms[i] = log(points[i].time_ms / model_ms(kernel_out, point, NULL)) -
                     expected_at(device, time_like, point);
        left_w[i] = log(points[i].power_w / model_w(device, kernel_out, point, 0.0)) -
                    expected_at(device, power_like, point);
    }
    lull_spread_fit(device->points, device->point_count, fitting.points, left_ms, count,
                    &kernel_out->time_spread);
    if (kernel_out->has_power)
        lull_spread_fit(device->points, device->point_count, fitting.points, left_w, count,
                        &kernel_out->power_spread);
}

void lull_fitted_probe(const struct lull_fitted_device *device,
                       const struct lull_fitted_point *points, uint32_t count,
                       struct lull_fitted_kernel *kernel_out)
{
    lull_fitted_probe_like(device, points, count, NULL, NULL, kernel_out);
}

/* ---- predictions --------------------------------------------------------------------------- */

static struct lull_fitted_range fitted_range_of(double value, const struct lull_error_bound *bound,
                                                double doubt)
{
    const double error = lull_error_bound_at(bound, doubt);

    return (struct lull_fitted_range){value, value * exp(-error), value * exp(error)};
}

struct lull_fitted_prediction lull_fitted_predict(const struct lull_fitted_device *device,
                                                  const struct lull_fitted_kernel *kernel,
                                                  double sm_mhz, double mem_mhz)
{
    static const struct lull_fitted_errors none = {{NAN, NAN}, {NAN, NAN}, {NAN, NAN}};
    const struct lull_grid_point point = fitted_point_at(device, sm_mhz, mem_mhz);
    const bool is_known = kernel->time_left != NULL;
    const bool is_measured = is_known && fitted_find_point(device, &point) < device->point_count;
    const struct lull_fitted_errors *errors = is_known ? &device->known : &device->probed;
    double doubt = 0.0;
    const double time_ms = model_ms(kernel, &point, is_known ? NULL : &doubt) *
                           exp(expected_at(device, kernel->time_left, &point) +
                               expected_at(device, kernel->time_like, &point) +
                               lull_spread_at(&kernel->time_spread, &point));
    double power_w = NAN;

    assert(lull_fitted_covers(device, sm_mhz, mem_mhz));
    if (kernel->has_power)
        power_w = model_w(device, kernel, &point, 0.0) *
                  exp(expected_at(device, kernel->power_left, &point) +
                      expected_at(device, kernel->power_like, &point) +
                      lull_spread_at(&kernel->power_spread, &point));
    if (is_measured)
        errors = &none;
    return (struct lull_fitted_prediction){
        .is_measured = is_measured,
        .doubt_ratio = doubt,
        .time_ms = fitted_range_of(time_ms, &errors->time, doubt),
        .power_w = fitted_range_of(power_w, &errors->power, 0.0),
        .energy_mj = fitted_range_of(time_ms * power_w, &errors->energy, doubt),
    };
}

/* ---- cross-validation errors --------------------------------------------------------------- */

/* Room for one error of each kernel and point. */
struct errors {
    double *time;
    double *power;
    double *energy;
    double *time_doubt; /* of the error of time in the same place */
    double *energy_doubt;
    double *power_doubt; /* 0 everywhere */
    size_t times;
    size_t powers;
};

static void note_error(struct errors *errors, double time_left, double power_left, double doubt)
{
    errors->time_doubt[errors->times] = doubt;
    errors->time[errors->times++] = fabs(time_left);
    if (isnan(power_left))
        return;
    errors->power[errors->powers] = fabs(power_left);
    errors->energy_doubt[errors->powers] = doubt;
    errors->energy[errors->powers++] = fabs(time_left + power_left);
}

static struct lull_fitted_errors summarise_known(struct errors *errors)
{
    return (struct lull_fitted_errors){
        lull_error_bound_same(errors->time, errors->times),
        lull_error_bound_same(errors->power, errors->powers),
        lull_error_bound_same(errors->energy, errors->powers),
    };
}

static struct lull_fitted_errors summarise_probed(struct errors *errors,
                                                  const struct lull_grid *grid)
{
    const struct lull_error_sample time = {errors->time, errors->time_doubt, errors->times};
    const struct lull_error_sample power = {errors->power, errors->power_doubt, errors->powers};
    const struct lull_error_sample energy = {errors->energy, errors->energy_doubt, errors->powers};

    return (struct lull_fitted_errors){
        lull_error_bound_new(&time, grid->kernel_count),
        lull_error_bound_new(&power, grid->powered_count),
        lull_error_bound_new(&energy, grid->powered_count),
    };
}

/* Writes the residuals of a fitted kernel at the points that it is fitted from. */
static void fill_left(const struct lull_fitted_device *device, struct fitting *fitting,
                      const struct lull_fitted_kernel *kernel, double without)
{
    for (uint32_t i = 0; i < fitting->grid.point_count; i++) {
        const struct lull_grid_point *const point = &fitting->points[i];

        fitting->left_ms[i] = log(fitting->times_ms[i] / model_ms(kernel, point, NULL));
        fitting->left_w[i] =
            kernel->has_power ? log(fitting->powers_w[i] / model_w(device, kernel, point, without))
                              : NAN;
    }
}

static double fitted_power_of(const struct lull_grid *grid, uint32_t kernel, uint32_t point)
{
    return kernel < grid->powered_count ? lull_grid_powers(grid, kernel)[point] : NAN;
}

/* Adds all points of a kernel except those of one clock; 0: all. */
static void fitted_add_points(const struct lull_fitted_device *device, const struct lull_grid *grid,
                              uint32_t kernel, double without, struct fitting *fitting)
{
    begin_fitting(fitting);
    for (uint32_t i = 0; i < grid->point_count; i++)
        if (grid->points[i].sm_mhz != without)
            fitted_add_point(device, fitting, &grid->points[i], without,
                             lull_grid_times(grid, kernel)[i], fitted_power_of(grid, kernel, i));
}

/* Judges a known kernel at a clock that it is fitted without. */
static void judge_clock(const struct lull_fitted_device *device, const struct lull_grid *grid,
                        uint32_t kernel, double sm_mhz, struct fitting *fitting,
                        struct errors *errors)
{
    struct lull_fitted_kernel fitted;

    fitted_add_points(device, grid, kernel, sm_mhz, fitting);
    fitted_fit(fitting, &fitted);
    fill_left(device, fitting, &fitted, sm_mhz);
    for (uint32_t i = 0; i < grid->point_count; i++) {
        const struct lull_grid_point *const point = &grid->points[i];
        const uint32_t count = fitting->grid.point_count;
        double power_left = NAN;

        if (point->sm_mhz != sm_mhz)
            continue;
        if (fitted.has_power)
            power_left =
                log(fitted_power_of(grid, kernel, i) / model_w(device, &fitted, point, sm_mhz)) -
                left_at(device, fitting->points, fitting->left_w, count, point);
        note_error(errors,
                   log(lull_grid_times(grid, kernel)[i] / model_ms(&fitted, point, NULL)) -
                       left_at(device, fitting->points, fitting->left_ms, count, point),
                   power_left, 0.0);
    }
}

static void judge_known(const struct lull_fitted_device *device, const struct lull_grid *grid,
                        struct fitting *fitting, struct errors *errors)
{
    double before = first_of(device)->sm_mhz;

    for (uint32_t i = 0; i < grid->point_count; i++) {
        const double sm_mhz = grid->points[i].sm_mhz;

        if (sm_mhz == before || sm_mhz == fitted_last_of(device)->sm_mhz)
            continue;
        for (uint32_t kernel = 0; kernel < grid->kernel_count; kernel++)
            judge_clock(device, grid, kernel, sm_mhz, fitting, errors);
        before = sm_mhz;
    }
}

static bool is_among(const uint32_t *points, uint32_t count, uint32_t point)
{
    for (uint32_t i = 0; i < count; i++)
        if (points[i] == point)
            return true;
    return false;
}

/* Judges a kernel that is fitted from its probes, with the curve of the others; *other is a copy
 * of the device that the curve is written to. */
static void judge_probed(struct lull_fitted_device *other, const struct lull_grid *grid,
                         uint32_t kernel, struct errors *errors)
{
    struct lull_fitted_point points[LULL_GRID_PROBES];
    uint32_t probes[LULL_GRID_PROBES];
    const uint32_t count = lull_grid_probe_middle(grid, probes);
    struct lull_fitted_kernel fitted;

    lull_power_curve_fit(grid, kernel < grid->powered_count ? kernel : grid->powered_count,
                         &other->curve);
    for (uint32_t i = 0; i < count; i++)
        points[i] = (struct lull_fitted_point){
            grid->points[probes[i]].sm_mhz, grid->points[probes[i]].mem_mhz,
            lull_grid_times(grid, kernel)[probes[i]], fitted_power_of(grid, kernel, probes[i])};
    lull_fitted_probe(other, points, count, &fitted);
    for (uint32_t i = 0; i < grid->point_count; i++) {
        const struct lull_fitted_prediction predicted =
            lull_fitted_predict(other, &fitted, grid->points[i].sm_mhz, grid->points[i].mem_mhz);

        if (!is_among(probes, count, i))
            note_error(errors, log(lull_grid_times(grid, kernel)[i] / predicted.time_ms.value),
                       log(fitted_power_of(grid, kernel, i) / predicted.power_w.value),
                       predicted.doubt_ratio);
    }
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* Copies the stored data of a known kernel. */
static void fitted_copy_kernel(struct lull_fitted_device *device, const struct fitting *fitting,
                               uint32_t kernel)
{
    const size_t size = device->point_count * sizeof(double);
    struct lull_fitted_kernel *const kept = &device->kernels[kernel];

    memcpy(kept->time_left, fitting->left_ms, size);
    memcpy(kept->power_left, fitting->left_w, size);
}

static int fitted_take_memory(const struct lull_grid *grid, struct lull_fitted_device *device)
{
    const size_t points = grid->point_count;

    device->points = malloc(points * sizeof(*device->points));
    device->kernels = calloc(grid->kernel_count, sizeof(*device->kernels));
    if (device->points == NULL || device->kernels == NULL)
        return -ENOMEM;
    memcpy(device->points, grid->points, points * sizeof(*device->points));
    device->point_count = grid->point_count;
    device->kernel_count = grid->kernel_count;
    for (uint32_t k = 0; k < grid->kernel_count; k++) {
        device->kernels[k].time_left = malloc(points * sizeof(double));
        device->kernels[k].power_left = malloc(points * sizeof(double));
        if (device->kernels[k].time_left == NULL || device->kernels[k].power_left == NULL)
            return -ENOMEM;
    }
    return 0;
}

static void fit_all(const struct lull_grid *grid, struct fitting *fitting, struct errors *errors,
                    struct lull_fitted_device *device)
{
    struct lull_fitted_device other;

    device->base = grid->base;
    device->has_curve = grid->powered_count > 0;
    lull_power_curve_fit(grid, grid->powered_count, &device->curve);
    for (uint32_t k = 0; k < grid->kernel_count; k++) {
        struct lull_fitted_kernel *const kernel = &device->kernels[k];
        struct lull_fitted_kernel fitted;

        fitted_add_points(device, grid, k, 0.0, fitting);
        fitted_fit(fitting, &fitted);
        fill_left(device, fitting, &fitted, 0.0);
        fitted.time_left = kernel->time_left;
        fitted.power_left = kernel->power_left;
        fitted.doubt = (struct lull_time_doubt){0};
        *kernel = fitted;
        fitted_copy_kernel(device, fitting, k);
    }
    judge_known(device, grid, fitting, errors);
    device->known = summarise_known(errors);
    errors->times = errors->powers = 0;
    other = *device;
    for (uint32_t k = 0; k < grid->kernel_count; k++)
        judge_probed(&other, grid, k, errors);
    device->probed = summarise_probed(errors, grid);
}

int lull_fitted_make(const struct lull_grid *grid, struct lull_fitted_device *device_out)
{
    const size_t cells = (size_t)grid->kernel_count * grid->point_count;
    struct lull_memory memory = {0};
    struct fitting *const fitting = lull_memory_take(&memory, 1, sizeof(*fitting));
    double *const shapes =
        lull_memory_take(&memory, (size_t)grid->point_count * LULL_TIME_SHAPES, sizeof(*shapes));
    struct errors errors = {
        .time = lull_memory_take(&memory, cells, sizeof(double)),
        .power = lull_memory_take(&memory, cells, sizeof(double)),
        .energy = lull_memory_take(&memory, cells, sizeof(double)),
        .time_doubt = lull_memory_take(&memory, cells, sizeof(double)),
        .power_doubt = lull_memory_take(&memory, cells, sizeof(double)),
        .energy_doubt = lull_memory_take(&memory, cells, sizeof(double)),
    };
    int rc = -ENOMEM;

    assert(grid->kernel_count > 0 && grid->point_count >= 2);
    *device_out = (struct lull_fitted_device){0};
    if (memory.has_failed || fitted_take_memory(grid, device_out) < 0)
        goto free_memory;
    fitting->shapes = shapes;
    fit_all(grid, fitting, &errors, device_out);
    rc = 0;
free_memory:
    lull_memory_free(&memory);
    if (rc < 0)
        lull_fitted_fini(device_out);
    return rc;
}

void lull_fitted_fini(struct lull_fitted_device *device)
{
    for (uint32_t k = 0; device->kernels != NULL && k < device->kernel_count; k++) {
        free(device->kernels[k].time_left);
        free(device->kernels[k].power_left);
    }
    free(device->kernels);
    free(device->points);
    *device = (struct lull_fitted_device){0};
}
