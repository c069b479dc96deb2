/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdbool.h>

#include "core/stats/guard.h"
#include "../property.h"

static const struct lull_guard_config usual = {
    .tolerance_ratio = 0.01,
    .confidence = 0.95,
    .min_pairs = 3,
    .max_pairs = 30,
    .abort_ratio = 0.2,
};

struct outcome {
    enum lull_verdict verdict;
    uint32_t pairs;
    bool would_pass; /* "not degraded" at some look if nothing ended the test early */
};

/* What disturbs the mean of a window: normal noise, and now and then a slow window. */
struct noise {
    double deviation, spike_share, spike_ratio;
};

static double disturb(const struct noise *noise, struct lull_random *random)
{
    const double time = exp(lull_random_normal(random, 0.0, noise->deviation));

    return lull_random_uniform(random) < noise->spike_share ? time * (1.0 + noise->spike_ratio)
                                                            : time;
}

/* One test of a candidate with this slowdown. */
static struct outcome try_candidate(const struct lull_guard_config *config, double slowdown,
                                    const struct noise *noise, struct lull_random *random)
{
    struct outcome outcome = {LULL_VERDICT_UNDECIDED, 0, false};
    struct lull_guard_estimate estimate;
    struct lull_guard guard;

    lull_guard_init(&guard, config);
    for (uint32_t i = 0; i < config->max_pairs && !outcome.would_pass; i++) {
        const double reference = disturb(noise, random);
        const double candidate = (1.0 + slowdown) * disturb(noise, random);

        lull_guard_add(&guard, reference, candidate);
        if (outcome.verdict == LULL_VERDICT_UNDECIDED) {
            outcome.verdict = lull_guard_verdict(&guard);
            outcome.pairs = i + 1;
            outcome.would_pass = outcome.verdict == LULL_VERDICT_NOT_DEGRADED;
        } else {
            lull_guard_estimate(&guard, &estimate);
            outcome.would_pass = estimate.upper_ratio < config->tolerance_ratio;
        }
    }
    return outcome;
}

struct tally {
    double passed, would_pass, pairs; /* shares of all trials; mean pairs */
};

static struct tally try_noise(const struct lull_guard_config *config, double slowdown,
                              const struct noise *noise, uint32_t trials, uint64_t seed)
{
    struct lull_random random;
    struct tally tally = {0};

    lull_random_init(&random, seed);
    for (uint32_t i = 0; i < trials; i++) {
        const struct outcome outcome = try_candidate(config, slowdown, noise, &random);

        holds(outcome.verdict != LULL_VERDICT_UNDECIDED, seed);
        tally.passed += outcome.verdict == LULL_VERDICT_NOT_DEGRADED;
        tally.would_pass += outcome.would_pass;
        tally.pairs += outcome.pairs;
    }
    tally.passed /= trials;
    tally.would_pass /= trials;
    tally.pairs /= trials;
    print_message("slowdown %.4f noise %.4f: passed %.4f (without giving up %.4f), %.1f pairs\n",
                  slowdown, noise->deviation, tally.passed, tally.would_pass, tally.pairs);
    return tally;
}

static struct tally try_many(const struct lull_guard_config *config, double slowdown,
                             double deviation, uint32_t trials, uint64_t seed)
{
    const struct noise noise = {deviation, 0.0, 0.0};

    return try_noise(config, slowdown, &noise, trials, seed);
}

static void test_s224_error_rate_at_the_tolerance_over_all_looks(void **state)
{
    static const double noises[] = {0.0003, 0.01};
    enum { TRIALS = 8000 };
    /* Three standard errors of the share. */
    const double margin = 3.0 * sqrt(0.05 * 0.95 / TRIALS);

    (void)state;
    for (size_t i = 0; i < sizeof(noises) / sizeof(noises[0]); i++) {
        struct lull_guard_config config = usual;

        /* The bound must hold without the early ends, too. */
        config.abort_ratio = 10.0;
        const struct tally tally = try_many(&config, 0.01, noises[i], TRIALS, 100 + i);
        assert_true(tally.passed <= 0.05 + margin);
        assert_true(tally.would_pass <= 0.05 + margin);
    }
}

static void test_one_look_spends_the_whole_error_budget(void **state)
{
    struct lull_guard_config config = usual;

    (void)state;
    config.max_pairs = config.min_pairs;
    const double passed = try_many(&config, 0.01, 0.003, 8000, 300).passed;
    assert_near(passed, 0.05, 3.0 * sqrt(0.05 * 0.95 / 8000.0));
}

