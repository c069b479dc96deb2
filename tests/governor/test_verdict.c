/*
 * The verdict of synthetic runs: the saving and the slowdown,
 * their certainty, and the levers; or why no clock was lowered. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "governor/report/limits_report.h"
#include "governor/report/report_parts.h"

enum { GPUS = 3, TARGETS = 3, STEADY = 0, SECTION = 1, GAP = 2 };

#include "fake_control.h"

/* Clocks that the controller keeps, of each target on each GPU; 0: none. */
static struct lull_target made_up[TARGETS];
static uint32_t kept_mhz[TARGETS][GPUS];
static struct lull_slack_record slack[GPUS];
static bool has_steady;

/* Findings of the parts of the report. */
static struct lull_report_gain gain_of_runs;
static struct lull_report_gain gain_of_trials;
static struct lull_report_gain gain_of_limits;
static struct lull_report_gain gain_of_plan;
static struct lull_limits_summary limits_summary;
static bool is_plan_kept;

static const struct lull_controller *controller_fake(const struct lull_control *control)
{
    (void)control;
    return NULL;
}

static struct lull_controller_view view_fake(const struct lull_controller *controller)
{
    (void)controller;
    return (struct lull_controller_view){
        .targets = made_up,
        .target_count = TARGETS,
        .steady = has_steady ? &made_up[STEADY] : NULL,
    };
}

static uint32_t kept_point_fake(const struct lull_controller *controller, uint32_t gpu,
                                const struct lull_target *target)
{
    (void)controller;
    return kept_mhz[target - made_up][gpu] != 0;
}

static uint32_t kept_mhz_fake(const struct lull_report *report, uint32_t gpu,
                              const struct lull_target *target)
{
    (void)report;
    return kept_mhz[target - made_up][gpu];
}

static struct lull_controller_gpu_view gpu_view_fake(const struct lull_controller *controller,
                                                     uint32_t gpu)
{
    (void)controller;
    return (struct lull_controller_gpu_view){.slack = &slack[gpu]};
}

static const char *alone_fake(const struct lull_control *control, uint32_t gpu)
{
    return gpu_fake(control, gpu)->shared ? "several ranks share this GPU" : NULL;
}

static void summary_fake(const struct lull_limits *limits, struct lull_limits_summary *summary_out)
{
    (void)limits;
    *summary_out = limits_summary;
}

static void choice_fake(const struct lull_limit_profile *profile, char *text_out, size_t size)
{
    (void)profile;
    snprintf(text_out, size, "250 W (least cost)");
}

static bool plan_fake(const struct lull_report *report)
{
    (void)report;
    return is_plan_kept;
}

#define lull_control_gpu_count count_fake
#define lull_control_gpu(control, gpu) gpu_fake(control, gpu)
#define lull_control_log log_fake
#define lull_control_controller controller_fake
#define lull_controller_look view_fake
#define lull_controller_kept_point kept_point_fake
#define lull_controller_look_gpu gpu_view_fake
#define lull_report_kept_mhz kept_mhz_fake
#define lull_gpu_alone_text alone_fake
#define lull_limits_summary(limits, out) summary_fake(limits, out)
#define lull_limit_table_choice choice_fake
#define lull_pipeline_report_is_kept plan_fake
#define lull_run_report_gain(report) gain_of_runs
#define lull_tried_report_gain(report) gain_of_trials
#define lull_limits_report_gain(report) gain_of_limits
#define lull_pipeline_report_gain(report) gain_of_plan
#include "governor/report/verdict_report.c"

static const char *notes[3];
static const char *findings[3];
static struct lull_report report;

static struct lull_report_gain gain(double saving, double half, double slowdown, double upper)
{
    return (struct lull_report_gain){"trials", saving, saving - half, saving + half, slowdown,
                                     upper,    0.01,   NULL,          NULL};
}

