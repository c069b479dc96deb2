/*
 * One pass is one execution of the command: a job segment, a child with the probes in its
 * environment, a control loop, and this thread's loop. `--compare` makes pairs of passes, of which
 * one observes only. This file ends passes, and the run with its report.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "governor/run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "base/printable.h"
#include "governor/report/report.h"
#include "governor/run/run_findings.h"
#include "governor/run/run_frontier.h"
#include "governor/run/run_progress.h"

/* Time that stopping waits for a last reading, within the 2 s after which `lull run` ends. */
enum { STOP_MS = 100 };
/* Time that the table waits for its reader; report.json has the same data. */
enum { PRINT_MS = 1000 };

/* A thread that hangs in the driver still uses the devices, and ends with the process. */
static void managed_run_close_devices(struct lull_managed_run *run)
{
    const int left = lull_run_leases_close(&run->leases);

    if (lull_sampler_stop(run->sampler, lull_now_ns() + STOP_MS * LULL_NS_PER_MS) < 0 || left < 0)
        run->is_driver_stuck = true;
    if (!run->is_driver_stuck)
        lull_devices_close(run->devices);
}

/* Leaves the other nodes before the report is written. Writing takes time, and the other nodes
 * would treat this node as lost. */
static void leave_nodes(struct lull_run_pass *pass)
{
    if (pass->peers == NULL)
        return;
    lull_peers_summary(pass->peers, &pass->run->peers);
    lull_peers_destroy(pass->peers);
    pass->peers = NULL;
}

/* The message for a job that has truncated its own segment. */
static const char cut_off[] =
    "the job's file in /dev/shm was truncated during the run, so later probe events are missing, "
    "and the rest of the run was not managed; do not truncate /dev/shm/lull-job-*";

static int make_pass(struct lull_run_pass *pass, bool observe_only, struct lull_error *err)
{
    struct lull_managed_run *run = pass->run;
    int64_t begin_ns;
    int64_t end_ns;
    int result;

    result = lull_run_pass_prepare(pass, observe_only, err);
    if (result < 0)
        return result;
    lull_run_pass_sample(pass);
    lull_run_pass_begin_scalars(pass);
    begin_ns = lull_now_ns();
    if (pass->accounting != NULL)
        lull_accounting_begin(pass->accounting, begin_ns, run->rapl);
    result = lull_run_pass_start_job(pass, err);
    if (result < 0)
        return result;
    lull_run_pass_watch(pass);
    end_ns = lull_now_ns();
    if (pass->serving != NULL)
        lull_serving_end(pass->serving, end_ns);
    lull_run_live_close(&pass->live);
    pass->wall_s = (double)(end_ns - begin_ns) * 1e-9;
    leave_nodes(pass);
    lull_run_pass_sample(pass);
    lull_run_pass_end_scalars(pass);
    if (pass->control != NULL)
        lull_control_stop(pass->control);
    if (pass->accounting != NULL) {
        lull_accounting_read_node(pass->accounting);
        lull_accounting_end(pass->accounting, end_ns);
    }
    if (pass->limits != NULL) {
        struct lull_error reported = {0};

        lull_limits_end(pass->limits, &reported);
        if (reported.code != 0)
            lull_run_note(run, reported.text);
    }
    lull_run_progress_clear(pass);
    if (pass->job != NULL && lull_event_segment_is_cut(pass->job))
        lull_run_note(run, cut_off);
    return 0;
}

static void end_pass(struct lull_run_pass *pass)
{
    lull_run_live_close(&pass->live);
    lull_peers_destroy(pass->peers);
    lull_control_destroy(pass->control);
    lull_accounting_destroy(pass->accounting);
    lull_plan_runner_destroy(pass->runner);
    lull_straggler_response_destroy(pass->response);
    lull_online_destroy(pass->online);
    lull_limits_destroy(pass->limits);
    lull_power_smoothing_destroy(pass->smoothing);
    lull_serving_destroy(pass->serving);
    lull_event_segment_destroy(pass->job);
}

/* A reader that does not drain the output must not delay the end of the job. */
static void print_report(const struct lull_report *report)
{
    char *text = NULL;
    char *shown = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);

    if (out == NULL)
        return;
    lull_report_print(report, out);
    if (fclose(out) == 0)
        shown = lull_printable_copy(LULL_PRINTABLE_LINES, text, size);
    if (shown != NULL)
        lull_log_text(shown, strlen(shown), lull_now_ns() + PRINT_MS * LULL_NS_PER_MS);
    free(shown);
    free(text);
}

/* Computes the power swings. Notes what was given up because of them, or that the swings still
 * exceed the limit. False: nothing was managed. */
static bool find_swing(struct lull_managed_run *run, const struct lull_run_pass *unmanaged,
                       const struct lull_run_pass *managed, int64_t since_ns,
                       struct lull_run_swing *swing_out)
{
    char text[LULL_RUN_SWING_TEXT];
    struct lull_controller_view now;
    const char *given_up;

