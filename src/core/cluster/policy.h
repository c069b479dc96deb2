/*
 * A scheduling policy: is told what happens to jobs, and asked what to do. The same code schedules
 * a cluster in virtual time and a real one.
 *
 * Whoever drives it applies a decision to the state before asking for the next one, and asks after
 * every change until there is none left. Pure; one thread at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_POLICY_H
#define LULL_CORE_CLUSTER_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/cluster/job.h"
#include "core/cluster/state.h"

enum lull_cluster_act {
    LULL_CLUSTER_START,   /* in this mode, on these shares, now */
    LULL_CLUSTER_PREEMPT, /* a running job goes back to where it waits */
    LULL_CLUSTER_REJECT,  /* it will never run */
    /* A running job goes on in this mode, which differs in nothing but its clock. */
    LULL_CLUSTER_RECLOCK,
    LULL_CLUSTER_NODE_ON,  /* a node that is off */
    LULL_CLUSTER_NODE_OFF, /* a node that is on and has no job */
};

struct lull_cluster_decision {
    enum lull_cluster_act act;
    uint32_t job;                      /* all but of nodes */
    uint32_t node;                     /* node on, node off */
    uint32_t mode;                     /* start, reclock */
    struct lull_cluster_share *shares; /* start; room for node_count, of the driver */
    size_t share_count;
    const char *reason; /* static, in the user's words; NULL: none */
    /* Preempt: what the job will need beyond its own time when it runs again, at its power; >= 0.
       Not yet spent from an earlier time: the longer of the two. */
    int64_t restart_ns;
};

struct lull_cluster_policy; /* a policy's own */

/* The one number by which a policy trades time for energy. */
struct lull_cluster_knob {
    const char *what; /* in the user's words, with its unit */
    double least;
    double most;
    double usual; /* what a policy does that nobody has told */
};

/* What a policy is made of. */
struct lull_cluster_policy_ops {
    const char *name;
    const char *summary; /* one line */

    /* Borrows the cluster and the jobs, whose array may grow but keeps its order. -ENOMEM. */
    int (*create)(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                  struct lull_cluster_policy **policy_out);
    void (*destroy)(struct lull_cluster_policy *policy);

    /* A job came, or came back: from preemption, or after `end` from a failure. -ENOMEM. */
    int (*arrive)(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns);

    /* A job that ran, or was to, runs no longer: it is done; or its start was refused, or a failure
     * took its GPUs, and it arrives again before the next instant. */
    void (*end)(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns);

    /* The next thing to do now; false: nothing until something happens. */
    bool (*decide)(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                   int64_t now_ns, struct lull_cluster_decision *decision);

    /* NULL: none. turn() is called once, after create(); setting lies within the knob's range. */
    const struct lull_cluster_knob *knob;
    void (*turn)(struct lull_cluster_policy *policy, double setting);
    double setting; /* of a copy that lull_cluster_policy_set() made */
    bool is_set;

    /* What follows may be NULL. */

    /* A job runs now as was decided, or, where somebody stands around the policy, in another mode.
     */
    void (*begin)(struct lull_cluster_policy *policy, uint32_t job, uint32_t mode, int64_t now_ns);

    /* A running job goes on at a pace (above 0, to 1) of that of its mode, since it shares links or
     * a storage with others (contention.h): so it would end at end_ns. At its start it is 1. */
    void (*pace)(struct lull_cluster_policy *policy, uint32_t job, double pace, int64_t end_ns,
                 int64_t now_ns);

    /* A node has been turned on or off, has failed, or works again: see state. */
    void (*node)(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                 uint32_t node, int64_t now_ns);

    /* The last job of a node that is on has left it, or its first has come. */
    void (*idle)(struct lull_cluster_policy *policy, uint32_t node, bool is_idle, int64_t now_ns);

    /* When to ask next although nothing has happened, after now_ns; LULL_CLUSTER_NEVER: not. */
    int64_t (*wake_ns)(const struct lull_cluster_policy *policy, int64_t now_ns);
};

/* A policy at work. Others can stand around it, so that they see its decisions first
 * (node_power.h, power_cap.h). */
struct lull_cluster_decider {
    const struct lull_cluster_policy_ops *ops;
    struct lull_cluster_policy *policy;
};

/* In an order, each pool by itself; the first that does not fit holds up its pool. */
extern const struct lull_cluster_policy_ops lull_cluster_policy_fifo; /* of arrival */
extern const struct lull_cluster_policy_ops lull_cluster_policy_edf;  /* of deadlines */
extern const struct lull_cluster_policy_ops lull_cluster_policy_sjf;  /* of run times */
extern const struct lull_cluster_policy_ops lull_cluster_policy_lpt;  /* the longest first */

/* As fifo, but others may run ahead of the first if they do not delay it. */
extern const struct lull_cluster_policy_ops lull_cluster_policy_backfill;

/* Each job is given a mode, nodes and a time when it comes. */
extern const struct lull_cluster_policy_ops lull_cluster_policy_backfill_conservative;
extern const struct lull_cluster_policy_ops lull_cluster_policy_greedy_energy;

/* Ranked, and preemptive where jobs are; one that does not fit holds up its like only. */
extern const struct lull_cluster_policy_ops lull_cluster_policy_srtf; /* by remaining time */
extern const struct lull_cluster_policy_ops lull_cluster_policy_srsf; /* by time times GPUs */
extern const struct lull_cluster_policy_ops lull_cluster_policy_hdf;  /* by weight per GPU time */
extern const struct lull_cluster_policy_ops lull_cluster_policy_powerflow; /* as srsf */

/* Online primal-dual with posted prices, tuned, and proven (docs/competitive.md). Jobs that all
 * may be preempted and have to run are ranked by the tuned one, and resized. The proven
 * one rejects jobs without a value. */
extern const struct lull_cluster_policy_ops lull_cluster_policy_pd_rats;
extern const struct lull_cluster_policy_ops lull_cluster_policy_pd_rats_safe;

/*
 * A copy of a policy whose knob stands at `setting`; it refers to nothing that ends before the
 * program. -EINVAL: it has no knob, or the setting is out of range; nothing is written then.
 */
int lull_cluster_policy_set(const struct lull_cluster_policy_ops *ops, double setting,
                            struct lull_cluster_policy_ops *set_out, struct lull_error *err);

/* ops->create() with its knob as it is set. -ENOMEM. */
int lull_cluster_policy_create(const struct lull_cluster_policy_ops *ops,
                               const struct lull_cluster *cluster,
                               const struct lull_cluster_jobs *jobs,
                               struct lull_cluster_policy **policy_out);

/* By name; NULL: none such. */
const struct lull_cluster_policy_ops *lull_cluster_policy_find(const char *name);

/* All that take any job, NULL at the end; and those that reject jobs without a value. */
const struct lull_cluster_policy_ops *const *lull_cluster_policy_all(void);
const struct lull_cluster_policy_ops *const *lull_cluster_policy_of_values(void);
bool lull_cluster_policy_needs_value(const struct lull_cluster_policy_ops *ops);

#endif
