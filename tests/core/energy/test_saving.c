/*
 * The interval of a saving: each term covers its condition, which the term of the readings alone
 * does not cover; and the sum of all terms stays narrow enough to be useful. The audit in full is
 * bench/bench_saving.c. SPDX-License-Identifier: Apache-2.0
 */
#include "core/energy/saving.h"

#include <string.h>

#include "../property.h"
#include "core/energy/strobe.h"
#include "saving_case.h"

enum { CASES = 100, ITERATIONS = 300, SEEDS = 200 };

static const double least_covered = 0.9;

static const struct saving_condition *find(const char *name)
{
    for (uint32_t i = 0; i < saving_condition_count; i++)
        if (strcmp(saving_conditions[i].name, name) == 0)
            return &saving_conditions[i];
    fail_msg("there is no condition %s", name);
    return NULL;
}

/* ---- coverage ---------------------------------------------------------------------------- */

/* Removing or halving a term fails here, because no other term makes up for it. */
static void each_term_covers_its_condition(void **state)
{
    static const struct {
        const char *condition;
        enum lull_energy_term term;
        double most_before; /* covered by the readings alone: the condition does some harm */
    } rows[] = {
        {"readings alone", LULL_ENERGY_TERM_READINGS, 1.01},
        {"runs differ by 0.3 %", LULL_ENERGY_TERM_RUNS, 0.5},
        {"offset up to 5 W, steady", LULL_ENERGY_TERM_OFFSET, 0.6},
        {"offset by level", LULL_ENERGY_TERM_LEVEL, 0.5},
        {"offset by level, steady", LULL_ENERGY_TERM_LEVEL, 0.5},
        {"samples in step", LULL_ENERGY_TERM_SAMPLING, 0.5},
        {"samples in step, short", LULL_ENERGY_TERM_SAMPLING, 0.6},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct saving_summary summary;

        saving_case_summarize(find(rows[i].condition), ITERATIONS, CASES, &summary);
        if (summary.covered_alone[rows[i].term] < least_covered)
            fail_msg("%s: its term covers %.1f %%", rows[i].condition,
                     100.0 * summary.covered_alone[rows[i].term]);
        if (summary.covered_before > rows[i].most_before)
            fail_msg("%s: readings alone cover %.1f %%", rows[i].condition,
                     100.0 * summary.covered_before);
    }
}

static void the_interval_covers_and_is_of_use(void **state)
{
    static const struct {
        const char *condition;
        double widest;
    } rows[] = {
        {"runs differ by 1 %", 0.03},
        {"all", 0.03},
        {"3 pairs, runs 0.1 %", 0.02},
        {"3 pairs, all", 0.04},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct saving_summary summary;

        saving_case_summarize(find(rows[i].condition), ITERATIONS, CASES, &summary);
        if (summary.covered < least_covered)
            fail_msg("%s: %.1f %% covered", rows[i].condition, 100.0 * summary.covered);
        if (summary.width > rows[i].widest)
            fail_msg("%s: half interval of %.2f points", rows[i].condition, 100.0 * summary.width);
    }
}

/* ---- the terms --------------------------------------------------------------------------- */

static double between(struct lull_random *random, double low, double high)
{
    return low + (high - low) * lull_random_uniform(random);
}

static struct lull_energy_side draw_side(struct lull_random *random, uint32_t gpus)
{
    const double seconds = between(random, 10.0, 1000.0);
    const double energy_j = seconds * gpus * between(random, 80.0, 400.0);

    return (struct lull_energy_side){
        .gpus = gpus,
        .iterations = 10 + lull_random_below(random, 1000),
        .seconds = seconds,
        .energy_j = energy_j,
        .reading_j = energy_j * between(random, 0.0, 0.02),
        .sampling_ratio = between(random, 0.0, 0.05),
    };
}

