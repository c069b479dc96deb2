/*
 * Beam: which passes are made, and along which guides. SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/rounding/beam.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/pipeline/frontier/certificate.h"
#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/rounding/beam_state.h"

/* The times of the relaxed optima whose flows and ends guide the passes, as shares of the deadline.
 * A plan of real operating points does not quite reach the deadline on all paths, so optima of
 * shorter times suit as well. Commit 1c63aea measured them. */
static const double GUIDES[] = {1.0, 0.9995, 0.999};
enum { GUIDE_COUNT = sizeof(GUIDES) / sizeof(GUIDES[0]) };

/* Another guide is worth its time where the plan is farther from the bound than this, and the guide
 * before has saved this much: commit 93b18b1 measured that half the time is saved by it and 0.001 %
 * of the energy lost. */
static const double NEAR_RATIO = 1.0005;
static const double WORTH_RATIO = 0.0002;

/* The first pass goes along the relaxed optimum, the others along the best plan found so far: along
 * its earliest ends, and half-way between those and the latest. */
enum guide { RELAXED, EARLIEST, BETWEEN, PASSES };

struct beam_search {
    struct lull_pipeline_rounding *rounding;
    struct lull_frontier *frontier;
    int64_t deadline_ns;
    struct lull_beam beam;
    struct lull_certificate flow;
    int64_t *duration_ns;
    uint32_t *found; /* the best plan of the flow at hand, in steps */
    uint32_t *best;  /* the best plan of all */
    int64_t found_cost;
};

/* The working arrays live in the beam's memory, so that one free ends the whole search. */
static int search_create(struct beam_search *search)
{
    const struct lull_pipeline_rounding *rounding = search->rounding;
    const size_t count = rounding->count;
    struct lull_memory *const memory = &search->beam.memory; /* is freed with the beam */
    int result = lull_beam_create(&search->beam, rounding, search->deadline_ns);

    if (result == 0)
        result = lull_certificate_init(&search->flow, rounding->problem->graph);
    search->duration_ns = lull_memory_take(memory, count, sizeof(*search->duration_ns));
    search->found = lull_memory_take(memory, count, sizeof(*search->found));
    search->best = lull_memory_take(memory, count, sizeof(*search->best));
    return memory->has_failed ? -ENOMEM : result;
}

static void search_destroy(struct beam_search *search)
{
    lull_memory_free(&search->beam.memory);
    lull_certificate_fini(&search->flow);
}

/* Guides along the relaxed optimum's ends, stretched to the deadline. */
static void guide_relaxed(struct beam_search *search, const struct lull_frontier *frontier)
{
    struct lull_pipeline_rounding *rounding = search->rounding;
    double stretch;

    lull_frontier_durations(frontier, search->duration_ns);
    for (uint32_t op = 0; op < rounding->count; op++)
        rounding->duration_ns[op] = search->duration_ns[rounding->place[op]];
    stretch =
        (double)search->deadline_ns / (double)lull_round_longest(rounding, rounding->duration_ns);
    for (uint32_t op = 0; op < rounding->count; op++)
        search->beam.guide_ns[op] = (int64_t)((double)rounding->end_ns[op] * stretch);
}

/* Guides along the ends of the best plan of this flow. */
static void guide_found(struct beam_search *search, enum guide guide)
{
    struct lull_pipeline_rounding *rounding = search->rounding;

    lull_round_earliest(rounding, search->found);
    lull_round_latest(rounding, search->found, search->deadline_ns);
    for (uint32_t op = 0; op < rounding->count; op++) {
        const int64_t earliest_ns = rounding->end_ns[op];
        const int64_t latest_ns =
            rounding->latest_begin_ns[op] + step_at(rounding, op, search->found[op])->time_ns;

        search->beam.guide_ns[op] =
            guide == EARLIEST ? earliest_ns : earliest_ns + (latest_ns - earliest_ns) / 2;
    }
}

