/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/frontier/envpipe_planner.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { GREEDY_STEPS = 3 }; /* as published */

/* Iterations in a row with the critical path in the envelope after which nothing is raised any
 * more: the number of the publication. */
enum { SETTLED_FROM = 10 };

/* What a look at the critical path led to. */
enum envpipe_step {
    INSIDE, /* the path lies in the envelope: nothing was raised */
    RAISED,
    EXHAUSTED /* all on the path is at the highest clock */
};

struct lull_envpipe {
    const struct lull_pipeline_problem *problem;
    enum lull_envpipe_method method;
    uint32_t *point;
    bool *is_envelope;    /* of every operation */
    int64_t *duration_ns; /* of every operation at its operating point */
    int64_t *end_ns;      /* when it ends by the profile */
    uint32_t *path;       /* the critical path, the last operation first */
    size_t path_length;
    struct lull_memory memory; /* of the arrays */

    /* The loop in the running job. */
    int64_t tie_ns;
    uint32_t inside; /* iterations in a row with the critical path in the envelope */
    uint32_t count;  /* iterations that raised clocks */
    bool is_exhausted;
};

static void choose(struct lull_envpipe *planner, uint32_t op, uint32_t point)
{
    assert(point < lull_pipeline_class_of(planner->problem, op)->point_count);
    planner->point[op] = point;
    planner->duration_ns[op] = lull_pipeline_class_of(planner->problem, op)->points[point].time_ns;
}

static uint32_t least_energy(const struct lull_pipeline_class *operations)
{
    uint32_t least = 0;

    for (uint32_t i = 1; i < operations->point_count; i++)
        if (operations->points[i].energy_nj < operations->points[least].energy_nj)
            least = i;
    return least;
}

/* ---- where it begins --------------------------------------------------------------------- */

/* The outer envelope bounds the iteration from both ends, so EnvPipe never lowers it. */
static void mark_envelope(struct lull_envpipe *planner)
{
    const struct lull_pipeline_graph *const graph = planner->problem->graph;
    uint32_t last_stage = 0;
    uint32_t last_microbatch = 0;

    for (uint32_t op = 0; op < graph->op_count; op++) {
        if (lull_pipeline_class_of(planner->problem, op)->stage > last_stage)
            last_stage = lull_pipeline_class_of(planner->problem, op)->stage;
        if (graph->ops[op].microbatch > last_microbatch)
            last_microbatch = graph->ops[op].microbatch;
    }
    for (uint32_t op = 0; op < graph->op_count; op++) {
        const uint32_t microbatch = graph->ops[op].microbatch;
        const bool is_forward =
            lull_pipeline_class_of(planner->problem, op)->kind == LULL_PIPELINE_FORWARD;

        planner->is_envelope[op] =
            lull_pipeline_class_of(planner->problem, op)->stage == last_stage ||
            microbatch == (is_forward ? 0 : last_microbatch);
    }
}

static void set_initial(struct lull_envpipe *planner, enum lull_envpipe_method method)
{
    for (uint32_t op = 0; op < planner->problem->graph->op_count; op++) {
        const struct lull_pipeline_class *const operations =
            lull_pipeline_class_of(planner->problem, op);
        const bool is_high = planner->is_envelope[op] && method != LULL_ENVPIPE_UNIFORM;

        choose(planner, op, is_high ? LULL_PIPELINE_HIGHEST : least_energy(operations));
    }
}

/* ---- the critical path ------------------------------------------------------------------- */

/*
 * The operation that this one waited for, or -1. Where there are several it takes the one that
 * reproduces what was recorded: before a forward the one of another device, else the device's own.
 */
