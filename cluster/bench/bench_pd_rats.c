/*
 * Measures PD-RATS. `ratio [FIRST_SEED [SEEDS]]`: welfare of policies beside the linear program, by
 * family and load, and the certificate; counts, not times. `speed GPUS`: what one plan of the
 * policy costs. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cluster/tests/core/policy/online_judge.h"
#include "core/stats/random.h"
#include "cluster/simulator/engine.h"

static const double loads[] = {0.5, 0.9, 1.3, 2.0, 3.0};

enum { LOADS = sizeof(loads) / sizeof(loads[0]), KINDS = 4 };

/* Ratios of the optimum to the gain of a policy, and of the certificate to the optimum. */
struct tally {
    int count;
    size_t jobs;
    double sum[KINDS];
    double worst[KINDS];
    int unsound;
};

static void add(struct tally *tally, const struct online_verdict *verdict, size_t jobs)
{
    const double values[KINDS] = {
        verdict->optimum_j / verdict->greedy_j, verdict->optimum_j / verdict->tuned_j,
        verdict->scaled_j / verdict->optimum_j, verdict->certified_j / verdict->optimum_j};

    tally->count++;
    tally->jobs += jobs;
    tally->unsound +=
        !verdict->is_sound || verdict->certified_j < verdict->optimum_j * (1.0 - 1e-7);
    for (int i = 0; i < KINDS; i++) {
        tally->sum[i] += values[i];
        tally->worst[i] = fmax(tally->worst[i], values[i]);
    }
}

static void merge(struct tally *into, const struct tally *from)
{
    into->count += from->count;
    into->jobs += from->jobs;
    into->unsound += from->unsound;
    for (int i = 0; i < KINDS; i++) {
        into->sum[i] += from->sum[i];
        into->worst[i] = fmax(into->worst[i], from->worst[i]);
    }
}

static void print(const char *name, double load_ratio, const struct tally *tally)
{
    printf("%-7s %4.1f %4d %5zu", name, load_ratio, tally->count,
           tally->jobs / (size_t)tally->count);
    for (int i = 0; i < KINDS; i++)
        printf("  %5.3f %5.3f", tally->sum[i] / tally->count, tally->worst[i]);
    printf("%s\n", tally->unsound > 0 ? "  NOT SOUND" : "");
    fflush(stdout);
}

/* Returns the number of seeds of a family to draw at each load. One instance of the large family
 * takes long. */
static uint64_t count_seeds(int family, uint64_t seeds)
{
    if (family == ONLINE_PLAIN)
        return 5 * seeds;
    return family == ONLINE_LARGE ? 1 : seeds;
}

static int ratio(uint64_t first, uint64_t seeds)
{
    struct tally all = {0};

    printf("family  load   n  jobs  greedy       pd-rats      scaled       certificate\n"
           "                        mean  worst  of optimum over policy; of bound over optimum\n");
    for (int family = 0; family < ONLINE_FAMILIES; family++) {
        const bool is_free = family == ONLINE_PLAIN; /* it has 20 to 150 jobs at every load */

        for (int i = 0; i < (is_free ? 1 : LOADS); i++) {
            const uint64_t count = count_seeds(family, seeds);
            struct tally tally = {0};
            const char *name = "";

            for (uint64_t seed = first; seed < first + count; seed++) {
                struct online_case *it =
                    online_case_draw((enum online_family)family, is_free ? 0.0 : loads[i], seed);
                const struct online_verdict verdict = online_judge(it);

                name = it->name;
                add(&tally, &verdict, it->jobs.count);
                online_case_destroy(it);
            }
            print(name, is_free ? 0.0 : loads[i], &tally);
            merge(&all, &tally);
        }
    }
    print("all", 0.0, &all);
    return all.unsound > 0;
}

/* ---- speed -------------------------------------------------------------------------------- */

enum { SPEED_JOBS = 1000, SPEED_POINTS = 4 };

/* Draws jobs that request as many GPUs as there are, in gangs in proportion, for 5 minutes to 8
 * hours. */
static void draw_stream(uint32_t gpus, struct lull_cluster_job *jobs,
                        struct lull_cluster_point (*points)[SPEED_POINTS])
{
    static const double clocks[SPEED_POINTS] = {1.0, 0.9, 0.8, 0.7};
    const double second = 1e9;
    struct lull_random random;
    double at_s = 0.0;

    lull_random_init(&random, 5);
    for (uint32_t i = 0; i < SPEED_JOBS; i++) {
        const uint32_t gang = 1 + (uint32_t)lull_random_below(&random, gpus / 25);
        const double time_s = 300.0 * exp(4.5 * lull_random_uniform(&random));

        at_s += gang * time_s / gpus;
        jobs[i] = (struct lull_cluster_job){
            .arrival_ns = (int64_t)(at_s * second),
            .deadline_ns = (int64_t)((at_s + 4.0 * time_s) * second),
            .weight = 1.0,
            .value_j = (300.0 + 900.0 * lull_random_uniform(&random)) * gang * time_s,
            .point_count = SPEED_POINTS,
            .points = points[i],
        };
        for (int m = 0; m < SPEED_POINTS; m++)
            points[i][m] = (struct lull_cluster_point){
                .gpus = gang,
                .time_ns = (int64_t)(time_s / clocks[m] * second),
                .energy_j = gang * time_s / clocks[m] * (80.0 + 320.0 * pow(clocks[m], 3.0)),
            };
    }
}

/* Prints the processor time that a policy takes for each job, from its arrival to its end. */
static int time_policy(const struct lull_cluster_policy_ops *policy, uint32_t gpus)
{
    static struct lull_cluster_job all[SPEED_JOBS];
    static struct lull_cluster_point points[SPEED_JOBS][SPEED_POINTS];
    const struct lull_cluster_type type = {.name = "GPU"};
    const uint32_t count = gpus / 4;
    struct lull_cluster_node *nodes = calloc(count, sizeof(*nodes));
    const struct lull_cluster cluster = {&type, 1, nodes, count, 1};
    const struct lull_cluster_jobs jobs = {all, SPEED_JOBS};
    struct lull_cluster_run *run;
    struct lull_error err = {0};
    clock_t begin;
    int result;

    for (uint32_t i = 0; i < count; i++)
        nodes[i].gpus = 4;
    draw_stream(gpus, all, points);
    begin = clock();
    result = lull_cluster_simulate(&cluster, &jobs, policy, NULL, &run, &err);
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", policy->name, err.text);
        free(nodes);
        return 1;
    }
    printf("%-12s %7u GPUs  %8.1f us a job\n", policy->name, gpus,
           (double)(clock() - begin) / CLOCKS_PER_SEC / SPEED_JOBS * 1e6);
    lull_cluster_run_destroy(run);
    free(nodes);
    return 0;
}

static int speed(uint32_t gpus)
{
    return time_policy(lull_cluster_policy_find("pd-rats"), gpus);
}

int main(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "ratio") == 0)
        return ratio(argc > 2 ? strtoull(argv[2], NULL, 10) : 1000,
                     argc > 3 ? strtoull(argv[3], NULL, 10) : 6);
    if (argc == 3 && strcmp(argv[1], "speed") == 0 && atoi(argv[2]) >= 100)
        return speed((uint32_t)atoi(argv[2]));
    fprintf(stderr, "usage: %s ratio [FIRST_SEED [SEEDS]] | speed GPUS\n", argv[0]);
    return 2;
}
