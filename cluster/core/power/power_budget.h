/*
 * The accounted power of the nodes and jobs of a cluster, and the room under a power cap. Private
 * to power_cap*.c, which defines the accounting.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POWER_POWER_BUDGET_H
#define LULL_CLUSTER_CORE_POWER_POWER_BUDGET_H

#include "base/heap.h"
#include "cluster/core/power/power_cap.h"
#include "cluster/core/power/power_price.h"

enum { LULL_POWER_NONE = UINT32_MAX }; /* no job, operating point or node */

/* A job that runs. */
struct lull_power_load {
    uint32_t point;
    uint32_t share_count;              /* 0: it does not run */
    struct lull_cluster_share *shares; /* its own */
    uint32_t ends;                     /* number of reports of its end, over all its runs */
};

struct lull_power_budget {
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    struct lull_power_cap cap;
    double *node_w;                /* [node]: jobs included */
    double *empty_w;               /* [node]: without its jobs */
    double sum_w;                  /* of all nodes, jobs included */
    double nodes_w;                /* the same without jobs */
    struct lull_power_load *loads; /* [job] */
    double *min_w;                 /* [job] of its operating point of least power */
    size_t running;
    struct lull_heap ends; /* of loads, by job and by `ends` of that time; some were moved since */
    struct lull_node_groups groups;
    double idle_w;                    /* of all nodes */
    struct lull_cluster_share *trial; /* [node] */

    /* The job that waits for watts, and its reservation. */
    uint32_t head;   /* LULL_POWER_NONE: no job waits for watts */
    int64_t head_ns; /* the latest time at which the watts that it needs are free */
    double spare_w;  /* watts that other jobs may use beyond that time without delaying it */

    uint64_t gpus;                 /* of all nodes */
    struct lull_power_price price; /* of watts, by the jobs that wait */
};

/* Starts with all nodes on and idle. Errors: as lull_power_cap_wrap. */
int lull_power_budget_init(struct lull_power_budget *budget, const struct lull_cluster *cluster,
                           const struct lull_cluster_jobs *jobs, const struct lull_power_cap *cap,
                           struct lull_error *err);
void lull_power_budget_fini(struct lull_power_budget *budget);

/* The power of a job's GPU in an operating point above that of an idle one, W; >= 0. */
double lull_power_budget_extra_w(const struct lull_power_budget *budget, uint32_t job,
                                 uint32_t point);

/* The power of all GPUs of a job in an operating point above that of idle ones, W; >= 0. */
double lull_power_budget_total_w(const struct lull_power_budget *budget, uint32_t job,
                                 uint32_t point);

/* Return the power of a node without jobs, W: while it is on, and while it turns on. */
double lull_power_budget_idle_w(const struct lull_cluster *cluster, uint32_t node);
double lull_power_budget_turning_on_w(const struct lull_cluster *cluster, uint32_t node);

/* Returns whether more_w more watts fit under the cluster's cap, or under a node's. */
bool lull_power_budget_has(const struct lull_power_budget *budget, double more_w);
bool lull_power_budget_has_on(const struct lull_power_budget *budget, uint32_t node, double more_w);

/* A job runs from now on. -ENOMEM: nothing has changed. */
int lull_power_budget_add(struct lull_power_budget *budget, uint32_t job, uint32_t point,
                          const struct lull_cluster_share *shares, size_t count, int64_t now_ns);

/* A running job continues in another operating point with the same number of GPUs. -ENOMEM: nothing
 * has changed.
 */
int lull_power_budget_reclock(struct lull_power_budget *budget, uint32_t job, uint32_t point,
                              int64_t now_ns);

/* A running job ends at another time; without memory the old time stays. */
void lull_power_budget_expect_end(struct lull_power_budget *budget, uint32_t job, int64_t end_ns);

/* Notes that a job no longer runs; does nothing if it did not run. */
void lull_power_budget_remove(struct lull_power_budget *budget, uint32_t job);

/* A node draws w watts without its jobs from now on. */
void lull_power_budget_set_empty(struct lull_power_budget *budget, uint32_t node, double w);

/*
 * The latest time at which the ends of running jobs leave room for more_w more watts
 * under the cluster's cap, and the watts beyond that, W. now_ns: there is no such time. O(k log k)
 * for k ends until then.
 */
int64_t lull_power_budget_when(const struct lull_power_budget *budget, double more_w,
                               int64_t now_ns, double *spare_w_out);

/* Returns whether the empty cluster could hold a job in an operating point under the caps. */
bool lull_power_budget_could(const struct lull_power_budget *budget, uint32_t job, uint32_t point);

/* Records the least need of a job that arrived; false: no
 * operating point of it fits into the empty cluster under the
 * caps. */
bool lull_power_budget_expect(struct lull_power_budget *budget, uint32_t job);

/* ---- power_place.c ------------------------------------------------------------------------- */

/* A job for which lull_power_budget_expect() was true waits for its start, or no longer does. */
void lull_power_budget_wait(struct lull_power_budget *budget, uint32_t job, bool waits);

/* Reserves watts for a job that waits for them, those of its most modest operating point, unless
 * another job has a reservation. */
void lull_power_budget_reserve(struct lull_power_budget *budget, uint32_t job, int64_t now_ns);

/* Returns whether another job may draw more_w more until until_ns without
 * delaying the job that waits for watts; if so, records that it does. */
bool lull_power_budget_fits_reservation(const struct lull_power_budget *budget, uint32_t job,
                                        double more_w, int64_t until_ns);
void lull_power_budget_pass(struct lull_power_budget *budget, uint32_t job, double more_w,
                            int64_t until_ns);

/* Moves a start that does not fit to other nodes or another
 * operating point; false: nothing fits. */
bool lull_power_budget_replace(const struct lull_power_budget *budget,
                               const struct lull_cluster_state *state, int64_t now_ns,
                               struct lull_cluster_decision *decision);

#endif
