/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/plan/stages.h"
#include "core/pipeline/schedule/schedule.h"
#include "trace/graph_lines.h"
#include "trace/pipeline_profile.h"
#include "trace/source.h"
#include "trace/torch_schedule.h"

/* ---- profiles ---------------------------------------------------------------------------- */

int lull_plan_profile_read(const char *path, struct lull_pipeline_profile *profile_out,
                           struct lull_error *err)
{
    struct lull_pipeline_profile_notes notes;
    const int result = lull_pipeline_profile_read(path, profile_out, &notes, err);

    if (result < 0)
        return result;
    if (notes.copies > 1 || notes.shards > 1)
        lull_log(LULL_LOG_INFO, "plan",
                 "%s: stages are means over %u data parallel ranks, each the longest time and the "
                 "sum of the energies of %u tensor parallel ranks",
                 path, notes.copies, notes.shards);
    if (notes.partial_copies > 0)
        lull_log(LULL_LOG_WARNING, "plan",
                 "%s: %zu times a data parallel rank is left out, since it lacks tensor parallel "
                 "ranks that others have",
                 path, notes.partial_copies);
    if (notes.blank_rows > 0)
        lull_log(LULL_LOG_WARNING, "plan",
                 "%s: %zu rows without a frequency, time or energy are left out", path,
                 notes.blank_rows);
    if (notes.other_rows > 0)
        lull_log(LULL_LOG_WARNING, "plan",
                 "%s: %zu rows of communication and optimizer are left out; --sync-ms and "
                 "--latency-ms take their times",
                 path, notes.other_rows);
    return 0;
}

int lull_plan_profiles_read(const struct lull_plan_source *source,
                            struct lull_plan_profiles *profiles_out, struct lull_error *err)
{
    int result = lull_plan_profile_read(source->profile, &profiles_out->measured, err);

    profiles_out->copy_count = 0;
    if (result < 0)
        return result;
    for (uint32_t i = 0; i < source->copy_count; i++) {
        result = lull_plan_profile_read(source->copies[i], &profiles_out->copies[i], err);
        if (result < 0) {
            lull_plan_profiles_fini(profiles_out);
            return result;
        }
        profiles_out->copy_count++;
    }
    return 0;
}

void lull_plan_profiles_fini(struct lull_plan_profiles *profiles)
{
    for (uint32_t i = 0; i < profiles->copy_count; i++)
        lull_pipeline_profile_fini(&profiles->copies[i]);
    lull_pipeline_profile_fini(&profiles->measured);
}

/* ---- the pipeline ------------------------------------------------------------------------ */

static int build_schedule(struct lull_plan_task *task, struct lull_error *err)
{
    const struct lull_plan_source *const source = task->source;
    const struct lull_pipeline_profile *const measured = &task->profiles->measured;
    struct lull_pipeline_schedule schedule;
    struct lull_plan_shape shape;
    int result = lull_pipeline_schedule_parse(source->schedule, &schedule, err);

    if (result < 0)
        return result;
    task->stages = (uint32_t)source->stages;
    result = lull_plan_stages_blocking(source->blocking, task, err);
    if (result < 0)
        return result;
    result = lull_plan_shape_init(task, &shape, err);
    shape.shape.by_chunk = schedule.chunks > 1 &&
                           lull_pipeline_profile_stages(measured) == schedule.chunks * task->stages;
    task->parts = shape.shape.by_chunk || schedule.chunks == 0 ? 1 : schedule.chunks;
    snprintf(task->title, sizeof(task->title), "%.40s, %u stages, %u micro-batches",
             source->schedule, task->stages, shape.shape.microbatches);
    if (result == 0)
        result = lull_pipeline_schedule_build(&schedule, &shape.shape, measured, &task->profile,
                                              &task->graph, err);
    lull_memory_free(&shape.memory);
    return result;
}