static void an_interval_is_made_of_its_terms(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct lull_random random;
        struct lull_energy_side sides[2];
        struct lull_energy_saving saving;
        double sum = 0.0;

        lull_random_init(&random, seed);
        sides[0] = draw_side(&random, 2);
        sides[1] = draw_side(&random, 2);
        holds(lull_energy_saving_compute(&sides[0], &sides[1], &saving), seed);
        for (int i = 0; i < LULL_ENERGY_TERMS; i++) {
            holds(saving.terms[i] >= 0.0 && isfinite(saving.terms[i]), seed);
            holds(saving.terms[i] <= saving.half_width_ratio * (1.0 + 1e-12), seed);
            sum += saving.terms[i] * saving.terms[i];
        }
        holds(fabs(sum - saving.half_width_ratio * saving.half_width_ratio) < 1e-9 * sum, seed);
        holds(saving.terms[LULL_ENERGY_TERM_RUNS] > 0.02 * (1.0 - saving.saving_ratio), seed);
    }
}

/* Within the largest offset the saving that is read moves by no more than the term says, and at the
 * largest by just that, to the first order. A gain moves nothing. */
static void an_offset_moves_a_saving_by_its_term(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct lull_random random;
        struct lull_energy_side sides[2];
        struct lull_energy_saving before;
        struct lull_energy_saving after;
        double moved;
        double gain;

        lull_random_init(&random, seed);
        sides[0] = draw_side(&random, 1 + (uint32_t)lull_random_below(&random, 8));
        sides[1] = sides[0];
        sides[1].energy_j *= between(&random, 0.6, 1.0);
        sides[1].seconds *= between(&random, 1.0, 1.01);
        gain = between(&random, 0.95, 1.05);
        holds(lull_energy_saving_compute(&sides[0], &sides[1], &before), seed);
        for (int i = 0; i < 2; i++)
            sides[i].energy_j = gain * (sides[i].energy_j + 5.0 * sides[i].gpus * sides[i].seconds);
        holds(lull_energy_saving_compute(&sides[0], &sides[1], &after), seed);
        moved = fabs(after.saving_ratio - before.saving_ratio);
        holds(moved <= before.terms[LULL_ENERGY_TERM_OFFSET] * (1.0 + 1e-9), seed);
        holds(moved >= before.terms[LULL_ENERGY_TERM_OFFSET] * 0.9, seed);
    }
}

static void what_is_shared_by_pairs_is_offset_and_level(void **state)
{
    const struct lull_energy_saving saving = {
        .saving_ratio = 0.2,
        .terms = {[LULL_ENERGY_TERM_READINGS] = 7.0,
                  [LULL_ENERGY_TERM_RUNS] = 7.0,
                  [LULL_ENERGY_TERM_OFFSET] = 0.003,
                  [LULL_ENERGY_TERM_LEVEL] = 0.004,
                  [LULL_ENERGY_TERM_SAMPLING] = 7.0},
    };

    (void)state;
    assert_near(lull_energy_saving_shared_log(&saving), 0.005 / 0.8, 1e-12);
}

/* The same levels of power leave nothing open of how a sensor's error depends on them. */
static void a_level_differs_only_from_another(void **state)
{
    struct lull_energy_side sides[2] = {{1, 100, 100.0, 20000.0, 0.0, 0.0},
                                        {1, 100, 100.0, 20000.0, 0.0, 0.0}};
    struct lull_energy_saving saving;
    double before = 0.0;

    (void)state;
    assert_true(lull_energy_saving_compute(&sides[0], &sides[1], &saving));
    assert_near(saving.terms[LULL_ENERGY_TERM_LEVEL], 0.0, 1e-12);
    for (double energy_j = 19000.0; energy_j >= 10000.0; energy_j -= 1000.0) {
        sides[1].energy_j = energy_j;
        assert_true(lull_energy_saving_compute(&sides[0], &sides[1], &saving));
        assert_true(saving.terms[LULL_ENERGY_TERM_LEVEL] > before);
        before = saving.terms[LULL_ENERGY_TERM_LEVEL];
    }
    assert_true(before < 2.0 * 2.0 * sqrt(2.0) / 200.0);
}

