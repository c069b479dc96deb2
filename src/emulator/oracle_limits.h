/*
 * What each power limit makes of a periodic job, settled: a compute kernel on each of n GPUs at the
 * same time, then a while without one, simulated in virtual time by the physics of the emulated
 * node until heat and limiter have come to rest. Units differ as those of a node with that seed do;
 * Hopper's plateaus of power, which last for seconds and average out, are left away.
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
    uint64_t seed;       /* of the node, as of struct lull_node_spec */
    double compute_ms;   /* at fmax, > 0 */
    double wait_ms;      /* after the kernel of the last GPU has ended, >= 0 */
    const char *profile; /* as lull_gpu_model_profile() */
};

/* One limit; means of one iteration. */
struct lull_oracle_limit {
    double limit_w; /* of each GPU */
    double time_s;
    double energy_j; /* of all GPUs, as their counters tell it */
};

/*
 * Fills in time and energy of limits[], whose limit_w are given, within the model's range. Errors:
 * -EINVAL a number out of range; -ENOMEM. Takes milliseconds for each limit.
 */
int lull_oracle_ask_limits(const struct lull_oracle_limit_job *job,
                           struct lull_oracle_limit *limits, uint32_t count,
                           struct lull_error *err);

#endif
