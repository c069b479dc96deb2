/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_findings.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "core/section/iteration.h"
#include "core/stats/rhythm.h"
#include "device/unmanaged_reason.h"
#include "governor/run/run_missing.h"
#include "governor/run/run_witness.h"
#include "wire/job_file.h"

/* A GPU that is idle in this share of its readings has no work that could be
 * slowed down. A GPU on which the job waits for communication is not idle. */
static const double idle_share = 0.9;

/* Fewer readings are no evidence about a GPU. */
enum { MIN_READINGS = 10 };

/* A run of this length has searched for its processes often enough. */
static const double min_to_see_s = 1.0;

struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void finding_append(struct text *text,
                                                                 const char *format, ...)
{
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if ((size_t)length >= text->left)
        length = text->left > 0 ? (int)text->left - 1 : 0;
    text->at += length;
    text->left -= (size_t)length;
}

/* ---- findings about a GPU ------------------------------------------------------------------ */

/* The section controller decides here, so its results count. */
static bool is_by_section(const struct lull_run_pass *pass)
{
    return pass->limits == NULL && pass->runner == NULL && !pass->observe_only;
}

static bool finding_is_refused(const struct lull_run_pass *pass, uint32_t gpu)
{
    return lull_control_gpu(pass->control, gpu)->refusal.code != 0;
}

static void finding_refused(const struct lull_run_pass *pass, uint32_t gpu, struct text *text)
{
    finding_append(text, "not managed: %s", lull_control_gpu(pass->control, gpu)->refusal.text);
}

static bool is_shared(const struct lull_run_pass *pass, uint32_t gpu)
{
    return lull_control_gpu(pass->control, gpu)->shared;
}

static void finding_shared(const struct lull_run_pass *pass, uint32_t gpu, struct text *text)
{
    (void)pass;
    (void)gpu;
    finding_append(
        text, "not managed: several ranks share it; give each rank its own GPU, by the launcher's "
              "binding or CUDA_VISIBLE_DEVICES");
}

/* The share of a GPU's readings in which it was idle. NAN: too few readings include this. */
static double idle_ratio(const struct lull_run_pass *pass, uint32_t gpu)
{
    const struct lull_samples *samples = &lull_control_log(pass->control, gpu)->samples;
    size_t readings = 0;
    size_t idle = 0;

    for (size_t i = 0; i < samples->count; i++) {
        const struct lull_device_reading *reading = &samples->items[i].reading;

        if ((reading->valid & LULL_READING_REASONS) == 0)
            continue;
        readings++;
        idle += (reading->reasons & LULL_CLOCK_REASON_IDLE) != 0;
    }
    return readings < MIN_READINGS ? NAN : (double)idle / (double)readings;
}

static bool finding_is_idle(const struct lull_run_pass *pass, uint32_t gpu)
{
    return idle_ratio(pass, gpu) >= idle_share;
}

static void finding_idle(const struct lull_run_pass *pass, uint32_t gpu, struct text *text)
{
    finding_append(
        text,
        "idle in %.0f %% of the readings, so nothing could be saved: the job computes on the CPU "
        "or on other GPUs; set CUDA_VISIBLE_DEVICES to its GPUs, or run it without Lull",
        idle_ratio(pass, gpu) * 100.0);
}

static bool has_power_limit(const struct lull_run_pass *pass, uint32_t gpu)
{
    return (lull_control_info(pass->control, gpu)->capabilities & LULL_CAPABILITY_POWER_LIMIT) != 0;
}

static bool is_without_effect(const struct lull_run_pass *pass, uint32_t gpu)
{
    return lull_driver_watch_has_no_effect(&lull_control_gpu(pass->control, gpu)->driver);
}

static void finding_without_effect(const struct lull_run_pass *pass, uint32_t gpu,
                                   struct text *text)
{
    const struct lull_driver_watch *watch = &lull_control_gpu(pass->control, gpu)->driver;

    finding_append(
        text,
        "not managed: %" PRIu64 " of %" PRIu64
        " clock changes had no effect although the driver reported success (virtualisation, or "
        "another manager's lock); find the reason with nvidia-smi -q -d CLOCK,PERFORMANCE",
        watch->without_effect, watch->changes);
    if (has_power_limit(pass, gpu))
        finding_append(text, ", or try --power-limit auto");
}

static bool is_denied(const struct lull_run_pass *pass, uint32_t gpu)
{
    return lull_driver_watch_denies(&lull_control_gpu(pass->control, gpu)->driver);
}