    if (managed->control == NULL || managed->serving != NULL)
        return false;
    now = lull_controller_look(lull_control_controller(managed->control));
    lull_run_swing_compute(managed->control, unmanaged != NULL ? unmanaged->control : NULL,
                           run->options->control.swing_ratio, since_ns, swing_out);
    given_up = lull_run_swing_given_up(now.swings, text);
    if (given_up != NULL)
        lull_run_found(run, given_up);
    else if (swing_out->is_wider && now.awaits_steady)
        lull_run_found(
            run,
            "the power of the job's GPUs fluctuates more than --swing permits. The run was too "
            "short to search for a steady clock, which reduces fluctuation; use a longer run");
    else if (swing_out->is_wider)
        lull_run_found(
            run, "the power of the job's GPUs fluctuates more than --swing permits; if that is a "
                 "problem for the power supply, use one clock for whole iterations: --steady 1%");
    return true;
}

/* Fills in the result of power smoothing. False: it was not wanted. */
static bool find_smoothing(struct lull_managed_run *run, const struct lull_run_pass *managed,
                           struct lull_power_smoothing_summary *summary_out)
{
    if (managed->smoothing == NULL)
        return false;
    lull_power_smoothing_summary(managed->smoothing, summary_out);
    if (summary_out->slowdown.pairs > 0 && !summary_out->is_held && managed->status == 0)
        lull_run_found(run, summary_out->reason);
    return true;
}

static void managed_run_write_report(struct lull_managed_run *run,
                                     const struct lull_run_pass *unmanaged,
                                     const struct lull_run_pass *managed, int status)
{
    const bool has_unmanaged = unmanaged->ended && unmanaged->status == 0;
    struct lull_power_smoothing_summary smoothing = {0};
    const bool has_smoothing = find_smoothing(run, managed, &smoothing);
    struct lull_run_swing swing;
    const bool has_swing =
        find_swing(run, has_unmanaged ? unmanaged : NULL, managed, smoothing.held_ns, &swing);
    struct lull_run_frontier frontier;
    const bool has_frontier =
        managed->control != NULL && lull_run_frontier_compute(managed->control, &frontier);
    struct lull_run_prospect prospect;
    const bool has_prospect = lull_run_prospect_compute(managed, &prospect);
    struct lull_report report = {
        .command = run->options->command,
        .status = status,
        .tolerance_ratio = run->options->control.tolerance_ratio,
        .confidence = run->options->control.confidence,
        .verbose = run->options->verbose,
        .devices = run->devices,
        .managed = managed->control,
        .managed_s = managed->wall_s,
        .comparison = run->options->compare ? &run->comparison : NULL,
        .peers = run->peers.nodes > 0 ? &run->peers : NULL,
        .notes = (const char *const *)run->notes,
        .findings = (const char *const *)run->notes + run->first_finding,
        .online = managed->online,
        .runner = managed->runner,
        .response = managed->response,
        .limits = managed->limits,
        .serving = managed->serving,
        .swing = has_swing ? &swing : NULL,
        .swing_ratio = run->options->control.swing_ratio,
        .smoothing = has_smoothing ? &smoothing : NULL,
        .frontier = has_frontier ? &frontier : NULL,
        .prospect = has_prospect ? &prospect : NULL,
        .hangs = &managed->hangs,
        .price = run->options->price,
        .folder = run->options->report,
        .energy = {.managed = managed->accounting,
                   .unmanaged = has_unmanaged ? unmanaged->accounting : NULL,
                   .node_reason = run->rapl_reason.text},
    };
    struct lull_error err = {0};

    if (report.folder != NULL && (lull_path_check(report.folder, &err) < 0 ||
                                  lull_report_write(&report, report.folder, &err) < 0)) {
        lull_log(LULL_LOG_WARNING, "run", "no report: %s", err.text);
        report.folder = NULL;
    }
    if (!run->options->quiet)
        print_report(&report);
}

/* Releases the GPUs after a managed pass, so that the next pass finds them in their initial state.
 * The results of the pass stay for the report. */
static void close_actuator(struct lull_run_pass *pass)
{
    if (pass->control != NULL)
        lull_control_disarm(pass->control);
    if (lull_run_leases_close(&pass->run->leases) < 0)
        pass->run->is_driver_stuck = true;
}

/* Begins a pass that replaces an ended one of the same side.
 * Only the comparison keeps data of the ended pass. */
