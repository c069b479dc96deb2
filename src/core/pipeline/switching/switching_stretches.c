/*
 * Plans of few changes from prices of time: what a nanosecond of each operation is worth.
 *
 * At given prices devices are independent of each other: each is cut into stretches of one clock,
 * no shorter than the dwell, so that energy and priced time together are least (switching_cut.c).
 * The plan that results is walked through; then the prices on its critical path rise and the others
 * fall, and all of them rise the more the later the plan is (a subgradient method on the deadline's
 * dual; Held and Karp 1971). So a device finds one clock for its warm-up, one for its steady phase
 * and one for its cool-down where that saves most. SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/switching/switching_cut.h"

/* Commit 7051d5f measured these on GPT-3, 8 stages and 12 micro-batches, with dwells up to 400 ms.
 */
enum {
    ROUNDS = 160,
    QUICK_ROUNDS = 40,
    LEAST_ROUNDS = 8,        /* where the limit of work allows fewer, there is no search at all */
    SEARCH_EVERY = 8,        /* after this many rounds the local search takes its turn, */
    MOST_SEARCHED_OPS = 256, /* in pipelines of at most this many operations */
    STEPS_LIMIT = 200000000, /* steps of the dynamic programs in all rounds of one gain */
};

/* ---- prices ------------------------------------------------------------------------------ */

/* What the plan pays for a nanosecond of an operation: the slope of the hull at its operating
 * point. */
static double first_price(const struct lull_switching_pricing *it, uint32_t device, uint32_t op,
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

static void begin_prices(struct lull_switching_pricing *it, const uint32_t *point)
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
static void move_prices(struct lull_switching_pricing *it, int64_t time_ns, double share)
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

static struct lull_switching_verdict walk(struct lull_switching_pricing *it)
{
    struct lull_switching_search *search = it->search;

    return lull_switching_walk(search->problem, search->switching, search->plan,
                               search->deadline_ns, search->clocks, it->begin_ns, search->end_ns);
}

/* Keeps the plan if it is the cheapest in time, or, while none is in time, the least late. */
static void keep(struct lull_switching_pricing *it)
{
    struct lull_switching_search *search = it->search;
    const size_t size = search->problem->graph->op_count * sizeof(*it->kept);

    lull_switching_judge(search);
    if (search->excess_ns == 0 && search->cost_nj < it->least_nj) {
        it->least_nj = search->cost_nj;
        memcpy(it->kept, search->plan, size);
    } else if (isinf(it->least_nj) && search->excess_ns < it->least_late_ns) {
        it->least_late_ns = search->excess_ns;
        memcpy(it->kept, search->plan, size);
    }
}

/* Makes one round. share: how far prices move towards the critical path; gain: how far all of them
 * rise for a plan that is late. */
static void turn(struct lull_switching_pricing *it, double share, double gain)
{
    const struct lull_pipeline_graph *graph = it->search->problem->graph;
    struct lull_switching_verdict verdict;
    double late;

    for (uint32_t device = 0; device < graph->device_count; device++)
        lull_switching_cut(it, device);
    keep(it);
    verdict = walk(it);
    late = (double)(verdict.time_ns - it->search->deadline_ns) / (double)it->search->deadline_ns;
    it->level *= 1.0 + share * fmax(-1.0, fmin(1.0, gain * late));
    move_prices(it, verdict.time_ns, share);
}

/* How many rounds the limit of work allows. */
static int count_rounds(const struct lull_pipeline_graph *graph)
{
    const double clocks = 32.0; /* about as many corners as a device's hulls have */
    double steps = 1.0;

    for (uint32_t device = 0; device < graph->device_count; device++) {
        const double count =
            fmin(LULL_CUT_PLACES, graph->first_on[device + 1] - graph->first_on[device]);

        steps += count * count * (clocks + count / 6.0);
    }
    return steps * ROUNDS <= STEPS_LIMIT ? ROUNDS : (int)(STEPS_LIMIT / steps);
}

/* Makes all rounds from a plan, and searches from the best plan of them; with often, from some
 * others too. */
static void consider(struct lull_switching_pricing *it, const uint32_t *point, int rounds,
                     double gain, bool often)
{
    struct lull_switching_search *search = it->search;
    const size_t size = search->problem->graph->op_count * sizeof(*point);

    assert(rounds > 0);
    it->least_nj = (double)INFINITY;
    it->least_late_ns = INT64_MAX;
    memcpy(search->plan, point, size);
    walk(it);
    begin_prices(it, point);
    for (int i = 0; i < rounds; i++) {
        turn(it, 0.25 / (1.0 + 8.0 * i / rounds), gain);
        if (often && i % SEARCH_EVERY == 0) {
            lull_switching_consider(search);
            walk(it);
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
    struct lull_switching_pricing *it = rounds < LEAST_ROUNDS ? NULL : malloc(sizeof(*it));

    if (it == NULL)
        return;
    it->search = search;
    it->price = calloc(ops, sizeof(*it->price));
    it->begin_ns = malloc(ops * sizeof(*it->begin_ns));
    it->kept = malloc(ops * sizeof(*it->kept));
    for (size_t i = 0; i < (quick ? 1 : sizeof(gains) / sizeof(gains[0])); i++)
        if (it->price != NULL && it->begin_ns != NULL && it->kept != NULL)
            consider(it, point, rounds, gains[i], !quick && ops <= MOST_SEARCHED_OPS);
    free(it->price);
    free(it->begin_ns);
    free(it->kept);
    free(it);
}
