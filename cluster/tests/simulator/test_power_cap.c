/*
 * Throughput under a power cap, compared with the linear
 * program in which jobs are divided and clocks mixed freely. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/core/property.h"
#include "cluster_case.h"

enum {
    MOST_CROWD = 3000,
    NODES = 16,
    NODE_GPUS = 8,
    GPUS = NODES * NODE_GPUS,
    CLOCKS = 4,
    SEEDS = 3
};

#define IDLE_W 50.0
#define MOST_W 317.5 /* of a GPU at its highest clock, beyond idle, at its peak */

static const struct lull_cluster_type gpu = {.name = "A", .idle_w = IDLE_W};
static struct lull_cluster_node nodes[NODES];
static struct lull_cluster_point points[MOST_CROWD][CLOCKS];
static struct lull_cluster_job crowd[MOST_CROWD];
static int crowd_size;

/* All there at the beginning: 1, 2 or 4 GPUs, 50 to 150 s at the highest clock, of which a random
 * share follows the clock. */
static void draw_crowd(uint64_t seed, int size)
{
    struct lull_random random;

    lull_random_init(&random, seed);
    crowd_size = size;
    for (int i = 0; i < NODES; i++)
        nodes[i].gpus = NODE_GPUS;
    for (int i = 0; i < crowd_size; i++) {
        const uint32_t gpus = 1U << lull_random_below(&random, 3);
        const double bound_ratio = lull_random_uniform(&random); /* by the clock */
        const double time_s = 50.0 + 100.0 * lull_random_uniform(&random);

        crowd[i] = (struct lull_cluster_job){.deadline_ns = LULL_CLUSTER_NEVER,
                                             .weight = 1.0,
                                             .point_count = CLOCKS,
                                             .points = points[i]};
        for (int k = 0; k < CLOCKS; k++) {
            const double clock = 1.0 - 0.15 * k;
            const double slower = 1.0 - bound_ratio + bound_ratio / clock;

            points[i][k] = (struct lull_cluster_point){
                .gpus = gpus,
                .time_ns = (int64_t)(time_s * slower * 1e9),
                .energy_j = gpus * (80.0 + 270.0 * clock * clock * clock) * time_s * slower};
        }
    }
}

/* ---- the linear program --------------------------------------------------------------------- */

/*
 * Its dual, by weights of watts against GPUs: the least share of a
 * second of the whole cluster that a job needs. No schedule does more
 * than a second's work in a second, so the sum is a bound of the
 * makespan; the best weight's is the linear program's, to the step of the search.
 */
struct dual {
    double weight;
    double sum_s;
};

static double worth_s(const struct lull_power_cap *cap, double weight, int job)
{
    double min_s = INFINITY;

    for (int k = 0; k < CLOCKS; k++) {
        const struct lull_cluster_point *point = &points[job][k];
        const double time_s = (double)point->time_ns * 1e-9;
        const double extra_j = point->energy_j * cap->peak_ratio - IDLE_W * point->gpus * time_s;
        const double watts_s = weight > 0.0 ? extra_j / (cap->cluster_w - GPUS * IDLE_W) : 0.0;

        min_s = fmin(min_s, weight * watts_s + (1.0 - weight) * point->gpus * time_s / GPUS);
    }
    return min_s;
}

static struct dual weigh(const struct lull_power_cap *cap, double weight)
{
    struct dual dual = {.weight = weight};

    for (int i = 0; i < crowd_size; i++)
        dual.sum_s += worth_s(cap, weight, i);
    return dual;
}

static struct dual solve(const struct lull_power_cap *cap)
{
    double low = 0.0;
    double high = cap->cluster_w > 0.0 ? 1.0 : 0.0;

    while (high - low > 1e-6) {
        const double third = (high - low) / 3.0;

        if (weigh(cap, low + third).sum_s < weigh(cap, high - third).sum_s)
            low += third;
        else
            high -= third;
    }
    return weigh(cap, (low + high) / 2.0);
}

/* ---- runs ----------------------------------------------------------------------------------- */

struct result {
    double makespan_ratio; /* over the linear program's */
    double rate_ratio;     /* of its completed work, until fewer jobs wait than run */
};

/* Start and end of a job. No job is preempted or fails here. */
struct span {
    int64_t start_ns;
    int64_t end_ns;
};

static int by_start(const void *left, const void *right)
{
    const int64_t a = ((const struct span *)left)->start_ns;
    const int64_t b = ((const struct span *)right)->start_ns;

    return (a > b) - (a < b);
}

/* The first start after which fewer jobs wait than run. */
static double thin_from_s(const struct lull_cluster_run *run)
{
    static struct span spans[MOST_CROWD];
    int first = 0;

    for (int i = 0; i < crowd_size; i++)
        spans[i] = (struct span){lull_cluster_run_outcomes(run)[i].start_ns,
                                 lull_cluster_run_outcomes(run)[i].end_ns};
    qsort(spans, (size_t)crowd_size, sizeof(*spans), by_start);
    /* Never more than GPUs run. */
    first = crowd_size > GPUS ? crowd_size - GPUS : 0;
    for (int started = first; started < crowd_size; started++) {
        int running = 0;

        for (int i = 0; i <= started; i++)
            running += spans[i].end_ns > spans[started].start_ns;
        if (crowd_size - 1 - started < running)
            return (double)spans[started].start_ns * 1e-9;
    }
    return INFINITY;
}

