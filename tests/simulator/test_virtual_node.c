/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/switch_look.h"
#include "simulator/fixed.h"
#include "simulator/node.h"

enum {
    PERIODS = 100,
    MEASURED = 25,
    RANKS = 2,
    LONG_PERIODS = 240,
    RESTING = 150,
    MANY_RANKS = 8,
    EXCHANGES = 5
};

static const double lengths_ms[RANKS] = {10.0, 12.0};

/* Each rank computes period after period, and waits for no other. */
static struct lull_simulation_outcome simulate(const double *compute_ms, uint32_t ranks)
{
    struct lull_simulation_options options = {
        .model = lull_gpu_model_find("A100-SXM4-40GB", 14),
        .periods = PERIODS,
        .measured = MEASURED,
    };
    struct lull_simulation_outcome outcome;
    struct lull_play *play;

    assert_int_equal(lull_play_create(ranks, &play, NULL), 0);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct lull_play_op compute = {
            .kind = LULL_PLAY_COMPUTE,
            .depends = {0, LULL_PLAY_NONE},
            .duration_ms = compute_ms[rank],
            .begins_step = true,
            .profile = "training",
            .kernels = 1,
        };

        assert_int_equal(lull_play_add(play, rank, &compute, NULL), 0);
    }
    assert_int_equal(lull_play_finish(play, NULL), 0);
    options.play = play;
    assert_int_equal(lull_simulate_node(&options, &outcome, NULL), 0);
    lull_play_destroy(play);
    return outcome;
}

/* When the measured part begins, the faster rank is periods ahead; these periods count neither for
 * time nor for energy. */
static void test_each_rank_counts_as_if_alone(void **state)
{
    const struct lull_simulation_outcome both = simulate(lengths_ms, RANKS);
    struct lull_simulation_outcome alone[RANKS];

    (void)state;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        alone[rank] = simulate(&lengths_ms[rank], 1);
        assert_true(fabs(alone[rank].period_ms - lengths_ms[rank]) < 1e-3);
    }
    assert_true(fabs(both.period_ms - (alone[0].period_ms + alone[1].period_ms) / RANKS) < 1e-6);
    assert_true(fabs(both.energy_j - (alone[0].energy_j + alone[1].energy_j)) <
                1e-6 * both.energy_j);
    assert_true(both.late_ratio == 0.0);
}

/* Ranks that compute and exchange by turns, each in a job of its own; each exchange is shorter by
 * less_ms than the one before, and doubles its payload that often. */
static void add_exchanges(struct lull_play *play, uint32_t rank, double less_ms, int32_t doublings)
{
    const int communicator =
        lull_play_add_communicator(play, "exchange", UINT32_C(1) << rank, NULL);

    assert_true(communicator >= 0);
    for (int32_t i = 0; i < 2 * EXCHANGES; i++) {
        const bool computes = i % 2 == 0;
        const struct lull_play_op op = {
            .kind = computes ? LULL_PLAY_COMPUTE : LULL_PLAY_COMMUNICATION,
            .depends = {LULL_PLAY_NONE, LULL_PLAY_NONE},
            .duration_ms = computes ? 30.0 : 90.0 - less_ms * i,
            .begins_step = i == 0,
            .profile = "training",
            .kernels = 1,
            .function = LULL_PLAY_ALL_TO_ALL,
            .communicator = (uint32_t)communicator,
            .bytes = UINT64_C(1) << (20 + doublings * i / 2),
            .link_gbs = 10.0,
            .channels = 4,
        };

        assert_int_equal(lull_play_add(play, rank, &op, NULL), i);
    }
}

/* The driver has time for a third of the gaps: the lowered gaps suffice to determine their cost. */
static void test_descents_end_where_most_gaps_stay_high(void **state)
{
    struct lull_gpu_model model = *lull_gpu_model_find("A100-SXM4-40GB", 14);
    struct lull_simulation_options options = {
        .model = &model,
        .periods = LONG_PERIODS,
        .measured = MEASURED,
        .managed = true,
        .exposure = true,
    };
    struct lull_simulation_outcome outcome;
    struct lull_play *play;

    (void)state;
    lull_gpu_model_fix_latency(&model, 16.7, 16.7);
    lull_controller_config_default(&options.control);
    options.control.only_sections = true;
    assert_int_equal(lull_play_create(MANY_RANKS, &play, NULL), 0);
    for (uint32_t rank = 0; rank < MANY_RANKS; rank++)
        add_exchanges(play, rank, 2.0, 0);
    assert_int_equal(lull_play_finish(play, NULL), 0);
    options.play = play;
    assert_int_equal(lull_simulate_node(&options, &outcome, NULL), 0);
    lull_play_destroy(play);
    assert_true(outcome.settled_in > 0);
}

