/*
 * The verdict of synthetic runs: the saving and the slowdown, their certainty, and the levers; or
 * why no clock was lowered; and the three lines at the end of a run. SPDX-License-Identifier:
 * Apache-2.0
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
#include "governor/report/verdict_lines.h"
#include "governor/run/run_statistics.h"

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

/* Energy, and what else the lines are made of. */
static bool has_settled;
static double settled_j;
static double whole_saved_j;
static double better_ratio; /* saving at the tolerance of 2 %; NAN: not known */
static const struct lull_compared_run *last_unmanaged;

static bool settled_fake(const struct lull_control *control)
{
    (void)control;
    return has_settled;
}

static void statistics_fake(const struct lull_control *control, enum lull_run_part part,
                            struct lull_run_statistics *statistics_out)
{
    (void)control;
    assert_int_equal(part, LULL_RUN_PART_SETTLED);
    *statistics_out = (struct lull_run_statistics){
        .iterations = 500, .energy_j = settled_j, .has_energy = settled_j > 0.0};
}

static double whole_fake(const struct lull_energy_report *energy, double *unmanaged_j_out)
{
    (void)energy;
    *unmanaged_j_out = 1000.0;
    return whole_saved_j;
}

static void frontier_fake(const struct lull_report *report, const struct lull_report_gain *gain,
                          struct lull_job_frontier_point *points_out)
{
    (void)report;
    (void)gain;
    for (int b = 0; b < LULL_JOB_FRONTIER_BUDGETS; b++)
        points_out[b] = (struct lull_job_frontier_point){
            .slowdown_ratio = lull_job_frontier_budgets[b],
            .saving_ratio = better_ratio,
            .reason = isfinite(better_ratio) ? NULL : "no data",
        };
}

static const struct lull_compared_run *last_run_fake(const struct lull_run_comparison *comparison,
                                                     bool is_managed)
{
    (void)comparison;
    return is_managed ? NULL : last_unmanaged;
}

static const char *disturbance;

static void difference_fake(const struct lull_run_comparison *comparison, double confidence,
                            struct lull_run_difference *difference_out)
{
    (void)comparison;
    (void)confidence;
    *difference_out = (struct lull_run_difference){.disturbance = disturbance};
}

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

static struct lull_idle_totals idle_totals;

static struct lull_idle_totals totals_fake(const struct lull_report *report)
{
    (void)report;
    return idle_totals;
}

#define lull_idle_report_totals totals_fake
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
#define lull_control_has_settled settled_fake
#define lull_run_statistics_compute statistics_fake
#define lull_energy_report_whole_saved_j whole_fake
#define lull_tried_report_frontier frontier_fake
#define lull_run_comparison_last last_run_fake
#define lull_run_comparison_difference difference_fake
#include "governor/report/verdict_facts.c"
#include "governor/report/verdict_lines.c"
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
    has_settled = true;
    settled_j = 31640.0;
    whole_saved_j = better_ratio = (double)NAN;
    last_unmanaged = NULL;
    disturbance = NULL;
    for (uint32_t i = 0; i < GPUS; i++) {
        lull_run_log_init(&logs[i], &(struct lull_energy_source){.power_refresh_s = 0.1});
        states[i] =
            (struct lull_control_gpu){.process = (int32_t)i, .leased = true, .device = i + 4};
    }
    gain_of_trials = gain(0.114, 0.006, 0.002, 0.007);
    gain_of_runs = gain_of_limits = gain_of_plan = lull_report_no_gain("it was not asked");
    report = (struct lull_report){.managed = (struct lull_control *)&states,
                                  .notes = notes,
                                  .findings = findings,
                                  .tolerance_ratio = 0.01,
                                  .confidence = 0.95};
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

/* The document has this sentence, the details have its clocks, and whatever is not known has a
 * reason. */
static void expect(const char *sentence)
{
    json_t *const object = lull_verdict_report_json(&report);
    const char *const said = json_string_value(json_object_get(object, "sentence"));
    char *text = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);

    lull_verdict_report_print_basis(&report, out);
    fclose(out);
    assert_string_equal(said, sentence);
    if (json_is_true(json_object_get(object, "lowered"))) {
        const char *const lowered = json_string_value(json_object_get(object, "lowered_line"));

        assert_non_null(strstr(text, lowered));
        assert_string_equal(said + strlen(said) - strlen(lowered), lowered);
    }
    assert_int_equal(json_is_null(json_object_get(object, "saving_ratio")),
                     json_is_string(json_object_get(object, "saving_reason")));
    assert_int_equal(json_is_null(json_object_get(object, "slowdown_ratio")),
                     json_is_string(json_object_get(object, "slowdown_reason")));
    assert_int_equal(json_is_null(json_object_get(object, "saved_j")),
                     json_is_string(json_object_get(object, "saved_j_reason")));
    assert_int_equal(json_is_true(json_object_get(object, "lowered")),
                     strstr(sentence, "no clocks lowered") == NULL &&
                         strstr(sentence, "power limits unchanged") == NULL);
    free(text);
    json_decref(object);
}

