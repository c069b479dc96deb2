/*
 * The oracle's calls to a node's driver, which serves one at a time. An oracle that knows all gaps
 * beforehand knows the driver's queue as well: raisings that fall together are made one after the
 * other and all in time. A lowering is left out where it would delay a raising, or where the time
 * that its GPU gains on the low clock is no longer than the time that other GPUs lose because they
 * are raised earlier for its sake.
 *
 * Caller's storage. Times are ns of the simulation. Threads: a queue belongs to one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_ORACLE_QUEUE_H
#define LULL_EMULATOR_ORACLE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/player/play.h"
#include "emulator/player/sim.h"

/* The calls of one rank. A time of LULL_PHYSICS_NEVER means that none is planned. */
struct lull_oracle_calls {
    int64_t lower_ns;       /* when the lowering is planned to begin */
    int64_t raise_after_ns; /* latest begin of the raising that ends that lowering */
    uint32_t step;          /* the clock step that the lowering requests */
    bool is_low;            /* the lowering has started and the raising has not */
    int64_t raise_ns;       /* latest begin of the raising that is due now */
    int64_t ends_ns;        /* when the call under way returns */
    uint32_t made_step;     /* the step that the call under way requests */
};

struct lull_oracle_queue {
    struct lull_play_sim *sim;
    const struct lull_gpu_model *model;
    uint32_t ranks;
    uint32_t top_step;
    uint32_t below[LULL_PLAY_RANKS]; /* each rank runs this many steps below all requests */
    bool is_shared;      /* false: each rank has a driver of its own, so no call waits */
    int64_t call_ns;     /* planned length of a call */
    int64_t min_gain_ns; /* time on the low clock that a lowering must gain, summed over the node */
    uint64_t random;     /* generator of the calls' durations */
    int64_t idle_until_ns; /* nothing happens earlier unless something is planned */
    struct lull_oracle_calls calls[LULL_PLAY_RANKS];
};

/* The step at which the rank runs when this one is requested; 0 at least. */
uint32_t lull_oracle_queue_step(const struct lull_oracle_queue *queue, uint32_t rank,
                                uint32_t step);

/* Forgets every call. The other fields belong to the caller and stay. */
void lull_oracle_queue_reset(struct lull_oracle_queue *queue);

/* Plans a lowering at at_ns; it replaces one that was planned and has not begun. */
void lull_oracle_queue_lower(struct lull_oracle_queue *queue, uint32_t rank, int64_t at_ns,
                             uint32_t step, int64_t raise_ns);

/* Returns the latest time at which the rank must be raised, whether it is low already or about to
 * be lowered. */
void lull_oracle_queue_raise(struct lull_oracle_queue *queue, uint32_t rank, int64_t raise_ns);

/* Begins the calls that are due and applies those that have returned to their GPUs. Returns the
 * next time at which there is something to do. */
int64_t lull_oracle_queue_serve(struct lull_oracle_queue *queue, int64_t now_ns);

#endif
