/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live_json.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/node_json.h"
#include "governor/report/report_fields.h"

/* A figure of a struct, under a key. */
struct figure_row {
    const char *key;
    size_t offset;
};

#define RUN_ROW(FIELD)                                                                             \
    {                                                                                              \
#FIELD, offsetof(struct lull_live_run, FIELD)                                              \
    }
#define SERVING_ROW(FIELD)                                                                         \
    {                                                                                              \
#FIELD, offsetof(struct lull_live_serving, FIELD)                                          \
    }
#define GPU_ROW(FIELD)                                                                             \
    {                                                                                              \
#FIELD, offsetof(struct lull_live_gpu, FIELD)                                              \
    }

static const struct figure_row run_rows[] = {
    RUN_ROW(iteration_ms),
    RUN_ROW(iterations_left),
    RUN_ROW(saving_ratio),
    RUN_ROW(slowdown_ratio),
    RUN_ROW(slowdown_upper_ratio),
    RUN_ROW(whole_slowdown_ratio),
    RUN_ROW(power_w),
    RUN_ROW(whole_slowdown_upper_ratio),
    RUN_ROW(energy_j),
    RUN_ROW(budget_earned_ms),
    RUN_ROW(budget_left_ms),
    {NULL, 0},
};

static const struct figure_row gpu_rows[] = {
    GPU_ROW(clock_mhz),     GPU_ROW(wanted_mhz),
    GPU_ROW(lowest_mhz),    GPU_ROW(highest_mhz),
    GPU_ROW(power_w),       GPU_ROW(power_limit_w),
    GPU_ROW(energy_j),      GPU_ROW(temperature_c),
    GPU_ROW(lowered_ratio), {NULL, 0},
};

static const struct figure_row serving_rows[] = {
    SERVING_ROW(ttft_bound_ms),
    SERVING_ROW(tpot_bound_ms),
    SERVING_ROW(share_ratio),
    SERVING_ROW(running),
    SERVING_ROW(waiting),
    SERVING_ROW(requests),
    SERVING_ROW(missed_ratio),
    SERVING_ROW(missed_bound_ratio),
    SERVING_ROW(ttft_p50_ms),
    SERVING_ROW(ttft_p99_ms),
    SERVING_ROW(tpot_p50_ms),
    SERVING_ROW(tpot_p99_ms),
    SERVING_ROW(tokens_per_s),
    SERVING_ROW(j_per_output_token),
    SERVING_ROW(j_per_request),
    SERVING_ROW(clock_mhz),
    {NULL, 0},
};

static void set_figure(json_t *object, json_t *unknown, const char *key,
                       const struct lull_live_figure *figure)
{
    lull_field_number(object, key, figure->value);
    if (!isfinite(figure->value))
        lull_field_text(unknown, key, lull_live_unknown_text(figure->unknown));
}

/* Sets the figures that the rows name of a struct. */
static void set_figures(json_t *object, json_t *unknown, const struct figure_row *rows,
                        const void *from)
{
    for (; rows->key != NULL; rows++)
        set_figure(object, unknown, rows->key,
                   (const struct lull_live_figure *)((const char *)from + rows->offset));
}

/* Sets a text that the user of a governor chose; one that is empty is null. */
static void live_json_set_text(json_t *object, const char *key, const char *text)
{
    lull_field_text(object, key, text[0] != '\0' ? text : NULL);
}

static void set_count(json_t *object, const char *key, uint64_t count)
{
    lull_field_integer(object, key,
                       (json_int_t)(count < (uint64_t)INT64_MAX ? count : (uint64_t)INT64_MAX));
}

/* ---- GPUs -------------------------------------------------------------------------------- */

static json_t *sections_as_json(const struct lull_live_gpu *gpu)
{
    json_t *const sections = json_array();

    for (uint32_t i = LULL_LIVE_COMPUTATION; i < LULL_LIVE_SECTION_COUNT; i++) {
        const struct lull_live_sections *const kind = &gpu->sections[i];
        json_t *section;
        json_t *unknown;

        if (kind->count == 0)
            continue;
        section = json_object();
        unknown = json_object();
        lull_field_text(section, "class", lull_live_section_text(i));
        set_count(section, "count", kind->count);
        lull_field_number(section, "seconds", kind->seconds);
        set_figure(section, unknown, "energy_j", &kind->energy_j);
        lull_field_json(section, "unknown", unknown);
        json_array_append_new(sections, section);
    }
    return sections;
}

