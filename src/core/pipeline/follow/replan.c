/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/follow/replan.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/rounding/rounding.h"

/* The largest slowness of a device that is planned for; a slower device counts as this slow. */
static const double max_factor = 100.0;
/* This many moves for each operation take some milliseconds. */
static const uint64_t moves_per_op = 32;
/* A plan must save this share of the energy to be worth changing clocks. */
static const double min_saving = 0.002;

struct lull_replan {
    const struct lull_pipeline_problem *problem;
    const uint32_t *point;
    int64_t slack_ns; /* by which the plan is longer than the highest clocks */
    int64_t highest_ns;
    struct lull_frontier *frontier;
    struct lull_pipeline_rounding *rounding;
    uint32_t *highest; /* operating points */
    uint32_t *found;
    int64_t *relaxed_ns;
    struct lull_memory memory; /* of the three arrays */
};

/* A problem with a class of its own for every class on every device. */
struct scaled {
    struct lull_pipeline_profile profile;
    struct lull_pipeline_graph graph; /* borrows all but ops */
    struct lull_pipeline_problem problem;
};

/* ---- creating ---------------------------------------------------------------------------- */

int lull_replan_create(const struct lull_pipeline_problem *problem, const uint32_t *point,
                       struct lull_replan **replan_out, struct lull_error *err)
{
    const size_t count = problem->graph->op_count;
    struct lull_replan *replan = calloc(1, sizeof(*replan));
    int64_t time_ns;
    int result = -ENOMEM;

    if (replan == NULL)
        return lull_error_set(err, -ENOMEM, "no memory to replan");
    replan->problem = problem;
    replan->point = point;
    replan->highest = lull_memory_take(&replan->memory, count, sizeof(replan->highest[0]));
    replan->found = lull_memory_take(&replan->memory, count, sizeof(replan->found[0]));
    replan->relaxed_ns = lull_memory_take(&replan->memory, count, sizeof(replan->relaxed_ns[0]));
    replan->frontier = lull_frontier_create(problem, err);
    if (replan->memory.has_failed || replan->frontier == NULL) {
        if (err != NULL && err->code == -EINVAL)
            result = -EINVAL;
        goto fail;
    }
    result = lull_pipeline_rounding_create(problem, &replan->rounding);
    if (result < 0)
        goto fail;
    lull_pipeline_plan_highest(problem, replan->highest);
    replan->highest_ns = lull_pipeline_plan_cost(problem, replan->highest, 0).time_ns;
    time_ns = lull_pipeline_plan_cost(problem, point, 0).time_ns;
    if (time_ns > replan->highest_ns)
        replan->slack_ns = time_ns - replan->highest_ns;
    result = lull_frontier_seek(replan->frontier, replan->highest_ns + replan->slack_ns);
    if (result < 0)
        goto fail;
    *replan_out = replan;
    return 0;

fail:
    lull_replan_destroy(replan);
    return lull_error_set(err, result, "a plan for stragglers cannot be prepared");
}

void lull_replan_destroy(struct lull_replan *replan)
{
    if (replan == NULL)
        return;
    lull_frontier_destroy(replan->frontier);
    lull_pipeline_rounding_destroy(replan->rounding);
    lull_memory_free(&replan->memory);
    free(replan);
}

/* ---- slower devices ---------------------------------------------------------------------- */

static void scaled_fini(struct scaled *scaled)
{
    lull_pipeline_profile_fini(&scaled->profile);
    free(scaled->graph.ops);
}

static int64_t replan_scale(int64_t value, double factor, int64_t most)
{
    return (int64_t)fmin(ceil((double)value * fmin(factor, max_factor)), (double)most);
}

/* A slow device takes longer by the same factor at every clock and draws the same power, so its
 * energy grows by that factor too. */
static int copy_class(const struct lull_pipeline_class *from, double factor,
                      struct lull_pipeline_class *to)
{
    *to = *from;
    to->points = malloc(from->point_count * sizeof(to->points[0]));
    if (to->points == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < from->point_count; i++) {
        to->points[i] = from->points[i];
        to->points[i].time_ns =
            replan_scale(from->points[i].time_ns, factor, LULL_PIPELINE_MAX_TIME_NS);
        to->points[i].energy_nj =
            replan_scale(from->points[i].energy_nj, factor, LULL_PIPELINE_MAX_ENERGY_NJ);
    }
    return 0;
}

/* Gives the operation a class of its device's own. of: index of each device's own class of each
 * class; -1: it has none yet. */
static int own_class(const struct lull_pipeline_problem *problem, const double *factor,
                     struct lull_pipeline_op *op, int32_t *of, struct scaled *scaled)
{
    const size_t place = (size_t)op->device * problem->profile->class_count + op->class_index;
    const struct lull_pipeline_class *class = &problem->profile->classes[op->class_index];

    if (of[place] < 0) {
        const double slower = class->kind == LULL_PIPELINE_FIXED ? 1.0 : factor[op->device];

        if (copy_class(class, slower, &scaled->profile.classes[scaled->profile.class_count]) < 0)
            return -ENOMEM;
        of[place] = (int32_t)scaled->profile.class_count++;
    }
    assert((size_t)of[place] < scaled->profile.class_count);
    op->class_index = (uint32_t)of[place];
    return 0;
}

/* Copies the problem with classes of their own for every device, since classes are shared between
 * devices and only some of them are slow. */
