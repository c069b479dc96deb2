/*
 * Cuts a device into stretches of one clock by a dynamic program over where they end. The last
 * stretch of an iteration goes on into the next one. SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/switching/switching_cut.h"

#include <assert.h>
#include <math.h>

#include "base/clock.h"
#include "base/smaller.h"

static bool has_clock(const struct lull_pipeline_class *class)
{
    return class->points[0].sm_mhz > 0;
}

static void add_clock(struct lull_switching_pricing *it, uint32_t mhz)
{
    for (uint32_t i = 0; i < it->clock_count; i++)
        if (it->clocks[i] == mhz)
            return;
    if (it->clock_count < LULL_CUT_CLOCKS)
        it->clocks[it->clock_count++] = mhz;
}

/* Lists the clocks worth having: the corners of its classes' hulls. */
static void find_clocks(struct lull_switching_pricing *it, uint32_t device)
{
    const struct lull_pipeline_problem *problem = it->search->problem;
    const struct lull_pipeline_graph *graph = problem->graph;
    const struct lull_pipeline_class *before[2] = {NULL, NULL};
    uint32_t chosen[LULL_PIPELINE_MAX_OPTIONS];

    it->clock_count = 0;
    for (uint32_t k = graph->first_on[device]; k < graph->first_on[device + 1]; k++) {
        const struct lull_pipeline_class *class =
            lull_pipeline_class_of(it->search->problem, graph->on_device[k]);
        size_t count;

        if (!has_clock(class) || class == before[0] || class == before[1])
            continue;
        before[1] = before[0];
        before[0] = class;
        count = lull_pipeline_pareto(class, problem->blocking_w[device], true, chosen);
        for (size_t i = 0; i < count; i++)
            add_clock(it, class->points[chosen[i]].sm_mhz);
    }
}

/* The energy and priced time of an operation at a clock; infinite if it lacks the clock. */
static double priced(const struct lull_switching_pricing *it, uint32_t device, uint32_t op,
                     uint32_t mhz)
{
    const struct lull_pipeline_class *class = lull_pipeline_class_of(it->search->problem, op);
    const struct lull_pipeline_point *point;
    uint32_t at;

    if (!has_clock(class))
        return 0.0;
    at = lull_switching_point_at(class, mhz);
    if (at == UINT32_MAX)
        return (double)INFINITY;
    point = &class->points[at];
    return (double)point->energy_nj +
           (it->price[op] - it->search->problem->blocking_w[device]) * (double)point->time_ns;
}

static double stretch_nj(const struct lull_switching_pricing *it, uint32_t clock, uint32_t from,
                         uint32_t to)
{
    return it->sums[clock][to] - it->sums[clock][from];
}

/* Chooses the places: all of a short device; of a long one those near its ends, and some between.
 */
static void find_places(struct lull_switching_pricing *it, uint32_t count)
{
    uint32_t at = 0;

    it->last = 0;
    while (at < count) {
        const uint32_t between = count > LULL_CUT_PLACES ? count - 2 * LULL_CUT_EDGE : 0;
        const uint32_t group = (between + LULL_CUT_PLACES - 2 * LULL_CUT_EDGE - 1) /
                               (LULL_CUT_PLACES - 2 * LULL_CUT_EDGE);

        it->starts[it->last++] = at;
        if (at < LULL_CUT_EDGE || at >= count - LULL_CUT_EDGE || group == 0)
            at++;
        else
            at = lull_smaller_u32(at + group, count - LULL_CUT_EDGE);
    }
    assert(it->last <= LULL_CUT_PLACES);
    it->starts[it->last] = count;
}

/* Adds up costs by clock, with a large number for infinities, which would not cancel out; and finds
 * when the device is told its clocks. */
static void prepare(struct lull_switching_pricing *it, uint32_t device)
{
    const struct lull_switching_search *search = it->search;
    const struct lull_pipeline_graph *graph = search->problem->graph;
    const uint32_t count = graph->first_on[device + 1] - graph->first_on[device];
    const double lacking_nj = 1e18;
    int64_t end_ns;

    it->ops = &graph->on_device[graph->first_on[device]];
    find_clocks(it, device);
    find_places(it, count);
    for (uint32_t clock = 0; clock < it->clock_count; clock++) {
        double sum_nj = 0.0;

        for (uint32_t place = 0, k = 0; place <= it->last; place++) {
            for (; k < it->starts[place]; k++) {
                const double cost_nj = priced(it, device, it->ops[k], it->clocks[clock]);

                sum_nj += isfinite(cost_nj) ? cost_nj : lacking_nj;
            }
            it->sums[clock][place] = sum_nj;
        }
    }
    for (uint32_t place = 0; place <= it->last; place++)
        it->time_ns[place] = place == 0 ? 0 : search->end_ns[it->ops[it->starts[place] - 1]];
    end_ns = it->time_ns[it->last];
    it->time_ns[it->last] = lull_later_ns(search->deadline_ns, end_ns);
}

