/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/envpipe.h"

#include <errno.h>
#include <stdlib.h>

enum { GREEDY_STEPS = 3 };

struct planner {
    const struct lull_pipeline_problem *problem;
    uint32_t *option;
    bool *is_envelope;    /* of every operation */
    int64_t *duration_ns; /* at its option */
    int64_t *begin_ns;
    uint32_t *path; /* the last operation first */
    size_t path_length;
};

static const struct lull_pipeline_class *class_of(const struct planner *planner, uint32_t op)
{
    return &planner->problem->profile->classes[planner->problem->graph->ops[op].class_index];
}

static void choose(struct planner *planner, uint32_t op, uint32_t option)
{
    planner->option[op] = option;
    planner->duration_ns[op] = class_of(planner, op)->options[option].time_ns;
}

static uint32_t least_energy(const struct lull_pipeline_class *operations)
{
    uint32_t least = 0;

    for (uint32_t i = 1; i < operations->option_count; i++)
        if (operations->options[i].energy_nj < operations->options[least].energy_nj)
            least = i;
    return least;
}

/* ---- where it begins --------------------------------------------------------------------- */

static void mark_envelope(struct planner *planner)
{
    const struct lull_pipeline_graph *const graph = planner->problem->graph;
    uint32_t last_stage = 0;
    uint32_t last_microbatch = 0;

    for (uint32_t op = 0; op < graph->op_count; op++) {
        if (class_of(planner, op)->stage > last_stage)
            last_stage = class_of(planner, op)->stage;
        if (graph->ops[op].microbatch > last_microbatch)
            last_microbatch = graph->ops[op].microbatch;
    }
    for (uint32_t op = 0; op < graph->op_count; op++) {
        const uint32_t microbatch = graph->ops[op].microbatch;
        const bool is_forward = class_of(planner, op)->kind == LULL_PIPELINE_FORWARD;

        planner->is_envelope[op] = class_of(planner, op)->stage == last_stage ||
                                   microbatch == (is_forward ? 0 : last_microbatch);
    }
}

static void set_initial(struct planner *planner, enum lull_envpipe_method method)
{
    for (uint32_t op = 0; op < planner->problem->graph->op_count; op++) {
        const struct lull_pipeline_class *const operations = class_of(planner, op);
        const bool is_high = planner->is_envelope[op] && method != LULL_ENVPIPE_UNIFORM;

        choose(planner, op, is_high ? lull_pipeline_highest(operations) : least_energy(operations));
    }
}

/* ---- the critical path ------------------------------------------------------------------- */

/*
 * The operation that this one waited for, -1 if none. Where there are several, the one that
 * reproduces what was recorded: before a forward what another device sent, else the device's own.
 */
static int64_t critical_before(const struct planner *planner, uint32_t op)
{
    const struct lull_pipeline_graph *const graph = planner->problem->graph;
    const bool prefers_own = class_of(planner, op)->kind != LULL_PIPELINE_FORWARD;
    int64_t found = -1;

    for (uint32_t i = graph->first_in[op]; i < graph->first_in[op + 1]; i++) {
        const struct lull_pipeline_edge *const edge = &graph->edges[graph->in_edges[i]];
        const bool is_own = graph->ops[edge->from].device == graph->ops[op].device;

        if (planner->begin_ns[edge->from] + planner->duration_ns[edge->from] + edge->latency_ns !=
            planner->begin_ns[op])
            continue;
        if (found < 0 || is_own == prefers_own)
            found = edge->from;
    }
    return found;
}

static void find_path(struct planner *planner)
{
    const struct lull_pipeline_graph *const graph = planner->problem->graph;
    const int64_t makespan_ns =
        lull_pipeline_earliest(graph, planner->duration_ns, planner->begin_ns);
    int64_t op = 0;

    while (planner->begin_ns[op] + planner->duration_ns[op] != makespan_ns)
        op++;
    planner->path_length = 0;
    for (; op >= 0; op = critical_before(planner, (uint32_t)op))
        planner->path[planner->path_length++] = (uint32_t)op;
}

static bool is_inside_envelope(const struct planner *planner)
{
    for (size_t i = 0; i < planner->path_length; i++)
        if (!planner->is_envelope[planner->path[i]])
            return false;
    return true;
}

/* ---- reconfiguring ----------------------------------------------------------------------- */

/* Clocks descend with the index, so a step up is one index down. */
static bool can_rise(const struct planner *planner, uint32_t op)
{
    return planner->option[op] > lull_pipeline_highest(class_of(planner, op));
}

static uint32_t clock_of(const struct planner *planner, uint32_t op)
{
    return class_of(planner, op)->options[planner->option[op]].sm_mhz;
}

static bool raise_lowest(struct planner *planner)
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
            choose(planner, op, planner->option[op] - 1);
    }
    return lowest_mhz != UINT32_MAX;
}

static bool raise_last(struct planner *planner)
{
    for (size_t i = 0; i < planner->path_length; i++) {
        const uint32_t op = planner->path[i];

        if (!can_rise(planner, op))
            continue;
        for (int step = 0; step < GREEDY_STEPS && can_rise(planner, op); step++)
            choose(planner, op, planner->option[op] - 1);
        return true;
    }
    return false;
}

static void reconfigure(struct planner *planner, enum lull_envpipe_method method,
                        uint32_t most_iterations, struct lull_envpipe_outcome *outcome)
{
    for (;;) {
        find_path(planner);
        outcome->is_settled = is_inside_envelope(planner);
        if (outcome->is_settled || outcome->iterations == most_iterations)
            return;
        outcome->is_settled =
            !(method == LULL_ENVPIPE_GREEDY ? raise_last(planner) : raise_lowest(planner));
        if (outcome->is_settled)
            return;
        outcome->iterations++;
    }
}

int lull_envpipe_plan(const struct lull_pipeline_problem *problem, enum lull_envpipe_method method,
                      uint32_t most_iterations, uint32_t *option_out,
                      struct lull_envpipe_outcome *outcome_out)
{
    const size_t count = problem->graph->op_count;
    struct planner planner = {
        .problem = problem,
        .option = option_out,
        .is_envelope = calloc(count, sizeof(*planner.is_envelope)),
        .duration_ns = calloc(count, sizeof(*planner.duration_ns)),
        .begin_ns = calloc(count, sizeof(*planner.begin_ns)),
        .path = calloc(count, sizeof(*planner.path)),
    };
    int result = -ENOMEM;

    if (planner.is_envelope != NULL && planner.duration_ns != NULL && planner.begin_ns != NULL &&
        planner.path != NULL) {
        result = 0;
        *outcome_out = (struct lull_envpipe_outcome){.is_settled = true};
        mark_envelope(&planner);
        set_initial(&planner, method);
        if (method == LULL_ENVPIPE_BALANCED || method == LULL_ENVPIPE_GREEDY)
            reconfigure(&planner, method, most_iterations, outcome_out);
    }
    free(planner.is_envelope);
    free(planner.duration_ns);
    free(planner.begin_ns);
    free(planner.path);
    return result;
}