static void finding_denied(const struct lull_run_pass *pass, uint32_t gpu, struct text *text)
{
    const int code = lull_control_gpu(pass->control, gpu)->driver.denial;

    finding_append(text, "not managed: %s", lull_reason_denied(code));
    if (code != -EPERM && code != LULL_E_NO_DEVICE && has_power_limit(pass, gpu))
        finding_append(text, "; try --power-limit auto");
}

/* ---- effects of other programs --------------------------------------------------------------- */

static bool is_refused_by_driver(const struct lull_run_pass *pass, uint32_t gpu)
{
    return lull_driver_watch_is_refused(&lull_control_gpu(pass->control, gpu)->driver);
}

static void finding_refused_by_driver(const struct lull_run_pass *pass, uint32_t gpu,
                                      struct text *text)
{
    const struct lull_driver_watch *watch = &lull_control_gpu(pass->control, gpu)->driver;

    if (watch->refusal == LULL_E_DRIVER)
        finding_append(
            text,
            "not managed: the driver refuses to set its clocks: unknown error (999 in NVML; the "
            "last %" PRIu32
            " requests); see dmesg, and restart a container that has lost its devices",
            watch->refused);
    else if (watch->refusal == -EIO)
        finding_append(
            text, "not managed: the driver refuses to set its clocks and reports a fault of the "
                  "board, such as missing power cables; see lull status and dmesg");
    else
        finding_append(text,
                       "not managed: the driver refused the last %" PRIu32
                       " changes of its clocks: busy, or in "
                       "use by another client; see lull status and dmesg",
                       watch->refused);
}

static bool is_locked(const struct lull_run_pass *pass, uint32_t gpu)
{
    return lull_control_gpu(pass->control, gpu)->driver.is_locked;
}

/* The latest clock of a GPU that had work; 0: there is none. */
static uint32_t busy_mhz(const struct lull_run_pass *pass, uint32_t gpu)
{
    const struct lull_samples *samples = &lull_control_log(pass->control, gpu)->samples;

    for (size_t i = samples->count; i-- > 0;) {
        const struct lull_device_reading *reading = &samples->items[i].reading;

        if ((reading->valid & LULL_READING_SM_CLOCK) != 0 &&
            (reading->reasons & LULL_CLOCK_REASON_IDLE) == 0)
            return reading->sm_mhz;
    }
    return 0;
}

static void finding_locked(const struct lull_run_pass *pass, uint32_t gpu, struct text *text)
{
    char reason[192];

    lull_reason_locked(lull_devices_vendor(pass->run->devices), busy_mhz(pass, gpu), reason,
                       sizeof(reason));
    finding_append(text, "not managed: %s", reason);
}

static struct lull_run_log_limits limits_of(const struct lull_run_pass *pass, uint32_t gpu)
{
    return lull_run_log_limits(lull_control_log(pass->control, gpu));
}

static bool is_limit_changed(const struct lull_run_pass *pass, uint32_t gpu)
{
    return lull_control_gpu(pass->control, gpu)->limit_changes > 0;
}

static void finding_limit_changed(const struct lull_run_pass *pass, uint32_t gpu, struct text *text)
{
    const struct lull_run_log_limits limits = limits_of(pass, gpu);

    finding_append(
        text,
        "its power limit was changed from %" PRIu32 " to %" PRIu32
        " W during the run, not by Lull; measurements of that time are discarded; %s",
        limits.first_mw / 1000, limits.last_mw / 1000,
        pass->was_paused
            ? "the run was paused for a while, in which the job may have set its own limits"
            : "find the program that sets power limits (nvidia-smi -pl, DCGM, a power manager)");
}

static double held_ratio(const struct lull_run_pass *pass, uint32_t gpu, uint64_t reasons,
                         uint64_t *found_out)
{
    return lull_run_log_held_ratio(lull_control_log(pass->control, gpu), reasons, found_out);
}

static bool finding_is_throttled(const struct lull_run_pass *pass, uint32_t gpu)
{
    return lull_run_log_is_held(lull_control_log(pass->control, gpu), LULL_CLOCK_REASON_THROTTLED);
}

static void finding_throttled(const struct lull_run_pass *pass, uint32_t gpu, struct text *text)
{
    const uint64_t heat = LULL_CLOCK_REASON_THERMAL | LULL_CLOCK_REASON_HARDWARE_THERMAL;
    uint64_t found;
    const double ratio = held_ratio(pass, gpu, LULL_CLOCK_REASON_THROTTLED, &found);
    const char *what = "a slowdown of the hardware";

    if ((found & LULL_CLOCK_REASON_POWER_BRAKE) != 0)
        what = "the power brake of the node's power supply";
    else if ((found & heat) != 0)
        what = "heat";
    finding_append(
        text,
        "%s held its clock down in %.0f %% of the readings (%" PRIu32
        " MHz at the end); measurements of that time are discarded; check cooling and power supply",
        what, 100.0 * ratio, busy_mhz(pass, gpu));
}

