/*
 * Beam: what passes are made. SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/round/beam.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/certificate.h"
#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/round/beam_state.h"
#include "core/pipeline/round/smooth.h"

/* The relaxed optima whose flows and times guide, as shares of the deadline. A plan of real options
 * does not quite reach the deadline on all paths, so those of shorter times suit as well. */
static const double GUIDES[] = {1.0, 0.9995, 0.999};
enum { GUIDE_COUNT = sizeof(GUIDES) / sizeof(GUIDES[0]) };

/* Another guide is worth its time where the plan is farther from the bound than this, and the guide
 * before has brought this much. */
static const double NEAR_RATIO = 1.0005;
static const double WORTH_RATIO = 0.0002;

/*
 * With springs: over how much of the distance of steps costs are averaged, how coarsely plans are
 * told apart then (in grains), and which relaxed optimum guides. Which suit best is chance, and so
 * whether one wide pass finds more than many narrow ones. So there are rounds, each of twice as
 * many passes half as wide (as restarts of unknown length share their time: Luby, Sinclair,
 * Zuckerman 1993), another one whenever effort doubles; and passes are spread evenly over a box
 * (the additive recurrence of Roberts 2018).
 */
static const double SHARE_LEAST = 0.3;
static const double SHARE_RANGE = 0.6;
static const double GRAINS_RANGE = 9.0;
static const double SOONER_RANGE = 0.002;
static const double RECURRENCE[] = {0.8191725133961645, 0.6710436067037893, 0.5497004779019703};

/* What share of all flow ties. */
static const double LEAST_FLOW = 5e-4;

/* The first pass goes along the relaxed optimum, the others along the best plan so far. */
enum guide { RELAXED, EARLIEST, BETWEEN, PASSES };

struct search {
    struct lull_pipeline_rounding *rounding;
    struct lull_frontier *frontier;
    int64_t deadline_ns;
    struct beam beam;
    struct lull_certificate flow;
    int64_t *duration_ns;
    uint32_t *found; /* the best plan of this guide */
    uint32_t *best;  /* of all */
    int64_t found_cost;
    bool is_thorough; /* all guides, however little they bring, and springs */
};

static int search_create(struct search *search, uint32_t effort)
{
    const struct lull_pipeline_rounding *rounding = search->rounding;
    const size_t count = rounding->count;
    int result = lull_beam_create(&search->beam, rounding, search->deadline_ns, effort);

    if (result == 0)
        result = lull_certificate_init(&search->flow, rounding->problem->graph);
    search->duration_ns = malloc(count * sizeof(*search->duration_ns));
    search->found = malloc(count * sizeof(*search->found));
    search->best = malloc(count * sizeof(*search->best));
    if (search->duration_ns == NULL || search->found == NULL || search->best == NULL)
        return -ENOMEM;
    return result;
}

static void search_destroy(struct search *search)
{
    lull_beam_destroy(&search->beam);
    lull_certificate_fini(&search->flow);
    free(search->duration_ns);
    free(search->found);
    free(search->best);
}

/* The relaxed optimum's ends, stretched to the deadline. */
static void guide_relaxed(struct search *search, const struct lull_frontier *frontier)
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

/* The earliest ends of the best plan of this guide, or half-way to the latest. */
static void guide_found(struct search *search, enum guide guide)
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

static void keep_better(struct search *search, const uint32_t *step)
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

/* A pass, and moves from what it finds. 1, 0: nothing is found, -ENOMEM. */
static int run_pass(struct search *search)
{
    struct lull_pipeline_rounding *rounding = search->rounding;
    const int result = lull_beam_pass(&search->beam, rounding->step);

    if (result == 1) {
        lull_round_moves(rounding, search->deadline_ns, UINT64_MAX, rounding->step);
        keep_better(search, rounding->step);
    }
    return result;
}

/* All passes of one guide. */
static int run_passes(struct search *search)
{
    struct lull_pipeline_rounding *rounding = search->rounding;

    int result;

    search->found_cost = INT64_MAX;
    for (enum guide guide = RELAXED; guide < PASSES; guide++) {
        if (guide == RELAXED)
            guide_relaxed(search, search->frontier);
        else
            guide_found(search, guide);
        result = run_pass(search);
        if (result < 0)
            return result;
        if (result == 0 && guide == RELAXED)
            memcpy(search->found, search->best, rounding->count * sizeof(*search->found));
    }
    return 0;
}

/* A pass's place in a side of the box, 0 to 1. */
static double place(uint32_t number, unsigned side)
{
    const double along = number * RECURRENCE[side];

    return along - floor(along);
}

/* Prices, times and stiffness of smooth costs. -ERANGE: time has no price, or none is that fast;
 * -ENOMEM. */
