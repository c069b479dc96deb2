/*
 * The detection of work on a GPU, against a made-up GPU whose sensors are refreshed as real ones:
 * it is shown in time, is not shown where there is none, and wrong levels are learnt again.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/clock.h"
#include "governor/serving/idle_watch.h"

enum { REFRESH_MS = 100, UTILIZATION_MS = 250, STEP_MS = 1 };

/* A GPU in steps of 1 ms, with sensors as an A100 has them. */
struct gpu {
    int64_t ms;
    double idle_w;
    double work_w;
    double energy_mj;
    uint32_t busy_ms; /* since the last refresh of utilization */
    struct lull_device_reading shown;
    bool has_utilization;
};

static void step(struct gpu *gpu, bool is_busy)
{
    const double noise = 1.0 + 0.03 * sin((double)gpu->ms * 0.37);
    const double power_w = (is_busy ? gpu->work_w : gpu->idle_w) * noise;

    gpu->energy_mj += power_w * STEP_MS;
    gpu->busy_ms += is_busy;
    gpu->ms += STEP_MS;
    if (gpu->ms % REFRESH_MS == 0) {
        gpu->shown.power_mw = (uint32_t)(power_w * 1e3);
        gpu->shown.energy_mj = (uint64_t)gpu->energy_mj;
    }
    if (gpu->ms % UTILIZATION_MS == 0) {
        gpu->shown.utilization_percent = 100 * gpu->busy_ms / UTILIZATION_MS;
        gpu->busy_ms = 0;
    }
}

static enum lull_idle_sign look(struct lull_idle_watch *watch, const struct gpu *gpu,
                                uint32_t wanted)
{
    struct lull_device_reading reading = gpu->shown;

    reading.valid = LULL_IDLE_WATCH_FIELDS;
    if (!gpu->has_utilization)
        reading.valid &= ~(uint32_t)LULL_READING_UTILIZATION;
    return lull_idle_watch_take(watch, gpu->ms * LULL_NS_PER_MS, wanted, &reading);
}

/* Lets time pass, with a reading each 20 ms. Returns when work was shown first, ms from now; -1:
 * never. */
static int64_t pass(struct lull_idle_watch *watch, struct gpu *gpu, int64_t ms, bool is_busy)
{
    const int64_t begin_ms = gpu->ms;
    int64_t shown_ms = -1;

    while (gpu->ms - begin_ms < ms) {
        step(gpu, is_busy);
        if (gpu->ms % 20 == 0 &&
            look(watch, gpu, gpu->ms % 100 == 0 ? LULL_IDLE_WATCH_FIELDS : LULL_IDLE_WATCH_FAST) !=
                LULL_IDLE_SIGN_NONE &&
            shown_ms < 0)
            shown_ms = gpu->ms - begin_ms;
    }
    return shown_ms;
}

static struct gpu make_gpu(void)
{
    return (struct gpu){.idle_w = 60.0, .work_w = 200.0, .has_utilization = true};
}

static void test_work_is_shown_in_time(void **state)
{
    (void)state;
    /* Whatever the phase of the sensors, and also for a kernel of 20 ms at a low clock. */
    for (int64_t phase_ms = 0; phase_ms < 500; phase_ms += 7) {
        struct gpu gpu = make_gpu();
        struct lull_idle_watch watch = {0};

        gpu.work_w = 90.0;
        assert_int_equal(pass(&watch, &gpu, 3000 + phase_ms, false), -1);
        assert_in_range(pass(&watch, &gpu, 200, true), 0, 220);
        gpu = make_gpu();
        watch = (struct lull_idle_watch){0};
        assert_int_equal(pass(&watch, &gpu, 3000 + phase_ms, false), -1);
        assert_in_range(pass(&watch, &gpu, 200, true), 0, 120);
    }
}

static void test_idleness(void **state)
{
    struct gpu gpu = make_gpu();
    struct lull_idle_watch watch = {0};

    (void)state;
    assert_false(lull_idle_watch_is_idle(&watch, 0, 0));
    pass(&watch, &gpu, 1000, true);
    assert_false(lull_idle_watch_is_idle(&watch, gpu.ms * LULL_NS_PER_MS, 500 * LULL_NS_PER_MS));
    pass(&watch, &gpu, 400, false);
    assert_false(lull_idle_watch_is_idle(&watch, gpu.ms * LULL_NS_PER_MS, 500 * LULL_NS_PER_MS));
    /* Utilization is late by up to 250 ms, and read each 100 ms. */
    pass(&watch, &gpu, 360, false);
    assert_true(lull_idle_watch_is_idle(&watch, gpu.ms * LULL_NS_PER_MS, 500 * LULL_NS_PER_MS));
    /* Without readings nothing is known. */
    assert_false(
        lull_idle_watch_is_idle(&watch, (gpu.ms + 2000) * LULL_NS_PER_MS, 500 * LULL_NS_PER_MS));
    lull_idle_watch_note_work(&watch, gpu.ms * LULL_NS_PER_MS);
    assert_false(lull_idle_watch_is_idle(&watch, gpu.ms * LULL_NS_PER_MS, 500 * LULL_NS_PER_MS));
    assert_true(
        lull_idle_watch_shows_work(&watch, (gpu.ms + 99) * LULL_NS_PER_MS, 100 * LULL_NS_PER_MS));
    assert_false(
        lull_idle_watch_shows_work(&watch, (gpu.ms + 100) * LULL_NS_PER_MS, 100 * LULL_NS_PER_MS));
}