/* A power limit below the default holds the clock down. */
static bool is_limited(const struct lull_run_pass *pass, uint32_t gpu)
{
    const uint32_t default_mw = lull_control_info(pass->control, gpu)->power_limit_default_mw;
    const struct lull_run_log_limits limits = limits_of(pass, gpu);

    return pass->limits == NULL && limits.last_mw != 0 && limits.last_mw < default_mw &&
           lull_run_log_is_held(lull_control_log(pass->control, gpu), LULL_CLOCK_REASON_POWER_CAP);
}

static void finding_limited(const struct lull_run_pass *pass, uint32_t gpu, struct text *text)
{
    const uint32_t default_mw = lull_control_info(pass->control, gpu)->power_limit_default_mw;

    finding_append(
        text,
        "its power limit of %" PRIu32 " W, below the default of %" PRIu32 " W, holds its clock at "
        "%" PRIu32
        " MHz, so higher clocks have no effect; if the limit is not intended, set %" PRIu32
        " W (nvidia-smi -pl %" PRIu32 ")",
        limits_of(pass, gpu).last_mw / 1000, default_mw / 1000, busy_mhz(pass, gpu),
        default_mw / 1000, default_mw / 1000);
}

static bool finding_is_foreign(const struct lull_run_pass *pass, uint32_t gpu)
{
    return lull_control_gpu(pass->control, gpu)->driver.foreign > 0;
}

static void finding_foreign(const struct lull_run_pass *pass, uint32_t gpu, struct text *text)
{
    finding_append(
        text,
        "%" PRIu64
        " times the clock was not the one set by Lull: another program changes it (nvidia-smi "
        "-lgc, DCGM, a second manager); stop that program, or do not manage this GPU with Lull",
        lull_control_gpu(pass->control, gpu)->driver.foreign);
}

static bool has_communicated(const struct lull_run_pass *pass, uint32_t gpu)
{
    struct lull_track_totals totals;

    lull_track_totals(lull_run_track(pass, gpu), &totals);
    return totals.calls > 0 || lull_control_gpu(pass->control, gpu)->communicators.count > 0;
}

static bool finding_is_silent(const struct lull_run_pass *pass, uint32_t gpu)
{
    return pass->runner == NULL && !has_communicated(pass, gpu);
}

static void finding_silent(const struct lull_run_pass *pass, uint32_t gpu, struct text *text)
{
    (void)pass;
    (void)gpu;
    finding_append(
        text, "its rank loaded a probe but never communicated, so its iterations are unknown; run "
              "it with several ranks, or mark its waits with lull_section_begin() of lull.h");
}

static bool is_unrepeated(const struct lull_run_pass *pass, uint32_t gpu)
{
    return pass->runner == NULL && lull_track_period(lull_run_track(pass, gpu)) == 0;
}

static void finding_not_repeating(const struct lull_run_pass *pass, uint32_t gpu, struct text *text)
{
    struct lull_track_totals totals;

    lull_track_totals(lull_run_track(pass, gpu), &totals);
    if (totals.calls == 0)
        finding_append(text,
                       "NCCL's calls were seen, but not the times of their kernels, so nothing was "
                       "lowered; try --markers");
    else
        finding_append(text,
                       "no iteration was found: the %" PRIu64
                       " calls of communication of its rank did not repeat "
                       "three times in the same order; run it longer, or mark its sections with "
                       "lull_section_begin() of lull.h",
                       totals.calls);
}

static bool is_blocked(const struct lull_run_pass *pass, uint32_t gpu)
{
    (void)gpu;
    return is_by_section(pass) &&
           lull_controller_look(lull_control_controller(pass->control)).is_suspended;
}

static void finding_blocked(const struct lull_run_pass *pass, uint32_t gpu, struct text *text)
{
    finding_append(
        text,
        "not managed: driver calls block for %.0f ms, so the calls for all GPUs do not fit into a "
        "section; stop other programs that poll the driver, or use one clock for all with --steady "
        "1%%",
        lull_control_gpu(pass->control, gpu)->driver.slowest_call_ms);
}

