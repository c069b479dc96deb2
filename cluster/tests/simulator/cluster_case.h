/*
 * Random clusters, jobs with operating points and conditions for tests of the cluster engine; and
 * the energy of a run, computed again from its stretches. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TESTS_SIMULATOR_CLUSTER_CASE_H
#define LULL_CLUSTER_TESTS_SIMULATOR_CLUSTER_CASE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/stats/random.h"
#include "cluster/simulator/engine.h"

enum {
    CASE_MOST_NODES = 12,
    CASE_MOST_JOBS = 60,
    CASE_POINTS = 3,
    CASE_MOST_FAILURES = 20,
};

#define CASE_S INT64_C(1000000000)

struct cluster_case {
    struct lull_cluster_type types[2];
    struct lull_cluster_node nodes[CASE_MOST_NODES];
    struct lull_cluster cluster;
    struct lull_cluster_point points[CASE_MOST_JOBS][CASE_POINTS];
    struct lull_cluster_job all[CASE_MOST_JOBS];
    struct lull_cluster_jobs jobs;
    struct lull_cluster_failure failures[CASE_MOST_FAILURES];
    size_t failure_count;
    bool is_mixed; /* nodes of a group differ in size: some gangs then find no place, ever */
};

static inline int64_t case_seconds(struct lull_random *random, uint64_t least, uint64_t range)
{
    return (int64_t)(least + lull_random_below(random, range)) * CASE_S;
}

static inline void case_cluster(struct cluster_case *it, struct lull_random *random)
{
    const uint32_t pools = 1 + (uint32_t)lull_random_below(random, 2);
    const uint32_t types = 1 + (uint32_t)lull_random_below(random, 2);
    const uint32_t nodes = 4 + (uint32_t)lull_random_below(random, CASE_MOST_NODES - 3);

    it->is_mixed = lull_random_below(random, 4) == 0;
    for (uint32_t i = 0; i < types; i++)
        it->types[i] = (struct lull_cluster_type){
            .name = i == 0 ? "A" : "B",
            .idle_w = 20.0 + (double)lull_random_below(random, 60),
            .turn_on_j = (double)lull_random_below(random, 20000),
            .turn_on_ns = lull_random_below(random, 2) ? case_seconds(random, 60, 120) : 0,
            .off_w = (double)lull_random_below(random, 15),
        };
    for (uint32_t i = 0; i < nodes; i++)
        it->nodes[i] = (struct lull_cluster_node){
            .pool = i % pools,
            .type = i / pools % types,
            .gpus = it->is_mixed && lull_random_below(random, 2) ? 2 : 4,
        };
    it->cluster = (struct lull_cluster){it->types, types, it->nodes, nodes, pools};
}

/* A job's operating points share type and GPUs but for the last, now and then. */
static inline void case_job(struct cluster_case *it, uint32_t number, struct lull_random *random)
{
    struct lull_cluster_job *const job = &it->all[number];
    struct lull_cluster_point *const points = it->points[number];
    const int64_t time_ns = case_seconds(random, 5, lull_random_below(random, 4) ? 60 : 900);

    *job = (struct lull_cluster_job){
        .arrival_ns = number > 0 ? it->all[number - 1].arrival_ns : 0,
        .deadline_ns = LULL_CLUSTER_NEVER,
        .weight = 1.0 + (double)lull_random_below(random, 3),
        .pool = (uint32_t)lull_random_below(random, it->cluster.pool_count),
        .is_preemptible = lull_random_below(random, 2) == 0,
        .checkpoint_ns = lull_random_below(random, 2) ? case_seconds(random, 1, 30) : 0,
        .point_count = 1 + (uint32_t)lull_random_below(random, CASE_POINTS),
        .points = points,
    };
    job->arrival_ns += lull_random_below(random, 3) ? case_seconds(random, 0, 60) : 0;
    if (lull_random_below(random, 2))
        job->deadline_ns = job->arrival_ns + 3 * time_ns;
    for (uint32_t i = 0; i < job->point_count; i++) {
        const double slower = 1.0 + 0.2 * i;

        points[i] = (struct lull_cluster_point){
            .type = i == 0 || lull_random_below(random, 4) == 0
                        ? (uint32_t)lull_random_below(random, it->cluster.type_count)
                        : points[0].type,
            .gpus = i == 0 ? 1 + (uint32_t)lull_random_below(random,
                                                             lull_random_below(random, 4) ? 4 : 10)
                           : points[0].gpus,
            .sm_mhz = 1400 - 200 * i,
            .time_ns = (int64_t)((double)time_ns * slower),
        };
        points[i].energy_j = (300.0 - 70.0 * i + 20.0 * lull_random_uniform(random)) *
                             points[i].gpus * (double)points[i].time_ns * 1e-9;
    }
}

static inline void case_failures(struct cluster_case *it, struct lull_random *random)
{
    int64_t up_ns[CASE_MOST_NODES] = {0};

    it->failure_count = lull_random_below(random, CASE_MOST_FAILURES);
    for (size_t i = 0; i < it->failure_count; i++) {
        const uint32_t node = (uint32_t)lull_random_below(random, it->cluster.node_count);
        const int64_t from_ns = up_ns[node] + case_seconds(random, 0, 600);

        up_ns[node] = from_ns + case_seconds(random, 1, 120);
        it->failures[i] = (struct lull_cluster_failure){node, from_ns, up_ns[node]};
    }
}

static inline void case_draw(struct cluster_case *it, uint64_t seed)
{
    struct lull_random random;

    memset(it, 0, sizeof(*it));
    lull_random_init(&random, seed);
    case_cluster(it, &random);
    it->jobs = (struct lull_cluster_jobs){it->all, 1 + lull_random_below(&random, CASE_MOST_JOBS)};
    for (uint32_t i = 0; i < it->jobs.count; i++)
        case_job(it, i, &random);
    case_failures(it, &random);
}

/* The power of all nodes that are on, without jobs. */
static inline double case_idle_w(const struct lull_cluster *cluster)
{
    double sum_w = 0.0;

    for (uint32_t i = 0; i < cluster->node_count; i++)
        sum_w += cluster->types[cluster->nodes[i].type].idle_w * cluster->nodes[i].gpus;
    return sum_w;
}

/* And, if they are turned off, one of them turning on instead, that which takes most. */
static inline double case_least_cap_w(const struct lull_cluster *cluster, bool turns_nodes_on)
{
    double most_w = 0.0;

    for (uint32_t i = 0; i < cluster->node_count; i++) {
        const struct lull_cluster_type *type = &cluster->types[cluster->nodes[i].type];

        if (turns_nodes_on && type->turn_on_ns > 0)
            most_w = fmax(most_w, type->turn_on_j / ((double)type->turn_on_ns * 1e-9) -
                                      type->idle_w * cluster->nodes[i].gpus);
    }
    return case_idle_w(cluster) + most_w;
}

#endif
