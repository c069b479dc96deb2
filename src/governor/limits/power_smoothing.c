/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/limits/power_smoothing.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/stats/random.h"
#include "core/stats/student.h"
#include "governor/run/run_statistics.h"
#include "governor/run/run_swing.h"

enum {
    FIRST_ITERATIONS = 3,  /* seen before the recording begins */
    RECORDED = 50,         /* readings of each GPU: 5 s */
    PIECE = 20,            /* readings of a piece of a block: 2 s */
    BLOCK_ITERATIONS = 4,  /* at least, in a block of at least a piece */
    MAX_PAIRS = 40,        /* of blocks */
    ADJUSTED_PAIRS = 3,    /* after which the floor may be changed */
    MAX_ADJUSTMENTS = 8,   /* changes of the floor */
    ADJUSTMENT_POINTS = 2, /* of the floor, % */
    RETREAT_POINTS = 5,    /* the same where the job looks slower */
    EXCESS_POINTS = 10,    /* the same where a lower floor may do */
};

/* After a change of smoothing, before a block begins: longer than a sensor's window and the ramps
 * of this plan. Default. */
static const int64_t settling_ns = 300 * LULL_NS_PER_MS;
/* Limits of waiting. Defaults. The first is for a job that never iterates. */
static const int64_t longest_wait_ns = 120 * LULL_NS_PER_S;
static const int64_t longest_answer_ns = 10 * LULL_NS_PER_S;
static const int64_t longest_block_ns = 60 * LULL_NS_PER_S;
/* With swings below this share of the bound a lower floor may do. Default: sensors average, so
 * recorded power looks less deep than it is, and the planned floor may be too high. */
static const double excess_ratio = 0.6;

enum smoothing_phase { WAITING, RECORDING, SETTING, MEASURING, HELD, ENDED };

/* The mean time and energy of an iteration in a block. */
struct block_result {
    double iteration_ms;
    double iteration_j;
};

struct lull_power_smoothing {
    struct lull_power_smoothing_options options;
    enum smoothing_phase phase;
    int64_t since_ns; /* begin of the phase; of MEASURING: from when on iterations count */
    uint32_t gpus[LULL_CONTROLLER_MAX_GPUS];
    uint32_t gpu_count;
    double recorded_w[LULL_CONTROLLER_MAX_GPUS * RECORDED];
    struct lull_smoothing_limits limits;
    struct lull_smoothing_plan plan;              /* the one under test, or held */
    bool is_on;                                   /* as last requested */
    uint64_t sequences[LULL_CONTROLLER_MAX_GPUS]; /* of the requests */
    uint32_t floor_w;
    struct lull_random random;
    bool is_second;                /* block of a pair */
    bool is_kept;                  /* proven: smoothing stays on */
    struct block_result blocks[2]; /* without and with smoothing */
    struct lull_swing before;
    struct lull_swing after;
    struct lull_moments added; /* energy, relative, one per pair */
    struct lull_guard guard;
    uint32_t adjustments;
    bool was_lowered; /* the floor cost too much, so it is not raised again */
    bool was_raised;  /* the floor missed the bound, so it is not lowered to save energy */
    int64_t held_ns;
    struct lull_error end; /* why smoothing is off */
};

struct lull_power_smoothing *
lull_power_smoothing_create(const struct lull_power_smoothing_options *options)
{
    struct lull_power_smoothing *smoothing = calloc(1, sizeof(*smoothing));

    if (smoothing == NULL)
        return NULL;
    smoothing->options = *options;
    lull_random_init(&smoothing->random, (uint64_t)lull_now_ns());
    return smoothing;
}

void lull_power_smoothing_destroy(struct lull_power_smoothing *smoothing)
{
    free(smoothing);
}

static void enter_phase(struct lull_power_smoothing *smoothing, enum smoothing_phase phase)
{
    smoothing->phase = phase;
    smoothing->since_ns = lull_now_ns();
}