static struct lull_simulation_outcome simulate_periods(const struct lull_play *play,
                                                       uint32_t periods, bool managed,
                                                       bool only_sections, bool only_steady,
                                                       double swing_ratio)
{
    struct lull_gpu_model model = *lull_gpu_model_find("A100-SXM4-40GB", 14);
    struct lull_simulation_options options = {
        .play = play,
        .model = &model,
        .periods = periods,
        .measured = MEASURED,
        .managed = managed,
        .exposure = true,
        .seed = 1,
    };
    struct lull_simulation_outcome outcome;

    lull_gpu_model_fix_latency(&model, 4.0, 10.0);
    lull_controller_config_default(&options.control);
    options.control.only_sections = only_sections;
    options.control.only_steady = only_steady;
    options.control.swing_ratio = swing_ratio;
    assert_int_equal(lull_simulate_node(&options, &outcome, NULL), 0);
    return outcome;
}

static struct lull_simulation_outcome simulate_levers(const struct lull_play *play, bool managed,
                                                      bool only_sections, bool only_steady,
                                                      double swing_ratio)
{
    return simulate_periods(play, 2 * LONG_PERIODS, managed, only_sections, only_steady,
                            swing_ratio);
}

/* Gaps that are switched on top of a steady point cost nothing more than that: they begin where the
 * slowed computation ends. */
static void test_gaps_and_a_steady_point_add_up(void **state)
{
    struct lull_simulation_outcome highest;
    struct lull_simulation_outcome gaps;
    struct lull_simulation_outcome steady;
    struct lull_simulation_outcome all;
    struct lull_play *play;

    (void)state;
    assert_int_equal(lull_play_create(1, &play, NULL), 0);
    add_exchanges(play, 0, 0.0, 0);
    assert_int_equal(lull_play_finish(play, NULL), 0);
    highest = simulate_levers(play, false, false, false, INFINITY);
    gaps = simulate_levers(play, true, true, false, INFINITY);
    steady = simulate_levers(play, true, false, true, INFINITY);
    all = simulate_levers(play, true, false, false, INFINITY);
    lull_play_destroy(play);
    assert_true(steady.period_ms < 1.01 * highest.period_ms);
    assert_true(all.period_ms < 1.01 * highest.period_ms);
    assert_true(gaps.period_ms < 1.002 * highest.period_ms);
    assert_true(all.steady_mhz < gaps.steady_mhz && all.point_mhz < steady.point_mhz);
    printf("saved: gaps %.2f %%, steady %.2f %%, both %.2f %%\n",
           100.0 * (1.0 - gaps.energy_j / highest.energy_j),
           100.0 * (1.0 - steady.energy_j / highest.energy_j),
           100.0 * (1.0 - all.energy_j / highest.energy_j));
    /* A steady point saves in gaps that are not switched for, too: that counts once. */
    assert_true(highest.energy_j - all.energy_j >
                0.75 * (2.0 * highest.energy_j - gaps.energy_j - steady.energy_j));
}

/* A rank that computes for 300 ms and exchanges for as long: readings of its power see both. */
static struct lull_play *make_slow_play(void)
{
    struct lull_play *play;

    assert_int_equal(lull_play_create(1, &play, NULL), 0);
    assert_int_equal(lull_play_add_communicator(play, "exchange", 1, NULL), 0);
    for (int32_t i = 0; i < 2; i++) {
        const struct lull_play_op op = {
            .kind = i == 0 ? LULL_PLAY_COMPUTE : LULL_PLAY_COMMUNICATION,
            .depends = {LULL_PLAY_NONE, LULL_PLAY_NONE},
            .duration_ms = 300.0,
            .begins_step = i == 0,
            .profile = "training",
            .kernels = 1,
            .function = LULL_PLAY_ALL_TO_ALL,
            .bytes = UINT64_C(1) << 20,
            .link_gbs = 10.0,
            .channels = 4,
        };

        assert_int_equal(lull_play_add(play, 0, &op, NULL), i);
    }
    assert_int_equal(lull_play_finish(play, NULL), 0);
    return play;
}

