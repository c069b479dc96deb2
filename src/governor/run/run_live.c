/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_live.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "governor/energy/energy_meter.h"
#include "governor/report/section_text.h"
#include "governor/run/run_missing.h"
#include "governor/run/run_pass.h"
#include "governor/run/run_progress.h"
#include "governor/serving/serving_live.h"
#include "wire/job_file.h"
#include "wire/viewers.h"

/* A tick is 50 ms (run_watch.c). */
enum { SAVING_TICKS = 20 };

#define PUT_TEXT(TO, TEXT) snprintf((TO), sizeof(TO), "%s", (TEXT))

/* ---- constant fields --------------------------------------------------------------------- */

static void run_live_join_words(char *const *words, char *text, size_t size)
{
    size_t length = 0;

    text[0] = '\0';
    for (; *words != NULL && length + 1 < size; words++) {
        const int written =
            snprintf(text + length, size - length, length == 0 ? "%s" : " %s", *words);

        length += written < 0 ? 0 : (size_t)written;
    }
}

static const char *find_variable(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : otherwise;
}

/* Writes what the batch system or Kubernetes calls the job. */
static void name_job(struct lull_live_run *run)
{
    const bool is_pod = getenv("KUBERNETES_SERVICE_HOST") != NULL;

    PUT_TEXT(run->slurm_job, find_variable("SLURM_JOB_ID", ""));
    PUT_TEXT(run->slurm_step, find_variable("SLURM_STEP_ID", ""));
    PUT_TEXT(run->slurm_name, find_variable("SLURM_JOB_NAME", ""));
    PUT_TEXT(run->pod, find_variable("POD_NAME", is_pod ? find_variable("HOSTNAME", "") : ""));
    PUT_TEXT(run->pod_namespace, find_variable("POD_NAMESPACE", ""));
}

static int64_t wall_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * LULL_NS_PER_S + now.tv_nsec;
}

static enum lull_live_ruler ruler_of(const struct lull_run_pass *pass)
{
    if (pass->observe_only)
        return LULL_LIVE_BY_NONE;
    if (pass->serving != NULL)
        return pass->run->options->serving.has_objective ? LULL_LIVE_BY_OBJECTIVE
                                                         : LULL_LIVE_BY_IDLENESS;
    if (pass->limits != NULL)
        return LULL_LIVE_BY_LIMIT;
    return pass->runner != NULL ? LULL_LIVE_BY_PLAN : LULL_LIVE_BY_SECTION;
}

static void begin_gpu(const struct lull_control *control, uint32_t index, struct lull_live_gpu *gpu)
{
    const struct lull_device_info *info = lull_control_info(control, index);

    PUT_TEXT(gpu->uuid, info->uuid);
    PUT_TEXT(gpu->name, info->name);
    PUT_TEXT(gpu->pci_bus_id, info->pci_bus_id);
    gpu->index = lull_control_gpu(control, index)->device;
}

static void run_live_begin(const struct lull_run_pass *pass, struct lull_live_run *run)
{
    const struct lull_run_options *const options = pass->run->options;

    run->begin_ns = lull_now_ns();
    run->begin_unix_ns = wall_clock_ns();
    run->pid = getpid();
    run->start_ticks = (uint64_t)lull_process_start_ticks(0);
    PUT_TEXT(run->pass, pass->name);
    PUT_TEXT(run->title, options->compare ? pass->title : "");
    run_live_join_words(options->command, run->command, sizeof(run->command));
    PUT_TEXT(run->report, options->report != NULL ? options->report : "");
    name_job(run);
    run->tolerance_ratio = options->control.tolerance_ratio;
    run->confidence = options->control.confidence;
    run->ruler = ruler_of(pass);
    run->gpu_count = lull_control_gpu_count(pass->control);
    for (uint32_t i = 0; i < run->gpu_count; i++)
        begin_gpu(pass->control, i, &run->gpus[i]);
}

void lull_run_live_open(struct lull_run_pass *pass)
{
    struct lull_run_live *const live = &pass->live;
    struct lull_error err = {0};
    gid_t viewers;

    live->run = calloc(1, sizeof(*live->run));
    if (live->run == NULL)
        return;
    if (lull_live_writer_create(LULL_JOB_DIRECTORY, pass->name, &live->writer, &err) < 0) {
        lull_run_note(pass->run, err.text);
        lull_run_live_close(live);
        return;
    }
    if (lull_viewers_read(pass->run->options->runtime_dir, &viewers) &&
        lull_live_writer_share(live->writer, viewers, &err) < 0)
        lull_run_note(pass->run, err.text);
    run_live_begin(pass, live->run);
    lull_run_live_show(pass, lull_now_ns());
}

