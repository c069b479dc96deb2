/* Private to contention*.c. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLUSTER_CORE_NETWORK_CONTENTION_STATE_H
#define LULL_CLUSTER_CORE_NETWORK_CONTENTION_STATE_H

#include <assert.h>

#include "cluster/core/network/contention.h"

/* A link that a job's transfers take. */
struct lull_contention_use {
    uint32_t link;
    size_t at; /* its place among the link's users */
};

struct lull_contention_member {
    bool runs;
    bool is_open; /* its duty must be computed again */
    bool is_due;  /* its pace must be computed again */
    float exposed_ratio;
    uint32_t gpus;
    uint32_t use_count; /* 0: it sends nothing to other nodes */
    struct lull_contention_use *uses;
    double duty;        /* the share of its time in which it communicates */
    double link_pace;   /* the pace that its links allow */
    double read_mb_s;   /* of all its GPUs at a pace of 1; 0: it reads nothing */
    size_t reader;      /* its place among the readers, if it reads */
    double wanted_mb_s; /* read rate that each of its GPUs needs at the pace of its links */
    double
        served_mb_s; /* rate of the storage for each of its GPUs while the storage is saturated */
    bool is_served;  /* served_mb_s has been found in this round */
    double pace;     /* the pace that the last update reported */
};

struct lull_contention_user {
    uint32_t job;
    uint32_t use; /* of the job's */
};

struct lull_contention_link {
    struct lull_contention_user *users;
    size_t count;
    size_t room;
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
    struct lull_contention_list round; /* items to process, while more are added */
    struct lull_contention_list due;   /* is_due */
    struct lull_contention_list reported;

    struct lull_contention_list readers; /* jobs that read from the storage */
    double wanted_mb_s;                  /* rate that all readers together need */
    bool is_short;                       /* whether the storage was saturated at the last update */
    bool has_changed; /* whether a reader was added, removed or changed since then */
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

/* contention_shared.c */

/* Adds a job to the links of its shares; removes it from all its links. Errors: -ENOMEM; nothing
 * has changed then. */
int lull_contention_join(struct lull_contention *contention, uint32_t job,
                         const struct lull_cluster_share *shares, size_t count);
void lull_contention_part(struct lull_contention *contention, uint32_t job);

/* Computes the duties and the link_pace of all jobs, and marks jobs with a change as due. */
void lull_contention_settle(struct lull_contention *contention);

/* Adds a running job to the readers; removes it. */
void lull_contention_begin_reading(struct lull_contention *contention, uint32_t job);
void lull_contention_end_reading(struct lull_contention *contention, uint32_t job);

/* Updates the storage after a change of a reader's link_pace. */
void lull_contention_want(struct lull_contention *contention, uint32_t job);

/* Divides the storage among its readers, and marks readers whose share may have changed as due. */
void lull_contention_serve(struct lull_contention *contention);

/* The share of its read rate that a running job gets from the storage; above 0, at most 1. */
double lull_contention_served_ratio(const struct lull_contention *contention, uint32_t job);

#endif
