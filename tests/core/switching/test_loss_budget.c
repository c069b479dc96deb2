/*
 * The loss budget against a second implementation that keeps every iteration.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdbool.h>

#include "core/switching/loss_budget.h"
#include "../property.h"

enum { MAX = 1000 };

/* Lists of iterations, from which everything is computed again. */
struct ledger {
    double rate;
    double risk_ratio;
    double earned_ms;
    double pooled_ms; /* of points that were known when they ended, and its variance */
    double pooled_variance;
    double charged_ms; /* of the others */
    double at_risk_ms;
    double last_ratio;
    uint32_t references;
    double reference_ms[MAX];
    uint32_t lowered;
    double excess_ms[MAX];
};

/* The share that an iteration at the reference has in the level: the first 128 have equal ones,
 * later ones 1/128 each at the time, and all of them fade by what comes after. */
static double share_of(const struct ledger *ledger, uint32_t index)
{
    double share = 1.0 / fmin(index + 1.0, 128.0);

    for (uint32_t later = index + 1; later < ledger->references; later++)
        share *= 1.0 - 1.0 / fmin(later + 1.0, 128.0);
    return share;
}

static double level_of(const struct ledger *ledger)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < ledger->references; i++)
        sum += share_of(ledger, i) * ledger->reference_ms[i];
    return sum;
}

static double level_variance_of(const struct ledger *ledger)
{
    const double level_ms = level_of(ledger);
    double sum = 0.0;

    for (uint32_t i = 0; i < ledger->references; i++)
        sum += share_of(ledger, i) * pow(ledger->reference_ms[i] - level_ms, 2.0);
    return sum;
}

static double excess_of(const struct ledger *ledger)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < ledger->lowered; i++)
        sum += ledger->excess_ms[i];
    return ledger->lowered == 0 ? 0.0 : sum / ledger->lowered;
}

static double excess_error_of(const struct ledger *ledger)
{
    const double mean_ms = excess_of(ledger);
    double squares = 0.0;

    if (ledger->lowered < 2 || ledger->references < 2)
        return INFINITY;
    for (uint32_t i = 0; i < ledger->lowered; i++)
        squares += pow(ledger->excess_ms[i] - mean_ms, 2.0);
    return sqrt(squares / (ledger->lowered - 1.0) / ledger->lowered +
                level_variance_of(ledger) / fmin(ledger->references, 128.0));
}

static double certain_of(double sum_ms, double variance)
{
    if (sum_ms * sum_ms > 4.0 * variance && sum_ms > 0.0)
        return sum_ms;
    return sum_ms * sum_ms <= variance || sum_ms <= 0.0 ? 0.0 : sum_ms - sqrt(variance);
}

static double sum_of(const struct ledger *ledger)
{
    return ledger->lowered * excess_of(ledger);
}

static double sum_variance_of(const struct ledger *ledger)
{
    if (isinf(excess_error_of(ledger)))
        return ledger->lowered * level_variance_of(ledger);
    return pow(ledger->lowered * excess_error_of(ledger), 2.0);
}

static bool is_known(const struct ledger *ledger)
{
    return excess_error_of(ledger) <= ledger->rate * level_of(ledger);
}

/* Returns the loss of the present point alone. */
static double spent_of(const struct ledger *ledger)
{
    const double certain_ms = certain_of(sum_of(ledger), sum_variance_of(ledger));

    if (isinf(excess_error_of(ledger)))
        return ledger->at_risk_ms;
    return is_known(ledger) || certain_ms > ledger->at_risk_ms ? certain_ms : ledger->at_risk_ms;
}

static double all_spent_of(const struct ledger *ledger)
{
    const double gain_less_ms = sum_of(ledger) > 0.0 ? sum_of(ledger) : 0.0;

    if (ledger->lowered == 0)
        return ledger->charged_ms + certain_of(ledger->pooled_ms, ledger->pooled_variance);
    if (!is_known(ledger))
        return ledger->charged_ms + certain_of(ledger->pooled_ms, ledger->pooled_variance) +
               spent_of(ledger);
    return ledger->charged_ms + certain_of(ledger->pooled_ms + gain_less_ms,
                                           ledger->pooled_variance + sum_variance_of(ledger));
}

