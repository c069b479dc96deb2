/*
 * Declarations shared by the files of the beam (beam.c the search, beam_pass.c one pass,
 * beam_room.c memory). Operations are numbered as in state.h, and take their *turns* in the order
 * in which a *guide*, a list of times when operations should end, begins them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ROUNDING_BEAM_STATE_H
#define LULL_CORE_PIPELINE_ROUNDING_BEAM_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "core/pipeline/rounding/state.h"

struct lull_certificate;

/* A pass tries this many steps of an operation, those with the least loss. Commit 1c63aea measured
 * the width and this number together. */
enum { BEAM_STEPS = 6 };

/* A plan as far as it has come: what it has lost against the bound, and what it pays for ends that
 * are off the guide. */
struct lull_beam_partial {
    double lost_nj;
    double astray_nj;
};

struct lull_beam_candidate {
    struct lull_beam_partial partial;
    double key;     /* both together: candidates are compared by it */
    uint32_t from;  /* the partial plan that it extends */
    uint32_t step;  /* of the operation whose turn it is */
    int64_t end_ns; /* of that operation */
};

/* Predecessor of a partial plan in the turn before, and the step that extends it. */
struct lull_beam_origin {
    uint32_t from;
    uint32_t step;
};

struct lull_beam_turn {
    int64_t begin_ns;
    uint32_t op;
};

struct lull_beam {
    const struct lull_pipeline_rounding *rounding;
    int64_t deadline_ns;
    int64_t grain_ns;          /* partial plans whose ends differ by less count as alike */
    uint32_t width;            /* number of partial plans that are kept */
    struct lull_memory memory; /* of all arrays */

    double *op_price_w; /* the flow through each operation */
    double *in_price_w; /* of each edge, in the order of `in` */
    int64_t *tail_ns;   /* the shortest time from an operation's end to the end of all */
    int64_t *guide_ns;  /* when each operation should end */

    struct lull_beam_turn *turns;
    uint32_t *turn_of;
    uint32_t *last_use; /* the last turn that needs an operation's end */
    uint32_t *slot;     /* slot that stores its end until then */
    uint32_t *free_slots;
    uint32_t slot_count;

    /* The partial plans before and after the turn. Each has a row of slot_count ends, 0 where a
     * slot is unused. */
    struct lull_beam_partial *now;
    struct lull_beam_partial *next;
    int64_t *now_end_ns;
    int64_t *next_end_ns;
    struct lull_beam_candidate *candidates;
    uint64_t *seen; /* a hash table of the ends of the partial plans that are kept */
    uint32_t seen_size;
    struct lull_beam_origin *origins; /* a row of width for each turn */
};

/* Allocates a beam for a deadline; the caller frees beam->memory also after an error: -ENOMEM. */
int lull_beam_create(struct lull_beam *beam, const struct lull_pipeline_rounding *rounding,
                     int64_t deadline_ns);

/* Takes the prices of time from a flow. */
void lull_beam_set_flow(struct lull_beam *beam, const struct lull_certificate *flow);

/* One pass along beam->guide_ns. Returns whether it found a plan within the deadline. */
bool lull_beam_pass(struct lull_beam *beam, uint32_t *step_out);

#endif
