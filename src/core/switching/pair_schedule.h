/*
 * Chooses the iterations that run at the reference and those that run at the candidate, in an order
 * decided by coins.
 *
 * Iterations are counted from the start of a trial. A pair is one block at the reference and
 * candidate_blocks at the candidate, all of one length; a seeded coin says which of its blocks is
 * the reference. Hence no other cause of slowdowns, in any rhythm, favours one side (guard.h). For
 * the same reason the blocks of one of every two pairs, chosen by another coin, are an iteration
 * longer: no periodic event falls on the same place of all blocks.
 *
 * The first iteration after every change is not measured, because it still carries the switch from
 * the other side; if the effect lasts longer, some more are not measured. All of this is a pure
 * function of numbers: ranks and nodes that count alike act alike without a message.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_PAIR_SCHEDULE_H
#define LULL_CORE_SWITCHING_PAIR_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct lull_pair_schedule {
    uint32_t block_iterations; /* measured at least per block, >= 1 */
    uint32_t candidate_blocks; /* per pair, >= 1 */
    uint64_t seed;             /* of the coins */
    uint32_t washout;          /* unmeasured iterations after a change, besides the first one */
};

struct lull_pair_slot {
    uint32_t pair;    /* 0, 1, ... */
    uint64_t offset;  /* of the iteration in the schedule */
    uint64_t block;   /* of the pair, 0, 1, ... */
    bool candidate;   /* at the candidate, else at the reference */
    bool measured;    /* false: an iteration right after a change */
    bool pair_ends;   /* this is the pair's last iteration */
    uint64_t lowered; /* iterations of this pair at the candidate before this one */
};

/* Returns the slot of iteration number `iteration` (from 0) in a trial. O(1). */
struct lull_pair_slot lull_pair_slot(const struct lull_pair_schedule *schedule, uint64_t iteration);

/* Iterations of two pairs. The lengths of pairs repeat after this many iterations. O(1). */
uint64_t lull_pair_schedule_round(const struct lull_pair_schedule *schedule);

/* The first iteration of a pair. O(1). */
uint64_t lull_pair_schedule_begin(const struct lull_pair_schedule *schedule, uint32_t pair);

#endif
