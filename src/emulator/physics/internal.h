/*
 * Shared by the files of the physics: physics.c (time and events), kernel_queue.c (kernels,
 * transfers, power), activity.c (use of the units) and publish.c (readings). No other process
 * includes this. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PHYSICS_INTERNAL_H
#define LULL_EMULATOR_PHYSICS_INTERNAL_H

#include "emulator/physics/physics.h"

/* Integrates the state up to time_ns; there must be no event in between. */
void lull_physics_fold(struct lull_physics *gpu, int64_t time_ns);

/* Computes clock, rates, power and next event after any change at folded_ns. */
void lull_physics_update(struct lull_physics *gpu);

/* Computes the next event if no rate has changed since the last
 * update, which was at the same time. */
void lull_physics_foresee(struct lull_physics *gpu);

/* The highest clock that power and heat allow at folded_ns, whatever has been locked. */
double lull_physics_allowed_mhz(const struct lull_physics *gpu);

/* Advances running work by dt_s >= 0 at the present rates. */
void lull_physics_fold_work(struct lull_physics *gpu, double dt_s);

/* Returns whether any compute kernel runs. */
bool lull_physics_has_kernel(const struct lull_physics *gpu);

/* Ends kernels and transfers that are finished and starts the next ones. */
void lull_physics_finish_work(struct lull_physics *gpu);

/* Computes speeds and end times of kernels and transfers at the present clock. */
void lull_physics_update_work(struct lull_physics *gpu);

/* The rate of a kernel's transfer at the present clock, GB/s. */
double lull_physics_kernel_gbs(const struct lull_physics *gpu,
                               const struct lull_physics_kernel *kernel);

/* Computes how fast the units work at the present rates, and adds dt_s >= 0 of that. */
void lull_physics_update_activity(struct lull_physics *gpu);
void lull_physics_fold_activity(struct lull_physics *gpu, double dt_s);

/* Ends a period of the utilisation. */
void lull_physics_refresh_use(struct lull_physics *gpu, int64_t period_ns);

/* Computes when work will begin or end at these rates. */
void lull_physics_foresee_work(struct lull_physics *gpu);

/* The settled power of the present load at a clock, with unit factor and plateau. */
double lull_physics_load_w(const struct lull_physics *gpu, double mhz);

/* The highest clock at which the present load draws at most limit_w. */
double lull_physics_static_mhz(const struct lull_physics *gpu, double limit_w);

/* Refreshes the readings that are due at folded_ns. */
void lull_physics_publish(struct lull_physics *gpu);
void lull_physics_init_publishing(struct lull_physics *gpu);

#endif