static int64_t time_in_phase(const struct lull_power_smoothing *smoothing)
{
    return lull_now_ns() - smoothing->since_ns;
}

static void hold_clocks(struct lull_control *control, bool is_held)
{
    lull_control_lock(control);
    lull_control_hold(control, LULL_HOLD_SMOOTHING, is_held);
    lull_control_unlock(control);
}

/* Requests the floor under test, or none. */
static void request(struct lull_power_smoothing *smoothing, struct lull_control *control,
                    bool is_on)
{
    const struct lull_smoothing none = {0};

    smoothing->is_on = is_on;
    for (uint32_t i = 0; i < smoothing->gpu_count; i++)
        smoothing->sequences[i] = lull_control_set_smoothing(
            control, smoothing->gpus[i], is_on ? &smoothing->plan.smoothing : &none);
}

/* Ends the search without smoothing. The text says what happened, and then what to do. */
__attribute__((format(printf, 4, 5))) static void
end_without(struct lull_power_smoothing *smoothing, struct lull_control *control,
            struct lull_error *note_out, const char *format, ...)
{
    char text[sizeof(note_out->text)];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (smoothing->is_on)
        request(smoothing, control, false);
    enter_phase(smoothing, ENDED);
    lull_error_set(&smoothing->end, LULL_E_UNSUPPORTED,
                   "power smoothing does not bound the power swings: %.200s", text);
    *note_out = smoothing->end;
    hold_clocks(control, false);
}

/* ---- the job ----------------------------------------------------------------------------- */

static const struct lull_device_info *info_of(const struct lull_power_smoothing *smoothing,
                                              const struct lull_control *control, uint32_t i)
{
    return lull_control_info(control, smoothing->gpus[i]);
}

/* Finds the GPUs that ranks use. False: the job does not iterate yet, or a GPU is not leased yet.
 */
static bool find_job(struct lull_power_smoothing *smoothing, const struct lull_control *control)
{
    const struct lull_boundaries *boundaries = lull_run_statistics_boundaries(control);

    smoothing->gpu_count = 0;
    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++) {
        const struct lull_control_gpu *gpu = lull_control_gpu(control, i);

        if (gpu->process < 0)
            continue;
        if (!gpu->leased && gpu->refusal.code == 0)
            return false;
        smoothing->gpus[smoothing->gpu_count++] = i;
    }
    return smoothing->gpu_count > 0 && boundaries != NULL &&
           boundaries->count > boundaries->warmup + FIRST_ITERATIONS;
}

/* Checks that every GPU of the job can be smoothed. Errors say why not. */
static int check_job(const struct lull_power_smoothing *smoothing,
                     const struct lull_control *control, struct lull_error *err)
{
    for (uint32_t i = 0; i < smoothing->gpu_count; i++) {
        const struct lull_control_gpu *gpu = lull_control_gpu(control, smoothing->gpus[i]);
        const struct lull_device_info *info = info_of(smoothing, control, i);

        if (!gpu->leased)
            return lull_error_set(err, -EPERM, "GPU %u: %.150s", gpu->device, gpu->refusal.text);
        if ((info->capabilities & LULL_CAPABILITY_POWER_SMOOTHING) == 0)
            return lull_error_set(err, LULL_E_UNSUPPORTED,
                                  "GPU %u or its driver has none; use a larger --swing, or "
                                  "--steady 1%%",
                                  gpu->device);
        if (strcmp(info->name, info_of(smoothing, control, 0)->name) != 0)
            return lull_error_set(err, LULL_E_UNSUPPORTED,
                                  "the job's GPUs differ; use GPUs of one model");
    }
    return 0;
}

static void await_job(struct lull_power_smoothing *smoothing, struct lull_control *control,
                      struct lull_error *note_out)
{
    struct lull_error error = {0};
    bool is_found;
    int result = 0;

