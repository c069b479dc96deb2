/*
 * Swings of a run, from synthetic logs: the side of each
 * iteration, and the sum of the readings of two GPUs. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "governor/run/run_statistics.h"

enum { GPUS = 3, IDLE_GPU = 1, ITERATIONS = 120, SWITCH = 60, SAMPLES = 620 };

#include "fake_control.h"

/* The control: two of three GPUs have ranks. Iterations last half a second; in the first part of
 * each, GPUs wait. */
static struct lull_device_info model = {.sm_clock_count = 3, .sm_clocks_mhz = {1410, 1395, 210}};
static bool wants_limits;

static const struct lull_device_info *info_fake(const struct lull_control *control, uint32_t gpu)
{
    (void)control;
    (void)gpu;
    return &model;
}

static bool limits_fake(const struct lull_control *control)
{
    (void)control;
    return wants_limits;
}

static const struct lull_boundaries *boundaries_fake(const struct lull_control *control)
{
    (void)control;
    return &logs[0].boundaries;
}

#define lull_control_gpu_count count_fake
#define lull_control_gpu(control, gpu) gpu_fake(control, gpu)
#define lull_control_log log_fake
#define lull_control_info info_fake
#define lull_control_wants_limits limits_fake
#define lull_run_statistics_boundaries boundaries_fake
#include "governor/run/run_swing.c"

static int64_t ms(int64_t value)
{
    return value * LULL_NS_PER_MS;
}

/* Power of a GPU that waits for 250 of 500 ms, and draws so much less then. */
static void add_samples(uint32_t gpu, double drop_before_w, double drop_behind_w)
{
    for (int64_t i = 0; i < SAMPLES; i++) {
        const double drop_w = i * 100 < SWITCH * 500 ? drop_before_w : drop_behind_w;
        const double power_w = 300.0 - (i % 5 < 2 ? drop_w : 0.0);

        lull_run_log_add_sample(
            &logs[gpu],
            &(struct lull_sample){.time_ns = ms(100 * i),
                                  .reading = {.valid = LULL_READING_POWER,
                                              .power_mw = (uint32_t)lround(power_w * 1e3)}});
    }
}

static int set_up(void **state)
{
    (void)state;
    wants_limits = false;
    for (uint32_t i = 0; i < GPUS; i++) {
        lull_run_log_init(&logs[i], &(struct lull_energy_source){.power_refresh_s = 0.1});
        states[i] = (struct lull_control_gpu){.process = i == IDLE_GPU ? -1 : (int32_t)i};
        add_samples(i, 100.0, i == IDLE_GPU ? 300.0 : 150.0);
    }
    for (int64_t i = 0; i <= ITERATIONS; i++)
        lull_run_log_add_boundary(
            &logs[0], &(struct lull_boundary){.time_ns = ms(500 * i),
                                              .first = i == 0,
                                              .phase = i < SWITCH ? LULL_PHASE_DESCENDING
                                                                  : LULL_PHASE_SETTLED});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < GPUS; i++)
        lull_run_log_fini(&logs[i]);
    return 0;
}

static void lower(uint32_t gpu, int64_t begin, int64_t end, uint32_t mhz)
{
    for (int64_t i = begin; i < end; i++)
        lull_run_log_add_lowered(&logs[gpu],
                                 &(struct lull_span){ms(500 * i + 10), ms(500 * i + 200), mhz});
}

static void lowered_iterations_are_managed(void **state)
{
    struct lull_run_swing swing;

    (void)state;
    lower(2, 5, 6, 1395); /* a pulse */
    lower(2, SWITCH, ITERATIONS, 210);
    lull_run_swing_compute(NULL, NULL, 0.05, 0, &swing);
    assert_null(swing.reason);
    assert_true(swing.piece_s == 10.0 && swing.lowest_hz == 0.1 && swing.highest_hz == 5.0);
    assert_int_equal(swing.reference.mean_w.count, 3);
    assert_int_equal(swing.managed.mean_w.count, 3);
    /* Two GPUs that swing together; the one without a rank does not count. */
    assert_float_equal(swing.reference.peak_to_peak_w.mean, 200.0, 1e-6);
    assert_float_equal(swing.managed.peak_to_peak_w.mean, 300.0, 1e-6);
    assert_float_equal(swing.reference.mean_w.mean, 520.0, 2.0);
    assert_true(swing.managed.band_w.mean > 1.45 * swing.reference.band_w.mean);
    assert_true(swing.is_wider);
    lull_run_swing_compute(NULL, NULL, 0.6, 0, &swing);
    assert_false(swing.is_wider);
}

static void what_was_tried_before_the_settling_is_of_no_side(void **state)
{
    struct lull_run_swing swing;

    (void)state;
    lower(0, 0, 20, 210);
    lower(2, 40, ITERATIONS, 210);
    lull_run_swing_compute(NULL, NULL, 0.05, 0, &swing);
    /* Iterations 20 to 39 are at the reference: one piece of 10 s, two of 5 s, five of 2 s. */
    assert_true(swing.piece_s == 2.0 && swing.lowest_hz == 0.5);
    assert_int_equal(swing.reference.mean_w.count, 5);
    assert_int_equal(swing.managed.mean_w.count, 15);
}

static void what_is_missing_is_told(void **state)
{
    struct lull_run_swing swing;

    (void)state;
    lull_run_swing_compute(NULL, NULL, 0.05, 0, &swing);
    assert_non_null(strstr(swing.reason, "nothing was lowered"));
    assert_int_equal(swing.reference.mean_w.count, 6);
    wants_limits = true; /* then the settling is the limit's */
    lull_run_swing_compute(NULL, NULL, 0.05, 0, &swing);
    assert_null(swing.reason);
    lower(0, 0, SWITCH, 210);
    lull_run_swing_compute(NULL, NULL, 0.05, 0, &swing);
    assert_non_null(strstr(swing.reason, "at the reference"));
    assert_false(swing.is_wider);
}

static void without_readings_nothing_is_known(void **state)
{
    struct lull_run_swing swing;

    (void)state;
    lower(2, SWITCH, ITERATIONS, 210);
    logs[2].samples.count = 0;
    lull_run_swing_compute(NULL, NULL, 0.05, 0, &swing);
    assert_int_equal(swing.reference.mean_w.count + swing.managed.mean_w.count, 0);
    assert_non_null(swing.reason);
}

static void what_was_given_up_is_said(void **state)
{
    struct lull_swing_limit limit;
    char text[LULL_RUN_SWING_TEXT];

    (void)state;
    lull_swing_limit_init(&limit, 0.05);
    assert_null(lull_run_swing_given_up(&limit, text));
    limit.finding.length_s = 2.0;
    lull_moments_add(&limit.finding.reference.peak_to_peak_w, 300.0);
    lull_moments_add(&limit.finding.managed.peak_to_peak_w, 350.0);
    limit.cut.gaps = true;
    assert_non_null(strstr(lull_run_swing_given_up(&limit, text),
                           "gaps are not lowered because that made the power of the job's GPUs "
                           "fluctuate by 350 instead of 300 W"));
    assert_non_null(strstr(text, "--swing permits (5 %)"));
    limit.cut.halvings = 2;
    assert_non_null(
        strstr(lull_run_swing_given_up(&limit, text), ", and fewer sections are lowered, because"));
    limit.cut = (struct lull_swing_cut){0};
    assert_non_null(strstr(lull_run_swing_given_up(&limit, text), "for some time"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lowered_iterations_are_managed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_tried_before_the_settling_is_of_no_side, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_missing_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_readings_nothing_is_known, set_up, tear_down),
        cmocka_unit_test(what_was_given_up_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