/* Finds the part of a path after its last slash, for titles. */
static const char *base_name(const char *path)
{
    const char *const slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* A schedule of chunks fits a profile of whole stages as well: neighbouring chunks then share a
 * measured stage. */
static int build_torch(const struct lull_plan_source *source, struct lull_pipeline_fit *fit,
                       struct lull_plan_task *task, struct lull_error *err)
{
    struct lull_pipeline_order order;
    struct lull_plan_shape shape = {0};
    int result = lull_torch_schedule_read(source->graph, &order, err);

    if (result < 0)
        return result;
    if (order.stages % order.devices == 0 &&
        lull_pipeline_profile_stages(fit->measured) != order.stages)
        fit->parts = order.stages / order.devices;
    task->stages = order.devices;
    task->parts = fit->parts;
    snprintf(task->title, sizeof(task->title), "%.60s: %u ranks, %u stages, %u micro-batches",
             base_name(source->graph), order.devices, order.stages, order.microbatches);
    result = lull_plan_stages_blocking(source->blocking, task, err);
    if (result == 0)
        result = lull_plan_shape_init(task, &shape, err);
    if (result == 0)
        result = lull_pipeline_order_build(&order, &shape.shape.links, &shape.shape.replicas, fit,
                                           &task->graph, err);
    lull_memory_free(&shape.memory);
    lull_pipeline_order_fini(&order);
    return result;
}

/* A graph of operations is complete, so options that would add to it are refused. */
static int build_lines(const struct lull_plan_source *source, struct lull_pipeline_fit *fit,
                       struct lull_plan_task *task, struct lull_error *err)
{
    int result;

    if (source->replicas > 1 || source->latency_ms > 0.0 || source->sync != NULL)
        return lull_error_set(err, -EINVAL,
                              "%s: has every device, latency and sync in it: leave out --replicas, "
                              "--latency-ms and --sync-ms",
                              source->graph);
    result = lull_graph_lines_read(source->graph, fit, &task->graph, err);
    if (result < 0)
        return result;
    task->stages = task->graph.device_count;
    snprintf(task->title, sizeof(task->title), "%.60s: %u devices, %zu operations",
             base_name(source->graph), task->graph.device_count, task->graph.op_count);
    result = lull_plan_stages_blocking(source->blocking, task, err);
    if (result < 0)
        lull_pipeline_graph_fini(&task->graph);
    return result;
}

/* Returns whether a file begins with a brace: JSON lines do, a schedule of torch's never does.
 * Returns 1 or 0, or an error of lull_source_open or lull_source_read. */
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

static int plan_task_build_graph(const struct lull_plan_source *source, struct lull_plan_task *task,
                                 struct lull_error *err)
{
    struct lull_pipeline_fit fit = {.measured = &task->profiles->measured,
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

/* ---- the extremes that every plan is compared with --------------------------------------- */

static int64_t shortest_time(const struct lull_plan_task *task, int64_t *duration_ns)
{
    for (size_t op = 0; op < task->graph.op_count; op++) {
        const struct lull_pipeline_class *const class =
            &task->profile.classes[task->graph.ops[op].class_index];

        duration_ns[op] = class->points[0].time_ns;
        for (size_t i = 1; i < class->point_count; i++)
            if (class->points[i].time_ns < duration_ns[op])
                duration_ns[op] = class->points[i].time_ns;
    }
    return lull_pipeline_earliest(&task->graph, duration_ns, NULL);
}

/* Every plan is compared with the highest clocks, and no deadline below the shortest time can be
 * kept. */
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
    if (task->highest == NULL || task->all_max.time_ns <= 0 || task->shortest_ns <= 0)
        return lull_error_set(err, -ENOMEM, "no memory for %zu operations", count);
    return 0;
}

/* Replaces what is not printable: names of files may hold anything, and titles end up on terminals
 * and in pictures. */
static void clean_title(char *title)
{
    for (; *title != '\0'; title++)
        if (*title < ' ' || *title > '~')
            *title = '?';
}

int lull_plan_task_init(const struct lull_plan_source *source,
                        const struct lull_plan_profiles *profiles, struct lull_plan_task *task_out,
                        struct lull_error *err)
{
    int result;

    *task_out = (struct lull_plan_task){.source = source, .profiles = profiles, .parts = 1};
    result = source->graph != NULL ? plan_task_build_graph(source, task_out, err)
                                   : build_schedule(task_out, err);
    if (result < 0) {
        free(task_out->blocking_w);
        return result;
    }
    clean_title(task_out->title);
    result = lull_plan_stages_spread(task_out, err);
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