    if (smoothing->since_ns == 0) {
        enter_phase(smoothing, WAITING);
        hold_clocks(control, true);
    }
    lull_control_lock(control);
    is_found = find_job(smoothing, control);
    if (is_found)
        result = check_job(smoothing, control, &error);
    lull_control_unlock(control);
    if (result < 0)
        end_without(smoothing, control, note_out, "%s", error.text);
    else if (is_found)
        enter_phase(smoothing, RECORDING);
    else if (time_in_phase(smoothing) > longest_wait_ns)
        end_without(smoothing, control, note_out,
                    "no iteration was found in %d s; mark steps with lull_step()",
                    (int)(longest_wait_ns / LULL_NS_PER_S));
}

/* ---- the plan ---------------------------------------------------------------------------- */

/* Returns whether the power of every GPU is known for the recorded time. */
static bool load_recording(struct lull_power_smoothing *smoothing,
                           const struct lull_control *control)
{
    const int64_t length_ns = lull_ns_from_ms(RECORDED * LULL_RUN_SWING_STEP_S * 1e3);
    const int64_t begin_ns = lull_now_ns() - length_ns - settling_ns;
    bool is_known = true;

    memset(smoothing->recorded_w, 0, sizeof(smoothing->recorded_w));
    for (uint32_t gpu = 0; gpu < smoothing->gpu_count; gpu++) {
        double *const powers_w = smoothing->recorded_w + (size_t)gpu * RECORDED;

        lull_run_swing_powers(lull_control_log(control, smoothing->gpus[gpu]), begin_ns, RECORDED,
                              powers_w);
        for (uint32_t i = 0; i < RECORDED; i++)
            is_known = is_known && isfinite(powers_w[i]);
    }
    return is_known;
}

static struct lull_smoothing_series series_of(const struct lull_power_smoothing *smoothing)
{
    return (struct lull_smoothing_series){smoothing->recorded_w, smoothing->gpu_count, RECORDED,
                                          LULL_RUN_SWING_STEP_S};
}

/* Begins a block of a pair: the first of them by a coin, the second with the other setting. */
static void begin_block(struct lull_power_smoothing *smoothing, struct lull_control *control)
{
    const bool is_on =
        smoothing->is_second ? !smoothing->is_on : lull_random_below(&smoothing->random, 2) != 0;

    request(smoothing, control, is_on || smoothing->is_kept);
    enter_phase(smoothing, SETTING);
}

/* Begins to test a floor. All floors of a run share the error: the k-th one takes 1 / (k (k + 1))
 * of it. */
static void begin_test(struct lull_power_smoothing *smoothing, struct lull_control *control)
{
    const double k = smoothing->adjustments + 1.0;
    const double error = (1.0 - smoothing->options.confidence) / (k * (k + 1.0));
    const struct lull_guard_config config = {.tolerance_ratio = smoothing->options.tolerance_ratio,
                                             .error = error,
                                             .refusal_error = error,
                                             .max_pairs = MAX_PAIRS};

    lull_guard_init(&smoothing->guard, &config);
    smoothing->added = (struct lull_moments){0};
    smoothing->after = (struct lull_swing){0};
    smoothing->is_second = false;
    begin_block(smoothing, control);
}

static void make_plan(struct lull_power_smoothing *smoothing, struct lull_control *control,
                      struct lull_error *note_out)
{
    const struct lull_device_info *info = info_of(smoothing, control, 0);
    const struct lull_smoothing_series series = series_of(smoothing);

