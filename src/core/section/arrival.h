/*
 * Arrivals: reports that the nodes of one job exchange about which rank arrived last. From them
 * each node knows the slack of its ranks (slack.h) against the latest rank of the whole job.
 *
 * A node reports two values for an iteration. Both are lengths, because the clocks of nodes differ.
 * The first, for each kind of collective, is the longest of the times that its own last rank was in
 * one of them. The second is the least time that any of its ranks was in all of them together. A
 * rank of another node that was in a collective of a kind for longer than the least of the former
 * has waited there; one that was in all of them for longer than the least of the latter has waited
 * in all. The slack that follows is the smaller of both. It reports the same values again for those
 * ranks only that run at the common point: where even the last of these waits for a lowered rank,
 * that rank's slack is gone.
 *
 * Why two nodes do not lower because of each other, each assuming that the other is the latest:
 *   - Nothing is concluded of an iteration before all nodes have reported it, and all of them
 *     compare the same numbers: in each iteration one rank of the job was in the collectives for
 *     the least time. It is the least of all nodes, its own one included, so its slack is zero. It
 * is not lowered; if it is lowered already, it is raised.
 *   - The slack of the others is no more than their waiting time in that same iteration, at the
 * clocks of that iteration. So slack that one node has used is not available to another.
 *   - Nodes whose trials do not lie in the same iterations run at common points that differ.
 *     Waiting for a node that merely tries a lower point ends with its trial, and is no slack.
 *   - Lengths are rounded up, and the longest of a kind represents all of them: both make slack
 *     shorter, never longer.
 *
 * Why a lost or late report can only raise clocks: nothing is concluded about its iteration. After
 * some iterations without a conclusion, everything that depends on other nodes' reports is
 * withdrawn at once (slack.h). Reports may be repeated or come in any order, because each contains
 * its iteration.
 *
 * Nodes count iterations alike (agreement.h). If a node starts counting again, all earlier reports
 * are discarded. Reports from before the change that arrive later belong to no iteration that all
 * nodes report, or to one that the next report discards.
 *
 * Pure; create/destroy; one thread. Source: none.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_ARRIVAL_H
#define LULL_CORE_SECTION_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LULL_ARRIVAL_KINDS = 16, /* kinds in a report; other kinds have no slack */
    LULL_ARRIVAL_KEPT = 8,   /* reports of a node that wait for those of the others */
};

#define LULL_ARRIVAL_NONE UINT32_MAX /* as a time: no such rank */

/* The longest time that the last arriving rank was in a collective of a kind. */
struct lull_arrival_kind {
    uint64_t signature;
    uint32_t longest_us;
    uint32_t common_us; /* the last of the ranks at the common point; LULL_ARRIVAL_NONE */
};

/* A node's report of one iteration, or the combined report of all nodes: the least of each value.
 */
struct lull_arrival {
    uint64_t iteration;
    uint32_t collectives; /* collectives across nodes that each rank was in; 0: no report */
    uint32_t total_us;    /* least time that a rank was in all of them... */
    uint32_t common_us;   /* ...that one at the common point was; LULL_ARRIVAL_NONE */
    uint32_t depth;       /* common point of its ranks, in thousandths of their clock list;
                             LULL_ARRIVAL_NONE: they differ */
    uint32_t kind_count;
    struct lull_arrival_kind kinds[LULL_ARRIVAL_KINDS];
};

struct lull_arrivals;

/* Returns NULL if memory runs out. self < nodes, nodes >= 2. */
struct lull_arrivals *lull_arrivals_create(uint32_t self, uint32_t nodes);
void lull_arrivals_destroy(struct lull_arrivals *arrivals);

/* Takes a node's report, also the node's own. A report of a later incarnation of a node discards
 * all its earlier reports. Reports of an earlier incarnation are ignored. */
void lull_arrivals_take(struct lull_arrivals *arrivals, uint32_t node, uint64_t incarnation,
                        const struct lull_arrival *arrival);

/* Finds the next iteration that all nodes have reported with the same number of collectives.
 * Returns whether there is one. Each is found once, in ascending order. */
bool lull_arrivals_find(struct lull_arrivals *arrivals, struct lull_arrival *latest_out);

#endif
