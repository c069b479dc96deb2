/*
 * Failures and repairs of the nodes of a cluster. Pure. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_MODEL_FAILURES_H
#define LULL_CLUSTER_CORE_MODEL_FAILURES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { LULL_CLUSTER_MAX_FAILURES = 1 << 24 };

struct lull_cluster_failure {
    uint32_t node;
    int64_t from_ns; /* >= 0 */
    int64_t to_ns;   /* > from_ns; works again then */
};

/*
 * Sorts failures by their beginning, equal ones by node, and checks that they are possible: times
 * and nodes are in their ranges, and no node fails while it is down. O(n log n). Errors: -EINVAL,
 * with the node; -ENOMEM.
 */
int lull_cluster_failures_order(struct lull_cluster_failure *failures, size_t count,
                                uint32_t node_count, struct lull_error *err);

/* Model of random failures of nodes. */
struct lull_failure_model {
    uint32_t node_count;
    int64_t mtbf_ns;   /* > 0; mean time that a node works */
    int64_t repair_ns; /* > 0 */
    int64_t until_ns;  /* no failure begins then or later */
    uint64_t seed;
};

/*
 * Draws failures at random, in order: each node works for an exponentially distributed time of mean
 * mtbf_ns, then is down for repair_ns, and so on; none begins at until_ns or later. Each node draws
 * from a sequence of its own (seed, node), so that a larger cluster does not change the others'
 * failures. The caller frees *failures_out. Errors: -EINVAL more than LULL_CLUSTER_MAX_FAILURES;
 * -ENOMEM.
 */
int lull_cluster_failures_draw(const struct lull_failure_model *model,
                               struct lull_cluster_failure **failures_out, size_t *count_out,
                               struct lull_error *err);

#endif
