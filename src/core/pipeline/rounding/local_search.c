/*
 * Moves: a set of starts and ends of operations is put off (or brought forward) by one width. What
 * lies across the border of the set becomes longer or shorter by it. The best of all sets for a
 * width is a minimum cut; the widths worth trying are the differences between the steps in use.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/rounding/state.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"

#define MUST (2 * COST_LIMIT) /* outweighs all costs together */
#define UNLIMITED (INT64_C(1) << 62)

/* Number of widths that a search tries, and number of levels at which it reclaims slack after a
 * move: measured by commit 2e0c524. */
enum { WIDTHS_TRIED = 20, TRIAL_LEVELS = 4 };

enum local_search_direction { PUT_OFF, BRING_FORWARD };

/* NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): LULL_PIPELINE_MAX_OPS and
 * LULL_PIPELINE_MAX_EDGES are far below what twice a number in 32 bits can hold. */

/* Sets what may flow through an operation: at least what it gains by one width more, at most what
 * it costs by one width less. */
static void local_search_weigh(struct lull_pipeline_rounding *rounding,
                               enum local_search_direction direction, int64_t width,
                               const uint32_t *step, uint32_t op)
{
    struct lull_rounding_cut *cut = &rounding->cut;
    const struct lull_rounding_ladder *ladder = ladder_at(rounding, op);
    const struct lull_rounding_ladder_step *now = &ladder->steps[step[op]];
    uint32_t shorter = lull_ladder_fit(ladder, now->time_ns - width);
    int64_t gain = now->cost - ladder->steps[lull_ladder_fit(ladder, now->time_ns + width)].cost;
    int64_t loss = shorter == UINT32_MAX ? UNLIMITED : ladder->steps[shorter].cost - now->cost;
    int64_t flow = (int64_t)(rounding->op_flow[op] * (double)width);
    uint32_t begin = 2 * op;
    uint32_t end = 2 * op + 1;

    if (loss < gain)
        loss =
            gain; /* It gains in both directions, which no cut can express; its cost is then 0. */
    if (flow < gain)
        flow = gain;
    if (flow > loss)
        flow = loss;
    rounding->gain[op] = gain;
    if (direction == PUT_OFF) {
        cut->room[2 * op] = loss - flow;
        cut->room[2 * op + 1] = flow - gain;
        cut->excess[end] += flow;
        cut->excess[begin] -= flow;
    } else {
        cut->room[2 * op] = flow - gain;
        cut->room[2 * op + 1] = loss - flow;
        cut->excess[begin] += flow;
        cut->excess[end] -= flow;
    }
}

/* Ties the ends of edges with too little slack together: what moves takes the other end along. */
static void local_search_tie(struct lull_pipeline_rounding *rounding,
                             enum local_search_direction direction, int64_t width,
                             const int64_t *begin_ns, const int64_t *end_ns)
{
    struct lull_rounding_cut *cut = &rounding->cut;
    int64_t *room = cut->room + 2 * rounding->count;

    for (uint32_t op = 0; op < rounding->count; op++)
        for (uint32_t k = rounding->first_out[op]; k < rounding->first_out[op + 1]; k++) {
            const struct lull_rounding_link *link = &rounding->out[k];
            int64_t flow = (int64_t)(rounding->edge_flow[k] * (double)width);

            room[2 * k] = 0;
            room[2 * k + 1] = 0;
            if (begin_ns[link->op] - end_ns[op] - link->latency_ns >= width)
                continue;
            if (direction == PUT_OFF) {
                room[2 * k] = UNLIMITED;
                room[2 * k + 1] = flow;
                cut->excess[2 * link->op] += flow;
                cut->excess[2 * op + 1] -= flow;
            } else {
                room[2 * k] = flow;
                room[2 * k + 1] = UNLIMITED;
                cut->excess[2 * op + 1] += flow;
                cut->excess[2 * link->op] -= flow;
            }
        }
}

/* Keeps the flow of a cut, per nanosecond of width: the next cut begins from it. */
static void local_search_keep_flow(struct lull_pipeline_rounding *rounding,
                                   enum local_search_direction direction, int64_t width)
{
    const int64_t *room = rounding->cut.room + (direction == PUT_OFF ? 1 : 0);
    double per_ns = 1.0 / (double)width;
    uint32_t edges = rounding->first_out[rounding->count];

    for (uint32_t op = 0; op < rounding->count; op++)
        rounding->op_flow[op] = (double)(room[2 * op] + rounding->gain[op]) * per_ns;
    room += 2 * rounding->count;
    for (uint32_t k = 0; k < edges; k++)
        rounding->edge_flow[k] = (double)room[2 * k] * per_ns;
}

/*
 * Finds the best set to move by a width, for local_search_apply(). Putting off starts from the
 * earliest times, bringing forward from the latest; nothing ends after the deadline or begins
 * before 0, and what ends after must_end_ns is in the set. Returns whether the set gains anything
 * by the cut's account.
 */
