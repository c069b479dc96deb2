/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/stages.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

static const double most_w = 1e6;
static const double max_sync_ms = 1e5; /* as long as an operation may be */

const struct lull_device_curve *lull_plan_stages_model(const char *text, double *count_out)
{
    char *end;
    const unsigned long count = strtoul(text, &end, 10);
    const bool is_counted = end != text && *end == 'x' && count > 0 && count <= 1024;
    const char *const name = is_counted ? end + 1 : text;

    *count_out = is_counted ? (double)count : 1.0;
    return lull_device_curve_find(name, strlen(name));
}

/* ---- blocking power ---------------------------------------------------------------------- */

/* The power of one GPU that is blocked in a receive, as the authors of Perseus (SOSP'24) measured
 * it. */
static const struct {
    const char *model;
    double watts;
} measured_blocking[] = {{"A100-SXM4-80GB", 83.64}, {"A100-SXM4-40GB", 83.64}, {"A40", 70.38}};

/* The power of "A100-SXM4-80GB", or of "8xA100-SXM4-80GB" for stages of eight. Returns 0 if no such
 * model was measured. */
static double blocking_of_model(const char *text)
{
    double count;
    const struct lull_device_curve *const model = lull_plan_stages_model(text, &count);

    for (size_t i = 0; i < sizeof(measured_blocking) / sizeof(measured_blocking[0]); i++)
        if (model != NULL && strcmp(model->name, measured_blocking[i].model) == 0)
            return measured_blocking[i].watts * count;
    return 0.0;
}

static int refuse_blocking(const char *text, uint32_t stages, struct lull_error *err)
{
    return lull_error_set(err, -EINVAL,
                          "--blocking-w %.60s: expected watts that are not negative, one number or "
                          "one for each of %u stages (85 or 80,80,91), or a GPU whose blocking "
                          "power was measured (A100-SXM4-80GB, A40; 8xA40 for eight of them)",
                          text, stages);
}

/* Reads a number from 0 to most. */
static int parse_one(const char *text, size_t length, double most, double *value_out)
{
    char number[32];

    if (length >= sizeof(number) || strspn(text, "0123456789.eE+-") < length)
        return -EINVAL;
    memcpy(number, text, length);
    number[length] = '\0';
    if (lull_text_parse_number(number, value_out) < 0 || *value_out < 0.0 || *value_out > most)
        return -EINVAL;
    return 0;
}

/* Reads one number for all stages, or one for each, into as many places as there are stages. */
static int parse_per_stage(const char *text, uint32_t stages, double most, double *value_out)
{
    uint32_t count = 0;

    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");

        if (count == stages || parse_one(at, length, most, &value_out[count]) < 0)
            return -EINVAL;
        count++;
        at += length;
        if (*at == '\0')
            break;
    }
    if (count != 1 && count != stages)
        return -EINVAL;
    for (uint32_t stage = count; stage < stages; stage++)
        value_out[stage] = value_out[0];
    return 0;
}

int lull_plan_stages_blocking(const char *text, struct lull_plan_task *task, struct lull_error *err)
{
    const double of_model = text != NULL ? blocking_of_model(text) : LULL_PLAN_BLOCKING_W;

    task->blocking_w = calloc(task->stages, sizeof(*task->blocking_w));
    if (task->blocking_w == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %u stages", task->stages);
    if (of_model == 0.0) {
        if (parse_per_stage(text, task->stages, most_w, task->blocking_w) < 0)
            return refuse_blocking(text, task->stages, err);
        return 0;
    }
    for (uint32_t stage = 0; stage < task->stages; stage++)
        task->blocking_w[stage] = of_model;
    return 0;
}

int lull_plan_stages_spread(struct lull_plan_task *task, struct lull_error *err)
{
    const uint32_t devices = task->graph.device_count;
    double *const spread = reallocarray(task->blocking_w, devices, sizeof(*spread));

    if (spread == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %u devices", devices);
    task->blocking_w = spread;
    for (uint32_t device = 0; device < devices; device++) {
        spread[device] = spread[device % task->stages];
        task->blocking_sum_w += spread[device];
    }
    return 0;
}

/* ---- data parallel copies ---------------------------------------------------------------- */

/* Names the profiles of the copies that have their own. */
static void set_profiles(const struct lull_plan_task *task, struct lull_plan_shape *shape)
{
    const struct lull_plan_profiles *const profiles = task->profiles;

    if (profiles->copy_count == 0)
        return;
    shape->measured = lull_memory_take(&shape->memory, (size_t)task->source->replicas,
                                       sizeof(shape->measured[0]));
    for (uint32_t i = 0; shape->measured != NULL && i < profiles->copy_count; i++)
        shape->measured[i + 1] = &profiles->copies[i];
}

/* Reads how long the copies of each stage synchronise, and what that takes. */
static int set_syncs(const struct lull_plan_task *task, struct lull_plan_shape *shape,
                     struct lull_error *err)
{
    const uint32_t stages = task->stages;
    double *const time_ms = lull_memory_take(&shape->memory, stages, sizeof(*time_ms));

    shape->sync_ns = lull_memory_take(&shape->memory, stages, sizeof(*shape->sync_ns));
    shape->sync_energy_nj =
        lull_memory_take(&shape->memory, stages, sizeof(*shape->sync_energy_nj));
    if (shape->memory.has_failed)
        return lull_error_set(err, -ENOMEM, "no memory for %u stages", stages);
    if (task->source->sync != NULL &&
        parse_per_stage(task->source->sync, stages, max_sync_ms, time_ms) < 0)
        return lull_error_set(err, -EINVAL,
                              "--sync-ms %.60s: expected milliseconds from 0 to 100000, one number "
                              "or one for each of %u stages (12 or 12,10,15)",
                              task->source->sync, stages);
    for (uint32_t stage = 0; stage < stages; stage++) {
        shape->sync_ns[stage] = lull_ns_from_ms(time_ms[stage]);
        shape->sync_energy_nj[stage] =
            llround(task->blocking_w[stage] * (double)shape->sync_ns[stage]); /* W ns */
    }
    return 0;
}

int lull_plan_shape_init(const struct lull_plan_task *task, struct lull_plan_shape *shape,
                         struct lull_error *err)
{
    const struct lull_plan_source *const source = task->source;
    int result;

    *shape = (struct lull_plan_shape){.latency_ns = lull_ns_from_ms(source->latency_ms)};
    set_profiles(task, shape);
    result = set_syncs(task, shape, err);
    shape->shape = (struct lull_pipeline_shape){
        .devices = (uint32_t)source->stages,
        .microbatches = (uint32_t)source->microbatches,
        .links = {&shape->latency_ns, shape->latency_ns > 0 ? 1 : 0},
        .replicas = {.count = (uint32_t)source->replicas,
                     .sync_ns = shape->sync_ns,
                     .sync_energy_nj = shape->sync_energy_nj,
                     .sync_count = source->sync != NULL ? task->stages : 0,
                     .measured = shape->measured},
    };
    return result;
}

int lull_plan_stages_counts(const char *text, uint32_t stages, double most, uint32_t *counts_out)
{
    double *const values = calloc(stages, sizeof(*values));
    int result = values == NULL ? -ENOMEM : parse_per_stage(text, stages, most, values);

    for (uint32_t stage = 0; result == 0 && stage < stages; stage++) {
        counts_out[stage] = (uint32_t)values[stage];
        if (counts_out[stage] == 0 || values[stage] > (double)counts_out[stage])
            result = -EINVAL;
    }
    free(values);
    return result;
}