void lull_run_live_close(struct lull_run_live *live)
{
    lull_live_writer_destroy(live->writer);
    free(live->run);
    live->writer = NULL;
    live->run = NULL;
}

/* ---- readings ---------------------------------------------------------------------------- */

void lull_run_live_take(struct lull_run_live *live, uint32_t gpu, uint32_t wanted,
                        const struct lull_device_reading *reading)
{
    struct lull_run_live_reading *const kept = &live->readings[gpu];
    const uint32_t valid = reading->valid & wanted & LULL_READING_ALL;

    kept->asked |= wanted;
    kept->ever |= valid;
    kept->is_lost = valid == 0 && kept->ever != 0;
    lull_device_keep_reading(&kept->last, wanted & LULL_READING_ALL, reading);
}

/* A figure from one of a GPU's readings. */
static struct lull_live_figure figure_of(const struct lull_run_live *live, uint32_t gpu,
                                         uint32_t field, double value)
{
    const struct lull_run_live_reading *const kept = &live->readings[gpu];

    if (live->is_stuck && live->stuck_gpu == gpu)
        return lull_live_figure((double)NAN, LULL_LIVE_HANGS);
    if (kept->is_lost)
        return lull_live_figure((double)NAN, LULL_LIVE_LOST);
    if ((kept->asked & field) == 0)
        return lull_live_figure((double)NAN, LULL_LIVE_NOT_READ);
    if ((kept->last.valid & field) != 0)
        return lull_live_figure(value, LULL_LIVE_NO_SENSOR);
    return lull_live_figure((double)NAN, LULL_LIVE_NO_SENSOR);
}

static void show_readings(const struct lull_run_live *live, uint32_t index,
                          struct lull_live_gpu *gpu)
{
    const struct lull_device_reading *const last = &live->readings[index].last;

    gpu->clock_mhz = figure_of(live, index, LULL_READING_SM_CLOCK, last->sm_mhz);
    gpu->power_w = figure_of(live, index, LULL_READING_POWER, last->power_mw * 1e-3);
    gpu->power_limit_w =
        figure_of(live, index, LULL_READING_POWER_LIMIT, last->power_limit_mw * 1e-3);
    gpu->temperature_c = figure_of(live, index, LULL_READING_TEMPERATURE, last->temperature_c);
    gpu->throttled = figure_of(live, index, LULL_READING_REASONS, (double)last->reasons);
}

/* ---- one GPU ----------------------------------------------------------------------------- */

static enum lull_live_state run_live_state_of(const struct lull_run_pass *pass, uint32_t gpu)
{
    const struct lull_control_gpu *state = lull_control_gpu(pass->control, gpu);

    if (pass->serving != NULL)
        return state->leased ? LULL_LIVE_MANAGED : LULL_LIVE_UNUSED;
    if (state->process < 0)
        return LULL_LIVE_UNUSED;
    if (state->shared || state->refusal.code != 0 || lull_driver_watch_denies(&state->driver) ||
        lull_driver_watch_has_no_effect(&state->driver) ||
        (pass->runner == NULL && pass->limits == NULL &&
         lull_controller_look(lull_control_controller(pass->control)).is_suspended))
        return LULL_LIVE_LEFT_ALONE;
    return state->leased ? LULL_LIVE_MANAGED : LULL_LIVE_OBSERVED;
}

/* The process of a GPU's rank; 0: there is none, or it no longer exists. */
static int32_t pid_of(const struct lull_control *control, uint32_t gpu)
{
    const int32_t slot = lull_control_gpu(control, gpu)->process;
    struct lull_process_info info;

    if (slot < 0 ||
        lull_event_segment_process(lull_control_job(control), (uint32_t)slot, &info) < 0)
        return 0;
    return kill(info.pid, 0) < 0 && errno == ESRCH ? 0 : info.pid;
}

static void name_section(const struct lull_control *control, uint32_t index,
                         const struct lull_metered_section *section, char *text, size_t size)
{
    const int32_t slot = lull_control_gpu(control, index)->process;
    char name[LULL_JOB_NAME_BYTES] = "";

    if (section->operation == LULL_OPERATION_USER && slot >= 0)
        lull_event_segment_name(lull_control_job(control), (uint32_t)slot, section->name, name);
    else if (section->operation != LULL_OPERATION_NONE)
        snprintf(name, sizeof(name), "%s",
                 lull_operation_name((enum lull_operation)section->operation));
    snprintf(text, size, "%s", name);
}