/* The terminal and the document have these three lines, and the former nothing else. */
static void expect_lines(const char *energy, const char *time, const char *next)
{
    json_t *const object = lull_verdict_report_json(&report);
    char expected[2048];
    char *text = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);

    lull_verdict_report_print(&report, out);
    fclose(out);
    snprintf(expected, sizeof(expected), "\n  Energy: %s\n  Time:   %s\n  Next:   %s\n", energy,
             time, next);
    assert_string_equal(text, expected);
    assert_string_equal(json_string_value(json_object_get(object, "energy_line")), energy);
    assert_string_equal(json_string_value(json_object_get(object, "time_line")), time);
    assert_string_equal(json_string_value(json_object_get(object, "next_line")), next);
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
    expect(
        "saving not proven: 2.0 % less energy per iteration (from 1.0 % more to 5.0 % less), 0.2 % "
        "slower (at most 0.7 %): steady 1320 MHz on all GPUs");
    gain_of_trials = gain(-0.051, 0.254, -0.001, 0.07);
    expect("saving not proven: 5.1 % more energy per iteration (from 30.5 % more to 20.3 % less), "
           "slowdown not proven to be within 1 %: no slowdown measured, at most 7.0 %: steady 1320 "
           "MHz on all GPUs");
    gain_of_trials.low_ratio = gain_of_trials.high_ratio = (double)NAN;
    gain_of_trials.saving_ratio = 0.04;
    gain_of_trials.slowdown_upper_ratio = (double)INFINITY;
    expect("saved about 4.0 % of the energy per iteration, no slowdown measured (no bound known): "
           "steady 1320 MHz on all GPUs");
}

/* A floor was on at all clocks that were compared, so its energy comes off the saving. */
static void a_floor_of_power_smoothing_costs_energy(void **state)
{
    const struct lull_power_smoothing_summary smoothing = {
        .is_held = true, .added_ratio = 0.04, .added_low_ratio = 0.03, .added_high_ratio = 0.05};

    (void)state;
    keep_everywhere(STEADY, 1320);
    gain_of_trials = gain(0.10, 0.01, 0.002, 0.007);
    report.smoothing = &smoothing;
    expect("saved 6.4 % (4.4 to 8.3) of the energy per iteration, 0.2 % slower (at most 0.7 %): "
           "steady 1320 MHz on all GPUs");
    report.smoothing = NULL;
}

static void slower_than_allowed(void **state)
{
    (void)state;
    keep_everywhere(STEADY, 1320);
    gain_of_trials = gain(0.114, 0.006, 0.023, 0.031);
    expect("slower than allowed: 2.3 % (at most 3.1 %), 1 % allowed; 11.4 % (10.8 to 12.0) less "
           "energy per iteration: steady 1320 MHz on all GPUs");
}

static void the_command_failed(void **state)
{
    (void)state;
    report.status = 3;
    findings[0] = "no rank was detected: no probe was loaded into the command";
    expect("the job exited with status 3; no clocks lowered");
    keep_everywhere(STEADY, 1320);
    expect("the job exited with status 3; until then saved 11.4 % (10.8 to 12.0) of the energy "
           "per iteration, 0.2 % slower (at most 0.7 %): steady 1320 MHz on all GPUs");
    report.status = 128 + SIGTERM;
    keep_everywhere(STEADY, 0);
    expect("the job exited with status 143 (signal 15, Terminated); no clocks lowered");
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
    expect("power limits unchanged: the run ended before a power limit was chosen; use a longer "
           "run");
    report.limits = NULL;
    report.runner = (struct lull_plan_runner *)&limits_summary;
    expect("no clocks lowered: the pipeline plan was not accepted; see the part about the pipeline "
           "in the report");
    is_plan_kept = true;
    gain_of_plan = gain(0.09, 0.004, 0.0, 0.002);
    expect("saved 9.0 % (8.6 to 9.4) of the energy per iteration, not slower (at most 0.2 %): the "
           "pipeline's plan");
}

