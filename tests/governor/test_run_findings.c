/*
 * Findings of synthetic runs: which finding is reported, for
 * which GPUs, and with which numbers. The cases in real time are in test_silence.py.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "governor/run/run_pass.h"

enum { GPUS = 2, COMPUTE_MS = 30, EXCHANGE_MS = 20 };

#include "fake_control.h"

static struct lull_controller *learnt;
static bool is_settled;
static double unevenness;

static const struct lull_controller *controller_fake(const struct lull_control *control)
{
    (void)control;
    return learnt;
}

static bool settled_fake(const struct lull_control *control)
{
    (void)control;
    return is_settled;
}

static double unevenness_fake(const struct lull_controller *controller, uint32_t gpu)
{
    (void)controller;
    return gpu == 0 ? unevenness : 0.0;
}

static const struct lull_device_info info = {.capabilities = LULL_CAPABILITY_POWER_LIMIT,
                                             .power_limit_default_mw = 400000};

static const struct lull_device_info *info_fake(const struct lull_control *control, uint32_t gpu)
{
    (void)control;
    (void)gpu;
    return &info;
}

#define lull_controller_unevenness unevenness_fake
#define lull_control_info info_fake
#define lull_control_gpu_count count_fake
#define lull_control_gpu(control, gpu) gpu_fake(control, gpu)
#define lull_control_log log_fake
#define lull_control_controller controller_fake
#define lull_control_has_settled settled_fake
#include "governor/run/run_findings.c"
#include "governor/run/run_missing.c"

static struct lull_run_options options;
static struct lull_managed_run run;
static struct lull_run_pass last;

static int set_up(void **state)
{
    const uint32_t points[GPUS] = {81, 81};

    (void)state;
    options = (struct lull_run_options){0};
    lull_controller_config_default(&options.control);
    learnt = lull_controller_create(&options.control, GPUS, points);
    run = (struct lull_managed_run){.options = &options};
    /* The control is never looked into: the fakes above represent it. */
    last = (struct lull_run_pass){.run = &run, .control = (struct lull_control *)&states};
    is_settled = false;
    unevenness = 0.0;
    for (uint32_t i = 0; i < GPUS; i++) {
        lull_run_log_init(&logs[i], &(struct lull_energy_source){.power_refresh_s = 0.1});
        states[i] =
            (struct lull_control_gpu){.process = (int32_t)i, .leased = true, .device = i + 4};
    }
    return learnt == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < GPUS; i++)
        lull_run_log_fini(&logs[i]);
    for (uint32_t i = 0; i < run.note_count; i++)
        free(run.notes[i]);
    lull_controller_destroy(learnt);
    return 0;
}

/* Every rank computes and exchanges so often. */
static void iterate(uint32_t iterations)
{
    for (uint32_t i = 0; i < iterations; i++)
        for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
            const int64_t begin_ns = (1 + i * (int64_t)(COMPUTE_MS + EXCHANGE_MS)) * LULL_NS_PER_MS;
            struct lull_call call = {
                .time_ns = begin_ns, .bytes = 1 << 20, .ranks = GPUS, .peer = -1, .begin = true};

            lull_controller_take_call(learnt, gpu, &call);
            call.begin = false;
            call.time_ns += EXCHANGE_MS * LULL_NS_PER_MS;
            lull_controller_take_call(learnt, gpu, &call);
        }
}

static void read_reasons(uint32_t gpu, uint32_t idle, uint32_t busy)
{
    for (uint32_t i = 0; i < idle + busy; i++)
        lull_run_log_add_sample(
            &logs[gpu],
            &(struct lull_sample){.time_ns = i * 100 * LULL_NS_PER_MS,
                                  .reading = {.valid = LULL_READING_REASONS,
                                              .reasons = i < idle ? LULL_CLOCK_REASON_IDLE : 0}});
}

/* One sentence is found, and it begins so. */
static void expect_among(const char *begin, uint32_t count)
{
    lull_run_findings_add(&last);
    assert_int_equal(run.note_count, count);
    if (strncmp(run.notes[0], begin, strlen(begin)) != 0)
        fail_msg("found: %s", run.notes[0]);
    for (uint32_t i = 0; i < run.note_count; i++)
        free(run.notes[i]);
    run.note_count = 0;
}

static void expect(const char *begin)
{
    expect_among(begin, 1);
}

static void nothing_was_lowered(void **state)
{
    (void)state;
    iterate(20);
    is_settled = true;
    expect("GPUs 4, 5: no lower clock saves energy and passes the "
           "test for at most 1 % slowdown; try --tolerance 2%, or");
}

static void iterations_that_were_missing(void **state)
{
    (void)state;
    iterate(7);
    /* Blocks of 300 ms have 7 iterations of 45.7 ms: 9 to learn, then 7 steps of 3 pairs, and 6
     * pairs of a proof. */
    expect(
        "GPUs 4, 5: the run ended while its iterations were learned, after 7 iterations: about 380 "
        "more (18 s) are needed; use a longer run");
}

static void a_proof_is_the_least_that_is_missing(void **state)
{
    (void)state;
    iterate(5000);
    /* Blocks of 300 ms have 6 iterations, and 6 pairs of them are 72. */
    expect("GPUs 4, 5: the run ended during the clock search, after 5000 iterations: about 72 more "
           "(4 s) are needed");
}

