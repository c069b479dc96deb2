/*
 * A recorded job as a graph: what each operation of a timeline waits for, and how long it takes by
 * itself. So the job can be played again with other lengths.
 *
 * An operation waits for the one before it on its thread (sends and receives of each direction have
 * threads of their own); a forward or backward for what its rank received for it and for the
 * parameters; a send for the computing whose result it sends; a collective for what its rank
 * computed before it; the optimizer for the collectives before it. Operations that meet (a send and
 * its receive, a collective of all copies) are one *meeting*: they begin when the last of them is
 * ready, and the length of each is counted from there. Delays between operations that wait for
 * nothing are left out (0.5 and 1.9 % of the time in the recorded jobs).
 *
 * Threads: any for const objects. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_TIMELINE_JOB_H
#define LULL_SIMULATOR_TIMELINE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/error.h"
#include "trace/timeline.h"

enum { LULL_TIMELINE_WAITS = 3 };
#define LULL_TIMELINE_NONE UINT32_MAX

struct lull_timeline_job {
    const struct lull_operation_timeline *timeline;
    struct lull_memory memory;
    int64_t *length_ns;                     /* of each operation, without waiting for others */
    uint32_t (*waits)[LULL_TIMELINE_WAITS]; /* operations before it; LULL_TIMELINE_NONE */
    uint32_t *collective;                   /* of each operation */
    uint32_t collective_count;
    uint32_t *first_member; /* collective_count + 1, into members */
    uint32_t *members;      /* operations */
    uint32_t *order;        /* meetings, each after all that it waits for */
    uint32_t stages;
};

/* Borrows the timeline. Errors: LULL_E_FORMAT the operations wait for each other in a cycle;
 * -E2BIG there are more than 2^24 of them; -ENOMEM. */
int lull_timeline_job_init(struct lull_timeline_job *job,
                           const struct lull_operation_timeline *timeline, struct lull_error *err);
void lull_timeline_job_fini(struct lull_timeline_job *job);

/* Returns whether the GPU computes in an operation. */
static inline bool lull_timeline_computes(const struct lull_timeline_op *op)
{
    return op->stream == LULL_STREAM_COMPUTE;
}

/* Returns whether an operation is a forward or backward of non-zero length, whose clock can be
 * chosen.
 */
static inline bool lull_timeline_is_chosen(const struct lull_timeline_job *job, uint32_t op)
{
    return job->timeline->ops[op].kind <= LULL_TIMELINE_BACKWARD && job->length_ns[op] > 0;
}

/* The begin of a meeting: the latest end of what its members wait for, ends being known. */
int64_t lull_timeline_begin(const struct lull_timeline_job *job, uint32_t collective,
                            const int64_t *end_ns);

/* Plays all steps, each from 0, with a length for each operation. end_out: op_count of them.
 * step_out: step_count lengths. O(n). */
void lull_timeline_replay(const struct lull_timeline_job *job, const int64_t *length_ns,
                          int64_t *end_out, int64_t *step_out);

#endif
