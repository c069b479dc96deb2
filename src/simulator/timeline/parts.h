/*
 * Parts of a recorded job's steps that can be planned apart. What waits for no chosen operation is
 * a step's head, and what no chosen operation waits for is its tail; both take the same time
 * whatever clocks are chosen. Between them a step falls into parts that do not meet: one for each
 * data parallel copy, if copies meet only in the collectives at the begin and the end.
 *
 * Exact: a step takes T if and only if all of its parts, with their heads and tails, take at most
 * T. Threads: any for const objects. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_TIMELINE_PARTS_H
#define LULL_SIMULATOR_TIMELINE_PARTS_H

#include "simulator/timeline/job.h"

struct lull_timeline_parts {
    const struct lull_timeline_job *job;
    struct lull_memory memory;
    int64_t *end_ns;   /* of each operation, with the recorded lengths */
    int64_t *step_ns;  /* of each step, with the recorded lengths */
    int64_t *after_ns; /* of each operation: the longest path after it that lies in the tail */
    uint32_t *part_of; /* of each meeting; LULL_TIMELINE_NONE: head or tail */
    uint32_t part_count;
    uint32_t *first_of;    /* part_count + 1, into meetings */
    uint32_t *collectives; /* in the order of the job */
    uint32_t *step_of;     /* of each part */
};

/* Borrows the job. Errors: -ENOMEM. */
int lull_timeline_parts_init(struct lull_timeline_parts *parts, const struct lull_timeline_job *job,
                             struct lull_error *err);
void lull_timeline_parts_fini(struct lull_timeline_parts *parts);

/* Plays one part with these lengths of all operations and the recorded ends of the head, which are
 * in end_inout. Returns how long the step takes by this part. */
int64_t lull_timeline_part_play(const struct lull_timeline_parts *parts, uint32_t part,
                                const int64_t *length_ns, int64_t *end_inout);

#endif
