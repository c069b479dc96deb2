/*
 * Plans of few changes from prices of time: what a nanosecond of each operation is worth.
 *
 * At given prices devices are independent of each other: each is cut into stretches of one clock,
 * no shorter than the dwell, so that energy and priced time together are least. The plan that
 * results is walked through; then the prices on its critical path rise and the others
 * fall, and all of them rise the more the later the plan is (a subgradient method on the deadline's
 * dual; Held and Karp 1971). So a device finds one clock for its warm-up, one for its steady phase
 * and one for its cool-down where that saves most. SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "core/pipeline/switching/switching_state.h"

/* Bounds of the dynamic program's work; commit 7051d5f measured what plans gain by it. */
enum {
    CUT_CLOCKS = 64,
    CUT_EDGE = 24,   /* a stretch may end after each of this many operations at either end */
    CUT_PLACES = 64, /* a stretch may end at this many places of a device in all */
};

struct priced_stretch {
    double cost_nj;
    uint32_t mhz;
};

/* The prices that the search has found, and what is known of the device at hand. */
struct pricing {
    struct lull_switching_search *search;
    double *price; /* of every operation's time, nJ per ns */
    int64_t *begin_ns;
    double level;   /* about what the prices of a path add up to */
    uint32_t *kept; /* the cheapest plan in time, or the least late one */
    double min_nj;  /* its cost; infinite while no plan was in time */
    int64_t min_late_ns;

    /* The device at hand. Stretches begin and end at places: place i is ahead of operation
     * starts[i] of the device, the last place after all of them. */
    const uint32_t *ops;
    uint32_t last; /* place */
    uint32_t starts[CUT_PLACES + 1];
    int64_t time_ns[CUT_PLACES + 1]; /* when a clock is commanded there */
    uint32_t clock_count;
    uint32_t clocks[CUT_CLOCKS];
    double sums[CUT_CLOCKS][CUT_PLACES + 1]; /* cost of the operations ahead of a place */
    struct priced_stretch best[CUT_PLACES][CUT_PLACES + 1];
    double inner[CUT_PLACES + 1];
    uint32_t parent[CUT_PLACES + 1];
};

/* ---- one device --------------------------------------------------------------------------- */

/* A dynamic program finds where its stretches of one clock end. The last stretch of an iteration
 * continues into the next one. */

static bool pricing_has_clock(const struct lull_pipeline_class *class)
{
    return class->points[0].sm_mhz > 0;
}

static void pricing_add_clock(struct pricing *it, uint32_t mhz)
{
    for (uint32_t i = 0; i < it->clock_count; i++)
        if (it->clocks[i] == mhz)
            return;
    if (it->clock_count < CUT_CLOCKS)
        it->clocks[it->clock_count++] = mhz;
}

/* Lists the clocks worth having: the corners of its classes' hulls. */
static void pricing_find_clocks(struct pricing *it, uint32_t device)
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

        if (!pricing_has_clock(class) || class == before[0] || class == before[1])
            continue;
        before[1] = before[0];
        before[0] = class;
        count = lull_pipeline_pareto(class, problem->blocking_w[device], true, chosen);
        for (size_t i = 0; i < count; i++)
            pricing_add_clock(it, class->points[chosen[i]].sm_mhz);
    }
}

/* The energy and priced time of an operation at a clock; infinite if it lacks the clock. */
static double pricing_price_op(const struct pricing *it, uint32_t device, uint32_t op, uint32_t mhz)
{
    const struct lull_pipeline_class *class = lull_pipeline_class_of(it->search->problem, op);
    const struct lull_pipeline_point *point;
    uint32_t at;

    if (!pricing_has_clock(class))
        return 0.0;
    at = lull_pipeline_point_at(class, mhz);
    if (at == UINT32_MAX)
        return (double)INFINITY;
    point = &class->points[at];
    return (double)point->energy_nj +
           (it->price[op] - it->search->problem->blocking_w[device]) * (double)point->time_ns;
}

static double stretch_nj(const struct pricing *it, uint32_t clock, uint32_t from, uint32_t to)
{
    return it->sums[clock][to] - it->sums[clock][from];
}

/* Chooses the places: all of a short device; of a long one those near its ends, and some between.
 */
static void find_places(struct pricing *it, uint32_t count)
{
    uint32_t at = 0;

    it->last = 0;
    while (at < count) {
        const uint32_t between = count > CUT_PLACES ? count - 2 * CUT_EDGE : 0;
        const uint32_t group =
            (between + CUT_PLACES - 2 * CUT_EDGE - 1) / (CUT_PLACES - 2 * CUT_EDGE);

        it->starts[it->last++] = at;
        if (at < CUT_EDGE || at >= count - CUT_EDGE || group == 0)
            at++;
        else
            at = lull_min_u32(at + group, count - CUT_EDGE);
    }
    assert(it->last <= CUT_PLACES);
    it->starts[it->last] = count;
}

