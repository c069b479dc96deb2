/*
 * Policies that give each job, when it comes, an operating point, nodes and a time to start, and
 * keep these reserved for it (cluster/core/model/calendar.h). They make the choice of least cost
 * among those that meet its deadline. Where none does, jobs that have not begun are moved to faster
 * operating points and other times to make room for it, if none of them becomes late by it; else it
 * is late, which the reason of its start states. A job that is thrown off its nodes, or finds them
 * taken, is planned again.
 *
 * A plan costs O(operating points x (nodes and reservations of the pool)); a decision O(log n).
 *
 * Private to policies. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POLICY_PLANNED_H
#define LULL_CLUSTER_CORE_POLICY_PLANNED_H

#include "cluster/core/policy/policy.h"

/* An operating point, place and time that a job could be given. */
struct lull_cluster_choice {
    const struct lull_cluster_job *job;
    const struct lull_cluster_point *point;
    const struct lull_cluster_type *type; /* of the operating point's GPUs */
    double run_s;    /* the time that it needs: all of it unless it was stopped before */
    double energy_j; /* for that */
    double wait_s;   /* until it starts */
};

/* The rule of such a policy. */
struct lull_cluster_planning {
    const char *reason; /* of a start; static */

    /* The cost of a choice. The cheapest is taken, of equal ones the one that ends first.
     */
    double (*cost)(const struct lull_cluster_choice *choice, double setting);
    bool is_first_point_only; /* of each type */
    bool ignores_deadlines;
};

extern const struct lull_cluster_policy_calls lull_planned_calls;

#endif
