/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/envpipe/planner.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>

#include "base/array.h"

struct envpipe {
    const struct lull_pipeline_problem *problem;
    uint32_t *point;      /* the caller's */
    bool *is_envelope;    /* of every operation */
    int64_t *duration_ns; /* of every operation at its operating point */
    int64_t *end_ns;      /* of every operation */
    uint32_t *path;       /* the critical path, the last operation first */
    size_t path_length;
};

static void choose(struct envpipe *envpipe, uint32_t op, uint32_t point)
{
    envpipe->point[op] = point;
    envpipe->duration_ns[op] =
        lull_pipeline_point_of(envpipe->problem, envpipe->point, op)->time_ns;
}

static uint32_t least_energy(const struct lull_pipeline_class *operations)
{
    uint32_t least = 0;

    for (uint32_t i = 1; i < operations->point_count; i++)
        if (operations->points[i].energy_nj < operations->points[least].energy_nj)
            least = i;
    return least;
}

static void choose_first(struct envpipe *envpipe)
{
    const struct lull_pipeline_graph *const graph = envpipe->problem->graph;
    const uint32_t last_stage = lull_pipeline_stages(envpipe->problem) - 1;
    uint32_t last_microbatch = 0;

    for (uint32_t op = 0; op < graph->op_count; op++)
        if (graph->ops[op].microbatch > last_microbatch)
            last_microbatch = graph->ops[op].microbatch;
    for (uint32_t op = 0; op < graph->op_count; op++) {
        const struct lull_pipeline_class *const operations =
            lull_pipeline_class_of(envpipe->problem, op);
        const uint32_t bound = operations->kind == LULL_PIPELINE_FORWARD ? 0 : last_microbatch;

        envpipe->is_envelope[op] =
            operations->stage == last_stage || graph->ops[op].microbatch == bound;
        choose(envpipe, op,
               envpipe->is_envelope[op] ? LULL_PIPELINE_HIGHEST : least_energy(operations));
    }
}

/*
 * Returns the operation that this one waited for, or -1. Of several it takes the one that
 * reproduces the published energies: before a forward the one of another device, else the device's
 * own.
 */
static int64_t critical_before(const struct envpipe *envpipe, uint32_t op)
{
    const struct lull_pipeline_graph *const graph = envpipe->problem->graph;
    const bool prefers_own =
        lull_pipeline_class_of(envpipe->problem, op)->kind != LULL_PIPELINE_FORWARD;
    const int64_t begin_ns = envpipe->end_ns[op] - envpipe->duration_ns[op];
    int64_t found = -1;

    for (uint32_t i = graph->first_in[op]; i < graph->first_in[op + 1]; i++) {
        const struct lull_pipeline_edge *const edge = &graph->edges[graph->in_edges[i]];
        const bool is_own = graph->ops[edge->from].device == graph->ops[op].device;

        if (envpipe->end_ns[edge->from] + edge->latency_ns == begin_ns &&
            (found < 0 || is_own == prefers_own))
            found = edge->from;
    }
    return found;
}

/* Follows the critical path back from the operation that ends last. */
static void find_path(struct envpipe *envpipe)
{
    const struct lull_pipeline_graph *const graph = envpipe->problem->graph;
    int64_t op = 0;

    for (uint32_t i = 1; i < graph->op_count; i++)
        if (envpipe->end_ns[i] > envpipe->end_ns[op])
            op = i;
    envpipe->path_length = 0;
    for (; op >= 0; op = critical_before(envpipe, (uint32_t)op)) {
        assert(envpipe->path_length < graph->op_count);
        envpipe->path[envpipe->path_length++] = (uint32_t)op;
    }
}

static bool is_inside_envelope(const struct envpipe *envpipe)
{
    for (size_t i = 0; i < envpipe->path_length; i++)
        if (!envpipe->is_envelope[envpipe->path[i]])
            return false;
    return true;
}

static uint32_t clock_of(const struct envpipe *envpipe, uint32_t op)
{
    return lull_pipeline_point_of(envpipe->problem, envpipe->point, op)->sm_mhz;
}

/* Raises all operations of the path at its lowest clock. Returns false if all are at the highest.
 */
static bool raise_lowest(struct envpipe *envpipe)
{
    uint32_t lowest_mhz = UINT32_MAX;

    for (size_t i = 0; i < envpipe->path_length; i++) {
        const uint32_t op = envpipe->path[i];

        if (envpipe->point[op] > LULL_PIPELINE_HIGHEST && clock_of(envpipe, op) < lowest_mhz)
            lowest_mhz = clock_of(envpipe, op);
    }
    for (size_t i = 0; i < envpipe->path_length; i++) {
        const uint32_t op = envpipe->path[i];

        if (envpipe->point[op] > LULL_PIPELINE_HIGHEST && clock_of(envpipe, op) == lowest_mhz)
            choose(envpipe, op, envpipe->point[op] - 1);
    }
    return lowest_mhz != UINT32_MAX;
}

static bool take_step(struct envpipe *envpipe)
{
    const struct lull_pipeline_graph *const graph = envpipe->problem->graph;

    lull_pipeline_earliest(graph, envpipe->duration_ns, envpipe->end_ns);
    for (size_t op = 0; op < graph->op_count; op++)
        envpipe->end_ns[op] += envpipe->duration_ns[op];
    find_path(envpipe);
    return !is_inside_envelope(envpipe) && raise_lowest(envpipe);
}

int lull_envpipe_plan(const struct lull_pipeline_problem *problem, uint32_t *point_out,
                      uint32_t *steps_out)
{
    const size_t count = problem->graph->op_count;
    struct lull_memory memory = {0};
    struct envpipe envpipe = {
        .problem = problem,
        .point = point_out,
        .is_envelope = lull_memory_take(&memory, count, sizeof(*envpipe.is_envelope)),
        .duration_ns = lull_memory_take(&memory, count, sizeof(*envpipe.duration_ns)),
        .end_ns = lull_memory_take(&memory, count, sizeof(*envpipe.end_ns)),
        .path = lull_memory_take(&memory, count, sizeof(*envpipe.path)),
    };
    const bool has_failed = memory.has_failed;

    *steps_out = 0;
    if (!has_failed) {
        choose_first(&envpipe);
        while (take_step(&envpipe))
            (*steps_out)++;
    }
    lull_memory_free(&memory);
    return has_failed ? -ENOMEM : 0;
}