/* Low clocks in gaps make the power swing more than at the highest clock. They are given up where
 * that is not allowed, and kept where the steady point has narrowed the swings by more. */
static void test_gaps_are_given_up_where_they_widen_swings(void **state)
{
    struct lull_simulation_outcome highest;
    struct lull_simulation_outcome wide;
    struct lull_simulation_outcome held;
    struct lull_simulation_outcome all;
    struct lull_play *play = make_slow_play();

    (void)state;
    highest = simulate_levers(play, false, false, false, INFINITY);
    wide = simulate_levers(play, true, true, false, INFINITY);
    held = simulate_levers(play, true, true, false, 0.05);
    /* By then the duty of the steady point has been proven as well, which takes half of its time at
     * the reference. */
    all = simulate_periods(play, 8 * LONG_PERIODS, true, false, false, 0.05);
    lull_play_destroy(play);
    printf("given up: wide %d, held %d, all %d; saved %.2f, %.2f and %.2f %%\n", wide.given_up.gaps,
           held.given_up.gaps, all.given_up.gaps, 100.0 * (1.0 - wide.energy_j / highest.energy_j),
           100.0 * (1.0 - held.energy_j / highest.energy_j),
           100.0 * (1.0 - all.energy_j / highest.energy_j));
    printf("peak to peak: highest %.0f W, gaps %.0f W, held %.0f W, all %.0f W\n",
           highest.swing.peak_to_peak_w.mean, wide.swing.peak_to_peak_w.mean,
           held.swing.peak_to_peak_w.mean, all.swing.peak_to_peak_w.mean);
    assert_true(wide.swing.peak_to_peak_w.mean > 1.05 * highest.swing.peak_to_peak_w.mean);
    assert_false(wide.given_up.gaps);
    assert_true(held.given_up.gaps);
    assert_true(held.swing.peak_to_peak_w.mean < 1.05 * highest.swing.peak_to_peak_w.mean);
    assert_true(held.energy_j < 1.001 * highest.energy_j &&
                wide.energy_j < 0.97 * highest.energy_j);
    assert_false(all.given_up.gaps);
    assert_true(all.energy_j < wide.energy_j);
}

/* A steady point narrows swings: before it has been sought, nothing is given up for them. */
static void test_nothing_is_given_up_before_a_steady_point_is_sought(void **state)
{
    struct lull_play *play = make_slow_play();
    struct lull_simulation_outcome highest =
        simulate_periods(play, RESTING, false, false, false, INFINITY);
    struct lull_simulation_outcome resting =
        simulate_periods(play, RESTING, true, false, false, 0.05);
    struct lull_simulation_outcome held = simulate_periods(play, RESTING, true, true, false, 0.05);

    (void)state;
    lull_play_destroy(play);
    printf("peak to peak: highest %.0f W, resting %.0f W, held %.0f W; steady %.0f MHz\n",
           highest.swing.peak_to_peak_w.mean, resting.swing.peak_to_peak_w.mean,
           held.swing.peak_to_peak_w.mean, (double)resting.steady_mhz);
    assert_true(held.given_up.gaps);
    assert_false(resting.given_up.gaps);
    assert_int_equal(resting.steady_mhz, highest.steady_mhz);
    assert_true(resting.swing.peak_to_peak_w.mean > 1.05 * highest.swing.peak_to_peak_w.mean);
}

/* Two ranks whose gaps of 8 to 40 ms drift through each other, on a driver that always takes 5 ms.
 */
static struct lull_simulation_outcome simulate_looks(bool managed, int64_t look_ns)
{
    struct lull_gpu_model model = *lull_gpu_model_find("A100-SXM4-40GB", 14);
    struct lull_simulation_options options = {
        .model = &model,
        .periods = LONG_PERIODS + PERIODS,
        .measured = MEASURED,
        .managed = managed,
        .exposure = true,
        .look_ns = look_ns,
    };
    struct lull_simulation_outcome outcome;
    struct lull_play *play;

