/* SPDX-License-Identifier: Apache-2.0 */
#include "../property.h"

#include "core/stats/allowance.h"

/*
 * Whatever makes events likely: acting only while the allowance is open keeps them below
 * rate * trials + most + 2 in every stretch of trials.
 */
static void test_events_stay_within_the_allowance(void **state)
{
    enum { TRIALS = 4000 };

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct lull_allowance allowance;
        struct lull_random random;
        double rate;
        double most;
        double events = 0.0;      /* so far */
        double slack_least = 0.0; /* least of events - rate * trials before a trial */
        double misjudged;

        lull_random_init(&random, seed);
        rate = 0.001 + 0.05 * lull_random_uniform(&random);
        most = 1.0 + 6.0 * lull_random_uniform(&random);
        misjudged = 20.0 * lull_random_uniform(&random);
        lull_allowance_init(&allowance, rate, most, most * lull_random_uniform(&random));
        for (int trial = 0; trial < TRIALS; trial++) {
            const double slack = events - rate * trial;

            slack_least = fmin(slack_least, slack);
            lull_allowance_earn(&allowance, 1.0);
            if (!lull_allowance_is_open(&allowance))
                continue;
            if (lull_random_uniform(&random) <
                misjudged * rate * lull_allowance_fullness(&allowance)) {
                lull_allowance_spend(&allowance);
                events++;
            }
            holds(events - rate * (trial + 1) - slack_least <= most + 2.0, seed);
        }
    }
}

/*
 * Events as likely as wanted times fullness, misjudged by so much: about as many as earned in the
 * long run, and never more. (Some of what is earned runs over where events are rare.)
 */
static void test_it_settles_where_earning_is_spending(void **state)
{
    const double judged[] = {0.5, 1.0, 3.0, 10.0}; /* real likelihood / believed */

    (void)state;
    for (size_t i = 0; i < sizeof(judged) / sizeof(judged[0]); i++) {
        enum { TRIALS = 400000 };
        struct lull_allowance allowance;
        struct lull_random random;
        double events = 0.0;

        lull_random_init(&random, 7 + i);
        lull_allowance_init(&allowance, 0.006, 4.0, 0.0);
        for (int trial = 0; trial < TRIALS; trial++) {
            lull_allowance_earn(&allowance, 1.0);
            if (lull_allowance_is_open(&allowance) &&
                lull_random_uniform(&random) <
                    judged[i] * 0.015 * lull_allowance_fullness(&allowance)) {
                lull_allowance_spend(&allowance);
                events++;
            }
        }
        assert_true(events / TRIALS <= 0.006 + 1e-5);
        assert_true(events / TRIALS >= 0.0048);
    }
}

static void test_it_closes_and_opens(void **state)
{
    struct lull_allowance allowance;

    (void)state;
    lull_allowance_init(&allowance, 0.01, 2.0, 0.0);
    assert_near(lull_allowance_fullness(&allowance), 1.0 / 3.0, 1e-12);
    assert_true(lull_allowance_is_open(&allowance));
    lull_allowance_spend(&allowance);
    assert_false(lull_allowance_is_open(&allowance));
    assert_near(lull_allowance_fullness(&allowance), 0.0, 0.0);
    for (int i = 0; i < 5; i++)
        lull_allowance_spend(&allowance);
    lull_allowance_earn(&allowance, 101.0);
    assert_true(lull_allowance_is_open(&allowance));
    lull_allowance_earn(&allowance, 1e6);
    assert_near(lull_allowance_fullness(&allowance), 1.0, 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_stay_within_the_allowance),
        cmocka_unit_test(test_it_settles_where_earning_is_spending),
        cmocka_unit_test(test_it_closes_and_opens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