    smoothing->limits = (struct lull_smoothing_limits){
        .limit_w = info->power_limit_max_mw * 1e-3,
        .max_percent = info->smoothing_floor_percent,
        .bound_ratio = smoothing->options.bound_ratio,
        .max_added_ratio = LULL_POWER_SMOOTHING_MAX_ADDED,
    };
    lull_smoothing_plan_make(&series, &smoothing->limits, &smoothing->plan);
    if (smoothing->plan.result == LULL_SMOOTHING_NOT_NEEDED)
        end_without(smoothing, control, note_out,
                    "they are %.1f %% of the power, which is within --swing-bound; keep it",
                    100.0 * smoothing->plan.before_w / smoothing->plan.mean_w);
    else if (smoothing->plan.result == LULL_SMOOTHING_VOID)
        end_without(smoothing, control, note_out,
                    "no floor that adds at most %.0f %% of energy narrows them; use --steady 1%%",
                    100.0 * LULL_POWER_SMOOTHING_MAX_ADDED);
    else
        begin_test(smoothing, control);
}

static void record(struct lull_power_smoothing *smoothing, struct lull_control *control,
                   struct lull_error *note_out)
{
    const int64_t length_ns = lull_ns_from_ms(RECORDED * LULL_RUN_SWING_STEP_S * 1e3);
    bool is_known;

    if (time_in_phase(smoothing) < length_ns + 2 * settling_ns)
        return;
    lull_control_lock(control);
    is_known = load_recording(smoothing, control);
    lull_control_unlock(control);
    if (is_known)
        make_plan(smoothing, control, note_out);
    else if (time_in_phase(smoothing) > longest_block_ns)
        end_without(smoothing, control, note_out,
                    "the power of a GPU could not be read; run lull doctor");
}

/* ---- blocks ------------------------------------------------------------------------------ */

static const char *text_of_refusal(int status)
{
    switch (status) {
    case -EACCES:
        return "lulld's policy does not permit it; an administrator permits it with "
               "power-smoothing = yes in lulld-policy(5)";
    case -EBUSY:
        return "another program or an administrator uses it; see nvidia-smi power-smoothing";
    case -EPERM:
        return "the driver refuses it; use lulld, or run as root";
    default:
        return "the driver could not set it; lulld's log has the reason";
    }
}

/* Waits until every GPU has the requested setting. */
static void await_setting(struct lull_power_smoothing *smoothing, struct lull_control *control,
                          struct lull_error *note_out)
{
    for (uint32_t i = 0; i < smoothing->gpu_count; i++) {
        struct lull_limit_result result;

        lull_control_limit_result(control, smoothing->gpus[i], &result);
        if (result.smoothing_sequence >= smoothing->sequences[i] && result.smoothing_status < 0) {
            end_without(smoothing, control, note_out, "%s",
                        text_of_refusal(result.smoothing_status));
            return;
        }
        if (result.smoothing_sequence < smoothing->sequences[i]) {
            if (time_in_phase(smoothing) > longest_answer_ns)
                end_without(smoothing, control, note_out,
                            "lulld does not answer; use a lulld of this version");
            return;
        }
        if (smoothing->is_on)
            smoothing->floor_w = result.smoothing_floor_w;
    }
    enter_phase(smoothing, smoothing->is_kept ? HELD : MEASURING);
    smoothing->since_ns += settling_ns;
    if (!smoothing->is_kept)
        return;
    smoothing->held_ns = smoothing->since_ns;
    hold_clocks(control, false);
}

/* The iterations of a block: from the first to the last boundary. */
struct block_span {
    int64_t begin_ns;
    int64_t end_ns;
    size_t iterations;
};

/* Finds a block that is long enough. False: there is none yet. */
static bool find_block(const struct lull_control *control, int64_t since_ns,
                       struct block_span *span_out)
{
    const struct lull_boundaries *boundaries = lull_run_statistics_boundaries(control);
    const int64_t length_ns = lull_ns_from_ms(PIECE * LULL_RUN_SWING_STEP_S * 1e3);
    struct block_span span = {0};

