/*
 * The guard against a second implementation that keeps all pairs and solves for the bounds by
 * bisection, and by simulation. SPDX-License-Identifier: Apache-2.0
 */
#include "core/stats/guard.h"
#include "core/stats/student.h"
#include "../property.h"

static const struct lull_guard_config typical = {
    .tolerance_ratio = 0.01,
    .error = 0.05,
    .refusal_error = 0.05,
    .max_pairs = 60,
};

enum { MAX_PAIRS = 128 };

/* ---- a second implementation --------------------------------------------------------------- */

struct all_pairs {
    uint32_t count;
    double reference[MAX_PAIRS];
    double candidate[MAX_PAIRS];
    double difference[MAX_PAIRS];
};

static void remember(struct all_pairs *all, double reference, double candidate)
{
    double sum = 0.0;

    all->reference[all->count] = reference;
    all->candidate[all->count] = candidate;
    for (uint32_t i = 0; i < all->count; i++)
        sum += all->reference[i];
    if (all->count == 0)
        all->difference[0] = (candidate - reference) / reference;
    else
        all->difference[all->count] = (candidate - reference) * all->count / sum;
    all->count++;
}

static double mean_of(const struct all_pairs *all)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < all->count; i++)
        sum += all->difference[i];
    return sum / all->count;
}

static double deviation_of(const struct all_pairs *all)
{
    const double mean = mean_of(all);
    double squares = 0.0;

    for (uint32_t i = 0; i < all->count; i++)
        squares += (all->difference[i] - mean) * (all->difference[i] - mean);
    return sqrt(squares / (all->count - 1));
}

/*
 * Logarithm of the likelihood of the differences with an effect size drawn from N(0, 2) against the
 * one with a mean of m, both with a scale drawn from d sigma / sigma. Integrated over the scale by
 * hand; test_the_martingale_is_a_likelihood_ratio does so numerically.
 */
static double log_martingale(const struct all_pairs *all, double mean)
{
    const double n = all->count;
    double sum = 0.0;
    double squares = 0.0;

    for (uint32_t i = 0; i < all->count; i++) {
        sum += all->difference[i] - mean;
        squares += (all->difference[i] - mean) * (all->difference[i] - mean);
    }
    return -0.5 * log1p(2.0 * n) - n / 2.0 * log1p(-sum * sum / ((n + 0.5) * squares));
}

/* The mean beyond the estimate, in the direction of sign, against which the evidence is enough. */
static double solve_bound(const struct all_pairs *all, double sign, double error)
{
    const double enough = -log(2.0 * error);
    double inner = 0.0;
    double outer = 1e-9;

    /* Against means far away the evidence has a limit. */
    if ((all->count - 1) / 2.0 * log1p(2.0 * all->count) <= enough)
        return sign * INFINITY;
    while (log_martingale(all, mean_of(all) + sign * outer) < enough)
        outer *= 2.0;
    for (int i = 0; i < 100; i++) {
        const double middle = (inner + outer) / 2.0;

        if (log_martingale(all, mean_of(all) + sign * middle) < enough)
            inner = middle;
        else
            outer = middle;
    }
    return mean_of(all) + sign * outer;
}

static double solve_upper(const struct all_pairs *all, double error)
{
    double all_heads = 1.0;

    for (uint32_t i = 0; i < all->count; i++)
        all_heads /= 2.0;
    if (all->count < 2 || all_heads > error)
        return INFINITY;
    return solve_bound(all, 1.0, error);
}

/* The upper bound if all of max_pairs come to the present mean and deviation, less that mean. */
static double last_distance(const struct all_pairs *all, const struct lull_guard_config *config)
{
    struct all_pairs last = {.count = config->max_pairs};
    const double deviation =
        deviation_of(all) * sqrt((config->max_pairs - 1.0) / config->max_pairs);

    /* An even number of pairs, half of them above and half below zero. */
    assert_true(config->max_pairs % 2 == 0);
    for (uint32_t i = 0; i < last.count; i++)
        last.difference[i] = i % 2 == 0 ? deviation : -deviation;
    return solve_bound(&last, 1.0, config->error);
}

