/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/prove/prove.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/prove/chains.h"
#include "core/pipeline/prove/search.h"

/* Branchings of each search at first, and how many times as many each time; where there are
 * windows, the whole has one for so many of each of theirs. */
enum { FIRST = 16, FACTOR = 4, OF_WINDOW = 32 };

/* The relaxed optimum: a flow, and when operations begin and how long they take in it. */
static int begin_search(struct prover *prover, int64_t *begin_ns)
{
    const struct lull_pipeline_problem *left = &prover->choices.left;
    struct lull_frontier *frontier = lull_frontier_create(left, prover->err);
    struct lull_certificate flow = {0};
    int result = frontier == NULL ? prover->err->code : 0;

    if (result == 0)
        result = lull_frontier_seek(frontier, prover->deadline_ns);
    if (result == 0 && lull_frontier_here(frontier).slope_w < prover->blocking_w)
        result = lull_frontier_seek_cheapest(frontier); /* nothing is gained by taking longer */
    if (result == 0)
        result = lull_certificate_init(&flow, left->graph);
    if (result == 0) {
        lull_frontier_certify(frontier, &flow);
        lull_frontier_durations(frontier, prover->duration_ns);
        lull_pipeline_earliest(left->graph, prover->duration_ns, begin_ns);
        result = lull_circulation_init(&prover->net, &prover->choices, prover->deadline_ns,
                                       lull_frontier_here(frontier).time_ns, &flow, begin_ns,
                                       prover->duration_ns);
    }
    lull_certificate_fini(&flow);
    lull_frontier_destroy(frontier);
    return result;
}

/* A search over all operations. */
static int search_whole(struct prover *prover, const struct mark *mark, double energy_j,
                        uint64_t branchings)
{
    const uint64_t left = prover->most_branchings - prover->report.branchings;
    int result;

    prover->limit = prover->report.branchings + (branchings < left ? branchings : left);
    prover->energy_j = energy_j;
    prover->report.done_ratio = 0.0;
    result = lull_prover_explore(prover, 1.0);
    lull_prover_return(prover, mark);
    return result;
}

static uint64_t more(const struct prover *prover, uint64_t branchings)
{
    return branchings < prover->most_branchings / FACTOR ? FACTOR * branchings
                                                         : prover->most_branchings;
}

/* The whole's branchings: fewer where there are windows, until the end, since it takes longer. */
static uint64_t share(const struct prover *prover, const struct windows *windows,
                      uint64_t branchings)
{
    return windows->count > 1 && branchings < prover->most_branchings ? branchings / OF_WINDOW
                                                                      : branchings;
}

/* Windows and the whole in turn, with ever more branchings. */
static int search_all(struct prover *prover, struct windows *windows, double energy_j)
{
    struct mark mark;
    int result = lull_prover_mark(prover, &mark);
    bool goes_on = result == 0 && prover->report.bound_j <= energy_j;

    for (uint64_t branchings = FIRST; goes_on; branchings = more(prover, branchings)) {
        result = lull_windows_raise(windows, prover, energy_j, branchings);
        if (result == -EAGAIN && !prover->is_given_up)
            result = search_whole(prover, &mark, energy_j, share(prover, windows, branchings));
        goes_on = result == -EAGAIN && !prover->is_given_up &&
                  prover->report.branchings < prover->most_branchings &&
                  branchings < prover->most_branchings;
    }
    lull_prover_forget(&mark);
    return result;
}

static int conclude(struct prover *prover, double energy_j, uint32_t window_ops)
{
    struct windows windows;
    int result;

    lull_circulation_repair(&prover->net, return_arc(&prover->net));
    prover->report.bound_j = lull_prover_bound(prover);
    prover->report.proven_j = prover->report.bound_j;
    lull_prover_set_estimate(prover);
    result = lull_windows_init(&windows, prover, window_ops);
    if (result == 0)
        result = search_all(prover, &windows, energy_j);
    lull_windows_fini(&windows);
    if (result == 0) {
        prover->report.done_ratio = 1.0;
        prover->report.proven_j = fmax(prover->report.proven_j, energy_j);
    }
    prover->report.outcome = result == 0         ? LULL_PROOF_NONE
                             : result == -EEXIST ? LULL_PROOF_FOUND
                                                 : LULL_PROOF_UNDECIDED;
    return result == -EEXIST || result == -EAGAIN ? 0 : result;
}

static int prove(struct prover *prover, const struct lull_pipeline_problem *problem,
                 double energy_j, uint32_t window_ops)
{
    const size_t count = problem->graph->op_count;
    int64_t *begin_ns = calloc(count, sizeof(*begin_ns));
    int result = lull_choices_init(&prover->choices, problem);

    for (uint32_t device = 0; device < problem->graph->device_count; device++)
        prover->blocking_w += problem->blocking_w[device];
    prover->net.op_count = (uint32_t)count;
    prover->duration_ns = calloc(count, sizeof(*prover->duration_ns));
    prover->rounded = calloc(count, sizeof(*prover->rounded));
    prover->found = calloc(count, sizeof(*prover->found));
    prover->gains = calloc(count, sizeof(*prover->gains));
    prover->is_inside = malloc(count * sizeof(*prover->is_inside));
    if (result == 0 &&
        (begin_ns == NULL || prover->duration_ns == NULL || prover->rounded == NULL ||
         prover->found == NULL || prover->gains == NULL || prover->is_inside == NULL))
        result = -ENOMEM;
    if (result == 0 && !lull_prover_can_hold(prover))
        result = -ERANGE;
    if (result == 0) {
        memset(prover->is_inside, true, count * sizeof(*prover->is_inside));
        prover->shortest_ns = lull_pipeline_earliest(problem->graph, prover->duration_ns, NULL);
        result = begin_search(prover, begin_ns);
    }
    if (result == 0)
        result = conclude(prover, energy_j, window_ops);
    free(begin_ns);
    return result;
}

int lull_pipeline_prove(const struct lull_pipeline_problem *problem, int64_t deadline_ns,
                        double energy_j, const struct lull_proof_limits *limits,
                        lull_proof_progress progress, void *user, uint32_t *option_out,
                        struct lull_proof_report *report_out, struct lull_error *err)
{
    struct prover prover = {.deadline_ns = deadline_ns,
                            .most_branchings = limits->branchings,
                            .progress = progress,
                            .user = user,
                            .err = err};
    struct chains chains;
    int result = lull_chains_init(&chains, problem);

    if (result == 0)
        result = prove(&prover, &chains.problem, energy_j, limits->window_ops);
    if (result == 0 && prover.report.outcome == LULL_PROOF_FOUND)
        lull_chains_plan(&chains, prover.found, option_out);
    if (result == 0)
        *report_out = prover.report;
    lull_choices_fini(&prover.choices);
    lull_circulation_fini(&prover.net);
    lull_chains_fini(&chains);
    free(prover.duration_ns);
    free(prover.rounded);
    free(prover.found);
    free(prover.gains);
    free(prover.is_inside);
    return result;
}