/* Sets why the clock is not at the highest, as words. */
static void set_throttled(json_t *object, json_t *unknown, const struct lull_live_figure *throttled)
{
    if (isfinite(throttled->value) && throttled->value >= 0.0 && throttled->value < 0x1p53) {
        lull_field_json(object, "throttled",
                        lull_node_words_json(lull_node_reasons, (uint64_t)throttled->value));
        return;
    }
    lull_field_json(object, "throttled", json_null());
    lull_field_text(unknown, "throttled", lull_live_unknown_text(throttled->unknown));
}

static void set_counts(json_t *object, const struct lull_live_gpu *gpu)
{
    set_count(object, "energy_resets", gpu->energy_resets);
    lull_field_number(object, "energy_estimated_s", gpu->energy_estimated_s);
    set_count(object, "forecasts", gpu->forecasts);
    set_count(object, "forecast_hits", gpu->forecast_hits);
    set_count(object, "switches", gpu->switches);
    set_count(object, "refused", gpu->refused);
    set_count(object, "driver_calls", gpu->driver_calls);
    set_count(object, "slow_calls", gpu->slow_calls);
    set_count(object, "events", gpu->events);
    set_count(object, "lost_events", gpu->lost_events);
    set_count(object, "lost_records", gpu->lost_records);
}

static json_t *live_json_from_gpu(const struct lull_live_gpu *gpu, int64_t now_ns)
{
    json_t *const object = json_object();
    json_t *const unknown = json_object();

    lull_field_integer(object, "index", gpu->index);
    live_json_set_text(object, "uuid", gpu->uuid);
    live_json_set_text(object, "name", gpu->name);
    lull_field_text(object, "state", lull_live_state_text(gpu->state));
    live_json_set_text(object, "state_text", gpu->state_text);
    live_json_set_text(object, "driver_text", gpu->driver_text);
    lull_field_boolean(object, "leased", gpu->is_leased != 0);
    lull_field_integer(object, "ranks", gpu->ranks);
    lull_field_text(object, "section", lull_live_section_text(gpu->section));
    live_json_set_text(object, "section_name", gpu->section_name);
    lull_field_known(object, "section_s", (double)(now_ns - gpu->section_begin_ns) * 1e-9,
                     gpu->section_begin_ns != 0);
    if (gpu->section_begin_ns == 0)
        lull_field_text(unknown, "section_s", lull_live_unknown_text(LULL_LIVE_TOO_EARLY));
    set_figures(object, unknown, gpu_rows, gpu);
    set_throttled(object, unknown, &gpu->throttled);
    set_counts(object, gpu);
    lull_field_json(object, "sections", sections_as_json(gpu));
    lull_field_json(object, "unknown", unknown);
    return object;
}

/* ---- the server -------------------------------------------------------------------------- */

static json_t *serving_as_json(const struct lull_live_serving *serving, int64_t now_ns)
{
    const bool is_parked = serving->parked_since_ns != 0;
    const double parked_now_s = (double)(now_ns - serving->parked_since_ns) * 1e-9;
    const struct lull_live_figure missed =
        lull_live_figure(round(serving->missed_ratio.value * serving->requests.value),
                         (enum lull_live_unknown)(isfinite(serving->missed_ratio.value)
                                                      ? serving->requests.unknown
                                                      : serving->missed_ratio.unknown));
    json_t *const object = json_object();
    json_t *const unknown = json_object();
    char objective[LULL_LIVE_WORD_BYTES];

    lull_live_objective_text(serving, objective, sizeof(objective));
    live_json_set_text(object, "engine", serving->engine);
    live_json_set_text(object, "metrics", serving->metrics);
    live_json_set_text(object, "objective", objective);
    lull_field_text(object, "mode", lull_live_mode_text(serving->mode));
    live_json_set_text(object, "reason", serving->reason);
    set_figures(object, unknown, serving_rows, serving);
    set_figure(object, unknown, "missed", &missed);
    lull_field_known(object, "parked_now_s", parked_now_s, is_parked);
    if (!is_parked)
        lull_field_text(unknown, "parked_now_s", "the GPUs are not parked");
    lull_field_number(object, "parked_s", serving->parked_s + (is_parked ? parked_now_s : 0.0));
    lull_field_json(object, "unknown", unknown);
    return object;
}

