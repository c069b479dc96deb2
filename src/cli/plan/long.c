/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/long.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/pipeline/frontier/periodic.h"
#include "core/pipeline/schedule/schedule.h"

enum {
    LEAST_OPS = 4096, /* fewer are solved directly, soon enough; commit a5f86c4 measured it */
    MOST_DIRECT_WORK = 400000 /* operations times devices: a few seconds; commit 69a4c38 */
};

/* The gap of an extended relaxation to its bound above which a longer pipeline is tried. Commit
 * 69a4c38 measured that it leaves a mean gap of at most 0.18 % for all families. */
static const double ENOUGH_GAP = 0.003;

struct lull_plan_long {
    struct lull_plan_task shorter;
    struct lull_plan_task longer;
    struct lull_periodic *periodic;
};

/* How a schedule repeats itself. */
struct repetition {
    int64_t period;    /* it repeats itself after this many micro-batches; 0: it does not */
    int64_t per_stage; /* micro-batches per stage of a pipeline whose middle repeats itself */
    bool soon;         /* worth extending even where the whole pipeline can be solved directly */
};

static struct repetition repetition_of(const struct lull_plan_source *source)
{
    static const struct repetition of_family[LULL_PIPELINE_FAMILIES] = {
        [LULL_PIPELINE_GPIPE] = {1, 8, false},
        [LULL_PIPELINE_1F1B] = {1, 4, true},
        [LULL_PIPELINE_1F1B_RECOMPUTE] = {1, 32, false},
        [LULL_PIPELINE_INTERLEAVED] = {1, 32, false},
        [LULL_PIPELINE_ENVPIPE] = {1, 8, false},
        [LULL_PIPELINE_ZB_H1] = {1, 8, false},
        [LULL_PIPELINE_ZBV] = {1, 16, false},
        [LULL_PIPELINE_DUALPIPEV] = {1, 8, true},
    };
    struct lull_pipeline_schedule schedule;
    struct repetition found = {0};

    if (source->schedule == NULL ||
        lull_pipeline_schedule_parse(source->schedule, &schedule, NULL) < 0)
        return found;
    found = of_family[schedule.family];
    if (schedule.family == LULL_PIPELINE_INTERLEAVED)
        found.period = schedule.group > 0 ? (int64_t)schedule.group : source->stages;
    return found;
}

/* Tells whether a pipeline of this many of the task's micro-batches can be solved directly. */
static bool is_affordable(const struct lull_plan_task *task, int64_t microbatches)
{
    const double work = (double)task->graph.op_count * (double)task->graph.device_count;

    return work * (double)microbatches <=
           (double)MOST_DIRECT_WORK * (double)task->source->microbatches;
}

/* The next length from which whole periods lead to the task's; 0 where it is not short enough to be
 * worth while. */
static int64_t fit_length(const struct lull_plan_task *task, int64_t period, int64_t length)
{
    const int64_t microbatches = task->source->microbatches;

    length += (microbatches - length) % period;
    return length + 2 * period <= microbatches ? length : 0;
}

/* The shorter and the longer pipeline differ by one period, from which the extension learns what a
 * period adds. */
static int build(struct lull_plan_long *extended, const struct lull_plan_task *task, int64_t length)
{
    struct lull_plan_source source = *task->source;
    struct lull_error err = {0};
    int result;

    source.microbatches = length;
    result = lull_plan_task_init(&source, task->profiles, &extended->shorter, &err);
    if (result < 0)
        return result;
    source.microbatches = length + repetition_of(&source).period;
    result = lull_plan_task_init(&source, task->profiles, &extended->longer, &err);
    if (result < 0)
        return result;
    extended->periodic = lull_periodic_create(
        &(struct lull_periodic_problem){extended->shorter.problem, extended->longer.problem,
                                        task->problem},
        &err);
    return extended->periodic == NULL ? err.code : 0;
}

static struct lull_plan_long *extend(const struct lull_plan_task *task, int64_t length)
{
    struct lull_plan_long *const extended = calloc(1, sizeof(*extended));

    if (extended != NULL && build(extended, task, length) < 0) {
        lull_plan_long_destroy(extended);
        return NULL;
    }
    return extended;
}

/* The larger of the gaps that result at two times between the least energy and the fastest plan;
 * infinite where there is no plan. (What is lost near the fastest plan rounding makes good.) */
static double probe(const struct lull_plan_long *extended, const struct lull_plan_task *task)
{
    size_t count;
    const struct lull_frontier_point *const points =
        lull_periodic_points(extended->periodic, &count);
    int64_t *const duration_ns = calloc(task->graph.op_count, sizeof(*duration_ns));
    struct lull_certificate certificate = {0};
    double worst = (double)INFINITY;
    size_t cheapest = 0;

    while (cheapest + 1 < count && points[cheapest + 1].slope_w < task->blocking_sum_w)
        cheapest++;
    if (duration_ns != NULL && lull_certificate_init(&certificate, &task->graph) == 0) {
        const size_t probed[] = {(cheapest + count) / 2, (cheapest + 3 * count) / 4};

        worst = 0.0;
        for (size_t i = 0; i < sizeof(probed) / sizeof(probed[0]); i++) {
            struct lull_periodic_plan plan = {.relaxed_j = (double)INFINITY, .bound_j = 1.0};

            lull_periodic_plan(extended->periodic, points[probed[i]].time_ns, duration_ns,
                               &certificate, &plan);
            worst = fmax(worst, plan.relaxed_j / plan.bound_j - 1.0);
        }
    }
    lull_certificate_fini(&certificate);
    free(duration_ns);
    return worst;
}

struct lull_plan_long *lull_plan_long_create(const struct lull_plan_task *task, bool is_single)
{
    const struct repetition repetition = repetition_of(task->source);
    const int64_t microbatches = task->source->microbatches;
    const bool can_be_solved = is_affordable(task, microbatches);
    int64_t length = repetition.per_stage * task->source->stages;
    struct lull_plan_long *extended = NULL;

    if (task->graph.op_count < LEAST_OPS || repetition.period == 0 ||
        (can_be_solved && !repetition.soon) || (is_single && !is_affordable(task, length)))
        return NULL;
    for (;; length *= 4) {
        length = fit_length(task, repetition.period, length);
        if (length == 0 || (extended != NULL && !is_affordable(task, length)))
            break;
        lull_plan_long_destroy(extended);
        extended = extend(task, length);
        if (extended == NULL || probe(extended, task) <= ENOUGH_GAP)
            return extended;
    }
    if (can_be_solved) {
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

    return lull_periodic_plan(extended->periodic, time_ns, duration_out, certificate, &plan);
}