static void renew_pass(struct lull_run_pass *pass, struct lull_managed_run *run, bool is_managed)
{
    const struct lull_run_comparison *const comparison = &run->comparison;

    end_pass(pass);
    *pass = (struct lull_run_pass){.run = run, .name = is_managed ? "managed" : "unmanaged"};
    if (run->options->compare)
        snprintf(pass->title, sizeof(pass->title), "run %u of %u, %s", comparison->run_count + 1,
                 2 * comparison->pairs_wanted, pass->name);
    else
        snprintf(pass->title, sizeof(pass->title), "%s", pass->name);
}

/* Reports which run failed, and how many pairs the comparison has. */
static void note_failure(const struct lull_run_pass *pass)
{
    struct lull_managed_run *const run = pass->run;
    struct lull_run_difference difference;
    char text[192];

    lull_run_comparison_difference(&run->comparison, run->options->control.confidence, &difference);
    snprintf(
        text, sizeof(text),
        "%s: the job exited with status %d, so the comparison ends with %u of %u pairs of runs",
        pass->title, pass->status, difference.pairs_done, run->comparison.pairs_wanted);
    lull_run_note(run, text);
}

/* Reports why pairs of runs do not count. */
static void note_disturbance(struct lull_managed_run *run)
{
    struct lull_run_difference difference;
    char text[192];

    lull_run_comparison_difference(&run->comparison, run->options->control.confidence, &difference);
    if (difference.disturbance == NULL)
        return;
    snprintf(text, sizeof(text), "%u of %u pairs of runs are left out of the comparison: %s",
             difference.set_aside, run->comparison.pairs_wanted, difference.disturbance);
    lull_run_note(run, text);
}

/* Runs the command as often as requested, until a run fails. At
 * the end the two passes are the last ones of each side. */
static int make_passes(struct lull_managed_run *run, struct lull_run_pass *unmanaged,
                       struct lull_run_pass *managed, int *status_out, struct lull_error *err)
{
    const uint32_t count = run->options->compare ? 2 * run->comparison.pairs_wanted : 1;

    for (uint32_t i = 0; i < count; i++) {
        const bool is_managed = !run->options->compare || lull_paired_runs_is_other(i);
        struct lull_run_pass *const pass = is_managed ? managed : unmanaged;
        int result;

        renew_pass(pass, run, is_managed);
        if (is_managed)
            lull_run_open_actuator(run);
        result = make_pass(pass, !is_managed, err);
        if (result < 0)
            return result;
        if (is_managed)
            close_actuator(pass);
        *status_out = pass->status;
        if (!run->options->compare)
            continue;
        lull_run_comparison_add(&run->comparison, pass->control, pass->wall_s, pass->status);
        if (pass->status != 0) {
            note_failure(pass);
            break;
        }
    }
    if (run->options->compare)
        note_disturbance(run);
    return 0;
}

/* Runs the command as often as requested, with its GPUs open. */
static int managed_run_command(struct lull_managed_run *run, struct lull_run_pass *unmanaged,
                               struct lull_run_pass *managed, int *status_out,
                               struct lull_error *err)
{
    lull_run_choose_probes(run);
    if (run->gpu_count > 0 && lull_rapl_open(NULL, &run->rapl, &run->rapl_reason) < 0)
        run->rapl = NULL;
    return make_passes(run, unmanaged, managed, status_out, err);
}

int lull_run(const struct lull_run_options *options, int *status_out, struct lull_error *err)
{
    struct lull_managed_run run = {.options = options};
    struct lull_run_pass unmanaged = {.run = &run};
    struct lull_run_pass managed = {.run = &run};
    struct lull_error signals_err = {0};
    int result = 0;

    result = lull_run_load_plans(&run, err);
    if (result == 0 && options->compare)
        result = lull_run_comparison_init(&run.comparison, options->compare_pairs, err);
    run.comparison.sets_limits = options->limits.is_wanted;
    if (result < 0) {
        lull_pipeline_plans_fini(&run.plans);
        return result;
    }
    if (lull_job_signals_open(&run.signals, &signals_err) < 0)
        lull_run_note(&run, signals_err.text);
    result = lull_run_adopt_job(&run, err);
    if (result == 0) {
        result = lull_run_open_devices(&run, err);
        if (result == 0)
            result = lull_run_check_limit(&run, err);
    }
    if (result == 0)
        result = managed_run_command(&run, &unmanaged, &managed, status_out, err);
    if (result == 0 && managed.ended && managed.serving == NULL)
        lull_run_findings_add(&managed);
    if (result == 0 && managed.ended)
        managed_run_write_report(&run, &unmanaged, &managed, *status_out);
    end_pass(&unmanaged);
    end_pass(&managed);
    lull_event_segment_destroy(run.adopted_job);
    managed_run_close_devices(&run);
    lull_rapl_close(run.rapl);
    lull_job_signals_close(&run.signals);
    lull_pipeline_plans_fini(&run.plans);
    lull_run_comparison_fini(&run.comparison);
    for (uint32_t i = 0; i < run.note_count; i++)
        free(run.notes[i]);
    return result;
}
