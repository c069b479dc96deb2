/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/switching/switch_cost.h"
#include "../property.h"

static void test_the_prior_holds_before_the_first_change(void **state)
{
    struct lull_switch_cost cost = {0};

    (void)state;
    assert_near(lull_switch_cost_call_ms(&cost, LULL_DIRECTION_DOWN, 0.9), 5.0, 0.0);
    assert_near(lull_switch_cost_total_ms(&cost, LULL_DIRECTION_UP, 0.1), 25.0, 0.0);
    assert_near(lull_switch_cost_lead_ms(&cost, 0.0), 25.0, 0.0);
    assert_near(lull_switch_cost_lead_ms(&cost, 1.0), 24.0, 1e-12);
    assert_near(lull_switch_cost_lead_ms(&cost, 50.0), 0.0, 0.0);
}

static void test_directions_are_apart(void **state)
{
    struct lull_switch_cost cost = {0};

    (void)state;
    lull_switch_cost_add(&cost, LULL_DIRECTION_DOWN, 3.0, 7.0);
    assert_near(lull_switch_cost_call_ms(&cost, LULL_DIRECTION_DOWN, 0.5), 3.0, 0.0);
    assert_near(lull_switch_cost_total_ms(&cost, LULL_DIRECTION_DOWN, 0.5), 10.0, 0.0);
    assert_near(lull_switch_cost_total_ms(&cost, LULL_DIRECTION_UP, 0.5), 25.0, 0.0);
    assert_near(lull_switch_cost_lead_ms(&cost, 0.0), 25.0, 0.0);
}

static void test_never_settled_counts_and_nonsense_does_not(void **state)
{
    struct lull_switch_cost cost = {0};

    (void)state;
    lull_switch_cost_add(&cost, LULL_DIRECTION_UP, -1.0, 4.0);
    lull_switch_cost_add(&cost, LULL_DIRECTION_UP, NAN, 4.0);
    lull_switch_cost_add(&cost, LULL_DIRECTION_UP, 4.0, INFINITY);
    assert_int_equal(cost.total_ms[LULL_DIRECTION_UP].count, 0);
    assert_int_equal(cost.call_ms[LULL_DIRECTION_UP].count, 0);
    lull_switch_cost_add(&cost, LULL_DIRECTION_UP, 5.0, -1.0);
    assert_near(lull_switch_cost_total_ms(&cost, LULL_DIRECTION_UP, 0.5), 305.0, 0.0);
    assert_near(lull_switch_cost_lead_ms(&cost, 0.0), 305.0, 0.0);
}

static void test_what_was_overtaken_counts_where_it_was_slow(void **state)
{
    struct lull_switch_cost cost = {0};
    struct lull_switch_outcome outcome = {.settle_ms = 15.0, .overtaken = true};

    (void)state;
    for (outcome.settle_ms = 15.0; outcome.settle_ms <= 20.0; outcome.settle_ms += 5.0)
        lull_switch_cost_add_outcome(&cost, LULL_DIRECTION_DOWN, 5.0, &outcome);
    assert_int_equal(cost.total_ms[LULL_DIRECTION_DOWN].count, 0); /* not slower than typical */
    outcome.settle_ms = 45.0;
    lull_switch_cost_add_outcome(&cost, LULL_DIRECTION_DOWN, 5.0, &outcome);
    assert_near(lull_switch_cost_total_ms(&cost, LULL_DIRECTION_DOWN, 0.5), 50.0, 0.0);
    outcome = (struct lull_switch_outcome){.settle_ms = 5.0};
    lull_switch_cost_add_outcome(&cost, LULL_DIRECTION_DOWN, 5.0, &outcome);
    assert_near(lull_switch_cost_total_ms(&cost, LULL_DIRECTION_DOWN, 0.0), 10.0, 0.0);
}

static void test_what_was_read_back_roughly_is_like_what_is_known(void **state)
{
    struct lull_switch_cost known = {0};
    struct lull_switch_outcome outcome = {
        .driver_ms = 2.0, .settle_ms = 3.0, .unsure_ms = 1.0, .effect_ns = 5000000};
    struct lull_switch_outcome likely;

    (void)state;
    likely = lull_switch_cost_likely(&known, LULL_DIRECTION_UP, &outcome);
    assert_near(likely.settle_ms, 3.0, 0.0); /* nothing is known */
    lull_switch_cost_add(&known, LULL_DIRECTION_UP, 2.0, 6.5);
    likely = lull_switch_cost_likely(&known, LULL_DIRECTION_UP, &outcome);
    assert_near(likely.settle_ms, 3.0, 0.0); /* nothing like it is */
    lull_switch_cost_add(&known, LULL_DIRECTION_UP, 2.0, 5.5);
    likely = lull_switch_cost_likely(&known, LULL_DIRECTION_UP, &outcome);
    assert_near(likely.settle_ms, 4.0, 1e-12); /* something is not far above... */
    lull_switch_cost_add(&known, LULL_DIRECTION_UP, 2.0, 1.5);
    likely = lull_switch_cost_likely(&known, LULL_DIRECTION_UP, &outcome);
    assert_near(likely.settle_ms, 2.0, 1e-12); /* ...and less far below */
    assert_int_equal(likely.effect_ns, 4000000);
    lull_switch_cost_add(&known, LULL_DIRECTION_UP, 2.0, 2.0);
    lull_switch_cost_add(&known, LULL_DIRECTION_UP, 2.0, 3.5);
    likely = lull_switch_cost_likely(&known, LULL_DIRECTION_UP, &outcome);
    assert_near(likely.settle_ms, 2.75, 1e-12);
    assert_int_equal(likely.effect_ns, 4750000);
    outcome.unsure_ms = 0.0;
    likely = lull_switch_cost_likely(&known, LULL_DIRECTION_UP, &outcome);
    assert_near(likely.settle_ms, 3.0, 0.0); /* it is exact */
    assert_int_equal(likely.effect_ns, 5000000);
}