    for (size_t i = boundaries != NULL ? boundaries->warmup : 0;
         boundaries != NULL && i < boundaries->count; i++) {
        const struct lull_boundary *boundary = &boundaries->items[i];

        if (boundary->time_ns < since_ns)
            continue;
        if (span.begin_ns == 0 || boundary->first)
            span = (struct block_span){.begin_ns = boundary->time_ns};
        else
            span.iterations++;
        span.end_ns = boundary->time_ns;
        if (span.iterations >= BLOCK_ITERATIONS && span.end_ns - span.begin_ns > length_ns) {
            *span_out = span;
            return true;
        }
    }
    return false;
}

/* Adds the swings of a block, in pieces. */
static void add_swings(const struct lull_power_smoothing *smoothing,
                       const struct lull_control *control, const struct block_span *span,
                       struct lull_swing *swing)
{
    const int64_t piece_ns = lull_ns_from_ms(PIECE * LULL_RUN_SWING_STEP_S * 1e3);

    for (int64_t begin_ns = span->begin_ns; begin_ns + piece_ns <= span->end_ns;
         begin_ns += piece_ns) {
        double powers_w[PIECE] = {0};

        for (uint32_t i = 0; i < smoothing->gpu_count; i++)
            lull_run_swing_powers(lull_control_log(control, smoothing->gpus[i]), begin_ns, PIECE,
                                  powers_w);
        lull_swing_add(swing, powers_w, PIECE, LULL_RUN_SWING_STEP_S);
    }
}

/* Takes the results of a block whose energy is known. False: it is not over. */
static bool take_block(struct lull_power_smoothing *smoothing, const struct lull_control *control)
{
    struct block_result *result = &smoothing->blocks[smoothing->is_on];
    const int64_t offset_ns = lull_run_statistics_reading_offset_ns(control, smoothing->gpus[0]);
    struct block_span span;
    double energy_j;

    if (!find_block(control, smoothing->since_ns, &span) ||
        !lull_run_statistics_energy_between(control, span.begin_ns + offset_ns,
                                            span.end_ns + offset_ns, &energy_j))
        return false;
    result->iteration_ms = lull_ms_from_ns(span.end_ns - span.begin_ns) / (double)span.iterations;
    result->iteration_j = energy_j / (double)span.iterations;
    add_swings(smoothing, control, &span,
               smoothing->is_on ? &smoothing->after : &smoothing->before);
    return true;
}

/* ---- decisions --------------------------------------------------------------------------- */

static double standard_error(const struct lull_moments *moments)
{
    return sqrt(lull_moments_variance(moments) / (double)moments->count);
}

/* Returns by how many points the floor is to be changed: down if it costs too much or more than the
 * bound needs, up if it misses the bound and may cost more. */
static int find_adjustment(struct lull_power_smoothing *smoothing)
{
    const struct lull_moments *added = &smoothing->added;
    const double error = standard_error(added);
    const double allowed_w = smoothing->options.bound_ratio * smoothing->before.mean_w.mean;
    const uint32_t floor_percent = smoothing->plan.smoothing.floor_percent;

    if (added->count < ADJUSTED_PAIRS || smoothing->adjustments == MAX_ADJUSTMENTS)
        return 0;
    if (added->mean - 2.0 * error > LULL_POWER_SMOOTHING_MAX_ADDED &&
        floor_percent > ADJUSTMENT_POINTS) {
        smoothing->was_lowered = true;
        return -ADJUSTMENT_POINTS;
    }
    if (smoothing->after.band_w.mean > allowed_w && !smoothing->was_lowered &&
        added->mean + error < LULL_POWER_SMOOTHING_MAX_ADDED &&
        floor_percent + ADJUSTMENT_POINTS <= smoothing->limits.max_percent)
        return ADJUSTMENT_POINTS;
    if (smoothing->after.band_w.mean < excess_ratio * allowed_w && !smoothing->was_raised &&
        floor_percent > EXCESS_POINTS)
        return -EXCESS_POINTS;
    return 0;
}

/* A floor raises the mean power, so a GPU near its power limit may lower its clock. Returns the
 * change to a cheaper floor, with which that is less likely; 0: no lower one narrows the swings. */
