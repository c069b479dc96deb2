/*
 * One pass is one execution of the command: a job segment, a child with the probes in its
 * environment, a control loop, and this thread's loop (libuv) for the child's end, signals,
 * sampling and heartbeats. `--compare` makes pairs of passes, of which one observes only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "governor/run/run.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "governor/energy/accounting.h"
#include "governor/control/control.h"
#include "governor/run/job_signals.h"
#include "governor/run/launch.h"
#include "governor/run/opening.h"
#include "governor/plan/plan_runner.h"
#include "governor/plan/straggler_response.h"
#include "governor/run/probes.h"
#include "governor/run/run_comparison.h"
#include "governor/run/run_leases.h"
#include "governor/run/sampler.h"
#include "governor/report/report.h"
#include "governor/run/visible_gpus.h"
#include "wire/job_file.h"

enum { TICK_MS = 50, SAMPLE_TICKS = 2, PEER_TICKS = 2, PROGRESS_TICKS = 10, ENERGY_TICKS = 20 };
enum { MAX_NOTES = 8 };
enum { PATH_SIZE = 512 };
/* How long the readings at the begin and at the end of a job are waited for, and a last one: they
 * have to fit into the 2 s after which `lull run` ends, beside what closing the actuator takes. 64
 * GPUs of five readings each take less where a reading takes a millisecond. */
enum { EDGE_MS = 400, STOP_MS = 100 };
/* How long the job waits for its GPUs to be found; then it runs unmanaged. Chosen, not measured. */
enum { OPEN_MS = 5000 };

struct managed_run {
    const struct lull_run_options *options;
    struct lull_devices *devices;
    bool is_driver_stuck; /* a thread has not come back from it, so that devices have to stay */
    struct lull_job_signals signals;
    struct lull_run_leases leases;
    struct lull_sampler *sampler; /* NULL: no GPU, or no thread */
    uint32_t gpus[LULL_CONTROLLER_MAX_GPUS];
    uint32_t gpu_count;
    struct lull_probes probes;
    struct lull_peers_summary peers; /* nodes 0: the job has one node */
    struct lull_pipeline_plans plans;
    struct lull_rapl *rapl; /* NULL: it could not be opened, and rapl_reason says why */
    struct lull_error rapl_reason;
    struct lull_run_comparison comparison; /* empty without --compare */
    char *notes[MAX_NOTES + 1];
    uint32_t note_count;
};

struct pass {
    struct managed_run *run;
    const char *name;
    char title[48]; /* what progress says is running */
    struct lull_event_segment *job;
    struct lull_control *control;
    struct lull_peers *peers;                 /* NULL: the job has one node */
    struct lull_plan_runner *runner;          /* NULL: no plan is carried out */
    struct lull_online *online;               /* NULL: plans are given, or none */
    struct lull_straggler_response *response; /* NULL: stragglers are not looked for */
    struct lull_limits *limits;               /* NULL: power limits are left alone */
    struct lull_accounting *accounting;       /* NULL: no GPU, or no memory */
    struct lull_child child;
    int status;
    bool ended;
    bool observe_only;
    bool has_energy[LULL_CONTROLLER_MAX_GPUS]; /* its energy was read since a rank uses it */
    uint64_t ticks;
    double wall_s;
    char job_path[PATH_SIZE];
    uv_loop_t loop;
    uv_poll_t child_poll;
    uv_timer_t timer;
    uv_poll_t signals;
};

/* Says something to the user once, and keeps it for the report. */
static void note(struct managed_run *run, const char *text)
{
    for (uint32_t i = 0; i < run->note_count; i++)
        if (strcmp(run->notes[i], text) == 0)
            return;
    lull_log(LULL_LOG_WARNING, "run", "%s", text);
    if (run->note_count < MAX_NOTES)
        run->notes[run->note_count++] = strdup(text);
} /* NOLINT(clang-analyzer-unix.Malloc): the notes are freed with the run. */

/* ---- devices ----------------------------------------------------------------------------- */

static void open_actuator(struct managed_run *run)
{
    const struct lull_run_options *options = run->options;
    struct lull_error err = {0};
    char text[sizeof(err.text) + 64];
    int result;

    if (run->devices == NULL || run->leases.actuator != NULL)
        return;
    result = lull_run_leases_open(&run->leases, run->devices, options->runtime_dir,
                                  options->no_daemon, &err);
    if (result < 0) {
        snprintf(text, sizeof(text), "the command is observed, not managed: %s", err.text);
        note(run, text);
    }
}