static int set_up(void **state)
{
    (void)state;
    memset(made_up, 0, sizeof(made_up));
    memset(kept_mhz, 0, sizeof(kept_mhz));
    memset(slack, 0, sizeof(slack));
    memset(notes, 0, sizeof(notes));
    memset(findings, 0, sizeof(findings));
    memset(&limits_summary, 0, sizeof(limits_summary));
    made_up[GAP].of_gaps = true;
    has_steady = true;
    is_plan_kept = false;
    for (uint32_t i = 0; i < GPUS; i++) {
        lull_run_log_init(&logs[i], &(struct lull_energy_source){.power_refresh_s = 0.1});
        states[i] =
            (struct lull_control_gpu){.process = (int32_t)i, .leased = true, .device = i + 4};
    }
    gain_of_trials = gain(0.114, 0.006, 0.002, 0.007);
    gain_of_runs = gain_of_limits = gain_of_plan = lull_report_no_gain("it was not asked");
    report = (struct lull_report){
        .managed = (struct lull_control *)&states, .notes = notes, .findings = findings};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < GPUS; i++)
        lull_run_log_fini(&logs[i]);
    return 0;
}

static void keep(int target, uint32_t gpu, uint32_t mhz)
{
    kept_mhz[target][gpu] = mhz;
}

static void keep_everywhere(int target, uint32_t mhz)
{
    for (uint32_t gpu = 0; gpu < GPUS; gpu++)
        keep(target, gpu, mhz);
}

/* A GPU was so low so often. */
static void lower(uint32_t gpu, uint32_t mhz, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        lull_run_log_add_lowered(&logs[gpu], &(struct lull_span){i * 10, i * 10 + 5, mhz});
}

/* Table and document say the same, and whatever is not known has a reason. */
static void expect(const char *sentence)
{
    json_t *const object = lull_verdict_report_json(&report);
    const char *const said = json_string_value(json_object_get(object, "sentence"));
    char *text = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);

    lull_verdict_report_print(&report, out);
    fclose(out);
    assert_string_equal(said, sentence);
    assert_non_null(strstr(text, sentence));
    assert_int_equal(json_is_null(json_object_get(object, "saving_ratio")),
                     json_is_string(json_object_get(object, "saving_reason")));
    assert_int_equal(json_is_null(json_object_get(object, "slowdown_ratio")),
                     json_is_string(json_object_get(object, "slowdown_reason")));
    assert_int_equal(json_is_true(json_object_get(object, "lowered")),
                     strstr(sentence, "nothing lowered") == NULL);
    free(text);
    json_decref(object);
}

/* ---- savings ----------------------------------------------------------------------------- */

static void saved_and_proven(void **state)
{
    (void)state;
    keep_everywhere(STEADY, 1320);
    keep_everywhere(GAP, 210);
    lower(0, 210, 250);
    lower(1, 210, 162);
    lower(2, 1305, 7); /* that is not the clock of gaps */
    expect("saved 11.4 % (10.8 to 12.0) of the energy per iteration, 0.2 % slower (at most 0.7 %): "
           "steady "
           "1320 MHz on all GPUs, 412 gaps lowered to 210 MHz");
}

static void what_is_kept_is_not_said_of_a_gpu_left_alone(void **state)
{
    (void)state;
    keep_everywhere(STEADY, 1320);
    keep_everywhere(GAP, 210);
    lower(0, 210, 250);
    lower(2, 210, 162);
    states[1].shared = true;
    expect("saved 11.4 % (10.8 to 12.0) of the energy per iteration, 0.2 % slower (at most 0.7 %): "
           "steady "
           "1320 MHz on GPUs 4, 6, 412 gaps lowered to 210 MHz");
}

static void a_slowdown_that_does_not_show(void **state)
{
    (void)state;
    keep_everywhere(STEADY, 1320);
    gain_of_trials = gain(0.05, 0.01, -0.01, -0.002);
    expect(
        "saved 5.0 % (4.0 to 6.0) of the energy per iteration, not slower (at most 0.0 %): steady "
        "1320 MHz on all GPUs");
    gain_of_trials = gain(0.05, 0.01, 0.0006, 0.003);
    expect("saved 5.0 % (4.0 to 6.0) of the energy per iteration, 0.1 % slower (at most 0.3 %): "
           "steady "
           "1320 MHz on all GPUs");
}

