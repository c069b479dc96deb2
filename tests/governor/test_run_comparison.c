/*
 * The results of a comparison, against sums by hand.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "governor/run/run_comparison.h"
#include "../core/property.h"

enum { MOST_PAIRS = 8 };

/* The next run of the comparison: its time per iteration, and the energy per settled iteration. */
static struct lull_compared_run *add(struct lull_run_comparison *comparison, double iteration_ms,
                                     double energy_j)
{
    struct lull_compared_run *const run = &comparison->runs[comparison->run_count];

    lull_run_comparison_add(comparison, NULL, 10.0, 0);
    run->whole = (struct lull_run_statistics){.iterations = 100, .iteration_ms = iteration_ms};
    run->settled = (struct lull_run_statistics){
        .iterations = 50,
        .iteration_ms = iteration_ms,
        .has_energy = energy_j > 0.0,
        .energy_j = 50.0 * energy_j,
        .average_power_w = energy_j / (iteration_ms * 1e-3),
    };
    return run;
}

static bool is_same(const struct lull_paired_change *a, const struct lull_paired_change *b)
{
    return a->pairs == b->pairs && a->ratio == b->ratio && a->lower_ratio == b->lower_ratio &&
           a->upper_ratio == b->upper_ratio;
}

static void init(struct lull_run_comparison *comparison, uint32_t pairs)
{
    assert_int_equal(lull_run_comparison_init(comparison, pairs, NULL), 0);
}

static void test_pairs_are_of_one_run_of_each_side(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        double times[2][MOST_PAIRS], energies[2][MOST_PAIRS];
        struct lull_paired_runs slowdown = {0}, cost = {0};
        struct lull_run_comparison comparison;
        struct lull_run_difference difference;
        struct lull_paired_change by_hand;
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t pairs = 2 + (uint32_t)lull_random_below(&random, MOST_PAIRS - 1);
        const double confidence = 0.6 + 0.39 * lull_random_uniform(&random);

        init(&comparison, pairs);
        for (uint32_t i = 0; i < pairs; i++) {
            for (uint32_t run = 2 * i; run < 2 * i + 2; run++) {
                const bool is_managed = run % 4 == 1 || run % 4 == 2;

                times[is_managed][i] = lull_random_normal(&random, 60.0, 1.0);
                energies[is_managed][i] = lull_random_normal(&random, is_managed ? 9 : 10, 0.1);
                holds(add(&comparison, times[is_managed][i], energies[is_managed][i])->is_managed ==
                          is_managed,
                      seed);
            }
            lull_paired_runs_add(&slowdown, times[0][i], times[1][i], 0.0);
            lull_paired_runs_add(&cost, energies[0][i], energies[1][i], 0.0);
        }
        lull_run_comparison_difference(&comparison, confidence, &difference);
        holds(difference.pairs_done == pairs, seed);
        lull_paired_runs_change(&slowdown, confidence, &by_hand);
        holds(is_same(&by_hand, &difference.slowdown), seed);
        lull_paired_runs_change(&cost, 0.5 + 0.5 * confidence, &by_hand);
        holds(fabs(difference.saving.ratio + by_hand.ratio) < 1e-12, seed);
        holds(fabs(difference.saving.lower_ratio + by_hand.upper_ratio) < 1e-12, seed);
        holds(fabs(difference.saving.upper_ratio + by_hand.lower_ratio) < 1e-12, seed);
        holds(difference.saving.lower_ratio < difference.saving.ratio, seed);
        holds(lull_run_difference_no_bound(&difference) == NULL, seed);
        lull_run_comparison_fini(&comparison);
    }
}