/* A lowered clock is accepted for this GPU. */
static bool finding_has_lowered(const struct lull_run_pass *pass, uint32_t gpu)
{
    const struct lull_controller *controller = lull_control_controller(pass->control);
    const struct lull_controller_view now = lull_controller_look(controller);
    bool is_any = lull_controller_look_gpu(controller, gpu).slack->lowered > 0;

    for (uint32_t i = 0; i < now.target_count; i++)
        is_any = is_any || lull_controller_kept_point(controller, gpu, &now.targets[i]) > 0;
    return is_any;
}

/* ---- iterations that cannot carry a test ---------------------------------------------------- */

static double unevenness_of(const struct lull_run_pass *pass, uint32_t gpu)
{
    return lull_controller_unevenness(lull_control_controller(pass->control), gpu);
}

static bool is_uneven(const struct lull_run_pass *pass, uint32_t gpu)
{
    return is_by_section(pass) && !finding_has_lowered(pass, gpu) &&
           unevenness_of(pass, gpu) >
               LULL_UNEVEN_FACTOR * pass->run->options->control.tolerance_ratio;
}

static void finding_uneven(const struct lull_run_pass *pass, uint32_t gpu, struct text *text)
{
    finding_append(
        text,
        "the iterations are too uneven to be tested to %g %%; their "
        "mean exceeds the typical time by %.0f %%, without a rhythm of up to %d iterations; use a "
        "longer run or a wider --tolerance",
        pass->run->options->control.tolerance_ratio * 100.0, unevenness_of(pass, gpu) * 100.0,
        LULL_RHYTHM_MAX);
}

/* ---- a run that ended during the search ---------------------------------------------------- */

static bool is_unlearnt(const struct lull_run_pass *pass, uint32_t gpu)
{
    (void)gpu;
    return is_by_section(pass) && !lull_control_has_settled(pass->control);
}

static void finding_not_learned(const struct lull_run_pass *pass, uint32_t gpu, struct text *text)
{
    const uint64_t seen = lull_run_seen_iterations(pass, gpu);
    const uint64_t missing = lull_run_missing_iterations(pass, gpu);

    finding_append(
        text,
        "%sthe run ended %s, after %" PRIu64 " iterations: about %" PRIu64
        " more (%.0f s) are needed; use a longer run, or a wider --tolerance, which is tested "
        "sooner",
        finding_has_lowered(pass, gpu) ? "lowered as tested so far; " : "",
        lull_track_phase(lull_run_track(pass, gpu)) == LULL_TRACK_KNOWN
            ? "during the clock search"
            : "while its iterations were learned",
        seen, missing, ceil((double)missing * lull_run_iteration_s(pass, gpu)));
}

/* ---- nothing to gain ------------------------------------------------------------------------ */

static bool is_nothing_lowered(const struct lull_run_pass *pass, uint32_t gpu)
{
    return is_by_section(pass) && !finding_has_lowered(pass, gpu);
}

static void finding_nothing_lowered(const struct lull_run_pass *pass, uint32_t gpu,
                                    struct text *text)
{
    finding_append(text,
                   "no lower clock saves energy and passes the test for at most "
                   "%g %% slowdown; try --tolerance %g%%",
                   pass->run->options->control.tolerance_ratio * 100.0,
                   pass->run->options->control.tolerance_ratio * 200.0);
    if (has_power_limit(pass, gpu))
        finding_append(text, ", or --power-limit auto");
}

/* ---- sentences ------------------------------------------------------------------------------ */

/* In the order of the checks. If a final one applies to a GPU, the
 * later ones are not checked for it, because they follow from it. */
static const struct finding {
    bool (*is_true)(const struct lull_run_pass *pass, uint32_t gpu);
    void (*say)(const struct lull_run_pass *pass, uint32_t gpu, struct text *text);
    bool is_final;
} findings[] = {
    {finding_is_refused, finding_refused, true},
    {is_shared, finding_shared, true},
    {finding_is_silent, finding_silent, true},
    {finding_is_idle, finding_idle, true},
    {is_denied, finding_denied, true},
    {is_refused_by_driver, finding_refused_by_driver, true},
    {is_locked, finding_locked, true},
    {is_without_effect, finding_without_effect, true},
    {is_limit_changed, finding_limit_changed, false},
    {finding_is_throttled, finding_throttled, false},
    {is_limited, finding_limited, false},
    {finding_is_foreign, finding_foreign, false},
    {is_unrepeated, finding_not_repeating, true},
    {is_blocked, finding_blocked, true},
    {is_uneven, finding_uneven, true},
    {is_unlearnt, finding_not_learned, true},
    {is_nothing_lowered, finding_nothing_lowered, true},
};

enum { FINDINGS = sizeof(findings) / sizeof(findings[0]) };