static void what_was_not_measured_has_no_saving(void **state)
{
    const struct lull_energy_side whole = {1, 100, 100.0, 20000.0, 0.0, 0.0};
    const struct lull_energy_side parts[] = {{0, 100, 100.0, 20000.0, 0.0, 0.0},
                                             {1, 0, 100.0, 20000.0, 0.0, 0.0},
                                             {1, 100, 0.0, 20000.0, 0.0, 0.0},
                                             {1, 100, 100.0, 0.0, 0.0, 0.0}};
    struct lull_energy_saving saving;

    (void)state;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        assert_false(lull_energy_saving_compute(&whole, &parts[i], &saving));
        assert_false(lull_energy_saving_compute(&parts[i], &whole, &saving));
    }
}

/* ---- sampling in step -------------------------------------------------------------------- */

static struct lull_energy_source sensor(double period_s, double window_s)
{
    return (struct lull_energy_source){period_s, period_s, window_s, 400.0};
}

/* The edge of iterations of one length and jitter. */
static double edge_s(double iteration_s, double jitter_ratio, uint32_t count, double window_s,
                     uint64_t seed)
{
    const struct lull_energy_source source = sensor(0.1, window_s);
    struct lull_energy_strobe strobe = {0};
    struct lull_random random;
    double at_s = 1.0;

    lull_random_init(&random, seed);
    for (uint32_t i = 0; i < count; i++) {
        lull_energy_strobe_add(&strobe, (int64_t)(at_s * 1e9));
        at_s += iteration_s * (1.0 + lull_random_normal(&random, 0.0, jitter_ratio));
    }
    return lull_energy_strobe_edge_s(&strobe, &source);
}

/* The formula of strobe.h, term by term, for one period of the sensor. */
static double edge_in_period_s(const struct lull_energy_strobe *strobe, double period_s,
                               double window_s)
{
    double variance = 0.0;

    for (int m = 1; m <= 4; m++) {
        const double turn = M_PI * m * window_s / period_s;
        double real = 0.0;
        double imaginary = 0.0;

        for (uint32_t i = 0; i < strobe->count; i++) {
            const double phase = 2.0 * M_PI * m * 1e-9 * (double)strobe->begins_ns[i] / period_s;

            real += cos(phase) / strobe->count;
            imaginary += sin(phase) / strobe->count;
        }
        variance += (real * real + imaginary * imaginary) * pow(sin(turn) / turn, 2.0) /
                    (2.0 * M_PI * M_PI * m * m);
    }
    return period_s * sqrt(variance);
}

static void an_edge_is_that_of_the_worst_period(void **state)
{
    static const double periods_s[] = {0.098, 0.102};
    const struct lull_energy_source source = sensor(0.1, 0.025);

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct lull_energy_strobe strobe = {0};
        struct lull_random random;
        double worst_s = 0.0;
        double at_s = 0.0;

        lull_random_init(&random, seed);
        for (int i = 0; i < 20; i++) {
            lull_energy_strobe_add(&strobe, (int64_t)(at_s * 1e9));
            at_s += 0.1 + 0.3 * lull_random_uniform(&random);
        }
        for (double s = periods_s[0]; s <= periods_s[1]; s += 1e-5)
            worst_s = fmax(worst_s, edge_in_period_s(&strobe, s, 0.025));
        /* The last period that is tried may lie just outside the range. */
        holds(fabs(lull_energy_strobe_edge_s(&strobe, &source) - worst_s) < 0.07 * worst_s, seed);
    }
}

/* A look at an edge once in every 0.1 s is wrong by up to half of that, evenly: 0.1 / sqrt(12) s.
 * The four harmonics that count have 87 % of that variance. */
static void in_step_an_edge_is_anywhere_between_two_looks(void **state)
{
    (void)state;
    assert_near(edge_s(0.6, 0.0, 600, 1e-6, 0), 0.1 * sqrt(0.8655 / 12.0), 5e-4);
    assert_true(edge_s(0.6, 0.0, 600, 0.025, 0) > 0.02);
    assert_true(edge_s(0.6, 0.0, 600, 0.025, 0) < edge_s(0.6, 0.0, 600, 1e-6, 0));
    assert_near(edge_s(0.6, 0.0, 600, 0.1, 0), 0.0, 1e-12);
    assert_near(edge_s(0.6, 0.0, 600, 1.0, 0), 0.0, 1e-12);
    assert_near(edge_s(0.6, 0.0, 0, 0.025, 0), 0.0, 1e-12);
}

