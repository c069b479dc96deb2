/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "core/pipeline/schedule/schedule.h"
#include "emulator/gpu_model.h"
#include "trace/graph_lines.h"
#include "trace/pipeline_profile.h"
#include "trace/source.h"
#include "trace/torch_schedule.h"

/* ---- blocking power ---------------------------------------------------------------------- */

/* Of one GPU blocked in a receive, as the authors of Perseus (SOSP'24) measured it. */
static const struct {
    const char *model;
    double watts;
} measured_blocking[] = {{"A100-SXM4-80GB", 83.64}, {"A100-SXM4-40GB", 83.64}, {"A40", 70.38}};

/* "A100-SXM4-80GB", or "8xA100-SXM4-80GB" for stages of eight. Returns 0: no model that was
 * measured. */
static double blocking_of_model(const char *text)
{
    char *end;
    const unsigned long count = strtoul(text, &end, 10);
    const bool is_counted = end != text && *end == 'x' && count > 0 && count <= 1024;
    const char *const name = is_counted ? end + 1 : text;
    const struct lull_gpu_model *const model = lull_gpu_model_find(name, (uint32_t)strlen(name));

    for (size_t i = 0; i < sizeof(measured_blocking) / sizeof(measured_blocking[0]); i++)
        if (model != NULL && strcmp(model->name, measured_blocking[i].model) == 0)
            return measured_blocking[i].watts * (is_counted ? (double)count : 1.0);
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

static int parse_watts(const char *text, size_t length, double *watts_out)
{
    char number[32];

    if (length >= sizeof(number) || strspn(text, "0123456789.eE+-") < length)
        return -EINVAL;
    memcpy(number, text, length);
    number[length] = '\0';
    return lull_text_parse_number(number, watts_out) < 0 || *watts_out < 0.0 || *watts_out > 1e6
               ? -EINVAL
               : 0;
}

/* Of every stage; stages have room for what the text may hold. */
static int parse_blocking(const char *text, uint32_t stages, double *watts_out,
                          struct lull_error *err)
{
    const double of_model = blocking_of_model(text);
    uint32_t count = 0;

    for (const char *at = text; of_model == 0.0; count++) {
        const char *const end = at + strcspn(at, ",");

        if (count == stages || parse_watts(at, (size_t)(end - at), &watts_out[count]) < 0)
            return refuse_blocking(text, stages, err);
        if (*end == '\0') {
            count++;
            break;
        }
        at = end + 1;
    }
    if (of_model == 0.0 && count != 1 && count != stages)
        return refuse_blocking(text, stages, err);
    for (uint32_t stage = count == stages ? stages : 0; stage < stages; stage++)
        watts_out[stage] = of_model > 0.0 ? of_model : watts_out[0];
    return 0;
}

static int set_blocking(const char *text, struct lull_plan_task *task, struct lull_error *err)
{
    const uint32_t devices = task->graph.device_count;
    int result = 0;

    task->blocking_w = calloc(devices, sizeof(*task->blocking_w));
    if (task->blocking_w == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %u devices", devices);
    task->blocking_w[0] = LULL_PLAN_BLOCKING_W;
    result = parse_blocking(text != NULL ? text : "85", task->stages, task->blocking_w, err);
    for (uint32_t device = 0; device < devices && result == 0; device++) {
        task->blocking_w[device] = task->blocking_w[device % task->stages]; /* copies alike */
        task->blocking_sum_w += task->blocking_w[device];
    }
    return result;
}

/* ---- the pipeline ------------------------------------------------------------------------ */

static uint32_t count_stages(const struct lull_pipeline_profile *profile)
{
    uint32_t last = 0;

    for (size_t i = 0; i < profile->class_count; i++)
        if (profile->classes[i].stage > last)
            last = profile->classes[i].stage;
    return last + 1;
}

static struct lull_pipeline_replicas replicas_of(const struct lull_plan_source *source)
{
    return (struct lull_pipeline_replicas){.count = (uint32_t)source->replicas};
}

static int build_schedule(const struct lull_plan_source *source,
                          const struct lull_pipeline_profile *measured, struct lull_plan_task *task,
                          struct lull_error *err)
{
    const int64_t latency_ns = lull_ns_from_ms(source->latency_ms);
    struct lull_pipeline_shape shape = {
        .devices = (uint32_t)source->stages,
        .microbatches = (uint32_t)source->microbatches,
        .links = {&latency_ns, latency_ns > 0 ? 1 : 0},
        .replicas = replicas_of(source),
    };
    struct lull_pipeline_schedule schedule;
    int result = lull_pipeline_schedule_parse(source->schedule, &schedule, err);

    if (result < 0)
        return result;
    shape.by_chunk =
        schedule.chunks > 1 && count_stages(measured) == schedule.chunks * shape.devices;
    task->stages = shape.devices;
    task->parts = shape.by_chunk || schedule.chunks == 0 ? 1 : schedule.chunks;
    snprintf(task->title, sizeof(task->title), "%.40s, %u stages, %u micro-batches",
             source->schedule, shape.devices, shape.microbatches);
    return lull_pipeline_schedule_build(&schedule, &shape, measured, &task->profile, &task->graph,
                                        err);
}

/* The part of a path behind its last slash, for titles. */
static const char *base_name(const char *path)
{
    const char *const slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static int build_torch(const struct lull_plan_source *source, struct lull_pipeline_fit *fit,
                       struct lull_plan_task *task, struct lull_error *err)
{
    const int64_t latency_ns = lull_ns_from_ms(source->latency_ms);
    const struct lull_pipeline_links links = {&latency_ns, latency_ns > 0 ? 1 : 0};
    const struct lull_pipeline_replicas replicas = replicas_of(source);
    struct lull_torch_schedule schedule;
    int result = lull_torch_schedule_read(source->graph, NULL, &schedule, err);

    if (result < 0)
        return result;
    if (schedule.order.stages % schedule.order.devices == 0 &&
        count_stages(fit->measured) != schedule.order.stages)
        fit->parts = schedule.order.stages / schedule.order.devices;
    task->stages = schedule.order.devices;
    task->parts = fit->parts;
    snprintf(task->title, sizeof(task->title), "%.60s: %u ranks, %u stages, %u micro-batches",
             base_name(source->graph), schedule.order.devices, schedule.order.stages,
             schedule.order.microbatches);
    result = lull_pipeline_order_build(&schedule.order, &links, &replicas, fit, &task->graph, err);
    lull_pipeline_order_fini(&schedule.order);
    return result;
}

static int build_lines(const struct lull_plan_source *source, struct lull_pipeline_fit *fit,
                       struct lull_plan_task *task, struct lull_error *err)
{
    int result;

    if (source->replicas > 1 || source->latency_ms > 0.0)
        return lull_error_set(err, -EINVAL,
                              "%s: has every device and latency in it: leave out --replicas and "
                              "--latency-ms",
                              source->graph);
    result = lull_graph_lines_read(source->graph, fit, &task->graph, err);
    if (result < 0)
        return result;
    task->stages = task->graph.device_count;
    snprintf(task->title, sizeof(task->title), "%.60s: %u devices, %zu operations",
             base_name(source->graph), task->graph.device_count, task->graph.op_count);
    return 0;
}

/* JSON lines begin with a brace, a schedule of torch's never does. */
static int begins_with_brace(const char *path, struct lull_error *err)
{
    struct lull_source *source;
    char first[64];
    ssize_t count;
    int result = lull_source_open(path, &source, err);

    if (result < 0)
        return result;
    count = lull_source_read(source, first, sizeof(first) - 1, err);
    lull_source_close(source);
    if (count < 0)
        return (int)count;
    first[count] = '\0';
    return first[strspn(first, " \t\r\n")] == '{';
}

static int build_graph(const struct lull_plan_source *source,
                       const struct lull_pipeline_profile *measured, struct lull_plan_task *task,
                       struct lull_error *err)
{
    struct lull_pipeline_fit fit = {.measured = measured,
                                    .fitted = &task->profile,
                                    .stages = 1,
                                    .parts = 1,
                                    .input_ratio = 0.5};
    int result;

    if (strcmp(source->graph, "-") == 0)
        return lull_error_set(err, -EINVAL, "--graph -: give a file; only --profile may be -");
    result = begins_with_brace(source->graph, err);
    if (result < 0)
        return result;
    lull_pipeline_profile_init(&task->profile);
    result =
        result == 1 ? build_lines(source, &fit, task, err) : build_torch(source, &fit, task, err);
    if (result < 0)
        lull_pipeline_profile_fini(&task->profile);
    return result;
}

/* ---- what every plan is compared with ---------------------------------------------------- */

static int64_t shortest_time(const struct lull_plan_task *task, int64_t *duration_ns)
{
    for (size_t op = 0; op < task->graph.op_count; op++) {
        const struct lull_pipeline_class *const class =
            &task->profile.classes[task->graph.ops[op].class_index];

        duration_ns[op] = class->options[0].time_ns;
        for (size_t i = 1; i < class->option_count; i++)
            if (class->options[i].time_ns < duration_ns[op])
                duration_ns[op] = class->options[i].time_ns;
    }
    return lull_pipeline_earliest(&task->graph, duration_ns, NULL);
}

static int find_extremes(struct lull_plan_task *task, struct lull_error *err)
{
    const size_t count = task->graph.op_count;
    int64_t *const duration_ns = calloc(count, sizeof(*duration_ns));

    task->problem = (struct lull_pipeline_problem){&task->profile, &task->graph, task->blocking_w};
    task->highest = calloc(count, sizeof(*task->highest));
    if (duration_ns != NULL && task->highest != NULL) {
        lull_pipeline_plan_highest(&task->problem, task->highest);
        task->all_max = lull_pipeline_plan_cost(&task->problem, task->highest, 0);
        task->shortest_ns = shortest_time(task, duration_ns);
    }
    free(duration_ns);
    return task->highest == NULL || task->all_max.time_ns <= 0 || task->shortest_ns <= 0
               ? lull_error_set(err, -ENOMEM, "no memory for %zu operations", count)
               : 0;
}

/* Names of files may hold anything; titles end up on terminals and in pictures. */
static void clean_title(char *title)
{
    for (; *title != '\0'; title++)
        if (*title < ' ' || *title > '~')
            *title = '?';
}

/* The problem points into the task. */
int lull_plan_task_init(const struct lull_plan_source *source, struct lull_plan_task *task_out,
                        struct lull_error *err)
{
    struct lull_pipeline_profile measured;
    int result = lull_pipeline_profile_read(source->profile, &measured, err);

    if (result < 0)
        return result;
    *task_out = (struct lull_plan_task){.source = source, .parts = 1};
    result = source->graph != NULL ? build_graph(source, &measured, task_out, err)
                                   : build_schedule(source, &measured, task_out, err);
    lull_pipeline_profile_fini(&measured);
    if (result < 0)
        return result;
    clean_title(task_out->title);
    result = set_blocking(source->blocking, task_out, err);
    if (result == 0)
        result = find_extremes(task_out, err);
    if (result < 0)
        lull_plan_task_fini(task_out);
    return result;
}

void lull_plan_task_fini(struct lull_plan_task *task)
{
    lull_pipeline_graph_fini(&task->graph);
    lull_pipeline_profile_fini(&task->profile);
    free(task->blocking_w);
    free(task->highest);
}