static void earn(struct ledger *ledger, double ms)
{
    ledger->earned_ms += ledger->rate * ms;
}

static void settle(struct ledger *ledger)
{
    if (ledger->lowered == 0)
        return;
    ledger->last_ratio = spent_of(ledger) / ledger->lowered / level_of(ledger);
    if (!is_known(ledger)) {
        ledger->charged_ms += spent_of(ledger);
    } else {
        ledger->pooled_ms += sum_of(ledger) > 0.0 ? sum_of(ledger) : 0.0;
        ledger->pooled_variance += sum_variance_of(ledger);
    }
    ledger->at_risk_ms = 0.0;
    ledger->lowered = 0;
}

static void check(const struct ledger *ledger, const struct lull_loss_budget *budget, uint64_t seed)
{
    double error;
    const double slowdown = lull_loss_budget_slowdown(budget, &error);

    const double left_ms = ledger->earned_ms - all_spent_of(ledger);
    const double expected_ms = ledger->lowered > 0 ? spent_of(ledger) / ledger->lowered
                                                   : ledger->last_ratio * level_of(ledger);

    assert_near(lull_loss_budget_left_ms(budget, 0.0), left_ms, 1e-7);
    assert_near(lull_loss_budget_left_ms(budget, 1.0),
                left_ms - fmin(0.25 * ledger->earned_ms, level_of(ledger)), 1e-7);
    assert_near(lull_loss_budget_expected_ms(budget), expected_ms, 1e-7);
    assert_near(budget->reference.mean_ms, level_of(ledger), 1e-9);
    if (ledger->references == 0)
        return;
    assert_near(slowdown, excess_of(ledger) / level_of(ledger), 1e-10);
    if (isinf(excess_error_of(ledger)))
        holds(isinf(error), seed);
    else
        assert_near(error, excess_error_of(ledger) / level_of(ledger), 1e-10);
}

static void test_it_is_what_a_list_of_all_iterations_says(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct lull_loss_budget budget = {0};
        struct ledger ledger = {0};
        struct lull_random random;

        lull_random_init(&random, seed);
        ledger.rate = 0.05 * lull_random_uniform(&random);
        budget.rate = ledger.rate;
        ledger.risk_ratio = fmax(lull_random_uniform(&random) - 0.5, 0.0);
        budget.risk_ratio = ledger.risk_ratio;
        const double noise_ms = 10.0 * pow(0.01, lull_random_uniform(&random));
        const double harm_ms = 6.0 * lull_random_uniform(&random) - 2.0;
        const uint64_t references = 1 + lull_random_below(&random, 12);

        for (uint32_t i = 0; i < 300; i++) {
            const double ms = lull_random_normal(&random, 100.0, noise_ms);
            const uint64_t kind = lull_random_below(&random, 20);

            if (kind < references) {
                earn(&ledger, ms);
                ledger.reference_ms[ledger.references++] = ms;
                lull_loss_budget_take_reference(&budget, ms);
            } else if (kind < 17) {
                earn(&ledger, ms + harm_ms);
                ledger.at_risk_ms += ledger.risk_ratio * (ms + harm_ms);
                if (ledger.references > 0)
                    ledger.excess_ms[ledger.lowered++] = ms + harm_ms - level_of(&ledger);
                lull_loss_budget_take_lowered(&budget, ms + harm_ms);
            } else if (kind < 19) {
                earn(&ledger, ms);
                lull_loss_budget_take_other(&budget, ms);
            } else if (lull_random_below(&random, 3) == 0) {
                settle(&ledger);
                lull_loss_budget_change_point(&budget);
            } else if (ledger.lowered > 0) {
                /* The last ones have to be compared with a level 1 ms higher, or lower. */
                const uint32_t last = 1 + (uint32_t)lull_random_below(&random, ledger.lowered);
                const double by_ms = lull_random_below(&random, 2) == 0 ? 1.0 : -1.0;

                for (uint32_t k = 0; k < ledger.lowered; k++)
                    ledger.excess_ms[k] -= by_ms * last / ledger.lowered;
                lull_loss_budget_correct(&budget, 70.0, 70.0 + 2.0 * by_ms, last);
            }
            check(&ledger, &budget, seed);
        }
    }
}