static int find_retreat(const struct lull_power_smoothing *smoothing)
{
    const uint32_t floor_percent = smoothing->plan.smoothing.floor_percent;
    const struct lull_smoothing_series series = series_of(smoothing);
    struct lull_smoothing_plan lower;

    if (smoothing->adjustments == MAX_ADJUSTMENTS || floor_percent <= RETREAT_POINTS)
        return 0;
    lull_smoothing_plan_predict(&series, &smoothing->limits, floor_percent - RETREAT_POINTS,
                                &lower);
    return lower.after_w < lower.before_w ? -RETREAT_POINTS : 0;
}

static void adjust_floor(struct lull_power_smoothing *smoothing, struct lull_control *control,
                         int points)
{
    const struct lull_smoothing_series series = series_of(smoothing);
    const uint32_t floor_percent =
        (uint32_t)((int)smoothing->plan.smoothing.floor_percent + points);

    smoothing->adjustments++;
    smoothing->was_raised = smoothing->was_raised || points > 0;
    lull_smoothing_plan_predict(&series, &smoothing->limits, floor_percent, &smoothing->plan);
    begin_test(smoothing, control);
}

/* Logs what is held, and notes that the bound is not met. */
static void announce(struct lull_power_smoothing *smoothing, struct lull_error *note_out)
{
    struct lull_power_smoothing_summary now;

    lull_power_smoothing_summary(smoothing, &now);
    lull_log(LULL_LOG_INFO, "run",
             "power smoothing: power swings by %.1f instead of %.1f %% of the power, for %.1f %% "
             "more energy",
             100.0 * now.after.band_w.mean / now.before.mean_w.mean,
             100.0 * now.before.band_w.mean / now.before.mean_w.mean, 100.0 * now.added_ratio);
    if (!lull_power_smoothing_is_bounded(&now))
        lull_error_set(note_out, LULL_E_UNSUPPORTED,
                       "power smoothing does not meet --swing-bound: the power swings by %.1f %% "
                       "at a floor of %u %%, since a higher floor costs more than %.0f %% of "
                       "energy or is not possible; use a larger --swing-bound",
                       100.0 * now.after.band_w.mean / now.before.mean_w.mean,
                       now.settings.floor_percent, 100.0 * LULL_POWER_SMOOTHING_MAX_ADDED);
}

/* Decides after a pair of blocks. */
static void judge_pair(struct lull_power_smoothing *smoothing, struct lull_control *control,
                       struct lull_error *note_out)
{
    const struct block_result *without = &smoothing->blocks[false];
    const struct block_result *with = &smoothing->blocks[true];
    enum lull_verdict verdict;
    int points;

    lull_guard_add(&smoothing->guard, without->iteration_ms, with->iteration_ms);
    lull_moments_add(&smoothing->added, with->iteration_j / without->iteration_j - 1.0);
    smoothing->is_second = false;
    points = find_adjustment(smoothing);
    if (points != 0) {
        adjust_floor(smoothing, control, points);
        return;
    }
    verdict = lull_guard_verdict(&smoothing->guard);
    if (verdict != LULL_VERDICT_UNDECIDED &&
        (verdict != LULL_VERDICT_NOT_DEGRADED ||
         smoothing->added.mean > LULL_POWER_SMOOTHING_MAX_ADDED))
        points = find_retreat(smoothing);
    smoothing->was_lowered = smoothing->was_lowered || points < 0;
    if (verdict == LULL_VERDICT_UNDECIDED) {
        begin_block(smoothing, control);
    } else if (points != 0) {
        adjust_floor(smoothing, control, points);
    } else if (verdict != LULL_VERDICT_NOT_DEGRADED) {
        end_without(smoothing, control, note_out,
                    "it is not proven that the job is not slower with it; use a longer run, or a "
                    "larger --tolerance");
    } else if (smoothing->added.mean > LULL_POWER_SMOOTHING_MAX_ADDED) {
        end_without(smoothing, control, note_out,
                    "it adds %.1f %% of energy, and %.0f %% is permitted; use --steady 1%%",
                    100.0 * smoothing->added.mean, 100.0 * LULL_POWER_SMOOTHING_MAX_ADDED);
    } else {
        smoothing->is_kept = true;
        begin_block(smoothing, control);
        announce(smoothing, note_out);
    }
}

