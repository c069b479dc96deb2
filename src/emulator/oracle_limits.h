/*
 * The oracle of power limits computes the length and the energy of an iteration of a periodic job
 * under each power limit. The job runs a compute kernel on each of n GPUs at the same time and then
 * pauses. It is simulated in virtual time by the physics of the emulated node until heat and
 * limiter have settled. Units differ as those of a node with that seed do. Hopper's power plateaus,
 * which last for seconds and average out, are left out.
 *
 * Deterministic. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_ORACLE_LIMITS_H
#define LULL_EMULATOR_ORACLE_LIMITS_H

#include <stdint.h>

#include "base/error.h"
#include "emulator/gpu_model.h"

struct lull_oracle_limit_job {
    const struct lull_gpu_model *model;
    uint32_t gpus;       /* 1..64 */
    uint64_t seed;       /* the node's seed, as in struct lull_node_spec */
    double compute_ms;   /* at fmax, > 0 */
    double wait_ms;      /* pause after the kernel of the last GPU has ended, >= 0 */
    const char *profile; /* as lull_gpu_model_profile() */
};

/* A limit and what an iteration takes under it, on average. */
struct lull_oracle_limit {
    double limit_w; /* the limit of each GPU */
    double time_s;
    double energy_j; /* sum over the GPUs, as their counters report it */
};

/*
 * Fills in time and energy of limits[], whose limit_w the caller has set within the model's range.
 * Takes milliseconds for each limit. Errors: -EINVAL a number is out of its range; -ENOMEM.
 */
int lull_oracle_ask_limits(const struct lull_oracle_limit_job *job,
                           struct lull_oracle_limit *limits, uint32_t count,
                           struct lull_error *err);

#endif