/* *margin_out: how far from deciding otherwise. */
static enum lull_verdict second_verdict(const struct all_pairs *all,
                                        const struct lull_guard_config *config, double *margin_out)
{
    const double limit = config->tolerance_ratio;
    double spread;
    double chance;

    *margin_out = 1.0;
    if (all->count < 3)
        return LULL_VERDICT_UNDECIDED;
    *margin_out =
        fmin(fabs(solve_upper(all, config->error) - limit),
             fmin(fabs(solve_upper(all, config->error) + limit), fabs(mean_of(all) + limit)));
    if (solve_upper(all, config->error) < -limit)
        return LULL_VERDICT_UNPROVEN;
    if (solve_upper(all, config->error) < limit && mean_of(all) >= -limit)
        return LULL_VERDICT_NOT_DEGRADED;
    *margin_out = fmin(*margin_out, fabs(solve_bound(all, -1.0, config->refusal_error)));
    if (mean_of(all) > limit && solve_bound(all, -1.0, config->refusal_error) > 0.0)
        return LULL_VERDICT_DEGRADED;
    if (all->count >= config->max_pairs)
        return LULL_VERDICT_UNPROVEN;
    spread = deviation_of(all) * sqrt(1.0 / all->count - 1.0 / config->max_pairs);
    chance = lull_student_cdf((limit - mean_of(all) - last_distance(all, config)) / spread,
                              all->count - 1.0);
    *margin_out = fmin(*margin_out, fabs(chance - 0.05));
    return chance < 0.05 ? LULL_VERDICT_UNPROVEN : LULL_VERDICT_UNDECIDED;
}

static enum lull_verdict second_screen(const struct all_pairs *all,
                                       const struct lull_guard_config *config)
{
    const double limit = config->worth_ratio > 0.0 ? config->worth_ratio : config->tolerance_ratio;
    double error;

    if (all->count < 3)
        return LULL_VERDICT_UNDECIDED;
    error = deviation_of(all) / sqrt(all->count);
    if (limit - mean_of(all) > error || (all->count >= 12 && mean_of(all) < limit))
        return LULL_VERDICT_NOT_DEGRADED;
    if (mean_of(all) - limit > 2.0 * error || all->count >= 12)
        return LULL_VERDICT_DEGRADED;
    return LULL_VERDICT_UNDECIDED;
}

/* ---- against it ---------------------------------------------------------------------------- */

/* A random test: its terms, its noise and its slowdown. */
static struct lull_guard_config random_config(struct lull_random *random)
{
    return (struct lull_guard_config){
        .tolerance_ratio = 0.002 + 0.03 * lull_random_uniform(random),
        .worth_ratio =
            lull_random_below(random, 2) == 0 ? 0.0 : 0.002 * lull_random_uniform(random),
        .error = 0.1 * pow(0.01, lull_random_uniform(random)),
        .refusal_error = 0.1 * pow(0.1, lull_random_uniform(random)),
        .max_pairs = 4 + 2 * (uint32_t)lull_random_below(random, 40),
    };
}

