/*
 * Models of time and power of a device and its kernels, fitted once, which predict any clock in the
 * range that was measured, with intervals.
 *
 * A known kernel was measured at all points of the grid: its time model (time_model.h), its power
 * by the device's curve (power_model.h), and the residuals of both at the measured points, which
 * are interpolated over the clocks between (Nadaraya 1964, Watson 1964). A probed kernel, or a
 * whole iteration of a job, has a few points measured; the curve is the device's, and the models'
 * residuals at these points are spread over the clocks near them (spread.h).
 *
 * Intervals are quantiles of errors on data that a model had not seen. For known kernels each SM
 * clock but the lowest and the highest is left out in turn; for probed ones each kernel is left
 * out, fitted from the probes of grid.h, and judged at its other points; where the shapes of its
 * time disagree the interval is wider (error_bound.h). (The curve of a clock that is left out is
 * interpolated, but its neighbours were found with it.)
 *
 * Pure; memory as said; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_FITTED_H
#define LULL_LAB_CORE_FITTED_H

#include <stdbool.h>
#include <stdint.h>

#include "lab/core/error_bound.h"
#include "lab/core/grid.h"
#include "lab/core/power_model.h"
#include "lab/core/spread.h"
#include "lab/core/time_model.h"

/* Errors, as |log(measured / predicted)|, that are not exceeded; NAN: unknown, because no kernel
 * could be left out. */
struct lull_fitted_errors {
    struct lull_error_bound time;
    struct lull_error_bound power;
    struct lull_error_bound energy;
};

/* The measurements at one point. */
struct lull_fitted_point {
    double sm_mhz;  /* > 0 */
    double mem_mhz; /* > 0 */
    double time_ms; /* of a launch or an iteration; > 0 */
    double power_w; /* > 0, or NAN: not measured */
};

struct lull_fitted_kernel {
    struct lull_time_model time;
    struct lull_power_model power;
    bool has_power;
    /* The residuals at the points of the device, log(measured / predicted); NULL: probed */
    double *time_left;
    double *power_left;
    /* Of a probed kernel; zero for a known one. Expected residuals: see lull_fitted_probe_like. */
    const double *time_like;
    const double *power_like;
    struct lull_time_doubt doubt;
    struct lull_spread time_spread;
    struct lull_spread power_spread;
};

struct lull_fitted_device {
    uint32_t point_count;           /* 2..LULL_GRID_POINTS */
    struct lull_grid_point *points; /* by SM clock, then memory clock, rising */
    uint32_t base;                  /* the point to which savings are relative */
    struct lull_power_curve curve;
    bool has_curve; /* it is fitted to kernels with power */
    uint32_t kernel_count;
    struct lull_fitted_kernel *kernels;
    struct lull_fitted_errors known;
    struct lull_fitted_errors probed;
};

/* The most likely value of each, and the ends of its interval; NAN: unknown. */
struct lull_fitted_range {
    double value;
    double low;
    double high;
};

struct lull_fitted_prediction {
    double doubt_ratio; /* standard deviation over the shapes of time; 0 of a known kernel */
    bool is_measured;   /* a known kernel at a measured point: no model, hence no intervals */
    struct lull_fitted_range time_ms; /* of a launch */
    struct lull_fitted_range power_w;
    struct lull_fitted_range energy_mj; /* of a launch */
};

/* Fits a device from its grid, whose kernels keep their order. Returns 0, or -ENOMEM with nothing
 * kept. Free with lull_fitted_fini. O(kernels^2 points). */
int lull_fitted_make(const struct lull_grid *grid, struct lull_fitted_device *device_out);
void lull_fitted_fini(struct lull_fitted_device *device);

/* Returns whether the clocks are within the measured range of the device. */
bool lull_fitted_covers(const struct lull_fitted_device *device, double sm_mhz, double mem_mhz);

/* Fits a kernel, or a job's iteration, from `count` (1..LULL_GRID_PROBES) points. It has power
 * where all of them have. It owns no memory, and nothing is allocated. */
void lull_fitted_probe(const struct lull_fitted_device *device,
                       const struct lull_fitted_point *points, uint32_t count,
                       struct lull_fitted_kernel *kernel_out);

/* The same with corrections from similar kernels: the log(measured / predicted) of time and of
 * power expected at the device's points (similarity.h); null: no correction. Both are borrowed as
 * long as the kernel is used. */
void lull_fitted_probe_like(const struct lull_fitted_device *device,
                            const struct lull_fitted_point *points, uint32_t count,
                            const double *time_like, const double *power_like,
                            struct lull_fitted_kernel *kernel_out);

/* Predicts a kernel at clocks within the measured range. For a
 * known kernel at a point of the device this is the measurement. */
struct lull_fitted_prediction lull_fitted_predict(const struct lull_fitted_device *device,
                                                  const struct lull_fitted_kernel *kernel,
                                                  double sm_mhz, double mem_mhz);

#endif