static void measure(struct lull_power_smoothing *smoothing, struct lull_control *control,
                    struct lull_error *note_out)
{
    bool is_over;

    lull_control_lock(control);
    is_over = take_block(smoothing, control);
    lull_control_unlock(control);
    if (!is_over && time_in_phase(smoothing) > longest_block_ns)
        end_without(smoothing, control, note_out,
                    "the job's iterations or its energy are not known; run lull doctor");
    if (!is_over)
        return;
    if (smoothing->is_second) {
        judge_pair(smoothing, control, note_out);
        return;
    }
    smoothing->is_second = true;
    begin_block(smoothing, control);
}

void lull_power_smoothing_tick(struct lull_power_smoothing *smoothing, struct lull_control *control,
                               struct lull_error *note_out)
{
    *note_out = (struct lull_error){0};
    switch (smoothing->phase) {
    case WAITING:
        await_job(smoothing, control, note_out);
        return;
    case RECORDING:
        record(smoothing, control, note_out);
        return;
    case SETTING:
        await_setting(smoothing, control, note_out);
        return;
    case MEASURING:
        measure(smoothing, control, note_out);
        return;
    case HELD:
    case ENDED:
        return;
    }
}

void lull_power_smoothing_resume(struct lull_power_smoothing *smoothing,
                                 struct lull_control *control)
{
    if (smoothing->phase == HELD)
        request(smoothing, control, true);
    else if (smoothing->phase == SETTING || smoothing->phase == MEASURING)
        begin_test(smoothing, control);
}

/* ---- results ----------------------------------------------------------------------------- */

/* The interval of the added energy at the confidence of the run. */
static void find_added(const struct lull_power_smoothing *smoothing,
                       struct lull_power_smoothing_summary *summary)
{
    const struct lull_moments *added = &smoothing->added;
    const double p = 0.5 + 0.5 * smoothing->options.confidence;
    double half = INFINITY;

    summary->added_ratio = added->count > 0 ? added->mean : (double)NAN;
    if (added->count >= 2)
        half = lull_student_quantile(p, (double)added->count - 1.0) * standard_error(added);
    summary->added_low_ratio = summary->added_ratio - half;
    summary->added_high_ratio = summary->added_ratio + half;
}

void lull_power_smoothing_summary(const struct lull_power_smoothing *smoothing,
                                  struct lull_power_smoothing_summary *summary_out)
{
    *summary_out = (struct lull_power_smoothing_summary){
        .is_held = smoothing->is_kept,
        .held_ns = smoothing->held_ns,
        .bound_ratio = smoothing->options.bound_ratio,
        .settings = smoothing->plan.smoothing,
        .floor_w = smoothing->floor_w,
        .before = smoothing->before,
        .after = smoothing->after,
    };
    if (smoothing->phase == ENDED)
        summary_out->reason = smoothing->end.text;
    else if (!smoothing->is_kept)
        summary_out->reason =
            "power smoothing does not bound the power swings: the run ended while it was tested; "
            "use a longer run";
    find_added(smoothing, summary_out);
    if (smoothing->added.count > 0)
        lull_guard_estimate(&smoothing->guard, &summary_out->slowdown);
    else
        summary_out->slowdown = (struct lull_guard_estimate){NAN, NAN, NAN, 0};
}

bool lull_power_smoothing_is_bounded(const struct lull_power_smoothing_summary *summary)
{
    return summary->after.band_w.mean <= summary->bound_ratio * summary->before.mean_w.mean;
}