/* Adds up costs by clock, with a large number for infinities, which would not cancel out; and finds
 * when the device's clocks are commanded. */
static void pricing_prepare(struct pricing *it, uint32_t device)
{
    const struct lull_switching_search *search = it->search;
    const struct lull_pipeline_graph *graph = search->problem->graph;
    const uint32_t count = graph->first_on[device + 1] - graph->first_on[device];
    const double lacking_nj = 1e18;
    int64_t end_ns;

    it->ops = &graph->on_device[graph->first_on[device]];
    pricing_find_clocks(it, device);
    find_places(it, count);
    for (uint32_t clock = 0; clock < it->clock_count; clock++) {
        double sum_nj = 0.0;

        for (uint32_t place = 0, k = 0; place <= it->last; place++) {
            for (; k < it->starts[place]; k++) {
                const double cost_nj = pricing_price_op(it, device, it->ops[k], it->clocks[clock]);

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
static struct priced_stretch pricing_best_clock(const struct pricing *it, uint32_t from,
                                                uint32_t to, bool outer)
{
    struct priced_stretch best = {(double)INFINITY, 0};

    for (uint32_t clock = 0; clock < it->clock_count; clock++) {
        const double cost_nj =
            outer ? stretch_nj(it, clock, 0, from) + stretch_nj(it, clock, to, it->last)
                  : stretch_nj(it, clock, from, to);

        if (cost_nj < best.cost_nj)
            best = (struct priced_stretch){cost_nj, it->clocks[clock]};
    }
    return best;
}

/* Approximate cost of a change at a place: the change itself, and the time until a raised clock has
 * settled, in which the operation is taken to be a quarter slower. Half of all changes raise the
 * clock. */
static double change_nj(const struct pricing *it, uint32_t place)
{
    const struct lull_pipeline_switching *switching = it->search->switching;
    const uint32_t op = it->ops[it->starts[place]];
    const double ahead_ns = (double)(it->begin_ns[op] - it->time_ns[place]);

    return switching->switch_j * 1e9 +
           0.5 * 0.25 * fmax(0.0, (double)switching->up_ns - ahead_ns) * it->price[op];
}

/* For every `to`, finds the cheapest stretches that fill [from, to): what they cost in inner[to],
 * and where the last of them begins in parent[to]. */
static void fill_inner(struct pricing *it, uint32_t from)
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

static void pricing_set_clock(const struct pricing *it, uint32_t from, uint32_t to, uint32_t mhz)
{
    for (uint32_t k = it->starts[from]; k < it->starts[to]; k++) {
        const uint32_t at =
            lull_pipeline_point_at(lull_pipeline_class_of(it->search->problem, it->ops[k]), mhz);

        if (at != UINT32_MAX)
            it->search->plan[it->ops[k]] = at;
    }
}

/* A cut has inner stretches between two places, and one around them, which continues from the
 * second place into the next iteration up to the first. */
struct cut {
    uint32_t from;
    uint32_t to;
    struct priced_stretch around;
    double cost_nj;
};

/* Takes the cheapest cut whose inner stretches begin at `from` if it is cheaper than *cut. */
static void cut_from(struct pricing *it, uint32_t from, struct cut *cut)
{
    fill_inner(it, from);
    for (uint32_t to = from + 1; to <= it->last; to++) {
        const bool is_whole = from == 0 && to == it->last;
        const int64_t rest_ns = it->time_ns[it->last] - it->time_ns[to] + it->time_ns[from];
        struct priced_stretch around = {0.0, 0};
        double cost_nj = it->inner[to];

        if (isinf(cost_nj) || (!is_whole && rest_ns < it->search->switching->dwell_ns))
            continue;
        if (!is_whole)
            around = pricing_best_clock(it, from, to, true);
        cost_nj += around.cost_nj + (to < it->last ? change_nj(it, to) : 0.0);
        if (cost_nj < cut->cost_nj)
            *cut = (struct cut){from, to, around, cost_nj};
    }
}

/*
 * Gives the device, in search->plan, the stretches that cost least at these prices: energy and
 * priced time together. None is shorter than the dwell at the times of search->end_ns, those of the
 * plan that was walked through last. O(places^3 + places^2 clocks).
 */
static void cut_device(struct pricing *it, uint32_t device)
{
    const struct lull_pipeline_graph *graph = it->search->problem->graph;
    struct cut cut = {0};

    if (graph->first_on[device] == graph->first_on[device + 1])
        return;
    pricing_prepare(it, device);
    if (it->clock_count == 0)
        return;
    cut.around = pricing_best_clock(it, 0, 0, true);
    cut.cost_nj = cut.around.cost_nj;
    for (uint32_t from = 0; from < it->last; from++)
        for (uint32_t to = from + 1; to <= it->last; to++)
            it->best[from][to] = pricing_best_clock(it, from, to, false);
    for (uint32_t from = 0; from < it->last; from++)
        cut_from(it, from, &cut);
    pricing_set_clock(it, 0, cut.from, cut.around.mhz);
    pricing_set_clock(it, cut.to, it->last, cut.around.mhz);
    if (cut.to > cut.from)
        fill_inner(it, cut.from);
    assert(cut.from <= cut.to && cut.to <= it->last);
    for (uint32_t to = cut.to; to > cut.from; to = it->parent[to])
        pricing_set_clock(it, it->parent[to], to, it->best[it->parent[to]][to].mhz);
}

/* Commit 7051d5f measured these on GPT-3, 8 stages and 12 micro-batches, with dwells up to 400 ms.
 */
enum {
    ROUNDS = 160,
    QUICK_ROUNDS = 40,
    MIN_ROUNDS = 8,          /* if the limit of work allows fewer, there is no search */
    SEARCH_EVERY = 8,        /* after this many rounds the local search takes its turn, */
    MAX_SEARCHED_OPS = 256,  /* in pipelines of at most this many operations */
    STEPS_LIMIT = 200000000, /* steps of the dynamic programs in all rounds of one gain */
};

/* ---- prices ------------------------------------------------------------------------------ */

/* Price that the plan pays for a nanosecond of an operation: the slope of the hull at its operating
 * point. */
static double first_price(const struct pricing *it, uint32_t device, uint32_t op,
                          const uint32_t *point)
{
    const struct lull_pipeline_class *class = lull_pipeline_class_of(it->search->problem, op);
    const double blocking_w = it->search->problem->blocking_w[device];
    uint32_t chosen[LULL_PIPELINE_MAX_OPTIONS];
    const size_t count = lull_pipeline_pareto(class, blocking_w, true, chosen);
    const int64_t time_ns = class->points[point[op]].time_ns;
    size_t at = 0;

    while (at + 1 < count && class->points[chosen[at + 1]].time_ns <= time_ns)
        at++;
    if (at + 1 >= count)
        return 0.0;
    const struct lull_pipeline_point *fast = &class->points[chosen[at]];
    const struct lull_pipeline_point *slow = &class->points[chosen[at + 1]];

    return (double)(fast->energy_nj - slow->energy_nj) / (double)(slow->time_ns - fast->time_ns) +
           blocking_w;
}

/* The prices begin where the plan at hand stands, so that the first rounds already cut devices near
 * it. The level adds up every device's mean price, about what a path pays. */
static void begin_prices(struct pricing *it, const uint32_t *point)
{
    const struct lull_pipeline_graph *graph = it->search->problem->graph;

    it->level = 0.0;
    for (uint32_t device = 0; device < graph->device_count; device++) {
        double sum = 0.0;
        const uint32_t count = graph->first_on[device + 1] - graph->first_on[device];

        for (uint32_t k = graph->first_on[device]; k < graph->first_on[device + 1]; k++) {
            const uint32_t op = graph->on_device[k];

            it->price[op] = first_price(it, device, op, point);
            sum += it->price[op];
        }
        if (count > 0)
            it->level += sum / count;
    }
}

/* Moves a share of all prices to the operations of the critical path. */
static void move_prices(struct pricing *it, int64_t time_ns, double share)
{
    const struct lull_pipeline_graph *graph = it->search->problem->graph;
    const int64_t *end_ns = it->search->end_ns;
    uint32_t op = 0;
    bool found = true;

    for (uint32_t i = 0; i < graph->op_count; i++) {
        it->price[i] *= 1.0 - share;
        if (end_ns[i] == time_ns)
            op = i;
    }
    while (found) {
        it->price[op] += share * it->level;
        found = false;
        for (uint32_t k = graph->first_in[op]; k < graph->first_in[op + 1] && !found; k++) {
            const struct lull_pipeline_edge *edge = &graph->edges[graph->in_edges[k]];

            if (end_ns[edge->from] + edge->latency_ns == it->begin_ns[op]) {
                op = edge->from;
                found = true;
            }
        }
    }
}

/* ---- rounds ------------------------------------------------------------------------------ */

static struct lull_switching_verdict pricing_walk(struct pricing *it)
{
    struct lull_switching_search *search = it->search;

    return lull_switching_walk(search->problem, search->switching, search->plan,
                               search->deadline_ns, search->clocks, it->begin_ns, search->end_ns);
}

/* Keeps the plan if it is the cheapest in time, or, while none is in time, the least late. */
static void pricing_keep_plan(struct pricing *it)
{
    struct lull_switching_search *search = it->search;
    const size_t size = search->problem->graph->op_count * sizeof(*it->kept);

    lull_switching_judge(search);
    if (search->excess_ns == 0 && search->cost_nj < it->min_nj) {
        it->min_nj = search->cost_nj;
        memcpy(it->kept, search->plan, size);
    } else if (isinf(it->min_nj) && search->excess_ns < it->min_late_ns) {
        it->min_late_ns = search->excess_ns;
        memcpy(it->kept, search->plan, size);
    }
}

/* Makes one round. share: how far prices move towards the critical path; gain: how far all of them
 * rise for a plan that is late. */
static void pricing_run_round(struct pricing *it, double share, double gain)
{
    const struct lull_pipeline_graph *graph = it->search->problem->graph;
    struct lull_switching_verdict verdict;
    double late;

    for (uint32_t device = 0; device < graph->device_count; device++)
        cut_device(it, device);
    pricing_keep_plan(it);
    verdict = pricing_walk(it);
    late = (double)(verdict.time_ns - it->search->deadline_ns) / (double)it->search->deadline_ns;
    it->level *= 1.0 + share * fmax(-1.0, fmin(1.0, gain * late));
    move_prices(it, verdict.time_ns, share);
}

/* Number of rounds that the limit of work allows. */
static int count_rounds(const struct lull_pipeline_graph *graph)
{
    const double clocks = 32.0; /* about as many corners as a device's hulls have */
    double steps = 1.0;

    for (uint32_t device = 0; device < graph->device_count; device++) {
        const double count =
            fmin(CUT_PLACES, graph->first_on[device + 1] - graph->first_on[device]);

        steps += count * count * (clocks + count / 6.0);
    }
    return steps * ROUNDS <= STEPS_LIMIT ? ROUNDS : (int)(STEPS_LIMIT / steps);
}

/* Makes all rounds from a plan, and searches from the best plan of them; with often, from some
 * others too. */
static void pricing_consider(struct pricing *it, const uint32_t *point, int rounds, double gain,
                             bool often)
{
    struct lull_switching_search *search = it->search;
    const size_t size = search->problem->graph->op_count * sizeof(*point);

    assert(rounds > 0);
    it->min_nj = (double)INFINITY;
    it->min_late_ns = INT64_MAX;
    memcpy(search->plan, point, size);
    pricing_walk(it);
    begin_prices(it, point);
    for (int i = 0; i < rounds; i++) {
        pricing_run_round(it, 0.25 / (1.0 + 8.0 * i / rounds), gain);
        if (often && i % SEARCH_EVERY == 0) {
            lull_switching_consider(search);
            pricing_walk(it);
        }
    }
    memcpy(search->plan, it->kept, size);
    lull_switching_consider(search);
}

void lull_switching_consider_stretches(struct lull_switching_search *search, const uint32_t *point,
                                       bool quick)
{
    const double gains[] = {20.0, 300.0}; /* neither is better everywhere */
    const size_t ops = search->problem->graph->op_count;
    const int most = quick ? QUICK_ROUNDS : ROUNDS;
    const int allowed = count_rounds(search->problem->graph);
    const int rounds = allowed < most ? allowed : most;
    struct lull_memory memory = {0};
    struct pricing *it;

    if (rounds < MIN_ROUNDS)
        return;
    it = lull_memory_take(&memory, 1, sizeof(*it));
    if (it != NULL) {
        it->search = search;
        it->price = lull_memory_take(&memory, ops, sizeof(*it->price));
        it->begin_ns = lull_memory_take(&memory, ops, sizeof(*it->begin_ns));
        it->kept = lull_memory_take(&memory, ops, sizeof(*it->kept));
    }
    for (size_t i = 0; i < (quick ? 1 : sizeof(gains) / sizeof(gains[0])); i++)
        if (!memory.has_failed)
            pricing_consider(it, point, rounds, gains[i], !quick && ops <= MAX_SEARCHED_OPS);
    lull_memory_free(&memory);
}