static void test_bounds_and_decisions_are_those_of_a_second_implementation(void **state)
{
    uint32_t seen[4] = {0};
    uint32_t screened[4] = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct lull_random random;
        struct lull_guard guard;
        struct all_pairs all = {0};
        enum lull_verdict verdict = LULL_VERDICT_UNDECIDED;
        enum lull_verdict screen = LULL_VERDICT_UNDECIDED;

        lull_random_init(&random, seed);
        const struct lull_guard_config config = random_config(&random);
        const double noise = 0.02 * pow(0.01, lull_random_uniform(&random));
        const double slowdown = config.tolerance_ratio * (3.5 * lull_random_uniform(&random) - 0.5);
        const double drift = 0.01 * lull_random_normal(&random, 0.0, 1.0);

        lull_guard_init(&guard, &config);
        holds(isinf(lull_guard_deviation(&guard)), seed);
        while (verdict == LULL_VERDICT_UNDECIDED) {
            const double level = 20.0 * exp(drift * all.count);
            const double reference = level * lull_random_normal(&random, 1.0, noise);
            const double candidate =
                level * (1.0 + slowdown) * lull_random_normal(&random, 1.0, noise);
            struct lull_guard_estimate estimate;
            double margin;

            lull_guard_add(&guard, reference, candidate);
            remember(&all, reference, candidate);
            lull_guard_estimate(&guard, &estimate);
            holds(estimate.pairs == all.count, seed);
            assert_near(estimate.slowdown_ratio, mean_of(&all), 1e-12);
            if (all.count >= 2) {
                const double upper = solve_upper(&all, config.error);
                const double lower = solve_bound(&all, -1.0, config.refusal_error);

                assert_near(lull_guard_deviation(&guard), deviation_of(&all) / sqrt(all.count),
                            1e-12);
                holds(estimate.upper_ratio == upper || fabs(estimate.upper_ratio - upper) < 1e-8,
                      seed);
                holds(estimate.lower_ratio == lower || fabs(estimate.lower_ratio - lower) < 1e-8,
                      seed);
            }
            verdict = second_verdict(&all, &config, &margin);
            if (margin > 1e-7)
                holds(lull_guard_verdict(&guard) == verdict, seed);
            if (screen == LULL_VERDICT_UNDECIDED)
                screen = second_screen(&all, &config);
            holds(lull_guard_screen(&guard) == second_screen(&all, &config), seed);
        }
        seen[verdict]++;
        screened[screen]++;
    }
    for (int verdict = LULL_VERDICT_NOT_DEGRADED; verdict <= LULL_VERDICT_UNPROVEN; verdict++)
        assert_true(seen[verdict] >= 50);
    assert_true(screened[LULL_VERDICT_NOT_DEGRADED] >= 50 && screened[LULL_VERDICT_DEGRADED] >= 50);
}

/* Integrates the likelihoods over effect sizes and scales on a grid, from their definition. */
static void test_the_martingale_is_a_likelihood_ratio(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const double error = 0.02 * (double)seed;
        const struct lull_guard_config config = {0.01, 0.0, error, error, 60};
        const uint32_t pairs = 6 + 3 * (uint32_t)seed;
        struct lull_guard_estimate estimate;
        struct lull_random random;
        struct lull_guard guard;
        struct all_pairs all = {0};
        double with = 0.0;
        double without = 0.0;

        lull_random_init(&random, seed);
        lull_guard_init(&guard, &config);
        for (uint32_t i = 0; i < pairs; i++) {
            const double reference = lull_random_normal(&random, 1.0, 0.01);
            const double candidate = lull_random_normal(&random, 1.0, 0.01);

            lull_guard_add(&guard, reference, candidate);
            remember(&all, reference, candidate);
        }
        lull_guard_estimate(&guard, &estimate);
        for (double log_scale = log(1e-3); log_scale < log(1.0); log_scale += 0.01) {
            const double scale = exp(log_scale);

            for (double effect = -10.0; effect < 10.0; effect += 0.02) {
                double squares = 0.0;

                for (uint32_t i = 0; i < pairs; i++)
                    squares +=
                        pow((all.difference[i] - estimate.upper_ratio) / scale - effect, 2.0);
                /* The density of N(0, 2). */
                with += 0.02 * exp(-effect * effect / 4.0) / sqrt(4.0 * acos(-1.0)) *
                        exp(-squares / 2.0 - pairs * (log_scale + 4.0));
                if (fabs(effect) < 0.01)
                    without += exp(-squares / 2.0 - pairs * (log_scale + 4.0));
            }
        }
        assert_near(with / without, 1.0 / (2.0 * error), 1e-3 / error);
    }
}