/* Lowered iterations of which so many take longer by 10 ms, beside 100 ms at the reference. */
static double spent_by_events(uint32_t events, uint32_t iterations)
{
    struct lull_loss_budget budget = {0};

    for (uint32_t i = 0; i < 20; i++)
        lull_loss_budget_take_reference(&budget, 100.0);
    for (uint32_t i = 0; i < iterations; i++)
        lull_loss_budget_take_lowered(&budget, i < events ? 110.0 : 100.0);
    return -lull_loss_budget_left_ms(&budget, 0.0);
}

static void test_single_events_cost_nothing_and_four_all_they_take(void **state)
{
    (void)state;
    for (uint32_t iterations = 6; iterations < 300; iterations += 7) {
        assert_near(spent_by_events(1, iterations), 0.0, 1e-9);
        assert_true(spent_by_events(2, iterations) > 3.0);
        assert_true(spent_by_events(2, iterations) < 10.0);
        assert_near(spent_by_events(4, iterations), 40.0, 1e-9);
        assert_near(spent_by_events(iterations, iterations), 10.0 * iterations, 1e-9);
    }
}

/* The gain of a faster point cannot be spent by the next one. */
static void test_a_gain_pays_for_nothing(void **state)
{
    struct lull_loss_budget budget = {.rate = 0.01};

    (void)state;
    for (uint32_t i = 0; i < 20; i++)
        lull_loss_budget_take_reference(&budget, 100.0);
    for (uint32_t i = 0; i < 50; i++)
        lull_loss_budget_take_lowered(&budget, 90.0);
    assert_near(lull_loss_budget_left_ms(&budget, 0.0), 20.0 + 45.0, 1e-9);
    lull_loss_budget_change_point(&budget);
    assert_near(lull_loss_budget_left_ms(&budget, 0.0), 65.0, 1e-9);
    for (uint32_t i = 0; i < 10; i++)
        lull_loss_budget_take_lowered(&budget, 108.0);
    assert_near(lull_loss_budget_left_ms(&budget, 0.0), 65.0 + 10.8 - 80.0, 1e-9);
    lull_loss_budget_change_point(&budget);
    assert_near(lull_loss_budget_expected_ms(&budget), 8.0, 1e-9);
    /* A point that has not been in use leaves what the one before has spent. */
    lull_loss_budget_change_point(&budget);
    assert_near(lull_loss_budget_expected_ms(&budget), 8.0, 1e-9);
    assert_near(lull_loss_budget_left_ms(&budget, 0.0), 65.0 + 10.8 - 80.0, 1e-9);
}

/* Many points, of which each has lost less than is certain of it alone. */
static void test_small_losses_add_up(void **state)
{
    struct lull_loss_budget budget = {.rate = 0.02};
    double lost_ms = 0.0;
    double before_ms = 0.0;

    (void)state;
    for (uint32_t i = 0; i < 200; i++)
        lull_loss_budget_take_reference(&budget, i % 2 == 0 ? 98.0 : 102.0);
    before_ms = lull_loss_budget_left_ms(&budget, 0.0);
    for (uint32_t point = 0; point < 200; point++) {
        for (uint32_t i = 0; i < 6; i++)
            lull_loss_budget_take_lowered(&budget, i % 2 == 0 ? 98.5 : 102.5);
        lost_ms += 3.0;
        lull_loss_budget_change_point(&budget);
    }
    assert_near(lull_loss_budget_left_ms(&budget, 0.0), before_ms + 0.02 * 1200 * 100.5 - lost_ms,
                10.0);
}

