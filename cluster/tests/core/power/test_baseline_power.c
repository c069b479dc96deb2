/*
 * The power of GPUs that is independent of the jobs: computed by
 * hand, compared at every instant, and below the power of any
 * schedule. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cluster/core/power/baseline_power.h"
#include "core/stats/random.h"
#include "tests/core/property.h"

enum { POOLS = 2, NODES = 6, MAX_JOBS = 24, POINTS = 3, MAX_GPUS = 64, SEEDS = 400 };
enum { S = 1000000000 };

static const struct lull_cluster_type types[] = {{"fast", 0, 50.0, 0.0, 0, 80.0},
                                                 {"slow", 0, 20.0, 0.0, 0, 200.0}};
static const struct lull_cluster_node nodes[NODES] = {{0, 0, 4, 0}, {0, 0, 2, 0}, {0, 1, 8, 0},
                                                      {1, 1, 8, 0}, {1, 0, 4, 0}, {1, 1, 8, 0}};
static const struct lull_cluster cluster = {types, 2, nodes, NODES, POOLS};

/* A job's modest operating point may draw less than an idle GPU, and a node that is off less than
 * either. */
static void test_power(void **state)
{
    const struct lull_cluster_point points[] = {
        {.type = 0, .gpus = 2, .time_ns = 10 * (int64_t)S, .energy_j = 900.0},   /* 45 W */
        {.type = 1, .gpus = 4, .time_ns = 20 * (int64_t)S, .energy_j = 2400.0}}; /* 30 W */
    const struct lull_cluster_job job = {.pool = 0, .point_count = 2, .points = points};
    const struct lull_cluster_jobs jobs = {&job, 1};
    double rest_w[2];

    (void)state;
    lull_baseline_power_of_types(&cluster, &jobs, false, rest_w);
    assert_near(rest_w[0], 45.0, 1e-9);
    assert_near(rest_w[1], 20.0, 1e-9);
    assert_near(lull_baseline_power_total_w(&cluster, rest_w), 10 * 45.0 + 24 * 20.0, 1e-9);
    /* The largest of the fast nodes has 4 GPUs for its 80 W; a slow one's 200 W are 25 a GPU. */
    lull_baseline_power_of_types(&cluster, &jobs, true, rest_w);
    assert_near(rest_w[0], 20.0, 1e-9);
    assert_near(rest_w[1], 20.0, 1e-9);
}

/* ---- the last end ------------------------------------------------------------------------- */

struct jobs_case {
    struct lull_cluster_point points[MAX_JOBS][POINTS];
    struct lull_cluster_job all[MAX_JOBS];
    struct lull_cluster_jobs jobs;
};

static uint32_t gpus_of(uint32_t pool)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < NODES; i++)
        sum += nodes[i].pool == pool ? nodes[i].gpus : 0;
    return sum;
}

static void draw_jobs(struct jobs_case *it, struct lull_random *random)
{
    int64_t arrival_ns = 0;

    *it = (struct jobs_case){.jobs = {it->all, 1 + lull_random_below(random, MAX_JOBS)}};
    for (size_t i = 0; i < it->jobs.count; i++) {
        const uint32_t pool = (uint32_t)lull_random_below(random, POOLS);

        for (unsigned m = 0; m < POINTS; m++)
            it->points[i][m] = (struct lull_cluster_point){
                .gpus = 1 + (uint32_t)lull_random_below(random, gpus_of(pool)),
                .time_ns = 1 + (int64_t)lull_random_below(random, 1000)};
        arrival_ns += (int64_t)lull_random_below(random, 200);
        it->all[i] = (struct lull_cluster_job){
            .arrival_ns = arrival_ns, .pool = pool, .point_count = POINTS, .points = it->points[i]};
    }
}

/* Starts a job at the earliest time, on the GPUs that are free first, wherever they are. They are
 * busy until its end, which is returned. */
static int64_t place(int64_t *free_ns, uint32_t count, const struct lull_cluster_point *point,
                     int64_t from_ns)
{
    int64_t begin_ns = from_ns;

    for (uint32_t k = 0; k < point->gpus; k++) {
        uint32_t first = k;

        for (uint32_t i = k; i < count; i++)
            if (free_ns[i] < free_ns[first])
                first = i;
        const int64_t soonest_ns = free_ns[first];

        free_ns[first] = free_ns[k];
        free_ns[k] = soonest_ns;
        begin_ns = soonest_ns > begin_ns ? soonest_ns : begin_ns;
    }
    for (uint32_t k = 0; k < point->gpus; k++)
        free_ns[k] = begin_ns + point->time_ns;
    return begin_ns + point->time_ns;
}