static void show_sections(const struct lull_run_pass *pass, uint32_t index,
                          const struct lull_section_meter *meter, struct lull_live_gpu *gpu)
{
    const struct lull_energy_source source =
        lull_energy_source_of_gpu(lull_control_info(pass->control, index));
    enum lull_live_unknown reason;

    gpu->section = gpu->pid == 0 ? LULL_LIVE_NO_SECTION : meter->now.kind;
    gpu->section_begin_ns = meter->since_ns;
    gpu->section_name[0] = '\0';
    if (gpu->section != LULL_LIVE_NO_SECTION)
        name_section(pass->control, index, &meter->now, gpu->section_name,
                     sizeof(gpu->section_name));
    for (uint32_t kind = 0; kind < LULL_LIVE_SECTION_COUNT; kind++) {
        const double energy_j =
            lull_section_meter_energy_j(meter, kind, source.power_window_s, &reason);

        gpu->sections[kind] = (struct lull_live_sections){
            .count = meter->sections[kind].count,
            .seconds = meter->sections[kind].seconds,
            .energy_j = lull_live_figure(energy_j, reason),
        };
    }
}

static void show_lease(const struct lull_run_pass *pass, uint32_t index,
                       const struct lull_control_view *view, double run_s,
                       struct lull_live_gpu *gpu)
{
    const struct lull_device_info *const info = lull_control_info(pass->control, index);
    const uint32_t count = info->sm_clock_count;
    const bool is_leased = lull_control_gpu(pass->control, index)->leased &&
                           pass->run->leases.actuator != NULL && count > 0;
    const enum lull_live_unknown reason = LULL_LIVE_NOT_LEASED;

    gpu->is_leased = is_leased;
    gpu->wanted_mhz = lull_live_figure(is_leased ? (double)view->wanted_mhz : (double)NAN, reason);
    gpu->lowest_mhz =
        lull_live_figure(is_leased ? (double)info->sm_clocks_mhz[count - 1] : (double)NAN, reason);
    gpu->highest_mhz =
        lull_live_figure(is_leased ? (double)info->sm_clocks_mhz[0] : (double)NAN, reason);
    gpu->lowered_ratio = lull_live_figure(gpu->state == LULL_LIVE_UNUSED || run_s <= 0.0
                                              ? (double)NAN
                                              : (double)view->lowered_ns * 1e-9 / run_s,
                                          LULL_LIVE_NOT_READ);
}

static void count_gpu(const struct lull_run_pass *pass, uint32_t index,
                      const struct lull_control_view *view, struct lull_live_gpu *gpu)
{
    const struct lull_control_gpu *const state = lull_control_gpu(pass->control, index);
    const struct lull_run_log *const log = lull_control_log(pass->control, index);

    gpu->forecasts = view->forecasts;
    gpu->forecast_hits = view->hits;
    gpu->switches = log->switches;
    gpu->refused = log->refused;
    gpu->driver_calls = state->driver.calls;
    gpu->slow_calls = state->driver.slow_calls;
    gpu->events = state->events;
    gpu->lost_events = state->lost_events;
    gpu->lost_records = log->dropped;
    gpu->driver_text[0] = '\0';
    lull_driver_watch_describe(&state->driver, gpu->driver_text, sizeof(gpu->driver_text));
}

/* The energy is of all GPUs that the job may use, whether a rank uses them or not. The power of a
 * GPU that cannot be read is unknown, and with it the sum, until it can be read again. */
static void show_energy(const struct lull_run_pass *pass, uint32_t index, struct lull_live_gpu *gpu)
{
    struct lull_accounting_so_far so_far = {0};
    const uint32_t unknown =
        figure_of(&pass->live, index, LULL_READING_ENERGY, (double)NAN).unknown;
    const bool is_gone = unknown == LULL_LIVE_LOST || unknown == LULL_LIVE_HANGS;

    if (pass->accounting != NULL)
        so_far = lull_accounting_so_far(pass->accounting, index);
    gpu->energy_j = lull_live_figure(so_far.is_known && !is_gone ? so_far.energy_j : (double)NAN,
                                     is_gone ? unknown : LULL_LIVE_TOO_EARLY);
    gpu->energy_estimated_s = so_far.estimated_s;
    gpu->energy_resets = so_far.resets;
}