static void test_sensors_widen_the_saving_alone(void **state)
{
    struct lull_run_difference without, with;
    struct lull_run_comparison comparison;
    double shared = 0.0;

    (void)state;
    init(&comparison, 2);
    add(&comparison, 60.0, 10.0);
    add(&comparison, 60.1, 9.0);
    add(&comparison, 60.3, 9.1);
    add(&comparison, 60.2, 10.2);
    lull_run_comparison_difference(&comparison, 0.95, &without);
    for (uint32_t i = 0; i < 4; i++) {
        struct lull_run_statistics *const settled = &comparison.runs[i].settled;

        settled->measured_gpus = 3;
        settled->span_s = 50.0 * 1e-3 * settled->iteration_ms;
        settled->measured.bias_j = 0.5;
        shared += 0.5 / settled->energy_j / 2.0;
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct lull_energy_saving saving;

        assert_true(lull_run_statistics_saving(&comparison.runs[i == 0 ? 0 : 3].settled,
                                               &comparison.runs[i == 0 ? 1 : 2].settled, &saving));
        assert_true(lull_energy_saving_shared_log(&saving) > 0.0);
        shared += lull_energy_saving_shared_log(&saving) / 2.0;
    }
    lull_run_comparison_difference(&comparison, 0.95, &with);
    assert_true(is_same(&with.slowdown, &without.slowdown));
    assert_near(with.saving.ratio, without.saving.ratio, 0.0);
    assert_near(log1p(-with.saving.lower_ratio), log1p(-without.saving.lower_ratio) + shared,
                1e-12);
    assert_near(log1p(-with.saving.upper_ratio), log1p(-without.saving.upper_ratio) - shared,
                1e-12);
    lull_run_comparison_fini(&comparison);
}

/* One pair has the interval of core/energy/saving.h, of what its runs say of themselves. */
static void test_the_saving_of_one_pair(void **state)
{
    struct lull_run_statistics unmanaged = {
        .iterations = 100,
        .has_energy = true,
        .has_uncertainty = true,
        .energy_j = 30000.0,
        .measured = {.square_j2 = 900.0, .largest_j = 30.0},
        .measured_gpus = 2,
        .sampling_ratio = 0.01,
        .span_s = 60.0,
    };
    struct lull_run_statistics managed = unmanaged;
    struct lull_energy_saving saving;

    (void)state;
    managed.energy_j = 27000.0;
    managed.sampling_ratio = 0.0;
    assert_true(lull_run_statistics_saving(&unmanaged, &managed, &saving));
    assert_near(saving.saving_ratio, 0.1, 1e-12);
    assert_near(saving.terms[LULL_ENERGY_TERM_READINGS],
                0.9 * hypot(30.0 / 30000.0, 30.0 / 27000.0), 1e-12);
    assert_near(saving.terms[LULL_ENERGY_TERM_OFFSET], 5.0 * 0.1 / 250.0, 1e-12);
    assert_near(saving.terms[LULL_ENERGY_TERM_SAMPLING], 2.0 * 0.9 * 0.01, 1e-12);
    assert_true(saving.half_width_ratio > saving.terms[LULL_ENERGY_TERM_RUNS]);
    managed.has_uncertainty = false;
    assert_true(lull_run_statistics_saving(&unmanaged, &managed, &saving));
    assert_true(isnan(saving.half_width_ratio));
    managed.has_energy = false;
    assert_false(lull_run_statistics_saving(&unmanaged, &managed, &saving));
}

static void test_why_there_is_no_bound(void **state)
{
    struct lull_run_comparison comparison;
    struct lull_run_difference difference;

    (void)state;
    init(&comparison, 3);
    add(&comparison, 60.0, 10.0);
    lull_run_comparison_difference(&comparison, 0.95, &difference);
    assert_true(isnan(difference.slowdown.ratio));
    assert_non_null(strstr(lull_run_difference_no_bound(&difference), "no pair"));
    add(&comparison, 60.6, 9.0);
    lull_run_comparison_difference(&comparison, 0.95, &difference);
    assert_near(difference.slowdown.ratio, 0.01, 1e-12);
    assert_near(difference.saving.ratio, 0.1, 1e-12);
    assert_true(isnan(difference.slowdown.upper_ratio) && isnan(difference.saving.lower_ratio));
    assert_non_null(strstr(lull_run_difference_no_bound(&difference), "one run of each kind"));
    /* A pair in which no iterations were found, and one whose second run fails. */
    add(&comparison, 0.0, 0.0);
    add(&comparison, 60.0, 10.0);
    lull_run_comparison_difference(&comparison, 0.95, &difference);
    assert_int_equal(difference.pairs_done, 2);
    assert_non_null(strstr(lull_run_difference_no_bound(&difference), "iterations"));
    add(&comparison, 61.0, 10.0);
    add(&comparison, 62.0, 9.0)->status = 7;
    lull_run_comparison_difference(&comparison, 0.95, &difference);
    assert_int_equal(difference.pairs_done, 2);
    assert_near(difference.slowdown.ratio, 0.01, 1e-12);
    lull_run_comparison_fini(&comparison);
}