/* ---- nothing ----------------------------------------------------------------------------- */

static void why_nothing_was_lowered(void **state)
{
    (void)state;
    expect("no clocks lowered: the run ended before an iteration was found; use a longer run");
    notes[0] = "GPU 4: its driver is slow";
    notes[1] = "the command is observed, not managed: setting GPU clocks needs root";
    expect(
        "no clocks lowered: the command is observed, not managed: setting GPU clocks needs root");
    findings[0] = "GPUs 4, 5, 6: MIG is on";
    findings[1] = "something else";
    expect("no clocks lowered: GPUs 4, 5, 6: MIG is on");
}

static void no_gpu_was_managed(void **state)
{
    (void)state;
    keep_everywhere(STEADY, 1320);
    report.managed = NULL;
    notes[0] = "the command runs unmanaged: no GPU";
    expect("no clocks lowered: the command runs unmanaged: no GPU");
}

static void a_rank_came_to_no_gpu(void **state)
{
    (void)state;
    keep_everywhere(STEADY, 1320);
    for (uint32_t i = 0; i < GPUS; i++)
        states[i].process = -1;
    expect("no clocks lowered: the run ended before an iteration was found; use a longer run");
}

/* ---- the three lines --------------------------------------------------------------------- */

static const char saved[] =
    "saved 11.4 % (10.8 to 12.0) of the energy per iteration; about 4.071 kJ "
    "(0.00113 kWh) less in 500 iterations";
static const char not_slower[] = "0.2 % slower (at most 0.7 %); 95 % confidence; 1 % allowed";
static const char no_clock[] = "not slower because of Lull: no clock was changed";

static void lines_of_a_saving(void **state)
{
    static const struct lull_run_frontier frontier;

    (void)state;
    keep_everywhere(STEADY, 1320);
    expect_lines(saved, not_slower, "keep lull run before this command");
    report.price = (struct lull_energy_price){.has_money = true, .per_kwh = 0.3, .currency = "EUR"};
    expect_lines("saved 11.4 % (10.8 to 12.0) of the energy per iteration; about 4.071 kJ (0.00113 "
                 "kWh, 0.000339 EUR) less in 500 iterations",
                 not_slower, "keep lull run before this command");
    report.price.has_money = false;
    report.frontier = &frontier;
    better_ratio = 0.15;
    expect_lines(saved, not_slower,
                 "keep lull run before this command; --tolerance 2% would save about 15.0 % "
                 "(predicted)");
    better_ratio = 0.12;
    expect_lines(saved, not_slower, "keep lull run before this command");
    findings[0] = "GPU 4: heat held its clock down; results are discarded; check cooling";
    assert_true(lull_verdict_lines_have_finding(&report, &gain_of_trials));
    expect_lines(saved, not_slower,
                 "check cooling (GPU 4: heat held its clock down; results are discarded)");
}

static void lines_of_an_uncertain_saving(void **state)
{
    (void)state;
    keep_everywhere(STEADY, 1320);
    has_settled = false;
    expect_lines("saved 11.4 % (10.8 to 12.0) of the energy per iteration", not_slower,
                 "keep lull run before this command");
    has_settled = true;
    gain_of_trials = gain(0.02, 0.03, 0.002, 0.007);
    expect_lines("saving not proven: 2.0 % less energy per iteration (from 1.0 % more to 5.0 % "
                 "less)",
                 not_slower, "use a longer run to prove the saving");
    gain_of_trials = gain(0.114, 0.006, 0.002, 0.02);
    expect_lines(saved,
                 "slowdown not proven to be within 1 %: 0.2 % slower, at most 2.0 %; 95 % "
                 "confidence",
                 "use a longer run to bound the slowdown");
    gain_of_trials = gain(-0.05, 0.01, 0.002, 0.007);
    expect_lines("used 5.0 % (4.0 to 6.0) more energy per iteration; about 1.507 kJ (0.419 Wh) "
                 "more in 500 iterations",
                 not_slower, "run the job without Lull: lower clocks save nothing here");
}

