/*
 * A scheduling policy: the driver reports what happens to jobs, and requests decisions. It reads no
 * clock and has no side effects, so that the same code can schedule a simulated cluster and a real
 * one.
 *
 * The driver applies a decision to the state before it requests the next one. After every change it
 * requests decisions until the policy has none left. Pure; one thread at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POLICY_POLICY_H
#define LULL_CLUSTER_CORE_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/core/model/job.h"
#include "cluster/core/model/state.h"

enum lull_cluster_act {
    LULL_CLUSTER_START,    /* a waiting job starts now in this operating point on these shares */
    LULL_CLUSTER_PREEMPT,  /* a running job stops and waits again */
    LULL_CLUSTER_REJECT,   /* a waiting job will never run */
    LULL_CLUSTER_RECLOCK,  /* a running job continues in an operating point that differs only in its
                              clock */
    LULL_CLUSTER_NODE_ON,  /* a node that is off turns on */
    LULL_CLUSTER_NODE_OFF, /* a node that is on and has no job turns off */
};

struct lull_cluster_decision {
    enum lull_cluster_act act;
    uint32_t job;                      /* of acts on jobs */
    uint32_t node;                     /* of acts on nodes */
    uint32_t point;                    /* of start and reclock */
    struct lull_cluster_share *shares; /* of start; the driver gives room for node_count */
    size_t share_count;
    const char *reason; /* static, in the user's words; NULL: the policy gives none */
    /* Of preempt: how long the job draws its power before it continues with its work when it runs
       again; >= 0. If some of an earlier such time is not spent yet, the longer one counts. */
    int64_t restart_ns;
};

/* A policy instance. This struct has no body: each policy casts it to its own struct. */
struct lull_cluster_policy;

/* The one number of a policy, by which it trades time for energy. */
struct lull_policy_parameter {
    const char *what; /* in the user's words, with its unit */
    double least;
    double most;
    double default_value; /* without a user setting */
};

/* The functions of a policy. Policies that differ only in a rule share them. */
struct lull_cluster_policy_calls {
    /* Borrows the cluster, the rule, and the jobs, whose array may grow but keeps its order.
     * setting: of the parameter; a policy without one does not read it. -ENOMEM. */
    int (*create)(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                  const void *rule, double setting, struct lull_cluster_policy **policy_out);
    void (*destroy)(struct lull_cluster_policy *policy);

    /* A job arrived, or returned: from preemption, or after `end` from a failure. -ENOMEM. */
    int (*arrive)(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns);

    /* A job that ran, or whose start was decided, no longer runs. It is done, or its start was
     * refused or its node failed; in the last two cases it arrives again before the next instant.
     */
    void (*end)(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns);

    /* The next decision at this time; false: there is none until something happens. */
    bool (*decide)(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                   int64_t now_ns, struct lull_cluster_decision *decision);

    /* The pointers below may be NULL. */

    /* A job runs now as was decided, or, where a rule around the policy changed the decision, in
     * another operating point. */
    void (*begin)(struct lull_cluster_policy *policy, uint32_t job, uint32_t point, int64_t now_ns);

    /* A job that arrives for the first time is already running, without a decision of this
       policy. It runs on these shares, which it owns and which are taken in the state, in
       its first operating point, whose time is the time left from now on. Called instead of
       arrive(), and before any decision. NULL: the policy does not need this. -ENOMEM. */
    int (*adopt)(struct lull_cluster_policy *policy, uint32_t job,
                 const struct lull_cluster_share *shares, size_t count, int64_t now_ns);

    /* A past job was started in this operating point. It is reported only for learning: it gets
     * no decision and no end(). If it still runs it is also adopted, under another number. Called
     * in the order of arrival among arrive() of other jobs, and before any decision. NULL: the
     * policy does not learn. -ENOMEM. */
    int (*recall)(struct lull_cluster_policy *policy, uint32_t job, uint32_t point);

    /* A running job continues at this part (above 0, to 1) of its operating point's pace, because
     * it shares links or a storage with others (contention.h), and so would end at end_ns. Jobs
     * start at a pace of 1. */
    void (*pace)(struct lull_cluster_policy *policy, uint32_t job, double pace, int64_t end_ns,
                 int64_t now_ns);

