/*
 * Shared by the files of the physics: physics.c (time and events), physics_work.c (kernels,
 * transfers, power), physics_publish.c (readings). Nobody else includes this.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PHYSICS_INTERNAL_H
#define LULL_EMULATOR_PHYSICS_INTERNAL_H

#include "emulator/physics/physics.h"

/* Integrates up to time_ns; there must be no event between. */
void lull_physics_fold(struct lull_physics *gpu, int64_t time_ns);

/* Works out clock, rates, power and next event after any change at folded_ns. */
void lull_physics_update(struct lull_physics *gpu);

/* The clock that limits of power and heat allow at folded_ns, whatever has been locked. */
double lull_physics_allowed_mhz(const struct lull_physics *gpu);

/* Works off what runs, for dt_s at the present rates; dt_s may be 0. */
void lull_physics_fold_work(struct lull_physics *gpu, double dt_s);

/* Whether any compute kernel runs. */
bool lull_physics_has_kernel(const struct lull_physics *gpu);

/* Takes finished kernels and transfers out; starts the next ones. */
void lull_physics_finish_work(struct lull_physics *gpu);

/* Speeds and end times of kernels and transfers at the present clock. */
void lull_physics_update_work(struct lull_physics *gpu);

/* Finds out when work will begin or end at these rates. */
void lull_physics_foresee_work(struct lull_physics *gpu);

/* Settled power of the present load at a clock, with unit factor and plateau. */
double lull_physics_load_w(const struct lull_physics *gpu, double mhz);

/* The highest clock at which the present load draws at most limit_w. */
double lull_physics_static_mhz(const struct lull_physics *gpu, double limit_w);

/* Readings that fall due at folded_ns. */
void lull_physics_publish(struct lull_physics *gpu);
void lull_physics_init_publishing(struct lull_physics *gpu);

#endif
