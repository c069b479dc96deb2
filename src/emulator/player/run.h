/*
 * A play on the emulated node in real time: one process per rank, each with a thread that enqueues
 * ahead of its GPU through the emulated NCCL, as a program does, and one that is the GPU's side.
 *
 * Ranks use the GPUs of the node in their order. Where one waits for others its kernel spins. All
 * times follow the node's virtual time. Without an emulated NCCL beside Lull the operations run all
 * the same, only nobody is told.
 *
 * Threads: the calling process must have one only; it forks.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PLAYER_RUN_H
#define LULL_EMULATOR_PLAYER_RUN_H

#include "emulator/player/play.h"

/* What one rank's GPU really did. */
struct lull_play_outcome {
    uint64_t iterations;
    double iteration_mean_ms; /* virtual, as all times */
    double iteration_p50_ms;
    double iteration_p99_ms;
    double span_ms;
    double energy_j;
    uint64_t compute_ops;     /* operations of compute that began, each one kernel or more */
    uint64_t compute_ops_low; /* that began, or had kernels begin, on a lowered clock */
    uint64_t iterations_low;  /* with at least one of those */
};

/* As many periods as cover so many iterations, or seconds at the highest clock; the other is 0. */
struct lull_play_length {
    uint64_t iterations;
    double seconds;
};

/*
 * Plays a finished play; outcomes has play->rank_count elements. Errors: LULL_E_NO_DEVICE not on an
 * emulated node, or fewer GPUs than ranks; -EDEADLK as lull_play_sim_run(); -ECHILD a rank's
 * process failed; -ENOMEM; -errno.
 */
int lull_play_run(const struct lull_play *play, const struct lull_play_length *length,
                  struct lull_play_outcome *outcomes, struct lull_error *err);

#endif
