/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/long.h"

#include <stdlib.h>
#include <string.h>

#include "core/pipeline/frontier/periodic.h"
#include "core/pipeline/schedule/schedule.h"

enum {
    LEAST_OPS = 4096,   /* fewer are solved directly, soon enough */
    SHORT_PER_STAGE = 4 /* micro-batches of the short pipeline; the middle then repeats itself */
};

struct lull_plan_long {
    struct lull_plan_task shorter;
    struct lull_plan_task longer;
    struct lull_periodic *periodic;
};

/* After how many micro-batches a schedule repeats itself. 0: not known to. */
static int64_t period_of(const struct lull_plan_source *source)
{
    struct lull_pipeline_schedule schedule;

    if (source->schedule == NULL ||
        lull_pipeline_schedule_parse(source->schedule, &schedule, NULL) < 0)
        return 0;
    if (schedule.family == LULL_PIPELINE_INTERLEAVED)
        return schedule.group > 0 ? (int64_t)schedule.group : source->stages;
    return 1;
}

static int64_t short_length(const struct lull_plan_task *task)
{
    const struct lull_plan_source *const source = task->source;
    const int64_t period = period_of(source);
    int64_t length = SHORT_PER_STAGE * source->stages;

    if (task->graph.op_count < LEAST_OPS || period == 0 || strcmp(source->profile, "-") == 0)
        return 0;
    length += (source->microbatches - length) % period;
    return length + 2 * period <= source->microbatches ? length : 0;
}

static int build(struct lull_plan_long *extended, const struct lull_plan_task *task, int64_t length)
{
    struct lull_plan_source source = *task->source;
    struct lull_error err = {0};
    int result;

    source.microbatches = length;
    result = lull_plan_task_init(&source, &extended->shorter, &err);
    if (result < 0)
        return result;
    source.microbatches = length + period_of(&source);
    result = lull_plan_task_init(&source, &extended->longer, &err);
    if (result < 0)
        return result;
    extended->periodic = lull_periodic_create(
        &(struct lull_periodic_problem){extended->shorter.problem, extended->longer.problem,
                                        task->problem},
        &err);
    return extended->periodic == NULL ? err.code : 0;
}

struct lull_plan_long *lull_plan_long_create(const struct lull_plan_task *task)
{
    const int64_t length = short_length(task);
    struct lull_plan_long *const extended = length > 0 ? calloc(1, sizeof(*extended)) : NULL;

    if (extended != NULL && build(extended, task, length) < 0) {
        lull_plan_long_destroy(extended);
        return NULL;
    }
    return extended;
}

void lull_plan_long_destroy(struct lull_plan_long *extended)
{
    if (extended == NULL)
        return;
    lull_periodic_destroy(extended->periodic);
    lull_plan_task_fini(&extended->shorter);
    lull_plan_task_fini(&extended->longer);
    free(extended);
}

const struct lull_frontier_point *lull_plan_long_points(const struct lull_plan_long *extended,
                                                        size_t *count_out)
{
    return lull_periodic_points(extended->periodic, count_out);
}

int lull_plan_long_relax(struct lull_plan_long *extended, int64_t time_ns, int64_t *duration_out,
                         struct lull_certificate *certificate)
{
    struct lull_periodic_plan plan;

    return lull_periodic_plan(extended->periodic, time_ns, duration_out, certificate, &plan, NULL);
}
