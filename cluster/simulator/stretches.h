/*
 * The record of a run. A stretch is a time in which a job had its GPUs at one clock: it begins with
 * a start or a change of clock, and ends with the job, a preemption, a failure or a change of
 * clock. Changes of nodes are recorded too. All reports of a run are made from this record.
 *
 * Threads: one, of the owner. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SIMULATOR_STRETCHES_H
#define LULL_CLUSTER_SIMULATOR_STRETCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/core/model/state.h"

struct lull_cluster_stretch {
    uint32_t job;
    uint32_t point;
    int64_t begin_ns;
    int64_t end_ns;
    double energy_j; /* of all its GPUs, in this stretch */
    uint32_t share_count;
    const struct lull_cluster_share *shares; /* in the order of choice */
};

/* A node is turned on or off, fails or works again. All are on at first. */
struct lull_cluster_node_change {
    int64_t time_ns;
    uint32_t node;
    enum lull_cluster_power power;
    size_t stretch; /* the first stretch that began after the change; at one instant a change comes
                       after all stretches that end and before this one begins */
};

/* In the order in which the policy started them. Zero-initialised is empty. */
struct lull_cluster_stretches {
    struct lull_cluster_stretch *all;
    size_t count;
    size_t room;
    struct lull_cluster_node_change *changes;
    size_t change_count;
    size_t change_room;
};

/* Appends a copy, shares included. -ENOMEM: nothing has changed. */
int lull_cluster_stretches_add(struct lull_cluster_stretches *stretches,
                               const struct lull_cluster_stretch *stretch);

/* Appends a change of a node, after the present stretches. -ENOMEM. */
int lull_cluster_stretches_add_change(struct lull_cluster_stretches *stretches, int64_t time_ns,
                                      uint32_t node, enum lull_cluster_power power);

/* A stretch begins or ends. */
struct lull_cluster_event {
    int64_t time_ns;
    bool is_begin;
    size_t stretch;
};

/*
 * All of them that last, in the order of time; at one instant first those that end, then those that
 * begin, each in the order of stretches. The caller frees *events_out. O(n log n). -ENOMEM.
 */
int lull_cluster_stretches_events(const struct lull_cluster_stretches *stretches,
                                  struct lull_cluster_event **events_out, size_t *count_out);
void lull_cluster_stretches_fini(struct lull_cluster_stretches *stretches);

#endif
