/* SPDX-License-Identifier: Apache-2.0 */
#include "../property.h"

#include <stdlib.h>

#include "core/section/gaps/gap_choice.h"

enum { GAPS = 40 };

static int descending(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;

    return (left < right) - (left > right);
}

/* A driver with log-normal latencies, seen so many times. */
static void see(struct lull_switch_cost *cost, struct lull_random *random, uint32_t times)
{
    *cost = (struct lull_switch_cost){0};
    for (uint32_t i = 0; i < times; i++) {
        lull_switch_cost_add(cost, LULL_DIRECTION_DOWN,
                             4.0 * exp(lull_random_normal(random, 0.0, 0.4)),
                             10.0 * exp(lull_random_normal(random, 0.0, 0.4)));
        lull_switch_cost_add(cost, LULL_DIRECTION_UP,
                             4.0 * exp(lull_random_normal(random, 0.0, 0.4)),
                             10.0 * exp(lull_random_normal(random, 0.0, 0.4)));
    }
}

static double low_ms(const double *lengths_ms, uint32_t k, const struct lull_switch_cost *cost,
                     double late_share)
{
    struct lull_gap_need need;
    double sum_ms = 0.0;

    lull_gap_need_find(cost, late_share / k, &need);
    for (uint32_t i = 0; i < k; i++)
        sum_ms += lengths_ms[i] - need.lead_ms + need.ahead_ms;
    return sum_ms;
}

/* No other number of gaps is low for longer, among those that may be switched. */
static void test_no_other_number_is_better(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct lull_switch_cost cost;
        struct lull_random random;
        double lengths_ms[GAPS];
        uint32_t most;
        uint32_t chosen;
        double share;

        lull_random_init(&random, seed);
        see(&cost, &random, 20 + (uint32_t)lull_random_below(&random, 3000));
        share = 0.001 + 0.02 * lull_random_uniform(&random);
        most = 1 + (uint32_t)lull_random_below(&random, GAPS + 10);
        for (uint32_t i = 0; i < GAPS; i++)
            lengths_ms[i] = 3.0 + 80.0 * lull_random_uniform(&random);
        qsort(lengths_ms, GAPS, sizeof(lengths_ms[0]), descending);
        chosen = lull_gap_choose(lengths_ms, GAPS, most, &cost, share);
        holds(chosen <= most && chosen <= GAPS, seed);
        for (uint32_t k = 1; k <= GAPS && k <= most; k++) {
            struct lull_gap_need need;

            lull_gap_need_find(&cost, share / k, &need);
            if (!(lengths_ms[k - 1] > need.min_ms))
                break;
            holds(chosen > 0, seed);
            holds(low_ms(lengths_ms, chosen, &cost, share) >=
                      low_ms(lengths_ms, k, &cost, share) - 1e-9,
                  seed);
        }
    }
}

/* Early and late switches together stay near the share that was requested. */
static void test_needs_keep_the_share(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        enum { DRAWS = 200000 };
        const double share = 0.004;
        struct lull_switch_cost cost;
        struct lull_gap_need need;
        struct lull_random random;
        double wrong = 0.0;

        lull_random_init(&random, seed);
        see(&cost, &random, 2000);
        lull_gap_need_find(&cost, share, &need);
        for (uint32_t i = 0; i < DRAWS; i++) {
            const double up_ms = 4.0 * exp(lull_random_normal(&random, 0.0, 0.4)) +
                                 10.0 * exp(lull_random_normal(&random, 0.0, 0.4));
            const double down_ms = 4.0 * exp(lull_random_normal(&random, 0.0, 0.4)) +
                                   10.0 * exp(lull_random_normal(&random, 0.0, 0.4));

            wrong += up_ms > need.lead_ms;
            wrong += down_ms < need.ahead_ms;
        }
        holds(wrong / DRAWS < 3.0 * share, seed);
        holds(wrong / DRAWS > share / 6.0, seed);
    }
}

static void test_a_constant_latency_needs_no_more(void **state)
{
    struct lull_switch_cost cost = {0};
    struct lull_gap_need need;

    (void)state;
    for (uint32_t i = 0; i < 10; i++) {
        lull_switch_cost_add(&cost, LULL_DIRECTION_DOWN, 2.0, 8.0);
        lull_switch_cost_add(&cost, LULL_DIRECTION_UP, 2.0, 8.0);
    }
    lull_gap_need_find(&cost, 0.001, &need);
    assert_near(need.lead_ms, 10.0, 0.2);
    assert_near(need.ahead_ms, 10.0, 0.4);
    assert_true(need.ahead_ms < 10.0 && need.lead_ms > 10.0 && need.min_ms >= need.lead_ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_other_number_is_better),
        cmocka_unit_test(test_needs_keep_the_share),
        cmocka_unit_test(test_a_constant_latency_needs_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
