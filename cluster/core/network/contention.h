/*
 * The speed of jobs that share a network and a storage.
 *
 * **Links.** Each node has a link, and each rack an uplink. A job on several nodes sends over the
 * links of all of them, and, where they are in several racks, over the uplinks of these (a ring
 * enters and leaves each once). Alone on links of nodes it computes for 1 - r of an iteration and
 * communicates for r (its exposed_ratio). Iterations of jobs are not in step, so that one finds
 * another on a link for the part of the time that the other communicates (its duty): a transfer
 * that takes t alone takes
 *
 *   max over its links of ((1 + s) b + s eta) t,   s = the sum of the duties of the others there,
 *
 * b: 1 on the link of a node, 1 / uplink_links on an uplink. That is AdaDUAL's contention, k b + (k
 * - 1) eta for k transfers at once (Wang et al., arXiv 2002.10105), in the mean over k. Duties
 * follow from how long transfers take, and these from duties: the map is positive, monotonous and
 * scalable, a standard interference function (Yates, IEEE JSAC 13(7), 1995, section II), hence has
 * one fixed point, to which any order of updates converges.
 *
 * **Storage.** Jobs read ahead while they compute. Where all together want more than the storage
 * gives, each GPU gets an equal part of it, and no more than it wants (max-min fair); a job is as
 * slow as its reads are. Its links are assumed to be as busy as without slow reads.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_NETWORK_CONTENTION_H
#define LULL_CLUSTER_CORE_NETWORK_CONTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/core/model/job.h"

/* The shared resources; all zero: none. */
struct lull_contention_rules {
    bool shares_links;
    double uplink_links;  /* capacity of an uplink, in links of a node; 0: unlimited */
    double penalty_ratio; /* eta over b, >= 0; measured: 0.27 (AdaDUAL's), 0 in the mean */
    double storage_mb_s;  /* rate of the storage; 0: unlimited */
};

struct lull_contention; /* opaque */

/* Returns whether anything is shared. */
bool lull_contention_is_on(const struct lull_contention_rules *rules);

/* No job runs at first. Borrows the cluster, which has been checked; the numbers of the rules
 * are finite. -ENOMEM. */
int lull_contention_create(const struct lull_cluster *cluster,
                           const struct lull_contention_rules *rules,
                           struct lull_contention **contention_out);
void lull_contention_destroy(struct lull_contention *contention);

/* A job that does not run begins in an operating point on these shares, each node once. -ENOMEM:
 * nothing has changed. */
int lull_contention_add(struct lull_contention *contention, uint32_t job,
                        const struct lull_cluster_point *point,
                        const struct lull_cluster_share *shares, size_t count);

/* Notes that a job no longer runs; does nothing if it did not run. */
void lull_contention_remove(struct lull_contention *contention, uint32_t job);

/*
 * Computes the paces of the running jobs. *jobs_out gets those whose pace changed since the last
 * call by more than a millionth, in the order of their numbers; it is valid until the next call. A
 * job that began is at a pace of 1 before. Returns how many there are. O(jobs that share a link
 * with one whose pace changes, times their links), and, while the storage is short or just was, the
 * jobs that read.
 */
size_t lull_contention_update(struct lull_contention *contention, const uint32_t **jobs_out);

/* The speed of a running job, as of the last update, relative to its speed alone: above 0, at
 * most 1. */
double lull_contention_pace(const struct lull_contention *contention, uint32_t job);

#endif