static int set_springs(struct search *search, const struct smooth *smooth,
                       struct lull_frontier *frontier, int64_t guide_ns)
{
    const struct lull_pipeline_rounding *rounding = search->rounding;
    struct beam *beam = &search->beam;
    const int result = lull_frontier_seek(frontier, guide_ns);

    if (result < 0)
        return result;
    lull_frontier_certify(frontier, &search->flow);
    if (search->flow.value == 0)
        return -ERANGE; /* the slow end */
    lull_beam_set_flow(beam, &search->flow);
    guide_relaxed(search, frontier);
    beam->springs.least_w = LEAST_FLOW * (double)search->flow.value * search->flow.unit_w;
    beam->springs.stiffness = calloc(rounding->count, sizeof(*beam->springs.stiffness));
    if (beam->springs.stiffness == NULL)
        return -ENOMEM;
    for (uint32_t op = 0; op < rounding->count; op++)
        if (beam->op_price_w[op] > beam->springs.least_w)
            beam->springs.stiffness[op] = lull_smooth_stiffness(
                smooth, rounding->ladder_of[op], (double)search->duration_ns[rounding->place[op]]);
    return 0;
}

/* One of the passes with springs, numbered from 1 on; kept: its width. */
static int run_springs(struct search *search, uint32_t number, uint32_t kept)
{
    const double share = SHARE_LEAST + SHARE_RANGE * place(number, 0);
    const int64_t grains = 1 + (int64_t)(GRAINS_RANGE * place(number, 1));
    const double sooner = SOONER_RANGE * place(number, 2);
    const int64_t guide_ns = (int64_t)((double)search->deadline_ns * (1.0 - sooner));
    struct beam *beam = &search->beam;
    const int64_t grain_ns = beam->grain_ns;
    const uint32_t width = beam->width;
    struct lull_frontier *frontier = NULL;
    struct lull_error err = {0};
    struct smooth smooth;
    int result = lull_smooth_create(&smooth, search->rounding, share);

    if (result == 0) {
        frontier = lull_frontier_create(&smooth.problem, &err);
        result = frontier == NULL ? err.code : set_springs(search, &smooth, frontier, guide_ns);
    }
    if (result == 0) {
        beam->has_springs = true;
        beam->grain_ns = grains * grain_ns;
        beam->width = kept;
        search->found_cost = INT64_MAX;
        result = run_pass(search);
        beam->has_springs = false;
        beam->grain_ns = grain_ns;
        beam->width = width;
    }
    lull_springs_destroy(&beam->springs);
    lull_frontier_destroy(frontier);
    lull_smooth_destroy(&smooth);
    return result == -ENOMEM ? result : 0;
}

/* Pass 1 is round 0, 2 and 3 are round 1, 4 to 7 round 2. */
static int run_rounds(struct search *search, uint32_t effort)
{
    unsigned round = 0;
    int result = 0;

    for (uint32_t number = 1; 2U << round <= effort && result == 0; number++) {
        result = run_springs(search, number, search->beam.room >> round);
        round += number + 1 == 2U << round;
    }
    return result;
}

/* Of an iteration that takes as long as the deadline. */
static double best_energy_j(const struct search *search)
{
    struct lull_pipeline_rounding *rounding = search->rounding;

    lull_round_to_options(rounding, search->best, rounding->option);
    return lull_pipeline_plan_cost(rounding->problem, rounding->option, search->deadline_ns)
        .energy_j;
}

static int run_guides(struct search *search)
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
            return 0; /* the slow end: every operation has its cheapest option */
        if (i == 0)
            enough_j = NEAR_RATIO * lull_frontier_here(search->frontier).energy_j;
        if (!search->is_thorough && energy_j <= enough_j)
            return 0;
        lull_beam_set_flow(&search->beam, &search->flow);
        if (run_passes(search) < 0)
            return -ENOMEM;
        energy_j = best_energy_j(search);
        if (!search->is_thorough && energy_j > (1.0 - WORTH_RATIO) * before_j)
            return 0;
    }
    return 0;
}

int lull_pipeline_beam(struct lull_pipeline_rounding *rounding, struct lull_frontier *frontier,
                       int64_t deadline_ns, uint32_t effort, uint32_t *option_inout)
{
    struct search search = {.rounding = rounding,
                            .frontier = frontier,
                            .deadline_ns = deadline_ns,
                            .is_thorough = effort > 1};
    int result = search_create(&search, effort);

    if (result == 0)
        result = lull_round_prepare_moves(rounding);
    if (result == 0) {
        lull_round_from_options(rounding, option_inout, search.best);
        if (lull_round_earliest(rounding, search.best) > deadline_ns)
            result = -ERANGE;
    }
    if (result == 0)
        result = run_guides(&search);
    if (result == 0 && search.is_thorough)
        result = run_rounds(&search, effort);
    if (result == 0)
        lull_round_to_options(rounding, search.best, option_inout);
    search_destroy(&search);
    return result;
}