/* Iterations that differ by far more than the rate: the clock's share of the time is spent, however
 * many points there are and whatever their means say. */
static void test_what_is_not_known_is_charged_by_the_clock(void **state)
{
    struct lull_loss_budget budget = {.rate = 0.01, .risk_ratio = 0.05};

    (void)state;
    for (uint32_t i = 0; i < 400; i++)
        lull_loss_budget_take_reference(&budget, i % 100 == 99 ? 200.0 : 1.0);
    for (uint32_t point = 0; point < 3; point++) {
        for (uint32_t i = 0; i < 100; i++)
            lull_loss_budget_take_lowered(&budget, i == 50 ? 150.0 : 1.0);
        assert_near(lull_loss_budget_expected_ms(&budget), 0.05 * 249.0 / 100, 1e-9);
        lull_loss_budget_change_point(&budget);
    }
    assert_near(lull_loss_budget_left_ms(&budget, 0.0),
                0.01 * (4 * 299.0 + 3 * 249.0) - 0.05 * 3 * 249.0, 1e-9);
}

/* The job itself becomes slower while it runs low: that is not the point's doing. */
static void test_a_job_that_slows_down_is_corrected_for(void **state)
{
    struct lull_loss_budget budget = {0};
    double error;

    (void)state;
    lull_loss_budget_correct(&budget, 100.0, 120.0, 0.0); /* nothing to be corrected */
    for (uint32_t i = 0; i < 20; i++)
        lull_loss_budget_take_reference(&budget, 100.0);
    for (uint32_t i = 0; i <= 40; i++)
        lull_loss_budget_take_lowered(&budget, 100.0 + 0.5 * i);
    assert_near(lull_loss_budget_slowdown(&budget, &error), 0.1, 1e-12);
    lull_loss_budget_correct(&budget, 100.0, 120.0, 41.0);
    assert_near(lull_loss_budget_slowdown(&budget, &error), 0.0, 1e-12);
    /* Only what has run since then is compared again. */
    for (uint32_t i = 0; i < 41; i++)
        lull_loss_budget_take_lowered(&budget, 104.0);
    lull_loss_budget_correct(&budget, 100.0, 108.0, 41.0);
    assert_near(lull_loss_budget_slowdown(&budget, &error), 0.0, 1e-12);
}

/* With a single iteration of either kind nothing can be said of the other's error. */
static void test_nothing_is_certain_before_two_of_each(void **state)
{
    (void)state;
    for (uint32_t references = 0; references < 3; references++)
        for (uint32_t lowered = 0; lowered < 3; lowered++) {
            struct lull_loss_budget budget = {0};
            double error;

            for (uint32_t i = 0; i < references; i++)
                lull_loss_budget_take_reference(&budget, 100.0);
            for (uint32_t i = 0; i < lowered; i++)
                lull_loss_budget_take_lowered(&budget, 150.0);
            assert_near(lull_loss_budget_left_ms(&budget, 0.0),
                        references == 2 && lowered == 2 ? -100.0 : 0.0, 1e-12);
            lull_loss_budget_slowdown(&budget, &error);
            assert_true(isinf(error) == (references < 2 || lowered < 2));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_what_a_list_of_all_iterations_says),
        cmocka_unit_test(test_single_events_cost_nothing_and_four_all_they_take),
        cmocka_unit_test(test_a_gain_pays_for_nothing),
        cmocka_unit_test(test_small_losses_add_up),
        cmocka_unit_test(test_what_is_not_known_is_charged_by_the_clock),
        cmocka_unit_test(test_a_job_that_slows_down_is_corrected_for),
        cmocka_unit_test(test_nothing_is_certain_before_two_of_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