/* ---- by simulation ------------------------------------------------------------------------- */

enum kind { GAUSS_SMALL, GAUSS, GAUSS_LARGE, CORRELATED, HEAVY, STALLS, DRIFT_UP, PERIODIC, KINDS };

static const char *const names[KINDS] = {"0.1 %", "1 %",    "2 %",   "AR 0.8",
                                         "t3",    "stalls", "drift", "periodic"};

struct job {
    enum kind kind;
    uint64_t iteration;
    double state;
};

/* One iteration of a job at the reference. */
static double next_time(struct job *job, struct lull_random *random)
{
    const double normal = lull_random_normal(random, 0.0, 1.0);
    double squares = 0.0;

    job->iteration++;
    switch (job->kind) {
    case GAUSS_SMALL:
        return 1.0 + 0.001 * normal;
    case GAUSS:
        return 1.0 + 0.01 * normal;
    case GAUSS_LARGE:
        return 1.0 + 0.02 * normal;
    case CORRELATED:
        job->state = 0.8 * job->state + 0.6 * normal;
        return 1.0 + 0.01 * job->state;
    case HEAVY:
        for (int i = 0; i < 3; i++)
            squares += pow(lull_random_normal(random, 0.0, 1.0), 2.0);
        return 1.0 + 0.005 * normal / sqrt(squares / 3.0);
    case STALLS:
        return 1.0 + 0.002 * normal + (lull_random_uniform(random) < 0.1 ? 0.05 : 0.0);
    case DRIFT_UP:
        return 1.0 + 0.0003 * (double)job->iteration + 0.002 * normal;
    case PERIODIC:
        return 1.0 + 0.002 * normal + (job->iteration % 22 < 8 ? 0.05 : 0.0);
    default:
        fail();
        return 1.0;
    }
}

/* One test of a candidate with this slowdown: blocks of five iterations in a random order. */
static enum lull_verdict try_candidate(enum kind kind, double slowdown, struct lull_random *random,
                                       uint32_t *pairs_out)
{
    struct job job = {.kind = kind, .iteration = lull_random_below(random, 22)};
    enum lull_verdict verdict = LULL_VERDICT_UNDECIDED;
    struct lull_guard guard;

    lull_guard_init(&guard, &typical);
    for (*pairs_out = 0; verdict == LULL_VERDICT_UNDECIDED; ++*pairs_out) {
        const bool begins_low = lull_random_below(random, 2) == 1;
        double sums[2] = {0.0, 0.0};

        for (uint32_t i = 0; i < 10; i++)
            sums[(i < 5) == begins_low] += next_time(&job, random);
        lull_guard_add(&guard, sums[0] / 5.0, (1.0 + slowdown) * sums[1] / 5.0);
        verdict = lull_guard_verdict(&guard);
    }
    return verdict;
}

/* Shares of all runs by verdict, and the mean number of pairs at [0]. */
static void try_many(enum kind kind, double slowdown, uint32_t runs, double shares[4])
{
    struct lull_random random;

    lull_random_init(&random, 1000 + kind);
    for (int i = 0; i < 4; i++)
        shares[i] = 0.0;
    for (uint32_t i = 0; i < runs; i++) {
        uint32_t pairs;

        shares[try_candidate(kind, slowdown, &random, &pairs)] += 1.0 / runs;
        shares[0] += (double)pairs / runs;
    }
    print_message("%s, slowdown %.3f: passed %.3f, refused %.3f, unproven %.3f, %.1f pairs\n",
                  names[kind], slowdown, shares[LULL_VERDICT_NOT_DEGRADED],
                  shares[LULL_VERDICT_DEGRADED], shares[LULL_VERDICT_UNPROVEN], shares[0]);
}

