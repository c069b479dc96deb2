/*
 * The oracle's calls to a node's driver, which makes one at a time. Who knows all gaps beforehand
 * knows the queue as well: raisings that fall together are made one after the other and all in
 * time, and a lowering is left out where it would hold one up, or where its GPU is low for no
 * longer than others lose by being raised earlier for it.
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

struct lull_oracle_calls { /* of one rank; LULL_PHYSICS_NEVER: not planned */
    int64_t lower_ns;
    int64_t raise_after_ns; /* latest begin of the raising that goes with that lowering */
    uint32_t step;          /* to which */
    bool is_low;            /* its lowering's call has begun, that of its raising has not */
    int64_t raise_ns;       /* its latest begin */
    int64_t ends_ns;        /* of the call under way */
    uint32_t made_step;     /* that it asks for */
};

struct lull_oracle_queue {
    struct lull_play_sim *sim;
    const struct lull_gpu_model *model;
    uint32_t ranks;
    uint32_t top_step;
    bool is_shared;        /* false: each rank has a driver of its own, none ever waits */
    int64_t call_ns;       /* that a call is taken to last */
    int64_t least_gain_ns; /* time low that a lowering must win for the node */
    uint64_t random;       /* of the calls' lengths */
    struct lull_oracle_calls calls[LULL_PLAY_RANKS];
};

/* Forgets every call; the other fields are the caller's. */
void lull_oracle_queue_reset(struct lull_oracle_queue *queue);

/* Plans a lowering, instead of the one that was planned and has not begun. */
void lull_oracle_queue_lower(struct lull_oracle_queue *queue, uint32_t rank, int64_t at_ns,
                             uint32_t step, int64_t raise_ns);

/* Now it is known when the rank is to be raised, be it low already or about to be. */
void lull_oracle_queue_raise(struct lull_oracle_queue *queue, uint32_t rank, int64_t raise_ns);

/* Makes the calls that are due, and asks the GPU for what those that return were for; the next
 * time there is something to do. */
int64_t lull_oracle_queue_serve(struct lull_oracle_queue *queue, int64_t now_ns);

#endif