static void test_level_follows_the_clock(void **state)
{
    struct gpu gpu = make_gpu();
    struct lull_idle_watch watch = {0};

    (void)state;
    gpu.idle_w = 84.0;
    pass(&watch, &gpu, 2000, false);
    assert_float_equal(lull_idle_watch_level_w(&watch), 84.0, 3.0);
    gpu.idle_w = 60.0; /* parked */
    assert_int_equal(pass(&watch, &gpu, 1000, false), -1);
    assert_float_equal(lull_idle_watch_level_w(&watch), 60.0, 3.0);
    lull_idle_watch_forget_levels(&watch, gpu.ms * LULL_NS_PER_MS);
    assert_true(isnan(lull_idle_watch_level_w(&watch)));
    gpu.idle_w = 84.0; /* raised, without work */
    assert_int_equal(pass(&watch, &gpu, 1000, false), -1);
    assert_float_equal(lull_idle_watch_level_w(&watch), 84.0, 3.0);
}

static void test_wrong_level_is_learnt_again(void **state)
{
    struct gpu gpu = make_gpu();
    struct lull_idle_watch watch = {0};

    (void)state;
    pass(&watch, &gpu, 2000, false);
    gpu.idle_w = 90.0; /* for another reason than work */
    assert_true(pass(&watch, &gpu, 1000, false) > 0);
    pass(&watch, &gpu, 3000, false);
    assert_true(lull_idle_watch_is_idle(&watch, gpu.ms * LULL_NS_PER_MS, LULL_NS_PER_S));
    assert_float_equal(lull_idle_watch_level_w(&watch), 90.0, 4.0);
    assert_in_range(pass(&watch, &gpu, 200, true), 0, 120);
}

/* Readings that come late, by up to 0.3 s, show no work where there is none. */
static void test_late_readings(void **state)
{
    struct lull_idle_watch watch = {0};
    struct gpu gpu = make_gpu();
    uint32_t random = 1;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        random = random * 1664525u + 1013904223u;
        for (uint32_t ms = random >> 29 == 0 ? 20 + (random >> 8) % 300 : 20; ms > 0; ms--)
            step(&gpu, false);
        assert_int_equal(
            look(&watch, &gpu, i % 5 == 0 ? LULL_IDLE_WATCH_FIELDS : LULL_IDLE_WATCH_FAST),
            LULL_IDLE_SIGN_NONE);
    }
}

static void test_without_utilization(void **state)
{
    struct gpu gpu = make_gpu();
    struct lull_idle_watch watch = {0};

    (void)state;
    gpu.has_utilization = false;
    assert_int_equal(pass(&watch, &gpu, 3000, false), -1);
    assert_false(lull_idle_watch_is_idle(&watch, gpu.ms * LULL_NS_PER_MS, LULL_NS_PER_S));
    assert_true(isnan(lull_idle_watch_level_w(&watch)));
}

static void test_idle_bit(void **state)
{
    struct lull_device_reading reading = {.valid = LULL_READING_REASONS,
                                          .reasons = LULL_CLOCK_REASON_IDLE};
    struct lull_idle_watch watch = {0};

    (void)state;
    assert_int_equal(lull_idle_watch_take(&watch, 1, LULL_IDLE_WATCH_FAST, &reading),
                     LULL_IDLE_SIGN_NONE);
    reading.reasons = 0;
    assert_int_equal(lull_idle_watch_take(&watch, 2, LULL_IDLE_WATCH_FAST, &reading),
                     LULL_IDLE_SIGN_REASON);
    assert_int_equal(lull_idle_watch_take(&watch, 3, LULL_IDLE_WATCH_FAST, &reading),
                     LULL_IDLE_SIGN_NONE);
    for (enum lull_idle_sign i = 0; i < LULL_IDLE_SIGN_COUNT; i++)
        assert_non_null(lull_idle_sign_text(i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_is_shown_in_time),
        cmocka_unit_test(test_idleness),
        cmocka_unit_test(test_level_follows_the_clock),
        cmocka_unit_test(test_wrong_level_is_learnt_again),
        cmocka_unit_test(test_late_readings),
        cmocka_unit_test(test_without_utilization),
        cmocka_unit_test(test_idle_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
