/*
 * Runs of random jobs under a policy, with a wrapper that records every decision and checks it
 * independently. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TESTS_SIMULATOR_POLICY_SPY_H
#define LULL_CLUSTER_TESTS_SIMULATOR_POLICY_SPY_H

#include "tests/core/property.h"
#include "cluster/simulator/engine.h"

enum { SPY_JOBS = 64, SPY_NODES = 24, SPY_POINTS = 8, SPY_EVENTS = 20000, SPY_SHARES = 8 };

#define SPY_S INT64_C(1000000000)

struct spy_case {
    uint64_t seed;
    struct lull_cluster_type types[2];
    struct lull_cluster_node nodes[SPY_NODES];
    struct lull_cluster cluster;
    struct lull_cluster_point points[SPY_JOBS][SPY_POINTS];
    struct lull_cluster_job all[SPY_JOBS];
    struct lull_cluster_jobs jobs;
};

/* Properties of a random case. */
struct spy_options {
    uint32_t types, pools, nodes, node_gpus, jobs, max_gpus;
    uint32_t clocks;  /* operating points of a type, by clock */
    uint32_t elastic; /* numbers of GPUs of an operating point; 1: as it asks */
    bool is_preemptible;
    bool has_deadlines;
    bool has_weights;
    int64_t max_s;  /* of a job's fastest operating point */
    int64_t span_s; /* of arrivals */
};

void spy_make(struct spy_case *it, const struct spy_options *options, uint64_t seed);

enum spy_kind { SPY_START, SPY_STOP, SPY_RECLOCK, SPY_END };

struct spy_event {
    int64_t at_ns;
    enum spy_kind kind;
    uint32_t job;
    uint32_t point;
    int64_t restart_ns;
    uint32_t share_count;
    struct lull_cluster_share shares[SPY_SHARES];
};

struct spy_log {
    struct spy_event events[SPY_EVENTS];
    size_t count;
};

/*
 * Called whenever the policy has nothing left to do at a time; is_waiting and runs_until_ns (-1: it
 * does not run) by job.
 */
typedef void (*spy_pause)(const struct spy_case *it, const struct spy_log *log,
                          const struct lull_cluster_state *state, int64_t now_ns,
                          const bool *is_waiting);

/* Runs the case; the run is the caller's. pause may be NULL. */
struct lull_cluster_run *spy_run(const struct spy_case *it,
                                 const struct lull_cluster_policy_ops *ops, spy_pause pause,
                                 struct spy_log *log);

/*
 * No GPU has two jobs; every job that could run did, wholly, in its operating points, after it
 * arrived, and stopped in between only if it may; it has no more than its operating point's GPUs;
 * RECLOCK changes clocks only.
 */
void spy_check(const struct spy_case *it, const struct lull_cluster_run *run,
               const struct spy_log *log);

#endif
