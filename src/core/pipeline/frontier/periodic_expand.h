/*
 * Expansion: which operation of a small pipeline stands for each of a long one (periodic.h).
 *
 * An operation is known by device, class, chunk, microbatch, and how many like it came before on
 * the device (a repeated forward). The small pipeline's micro-batches ahead of a column stand for
 * themselves, those after it for the full pipeline's last ones, and the column's period for all
 * between.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FRONTIER_PERIODIC_EXPAND_H
#define LULL_CORE_PIPELINE_FRONTIER_PERIODIC_EXPAND_H

#include "base/array.h"
#include "core/pipeline/frontier/periodic.h"

struct lull_periodic_op_key {
    struct lull_pipeline_op op;
    uint32_t repeat;
    uint32_t index; /* of the operation */
};

struct lull_periodic_expansion {
    const struct lull_periodic_problem *problem;
    struct lull_periodic_op_key *small; /* of the small graph, sorted */
    struct lull_periodic_op_key *small_by_op;
    struct lull_periodic_op_key *full; /* of the full graph, by operation */
    uint32_t *stands_for; /* by operation of the full graph: the operation of the small one */
    struct lull_certificate small_flow;
    struct lull_memory memory; /* of the arrays above and below */
    int64_t *small_duration_ns;
    int64_t *begin_ns; /* of the full graph's operations */
    uint32_t small_microbatches;
    uint32_t period;
    uint32_t column; /* the first micro-batch that is repeated */
    int64_t periods; /* how many periods longer the full pipeline is */
};

/* Errors: -EINVAL the graphs do not continue each other, -ENOMEM; the caller calls fini also then.
 */
int lull_periodic_expansion_init(struct lull_periodic_expansion *expansion,
                                 const struct lull_periodic_problem *problem,
                                 struct lull_error *err);
void lull_periodic_expansion_fini(struct lull_periodic_expansion *expansion);

/* Chooses a column: number 0 is the middle one, larger ones are further from it. Returns false if
 * there are no more. */
bool lull_periodic_expansion_choose(struct lull_periodic_expansion *expansion, uint32_t number);

/* The small pipeline's operation with this key, its index aside; null if there is none. */
const struct lull_periodic_op_key *
lull_periodic_expansion_find(const struct lull_periodic_expansion *expansion,
                             const struct lull_periodic_op_key *key);

/* Writes durations of the full graph's operations from where the small frontier stands. */
void lull_periodic_expansion_durations(const struct lull_periodic_expansion *expansion,
                                       const struct lull_frontier *small, int64_t *duration_out);

/*
 * Makes a flow of the full graph from that of the small frontier, and checks it. Where the small
 * one does not repeat itself exactly around the column, the rest flows where the durations leave
 * least slack, so that the flow is conserved. Error: -EINVAL, as lull_certificate_check.
 */
int lull_periodic_expansion_certify(struct lull_periodic_expansion *expansion,
                                    const struct lull_frontier *small, const int64_t *duration_ns,
                                    struct lull_certificate *certificate);

#endif
