/*
 * The test of a floor of power smoothing on synthetic jobs in virtual time: what is held, what is
 * given up, and the sentences for it. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "core/stats/random.h"
#include "governor/run/run_statistics.h"
#include "governor/run/run_swing.h"

enum { GPUS = 2 };

#include "fake_control.h"

enum { TICK_MS = 50, SAMPLE_MS = 100, LOW_MS = 240, HIGH_MS = 360, LONGEST_MS = 1000 * 1000 };

/* A GPU of the job draws low_w for LOW_MS of an iteration, and 900 W for HIGH_MS. */
static struct {
    double low_w;
    double slowdown_ratio; /* by smoothing */
    double noise_ratio;    /* of an iteration's time */
    int status;            /* of requests */
    bool is_silent;        /* requests are not answered */
} job;

static int64_t now_ns;
static uint32_t holds;
static struct lull_smoothing asked; /* last request */
static uint64_t sequence;
static double spent_j[LONGEST_MS]; /* by both GPUs, until each millisecond */
static struct lull_random noise;
static struct lull_device_info model;
static int64_t iteration_begin_ns;
static int64_t iteration_ns;

static int64_t now_fake(void)
{
    return now_ns;
}

static const struct lull_device_info *info_fake(const struct lull_control *control, uint32_t gpu)
{
    (void)control;
    (void)gpu;
    return &model;
}

static const struct lull_boundaries *boundaries_fake(const struct lull_control *control)
{
    (void)control;
    return &logs[0].boundaries;
}

static bool energy_fake(const struct lull_control *control, int64_t begin_ns, int64_t end_ns,
                        double *energy_out)
{
    (void)control;
    *energy_out = spent_j[end_ns / LULL_NS_PER_MS] - spent_j[begin_ns / LULL_NS_PER_MS];
    return true;
}

static int64_t offset_fake(const struct lull_control *control, uint32_t gpu)
{
    (void)control;
    (void)gpu;
    return 0;
}

static void lock_fake(struct lull_control *control)
{
    (void)control;
}

static void hold_fake(struct lull_control *control, enum lull_hold reason, bool is_held)
{
    (void)control;
    holds = is_held ? holds | reason : holds & ~(uint32_t)reason;
}

static uint64_t set_fake(struct lull_control *control, uint32_t gpu,
                         const struct lull_smoothing *smoothing)
{
    (void)control;
    (void)gpu;
    asked = *smoothing;
    return ++sequence;
}

static void result_fake(const struct lull_control *control, uint32_t gpu,
                        struct lull_limit_result *result_out)
{
    (void)control;
    (void)gpu;
    *result_out = (struct lull_limit_result){.smoothing_sequence = job.is_silent ? 0 : sequence,
                                             .smoothing_status = job.status,
                                             .smoothing_floor_w = 10 * asked.floor_percent};
}

#define lull_now_ns now_fake
#define lull_control_gpu_count count_fake
#define lull_control_gpu(control, gpu) gpu_fake(control, gpu)
#define lull_control_log log_fake
#define lull_control_info info_fake
#define lull_control_lock lock_fake
#define lull_control_unlock lock_fake
#define lull_control_hold hold_fake
#define lull_control_set_smoothing set_fake
#define lull_control_limit_result result_fake
#define lull_run_statistics_boundaries boundaries_fake
#define lull_run_statistics_energy_between energy_fake
#define lull_run_statistics_reading_offset_ns offset_fake
#include "governor/limits/power_smoothing.c"

static bool is_smoothed(void)
{
    return asked.floor_percent != 0 && job.status == 0;
}

static double power_now_w(void)
{
    const double part = (double)(now_ns - iteration_begin_ns) / (double)iteration_ns;
    const bool is_low = part * (LOW_MS + HIGH_MS) < LOW_MS;
    const double load_w = is_low ? job.low_w : 900.0;

    return is_smoothed() ? fmax(load_w, 10.0 * asked.floor_percent) : load_w;
}

static void begin_iteration(void)
{
    const double longer = (is_smoothed() ? job.slowdown_ratio : 0.0) +
                          job.noise_ratio * (lull_random_uniform(&noise) - 0.5);
    const struct lull_boundary boundary = {.time_ns = now_ns, .first = iteration_ns == 0};

    lull_run_log_add_boundary(&logs[0], &boundary);
    iteration_begin_ns = now_ns;
    iteration_ns = lull_ns_from_ms((LOW_MS + HIGH_MS) * (1.0 + longer));
}

/* One millisecond of the job. */
static void advance(void)
{
    if (now_ns >= iteration_begin_ns + iteration_ns)
        begin_iteration();
    for (uint32_t i = 0; i < GPUS && now_ns / LULL_NS_PER_MS % SAMPLE_MS == 0; i++)
        lull_run_log_add_sample(
            &logs[i], &(struct lull_sample){now_ns,
                                            {.valid = LULL_READING_POWER,
                                             .power_mw = (uint32_t)(1e3 * power_now_w())}});
    spent_j[now_ns / LULL_NS_PER_MS + 1] =
        spent_j[now_ns / LULL_NS_PER_MS] + GPUS * 1e-3 * power_now_w();
    now_ns += LULL_NS_PER_MS;
}

