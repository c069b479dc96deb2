/*
 * Measures the cost of the cluster engine for random jobs, distributed like those of Philly, on a
 * cluster whose size gives a load of 85 %. Prints one JSON object.
 *
 * Usage: bench_cluster POLICY GPUS JOBS [power-down|cap|links|storage]
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/text.h"
#include "core/stats/random.h"
#include "cluster/simulator/engine.h"

enum { NODE_GPUS = 8, RACK_NODES = 6, MAX_GANG = 64 };

#define LOAD_RATIO 0.85
#define MEAN_S 13000.0
#define RUN_W 350.0
#define IDLE_W 60.0
#define EXPOSED_RATIO 0.2F
#define READ_MB_S 100.0F /* read rate of a GPU from storage */

struct bench {
    struct lull_cluster_type type;
    struct lull_cluster_node *nodes;
    struct lull_cluster cluster;
    struct lull_cluster_point *points;
    struct lull_cluster_job *all;
    struct lull_cluster_jobs jobs;
};

/* Draws the GPUs of a job: 93 of 100 jobs take one GPU, the others 2 to 64. */
static uint32_t draw_gang(struct lull_random *random, uint32_t gpus)
{
    uint32_t gang = 1;

    if (lull_random_uniform(random) < 0.93)
        return 1;
    while (gang < MAX_GANG && gang < gpus / 4 && lull_random_below(random, 2))
        gang *= 2;
    return gang;
}

static int make(struct bench *bench, uint32_t gpus, size_t jobs)
{
    const uint32_t nodes = (gpus + NODE_GPUS - 1) / NODE_GPUS;
    struct lull_random random;
    double wanted_s = 0.0;

    bench->nodes = calloc(nodes, sizeof(*bench->nodes));
    bench->points = calloc(jobs, sizeof(*bench->points));
    bench->all = calloc(jobs, sizeof(*bench->all));
    if (bench->nodes == NULL || bench->points == NULL || bench->all == NULL)
        return -1;
    bench->type = (struct lull_cluster_type){
        .name = "GPU", .idle_w = IDLE_W, .turn_on_j = 1e5, .turn_on_ns = INT64_C(180000000000)};
    for (uint32_t i = 0; i < nodes; i++)
        bench->nodes[i] = (struct lull_cluster_node){.gpus = NODE_GPUS, .rack = i / RACK_NODES};
    bench->cluster = (struct lull_cluster){&bench->type, 1, bench->nodes, nodes, 1};
    lull_random_init(&random, 1);
    for (size_t i = 0; i < jobs; i++) {
        const uint32_t gang = draw_gang(&random, gpus);
        /* The time is log-normal; e^(2.25^2 / 2) is its mean divided by its median. */
        const double time_s =
            1.0 + MEAN_S * exp(lull_random_normal(&random, -2.25 * 2.25 / 2.0, 2.25));

        bench->points[i] = (struct lull_cluster_point){
            .gpus = gang,
            .time_ns = (int64_t)(time_s * 1e9),
            .energy_j = RUN_W * gang * time_s,
            .exposed_ratio = EXPOSED_RATIO,
            .read_mb_s = READ_MB_S * (float)gang,
        };
        bench->all[i] =
            (struct lull_cluster_job){.arrival_ns = (int64_t)(wanted_s / (gpus * LOAD_RATIO) * 1e9),
                                      .deadline_ns = LULL_CLUSTER_NEVER,
                                      .weight = 1.0,
                                      .point_count = 1,
                                      .points = &bench->points[i]};
        wanted_s += gang * time_s;
    }
    bench->jobs = (struct lull_cluster_jobs){bench->all, jobs};
    return 0;
}

static double cpu_s(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static int measure(const struct bench *bench, const struct lull_cluster_policy_ops *policy,
                   const struct lull_cluster_conditions *conditions)
{
    const double begun_s = cpu_s();
    struct lull_cluster_run *run;
    struct lull_error err;
    double took_s;

    if (lull_cluster_simulate(&bench->cluster, &bench->jobs, policy, conditions, &run, &err) < 0) {
        fprintf(stderr, "bench_cluster: %s\n", err.text);
        return 1;
    }
    took_s = cpu_s() - begun_s;
    printf("{\"policy\": \"%s\", \"gpus\": %u, \"jobs\": %zu, \"cpu_s\": %.6f, "
           "\"us_per_job\": %.3f, \"turn_ons\": %llu}\n",
           policy->name, bench->cluster.node_count * NODE_GPUS, bench->jobs.count, took_s,
           took_s / (double)bench->jobs.count * 1e6,
           (unsigned long long)lull_cluster_run_nodes(run).turn_ons);
    lull_cluster_run_destroy(run);
    return 0;
}

int main(int argc, char **argv)
{
    struct lull_cluster_conditions conditions = {0};
    struct bench bench = {0};
    const struct lull_cluster_policy_ops *policy =
        argc > 3 ? lull_cluster_policy_find(argv[1]) : NULL;
    int64_t gpus, jobs;
    int result;

    if (policy == NULL || lull_text_parse_int(argv[2], NODE_GPUS, 1 << 23, &gpus) < 0 ||
        lull_text_parse_int(argv[3], 1, 1 << 24, &jobs) < 0) {
        fprintf(stderr, "Usage: bench_cluster POLICY GPUS JOBS "
                        "[power-down|cap|links|storage]\n");
        return 2;
    }
    if (make(&bench, (uint32_t)gpus, (size_t)jobs) < 0) {
        fprintf(stderr, "bench_cluster: out of memory\n");
        return 1;
    }
    conditions.turns_nodes_off = argc > 4 && strcmp(argv[4], "power-down") == 0;
    if (argc > 4 && strcmp(argv[4], "cap") == 0)
        conditions.cap = (struct lull_power_cap){
            .cluster_w = (double)gpus * (IDLE_W + (RUN_W - IDLE_W) * LOAD_RATIO),
            .peak_ratio = LULL_POWER_CAP_PEAK_RATIO};
    if (argc > 4 && strcmp(argv[4], "links") == 0)
        conditions.contention =
            (struct lull_contention_rules){.shares_links = true, .uplink_links = 1.0};
    if (argc > 4 && strcmp(argv[4], "storage") == 0)
        conditions.contention.storage_mb_s = (double)READ_MB_S * (double)gpus * LOAD_RATIO * 0.6;
    result = measure(&bench, policy, &conditions);
    free(bench.nodes);
    free(bench.points);
    free(bench.all);
    return result;
}