/* Sets the estimate of a server in place of what a training job saves by its accepted points. */
static void set_saving(json_t *object, json_t *unknown, const struct lull_live_figure *saved_ratio)
{
    json_object_del(unknown, "saving_ratio");
    set_figure(object, unknown, "saving_ratio", saved_ratio);
}

/* ---- the run ----------------------------------------------------------------------------- */

static void set_identity(json_t *object, const struct lull_live_entry *entry,
                         const struct lull_live_run *run, int64_t now_ns)
{
    live_json_set_text(object, "name", entry->file);
    lull_field_integer(object, "uid", (json_int_t)entry->user);
    lull_field_integer(object, "pid", run->pid);
    live_json_set_text(object, "pass", run->pass);
    live_json_set_text(object, "title", run->title);
    live_json_set_text(object, "command", run->command);
    live_json_set_text(object, "report", run->report);
    live_json_set_text(object, "slurm_job", run->slurm_job);
    live_json_set_text(object, "slurm_step", run->slurm_step);
    live_json_set_text(object, "slurm_name", run->slurm_name);
    live_json_set_text(object, "pod", run->pod);
    live_json_set_text(object, "pod_namespace", run->pod_namespace);
    lull_field_number(object, "begin_s", (double)run->begin_unix_ns * 1e-9);
    lull_field_number(object, "run_s", (double)(now_ns - run->begin_ns) * 1e-9);
    lull_field_number(object, "age_s", (double)(now_ns - run->written_ns) * 1e-9);
}

static void set_hang(json_t *object, const struct lull_live_run *run, int64_t now_ns)
{
    const bool is_hung = run->hang[0] != '\0';

    lull_field_boolean(object, "hung", is_hung);
    live_json_set_text(object, "hang", run->hang);
    lull_field_known(object, "hang_s", (double)(now_ns - run->hang_since_ns) * 1e-9, is_hung);
    lull_field_json(object, "missing_rank",
                    is_hung && run->missing_rank >= 0 ? json_integer(run->missing_rank)
                                                      : json_null());
}

json_t *lull_live_run_json(const struct lull_live_entry *entry, const struct lull_live_run *run,
                           int64_t now_ns)
{
    json_t *const object = json_object();
    json_t *const unknown = json_object();
    json_t *const gpus = json_array();

    set_identity(object, entry, run, now_ns);
    lull_field_number(object, "tolerance_ratio", run->tolerance_ratio);
    lull_field_number(object, "confidence_ratio", run->confidence);
    lull_field_text(object, "ruler", lull_live_ruler_text(run->ruler));
    lull_field_text(object, "verdict", lull_live_verdict_text(run->verdict));
    live_json_set_text(object, "learning", run->learning);
    live_json_set_text(object, "note", run->note);
    set_hang(object, run, now_ns);
    lull_field_boolean(object, "paused", run->is_paused != 0);
    lull_field_boolean(object, "lost_leases", run->has_lost_leases != 0);
    set_count(object, "iterations", run->iterations);
    set_figures(object, unknown, run_rows, run);
    if (run->serving.mode != LULL_LIVE_MODE_NONE)
        set_saving(object, unknown, &run->serving.saved_ratio);
    lull_field_json(object, "serving",
                    run->serving.mode != LULL_LIVE_MODE_NONE
                        ? serving_as_json(&run->serving, now_ns)
                        : json_null());
    for (uint32_t i = 0; i < run->gpu_count; i++)
        if (run->gpus[i].state != LULL_LIVE_UNUSED)
            json_array_append_new(gpus, live_json_from_gpu(&run->gpus[i], now_ns));
    lull_field_integer(object, "gpus_unused",
                       (json_int_t)run->gpu_count - (json_int_t)json_array_size(gpus));
    lull_field_json(object, "gpus", gpus);
    lull_field_json(object, "unknown", unknown);
    return object;
}