/* A pair in which something else than Lull held one of its runs back does not count. */
static void test_disturbed_pairs_are_left_out(void **state)
{
    struct lull_run_comparison comparison;
    struct lull_run_difference difference;

    (void)state;
    init(&comparison, 4);
    add(&comparison, 60.0, 10.0)->limits_mw[5] = 400000;
    add(&comparison, 90.0, 8.0)->limits_mw[5] = 150000; /* lowered between the two */
    lull_run_comparison_difference(&comparison, 0.95, &difference);
    assert_int_equal(difference.pairs_done, 0);
    assert_int_equal(difference.set_aside, 1);
    assert_true(isnan(difference.slowdown.ratio));
    assert_non_null(strstr(lull_run_difference_no_bound(&difference), "changed a power limit"));
    add(&comparison, 90.0, 8.0)->limits_mw[5] = 150000; /* the same in both, or not known */
    add(&comparison, 90.0, 8.0)->limits_mw[5] = 150000;
    add(&comparison, 60.0, 10.0)->limits_mw[5] = 400000;
    add(&comparison, 60.0, 10.0);
    lull_run_comparison_difference(&comparison, 0.95, &difference);
    assert_int_equal(difference.pairs_done, 2);
    assert_near(difference.slowdown.ratio, 0.0, 1e-12);
    assert_null(lull_run_difference_no_bound(&difference));
    for (uint32_t run = 0; run < 2; run++) {
        comparison.runs[2 + run].disturbance = "heat";
        lull_run_comparison_difference(&comparison, 0.95, &difference);
        assert_int_equal(difference.pairs_done, 1);
        comparison.runs[2 + run].disturbance = NULL;
    }
    comparison.sets_limits = true; /* Lull changes them itself */
    lull_run_comparison_difference(&comparison, 0.95, &difference);
    assert_int_equal(difference.pairs_done, 3);
    assert_int_equal(difference.set_aside, 0);
    assert_null(difference.disturbance);
    lull_run_comparison_fini(&comparison);
}

static void test_the_last_runs_that_ended_well(void **state)
{
    struct lull_run_comparison comparison;

    (void)state;
    init(&comparison, 2);
    assert_null(lull_run_comparison_last(&comparison, false));
    add(&comparison, 60.0, 10.0);
    assert_ptr_equal(lull_run_comparison_last(&comparison, false), &comparison.runs[0]);
    assert_null(lull_run_comparison_last(&comparison, true));
    add(&comparison, 61.0, 10.0);
    add(&comparison, 62.0, 10.0);
    add(&comparison, 63.0, 10.0)->status = 1;
    assert_ptr_equal(lull_run_comparison_last(&comparison, false), &comparison.runs[0]);
    assert_ptr_equal(lull_run_comparison_last(&comparison, true), &comparison.runs[2]);
    lull_run_comparison_fini(&comparison);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs_are_of_one_run_of_each_side),
        cmocka_unit_test(test_sensors_widen_the_saving_alone),
        cmocka_unit_test(test_the_saving_of_one_pair),
        cmocka_unit_test(test_why_there_is_no_bound),
        cmocka_unit_test(test_disturbed_pairs_are_left_out),
        cmocka_unit_test(test_the_last_runs_that_ended_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