/* Guides follow the best plan of the flow at hand, but the result is the best plan of all flows. */
static void beam_keep_better(struct beam_search *search, const uint32_t *step)
{
    const struct lull_pipeline_rounding *rounding = search->rounding;
    const int64_t cost = lull_round_cost(rounding, step);

    if (cost < search->found_cost) {
        search->found_cost = cost;
        memcpy(search->found, step, rounding->count * sizeof(*step));
    }
    if (cost < lull_round_cost(rounding, search->best))
        memcpy(search->best, step, rounding->count * sizeof(*step));
}

/* Makes all passes of one flow, each followed by moves from the plan that it finds. */
static void run_passes(struct beam_search *search)
{
    struct lull_pipeline_rounding *rounding = search->rounding;

    search->found_cost = INT64_MAX;
    for (enum guide guide = RELAXED; guide < PASSES; guide++) {
        if (guide == RELAXED)
            guide_relaxed(search, search->frontier);
        else
            guide_found(search, guide);
        if (lull_beam_pass(&search->beam, rounding->step)) {
            lull_round_moves(rounding, search->deadline_ns, UINT64_MAX, rounding->step);
            beam_keep_better(search, rounding->step);
        } else if (guide == RELAXED) {
            memcpy(search->found, search->best, rounding->count * sizeof(*search->found));
        }
    }
}

/* The best plan's energy in an iteration that takes as long as the deadline. */
static double best_energy_j(const struct beam_search *search)
{
    struct lull_pipeline_rounding *rounding = search->rounding;

    lull_round_to_points(rounding, search->best, rounding->point);
    return lull_pipeline_plan_cost(rounding->problem, rounding->point, search->deadline_ns)
        .energy_j;
}

/* Makes passes along one relaxed optimum after the other, while that is worth it. */
static int run_guides(struct beam_search *search)
{
    double energy_j = best_energy_j(search);
    double enough_j = 0.0;

    for (unsigned i = 0; i < GUIDE_COUNT; i++) {
        const double before_j = energy_j;
        const int64_t time_ns = (int64_t)((double)search->deadline_ns * GUIDES[i]);
        const int result = lull_frontier_seek(search->frontier, time_ns);

        if (result == -ERANGE && i > 0)
            return 0;
        if (result < 0)
            return result;
        lull_frontier_certify(search->frontier, &search->flow);
        if (search->flow.value == 0)
            return 0; /* this is the slow end: every operation has its cheapest operating point */
        if (i == 0)
            enough_j = NEAR_RATIO * lull_frontier_here(search->frontier).energy_j;
        if (energy_j <= enough_j)
            return 0;
        lull_beam_set_flow(&search->beam, &search->flow);
        run_passes(search);
        energy_j = best_energy_j(search);
        if (energy_j > (1.0 - WORTH_RATIO) * before_j)
            return 0;
    }
    return 0;
}

/* The plan at hand is the first best, so that the result is never more expensive than it was. */
int lull_pipeline_beam(struct lull_pipeline_rounding *rounding, struct lull_frontier *frontier,
                       int64_t deadline_ns, uint32_t *point_inout)
{
    struct beam_search search = {
        .rounding = rounding, .frontier = frontier, .deadline_ns = deadline_ns};
    int result = search_create(&search);

    if (result < 0)
        goto destroy;
    result = lull_round_prepare_moves(rounding);
    if (result < 0)
        goto destroy;
    lull_round_from_points(rounding, point_inout, search.best);
    if (lull_round_earliest(rounding, search.best) > deadline_ns) {
        result = -ERANGE;
        goto destroy;
    }
    result = run_guides(&search);
    if (result < 0)
        goto destroy;
    assert(lull_round_earliest(rounding, search.best) <= deadline_ns);
    lull_round_to_points(rounding, search.best, point_inout);
destroy:
    search_destroy(&search);
    return result;
}
