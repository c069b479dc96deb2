/*
 * Plays a play in virtual time: each rank has a nominal GPU with the emulated node's physics; there
 * are no processes and nothing waits. Deterministic. Threads: a simulation belongs to one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PLAYER_SIM_H
#define LULL_EMULATOR_PLAYER_SIM_H

#include "emulator/player/enqueue.h"

struct lull_play_sim; /* opaque */

/* An observer, which may also request clocks from the GPUs. Either function may be NULL. */
struct lull_play_observer {
    /* Called with each event of a rank when all GPUs have been advanced to its time. */
    void (*event)(void *context, uint32_t rank, const struct lull_play_event *event);
    /* Returns the latest time of the next call; LULL_PHYSICS_NEVER: there is none. */
    int64_t (*timer)(void *context, int64_t now_ns);
    void *context;
};

/* Borrows the finished play until destroy. Errors: -ENOMEM. */
int lull_play_sim_create(const struct lull_play *play, const struct lull_gpu_model *model,
                         uint64_t periods, struct lull_play_sim **sim_out, struct lull_error *err);

/* The start of a rank that does not take part. No other rank may wait for it. */
#define LULL_PLAY_ABSENT INT64_MAX

/* The same, but rank i begins at the virtual time starts_ns[i] >= 0, or is absent. */
int lull_play_sim_create_at(const struct lull_play *play, const struct lull_gpu_model *model,
                            uint64_t periods, const int64_t starts_ns[LULL_PLAY_RANKS],
                            struct lull_play_sim **sim_out, struct lull_error *err);
void lull_play_sim_destroy(struct lull_play_sim *sim);

/* The GPU of a rank. */
struct lull_physics *lull_play_sim_gpu(struct lull_play_sim *sim, uint32_t rank);

/* Runs to the end. Errors: -EDEADLK: the ranks wait for each other forever. */
int lull_play_sim_run(struct lull_play_sim *sim, const struct lull_play_observer *observer,
                      struct lull_error *err);

/* The begin and end of one operation in a period of a run at the highest clock, in ns from the
 * first begin of any rank in that period. */
struct lull_play_span {
    int64_t begin_ns;
    int64_t end_ns;
};

/*
 * Records a settled period with each rank at its step of the clock list: spans_out[rank] is
 * an array of the rank's operations, which the caller frees; *period_ns_out its length. Errors:
 * -EDEADLK; -ENOMEM.
 */
int lull_play_sim_spans(const struct lull_play *play, const struct lull_gpu_model *model,
                        const uint32_t clock_steps[LULL_PLAY_RANKS],
                        struct lull_play_span *spans_out[LULL_PLAY_RANKS], int64_t *period_ns_out,
                        struct lull_error *err);

#endif