/* A saving with a slowdown above the tolerance is not reported as a success. */
static void lines_of_a_slowdown(void **state)
{
    static struct lull_run_comparison comparison = {.pairs_wanted = 3};

    (void)state;
    keep_everywhere(STEADY, 1320);
    settled_j = 0.0;
    gain_of_trials = gain_of_runs = gain(0.114, 0.006, 0.023, 0.031);
    expect_lines(
        "not counted as a saving, because the job was slower than allowed: 11.4 % (10.8 to "
        "12.0) less energy per iteration",
        "slower than allowed: 2.3 % (at most 3.1 %), 1 % allowed; 95 % confidence",
        "check with --compare --compare-pairs 3; if the job is slower again, run it "
        "without Lull");
    report.comparison = &comparison;
    expect_lines(
        "not counted as a saving, because the job was slower than allowed: 11.4 % (10.8 to "
        "12.0) less energy per iteration",
        "slower than allowed: 2.3 % (at most 3.1 %), 1 % allowed; 95 % confidence",
        "repeat the comparison; if the job is slower again, run it without Lull");
}

static void lines_of_a_failed_job(void **state)
{
    static struct lull_run_comparison comparison = {.pairs_wanted = 1};
    static const struct lull_compared_run unmanaged;
    static struct lull_compared_run failed[1] = {{.status = 3}};
    const char *const next = "read the messages of the job. Lull knows of no error of its own that "
                             "made the job fail. If in doubt, run the command without lull run";

    (void)state;
    report.status = 3;
    expect_lines("nothing saved: the job exited with status 3", no_clock, next);
    logs[1].switches = 2;
    expect_lines(
        "nothing saved: the job exited with status 3",
        "0.2 % slower (at most 0.7 %); 95 % confidence; 1 % allowed; clock search included", next);
    keep_everywhere(STEADY, 1320);
    settled_j = 0.0;
    expect_lines(
        "saved 11.4 % (10.8 to 12.0) of the energy per iteration; then the job exited with "
        "status 3",
        not_slower, next);
    report.comparison = &comparison;
    last_unmanaged = &unmanaged;
    expect_lines(
        "saved 11.4 % (10.8 to 12.0) of the energy per iteration; then the job exited with "
        "status 3",
        not_slower,
        "read the messages of the job. Lull knows of no error of its own that made the job "
        "fail, but the run without Lull succeeded. Repeat both runs");
    comparison = (struct lull_run_comparison){.runs = failed, .run_count = 1, .pairs_wanted = 3};
    expect_lines(
        "saved 11.4 % (10.8 to 12.0) of the energy per iteration; then the job exited with "
        "status 3",
        not_slower, "read the messages of the job: it failed in a run without Lull");
}

static void lines_of_a_comparison(void **state)
{
    static struct lull_run_comparison comparison = {.pairs_wanted = 1};

    (void)state;
    keep_everywhere(STEADY, 1320);
    report.comparison = &comparison;
    whole_saved_j = 72.0;
    gain_of_runs = gain(0.1, 0.02, 0.003, 0.004);
    expect_lines("saved 10.0 % (8.0 to 12.0) of the energy per iteration; whole run, with the "
                 "search: 72.00 J (0.02 Wh) less than without Lull",
                 "0.3 % slower (at most 0.4 %); 95 % confidence; 1 % allowed",
                 "keep lull run before this command, without --compare");
    gain_of_runs = gain(0.1, 0.02, 0.003, (double)NAN);
    whole_saved_j = -36.0;
    expect_lines("saved 10.0 % (8.0 to 12.0) of the energy per iteration; whole run, with the "
                 "search: 36.00 J (0.01 Wh) more than without Lull",
                 "0.3 % slower (no bound known)",
                 "use --compare-pairs 3: one pair of runs does not show how much runs differ");
    /* A run that others disturbed shows no effect of Lull. */
    disturbance = "another program changed a power limit";
    expect_lines("saved 10.0 % (8.0 to 12.0) of the energy per iteration",
                 "0.3 % slower (no bound known)",
                 "use --compare-pairs 3: one pair of runs does not show how much runs differ");
    disturbance = NULL;
    /* Nothing is lowered in the end, and the runs still show what the search has cost. */
    keep_everywhere(STEADY, 0);
    findings[0] = "GPU 4: no lower clock passes the test; try --tolerance 2%";
    expect_lines("nothing saved, no clocks lowered: GPU 4: no lower clock passes the test; the "
                 "run with Lull used 36.00 J (0.01 Wh) more, by the search and by differences "
                 "between runs",
                 "0.3 % slower (no bound known); clock search included", "try --tolerance 2%");
}