static void saved_but_not_proven(void **state)
{
    (void)state;
    keep_everywhere(STEADY, 1320);
    gain_of_trials = gain(0.02, 0.03, 0.002, 0.007);
    expect("no saving proven yet: 2.0 % (-1.0 to 5.0) of the energy per iteration, 0.2 % slower "
           "(at most 0.7 %): steady 1320 MHz on all GPUs");
    gain_of_trials = gain(-0.051, 0.254, -0.001, 0.07);
    expect("no saving proven yet: -5.1 % (-30.5 to 20.3) of the energy per iteration, slowdown not "
           "known to 1 % yet: no slowdown measured, at most 7.0 %: steady 1320 MHz on all GPUs");
    gain_of_trials.low_ratio = gain_of_trials.high_ratio = (double)NAN;
    gain_of_trials.saving_ratio = 0.04;
    gain_of_trials.slowdown_upper_ratio = (double)INFINITY;
    expect(
        "saved about 4.0 % of the energy per iteration (no interval known), no slowdown measured "
        "(no bound known): steady 1320 MHz on all GPUs");
}

static void slower_than_allowed(void **state)
{
    (void)state;
    keep_everywhere(STEADY, 1320);
    gain_of_trials = gain(0.114, 0.006, 0.023, 0.031);
    expect(
        "slower than allowed: 2.3 % (at most 3.1 %), 1 % allowed; saved 11.4 % (10.8 to 12.0) of "
        "the energy per iteration: steady 1320 MHz on all GPUs");
}

static void the_command_failed(void **state)
{
    (void)state;
    report.status = 3;
    findings[0] = "no rank was detected: no probe was loaded into the command";
    expect("the command failed: exit status 3; nothing lowered");
    assert_null(lull_verdict_report_finding(&report)); /* it is printed below the sentence */
    keep_everywhere(STEADY, 1320);
    expect(
        "the command failed: exit status 3; until then saved 11.4 % (10.8 to 12.0) of the energy "
        "per iteration, 0.2 % slower (at most 0.7 %): steady 1320 MHz on all GPUs");
    report.status = 128 + SIGTERM;
    keep_everywhere(STEADY, 0);
    expect("the command failed: exit status 143 (signal 15, Terminated); nothing lowered");
}

static void nothing_is_known_of_it(void **state)
{
    (void)state;
    keep_everywhere(STEADY, 1320);
    gain_of_trials = lull_report_no_gain("GPU 5 was lost");
    expect(
        "saving not known (GPU 5 was lost), slowdown not known (GPU 5 was lost): steady 1320 MHz "
        "on all GPUs");
}

/* ---- by what ----------------------------------------------------------------------------- */

static void on_which_gpus(void **state)
{
    const char *const begin =
        "saved 11.4 % (10.8 to 12.0) of the energy per iteration, 0.2 % slower (at "
        "most 0.7 %): ";
    char text[256];

    (void)state;
    keep(STEADY, 0, 1320);
    keep(STEADY, 2, 1215);
    snprintf(text, sizeof(text), "%ssteady 1215 to 1320 MHz on GPUs 4, 6", begin);
    expect(text);
    keep(STEADY, 2, 0);
    snprintf(text, sizeof(text), "%ssteady 1320 MHz on GPU 4", begin);
    expect(text);
    /* Of a job on one GPU of three, that one is not "all". */
    states[1].process = states[2].process = -1;
    expect(text);
    keep(STEADY, 1, 900); /* no rank of the job is there */
    expect(text);
}

static void levers_together(void **state)
{
    const char *const begin =
        "saved 11.4 % (10.8 to 12.0) of the energy per iteration, 0.2 % slower (at "
        "most 0.7 %): ";
    char text[256];

    (void)state;
    keep(GAP, 0, 300);
    keep(SECTION, 0, 210);
    keep(SECTION, 1, 240);
    lower(0, 210, 3);
    lower(0, 300, 2);
    lower(1, 240, 1);
    snprintf(text, sizeof(text), "%s6 gaps and sections lowered to 210 MHz", begin);
    expect(text);
    keep(GAP, 0, 0);
    snprintf(text, sizeof(text), "%s4 sections lowered to 210 MHz", begin);
    expect(text);
    slack[1].lowered = 9;
    snprintf(text, sizeof(text),
             "%s4 sections lowered to 210 MHz, even lower where a rank waits on GPU 5", begin);
    expect(text);
    keep(SECTION, 0, 0);
    keep(SECTION, 1, 0);
    snprintf(text, sizeof(text), "%seven lower where a rank waits on GPU 5", begin);
    expect(text);
}