static struct result judge(const struct lull_cluster_run *run, const struct lull_power_cap *cap)
{
    const struct lull_cluster_stretches *all = lull_cluster_run_stretches(run);
    const struct dual dual = solve(cap);
    const double until_s = thin_from_s(run);
    struct result result = {0};

    for (size_t i = 0; i < all->count; i++) {
        const struct lull_cluster_stretch *stretch = &all->all[i];
        const double begin_s = (double)stretch->begin_ns * 1e-9;
        const double ran_s = fmin((double)stretch->end_ns * 1e-9, until_s) - begin_s;
        const double time_s = (double)points[stretch->job][stretch->point].time_ns * 1e-9;

        result.makespan_ratio =
            fmax(result.makespan_ratio, (double)stretch->end_ns * 1e-9 / dual.sum_s);
        result.rate_ratio +=
            fmax(ran_s, 0.0) / time_s * worth_s(cap, dual.weight, (int)stretch->job) / until_s;
    }
    return result;
}

static struct result run_crowd(const struct lull_cluster_policy_ops *policy, double share)
{
    const struct lull_cluster cluster = {&gpu, 1, nodes, NODES, 1};
    const struct lull_cluster_jobs jobs = {crowd, (size_t)crowd_size};
    const struct lull_cluster_conditions conditions = {
        .cap = {.cluster_w = share > 0.0 ? GPUS * (IDLE_W + share * MOST_W) : 0.0,
                .peak_ratio = LULL_POWER_CAP_PEAK_RATIO}};
    struct lull_cluster_run *run = NULL;
    struct result result;

    assert_int_equal(lull_cluster_simulate(&cluster, &jobs, policy, &conditions, &run, NULL), 0);
    result = judge(run, &conditions.cap);
    lull_cluster_run_destroy(run);
    return result;
}

/* From watts that are very short to as many as nearly all GPUs can take; 0: no cap. */
static const double shares[] = {0.2, 0.35, 0.5, 0.65, 0.8, 0.0};

enum { SHARES = sizeof(shares) / sizeof(shares[0]) };

/* With jobs that run ahead where GPUs are free, within 5 % of the linear program at every cap. */
static void test_backfill_is_near_the_linear_program(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (int i = 0; i < SHARES; i++) {
            struct result result;

            draw_crowd(seed, MOST_CROWD);
            result = run_crowd(lull_cluster_policy_find("backfill"), shares[i]);
            holds(result.makespan_ratio >= 1.0 && result.makespan_ratio <= 1.05, seed);
            holds(result.rate_ratio <= 1.0 + 1e-9 && result.rate_ratio >= 0.95, seed);
        }
}

/* In the order of arrival gangs wait for GPUs, which costs 6.5 % without a cap too. */
static void test_a_cap_costs_little_in_any_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (int i = 0; i < SHARES; i++) {
            struct result result;

            draw_crowd(seed, MOST_CROWD);
            result = run_crowd(lull_cluster_policy_find("fifo"), shares[i]);
            holds(result.makespan_ratio >= 1.0 && result.makespan_ratio <= 1.12, seed);
        }
}

/* The table in docs/research/measurements/cluster.md: means over the seeds, in %. */
static void print_table(void)
{
    static const int sizes[] = {300, 1000, MOST_CROWD};
    const struct lull_cluster_policy_ops *const policies[] = {lull_cluster_policy_find("fifo"),
                                                              lull_cluster_policy_find("lpt"),
                                                              lull_cluster_policy_find("backfill")};

    for (size_t size = 0; size < sizeof(sizes) / sizeof(sizes[0]); size++)
        for (size_t p = 0; p < sizeof(policies) / sizeof(policies[0]); p++) {
            printf("%5d jobs, %-9s", sizes[size], policies[p]->name);
            for (int i = 0; i < SHARES; i++) {
                struct result sum = {0};

                for (uint64_t seed = 1; seed <= SEEDS; seed++) {
                    struct result result;

                    draw_crowd(seed, sizes[size]);
                    result = run_crowd(policies[p], shares[i]);
                    sum.makespan_ratio += result.makespan_ratio / SEEDS;
                    sum.rate_ratio += result.rate_ratio / SEEDS;
                }
                printf("  %+5.1f, %+5.1f", (sum.makespan_ratio - 1.0) * 100.0,
                       (sum.rate_ratio - 1.0) * 100.0);
            }
            printf("\n");
        }
}

/* With an argument: the table alone. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backfill_is_near_the_linear_program),
        cmocka_unit_test(test_a_cap_costs_little_in_any_order),
    };

    (void)argv;
    if (argc == 1)
        return cmocka_run_group_tests(tests, NULL, NULL);
    print_table();
    return 0;
}
