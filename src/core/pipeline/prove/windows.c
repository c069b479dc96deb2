/*
 * The proof: windows. A flow tells what a plan loses against its bound in every operation (what its
 * option is dearer than the cheapest at the price of its flow) and on every edge (flow times
 * waiting). No loss is negative, so what every plan loses within a window of operations, and on
 * edges between them, adds up over windows that share no operation.
 *
 * How much that is, a search over the window alone shows: flow is repaired only within it. All
 * other losses stay what they are, so the bound rises by no more than what is lost in the window.
 * The windows are small, and there is little to lose in each, so that such searches are short.
 * Where nothing more is lost in two neighbours, they go on as one, and what is lost between them
 * counts as well.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>

#include "core/pipeline/prove/search.h"

enum {
    LEVELS = 8, /* in which a window's share is raised, at first */
    FINER = 8,  /* steps at last: so many times as many */
};

struct place {
    int64_t middle_ns;
    uint32_t op;
};

static int by_middle(const void *left, const void *right)
{
    const struct place *a = left;
    const struct place *b = right;

    if (a->middle_ns != b->middle_ns)
        return a->middle_ns < b->middle_ns ? -1 : 1;
    return (a->op > b->op) - (a->op < b->op);
}

/* Operations whose time is worth something, in the order of time, cut into windows alike. */
static void cut(struct windows *windows, const struct prover *prover, struct place *places,
                uint32_t window_ops)
{
    const struct circulation *net = &prover->net;
    uint32_t count = 0;

    for (uint32_t op = 0; op < net->op_count; op++)
        if (net->flow[op] > 0)
            places[count++] =
                (struct place){net->potential[2 * op] + net->potential[2 * op + 1], op};
    qsort(places, count, sizeof(*places), by_middle);
    windows->count = window_ops == 0 ? 0 : (count + window_ops / 2) / window_ops;
    for (uint32_t op = 0; op < net->op_count; op++)
        windows->window_of[op] = windows->count;
    for (uint32_t i = 0; i < count; i++)
        windows->window_of[places[i].op] = (uint32_t)((uint64_t)i * windows->count / count);
}

int lull_windows_init(struct windows *windows, const struct prover *prover, uint32_t window_ops)
{
    const size_t count = prover->net.op_count;
    struct place *places = calloc(count, sizeof(*places));

    *windows = (struct windows){.root_j = lull_prover_bound_above(prover)};
    windows->window_of = calloc(count, sizeof(*windows->window_of));
    windows->each = calloc(count, sizeof(*windows->each));
    if (places == NULL || windows->window_of == NULL || windows->each == NULL) {
        free(places);
        return -ENOMEM;
    }
    cut(windows, prover, places, window_ops);
    free(places);
    return 0;
}

void lull_windows_fini(struct windows *windows)
{
    free(windows->window_of);
    free(windows->each);
}

/* The search is about one window; the first has the source, the last the sink. */
static int enter(struct windows *windows, struct prover *prover, uint32_t window)
{
    bool *is_inside = calloc(prover->net.node_count, sizeof(*is_inside));

    if (is_inside == NULL)
        return -ENOMEM;
    prover->is_window = true;
    for (uint32_t op = 0; op < prover->net.op_count; op++) {
        prover->is_inside[op] = windows->window_of[op] == window;
        is_inside[2 * op] = is_inside[2 * op + 1] = prover->is_inside[op];
    }
    is_inside[2 * prover->net.op_count] = window == 0;
    is_inside[2 * prover->net.op_count + 1] = window == windows->count - 1;
    lull_circulation_confine(&prover->net, is_inside);
    lull_prover_set_estimate(prover);
    free(is_inside);
    return 0;
}

static void leave(struct prover *prover)
{
    prover->is_window = false;
    for (uint32_t op = 0; op < prover->net.op_count; op++)
        prover->is_inside[op] = true;
    lull_circulation_confine(&prover->net, NULL);
    lull_prover_set_estimate(prover);
}

static bool is_enough(const struct windows *windows, const struct prover *prover, double energy_j)
{
    return prover->report.bound_j + windows->sum_j > energy_j + LULL_PROVE_SLIP_NJ * 1e-9;
}

