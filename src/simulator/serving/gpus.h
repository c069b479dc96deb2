/*
 * The GPUs of one tensor-parallel server in virtual time: nominal units with the emulated node's
 * physics, behind the node's slow driver (simulator/driver.h). Calls for them come one after the
 * other, and each clock settles by itself. A step ends when the slowest GPU has ended it; the
 * others wait idle.
 *
 * While all clocks are equal, all GPUs do the same, so only the first one is simulated.
 *
 * Deterministic. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_SERVING_GPUS_H
#define LULL_SIMULATOR_SERVING_GPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/server/step.h"

enum { LULL_SERVING_GPUS = 8 }; /* at most */

struct lull_serving_gpus;

/* Creates 1 to LULL_SERVING_GPUS of them at time 0, with a model loaded. NULL: no memory. */
struct lull_serving_gpus *lull_serving_gpus_create(const struct lull_gpu_model *model,
                                                   uint32_t count, uint64_t seed);
void lull_serving_gpus_destroy(struct lull_serving_gpus *gpus); /* NULL is allowed */

/* Sets the clock of all GPUs at once, without a call. */
void lull_serving_gpus_set(struct lull_serving_gpus *gpus, double mhz, int64_t now_ns);

/* Sets the power limit of each GPU. */
void lull_serving_gpus_limit(struct lull_serving_gpus *gpus, double limit_w);

/* Requests a clock from the driver for all GPUs. */
void lull_serving_gpus_ask(struct lull_serving_gpus *gpus, double mhz, int64_t now_ns);

/* Begins a step; there must be none. */
void lull_serving_gpus_begin(struct lull_serving_gpus *gpus, const struct lull_step_cost *cost,
                             int64_t now_ns);

/* Advances to now, which is at most next_ns(). Returns whether a step ends now. */
bool lull_serving_gpus_advance(struct lull_serving_gpus *gpus, int64_t now_ns);

/* The latest time of the next advance; INT64_MAX: none is needed. */
int64_t lull_serving_gpus_next_ns(const struct lull_serving_gpus *gpus);

bool lull_serving_gpus_is_busy(const struct lull_serving_gpus *gpus); /* with a step */

/* The clock that is in force on all GPUs since *since_ns_out; NAN: they differ. */
double lull_serving_gpus_mhz(const struct lull_serving_gpus *gpus, int64_t *since_ns_out);

/* Energy of all GPUs since time 0, J, after an advance to now: true, and by the counters. */
double lull_serving_gpus_energy_j(const struct lull_serving_gpus *gpus);
double lull_serving_gpus_counted_j(struct lull_serving_gpus *gpus);

/* The number of driver calls. */
uint64_t lull_serving_gpus_calls(const struct lull_serving_gpus *gpus);

#endif