static int64_t critical_before(const struct lull_envpipe *planner, uint32_t op,
                               const int64_t *end_ns)
{
    const struct lull_pipeline_graph *const graph = planner->problem->graph;
    const bool prefers_own =
        lull_pipeline_class_of(planner->problem, op)->kind != LULL_PIPELINE_FORWARD;
    int64_t latest_ns = INT64_MIN;
    int64_t found = -1;

    for (uint32_t i = graph->first_in[op]; i < graph->first_in[op + 1]; i++) {
        const struct lull_pipeline_edge *const edge = &graph->edges[graph->in_edges[i]];

        if (end_ns[edge->from] + edge->latency_ns > latest_ns)
            latest_ns = end_ns[edge->from] + edge->latency_ns;
    }
    for (uint32_t i = graph->first_in[op]; i < graph->first_in[op + 1]; i++) {
        const struct lull_pipeline_edge *const edge = &graph->edges[graph->in_edges[i]];
        const bool is_own = graph->ops[edge->from].device == graph->ops[op].device;

        if (end_ns[edge->from] + edge->latency_ns + planner->tie_ns >= latest_ns &&
            (found < 0 || is_own == prefers_own))
            found = edge->from;
    }
    return found;
}

/* The path is followed back from the operation that ended last. */
static void find_path(struct lull_envpipe *planner, const int64_t *end_ns)
{
    int64_t op = 0;

    for (uint32_t i = 1; i < planner->problem->graph->op_count; i++)
        if (end_ns[i] > end_ns[op])
            op = i;
    planner->path_length = 0;
    for (; op >= 0; op = critical_before(planner, (uint32_t)op, end_ns)) {
        assert(planner->path_length < planner->problem->graph->op_count);
        planner->path[planner->path_length++] = (uint32_t)op;
    }
}

static bool is_inside_envelope(const struct lull_envpipe *planner)
{
    for (size_t i = 0; i < planner->path_length; i++)
        if (!planner->is_envelope[planner->path[i]])
            return false;
    return true;
}

/* ---- reconfiguring ----------------------------------------------------------------------- */

/* Tells whether an operation's clock can be raised. Clocks descend with the index, so a step up is
 * one index down. */
static bool can_rise(const struct lull_envpipe *planner, uint32_t op)
{
    return planner->point[op] > LULL_PIPELINE_HIGHEST;
}

static uint32_t clock_of(const struct lull_envpipe *planner, uint32_t op)
{
    return lull_pipeline_point_of(planner->problem, planner->point, op)->sm_mhz;
}

/* All operations of the path at its lowest clock are raised together, as published. */
static bool raise_lowest(struct lull_envpipe *planner)
{
    uint32_t lowest_mhz = UINT32_MAX;

    for (size_t i = 0; i < planner->path_length; i++) {
        const uint32_t op = planner->path[i];

        if (can_rise(planner, op) && clock_of(planner, op) < lowest_mhz)
            lowest_mhz = clock_of(planner, op);
    }
    for (size_t i = 0; i < planner->path_length; i++) {
        const uint32_t op = planner->path[i];

        if (can_rise(planner, op) && clock_of(planner, op) == lowest_mhz)
            choose(planner, op, planner->point[op] - 1);
    }
    return lowest_mhz != UINT32_MAX;
}

/* The path's first entry is its last operation, with which the greedy method begins. */
static bool raise_last(struct lull_envpipe *planner)
{
    for (size_t i = 0; i < planner->path_length; i++) {
        const uint32_t op = planner->path[i];

        if (!can_rise(planner, op))
            continue;
        for (int step = 0; step < GREEDY_STEPS && can_rise(planner, op); step++)
            choose(planner, op, planner->point[op] - 1);
        return true;
    }
    return false;
}

static enum envpipe_step step(struct lull_envpipe *envpipe, const int64_t *end_ns)
{
    bool is_raised;

    find_path(envpipe, end_ns);
    if (is_inside_envelope(envpipe))
        return INSIDE;
    if (envpipe->method == LULL_ENVPIPE_GREEDY)
        is_raised = raise_last(envpipe);
    else
        is_raised = raise_lowest(envpipe);
    return is_raised ? RAISED : EXHAUSTED;
}