/* A search for a plan that loses no more than a step above the level in a window. */
static int search(struct windows *windows, struct prover *prover, const struct window *window,
                  const struct mark *mark, uint64_t branchings)
{
    const uint64_t left = prover->most_branchings - prover->report.branchings;
    int result;

    prover->energy_j = windows->root_j + window->level_j + window->step_j;
    prover->limit = prover->report.branchings + (branchings < left ? branchings : left);
    result = lull_prover_explore(prover, 0.0);
    lull_prover_return(prover, mark);
    return result;
}

/* Raises a window's level as far as so many branchings each go. 0: all together are enough. */
static int raise(struct windows *windows, struct prover *prover, struct window *window,
                 double energy_j, uint64_t branchings)
{
    struct mark mark;
    int result = lull_prover_mark(prover, &mark);

    while (result == 0 && !is_enough(windows, prover, energy_j)) {
        result = search(windows, prover, window, &mark, branchings);
        if (result == 0) {
            window->level_j += window->step_j;
            windows->sum_j += window->step_j;
            prover->report.proven_j = prover->report.bound_j + windows->sum_j;
        } else if (result == -EEXIST && window->step_j > windows->step_j / FINER) {
            window->step_j *= 0.5;
            result = 0;
        }
    }
    window->is_exhausted = result == -EEXIST;
    lull_prover_forget(&mark);
    return result == -EEXIST ? -EAGAIN : result;
}

static uint32_t ops_in(const struct windows *windows, const struct prover *prover, uint32_t window)
{
    uint32_t count = 0;

    for (uint32_t op = 0; op < prover->net.op_count; op++)
        count += windows->window_of[op] == window;
    return count;
}

/* Of exhausted neighbours the pair with the fewest operations, its first; count: there is none. */
static uint32_t exhausted_pair(const struct windows *windows, const struct prover *prover)
{
    uint32_t least = UINT32_MAX;
    uint32_t pair = windows->count;

    for (uint32_t i = 0; i + 1 < windows->count; i++) {
        uint32_t count;

        if (!windows->each[i].is_exhausted || !windows->each[i + 1].is_exhausted)
            continue;
        count = ops_in(windows, prover, i) + ops_in(windows, prover, i + 1);
        if (count < least) {
            least = count;
            pair = i;
        }
    }
    return pair;
}

/* Two neighbours go on as one: what is lost in both at least is lost in it. */
static void join(struct windows *windows, const struct prover *prover, uint32_t first)
{
    struct window *const each = windows->each;

    for (uint32_t op = 0; op < prover->net.op_count; op++)
        if (windows->window_of[op] > first)
            windows->window_of[op]--;
    each[first] =
        (struct window){each[first].level_j + each[first + 1].level_j, windows->step_j, false};
    windows->count--;
    for (uint32_t i = first + 1; i < windows->count; i++)
        each[i] = each[i + 1];
}

static void begin(struct windows *windows, const struct prover *prover, double energy_j)
{
    windows->step_j = (energy_j - prover->report.bound_j) / LEVELS / windows->count;
    for (uint32_t i = 0; i < windows->count; i++)
        windows->each[i].step_j = windows->step_j;
}

int lull_windows_raise(struct windows *windows, struct prover *prover, double energy_j,
                       uint64_t branchings)
{
    int result = -EAGAIN;

    if (windows->count < 2)
        return -EAGAIN;
    if (!(windows->step_j > 0.0))
        begin(windows, prover, energy_j);
    for (uint32_t i = 0; i < windows->count && result == -EAGAIN; i++) {
        if (windows->each[i].is_exhausted)
            continue;
        if (prover->is_given_up || prover->report.branchings >= prover->most_branchings)
            break;
        result = enter(windows, prover, i);
        if (result == 0)
            result = raise(windows, prover, &windows->each[i], energy_j, branchings);
        leave(prover);
    }
    for (uint32_t first; (first = exhausted_pair(windows, prover)) < windows->count;)
        join(windows, prover, first);
    return result;
}