static void runs_that_were_compared_tell_most(void **state)
{
    static const struct lull_run_comparison comparison;

    (void)state;
    keep_everywhere(STEADY, 1320);
    report.comparison = &comparison;
    gain_of_runs = gain(0.1, 0.02, 0.0, 0.004);
    expect("saved 10.0 % (8.0 to 12.0) of the energy per iteration, not slower (at most 0.4 %): "
           "steady "
           "1320 MHz on all GPUs");
    /* One of them was interrupted. */
    gain_of_runs = lull_report_no_gain("no pair of runs is complete");
    expect("saved 11.4 % (10.8 to 12.0) of the energy per iteration, 0.2 % slower (at most 0.7 %): "
           "steady "
           "1320 MHz on all GPUs");
}

static void power_limits_and_plans(void **state)
{
    (void)state;
    report.limits = (struct lull_limits *)&limits_summary;
    limits_summary = (struct lull_limits_summary){.is_held = true, .held_w = 275.0};
    gain_of_limits = lull_report_no_gain("the limit was given, and nothing ran without it");
    gain_of_limits.slowdown_ratio = 0.013;
    gain_of_limits.slowdown_reason = NULL;
    expect("saving not known (the limit was given, and nothing ran without it), 1.3 % slower (no "
           "bound known): power limit 275 W");
    limits_summary.profile = (const struct lull_limit_profile *)&limits_summary;
    gain_of_limits = gain(0.12, 0.01, 0.004, (double)NAN);
    expect(
        "saved 12.0 % (11.0 to 13.0) of the energy per iteration, 0.4 % slower (no bound known): "
        "power limit 250 W (least cost)");
    limits_summary.is_held = false;
    expect("nothing lowered: no power limit was chosen before the run ended; use a longer run");
    report.limits = NULL;
    report.runner = (struct lull_plan_runner *)&limits_summary;
    expect("nothing lowered: the plan was not accepted; see the pipeline's part of the report for "
           "the reason");
    is_plan_kept = true;
    gain_of_plan = gain(0.09, 0.004, 0.0, 0.002);
    expect("saved 9.0 % (8.6 to 9.4) of the energy per iteration, not slower (at most 0.2 %): the "
           "pipeline's plan");
}

/* ---- nothing ----------------------------------------------------------------------------- */

static void why_nothing_was_lowered(void **state)
{
    (void)state;
    expect("nothing lowered: the run ended before anything was learned; use a longer run");
    assert_null(lull_verdict_report_finding(&report));
    notes[0] = "GPU 4: its driver is slow";
    notes[1] = "the command is observed, not managed: setting GPU clocks needs root";
    expect("nothing lowered: the command is observed, not managed: setting GPU clocks needs root");
    findings[0] = "GPUs 4, 5, 6: MIG is on";
    findings[1] = "something else";
    expect("nothing lowered: GPUs 4, 5, 6: MIG is on");
    assert_ptr_equal(lull_verdict_report_finding(&report), findings[0]);
    /* If something was lowered the finding is printed below the sentence, not in it. */
    keep_everywhere(STEADY, 1320);
    assert_null(lull_verdict_report_finding(&report));
}

static void no_gpu_was_managed(void **state)
{
    (void)state;
    keep_everywhere(STEADY, 1320);
    report.managed = NULL;
    notes[0] = "the command runs unmanaged: no GPU";
    expect("nothing lowered: the command runs unmanaged: no GPU");
}

static void a_rank_came_to_no_gpu(void **state)
{
    (void)state;
    keep_everywhere(STEADY, 1320);
    for (uint32_t i = 0; i < GPUS; i++)
        states[i].process = -1;
    expect("nothing lowered: the run ended before anything was learned; use a longer run");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(saved_and_proven, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_kept_is_not_said_of_a_gpu_left_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_slowdown_that_does_not_show, set_up, tear_down),
        cmocka_unit_test_setup_teardown(saved_but_not_proven, set_up, tear_down),
        cmocka_unit_test_setup_teardown(slower_than_allowed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_command_failed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_known_of_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(on_which_gpus, set_up, tear_down),
        cmocka_unit_test_setup_teardown(levers_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(runs_that_were_compared_tell_most, set_up, tear_down),
        cmocka_unit_test_setup_teardown(power_limits_and_plans, set_up, tear_down),
        cmocka_unit_test_setup_teardown(why_nothing_was_lowered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_gpu_was_managed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_rank_came_to_no_gpu, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
