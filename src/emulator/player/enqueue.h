/*
 * Runs the play of one rank: enqueues the operations on a GPU and reports their events. It has no
 * clock and no I/O, so it works the same in real and in virtual time.
 *
 * Work numbers: operation i of period p is number p * count + i, and has the same number in the
 * GPU's context, which must be new. Threads: one at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_PLAYER_ENQUEUE_H
#define LULL_EMULATOR_PLAYER_ENQUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/physics/physics.h"
#include "emulator/player/play.h"

struct lull_play_enqueue; /* opaque */

/* An operation has started or ended. */
struct lull_play_event {
    uint64_t number;
    const struct lull_play_op *op;
    bool is_end;
    int64_t begin_ns; /* virtual time */
    int64_t end_ns;   /* only of an end */
    bool is_low;      /* only of an end: a compute kernel began while the clock was lowered */
};

/* Borrows the finished play until destroy. It starts at the virtual time start_ns. Errors: -ENOMEM.
 */
int lull_play_enqueue_create(const struct lull_play *play, uint32_t rank, uint64_t periods,
                             int64_t start_ns, struct lull_play_enqueue **feed_out,
                             struct lull_error *err);
void lull_play_enqueue_destroy(struct lull_play_enqueue *feed);

/* Gets the earliest unreported event up to the GPU's present time. False: there is none. */
bool lull_play_enqueue_next(struct lull_play_enqueue *feed, const struct lull_physics *gpu,
                            int context, struct lull_play_event *event_out);

/*
 * Enqueues the operations below limit that fit; true: at least one did. All events up to the GPU's
 * present time must have been reported, because an ended operation loses its place on the queue.
 */
bool lull_play_enqueue_enqueue(struct lull_play_enqueue *feed, struct lull_physics *gpu,
                               int context, uint64_t limit);

/* Number of operations in all; whether the end of each has been reported. */
uint64_t lull_play_enqueue_total(const struct lull_play_enqueue *feed);
bool lull_play_enqueue_is_done(const struct lull_play_enqueue *feed);

/* All operations below these numbers have started, or have ended, according to the reported
 * events. */
uint64_t lull_play_enqueue_begun(const struct lull_play_enqueue *feed);
uint64_t lull_play_enqueue_ended(const struct lull_play_enqueue *feed);

#endif
