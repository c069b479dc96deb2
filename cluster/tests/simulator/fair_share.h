/*
 * The sharing of links by flows: links of a network, or the read bandwidth of a storage that many
 * jobs share.
 *
 * A link carries what its flows take of it, rate times weight, up to its capacity. Concurrent flows
 * may slow each other down: with k of them (the sum of weights) on a link, each MB takes (k - 1)
 * penalty longer than a fair part of the capacity would let it, k / capacity. So AdaDUAL's
 * contention (Wang et al., arXiv 2002.10105), k beta + (k - 1) eta a MB, is a capacity of 1 / beta
 * and a penalty of eta; without penalty links are shared without loss.
 *
 * Two rules:
 *   - max-min: no flow could be faster without a slower one becoming slower still; found by
 *     progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2);
 *   - busiest: each flow gets an equal part of the link that gives it least. The remaining capacity
 *     of other links is unused. AdaDUAL's model.
 *
 * Flows come and go; only rates of flows that are joined to them by a chain of shared links (of the
 * rule busiest: that share a link) are found again. Pure; one thread at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TESTS_SIMULATOR_FAIR_SHARE_H
#define LULL_CLUSTER_TESTS_SIMULATOR_FAIR_SHARE_H

#include <stddef.h>
#include <stdint.h>

enum lull_share_rule { LULL_SHARE_MAX_MIN, LULL_SHARE_BUSIEST };

struct lull_share_link {
    double capacity_mb_s;    /* > 0 */
    double penalty_s_per_mb; /* >= 0, for each further flow */
};

/* A link on a flow's way. */
struct lull_share_use {
    uint32_t link;
    double weight; /* > 0: of the link for each MB; 1 unless an answer takes part of it, too */
};

struct lull_share; /* opaque */

/* Links are copied. NULL: out of memory. */
struct lull_share *lull_share_create(const struct lull_share_link *links, uint32_t count,
                                     enum lull_share_rule rule);
void lull_share_destroy(struct lull_share *share);

/* Returns whether a flow could be added: -EINVAL for no link, an unknown one, one twice, or a
 * weight or speed that is not above 0. */
int lull_share_check(const struct lull_share *share, const struct lull_share_use *uses,
                     uint32_t count, double most_mb_s);

/*
 * A flow over links, each once, that would take up to most_mb_s (INFINITY: as much as it gets). Its
 * number may be one of a flow that was removed. Errors: as lull_share_check; -ENOMEM. Nothing has
 * changed then.
 */
int lull_share_add(struct lull_share *share, const struct lull_share_use *uses, uint32_t count,
                   double most_mb_s, uint32_t *flow_out);

/* The flow is there. */
void lull_share_remove(struct lull_share *share, uint32_t flow);

/*
 * Finds the rates that may have changed since the last call. Their flows go to *flows_out, in no
 * order, where they stand until something is added or removed. Returns how many. O(flows * their
 * links) of those joined; max-min times the links that fill up one after the other.
 */
uint32_t lull_share_update(struct lull_share *share, const uint32_t **flows_out);

/* The rate of a flow as of the last update, > 0. */
double lull_share_rate_mb_s(const struct lull_share *share, uint32_t flow);

#endif
