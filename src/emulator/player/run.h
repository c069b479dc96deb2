/*
 * Plays a play on the emulated node in real time. Each rank is a process with two threads: one
 * enqueues ahead of its GPU through the emulated NCCL, as a program does, and one is the GPU's
 * side.
 *
 * Rank i uses GPU i of the node. If a rank waits for others its kernel spins. All times follow the
 * node's virtual time. If Lull has no emulated NCCL the operations still run, but no probe sees
 * them.
 *
 * Threads: the calling process must have a single thread, because it forks.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PLAYER_RUN_H
#define LULL_EMULATOR_PLAYER_RUN_H

#include "emulator/player/play.h"

/* The true values of one rank's GPU. */
struct lull_play_outcome {
    uint64_t iterations;
    double iteration_mean_ms; /* in virtual time, as all times here */
    double iteration_p50_ms;
    double iteration_p99_ms;
    double span_ms;
    double energy_j;
    uint64_t compute_ops;     /* number of compute operations that ended, each one kernel or more */
    uint64_t compute_ops_low; /* those that began, or had kernels begin, on a lowered clock */
    uint64_t iterations_low;  /* number of iterations with at least one of those */
};

/* Length of a play: as many periods as cover this many iterations, or this many seconds at the
 * highest clock. The other one is 0. */
struct lull_play_length {
    uint64_t iterations;
    double seconds;
};

/*
 * Plays a finished play; outcomes has play->rank_count elements. Errors: LULL_E_NO_DEVICE: there is
 * no emulated node, or it has fewer GPUs than ranks; -EDEADLK as lull_play_sim_run(); -ECHILD: a
 * rank's process failed; -ENOMEM; -errno.
 */
int lull_play_run(const struct lull_play *play, const struct lull_play_length *length,
                  struct lull_play_outcome *outcomes, struct lull_error *err);

#endif