static void open_devices(struct managed_run *run)
{
    struct lull_error err = {0};
    char text[sizeof(err.text) + 64];

    if (lull_devices_open_until(lull_now_ns() + OPEN_MS * LULL_NS_PER_MS, &run->devices, &err) <
        0) {
        run->devices = NULL;
        snprintf(text, sizeof(text), "the command runs unmanaged: %s", err.text);
        note(run, text);
        return;
    }
    run->gpu_count = lull_visible_gpus(run->devices, run->gpus, LULL_CONTROLLER_MAX_GPUS);
    if (run->gpu_count > 0 &&
        lull_sampler_start(run->devices, run->gpus, run->gpu_count, &run->sampler, &err) < 0)
        note(run, err.text);
    open_actuator(run);
}

/* What hangs in the driver goes on using the devices, and ends with the process. */
static void close_devices(struct managed_run *run)
{
    const int left = lull_run_leases_close(&run->leases);

    if (lull_sampler_stop(run->sampler, lull_now_ns() + STOP_MS * LULL_NS_PER_MS) < 0 || left < 0)
        run->is_driver_stuck = true;
    if (!run->is_driver_stuck)
        lull_devices_close(run->devices);
}

/* Chooses what the job is to load; what cannot be loaded is not observed, and a note says so. */
static void choose_probes(struct managed_run *run)
{
    const struct lull_probes_request request = {
        .command = run->options->command,
        .markers = run->options->markers,
        .exposure = run->options->exposure,
    };
    struct lull_error err = {0};

    for (uint32_t i = 0; run->gpu_count > 0 && i < lull_probes_count(); i++)
        if (lull_probes_add(&run->probes, i, &request, &err) < 0)
            note(run, err.text);
}

/* ---- progress ---------------------------------------------------------------------------- */

static const char *phase_text(enum lull_controller_phase phase)
{
    switch (phase) {
    case LULL_PHASE_DESCENDING:
        return "descending";
    case LULL_PHASE_SETTLED:
        return "settled";
    default:
        return "learning";
    }
}

static void describe_candidate(const struct lull_control *control, char *text, size_t size)
{
    const struct lull_controller *controller = lull_control_controller(control);
    const struct lull_target *target = lull_controller_descending(controller);

    text[0] = '\0';
    if (target != NULL)
        snprintf(text, size, ", trying point %u of %u", lull_controller_candidate(target),
                 target->descent.count - 1);
}

/* Rewrites one line on a terminal that says how far the run is; it takes the control's lock. */
static void show_progress(struct lull_control *control, const char *what)
{
    const struct lull_controller *controller = lull_control_controller(control);
    char candidate[48];
    char line[160];
    const struct lull_track *track;

    if (!isatty(STDERR_FILENO) || lull_control_gpu_count(control) == 0)
        return;
    lull_control_lock(control);
    track = lull_controller_track(controller, 0);
    describe_candidate(control, candidate, sizeof(candidate));
    snprintf(line, sizeof(line), "\r\033[Klull: %s, iteration %" PRIu64 " (%.1f ms), %s%s", what,
             lull_track_iteration(track), lull_track_iteration_ms(track)->mean,
             phase_text(lull_controller_phase(controller)), candidate);
    lull_control_unlock(control);
    fputs(line, stderr);
    fflush(stderr);
}