/* The period of a sensor is known to 2 %: iterations that are in step with any period of that range
 * may be in step. Halves of a period are seen at two places in turn. */
static void out_of_step_edges_average_out(void **state)
{
    const double in_step_s = edge_s(0.6, 0.0, 600, 0.025, 0);

    (void)state;
    assert_near(edge_s(0.6 * 1.015, 0.0, 600, 0.025, 0), in_step_s, 0.05 * in_step_s);
    assert_near(edge_s(0.6 * 0.985, 0.0, 600, 0.025, 0), in_step_s, 0.05 * in_step_s);
    assert_true(edge_s(0.6 * 1.04, 0.0, 600, 0.025, 0) < 0.2 * in_step_s);
    assert_true(edge_s(0.55, 0.0, 600, 0.025, 0) < 0.5 * in_step_s);
    assert_true(edge_s(0.55, 0.0, 600, 0.025, 0) > 0.2 * in_step_s);
    for (uint64_t seed = 0; seed < 20; seed++) {
        holds(edge_s(0.6, 0.003, 600, 0.025, seed) < in_step_s, seed);
        holds(edge_s(0.6, 0.03, 600, 0.025, seed) < 0.35 * in_step_s, seed);
    }
}

static void what_two_runs_overlook_is_the_whole_swing_at_most(void **state)
{
    const struct lull_energy_waveform waveform = {0.6, 1.0, 0.8};
    const struct lull_energy_waveform twice = {0.6, 2.0, 0.8};
    const struct lull_energy_waveform brief = {0.01, 1.0, 0.8};

    (void)state;
    assert_near(lull_energy_strobe_ratio(0.02, &waveform), 0.8 * 0.02 / 0.6 * sqrt(3.0), 1e-12);
    assert_near(lull_energy_strobe_ratio(0.02, &twice), 0.8 * 0.02 / 0.6 * sqrt(6.0), 1e-12);
    assert_near(lull_energy_strobe_ratio(0.02, &brief), 0.8 * 0.4, 1e-12);
}

static void a_swing_is_seen_or_known(void **state)
{
    struct lull_moments powers = {0};
    struct lull_moments even = {0};

    (void)state;
    for (int i = 0; i < 1000; i++) {
        lull_moments_add(&powers, i % 4 == 0 ? 50.0 : 350.0);
        lull_moments_add(&even, 200.0);
    }
    assert_near(lull_energy_strobe_swing_ratio(&powers, 0.25), 300.0 / 275.0, 0.01);
    assert_near(lull_energy_strobe_swing_ratio(&even, 0.25), 0.8 / (1.0 - 0.8 * 0.25), 1e-9);
    assert_near(lull_energy_strobe_swing_ratio(&even, 0.0), 0.0, 1e-9);
    assert_near(lull_energy_strobe_swing_ratio(&powers, 0.0), 2.0 * 300.0 * sqrt(0.1875) / 275.0,
                0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_term_covers_its_condition),
        cmocka_unit_test(the_interval_covers_and_is_of_use),
        cmocka_unit_test(an_interval_is_made_of_its_terms),
        cmocka_unit_test(an_offset_moves_a_saving_by_its_term),
        cmocka_unit_test(what_is_shared_by_pairs_is_offset_and_level),
        cmocka_unit_test(a_level_differs_only_from_another),
        cmocka_unit_test(what_was_not_measured_has_no_saving),
        cmocka_unit_test(in_step_an_edge_is_anywhere_between_two_looks),
        cmocka_unit_test(an_edge_is_that_of_the_worst_period),
        cmocka_unit_test(out_of_step_edges_average_out),
        cmocka_unit_test(what_two_runs_overlook_is_the_whole_swing_at_most),
        cmocka_unit_test(a_swing_is_seen_or_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