static void lines_of_no_saving(void **state)
{
    static const struct {
        const char *finding, *reason, *next;
    } reasons[] = {
        {"GPU 4: idle in 95 % of the readings, so nothing could be saved: the job computes on the "
         "CPU; set CUDA_VISIBLE_DEVICES to its GPUs",
         "GPU 4: idle in 95 % of the readings, so nothing could be saved: the job computes on the "
         "CPU",
         "set CUDA_VISIBLE_DEVICES to its GPUs"},
        {"no rank was detected: it was started without LD_PRELOAD (env -i; sudo). Keep LD_PRELOAD, "
         "or run that program with lull run",
         "no rank was detected: it was started without LD_PRELOAD (env -i; sudo)",
         "keep LD_PRELOAD, or run that program with lull run"},
        {"no iteration was found. NCCL_DEBUG=INFO shows its calls", "no iteration was found",
         "NCCL_DEBUG=INFO shows its calls"},
        {"GPU 4: MIG is on", "GPU 4: MIG is on", "run lull doctor, which checks this node"},
    };
    char energy[512];

    (void)state;
    gain_of_trials = lull_report_no_gain("too few iterations ran at the highest clocks");
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        findings[0] = reasons[i].finding;
        snprintf(energy, sizeof(energy), "nothing saved, no clocks lowered: %s", reasons[i].reason);
        expect_lines(energy, no_clock, reasons[i].next);
    }
    findings[0] = "GPU 4: it is locked; unlock it";
    findings[1] = "GPU 5: MIG is on";
    expect_lines("nothing saved, no clocks lowered: GPU 4: it is locked; the report has further "
                 "reasons",
                 no_clock, "unlock it");
    findings[0] = findings[1] = NULL;
    expect_lines("nothing saved, no clocks lowered: the run ended before an iteration was found",
                 no_clock, "use a longer run");
    idle_totals = (struct lull_idle_totals){.phases = 3, .low_s = 600.0, .saved_j = 18000.0};
    expect_lines(
        "10.0 min of idle GPUs at the lowest clock saved about 18.00 kJ (0.005 kWh); no other "
        "clocks lowered: the run ended before an iteration was found",
        no_clock, "use a longer run");
    idle_totals = (struct lull_idle_totals){0};
    /* Clocks were tried, which may have cost time. */
    logs[1].switches = 2;
    expect_lines(
        "nothing saved, no clocks lowered: the run ended before an iteration was found",
        "slowdown not known (too few iterations ran at the highest clocks); clock search included",
        "use a longer run");
    gain_of_trials.slowdown_ratio = 0.002;
    gain_of_trials.slowdown_upper_ratio = 0.007;
    expect_lines(
        "nothing saved, no clocks lowered: the run ended before an iteration was found",
        "0.2 % slower (at most 0.7 %); 95 % confidence; 1 % allowed; clock search included",
        "use a longer run");
}

static void lines_without_gpus_or_daemon(void **state)
{
    (void)state;
    report.managed = NULL;
    notes[0] = "the command runs unmanaged: libnvidia-ml.so.1 is not installed. `lull doctor` "
               "checks this node and names the command that fixes it";
    expect_lines("nothing saved, no clocks lowered: the command runs unmanaged: libnvidia-ml.so.1 "
                 "is not installed",
                 no_clock, "`lull doctor` checks this node and names the command that fixes it");
    notes[0] = "the command is observed, not managed: lulld does not run; start it, or use "
               "--no-daemon as root. `lull doctor` checks this node and names the command that "
               "fixes it";
    expect_lines("nothing saved, no clocks lowered: the command is observed, not managed: lulld "
                 "does not run; start it, or use --no-daemon as root",
                 no_clock, "`lull doctor` checks this node and names the command that fixes it");
}

static void lines_of_an_unknown_energy(void **state)
{
    (void)state;
    keep_everywhere(STEADY, 1320);
    gain_of_trials.saving_ratio = gain_of_trials.low_ratio = gain_of_trials.high_ratio =
        (double)NAN;
    gain_of_trials.saving_reason = "no trial has compared the energy at the accepted clocks; use "
                                   "--compare";
    expect_lines("saving not known (no trial has compared the energy at the accepted clocks)",
                 not_slower, "use --compare");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(saved_and_proven, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_kept_is_not_said_of_a_gpu_left_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_slowdown_that_does_not_show, set_up, tear_down),
        cmocka_unit_test_setup_teardown(saved_but_not_proven, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_floor_of_power_smoothing_costs_energy, set_up, tear_down),
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
        cmocka_unit_test_setup_teardown(lines_of_a_saving, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_of_an_uncertain_saving, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_of_a_slowdown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_of_a_failed_job, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_of_a_comparison, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_of_no_saving, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_without_gpus_or_daemon, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_of_an_unknown_energy, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
