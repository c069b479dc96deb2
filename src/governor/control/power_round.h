/*
 * Adds up the power of a job's GPUs, which the sampler reads one after the other in the order of
 * their indices. GPUs come and go, and a reading may fail. Caller's storage, zero-initialised.
 * Threads: one at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_CONTROL_POWER_ROUND_H
#define LULL_GOVERNOR_CONTROL_POWER_ROUND_H

#include <stdbool.h>
#include <stdint.h>

struct lull_power_round {
    double sum_w;  /* of the GPUs read in the present round */
    uint64_t read; /* bits: these */
    uint64_t all;  /* bits: those of the round before */
};

/* Takes the power of a GPU, 0..63, W. Returns true once all GPUs of the previous round have been
 * read again; sum_w is then their total power. */
bool lull_power_round_take(struct lull_power_round *round, uint32_t gpu, double power_w);

#endif