static int start(void **state)
{
    (void)state;
    memset(&job, 0, sizeof(job));
    job.low_w = 700.0;
    job.noise_ratio = 0.01;
    now_ns = LULL_NS_PER_S;
    holds = 0;
    asked = (struct lull_smoothing){0};
    sequence = 0;
    iteration_ns = iteration_begin_ns = 0;
    spent_j[now_ns / LULL_NS_PER_MS] = 0.0;
    lull_random_init(&noise, 7);
    model = (struct lull_device_info){.name = "B",
                                      .capabilities = LULL_CAPABILITY_POWER_SMOOTHING,
                                      .power_limit_max_mw = 1000000,
                                      .smoothing_floor_percent = 90};
    for (uint32_t i = 0; i < GPUS; i++) {
        states[i] = (struct lull_control_gpu){.process = 0, .leased = true};
        lull_run_log_init(&logs[i], &(struct lull_energy_source){0});
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < GPUS; i++)
        lull_run_log_fini(&logs[i]);
    return 0;
}

/* Runs the job for up to so many seconds, until smoothing is held or given up. */
static struct lull_power_smoothing_summary run(double bound_ratio, int seconds, char *note)
{
    const struct lull_power_smoothing_options options = {bound_ratio, 0.01, 0.95};
    struct lull_power_smoothing *smoothing = lull_power_smoothing_create(&options);
    struct lull_power_smoothing_summary summary;

    assert_non_null(smoothing);
    note[0] = '\0';
    for (int ms = 0; ms < 1000 * seconds; ms++) {
        struct lull_error error;

        advance();
        if (ms % TICK_MS != 0)
            continue;
        lull_power_smoothing_tick(smoothing, NULL, &error);
        if (error.code != 0)
            snprintf(note, sizeof(error.text), "%s", error.text);
        if (smoothing->phase == HELD || smoothing->phase == ENDED)
            break;
        assert_int_equal(holds, LULL_HOLD_SMOOTHING);
    }
    lull_power_smoothing_summary(smoothing, &summary);
    if (summary.reason == smoothing->end.text)
        summary.reason = note;
    lull_power_smoothing_destroy(smoothing);
    return summary;
}

static char note[sizeof(((struct lull_error *)0)->text)];

static void test_a_harmless_floor_is_held(void **state)
{
    const struct lull_power_smoothing_summary summary = run(0.08, 200, note);

    (void)state;
    assert_true(summary.is_held);
    assert_null(summary.reason);
    assert_true(lull_power_smoothing_is_bounded(&summary));
    assert_true(summary.after.band_w.mean < 0.08 * summary.before.mean_w.mean);
    assert_true(summary.before.band_w.mean > 0.09 * summary.before.mean_w.mean);
    assert_true(summary.added_ratio > 0.01 && summary.added_ratio <= 0.05);
    assert_true(summary.added_low_ratio < summary.added_ratio);
    assert_true(summary.slowdown.upper_ratio < 0.01);
    assert_int_equal(asked.floor_percent, summary.settings.floor_percent);
    assert_int_equal(summary.floor_w, 10 * asked.floor_percent);
    assert_int_equal(holds, 0);
    assert_string_equal(note, "");
}

static void test_a_costly_bound_is_missed_and_said_so(void **state)
{
    struct lull_power_smoothing_summary summary;

    (void)state;
    job.low_w = 500.0;
    summary = run(0.02, 300, note);
    assert_true(summary.is_held);
    assert_false(lull_power_smoothing_is_bounded(&summary));
    assert_true(summary.added_ratio > 0.03 && summary.added_ratio <= 0.05);
    assert_non_null(strstr(note, "does not meet --swing-bound"));
}

static void test_a_floor_that_slows_the_job_is_off(void **state)
{
    struct lull_power_smoothing_summary summary;

    (void)state;
    job.slowdown_ratio = 0.03;
    summary = run(0.06, 600, note);
    assert_false(summary.is_held);
    assert_non_null(strstr(note, "not proven that the job is not slower"));
    assert_int_equal(asked.floor_percent, 0);
    assert_int_equal(holds, 0);
}

static void test_every_refusal_has_a_sentence(void **state)
{
    (void)state;
    job.status = -EACCES;
    assert_false(run(0.08, 60, note).is_held);
    assert_non_null(strstr(note, "power-smoothing = yes"));
    job.status = -EBUSY;
    assert_false(run(0.08, 60, note).is_held);
    assert_non_null(strstr(note, "another program"));
    job.status = 0;
    job.is_silent = true;
    assert_false(run(0.08, 60, note).is_held);
    assert_non_null(strstr(note, "lulld does not answer"));
    model.capabilities = 0;
    assert_false(run(0.08, 60, note).is_held);
    assert_non_null(strstr(note, "GPU 0 or its driver has none; "));
    assert_int_equal(holds, 0);
}

static void test_narrow_swings_need_no_floor(void **state)
{
    (void)state;
    assert_false(run(0.5, 60, note).is_held);
    assert_non_null(strstr(note, "within --swing-bound"));
    assert_int_equal(sequence, 0);
}

static void test_a_job_without_iterations_is_not_held_for_ever(void **state)
{
    struct lull_power_smoothing_summary summary;

    (void)state;
    iteration_begin_ns = INT64_MAX / 2;
    iteration_ns = 1;
    summary = run(0.08, 200, note);
    assert_false(summary.is_held);
    assert_non_null(strstr(note, "no iteration was found"));
    assert_int_equal(holds, 0);
}

static void test_a_short_run_ends_during_the_test(void **state)
{
    const struct lull_power_smoothing_summary summary = run(0.08, 12, note);

    (void)state;
    assert_false(summary.is_held);
    assert_non_null(strstr(summary.reason, "use a longer run"));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_harmless_floor_is_held),
        CASE(test_a_costly_bound_is_missed_and_said_so),
        CASE(test_a_floor_that_slows_the_job_is_off),
        CASE(test_every_refusal_has_a_sentence),
        CASE(test_narrow_swings_need_no_floor),
        CASE(test_a_job_without_iterations_is_not_held_for_ever),
        CASE(test_a_short_run_ends_during_the_test),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