/* No schedule in the order of arrival, whatever operating points it takes, is over sooner. */
static void test_least_end_is_below_schedules(void **state)
{
    unsigned tight = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        int64_t free_ns[POOLS][MAX_GPUS] = {{0}};
        int64_t last_ns = 0;
        int64_t min_ns;
        struct lull_random random;
        struct jobs_case it;

        lull_random_init(&random, seed);
        draw_jobs(&it, &random);
        for (size_t i = 0; i < it.jobs.count; i++) {
            const uint32_t pool = it.all[i].pool;
            const int64_t end_ns =
                place(free_ns[pool], gpus_of(pool),
                      &it.points[i][lull_random_below(&random, POINTS)], it.all[i].arrival_ns);

            last_ns = end_ns > last_ns ? end_ns : last_ns;
        }
        assert_int_equal(lull_baseline_power_min_end(&cluster, &it.jobs, &min_ns), 0);
        holds(min_ns <= last_ns, seed);
        holds(min_ns >= it.all[it.jobs.count - 1].arrival_ns, seed);
        tight += (double)min_ns > 0.9 * (double)last_ns;
    }
    assert_true(tight > SEEDS / 20);
}

/* Jobs that fill a pool without a gap, one that is long alone, and nothing at all. */
static void test_least_end_by_hand(void **state)
{
    const struct lull_cluster_point filling = {.gpus = 14, .time_ns = 1000000};
    const struct lull_cluster_point lone = {.gpus = 1, .time_ns = 7000000};
    struct lull_cluster_job all[4];
    struct lull_cluster_jobs jobs = {all, 3};
    int64_t end_ns;

    (void)state;
    for (unsigned i = 0; i < 4; i++)
        all[i] = (struct lull_cluster_job){.arrival_ns = 500, .point_count = 1, .points = &filling};
    assert_int_equal(lull_baseline_power_min_end(&cluster, &jobs, &end_ns), 0);
    assert_in_range(end_ns, 3000499, 3000500);
    all[3] =
        (struct lull_cluster_job){.arrival_ns = 600, .pool = 1, .point_count = 1, .points = &lone};
    jobs.count = 4;
    assert_int_equal(lull_baseline_power_min_end(&cluster, &jobs, &end_ns), 0);
    assert_in_range(end_ns, 7000599, 7000600);
    jobs.count = 0;
    assert_int_equal(lull_baseline_power_min_end(&cluster, &jobs, &end_ns), 0);
    assert_int_equal(end_ns, 0);
}

/* ---- energy ------------------------------------------------------------------------------- */

/* Second by second: every GPU of a node that works. */
static void test_energy_counts_what_works(void **state)
{
    static const double rest_w[] = {3.0, 5.0};

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct lull_cluster_failure *failures;
        struct lull_random random;
        double sum_j = 0.0;
        size_t count;

        lull_random_init(&random, seed);
        const int64_t end_s = (int64_t)lull_random_below(&random, 60);

        assert_int_equal(lull_cluster_failures_draw(
                             &(struct lull_failure_model){NODES, 20 * (int64_t)S, 7 * (int64_t)S,
                                                          50 * (int64_t)S, seed},
                             &failures, &count, NULL),
                         0);
        for (size_t i = 0; i < count; i++) { /* whole seconds; a repair is longer than two */
            failures[i].from_ns -= failures[i].from_ns % S;
            failures[i].to_ns -= failures[i].to_ns % S;
        }
        for (int64_t s = 0; s < end_s; s++)
            for (uint32_t node = 0; node < NODES; node++) {
                bool is_up = true;

                for (size_t i = 0; i < count; i++)
                    is_up &= failures[i].node != node || s * S < failures[i].from_ns ||
                             s * S >= failures[i].to_ns;
                sum_j += is_up ? rest_w[nodes[node].type] * nodes[node].gpus : 0.0;
            }
        const double rest_j =
            lull_baseline_power_energy_j(&cluster, rest_w, failures, count, end_s * (int64_t)S);

        holds(rest_j <= sum_j && rest_j >= sum_j * (1.0 - 1e-9), seed);
        free(failures);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power),
        cmocka_unit_test(test_least_end_is_below_schedules),
        cmocka_unit_test(test_least_end_by_hand),
        cmocka_unit_test(test_energy_counts_what_works),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
