/*
 * One rank of a running play, in its own process. Only run.c includes this.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PLAYER_RANK_H
#define LULL_EMULATOR_PLAYER_RANK_H

#include <stdatomic.h>

#include "emulator/player/nccl.h"
#include "emulator/player/run.h"

/* Shared by the processes of a play; the meetings follow after it in memory. */
struct lull_play_shared {
    _Atomic uint32_t ready; /* number of ranks that have their GPU and communicators */
    struct {
        _Atomic bool is_set;
        struct lull_play_nccl_id id;
    } ids[LULL_PLAY_COMMUNICATORS];
    int contexts[LULL_PLAY_RANKS]; /* context of each rank on its GPU; valid when all are ready */
    struct lull_play_outcome outcomes[LULL_PLAY_RANKS];
    struct lull_error errors[LULL_PLAY_RANKS];
};

struct lull_play_part {
    const struct lull_play *play;
    uint32_t rank;
    uint64_t periods;
    /* For each operation of the rank, the distance back to the operation that
     * must have started before the host enqueues it; 0: it need not wait. */
    const uint32_t *gates;
    struct lull_play_shared *shared;
    void *collectives;
};

/* Plays the part and leaves the outcome in the shared memory. Errors: as lull_play_run(). */
int lull_play_rank(const struct lull_play_part *part, struct lull_error *err);

#endif
