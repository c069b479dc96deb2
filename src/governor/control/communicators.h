/*
 * The communicators of one process that communicates on the GPU: their names, and what they are
 * for, from what the NCCL profiler plugin tells (core/section/communicator.h).
 *
 * Caller's storage; zero-initialised is empty. Threads: one at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_CONTROL_COMMUNICATORS_H
#define LULL_GOVERNOR_CONTROL_COMMUNICATORS_H

#include <stdint.h>

#include "core/section/communicator.h"
#include "wire/event.h"

enum { LULL_COMMUNICATORS_KEPT = 32 };

struct lull_named_communicator {
    char name[LULL_JOB_NAME_BYTES]; /* "" without one */
    uint64_t operations;
    struct lull_communicator what;
};

struct lull_communicators {
    uint32_t count; /* numbers seen, at most LULL_COMMUNICATORS_KEPT; those beyond are ignored */
    struct lull_named_communicator items[LULL_COMMUNICATORS_KEPT]; /* by number in the process */
};

/* Takes an event of the process in that slot: COMMUNICATOR or ENQUEUE; others say nothing. */
void lull_communicators_take(struct lull_communicators *communicators,
                             const struct lull_event_segment *job, uint32_t slot,
                             const struct lull_event *event);

#endif