static const char *run_live_state_text(const struct lull_run_pass *pass, uint32_t index)
{
    if (pass->run->leases.is_paused && lull_control_gpu(pass->control, index)->leased)
        return "paused: at the reference, not leased";
    if (pass->serving != NULL)
        return lull_serving_gpu_text(pass->serving, index);
    return lull_gpu_state_text(pass->control, index);
}

static void show_gpu(const struct lull_run_pass *pass, uint32_t index, int64_t now_ns,
                     struct lull_live_gpu *gpu)
{
    const struct lull_control_view view = lull_control_view(pass->control, index, now_ns);
    const double run_s = (double)(now_ns - pass->live.run->begin_ns) * 1e-9;

    gpu->state = run_live_state_of(pass, index);
    PUT_TEXT(gpu->state_text, run_live_state_text(pass, index));
    gpu->ranks = lull_control_gpu(pass->control, index)->ranks;
    show_readings(&pass->live, index, gpu);
    show_energy(pass, index, gpu);
    show_lease(pass, index, &view, run_s, gpu);
    show_sections(pass, index, view.meter, gpu);
    count_gpu(pass, index, &view, gpu);
}

/* ---- the run ----------------------------------------------------------------------------- */

static enum lull_live_verdict verdict_of(const struct lull_run_pass *pass)
{
    const struct lull_controller_view now =
        lull_controller_look(lull_control_controller(pass->control));

    if (pass->live.run->ruler != LULL_LIVE_BY_SECTION || now.phase == LULL_PHASE_LEARNING)
        return LULL_LIVE_NO_VERDICT;
    if (now.is_proven)
        return LULL_LIVE_PROVEN;
    return now.phase == LULL_PHASE_SETTLED ? LULL_LIVE_NOTHING_KEPT : LULL_LIVE_UNDECIDED;
}

static void show_slowdown(const struct lull_run_pass *pass, struct lull_live_run *run)
{
    const struct lull_controller_view now =
        lull_controller_look(lull_control_controller(pass->control));
    const bool is_sought = run->ruler == LULL_LIVE_BY_SECTION;
    const bool is_kept = is_sought && now.is_proven;
    const enum lull_live_unknown reason = is_sought ? LULL_LIVE_NOTHING_LOW : LULL_LIVE_NOT_SOUGHT;
    const enum lull_live_unknown early = is_sought ? LULL_LIVE_TOO_EARLY : LULL_LIVE_NOT_SOUGHT;
    struct lull_guard_estimate kept = {.slowdown_ratio = (double)NAN, .upper_ratio = (double)NAN};
    struct lull_whole_slowdown whole = {(double)NAN, (double)NAN};
    struct lull_loss_left budget = {(double)NAN, (double)NAN};

    if (is_kept)
        kept = now.slowdown;
    if (is_sought) {
        whole = now.whole;
        budget = now.loss_left;
    }
    run->slowdown_ratio = lull_live_figure(kept.slowdown_ratio, reason);
    run->slowdown_upper_ratio = lull_live_figure(kept.upper_ratio, is_kept ? early : reason);
    run->whole_slowdown_ratio = lull_live_figure(whole.ratio, early);
    run->whole_slowdown_upper_ratio = lull_live_figure(whole.upper_ratio, early);
    run->budget_earned_ms = lull_live_figure(budget.earned_ms, early);
    run->budget_left_ms = lull_live_figure(budget.left_ms, early);
}

/* The saving is computed from all trials, and changes slowly. */
static void show_saving(struct lull_run_pass *pass, int64_t now_ns, struct lull_live_run *run)
{
    const bool is_proven = lull_controller_look(lull_control_controller(pass->control)).is_proven;

    if (run->ruler != LULL_LIVE_BY_SECTION)
        run->saving_ratio = lull_live_figure((double)NAN, LULL_LIVE_NOT_SOUGHT);
    else if (pass->ticks % SAVING_TICKS == 0)
        run->saving_ratio =
            lull_live_figure(lull_run_progress_saving(pass, now_ns),
                             is_proven ? LULL_LIVE_TOO_EARLY : LULL_LIVE_NOTHING_LOW);
}