static bool local_search_find_set(struct lull_pipeline_rounding *rounding,
                                  enum local_search_direction direction, int64_t width,
                                  int64_t deadline_ns, int64_t must_end_ns, const uint32_t *step)
{
    struct lull_rounding_cut *cut = &rounding->cut;
    int64_t *begin_ns = rounding->duration_ns; /* room for the times that are not there yet */
    int64_t *end_ns = rounding->duration_ns;
    bool gains;

    if (direction == PUT_OFF)
        end_ns = rounding->end_ns;
    else
        begin_ns = rounding->latest_begin_ns;
    for (uint32_t op = 0; op < rounding->count; op++) {
        int64_t time_ns = step_at(rounding, op, step[op])->time_ns;

        if (direction == PUT_OFF)
            begin_ns[op] = end_ns[op] - time_ns;
        else
            end_ns[op] = begin_ns[op] + time_ns;
    }
    memset(cut->excess, 0, cut->node_count * sizeof(*cut->excess));
    for (uint32_t op = 0; op < rounding->count; op++) {
        local_search_weigh(rounding, direction, width, step, op);
        if (direction == PUT_OFF && end_ns[op] + width > deadline_ns)
            cut->excess[2 * op + 1] -= MUST;
        if (direction == BRING_FORWARD && begin_ns[op] < width)
            cut->excess[2 * op] -= MUST;
        if (end_ns[op] > must_end_ns)
            cut->excess[2 * op + 1] += MUST;
    }
    local_search_tie(rounding, direction, width, begin_ns, end_ns);
    gains = lull_cut_solve(cut);
    local_search_keep_flow(rounding, direction, width);
    return gains;
}

/* Writes the plan after the move: every operation takes the slowest step of its new length. */
static void local_search_apply(const struct lull_pipeline_rounding *rounding,
                               enum local_search_direction direction, int64_t width,
                               const uint32_t *step, uint32_t *moved_out)
{
    const uint32_t *level = rounding->cut.level;

    for (uint32_t op = 0; op < rounding->count; op++) {
        int begin = level[2 * op] != UINT32_MAX;
        int end = level[2 * op + 1] != UINT32_MAX;
        int change = direction == PUT_OFF ? end - begin : begin - end;
        uint32_t fit;

        moved_out[op] = step[op];
        if (change == 0)
            continue;
        fit = lull_ladder_fit(ladder_at(rounding, op),
                              step_at(rounding, op, step[op])->time_ns + change * width);
        if (fit != UINT32_MAX)
            moved_out[op] = fit;
    }
}

/* NOLINTEND(bugprone-implicit-widening-of-multiplication-result) */

static int by_ns(const void *left, const void *right)
{
    const struct lull_rounding_width *a = left;
    const struct lull_rounding_width *b = right;

    return (a->ns > b->ns) - (a->ns < b->ns);
}

static int by_users(const void *left, const void *right)
{
    const struct lull_rounding_width *a = left;
    const struct lull_rounding_width *b = right;

    if (a->users != b->users)
        return (a->users < b->users) - (a->users > b->users);
    return by_ns(left, right);
}

/* Lists the differences between the steps in use and their neighbours, the most frequent first.
 * Returns how many are to be tried. */
static uint32_t list_widths(struct lull_pipeline_rounding *rounding, const uint32_t *step)
{
    struct lull_rounding_width *widths = rounding->widths;
    uint32_t listed = 0;
    uint32_t kept = 0;

    memset(rounding->users, 0, rounding->step_count * sizeof(*rounding->users));
    for (uint32_t op = 0; op < rounding->count; op++)
        rounding->users[ladder_at(rounding, op)->first + step[op]]++;
    for (uint32_t i = 0; i < rounding->ladder_count; i++) {
        const struct lull_rounding_ladder *ladder = &rounding->ladders[i];

        for (uint32_t at = 0; at < ladder->count; at++)
            for (uint32_t to = at > REACH ? at - REACH : 0; to <= at + REACH && to < ladder->count;
                 to++)
                if (to != at && rounding->users[ladder->first + at] > 0)
                    widths[listed++] = (struct lull_rounding_width){
                        llabs(ladder->steps[at].time_ns - ladder->steps[to].time_ns),
                        rounding->users[ladder->first + at]};
    }
    qsort(widths, listed, sizeof(*widths), by_ns);
    for (uint32_t i = 0; i < listed; i++) {
        if (kept > 0 && widths[kept - 1].ns == widths[i].ns)
            widths[kept - 1].users += widths[i].users;
        else
            widths[kept++] = widths[i];
    }
    qsort(widths, kept, sizeof(*widths), by_users);
    return lull_min_u32(kept, WIDTHS_TRIED);
}