/* The cheapest clock for the places [from, to), or, if outer, for all others. */
static struct lull_switching_stretch best_clock(const struct lull_switching_pricing *it,
                                                uint32_t from, uint32_t to, bool outer)
{
    struct lull_switching_stretch best = {(double)INFINITY, 0};

    for (uint32_t clock = 0; clock < it->clock_count; clock++) {
        const double cost_nj =
            outer ? stretch_nj(it, clock, 0, from) + stretch_nj(it, clock, to, it->last)
                  : stretch_nj(it, clock, from, to);

        if (cost_nj < best.cost_nj)
            best = (struct lull_switching_stretch){cost_nj, it->clocks[clock]};
    }
    return best;
}

/* What a change at a place costs, about: itself, and the time until a raised clock has settled, in
 * which the operation is taken to be a quarter slower. Half of all changes raise the clock. */
static double change_nj(const struct lull_switching_pricing *it, uint32_t place)
{
    const struct lull_pipeline_switching *switching = it->search->switching;
    const uint32_t op = it->ops[it->starts[place]];
    const double ahead_ns = (double)(it->begin_ns[op] - it->time_ns[place]);

    return switching->switch_j * 1e9 +
           0.5 * 0.25 * fmax(0.0, (double)switching->up_ns - ahead_ns) * it->price[op];
}

/* For every `to`, finds the cheapest stretches that fill [from, to): what they cost in inner[to],
 * and where the last of them begins in parent[to]. */
static void fill_inner(struct lull_switching_pricing *it, uint32_t from)
{
    const int64_t dwell_ns = it->search->switching->dwell_ns;

    it->inner[from] = 0.0;
    for (uint32_t to = from + 1; to <= it->last; to++) {
        it->inner[to] = (double)INFINITY;
        for (uint32_t begin = from; begin < to; begin++) {
            const double cost_nj =
                it->inner[begin] + it->best[begin][to].cost_nj + change_nj(it, begin);

            if (cost_nj < it->inner[to] && it->time_ns[to] - it->time_ns[begin] >= dwell_ns) {
                it->inner[to] = cost_nj;
                it->parent[to] = begin;
            }
        }
    }
}

static void set_clock(const struct lull_switching_pricing *it, uint32_t from, uint32_t to,
                      uint32_t mhz)
{
    for (uint32_t k = it->starts[from]; k < it->starts[to]; k++) {
        const uint32_t at =
            lull_switching_point_at(lull_pipeline_class_of(it->search->problem, it->ops[k]), mhz);

        if (at != UINT32_MAX)
            it->search->plan[it->ops[k]] = at;
    }
}

/* A cut has inner stretches between two places, and one around them, which goes on from the second
 * place into the next iteration up to the first. */
struct cut {
    uint32_t from;
    uint32_t to;
    struct lull_switching_stretch around;
    double cost_nj;
};

/* Takes the cheapest cut whose inner stretches begin at `from` if it is cheaper than *cut. */
static void cut_from(struct lull_switching_pricing *it, uint32_t from, struct cut *cut)
{
    fill_inner(it, from);
    for (uint32_t to = from + 1; to <= it->last; to++) {
        const bool is_whole = from == 0 && to == it->last;
        const int64_t rest_ns = it->time_ns[it->last] - it->time_ns[to] + it->time_ns[from];
        struct lull_switching_stretch around = {0.0, 0};
        double cost_nj = it->inner[to];

        if (isinf(cost_nj) || (!is_whole && rest_ns < it->search->switching->dwell_ns))
            continue;
        if (!is_whole)
            around = best_clock(it, from, to, true);
        cost_nj += around.cost_nj + (to < it->last ? change_nj(it, to) : 0.0);
        if (cost_nj < cut->cost_nj)
            *cut = (struct cut){from, to, around, cost_nj};
    }
}

void lull_switching_cut(struct lull_switching_pricing *it, uint32_t device)
{
    const struct lull_pipeline_graph *graph = it->search->problem->graph;
    struct cut cut = {0};

    if (graph->first_on[device] == graph->first_on[device + 1])
        return;
    prepare(it, device);
    if (it->clock_count == 0)
        return;
    cut.around = best_clock(it, 0, 0, true);
    cut.cost_nj = cut.around.cost_nj;
    for (uint32_t from = 0; from < it->last; from++)
        for (uint32_t to = from + 1; to <= it->last; to++)
            it->best[from][to] = best_clock(it, from, to, false);
    for (uint32_t from = 0; from < it->last; from++)
        cut_from(it, from, &cut);
    set_clock(it, 0, cut.from, cut.around.mhz);
    set_clock(it, cut.to, it->last, cut.around.mhz);
    if (cut.to > cut.from)
        fill_inner(it, cut.from);
    assert(cut.from <= cut.to && cut.to <= it->last);
    for (uint32_t to = cut.to; to > cut.from; to = it->parent[to])
        set_clock(it, it->parent[to], to, it->best[it->parent[to]][to].mhz);
}
