/* Private to contention*.c. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CORE_CLUSTER_NETWORK_CONTENTION_STATE_H
#define LULL_CORE_CLUSTER_NETWORK_CONTENTION_STATE_H

#include <assert.h>

#include "core/cluster/network/contention.h"
#include "core/cluster/network/fair_share.h"

/* A link that a job's transfers take. */
struct lull_contention_use {
    uint32_t link;
    uint32_t at; /* among the link's users */
};

struct lull_contention_member {
    bool runs;
    bool is_open; /* its duty is to be found anew */
    bool is_due;  /* its pace is to be found anew */
    float exposed_ratio;
    uint32_t gpus;
    uint32_t use_count; /* 0: it sends nothing to other nodes */
    struct lull_contention_use *uses;
    double duty;      /* of its time, it communicates */
    double link_pace; /* as its links let it */
    double read_mb_s; /* of all its GPUs at a pace of 1 */
    uint32_t flow;    /* of the storage's, if read_mb_s > 0 */
    double flow_mb_s; /* that the flow was told to want, of a GPU */
    double pace;      /* that was told */
};

struct lull_contention_user {
    uint32_t job;
    uint32_t use; /* of the job's */
};

struct lull_contention_link {
    struct lull_contention_user *users;
    uint32_t count;
    uint32_t room;
    double duties; /* sum over its users */
};

/* Jobs to look at. */
struct lull_contention_list {
    uint32_t *jobs;
    size_t count;
};

struct lull_contention {
    const struct lull_cluster *cluster;
    struct lull_contention_rules rules;
    struct lull_contention_link *links; /* of nodes, then of racks */
    uint32_t rack_count;
    uint64_t *rack_stamp; /* [rack]: of the last job that was seen there */
    uint64_t stamp;
    struct lull_contention_member *members; /* [job] */
    uint32_t room;
    /* Each has room for each job once. */
    struct lull_contention_list open;  /* is_open */
    struct lull_contention_list round; /* what was open, while more opens */
    struct lull_contention_list due;   /* is_due */
    struct lull_contention_list told;

    struct lull_share *storage;
    uint32_t *flow_jobs; /* [flow] */
    uint32_t flow_room;
    double wanted_mb_s; /* by all flows */
    uint32_t reading;   /* jobs */
    bool is_short;      /* as of the last update */
    bool has_changed;   /* since then */
};

/* The pace of a running job may have changed. */
static inline void lull_contention_mark_due(struct lull_contention *contention, uint32_t job)
{
    if (contention->members[job].is_due)
        return;
    assert(contention->due.count < contention->room);
    contention->members[job].is_due = true;
    contention->due.jobs[contention->due.count++] = job;
}

/* contention_links.c */

/* The links of a job that is not on any. -ENOMEM: nothing has changed. */
int lull_contention_join(struct lull_contention *contention, uint32_t job,
                         const struct lull_cluster_share *shares, size_t count);
void lull_contention_part(struct lull_contention *contention, uint32_t job);

/* Finds all duties, and link_pace; marks as due whose changed. */
void lull_contention_settle(struct lull_contention *contention);

/* contention_storage.c */

/* A job that runs begins to read. -ENOMEM: nothing has changed. */
int lull_contention_begin_reading(struct lull_contention *contention, uint32_t job);
void lull_contention_end_reading(struct lull_contention *contention, uint32_t job);

/* Tells the storage that a reading job's link_pace has changed. -ENOMEM. */
int lull_contention_want(struct lull_contention *contention, uint32_t job);

/* Finds what each job gets of the storage; marks those as due whose part may have changed. */
void lull_contention_serve(struct lull_contention *contention);

/* What a running job gets of what it wants, above 0, to 1. */
double lull_contention_served_ratio(const struct lull_contention *contention, uint32_t job);

#endif