static void test_what_is_as_slow_as_tolerated_hardly_ever_passes(void **state)
{
    enum { RUNS = 1500 };
    /* Three standard errors of the share. */
    const double margin = 3.0 * sqrt(0.05 * 0.95 / RUNS);

    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        double shares[4];

        try_many((enum kind)kind, 0.01, RUNS, shares);
        assert_true(shares[LULL_VERDICT_NOT_DEGRADED] <= 0.05 + margin);
        try_many((enum kind)kind, 0.015, RUNS, shares);
        /* A pair synchronised with a period contains little more information than its coin. */
        assert_true(shares[LULL_VERDICT_NOT_DEGRADED] <= (kind == PERIODIC ? 0.02 : 0.005));
    }
}

static void test_the_harmless_passes_where_noise_allows(void **state)
{
    static const struct {
        enum kind kind;
        double least_passed;
        double most_pairs;
    } cases[] = {
        {GAUSS_SMALL, 1.0, 7.0}, {GAUSS, 0.98, 16.0},   {GAUSS_LARGE, 0.8, 45.0},
        {HEAVY, 0.95, 20.0},     {DRIFT_UP, 1.0, 10.0}, {CORRELATED, 0.9, 40.0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double shares[4];

        try_many(cases[i].kind, 0.0, 1000, shares);
        assert_true(shares[LULL_VERDICT_NOT_DEGRADED] >= cases[i].least_passed);
        assert_true(shares[0] <= cases[i].most_pairs);
    }
}

/* Harm is not measured on until all pairs are used up: it is proven, or hopeless. */
static void test_harm_is_refused_soon(void **state)
{
    double shares[4];

    (void)state;
    try_many(GAUSS, 0.05, 1000, shares);
    assert_true(shares[LULL_VERDICT_NOT_DEGRADED] == 0.0 && shares[0] <= 3.5);
    try_many(GAUSS, 0.02, 1000, shares);
    assert_true(shares[LULL_VERDICT_NOT_DEGRADED] == 0.0 && shares[0] <= 6.0);
    try_many(CORRELATED, 0.015, 1000, shares);
    assert_true(shares[LULL_VERDICT_DEGRADED] >= 0.3 && shares[0] <= 8.0);
}

/* ---- single cases -------------------------------------------------------------------------- */

/* Nothing is said by fewer pairs than coins need, however alike the pairs are. */
static void test_steady_pairs_say_nothing_with_less_error_than_their_order(void **state)
{
    (void)state;
    for (uint32_t least = 4; least <= 9; least++) {
        /* It is 2^-least, and then a little less. */
        const double errors[] = {1.0 / (1 << least), 0.999 / (1 << least)};

        for (uint32_t i = 0; i < 2; i++) {
            const struct lull_guard_config config = {0.01, 0.0, errors[i], 0.05, 60};
            struct lull_guard guard;
            uint32_t pairs = 0;

            lull_guard_init(&guard, &config);
            while (lull_guard_verdict(&guard) == LULL_VERDICT_UNDECIDED) {
                lull_guard_add(&guard, 5.0, 5.0);
                pairs++;
            }
            assert_int_equal(lull_guard_verdict(&guard), LULL_VERDICT_NOT_DEGRADED);
            assert_int_equal(pairs, least + i);
        }
    }
}

static void test_equal_pairs_have_no_doubt(void **state)
{
    static const struct {
        double candidate;
        enum lull_verdict verdict;
        enum lull_verdict screen;
        uint32_t pairs;
    } cases[] = {
        {1.0, LULL_VERDICT_NOT_DEGRADED, LULL_VERDICT_NOT_DEGRADED, 5},
        {1.0099, LULL_VERDICT_NOT_DEGRADED, LULL_VERDICT_NOT_DEGRADED, 5},
        /* Hopeless before it could be proven. */
        {1.0102, LULL_VERDICT_UNPROVEN, LULL_VERDICT_DEGRADED, 3},
        {1.5, LULL_VERDICT_UNPROVEN, LULL_VERDICT_DEGRADED, 3},
        {0.991, LULL_VERDICT_NOT_DEGRADED, LULL_VERDICT_NOT_DEGRADED, 5},
        /* Lower clocks do not make a job faster. */
        {0.9899, LULL_VERDICT_UNPROVEN, LULL_VERDICT_NOT_DEGRADED, 5},
        {0.5, LULL_VERDICT_UNPROVEN, LULL_VERDICT_NOT_DEGRADED, 5},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_guard guard;

        lull_guard_init(&guard, &typical);
        for (uint32_t pair = 0; pair < cases[i].pairs; pair++) {
            assert_int_equal(lull_guard_verdict(&guard), LULL_VERDICT_UNDECIDED);
            assert_int_equal(lull_guard_screen(&guard),
                             pair < 3 ? LULL_VERDICT_UNDECIDED : cases[i].screen);
            lull_guard_add(&guard, 1.0, cases[i].candidate);
        }
        assert_int_equal(lull_guard_verdict(&guard), cases[i].verdict);
        assert_int_equal(lull_guard_screen(&guard), cases[i].screen);
    }
}

/* A screen refuses what costs more than it brings, though it is allowed; a verdict does not ask. */
static void test_only_a_screen_refuses_what_does_not_pay(void **state)
{
    struct lull_guard_config config = typical;
    struct lull_guard guard;

    (void)state;
    config.worth_ratio = 0.002;
    lull_guard_init(&guard, &config);
    for (uint32_t i = 0; i < 6; i++)
        lull_guard_add(&guard, 1.0, 1.004);
    assert_int_equal(lull_guard_screen(&guard), LULL_VERDICT_DEGRADED);
    assert_int_equal(lull_guard_verdict(&guard), LULL_VERDICT_NOT_DEGRADED);
}

static void test_nonsense_is_ignored(void **state)
{
    static const double bad[] = {0.0, -1.0, NAN, INFINITY, -INFINITY};
    struct lull_guard_estimate estimate;
    struct lull_guard guard;

    (void)state;
    lull_guard_init(&guard, &typical);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        lull_guard_add(&guard, bad[i], 1.0);
        lull_guard_add(&guard, 1.0, bad[i]);
    }
    assert_int_equal(lull_guard_verdict(&guard), LULL_VERDICT_UNDECIDED);
    assert_int_equal(lull_guard_screen(&guard), LULL_VERDICT_UNDECIDED);
    for (uint32_t pairs = 0; pairs < 2; pairs++) {
        lull_guard_estimate(&guard, &estimate);
        assert_int_equal(estimate.pairs, pairs);
        assert_true(isinf(estimate.lower_ratio) && estimate.lower_ratio < 0.0);
        assert_true(isinf(estimate.upper_ratio) && estimate.upper_ratio > 0.0);
        assert_true(isinf(lull_guard_deviation(&guard)));
        assert_near(estimate.slowdown_ratio, 0.0, 0.0);
        lull_guard_add(&guard, 1.0, 1.0);
    }
    assert_near(lull_guard_deviation(&guard), 0.0, 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds_and_decisions_are_those_of_a_second_implementation),
        cmocka_unit_test(test_the_martingale_is_a_likelihood_ratio),
        cmocka_unit_test(test_what_is_as_slow_as_tolerated_hardly_ever_passes),
        cmocka_unit_test(test_the_harmless_passes_where_noise_allows),
        cmocka_unit_test(test_harm_is_refused_soon),
        cmocka_unit_test(test_steady_pairs_say_nothing_with_less_error_than_their_order),
        cmocka_unit_test(test_equal_pairs_have_no_doubt),
        cmocka_unit_test(test_only_a_screen_refuses_what_does_not_pay),
        cmocka_unit_test(test_nonsense_is_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