    /* A node has been turned on or off, has failed, or works again, as given by the state. */
    void (*node)(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                 uint32_t node, int64_t now_ns);

    /* The last job of a node that is on has left it, or its first has been placed there. */
    void (*idle)(struct lull_cluster_policy *policy, uint32_t node, bool is_idle, int64_t now_ns);

    /* The time after now_ns at which the policy requests to be called without an event;
     * LULL_CLUSTER_NEVER: none. */
    int64_t (*wake_ns)(const struct lull_cluster_policy *policy, int64_t now_ns);
};

/* A row of the table of policies (policy.c). A new policy is a new row. */
struct lull_cluster_policy_ops {
    const char *name;
    const char *summary; /* one line */
    const struct lull_cluster_policy_calls *calls;
    const void *rule; /* handed to calls->create(); NULL: the policy has no rule of its own */
    const struct lull_policy_parameter *parameter; /* NULL: the policy has none */
    double setting; /* of the parameter, in a copy of lull_cluster_policy_set() */
    bool is_set;
};

/* Fills in the decision to start a job on the decision's shares. Returns true, as decide() does
 * then. */
bool lull_cluster_decide_start(struct lull_cluster_decision *decision, uint32_t job, uint32_t point,
                               size_t share_count, const char *reason);

/*
 * A policy instance and its functions. A rule can wrap another policy and filter its decisions
 * (node_power.h, power_cap.h): it is a policy whose struct begins with the decider of the inner
 * one. calls NULL: there is no inner policy yet.
 */
struct lull_cluster_decider {
    const struct lull_cluster_policy_calls *calls;
    struct lull_cluster_policy *policy;
};

/*
 * Calls for the table of such a rule, which pass everything on to the inner policy where it has
 * such a function; a policy without wake_ns is never woken. `around` is the rule, or a decider
 * itself. Only the last two may be called before there is an inner policy.
 */
void lull_cluster_decider_end(struct lull_cluster_policy *around, uint32_t job, int64_t now_ns);
void lull_cluster_decider_begin(struct lull_cluster_policy *around, uint32_t job, uint32_t point,
                                int64_t now_ns);
int lull_cluster_decider_adopt(struct lull_cluster_policy *around, uint32_t job,
                               const struct lull_cluster_share *shares, size_t count,
                               int64_t now_ns);
int lull_cluster_decider_recall(struct lull_cluster_policy *around, uint32_t job, uint32_t point);
void lull_cluster_decider_pace(struct lull_cluster_policy *around, uint32_t job, double pace,
                               int64_t end_ns, int64_t now_ns);
void lull_cluster_decider_idle(struct lull_cluster_policy *around, uint32_t node, bool is_idle,
                               int64_t now_ns);
void lull_cluster_decider_node(struct lull_cluster_policy *around,
                               const struct lull_cluster_state *state, uint32_t node,
                               int64_t now_ns);
int64_t lull_cluster_decider_wake_ns(const struct lull_cluster_policy *around, int64_t now_ns);

/*
 * A copy of a policy with the parameter set to `setting`; it refers to nothing that ends before the
 * program. -EINVAL: it has no parameter, or the setting is out of range; nothing is written then.
 */
int lull_cluster_policy_set(const struct lull_cluster_policy_ops *ops, double setting,
                            struct lull_cluster_policy_ops *set_out, struct lull_error *err);

/* The value of a policy's parameter: the one that was set, else the typical one; 0: it has none. */
double lull_cluster_policy_setting(const struct lull_cluster_policy_ops *ops);

/* Creates a policy with that value of its parameter. Errors: -ENOMEM. */
int lull_cluster_policy_create(const struct lull_cluster_policy_ops *ops,
                               const struct lull_cluster *cluster,
                               const struct lull_cluster_jobs *jobs,
                               struct lull_cluster_policy **policy_out);

/* By name; NULL: there is no such policy. */
const struct lull_cluster_policy_ops *lull_cluster_policy_find(const char *name);

/* All policies, NULL-terminated; those that accept any job come first. */
const struct lull_cluster_policy_ops *const *lull_cluster_policy_all(void);

#endif
