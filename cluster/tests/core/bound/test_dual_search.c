/*
 * Bounds for jobs whose times are not whole slots: no schedule, wherever it starts, gains more.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cluster/core/bound/dual_search.h"
#include "cluster/core/bound/slot_relaxation.h"
#include "cluster/tests/core/model/timeline_fit.h"
#include "core/stats/random.h"
#include "slot_lp.h"

enum { JOBS = 12, POINTS = 2, ROUNDS = 300, GPUS = 6 };

static const int64_t slot_ns = 1000;

struct drawn {
    struct lull_cluster_type type;
    struct lull_cluster_node node;
    struct lull_cluster cluster;
    struct lull_cluster_point points[JOBS][POINTS];
    struct lull_cluster_job all[JOBS];
    struct lull_cluster_jobs jobs;
};

static int64_t below(struct lull_random *random, int64_t bound)
{
    return (int64_t)lull_random_below(random, (uint64_t)bound);
}

static void draw(struct lull_random *random, bool has_to_run, struct drawn *drawn)
{
    *drawn = (struct drawn){.node = {.gpus = GPUS}};
    drawn->cluster = (struct lull_cluster){&drawn->type, 1, &drawn->node, 1, 1};
    drawn->jobs = (struct lull_cluster_jobs){drawn->all, JOBS};
    for (int j = 0; j < JOBS; j++) {
        const int64_t arrival_ns = below(random, 12000);

        drawn->all[j] = (struct lull_cluster_job){
            .arrival_ns = arrival_ns,
            .deadline_ns = has_to_run ? LULL_CLUSTER_NEVER : arrival_ns + 500 + below(random, 9000),
            .weight = 1.0,
            .value_j = has_to_run ? 0.0 : 1.0 + 9.0 * lull_random_uniform(random),
            .point_count = POINTS,
            .points = drawn->points[j],
        };
        for (int m = 0; m < POINTS; m++)
            drawn->points[j][m] = (struct lull_cluster_point){
                .gpus = 1 + (uint32_t)below(random, 4),
                .time_ns = 1 + below(random, 4000),
                .energy_j = 4.0 * lull_random_uniform(random),
            };
    }
}

/* Any schedule: random operating points, each as early as it fits after a random wait. Its gain. */
static double any_schedule(struct lull_random *random, const struct drawn *drawn, double second_j)
{
    struct lull_timeline free = {0};
    double gain_j = 0.0;

    assert_int_equal(lull_timeline_reset(&free, 0, GPUS), 0);
    for (int j = 0; j < JOBS; j++) {
        const struct lull_cluster_job *job = &drawn->all[j];
        const uint32_t m = (uint32_t)below(random, POINTS);
        struct lull_timeline later = {0};
        int64_t start_ns;
        double own_j;

        timeline_copy(&later, &free);
        lull_timeline_advance(&later, job->arrival_ns + below(random, 700));
        start_ns =
            timeline_first_fit(&later, job->points[m].gpus, job->points[m].time_ns, INT64_MAX - 1);
        lull_timeline_fini(&later);
        own_j = lull_cluster_gain_j(job, m, start_ns, second_j);
        if (job->value_j > 0.0 && !(own_j > 0.0))
            continue;
        gain_j += own_j;
        assert_int_equal(lull_timeline_take(&free, start_ns, start_ns + job->points[m].time_ns,
                                            job->points[m].gpus),
                         0);
    }
    lull_timeline_fini(&free);
    return gain_j;
}

static double certify(const struct lull_slot_problem *problem, double achieved_j)
{
    double *prices_j = calloc((size_t)problem->type_count * problem->slots, sizeof(*prices_j));
    const struct lull_price_ascent ascent = {.achieved = achieved_j, .steps = 100};
    double bound_j;

    assert_non_null(prices_j);
    assert_int_equal(lull_dual_search(problem, &ascent, prices_j, &bound_j), 0);
    free(prices_j);
    return bound_j;
}

static void check(bool has_to_run, double second_j)
{
    const struct lull_slotting slotting = {slot_ns, 80 * slot_ns, second_j, LULL_SLOTS_UNCAPPED};
    struct lull_random random;
    struct drawn drawn;

    lull_random_init(&random, has_to_run ? 31 : 32);
    for (int round = 0; round < ROUNDS; round++) {
        struct lull_slot_relaxation made;
        struct lull_error err;
        double best_j = -INFINITY;
        double bound_j;

        draw(&random, has_to_run, &drawn);
        for (int i = 0; i < 30; i++)
            best_j = fmax(best_j, any_schedule(&random, &drawn, second_j));
        assert_int_equal(
            lull_slot_relaxation_create(&drawn.cluster, &drawn.jobs, &slotting, &made, &err), 0);
        assert_int_equal(lull_slot_problem_check(&made.problem, &err), 0);
        bound_j = certify(&made.problem, -best_j);
        assert_true(bound_j <= -best_j + 1e-9);
        assert_true(lull_dual_ratio(bound_j, -best_j) >= 1.0);
        if (!has_to_run) {
            const double optimum_j = slot_lp_welfare(&made.problem, NULL);

            assert_true(optimum_j <= -bound_j + 1e-6);
            assert_true(-bound_j <= 1.05 * optimum_j + 1e-6);
        }
        lull_slot_relaxation_fini(&made);
    }
}

static void test_welfare(void **state)
{
    (void)state;
    check(false, 0.0);
    check(false, 3e5);
}

static void test_cost(void **state)
{
    (void)state;
    check(true, 3e5);
}

static void test_ratio(void **state)
{
    (void)state;
    assert_true(lull_dual_ratio(-12.0, -10.0) == 1.2); /* welfare */
    assert_true(lull_dual_ratio(10.0, 12.0) == 1.2);   /* cost */
    assert_true(lull_dual_ratio(-1.0, 0.0) == INFINITY);
    assert_true(lull_dual_ratio(0.0, 0.0) == 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_welfare),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_ratio),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