/* Reports the finding of the first of these GPUs for all of them. */
static void finding_log(struct lull_run_pass *pass, const struct finding *finding, uint64_t gpus)
{
    const uint32_t first = (uint32_t)__builtin_ctzll(gpus);
    char sentence[LULL_RUN_NOTE_SIZE];
    struct text text = {sentence, sizeof(sentence)};

    finding_append(&text, (gpus & (gpus - 1)) == 0 ? "GPU" : "GPUs");
    for (uint64_t left = gpus; left != 0; left &= left - 1)
        finding_append(&text, "%s %" PRIu32, left == gpus ? "" : ",",
                       lull_control_gpu(pass->control, (uint32_t)__builtin_ctzll(left))->device);
    finding_append(&text, ": ");
    finding->say(pass, first, &text);
    lull_run_found(pass->run, sentence);
}

/* Reports the command's processes if none of them has joined the job. */
static void finding_log_witnessed(struct lull_run_pass *pass)
{
    char text[LULL_RUN_NOTE_SIZE];

    lull_run_witness_describe(&pass->witness, pass->run->options->command, text, sizeof(text));
    lull_run_found(pass->run, text);
}

/* Reports which processes use GPUs that are not managed for them, and the remedy. False: none. */
static bool finding_log_placements(struct lull_run_pass *pass)
{
    const bool on_several = lull_control_count_placed(pass->control, LULL_PLACEMENT_SEVERAL) > 0;
    const bool is_elsewhere =
        lull_control_count_placed(pass->control, LULL_PLACEMENT_ELSEWHERE) > 0;

    if (on_several)
        lull_run_found(pass->run,
                       "a process of the job uses several GPUs, which are not managed; start one "
                       "process per GPU, as torchrun --nproc-per-node does");
    if (is_elsewhere)
        lull_run_found(pass->run,
                       "a process of the job uses a GPU that lull run was not given, which is not "
                       "managed; set the job's GPUs in the environment of lull run, as in "
                       "CUDA_VISIBLE_DEVICES=GPU-... (lull gpus shows the UUIDs)");
    return on_several || is_elsewhere;
}

/* Reports that the job's processes were seen on no GPU. False: they may have been too
 * short-lived. */
static bool finding_log_unseen(struct lull_run_pass *pass)
{
    if (lull_control_count_placed(pass->control, LULL_PLACEMENT_UNSEEN) == 0 ||
        pass->wall_s < min_to_see_s)
        return false;
    if (lull_control_is_blind(pass->control))
        lull_run_found(pass->run,
                       "no clock was changed: the job's GPU is unknown, because neither CUDA nor "
                       "NCCL reports it, and " LULL_REASON_PID_SPACE);
    else
        lull_run_found(pass->run,
                       "no clock was changed: no process of the job was seen on a GPU. If it "
                       "computes on CPUs only, run it without Lull; if it computes in processes "
                       "without Lull's probes, mark their steps with lull.h");
    return true;
}

/* Reports why no rank was seen at all. */
static void finding_log_no_rank(struct lull_run_pass *pass)
{
    if (lull_event_segment_turned_away(pass->job) > 0) {
        lull_run_found(pass->run, "no rank was detected: " LULL_JOB_DIRECTORY
                                  " is full, so the job's processes cannot write their events; "
                                  "free space in it, or enlarge it (in a container: --shm-size)");
        return;
    }
    if (finding_log_unseen(pass))
        return;
    if (lull_event_segment_process_count(pass->job) > 0)
        lull_run_found(
            pass->run,
            "no rank was detected for long enough: the command ended within a tenth of a second of "
            "its first communication; use a longer job, since one this short offers nothing to "
            "save");
    else if (!lull_event_segment_is_cut(pass->job))
        finding_log_witnessed(pass);
}

void lull_run_findings_add(struct lull_run_pass *pass)
{
    uint64_t found[FINDINGS] = {0};
    bool has_rank = false;

    if (pass->control == NULL)
        return;
    for (uint32_t gpu = 0; gpu < lull_control_gpu_count(pass->control); gpu++) {
        bool is_over = lull_control_gpu(pass->control, gpu)->process < 0;

        has_rank = has_rank || !is_over;
        for (uint32_t i = 0; i < FINDINGS && !is_over; i++) {
            if (!findings[i].is_true(pass, gpu))
                continue;
            found[i] |= UINT64_C(1) << gpu;
            is_over = findings[i].is_final;
        }
    }
    if (!finding_log_placements(pass) && !has_rank)
        finding_log_no_rank(pass);
    for (uint32_t i = 0; i < FINDINGS; i++)
        if (found[i] != 0)
            finding_log(pass, &findings[i], found[i]);
}
