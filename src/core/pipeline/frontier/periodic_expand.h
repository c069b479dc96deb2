/*
 * Expansion: which operation of a small pipeline stands for each of a long one (periodic.h).
 * Private to the periodic extension.
 *
 * An operation is known by device, class, chunk, microbatch, and how many like it came before on
 * the device (a repeated forward). Micro-batches up to a column of the small pipeline stand for
 * themselves, those from there to the end for the last ones, and the column's period for all
 * between.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FRONTIER_PERIODIC_EXPAND_H
#define LULL_CORE_PIPELINE_FRONTIER_PERIODIC_EXPAND_H

#include "core/pipeline/frontier/periodic.h"

struct op_key {
    struct lull_pipeline_op op;
    uint32_t repeat;
    uint32_t index; /* of the operation */
};

struct expansion {
    const struct lull_periodic_problem *problem;
    struct op_key *small; /* sorted */
    struct op_key *small_by_op;
    struct op_key *full;  /* by operation */
    uint32_t *stands_for; /* by operation of the full graph, one of the small one */
    struct lull_certificate small_flow;
    int64_t *small_duration_ns;
    int64_t *begin_ns; /* of the full graph's operations */
    uint32_t small_microbatches;
    uint32_t period;
    uint32_t column; /* the first micro-batch that is repeated */
    int64_t periods; /* by how many the full one is longer */
};

/* Errors: -EINVAL the graphs do not continue each other, -ENOMEM. */
int expansion_init(struct expansion *expansion, const struct lull_periodic_problem *problem,
                   struct lull_error *err);
void expansion_fini(struct expansion *expansion);

/* Chooses a column: 0 the middle one, then ever further from it. False: there are no more. */
bool expansion_choose(struct expansion *expansion, uint32_t number);

/* The small pipeline's operation of that name (index aside); NULL: there is none. */
const struct op_key *expansion_find(const struct expansion *expansion, const struct op_key *key);

/* Durations of the full graph's operations from where the small frontier stands. */
void expansion_durations(const struct expansion *expansion, const struct lull_frontier *small,
                         int64_t *duration_out);

/*
 * The full graph's flow from that of the small frontier, conserved: where it does not repeat itself
 * exactly around the column, the rest flows where the durations leave least time. Checked.
 */
int expansion_certify(struct expansion *expansion, const struct lull_frontier *small,
                      const int64_t *duration_ns, struct lull_certificate *certificate,
                      struct lull_error *err);

#endif