static void uneven_iterations_are_the_reason(void **state)
{
    (void)state;
    iterate(20);
    states[1].process = -1;
    unevenness = 0.23;
    expect("GPU 4: the iterations are too uneven to be tested "
           "to 1 %; their mean exceeds the typical time by 23 %, without a rhythm of up to 32 "
           "iterations; use a longer run or a wider --tolerance");
    is_settled = true;
    expect("GPU 4: the iterations are too uneven");
    unevenness = 0.0299;
    expect("GPU 4: no lower clock");
}

/* A deviation makes the track count again, and not the log. */
static void iterations_before_a_deviation_count(void **state)
{
    (void)state;
    iterate(20);
    for (int64_t i = 0; i <= 100; i++)
        lull_run_log_add_boundary(
            &logs[0], &(struct lull_boundary){.time_ns = i * LULL_NS_PER_MS, .first = i == 0});
    states[1].process = -1;
    expect("GPU 4: the run ended during the clock search, after 109 iterations");
}

static void idle_in_nine_of_ten_readings(void **state)
{
    (void)state;
    iterate(20);
    is_settled = true;
    read_reasons(0, 90, 10);
    states[1].process = -1;
    expect("GPU 4: idle in 90 % of the readings");
    read_reasons(0, 0, 2);
    expect("GPU 4: no lower clock saves energy");
}

/* Twenty readings of a GPU with work. */
static void read_held(uint32_t gpu, uint64_t reasons, uint32_t limit_mw)
{
    const struct lull_sample sample = {.reading = {.valid = LULL_READING_REASONS |
                                                            LULL_READING_SM_CLOCK |
                                                            LULL_READING_POWER_LIMIT,
                                                   .sm_mhz = 510,
                                                   .reasons = reasons,
                                                   .power_limit_mw = limit_mw}};

    for (int i = 0; i < 20; i++)
        lull_run_log_add_sample(&logs[gpu], &sample);
}

/* The consequence, that nothing was lowered, follows its causes. */
static void what_others_do_comes_first(void **state)
{
    (void)state;
    iterate(20);
    is_settled = true;
    states[1].process = -1;
    read_held(0, LULL_CLOCK_REASON_POWER_CAP, 150000);
    expect_among("GPU 4: its power limit of 150 W, below the default of 400 W, holds its clock at "
                 "510 MHz",
                 2);
    states[0].limit_changes = 1;
    read_held(0, LULL_CLOCK_REASON_POWER_BRAKE, 160000);
    expect_among("GPU 4: its power limit was changed from 150 to 160 W during the run, not by Lull",
                 4);
    states[0].limit_changes = 0;
    read_held(0, LULL_CLOCK_REASON_POWER_BRAKE, 400000);
    expect_among("GPU 4: the power brake of the node's power supply held its clock down in 67 % of "
                 "the readings (510 MHz at the end)",
                 2);
}

static void a_driver_that_refuses_is_the_reason(void **state)
{
    (void)state;
    iterate(20);
    states[1].process = -1;
    states[0].driver = (struct lull_driver_watch){.refusal = LULL_E_DRIVER, .refused = 3};
    expect("GPU 4: not managed: the driver refuses to set its clocks: unknown error (999 in NVML");
    states[0].driver.refused = 2;
    expect("GPU 4: the run ended");
}

static void what_is_final_comes_alone(void **state)
{
    (void)state;
    states[0].driver = (struct lull_driver_watch){.changes = 7, .without_effect = 5, .in_vain = 5};
    states[1].driver.denial = -EPERM;
    states[1].driver.foreign = 2;
    iterate(20);
    lull_run_findings_add(&last);
    assert_int_equal(run.note_count, 2);
    assert_non_null(strstr(run.notes[0], "GPU 5: not managed: the driver does not permit"));
    assert_non_null(strstr(run.notes[1], "GPU 4: not managed: 5 of 7 clock changes had no effect"));
}

static void what_else_is_true_comes_beside(void **state)
{
    (void)state;
    states[0].driver.foreign = 2;
    iterate(20);
    is_settled = true;
    lull_run_findings_add(&last);
    assert_int_equal(run.note_count, 2);
    assert_non_null(strstr(run.notes[0], "GPU 4: 2 times the clock was not the one set by Lull"));
    assert_non_null(strstr(run.notes[1], "GPUs 4, 5: no lower clock"));
}

/* Under a power limit nothing is decided for sections, so that nothing was missed. */
static void what_was_only_observed_misses_nothing(void **state)
{
    (void)state;
    iterate(20);
    last.observe_only = true;
    lull_run_findings_add(&last);
    assert_int_equal(run.note_count, 0);
    last.control = NULL;
    lull_run_findings_add(&last);
    assert_int_equal(run.note_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_was_lowered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(iterations_that_were_missing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_proof_is_the_least_that_is_missing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(uneven_iterations_are_the_reason, set_up, tear_down),
        cmocka_unit_test_setup_teardown(iterations_before_a_deviation_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idle_in_nine_of_ten_readings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_others_do_comes_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_driver_that_refuses_is_the_reason, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_final_comes_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_else_is_true_comes_beside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_only_observed_misses_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