static void test_the_bounds_are_those_of_student(void **state)
{
    /* t(0.95) of two degrees, from the tables. */
    const double t = 2.9199855803537;
    struct lull_guard_config config = usual;
    struct lull_guard_estimate estimate;
    struct lull_guard guard;

    (void)state;
    config.max_pairs = config.min_pairs;
    lull_guard_init(&guard, &config);
    for (int i = -1; i <= 1; i++)
        lull_guard_add(&guard, 2.0, 2.0 * exp(0.02 + 0.01 * i));
    lull_guard_estimate(&guard, &estimate);
    assert_near(estimate.slowdown_ratio, expm1(0.02), 1e-12);
    assert_near(estimate.lower_ratio, expm1(0.02 - t * 0.01 / sqrt(3.0)), 1e-10);
    assert_near(estimate.upper_ratio, expm1(0.02 + t * 0.01 / sqrt(3.0)), 1e-10);
}

static void test_s224_error_rate_with_slow_windows_now_and_then(void **state)
{
    static const struct noise noises[] = {{0.002, 0.05, 0.03}, {0.002, 0.2, 0.1}, {0.0, 0.1, 0.05}};
    enum { TRIALS = 3000 };

    (void)state;
    for (size_t i = 0; i < sizeof(noises) / sizeof(noises[0]); i++) {
        /* A little over: without noise the tolerance itself is a matter of rounding. */
        const struct tally tally = try_noise(&usual, 0.0101, &noises[i], TRIALS, 200 + i);

        assert_true(tally.passed <= 0.05 + 3.0 * sqrt(0.05 * 0.95 / TRIALS));
    }
}

static void test_s224_more_than_the_tolerance_hardly_ever_passes(void **state)
{
    (void)state;
    assert_true(try_many(&usual, 0.02, 0.003, 2000, 1).passed <= 0.001);
    assert_true(try_many(&usual, 0.05, 0.003, 1000, 2).pairs < 4.5);
}

static void test_s224_a_harmless_candidate_passes_in_few_pairs(void **state)
{
    (void)state;
    const struct tally tally = try_many(&usual, 0.0, 0.001, 2000, 3);
    assert_true(tally.passed > 0.999);
    assert_true(tally.pairs < 5.0);
}

static void test_giving_up_early_costs_little_power(void **state)
{
    static const struct {
        double slowdown, noise;
    } cases[] = {{0.0, 0.003}, {0.0, 0.006}, {0.0, 0.009}, {0.005, 0.003}, {0.005, 0.005}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct tally tally =
            try_many(&usual, cases[i].slowdown, cases[i].noise, 2000, 10 + i);
        assert_true(tally.passed >= tally.would_pass - 0.05);
    }
}

static void test_hopeless_tests_end_early(void **state)
{
    (void)state;
    /* Twice the tolerance; and noise that 30 pairs cannot average out. */
    assert_true(try_many(&usual, 0.02, 0.006, 1000, 20).pairs < 15.0);
    assert_true(try_many(&usual, 0.0, 0.05, 1000, 21).pairs < 15.0);
}

static void test_drift_cancels_when_the_order_alternates(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct lull_guard_estimate estimate;
        struct lull_random random;
        struct lull_guard guard;
        double time = 1.0;

        lull_random_init(&random, seed);
        lull_guard_init(&guard, &usual);
        for (uint32_t i = 0; i < 20; i++) {
            /* 0.5 % slower from window to window: without alternation half the tolerance. */
            const double first = time * exp(lull_random_normal(&random, 0.0, 0.0005));
            const double second = time * 1.005 * exp(lull_random_normal(&random, 0.0, 0.0005));

            time *= 1.005 * 1.005;
            lull_guard_add(&guard, i % 2 ? second : first, i % 2 ? first : second);
        }
        lull_guard_estimate(&guard, &estimate);
        holds(fabs(estimate.slowdown_ratio) < 0.001, seed);
        holds(lull_guard_verdict(&guard) == LULL_VERDICT_NOT_DEGRADED, seed);
    }
}

static void test_a_single_slow_pair_aborts(void **state)
{
    struct lull_guard guard;

    (void)state;
    lull_guard_init(&guard, &usual);
    lull_guard_add(&guard, 10.0, 12.1);
    assert_int_equal(lull_guard_verdict(&guard), LULL_VERDICT_DEGRADED);
    for (uint32_t i = 0; i < 20; i++)
        lull_guard_add(&guard, 10.0, 9.0);
    assert_int_equal(lull_guard_verdict(&guard), LULL_VERDICT_DEGRADED);

    lull_guard_init(&guard, &usual);
    lull_guard_add(&guard, 10.0, 11.9);
    assert_int_equal(lull_guard_verdict(&guard), LULL_VERDICT_UNDECIDED);
}