static void clear_progress(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

/* ---- one pass ---------------------------------------------------------------------------- */

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void look_for_end(struct pass *pass)
{
    if (!pass->ended && lull_child_reap(&pass->child, false, &pass->status)) {
        pass->ended = true;
        uv_walk(&pass->loop, close_handle, NULL);
    }
}

static void on_child(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    look_for_end(handle->data);
}

static void on_signal(uv_poll_t *handle, int status, int events)
{
    struct pass *pass = handle->data;

    (void)status;
    (void)events;
    lull_job_signals_pass_on(&pass->run->signals, &pass->child);
}

/* What to read of a GPU. Where it has no rank, only its energy is of interest; as soon as it has
 * one, energy is read, so that it is known from the first iteration on. */
static uint32_t wanted_of(struct pass *pass, uint32_t gpu, bool energy)
{
    const bool is_bound = lull_control_gpu(pass->control, gpu)->process >= 0;
    uint32_t wanted = LULL_READING_POWER;

    energy = energy || (is_bound && !pass->has_energy[gpu]);
    if (!is_bound && !energy)
        return 0;
    if (is_bound)
        wanted |= LULL_READING_SM_CLOCK | LULL_READING_REASONS;
    if (energy)
        wanted |= LULL_READING_ENERGY | LULL_READING_TEMPERATURE;
    return wanted;
}

/* Begins to read the GPUs, unless the sampler is still busy with them. */
static void ask_samples(struct pass *pass, bool energy)
{
    struct lull_sampler_round round = {0};

    for (uint32_t i = 0; i < pass->run->gpu_count; i++)
        round.wanted[i] = wanted_of(pass, i, energy);
    if (!lull_sampler_ask(pass->run->sampler, &round))
        return;
    for (uint32_t i = 0; i < pass->run->gpu_count; i++)
        pass->has_energy[i] = (round.wanted[i] & LULL_READING_SM_CLOCK) != 0 &&
                              (pass->has_energy[i] || (round.wanted[i] & LULL_READING_ENERGY) != 0);
}

static void take_samples(struct pass *pass)
{
    struct lull_sample sample;
    uint32_t gpu;
    uint32_t wanted;

    if (pass->accounting != NULL)
        lull_accounting_enter(pass->accounting);
    while (lull_sampler_take(pass->run->sampler, &gpu, &wanted, &sample)) {
        if ((wanted & LULL_READING_SM_CLOCK) != 0)
            lull_control_sample(pass->control, gpu, &sample);
        if (pass->accounting != NULL)
            lull_accounting_take(pass->accounting, gpu, &sample);
    }
}

static void look_for_hang(struct pass *pass)
{
    struct managed_run *run = pass->run;
    uint32_t gpu;
    char text[160];

    if (!lull_sampler_is_stuck(run->sampler, lull_now_ns(), &gpu))
        return;
    snprintf(
        text, sizeof(text),
        "GPU %u: the driver does not return from a reading; the job runs on, and what its GPUs "
        "draw is not known until the driver does",
        run->gpus[gpu]);
    note(run, text);
}

/* Reads the GPUs before the job starts and after it has ended, and waits for it, but not for a
 * driver that hangs. */
static void sample_edge(struct pass *pass)
{
    const int64_t until_ns = lull_now_ns() + EDGE_MS * LULL_NS_PER_MS;
    struct managed_run *run = pass->run;
    uint32_t gpu;

    if (pass->control == NULL || run->sampler == NULL ||
        lull_sampler_is_stuck(run->sampler, lull_now_ns(), &gpu))
        return;
    if (lull_sampler_wait(run->sampler, until_ns)) {
        take_samples(pass);
        ask_samples(pass, true);
        lull_sampler_wait(run->sampler, until_ns);
    }
    take_samples(pass);
}

/* Renews the leases. Power limits that were lost with them are requested again. */
static void heartbeat(struct pass *pass)
{
    struct lull_error text = {0};
    const enum lull_run_leases_change change =
        lull_run_leases_tick(&pass->run->leases, pass->control, lull_now_ns(), &text);

    if (change == LULL_RUN_LEASES_KEPT)
        return;
    note(pass->run, text.text);
    if (change == LULL_RUN_LEASES_BACK && pass->limits != NULL)
        lull_limits_resume(pass->limits, pass->control);
}

static bool is_profiling(const struct pass *pass)
{
    bool is_done = true;

    if (pass->online != NULL && pass->runner != NULL && !pass->observe_only)
        lull_online_iterations(pass->online, &is_done);
    return !is_done;
}

static void profile(struct pass *pass)
{
    struct lull_error err = {0};

    lull_online_tick(pass->online, pass->control, pass->runner, &err);
    if (err.code != 0)
        note(pass->run, err.text);
}

static void limit_power(struct pass *pass)
{
    struct lull_error err = {0};

    lull_limits_tick(pass->limits, pass->control, &err);
    if (err.code != 0)
        note(pass->run, err.text);
}

static void tick_samples(struct pass *pass)
{
    take_samples(pass);
    if (pass->ticks % SAMPLE_TICKS == 0)
        ask_samples(pass, pass->runner != NULL || pass->ticks % ENERGY_TICKS == 0);
    look_for_hang(pass);
}

static void on_tick(uv_timer_t *timer)
{
    struct pass *pass = timer->data;

    if (pass->control != NULL) {
        lull_control_bind(pass->control);
        if (pass->peers != NULL && pass->ticks % PEER_TICKS == 0)
            lull_peers_tick(pass->peers, pass->control, pass->run->devices, lull_now_ns());
        if (pass->run->sampler != NULL)
            tick_samples(pass);
        if (pass->ticks % SAMPLE_TICKS == 0 && is_profiling(pass))
            profile(pass);
        if (pass->response != NULL && !is_profiling(pass))
            lull_straggler_response_tick(pass->response, pass->control, pass->runner);
        if (pass->limits != NULL && !pass->run->leases.is_lost)
            limit_power(pass);
        if (pass->accounting != NULL && pass->ticks % ENERGY_TICKS == 0)
            lull_accounting_read_node(pass->accounting);
        if (!pass->observe_only)
            heartbeat(pass);
        if (pass->ticks % PROGRESS_TICKS == 0 && !pass->run->options->quiet)
            show_progress(pass->control, pass->title);
    }
    pass->ticks++;
    look_for_end(pass);
}

static void watch(struct pass *pass)
{
    uv_loop_init(&pass->loop);
    uv_timer_init(&pass->loop, &pass->timer);
    pass->timer.data = pass;
    uv_timer_start(&pass->timer, on_tick, 0, TICK_MS);
    if (pass->run->signals.fd >= 0) {
        uv_poll_init(&pass->loop, &pass->signals, pass->run->signals.fd);
        pass->signals.data = pass;
        uv_poll_start(&pass->signals, UV_READABLE, on_signal);
    }
    if (pass->child.pidfd >= 0) {
        uv_poll_init(&pass->loop, &pass->child_poll, pass->child.pidfd);
        pass->child_poll.data = pass;
        uv_poll_start(&pass->child_poll, UV_READABLE, on_child);
    }
    uv_run(&pass->loop, UV_RUN_DEFAULT);
    uv_loop_close(&pass->loop);
}

/* Joins the job's other nodes, if there are any and they can be reached. */
static void join_nodes(struct pass *pass)
{
    struct managed_run *run = pass->run;
    struct lull_error err = {0};
    char text[sizeof(err.text) + 64];

    if (run->options->peers.endpoint == NULL ||
        lull_peers_create(&run->options->peers, &pass->peers, &err) == 0)
        return;
    snprintf(text, sizeof(text), "this node is managed alone: %s", err.text);
    note(run, text);
}

/* Leaves the other nodes before the report is written: that takes time, and they would take it for
 * silence. */
static void leave_nodes(struct pass *pass)
{
    if (pass->peers == NULL)
        return;
    lull_peers_summary(pass->peers, &pass->run->peers);
    lull_peers_destroy(pass->peers);
    pass->peers = NULL;
}

/* A pipeline follows plans that were given, or is profiled first; else there is no plan runner. */
static int prepare_plan_runner(struct pass *pass, const struct lull_controller_config *config,
                               struct lull_error *err)
{
    struct managed_run *run = pass->run;
    const struct lull_plan_file *plans = run->plans.files;
    uint32_t plan_count = run->plans.count;

    if (run->options->online.schedule != NULL) {
        const int result =
            lull_online_create(&run->options->online, lull_device_info(run->devices, run->gpus[0]),
                               run->gpu_count, &pass->online, err);

        if (result < 0)
            return result;
        plans = lull_online_plans(pass->online);
        plan_count = 1;
    }
    if (plan_count == 0)
        return 0;
    return lull_plan_runner_create(plans, plan_count, config, run->devices, run->gpus,
                                   run->gpu_count, &pass->runner, err);
}

static int start(struct pass *pass, struct lull_error *err)
{
    pass->accounting =
        lull_accounting_create(pass->run->devices, pass->run->gpus, pass->run->gpu_count);
    lull_control_set_accounting(pass->control, pass->accounting);
    if (pass->limits != NULL)
        lull_control_want_limits(pass->control);
    if (pass->runner != NULL)
        lull_plan_runner_rule(pass->runner, pass->control);
    return lull_control_start(pass->control, err);
}

/* Makes the job's segment and the control loop; without them the command still runs. */
static void prepare(struct pass *pass, bool observe_only)
{
    struct managed_run *run = pass->run;
    struct lull_controller_config config = run->options->control;
    struct lull_error err = {0};

    config.observe_only = observe_only || run->leases.actuator == NULL;
    pass->observe_only = config.observe_only;
    if (run->gpu_count == 0)
        return;
    if (run->options->limits.is_wanted && !config.observe_only) {
        pass->limits =
            lull_limits_create(&run->options->limits, run->options->command, run->devices);
        config.observe_only = pass->limits != NULL;
    }
    if (!observe_only)
        join_nodes(pass);
    config.together = pass->peers != NULL;
    /* Coins of its own for each run; nodes of one job know no other number that all of them share.
     */
    if (!config.together)
        config.seed = (uint64_t)lull_now_ns();
    lull_job_file_clear(LULL_JOB_DIRECTORY);
    lull_job_file_path(LULL_JOB_DIRECTORY, pass->name, pass->job_path, sizeof(pass->job_path));
    if (prepare_plan_runner(pass, &config, &err) < 0)
        note(run, err.text);
    if (pass->runner != NULL && !config.observe_only)
        pass->response = lull_straggler_response_create();
    if (lull_event_segment_create(pass->job_path, &pass->job, &err) < 0 ||
        lull_control_create(pass->job, run->devices, observe_only ? NULL : run->leases.actuator,
                            &config, run->options->exposure, run->gpus, run->gpu_count,
                            &pass->control, &err) < 0 ||
        start(pass, &err) < 0) {
        note(run, err.text);
        lull_control_destroy(pass->control);
        lull_accounting_destroy(pass->accounting);
        lull_event_segment_destroy(pass->job);
        pass->accounting = NULL;
        pass->control = NULL;
        pass->job = NULL;
    }
}

static int start_job(struct pass *pass, const char *const *environment, struct lull_error *err)
{
    struct managed_run *run = pass->run;
    const struct lull_child_setup setup = {
        .stdout_fd = -1,
        .stderr_fd = -1,
        .signals = run->signals.fd >= 0 ? &run->signals.inherited : NULL,
    };

    lull_job_signals_await_job(&run->signals);
    return lull_child_start_as(run->options->command, environment, &setup, &pass->child, err);
}

static int make_pass(struct pass *pass, bool observe_only, struct lull_error *err)
{
    struct managed_run *run = pass->run;
    const char *const *environment = NULL;
    int64_t begin_ns;
    int64_t end_ns;
    int result;

    prepare(pass, observe_only);
    if (pass->job != NULL)
        environment = lull_probes_environment(&run->probes, pass->job_path);
    sample_edge(pass);
    begin_ns = lull_now_ns();
    if (pass->accounting != NULL)
        lull_accounting_begin(pass->accounting, begin_ns, run->rapl);
    result = start_job(pass, environment, err);
    if (result < 0)
        return result;
    watch(pass);
    end_ns = lull_now_ns();
    pass->wall_s = (double)(end_ns - begin_ns) * 1e-9;
    leave_nodes(pass);
    sample_edge(pass);
    if (pass->control != NULL)
        lull_control_stop(pass->control);
    if (pass->accounting != NULL) {
        lull_accounting_read_node(pass->accounting);
        lull_accounting_end(pass->accounting, end_ns);
    }
    if (pass->limits != NULL) {
        struct lull_error told = {0};

        lull_limits_end(pass->limits, &told);
        if (told.code != 0)
            note(run, told.text);
    }
    if (!run->options->quiet)
        clear_progress();
    return 0;
}

static void end_pass(struct pass *pass)
{
    lull_peers_destroy(pass->peers);
    lull_control_destroy(pass->control);
    lull_accounting_destroy(pass->accounting);
    lull_plan_runner_destroy(pass->runner);
    lull_straggler_response_destroy(pass->response);
    lull_online_destroy(pass->online);
    lull_limits_destroy(pass->limits);
    lull_event_segment_destroy(pass->job);
}

/* Loads the plans. If that fails, sections are managed as without --plan. */
static void load_plans(struct managed_run *run)
{
    struct lull_error err = {0};

    if (run->options->plan_count > 0 &&
        lull_pipeline_plans_load(&run->plans, run->options->plans, run->options->plan_count, &err) <
            0)
        note(run, err.text);
}

/* ---- all of it --------------------------------------------------------------------------- */

static void write_report(struct managed_run *run, const struct pass *unmanaged,
                         const struct pass *managed, int status)
{
    const bool has_unmanaged = unmanaged->ended && unmanaged->status == 0;
    struct lull_report report = {
        .command = run->options->command,
        .status = status,
        .tolerance_ratio = run->options->control.tolerance_ratio,
        .confidence = run->options->control.confidence,
        .devices = run->devices,
        .managed = managed->control,
        .managed_s = managed->wall_s,
        .comparison = run->options->compare ? &run->comparison : NULL,
        .peers = run->peers.nodes > 0 ? &run->peers : NULL,
        .notes = (const char *const *)run->notes,
        .online = managed->online,
        .runner = managed->runner,
        .response = managed->response,
        .limits = managed->limits,
        .energy = {.managed = managed->accounting,
                   .unmanaged = has_unmanaged ? unmanaged->accounting : NULL,
                   .node_reason = run->rapl_reason.text},
    };
    struct lull_error err = {0};

    if (!run->options->quiet)
        lull_report_print(&report, stderr);
    if (lull_report_write(&report, run->options->report, &err) < 0)
        lull_log(LULL_LOG_WARNING, "run", "no report: %s", err.text);
}

/* Gives the GPUs back after a managed pass: the next pass must find them as the first one did, and
 * what the pass has learnt stays for the report. */
static void close_actuator(struct pass *pass)
{
    if (pass->control != NULL)
        lull_control_disarm(pass->control);
    if (lull_run_leases_close(&pass->run->leases) < 0)
        pass->run->is_driver_stuck = true;
}

/* Begins a pass where an earlier one of the same side has ended, of which nothing is kept but what
 * the comparison has taken. */
static void renew_pass(struct pass *pass, struct managed_run *run, bool is_managed)
{
    const struct lull_run_comparison *const comparison = &run->comparison;

    end_pass(pass);
    *pass = (struct pass){.run = run, .name = is_managed ? "managed" : "unmanaged"};
    if (run->options->compare)
        snprintf(pass->title, sizeof(pass->title), "run %u of %u, %s", comparison->run_count + 1,
                 2 * comparison->pairs_wanted, pass->name);
    else
        snprintf(pass->title, sizeof(pass->title), "%s", pass->name);
}

/* Says which run failed, and how far the comparison came. */
static void note_failure(const struct pass *pass)
{
    struct managed_run *const run = pass->run;
    struct lull_run_difference difference;
    char text[192];

    lull_run_comparison_difference(&run->comparison, run->options->control.confidence, &difference);
    snprintf(text, sizeof(text),
             "%s, ended with status %d, so the comparison ends: %u of %u pairs of runs complete",
             pass->title, pass->status, difference.pairs_done, run->comparison.pairs_wanted);
    note(run, text);
}

/* Runs the command as often as is wanted, until a run fails; the two passes are the last of each
 * side in the end. */
static int make_passes(struct managed_run *run, struct pass *unmanaged, struct pass *managed,
                       int *status_out, struct lull_error *err)
{
    const uint32_t count = run->options->compare ? 2 * run->comparison.pairs_wanted : 1;

    for (uint32_t i = 0; i < count; i++) {
        const bool is_managed = !run->options->compare || lull_paired_runs_is_other(i);
        struct pass *const pass = is_managed ? managed : unmanaged;
        int result;

        renew_pass(pass, run, is_managed);
        if (is_managed)
            open_actuator(run);
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
    return 0;
}

int lull_run(const struct lull_run_options *options, int *status_out, struct lull_error *err)
{
    struct managed_run run = {.options = options};
    struct pass unmanaged = {.run = &run};
    struct pass managed = {.run = &run};
    struct lull_error signals_err = {0};
    int result = 0;

    if (options->compare)
        result = lull_run_comparison_init(&run.comparison, options->compare_pairs, err);
    if (result < 0)
        return result;
    if (lull_job_signals_open(&run.signals, &signals_err) < 0)
        note(&run, signals_err.text);
    open_devices(&run);
    choose_probes(&run);
    if (run.gpu_count > 0 && lull_rapl_open(NULL, &run.rapl, &run.rapl_reason) < 0)
        run.rapl = NULL;
    load_plans(&run);
    result = make_passes(&run, &unmanaged, &managed, status_out, err);
    if (result == 0 && managed.ended)
        write_report(&run, &unmanaged, &managed, *status_out);
    end_pass(&unmanaged);
    end_pass(&managed);
    close_devices(&run);
    lull_rapl_close(run.rapl);
    lull_job_signals_close(&run.signals);
    lull_pipeline_plans_fini(&run.plans);
    lull_run_comparison_fini(&run.comparison);
    for (uint32_t i = 0; i < run.note_count; i++)
        free(run.notes[i]);
    return result;
}