/* Tries one move. Returns whether the plan became cheaper, and then keeps it. */
static bool try_move(struct lull_pipeline_rounding *rounding, enum local_search_direction direction,
                     int64_t width, int64_t deadline_ns, uint32_t *step)
{
    uint32_t *trial = rounding->trial;

    if (direction == PUT_OFF)
        lull_round_earliest(rounding, step);
    else
        lull_round_latest(rounding, step, deadline_ns);
    if (!local_search_find_set(rounding, direction, width, deadline_ns, INT64_MAX, step))
        return false;
    local_search_apply(rounding, direction, width, step, trial);
    if (lull_round_earliest(rounding, trial) > deadline_ns)
        return false;
    lull_round_reclaim(rounding, deadline_ns, TRIAL_LEVELS, trial);
    if (lull_round_cost(rounding, trial) >= lull_round_cost(rounding, step))
        return false;
    memcpy(step, trial, rounding->count * sizeof(*step));
    return true;
}

uint64_t lull_round_moves(struct lull_pipeline_rounding *rounding, int64_t deadline_ns,
                          uint64_t cuts_limit, uint32_t *step)
{
    const uint32_t widths = list_widths(rounding, step);
    uint64_t moves = 0;

    for (uint32_t i = 0; i < widths && cuts_limit > 1; i++, cuts_limit -= 2)
        for (enum local_search_direction to = PUT_OFF; to <= BRING_FORWARD; to++)
            moves += try_move(rounding, to, rounding->widths[i].ns, deadline_ns, step);
    return moves;
}

/* Brings the end of the plan forward by at most the width, in moved_out. Returns what that costs
 * per nanosecond, infinite if it cannot be done. */
static double price_of_shortening(struct lull_pipeline_rounding *rounding, int64_t makespan_ns,
                                  int64_t deadline_ns, int64_t width, const uint32_t *step,
                                  uint32_t *moved_out)
{
    int64_t goal = makespan_ns - width;
    int64_t reached;
    double more_cost;

    if (goal < deadline_ns)
        goal = deadline_ns;
    lull_round_latest(rounding, step, makespan_ns);
    local_search_find_set(rounding, BRING_FORWARD, width, makespan_ns, goal, step);
    local_search_apply(rounding, BRING_FORWARD, width, step, moved_out);
    assert(makespan_ns > deadline_ns);
    reached = lull_round_earliest(rounding, moved_out);
    if (reached >= makespan_ns)
        return (double)INFINITY;
    if (reached < deadline_ns)
        reached = deadline_ns; /* times beyond it are not requested */
    more_cost = (double)(lull_round_cost(rounding, moved_out) - lull_round_cost(rounding, step));
    return more_cost / (double)(makespan_ns - reached);
}

/* Cost of shortening the plan by a width. Unless `asked` is set, the price is that of an earlier,
 * longer plan. */
struct shortening {
    int64_t width;
    double price;
    bool asked;
};

static uint32_t list_shortenings(struct lull_pipeline_rounding *rounding, const uint32_t *step,
                                 struct shortening *list)
{
    uint32_t count = list_widths(rounding, step);

    for (uint32_t i = 0; i < count; i++)
        list[i] = (struct shortening){rounding->widths[i].ns, 0.0, false};
    return count;
}

/* The place of the lowest price in the list. */
static uint32_t local_search_lowest(const struct shortening *list, uint32_t count)
{
    uint32_t best = 0;

    assert(count > 0);
    for (uint32_t i = 1; i < count; i++)
        if (list[i].price < list[best].price)
            best = i;
    return best;
}

/*
 * Finds the cheapest step towards the deadline, in rounding->shorter. Returns false if no width of
 * the list shortens the plan. Prices mostly rise as a plan becomes shorter, so only those widths
 * are asked again whose price was the lowest.
 */
static bool find_shortening(struct lull_pipeline_rounding *rounding, int64_t makespan_ns,
                            int64_t deadline_ns, const uint32_t *step, struct shortening *list,
                            uint32_t count)
{
    double cheapest = (double)INFINITY;

    for (uint32_t i = 0; i < count; i++)
        list[i].asked = false;
    for (uint32_t at = local_search_lowest(list, count);
         !list[at].asked && list[at].price < cheapest; at = local_search_lowest(list, count)) {
        list[at].price = price_of_shortening(rounding, makespan_ns, deadline_ns, list[at].width,
                                             step, rounding->trial);
        list[at].asked = true;
        if (list[at].price < cheapest) {
            cheapest = list[at].price;
            memcpy(rounding->shorter, rounding->trial, rounding->count * sizeof(*step));
        }
    }
    return cheapest < (double)INFINITY;
}

bool lull_round_shorten(struct lull_pipeline_rounding *rounding, int64_t deadline_ns,
                        uint32_t *step)
{
    int64_t makespan_ns = lull_round_earliest(rounding, step);
    struct shortening list[WIDTHS_TRIED];
    uint32_t count = 0;

    while (makespan_ns > deadline_ns) {
        if (count == 0 || !find_shortening(rounding, makespan_ns, deadline_ns, step, list, count)) {
            count = list_shortenings(rounding, step, list);
            if (count == 0 ||
                !find_shortening(rounding, makespan_ns, deadline_ns, step, list, count))
                return false;
        }
        memcpy(step, rounding->shorter, rounding->count * sizeof(*step));
        makespan_ns = lull_round_earliest(rounding, step);
    }
    return true;
}
