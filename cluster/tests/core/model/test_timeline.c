/* Timelines against brute force, and the prices of probable demand. SPDX-License-Identifier:
 * Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/core/model/timeline_search.h"
#include "cluster/core/policy/fluid_price.h"
#include "timeline_fit.h"
#include "core/stats/random.h"

enum { TIMES = 60 };

/* The same, one number per unit of time; beyond, as at the end. */
static int64_t slow_first_fit(const int64_t *free, int64_t now, int64_t gpus, int64_t time,
                              int64_t latest)
{
    for (int64_t start = now; start <= latest; start++) {
        int64_t at = start;

        while (at < start + time && free[at < TIMES ? at : TIMES - 1] >= gpus)
            at++;
        if (at == start + time)
            return start;
    }
    return INT64_MAX;
}

static int64_t below(struct lull_random *random, int64_t bound)
{
    return (int64_t)lull_random_below(random, (uint64_t)bound);
}

static void test_against_brute_force(void **state)
{
    struct lull_timeline timeline = {0};
    struct lull_timeline copy = {0};
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 21);
    for (int round = 0; round < 2000; round++) {
        int64_t free[TIMES];
        int64_t now = 0;

        for (int i = 0; i < TIMES; i++)
            free[i] = 8;
        assert_int_equal(lull_timeline_reset(&timeline, 0, 8), 0);
        for (int i = 0; i < 12; i++) {
            const int64_t gpus = 1 + below(&random, 4);
            const int64_t from = now + below(&random, TIMES - 1 - now);
            const int64_t until = from + 1 + below(&random, TIMES - 1 - from);
            const int64_t time = 1 + below(&random, 12);
            const int64_t latest = below(&random, 2) == 0 ? 2 * TIMES : below(&random, TIMES);

            assert_int_equal(lull_timeline_take(&timeline, from, until, gpus), 0);
            for (int64_t at = from; at < until; at++)
                free[at] -= gpus;
            if (below(&random, 4) == 0) {
                now += below(&random, 4);
                lull_timeline_advance(&timeline, now);
            }
            timeline_copy(&copy, &timeline);
            assert_true(timeline_first_fit(&copy, gpus, time, latest) ==
                        slow_first_fit(free, now, gpus, time, latest));
        }
    }
    lull_timeline_fini(&timeline);
    lull_timeline_fini(&copy);
}

/* Searches for ever longer times continue, and each is where a search from the first step on ends.
 */
static void check_search(struct lull_timeline_earliest *earliest,
                         const struct lull_timeline *rising, const struct lull_timeline *reserved,
                         const struct lull_timeline *both, struct lull_random *random)
{
    const uint32_t gpus = 1 + (uint32_t)below(random, 9);
    int64_t time = 1 + below(random, 12);
    struct lull_timeline_search search;

    assert_int_equal(lull_timeline_search_begin(&search, earliest, rising, reserved, gpus, time),
                     0);
    for (int i = 0; i < 5; i++) {
        assert_true(search.start_ns == timeline_first_fit(both, gpus, time, INT64_MAX - 1));
        time += below(random, 8);
        lull_timeline_search_longer(&search, time);
    }
}

/* A rising timeline and reservations, beside the one that both make: jobs are placed where they
 * fit, as in a plan, or anywhere. Cached results stay valid until the next plan. */