bool lull_envpipe_take(struct lull_envpipe *envpipe, const int64_t *end_ns)
{
    if (lull_envpipe_is_done(envpipe))
        return false;
    switch (step(envpipe, end_ns)) {
    case RAISED:
        envpipe->inside = 0;
        envpipe->count++;
        return true;
    case INSIDE:
        assert(envpipe->inside < SETTLED_FROM);
        envpipe->inside++;
        return false;
    default:
        envpipe->is_exhausted = true;
        return false;
    }
}

bool lull_envpipe_is_done(const struct lull_envpipe *envpipe)
{
    return envpipe->is_exhausted || envpipe->inside >= SETTLED_FROM;
}

uint32_t lull_envpipe_count(const struct lull_envpipe *envpipe)
{
    return envpipe->count;
}

/* ---- all together ------------------------------------------------------------------------ */

struct lull_envpipe *lull_envpipe_create(const struct lull_pipeline_problem *problem,
                                         enum lull_envpipe_method method, int64_t tie_ns)
{
    const size_t count = problem->graph->op_count;
    struct lull_envpipe *const envpipe = calloc(1, sizeof(*envpipe));

    if (envpipe == NULL)
        return NULL;
    envpipe->problem = problem;
    envpipe->method = method;
    envpipe->tie_ns = tie_ns;
    envpipe->point = lull_memory_take(&envpipe->memory, count, sizeof(*envpipe->point));
    envpipe->is_envelope = lull_memory_take(&envpipe->memory, count, sizeof(*envpipe->is_envelope));
    envpipe->duration_ns = lull_memory_take(&envpipe->memory, count, sizeof(*envpipe->duration_ns));
    envpipe->end_ns = lull_memory_take(&envpipe->memory, count, sizeof(*envpipe->end_ns));
    envpipe->path = lull_memory_take(&envpipe->memory, count, sizeof(*envpipe->path));
    if (envpipe->memory.has_failed) {
        lull_envpipe_destroy(envpipe);
        return NULL;
    }
    mark_envelope(envpipe);
    set_initial(envpipe, method);
    return envpipe;
}

void lull_envpipe_destroy(struct lull_envpipe *envpipe)
{
    if (envpipe == NULL)
        return;
    lull_memory_free(&envpipe->memory);
    free(envpipe);
}

const uint32_t *lull_envpipe_points(const struct lull_envpipe *envpipe)
{
    return envpipe->point;
}

/* Finds when operations end by the profile. */
static void imagine(struct lull_envpipe *envpipe)
{
    const struct lull_pipeline_graph *const graph = envpipe->problem->graph;

    lull_pipeline_earliest(graph, envpipe->duration_ns, envpipe->end_ns);
    for (size_t op = 0; op < graph->op_count; op++)
        envpipe->end_ns[op] += envpipe->duration_ns[op];
}

int lull_envpipe_plan(const struct lull_pipeline_problem *problem, enum lull_envpipe_method method,
                      uint32_t most_iterations, uint32_t *point_out,
                      struct lull_envpipe_outcome *outcome_out)
{
    struct lull_envpipe *const envpipe = lull_envpipe_create(problem, method, 0);
    const bool raises = method == LULL_ENVPIPE_BALANCED || method == LULL_ENVPIPE_GREEDY;

    if (envpipe == NULL)
        return -ENOMEM;
    *outcome_out = (struct lull_envpipe_outcome){.is_settled = !raises};
    while (!outcome_out->is_settled) {
        imagine(envpipe);
        if (outcome_out->iterations == most_iterations) {
            find_path(envpipe, envpipe->end_ns);
            outcome_out->is_settled = is_inside_envelope(envpipe);
            break;
        }
        outcome_out->is_settled = step(envpipe, envpipe->end_ns) != RAISED;
        outcome_out->iterations += !outcome_out->is_settled;
    }
    memcpy(point_out, envpipe->point, problem->graph->op_count * sizeof(point_out[0]));
    lull_envpipe_destroy(envpipe);
    return 0;
}
