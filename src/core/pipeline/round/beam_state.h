/*
 * Private to the beam (beam.c, beam_pass.c, beam_room.c). Operations are numbered as in state.h,
 * and take their *turns* in the order in which a guide begins them. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ROUND_BEAM_STATE_H
#define LULL_CORE_PIPELINE_ROUND_BEAM_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/pipeline/round/state.h"

struct lull_certificate;

/* The steps of an operation that are tried: the ones with the least loss. */
enum { BEAM_STEPS = 6 };

/* A plan as far as it has come: what it has lost, and what it pays for being off the guide. */
struct partial {
    double lost_nj;
    double astray_nj;
};

struct candidate {
    struct partial partial;
    double key; /* what is compared: both together */
    uint32_t from;
    uint32_t step;
    int64_t end_ns; /* of the operation whose turn it is */
};

/* How a partial plan came about. */
struct origin {
    uint32_t from;
    uint32_t step;
};

struct turn {
    int64_t begin_ns;
    uint32_t op;
};

struct beam {
    const struct lull_pipeline_rounding *rounding;
    int64_t deadline_ns;
    int64_t grain_ns; /* plans whose ends differ by less are alike */
    uint32_t width;   /* partial plans kept */

    double *op_price_w; /* the flow */
    double *in_price_w; /* of each edge, in the order of `in` */
    int64_t *tail_ns;   /* the shortest time from an operation's end to the end of all */
    int64_t *guide_ns;  /* where ends should be */

    struct turn *turns;
    uint32_t *turn_of;
    uint32_t *last_use; /* the turn after which nobody asks for an operation's end any more */
    uint32_t *slot;     /* where its end is kept meanwhile */
    uint32_t *free_slots;
    uint32_t slot_count;

    /* Partial plans now and after the turn: ends are slot_count in a row, 0 where unused. */
    struct partial *now;
    struct partial *next;
    int64_t *now_end_ns;
    int64_t *next_end_ns;
    struct candidate *candidates;
    uint64_t *seen; /* hash table of the ends of what is kept */
    uint32_t seen_size;
    struct origin *origins; /* width for each turn */
};

/* -ENOMEM; destroy it even then. */
int lull_beam_create(struct beam *beam, const struct lull_pipeline_rounding *rounding,
                     int64_t deadline_ns);
void lull_beam_destroy(struct beam *beam);

void lull_beam_set_flow(struct beam *beam, const struct lull_certificate *flow);

/* One pass along beam->guide_ns. Returns whether it found a plan within the deadline. */
bool lull_beam_pass(struct beam *beam, uint32_t *step_out);

#endif