static void test_nonsense_is_ignored(void **state)
{
    static const double bad[] = {0.0, -1.0, NAN, INFINITY, -INFINITY};
    struct lull_guard_estimate estimate;
    struct lull_guard guard;

    (void)state;
    lull_guard_init(&guard, &usual);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        lull_guard_add(&guard, bad[i], 1.0);
        lull_guard_add(&guard, 1.0, bad[i]);
    }
    assert_int_equal(lull_guard_verdict(&guard), LULL_VERDICT_UNDECIDED);
    lull_guard_estimate(&guard, &estimate);
    assert_int_equal(estimate.pairs, 0);
    assert_true(isinf(estimate.lower_ratio) && estimate.lower_ratio < 0.0);
    assert_true(isinf(estimate.upper_ratio) && estimate.upper_ratio > 0.0);
    assert_near(estimate.slowdown_ratio, 0.0, 0.0);
}

static void test_equal_pairs_have_no_doubt(void **state)
{
    static const struct {
        double candidate;
        enum lull_verdict verdict;
    } cases[] = {
        {1.0, LULL_VERDICT_NOT_DEGRADED},   {1.009, LULL_VERDICT_NOT_DEGRADED},
        {1.0100001, LULL_VERDICT_DEGRADED}, {1.011, LULL_VERDICT_DEGRADED},
        {0.5, LULL_VERDICT_NOT_DEGRADED},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_guard guard;

        lull_guard_init(&guard, &usual);
        for (uint32_t pair = 0; pair < usual.min_pairs; pair++) {
            assert_int_equal(lull_guard_verdict(&guard), LULL_VERDICT_UNDECIDED);
            lull_guard_add(&guard, 1.0, cases[i].candidate);
        }
        assert_int_equal(lull_guard_verdict(&guard), cases[i].verdict);
    }
}

static void test_out_of_pairs_counts_as_degraded(void **state)
{
    const struct lull_guard_config config = {.tolerance_ratio = 0.01,
                                             .confidence = 0.95,
                                             .min_pairs = 2,
                                             .max_pairs = 2,
                                             .abort_ratio = 0.2};
    struct lull_guard guard;

    (void)state;
    lull_guard_init(&guard, &config);
    lull_guard_add(&guard, 1.0, 1.009);
    lull_guard_add(&guard, 1.0, 0.999);
    assert_int_equal(lull_guard_verdict(&guard), LULL_VERDICT_DEGRADED);
}

/* What costs more than it brings is refused, though it is allowed; noise alone refuses nothing. */
static void test_a_slowdown_that_does_not_pay_is_refused(void **state)
{
    const double slowdowns[] = {0.0, 0.005};
    uint32_t passed[2] = {0};

    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct lull_guard_config config = usual;
        struct lull_random random;
        struct lull_guard guard;

        config.worth_ratio = 0.0015;
        lull_random_init(&random, seed);
        lull_guard_init(&guard, &config);
        while (lull_guard_verdict(&guard) == LULL_VERDICT_UNDECIDED)
            lull_guard_add(&guard, lull_random_normal(&random, 1.0, 0.002),
                           lull_random_normal(&random, 1.0 + slowdowns[seed % 2], 0.002));
        passed[seed % 2] += lull_guard_verdict(&guard) == LULL_VERDICT_NOT_DEGRADED;
    }
    assert_true(passed[0] >= 160); /* of 200 */
    assert_true(passed[1] <= 10);
}

static void test_the_bounds_enclose_the_estimate(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct lull_guard_estimate estimate;
        struct lull_random random;
        struct lull_guard guard;

        lull_random_init(&random, seed);
        lull_guard_init(&guard, &usual);
        for (uint32_t i = 0; i < 40; i++) {
            lull_guard_add(&guard, 1.0 + lull_random_uniform(&random), 1.5);
            lull_guard_estimate(&guard, &estimate);
            holds(estimate.lower_ratio <= estimate.slowdown_ratio, seed);
            holds(estimate.slowdown_ratio <= estimate.upper_ratio && estimate.pairs == i + 1, seed);
            holds(i > 0 || isinf(estimate.upper_ratio), seed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_s224_error_rate_at_the_tolerance_over_all_looks),
        cmocka_unit_test(test_one_look_spends_the_whole_error_budget),
        cmocka_unit_test(test_the_bounds_are_those_of_student),
        cmocka_unit_test(test_s224_error_rate_with_slow_windows_now_and_then),
        cmocka_unit_test(test_s224_more_than_the_tolerance_hardly_ever_passes),
        cmocka_unit_test(test_s224_a_harmless_candidate_passes_in_few_pairs),
        cmocka_unit_test(test_giving_up_early_costs_little_power),
        cmocka_unit_test(test_hopeless_tests_end_early),
        cmocka_unit_test(test_drift_cancels_when_the_order_alternates),
        cmocka_unit_test(test_a_single_slow_pair_aborts),
        cmocka_unit_test(test_nonsense_is_ignored),
        cmocka_unit_test(test_equal_pairs_have_no_doubt),
        cmocka_unit_test(test_out_of_pairs_counts_as_degraded),
        cmocka_unit_test(test_a_slowdown_that_does_not_pay_is_refused),
        cmocka_unit_test(test_the_bounds_enclose_the_estimate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
