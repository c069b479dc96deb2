/* Private to planned*.c. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLUSTER_CORE_POLICY_PLANNED_STATE_H
#define LULL_CLUSTER_CORE_POLICY_PLANNED_STATE_H

#include "cluster/core/model/calendar.h"
#include "base/heap.h"
#include "cluster/core/model/cluster.h"
#include "cluster/core/policy/job_ledger.h"
#include "cluster/core/policy/planned.h"

/* The plan of a job; share_count 0: there is none. */
struct lull_planned_job {
    uint32_t point;
    uint32_t stamp; /* changes with each plan, so that entries of old plans can be detected */
    int64_t start_ns;
    int64_t end_ns;
    struct lull_cluster_share *shares;
    size_t share_count;
    uint32_t position; /* of a job that has not started: in the list of planned ones */
};

/* Numbers of jobs, each at most once, with room for all jobs so far. */
struct lull_job_list {
    uint32_t *jobs;
    size_t count;
};

static inline void lull_job_list_add(struct lull_job_list *list, uint32_t job)
{
    list->jobs[list->count++] = job;
}

struct lull_planned {
    const struct lull_cluster *cluster;
    const struct lull_cluster_planning *planning;
    double setting;
    struct lull_job_ledger ledger;
    struct lull_calendar *calendar;
    struct lull_node_groups groups;
    struct lull_planned_job *plans; /* by job */
    size_t plan_room;
    struct lull_heap due;              /* starts; job << 32 | stamp */
    struct lull_job_list unplanned;    /* came, in that order */
    struct lull_job_list planned;      /* have a plan and have not begun */
    struct lull_job_list stuck;        /* fit nowhere while nodes are gone */
    struct lull_cluster_share *shares; /* of a choice */
    struct lull_cluster_share *best;
};

/* The goal of a plan. */
enum lull_plan_aim {
    LULL_PLAN_MIN_COST, /* in time if that is possible */
    LULL_PLAN_IN_TIME,  /* least cost in time, or no plan */
    LULL_PLAN_FASTEST,  /* ends first */
};

/*
 * Plans a job that has no plan. False: it fits nowhere, or for LULL_PLAN_IN_TIME not in time, or
 * out of memory.
 */
bool lull_planned_plan(struct lull_planned *policy, const struct lull_cluster_state *state,
                       uint32_t job, enum lull_plan_aim aim, int64_t now_ns);

/* Withdraws the plan of a job that has not begun; the caller then owns its shares. */
struct lull_planned_job lull_planned_withdraw(struct lull_planned *policy, uint32_t job);

/* Takes a job out of the list of planned ones. */
void lull_planned_leave(struct lull_planned *policy, uint32_t job);

bool lull_planned_is_late(const struct lull_planned *policy, uint32_t job);

/* Plans a job in time by moving others, none of which becomes late; false: nothing has changed. */
bool lull_planned_repair(struct lull_planned *policy, const struct lull_cluster_state *state,
                         uint32_t job, int64_t now_ns);

#endif