    lull_gpu_model_fix_latency(&model, 1.667, 3.333);
    lull_controller_config_default(&options.control);
    options.control.only_sections = true;
    assert_int_equal(lull_play_create(RANKS, &play, NULL), 0);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        add_exchanges(play, rank, 8.3 + rank, 1);
    assert_int_equal(lull_play_finish(play, NULL), 0);
    options.play = play;
    assert_int_equal(lull_simulate_node(&options, &outcome, NULL), 0);
    lull_play_destroy(play);
    return outcome;
}

/* A reader of the clock every 1.5 ms, but not during calls, saves nearly as much as one that is
 * notified. */
static void test_reading_clocks_back_costs_little(void **state)
{
    const struct lull_simulation_outcome highest = simulate_looks(false, 0);
    const struct lull_simulation_outcome reported = simulate_looks(true, 0);
    const struct lull_simulation_outcome read = simulate_looks(true, LULL_SWITCH_LOOK_NS);

    (void)state;
    printf("saved: told %.2f %%, read back %.2f %% (%.2f %% low)\n",
           100.0 * (1.0 - reported.energy_j / highest.energy_j),
           100.0 * (1.0 - read.energy_j / highest.energy_j), 100.0 * read.late_ratio);
    assert_true(highest.energy_j - read.energy_j > 0.9 * (highest.energy_j - reported.energy_j));
    assert_true(read.late_ratio < 0.02);
}

static struct lull_simulation_outcome simulate_fixed(const struct lull_play *play,
                                                     uint32_t steps_below, double limit_w)
{
    const struct lull_simulation_options options = {
        .play = play,
        .model = lull_gpu_model_find("A100-SXM4-40GB", 14),
        .periods = MEASURED,
        .measured = MEASURED / 2,
        .steps_below = steps_below,
        .limit_w = limit_w,
    };
    struct lull_simulation_outcome outcome;

    assert_int_equal(lull_simulate_node(&options, &outcome, NULL), 0);
    return outcome;
}

/* The fixed settings are within the tolerance and save energy. One setting lower exceeds the
 * tolerance. */
static void test_fixed_settings_are_the_lowest_within_the_tolerance(void **state)
{
    const double tolerance = 0.02;
    struct lull_simulation_options options = {
        .model = lull_gpu_model_find("A100-SXM4-40GB", 14),
        .periods = MEASURED,
        .measured = MEASURED / 2,
    };
    struct lull_simulation_outcome highest;
    struct lull_simulation_outcome outcomes[2];
    struct lull_simulation_outcome lower[2];
    double settings[2];
    struct lull_play *play;

    (void)state;
    assert_int_equal(lull_play_create(1, &play, NULL), 0);
    add_exchanges(play, 0, 0.0, 0);
    assert_int_equal(lull_play_finish(play, NULL), 0);
    options.play = play;
    highest = simulate_fixed(play, 0, 0.0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(lull_simulate_fixed(&options, i == 0 ? LULL_FIXED_CLOCK : LULL_FIXED_LIMIT,
                                             tolerance, &highest, &outcomes[i], &settings[i], NULL),
                         0);
    assert_true(settings[0] == outcomes[0].steady_mhz && settings[0] < highest.steady_mhz);
    lower[0] = simulate_fixed(play, (uint32_t)((highest.steady_mhz - settings[0]) / 15.0) + 1, 0.0);
    lower[1] = simulate_fixed(play, 0, settings[1] - 5.0);
    lull_play_destroy(play);
    for (int i = 0; i < 2; i++) {
        assert_true(outcomes[i].period_ms <= highest.period_ms * (1.0 + tolerance));
        assert_true(outcomes[i].energy_j < highest.energy_j);
        assert_true(lower[i].period_ms > highest.period_ms * (1.0 + tolerance));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_rank_counts_as_if_alone),
        cmocka_unit_test(test_descents_end_where_most_gaps_stay_high),
        cmocka_unit_test(test_gaps_and_a_steady_point_add_up),
        cmocka_unit_test(test_gaps_are_given_up_where_they_widen_swings),
        cmocka_unit_test(test_nothing_is_given_up_before_a_steady_point_is_sought),
        cmocka_unit_test(test_reading_clocks_back_costs_little),
        cmocka_unit_test(test_fixed_settings_are_the_lowest_within_the_tolerance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