/* Of what is known the median is 4.75 ms. */
static void test_what_was_not_seen_to_end_takes_as_long_as_usual(void **state)
{
    struct lull_switch_cost known = {0};
    struct lull_switch_outcome outcome = {
        .driver_ms = 2.0, .settle_ms = 1.0, .effect_ns = 3000000, .overtaken = true};
    struct lull_switch_outcome likely;

    (void)state;
    lull_switch_cost_add(&known, LULL_DIRECTION_DOWN, 2.0, 1.5);
    lull_switch_cost_add(&known, LULL_DIRECTION_DOWN, 2.0, 4.0);
    likely = lull_switch_cost_likely(&known, LULL_DIRECTION_DOWN, &outcome);
    assert_near(likely.settle_ms, 2.75, 1e-12);
    assert_int_equal(likely.effect_ns, 4750000);
    outcome.settle_ms = 3.0; /* it was seen for longer than typical */
    likely = lull_switch_cost_likely(&known, LULL_DIRECTION_DOWN, &outcome);
    assert_near(likely.settle_ms, 3.0, 0.0);
    outcome =
        (struct lull_switch_outcome){.driver_ms = 2.0, .settle_ms = NAN, .effect_ns = 2000000};
    likely = lull_switch_cost_likely(&known, LULL_DIRECTION_DOWN, &outcome);
    assert_near(likely.settle_ms, 2.75, 1e-12); /* not observed */
    assert_int_equal(likely.effect_ns, 4750000);
    outcome.settle_ms = -1.0;
    likely = lull_switch_cost_likely(&known, LULL_DIRECTION_DOWN, &outcome);
    assert_near(likely.settle_ms, -1.0, 0.0); /* it never followed */
}

static double mean_lateness(const double *totals, uint32_t n, double lead)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < n; i++)
        sum += totals[i] > lead ? totals[i] - lead : 0.0;
    return sum / n;
}

static void test_the_lead_is_the_least_with_the_allowed_lateness(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        double totals[LULL_QUANTILE_WINDOW];
        struct lull_switch_cost cost = {0};
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t n = 1 + (uint32_t)lull_random_below(&random, LULL_QUANTILE_WINDOW);
        const double allowed = 10.0 * lull_random_uniform(&random);
        for (uint32_t i = 0; i < n; i++) {
            const double call = 5.0 * lull_random_uniform(&random);
            const double settle = exp(lull_random_normal(&random, 2.0, 1.0));

            totals[i] = call + settle;
            lull_switch_cost_add(&cost, LULL_DIRECTION_UP, call, settle);
        }
        const double lead = lull_switch_cost_lead_ms(&cost, allowed);
        holds(lead >= 0.0 && mean_lateness(totals, n, lead) <= allowed + 1e-9, seed);
        holds(lead <= 0.0 || mean_lateness(totals, n, lead - 1e-6) > allowed, seed);
    }
}

static void test_old_changes_are_forgotten(void **state)
{
    struct lull_switch_cost cost = {0};

    (void)state;
    lull_switch_cost_add(&cost, LULL_DIRECTION_UP, 100.0, 100.0);
    for (uint32_t i = 0; i < LULL_QUANTILE_WINDOW; i++)
        lull_switch_cost_add(&cost, LULL_DIRECTION_UP, 1.0, 2.0);
    assert_near(lull_switch_cost_total_ms(&cost, LULL_DIRECTION_UP, 1.0), 3.0, 0.0);
    assert_near(lull_switch_cost_lead_ms(&cost, 0.0), 3.0, 0.0);
}

static void test_sure_leads_follow_the_tails(void **state)
{
    struct lull_switch_cost cost = {0};

    (void)state;
    assert_true(lull_switch_cost_sure_ahead_ms(&cost, 0.01) > 0.0);
    for (int i = 0; i < 4000; i++) { /* 100 ms once: what it takes then is forgotten */
        lull_switch_cost_add(&cost, LULL_DIRECTION_UP, i == 0 ? 90.0 : 4.0, 10.0 + i % 10);
        lull_switch_cost_add(&cost, LULL_DIRECTION_DOWN, i == 0 ? 0.1 : 4.0, i == 0 ? 0.1 : 10.0);
    }
    assert_near(lull_switch_cost_sure_lead_ms(&cost, 0.002), 23.0, 0.5);
    assert_near(lull_switch_cost_sure_ahead_ms(&cost, 0.002), 14.0, 0.5);
    for (double share = 0.1; share > 1e-6; share /= 3.0) {
        assert_true(lull_switch_cost_sure_lead_ms(&cost, share / 3.0) >=
                    lull_switch_cost_sure_lead_ms(&cost, share));
        assert_true(lull_switch_cost_sure_ahead_ms(&cost, share / 3.0) <=
                    lull_switch_cost_sure_ahead_ms(&cost, share));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_prior_holds_before_the_first_change),
        cmocka_unit_test(test_directions_are_apart),
        cmocka_unit_test(test_never_settled_counts_and_nonsense_does_not),
        cmocka_unit_test(test_what_was_overtaken_counts_where_it_was_slow),
        cmocka_unit_test(test_what_was_read_back_roughly_is_like_what_is_known),
        cmocka_unit_test(test_what_was_not_seen_to_end_takes_as_long_as_usual),
        cmocka_unit_test(test_the_lead_is_the_least_with_the_allowed_lateness),
        cmocka_unit_test(test_old_changes_are_forgotten),
        cmocka_unit_test(test_sure_leads_follow_the_tails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