static int scaled_init(struct scaled *scaled, const struct lull_pipeline_problem *problem,
                       const double *factor)
{
    const struct lull_pipeline_graph *graph = problem->graph;
    const size_t most = (size_t)graph->device_count * problem->profile->class_count;
    int32_t *of = malloc(most * sizeof(of[0]));
    int result = 0;

    lull_pipeline_profile_init(&scaled->profile);
    scaled->graph = *graph;
    scaled->graph.ops = malloc(graph->op_count * sizeof(graph->ops[0]));
    scaled->profile.classes = calloc(most, sizeof(scaled->profile.classes[0]));
    scaled->problem =
        (struct lull_pipeline_problem){&scaled->profile, &scaled->graph, problem->blocking_w};
    if (of == NULL || scaled->graph.ops == NULL || scaled->profile.classes == NULL) {
        free(of);
        scaled_fini(scaled);
        return -ENOMEM;
    }
    memset(of, 0xff, most * sizeof(of[0]));
    memcpy(scaled->graph.ops, graph->ops, graph->op_count * sizeof(graph->ops[0]));
    for (size_t i = 0; i < graph->op_count && result == 0; i++)
        result = own_class(problem, factor, &scaled->graph.ops[i], of, scaled);
    free(of);
    if (result < 0)
        scaled_fini(scaled);
    return result;
}

/* ---- planning ---------------------------------------------------------------------------- */

static double replan_energy_j(const struct lull_pipeline_problem *problem,
                              const struct lull_pipeline_switching *switching,
                              const uint32_t *point, int64_t deadline_ns)
{
    const struct lull_pipeline_cost cost = lull_pipeline_plan_cost(problem, point, deadline_ns);

    if (cost.time_ns < 0 || cost.time_ns > deadline_ns)
        return NAN;
    return cost.energy_j + lull_pipeline_switching_energy_j(problem, switching, point);
}

/* Moves the frontier to the deadline, rounds and improves the plan, and makes it respect switching.
 * Returns 1 if the result saves enough to be worth changing clocks, else 0. */
static int replan_find(struct lull_replan *replan, const struct lull_pipeline_problem *problem,
                       struct lull_frontier *frontier, struct lull_pipeline_rounding *rounding,
                       const struct lull_pipeline_switching *switching,
                       struct lull_replan_outcome *outcome)
{
    const int64_t deadline_ns = outcome->deadline_ns;
    struct lull_pipeline_switching_report report;
    int64_t moved;
    int result = lull_frontier_seek(frontier, deadline_ns);

    if (result < 0)
        return result;
    lull_frontier_durations(frontier, replan->relaxed_ns);
    result = lull_pipeline_round_quick(rounding, replan->relaxed_ns, deadline_ns, replan->found);
    if (result < 0)
        return result;
    moved = lull_pipeline_round_improve(rounding, deadline_ns,
                                        moves_per_op * problem->graph->op_count, replan->found);
    if (moved < 0)
        return (int)moved;
    /* A plan that cannot respect switching within the time is executed unchanged. */
    result = lull_pipeline_switching(problem, switching, deadline_ns, true, replan->found, &report,
                                     NULL);
    if (result == -ENOMEM)
        return result;
    outcome->energy_j = replan_energy_j(problem, switching, replan->found, deadline_ns);
    outcome->kept_j = replan_energy_j(problem, switching, replan->point, deadline_ns);
    /* The energy of the old plan is NAN if it takes longer; then the comparison is false. */
    return !(outcome->energy_j > (1.0 - min_saving) * outcome->kept_j);
}

/* The prepared frontier does not apply with slow devices, so
 * the frontier of the scaled problem is computed. */
static int find_scaled(struct lull_replan *replan, const double *factor, int64_t extra_ns,
                       const struct lull_pipeline_switching *switching,
                       struct lull_replan_outcome *outcome)
{
    struct lull_pipeline_rounding *rounding = NULL;
    struct lull_frontier *frontier;
    struct scaled scaled;
    int result = scaled_init(&scaled, replan->problem, factor);

    if (result < 0)
        return result;
    result = -ENOMEM;
    frontier = lull_frontier_create(&scaled.problem, NULL);
    if (frontier == NULL)
        goto out_scaled;
    result = lull_pipeline_rounding_create(&scaled.problem, &rounding);
    if (result < 0)
        goto out_frontier;
    outcome->deadline_ns = lull_pipeline_plan_cost(&scaled.problem, replan->highest, 0).time_ns +
                           replan->slack_ns + extra_ns;
    result = replan_find(replan, &scaled.problem, frontier, rounding, switching, outcome);
    lull_pipeline_rounding_destroy(rounding);
out_frontier:
    lull_frontier_destroy(frontier);
out_scaled:
    scaled_fini(&scaled);
    return result;
}

int lull_replan_make(struct lull_replan *replan, const double *factor, int64_t extra_ns,
                     const struct lull_pipeline_switching *switching, uint32_t *point_out,
                     struct lull_replan_outcome *outcome_out)
{
    bool is_scaled = false;
    int result;

    *outcome_out = (struct lull_replan_outcome){.deadline_ns = replan->highest_ns +
                                                               replan->slack_ns + extra_ns};
    for (uint32_t i = 0; i < replan->problem->graph->device_count; i++)
        is_scaled |= factor[i] > 1.0;
    if (is_scaled)
        result = find_scaled(replan, factor, extra_ns, switching, outcome_out);
    else
        result = replan_find(replan, replan->problem, replan->frontier, replan->rounding, switching,
                             outcome_out);
    if (result == 1)
        memcpy(point_out, replan->found, replan->problem->graph->op_count * sizeof(point_out[0]));
    /* It is as fast as the highest clocks by its deadline: rounding has no reason to fail. */
    if (result == -ERANGE)
        return 0;
    return result;
}