static void show_search(struct lull_run_pass *pass, struct lull_live_run *run)
{
    const struct lull_controller_view now =
        lull_controller_look(lull_control_controller(pass->control));
    const bool is_sought = run->ruler == LULL_LIVE_BY_SECTION;
    const uint64_t iterations = lull_run_seen_iterations(pass, now.lead);
    double left = (double)NAN;

    run->iterations = iterations;
    run->iteration_ms =
        lull_live_figure(iterations == 0 ? (double)NAN : lull_run_iteration_s(pass, now.lead) * 1e3,
                         LULL_LIVE_TOO_EARLY);
    run->learning[0] = '\0';
    if (is_sought) {
        lull_run_progress_describe(pass->control, run->learning, sizeof(run->learning));
        left = now.phase == LULL_PHASE_SETTLED
                   ? 0.0
                   : (double)lull_run_missing_iterations(pass, now.lead);
    }
    run->iterations_left = lull_live_figure(left, LULL_LIVE_NOT_SOUGHT);
}

static void show_hang(const struct lull_run_hang_record *hang, struct lull_live_run *run)
{
    run->hang[0] = '\0';
    run->hang_since_ns = 0;
    run->missing_rank = -1;
    if (hang == NULL)
        return;
    PUT_TEXT(run->hang, hang->text);
    run->hang_since_ns = hang->since_ns;
    if (hang->missing_count > 0)
        run->missing_rank = hang->missing[0].rank;
}

/* Adds up over the GPUs that ranks use; unknown as soon as one is. */
static void run_live_sum(struct lull_live_run *run)
{
    run->power_w = lull_live_figure((double)NAN, LULL_LIVE_NOT_READ);
    run->energy_j = run->power_w;
    for (uint32_t i = 0, used = 0; i < run->gpu_count; i++) {
        const struct lull_live_gpu *const gpu = &run->gpus[i];

        if (gpu->state == LULL_LIVE_UNUSED)
            continue;
        if (used++ == 0) {
            run->power_w = gpu->power_w;
            run->energy_j = gpu->energy_j;
            continue;
        }
        run->power_w = lull_live_figure(
            run->power_w.value + gpu->power_w.value,
            run->power_w.unknown != LULL_LIVE_KNOWN ? run->power_w.unknown : gpu->power_w.unknown);
        run->energy_j =
            lull_live_figure(run->energy_j.value + gpu->energy_j.value,
                             run->energy_j.unknown != LULL_LIVE_KNOWN ? run->energy_j.unknown
                                                                      : gpu->energy_j.unknown);
    }
}

void lull_run_live_show(struct lull_run_pass *pass, int64_t now_ns)
{
    struct lull_managed_run *const managed = pass->run;
    struct lull_live_run *const run = pass->live.run;

    if (run == NULL)
        return;
    pass->live.is_stuck = managed->sampler != NULL &&
                          lull_sampler_is_stuck(managed->sampler, now_ns, &pass->live.stuck_gpu);
    for (uint32_t i = 0; i < run->gpu_count; i++)
        run->gpus[i].pid = pid_of(pass->control, i);
    lull_control_lock(pass->control);
    for (uint32_t i = 0; i < run->gpu_count; i++)
        show_gpu(pass, i, now_ns, &run->gpus[i]);
    run->verdict = verdict_of(pass);
    show_search(pass, run);
    show_saving(pass, now_ns, run);
    show_slowdown(pass, run);
    lull_control_unlock(pass->control);
    run_live_sum(run);
    if (pass->serving != NULL)
        lull_serving_live_show(pass->serving, now_ns, &run->serving);
    run->is_paused = managed->leases.is_paused;
    run->has_lost_leases = managed->leases.is_lost && !managed->leases.is_paused;
    if (run->is_paused)
        PUT_TEXT(run->learning, "paused");
    else if (run->has_lost_leases)
        PUT_TEXT(run->learning, "waiting for its leases");
    PUT_TEXT(run->note, managed->note_count > 0 ? managed->notes[managed->note_count - 1] : "");
    show_hang(lull_run_hangs_now(&pass->hangs), run);
    run->written_ns = now_ns;
    lull_live_write(pass->live.writer, run);
}

bool lull_run_live_take_request(struct lull_run_live *live, enum lull_live_asked *asked_out)
{
    enum lull_live_asked asked;

    if (live->writer == NULL)
        return false;
    asked = lull_live_asked(live->writer);
    if (asked == live->asked)
        return false;
    live->asked = asked;
    *asked_out = asked;
    return true;
}