static void test_searches(void **state)
{
    struct lull_timeline_earliest earliest = {0};
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 23);
    for (int round = 0; round < 3000; round++) {
        struct lull_timeline rising = {0};
        struct lull_timeline reserved = {0};
        struct lull_timeline both = {0};

        lull_timeline_earliest_reset(&earliest);
        assert_int_equal(lull_timeline_reset(&rising, 0, below(&random, 4)), 0);
        assert_int_equal(lull_timeline_reset(&reserved, 0, 0), 0);
        for (int i = 0; i < 6; i++)
            assert_int_equal(lull_timeline_take(&rising, below(&random, TIMES), INT64_MAX,
                                                -(1 + below(&random, 3))),
                             0);
        timeline_copy(&both, &rising);
        for (int i = 0; i < 20; i++) {
            const int64_t taken = 1 + below(&random, 4);
            const int64_t time = 1 + below(&random, 12);
            int64_t from = below(&random, TIMES);

            check_search(&earliest, &rising, &reserved, &both, &random);
            if (below(&random, 3) > 0)
                from = timeline_first_fit(&both, taken, time, TIMES);
            if (from == INT64_MAX)
                continue;
            assert_int_equal(lull_timeline_take(&reserved, from, from + time, taken), 0);
            assert_int_equal(lull_timeline_take(&both, from, from + time, taken), 0);
        }
        lull_timeline_fini(&rising);
        lull_timeline_fini(&reserved);
        lull_timeline_fini(&both);
    }
    lull_timeline_earliest_fini(&earliest);
}

static void test_for_ever(void **state)
{
    struct lull_timeline timeline = {0};

    (void)state;
    assert_int_equal(lull_timeline_reset(&timeline, 5, 4), 0);
    assert_int_equal(lull_timeline_take(&timeline, 9, INT64_MAX, 4), 0);
    assert_true(timeline_first_fit(&timeline, 1, 4, INT64_MAX - 1) == 5);
    assert_true(timeline_first_fit(&timeline, 1, 5, INT64_MAX - 1) == INT64_MAX);
    assert_int_equal(lull_timeline_take(&timeline, 20, INT64_MAX, -2), 0);
    assert_true(timeline_first_fit(&timeline, 2, 1000, INT64_MAX - 1) == 20);
    assert_true(timeline_first_fit(&timeline, 2, 1000, 19) == INT64_MAX);
    lull_timeline_fini(&timeline);
}

/* A stream of jobs of one GPU and 100 s, one a second, worth 1 to 100 J per GPU-s, on `gpus` GPUs.
 */
static double price_of_stream(uint64_t gpus)
{
    enum { JOBS = 1000 };
    static struct lull_cluster_point points[JOBS];
    static struct lull_cluster_job all[JOBS];
    const struct lull_cluster_jobs jobs = {all, JOBS};
    struct lull_random random;
    struct lull_fluid_price *demand;
    double price;

    lull_random_init(&random, 22);
    assert_int_equal(lull_fluid_price_create(&jobs, &gpus, 1, 0.0, &demand), 0);
    assert_true(lull_fluid_price_prices(demand, 0)[0] == 0.0);
    for (uint32_t i = 0; i < JOBS; i++) {
        const int64_t second = INT64_C(1000000000);

        points[i] = (struct lull_cluster_point){.gpus = 1, .time_ns = 100 * second};
        all[i] = (struct lull_cluster_job){.arrival_ns = i * second,
                                           .deadline_ns = (i + 1000) * second,
                                           .weight = 1.0,
                                           .value_j = 100.0 + 9900.0 * lull_random_uniform(&random),
                                           .point_count = 1,
                                           .points = &points[i]};
        lull_fluid_price_add(demand, i, all[i].arrival_ns);
    }
    assert_true(lull_fluid_price_mean_ns(demand) == 100e9);
    price = lull_fluid_price_prices(demand, all[JOBS - 1].arrival_ns)[0];
    lull_fluid_price_destroy(demand);
    return price;
}

/* 100 GPUs are requested. With room for all there is no price; with room for a quarter it is the
 * value of the best quarter. */
static void test_price_of_a_stream(void **state)
{
    (void)state;
    assert_true(price_of_stream(130) < 1.0);
    assert_true(fabs(price_of_stream(25) - 75.0) < 8.0);
    assert_true(fabs(price_of_stream(50) - 50.0) < 8.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_brute_force),
        cmocka_unit_test(test_searches),
        cmocka_unit_test(test_for_ever),
        cmocka_unit_test(test_price_of_a_stream),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
