/*
 * A local search that gives stretches of one device one clock. It begins from the plan, and from
 * one clock for each device; the cheaper result counts. SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/switching/switching_state.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/minmax.h"

/* Largest number of plans that a search walks through, and of operations in all of them: commit
 * 726112c chose them, a second or two of work. */
#define WALKS_LIMIT 100000
#define STEPS_LIMIT 20000000

static uint32_t switch_search_mhz_of(const struct lull_switching_search *search,
                                     const uint32_t *point, uint32_t op)
{
    return lull_pipeline_point_of(search->problem, point, op)->sm_mhz;
}

/* The effective energy of an operation at an operating point. */
static double energy_nj(const struct lull_switching_search *search, uint32_t op, uint32_t point)
{
    const struct lull_pipeline_point *it =
        &lull_pipeline_class_of(search->problem, op)->points[point];
    uint32_t device = search->problem->graph->ops[op].device;

    return lull_pipeline_effective_nj(it, search->problem->blocking_w[device]);
}

double lull_switching_plan_nj(const struct lull_switching_search *search, const uint32_t *point)
{
    double sum_nj = 0.0;

    for (uint32_t op = 0; op < search->problem->graph->op_count; op++)
        sum_nj += energy_nj(search, op, point[op]);
    return sum_nj;
}

struct lull_switching_verdict lull_switching_verdict(struct lull_switching_search *search,
                                                     const uint32_t *point)
{
    return lull_switching_walk(search->problem, search->switching, point, search->deadline_ns,
                               search->clocks, NULL, search->end_ns);
}

static int64_t switch_search_excess(const struct lull_switching_search *search,
                                    const struct lull_switching_verdict *verdict)
{
    int64_t late_ns = verdict->time_ns - search->deadline_ns;

    return lull_later_ns(late_ns, 0) + verdict->short_ns;
}

/* Cost of clocks on their way and of changes in the plan that was walked through last. */
static double switching_nj(const struct lull_switching_search *search, const uint32_t *point,
                           const struct lull_switching_verdict *verdict, double *device_nj_out)
{
    const struct lull_pipeline_timed_plan plan = {search->problem, search->switching, point,
                                                  search->end_ns, verdict->time_ns};

    return lull_switching_switching_nj(&plan, device_nj_out) +
           search->switching->switch_j * 1e9 * (double)verdict->switches;
}

void lull_switching_judge(struct lull_switching_search *search)
{
    struct lull_switching_verdict verdict = lull_switching_verdict(search, search->plan);

    search->excess_ns = switch_search_excess(search, &verdict);
    search->switching_nj = switching_nj(search, search->plan, &verdict, search->device_nj);
    search->cost_nj = lull_switching_plan_nj(search, search->plan) + search->switching_nj;
}

/* Writes to trial the plan with the stretch of places [from, to) on a device at one clock. Returns
 * false if the plan has that clock there already, or an operation cannot have it. */
static bool switch_search_set_clock(struct lull_switching_search *search, uint32_t from,
                                    uint32_t to, uint32_t mhz)
{
    const uint32_t *on_device = search->problem->graph->on_device;
    bool differs = false;

    memcpy(search->trial, search->plan, search->problem->graph->op_count * sizeof(*search->trial));
    for (uint32_t k = from; k < to; k++) {
        uint32_t op = on_device[k];
        uint32_t point;

        if (switch_search_mhz_of(search, search->plan, op) == 0)
            continue;
        point = lull_pipeline_point_at(lull_pipeline_class_of(search->problem, op), mhz);
        if (point == UINT32_MAX)
            return false;
        differs = differs || point != search->plan[op];
        search->trial[op] = point;
    }
    return differs;
}

/* Takes a stretch's new clock if that reduces the plan's excess, or makes the plan cheaper without
 * more excess. */
static bool switch_search_try_clock(struct lull_switching_search *search, uint32_t from,
                                    uint32_t to, uint32_t mhz)
{
    const struct lull_pipeline_graph *graph = search->problem->graph;
    double saved_nj = 0.0;
    double trial_nj;
    double *swapped;
    struct lull_switching_verdict verdict;
    int64_t excess_ns;

    if (mhz == 0 || search->walks_left == 0 || !switch_search_set_clock(search, from, to, mhz))
        return false;
    for (uint32_t k = from; k < to; k++) {
        uint32_t op = graph->on_device[k];

        saved_nj +=
            energy_nj(search, op, search->plan[op]) - energy_nj(search, op, search->trial[op]);
    }
    /* Apart from that, it can save at most two changes and the cost of the device's unsettled
     * clocks. */
    if (search->excess_ns == 0 &&
        saved_nj + search->switching->switch_j * 2e9 +
                search->device_nj[graph->ops[graph->on_device[from]].device] <=
            0.0)
        return false;
    search->walks_left--;
    verdict = lull_switching_verdict(search, search->trial);
    excess_ns = switch_search_excess(search, &verdict);
    if (excess_ns > search->excess_ns)
        return false;
    trial_nj = switching_nj(search, search->trial, &verdict, search->trial_nj);
    saved_nj += search->switching_nj - trial_nj;
    if (excess_ns == search->excess_ns && saved_nj <= 0.5)
        return false;
    search->excess_ns = excess_ns;
    search->cost_nj -= saved_nj;
    search->switching_nj = trial_nj;
    swapped = search->device_nj;
    search->device_nj = search->trial_nj;
    search->trial_nj = swapped;
    memcpy(search->plan, search->trial, graph->op_count * sizeof(*search->plan));
    return true;
}

/* The end of the run of one clock that begins at place `from`. */
static uint32_t run_end(const struct lull_switching_search *search, uint32_t from, uint32_t last)
{
    const uint32_t *on_device = search->problem->graph->on_device;
    uint32_t mhz = switch_search_mhz_of(search, search->plan, on_device[from]);
    uint32_t to = from + 1;

    while (to < last && switch_search_mhz_of(search, search->plan, on_device[to]) == mhz)
        to++;
    return to;
}

/* The clock of the operating point that is `way` places from the operation's; 0 if there is none.
 */
static uint32_t next_mhz(const struct lull_switching_search *search, uint32_t op, int way)
{
    const struct lull_pipeline_class *class = lull_pipeline_class_of(search->problem, op);
    int64_t at = (int64_t)search->plan[op] + way;

    if (at < 0 || at >= (int64_t) class->point_count)
        return 0;
    return class->points[at].sm_mhz;
}

/* Tries all changes of the run at [from, to) and its neighbours. Returns whether it took any. */
static bool change_run(struct lull_switching_search *search, uint32_t first, uint32_t from,
                       uint32_t to, uint32_t last)
{
    const uint32_t *on_device = search->problem->graph->on_device;
    uint32_t own = switch_search_mhz_of(search, search->plan, on_device[from]);
    uint32_t before =
        from > first ? switch_search_mhz_of(search, search->plan, on_device[from - 1]) : 0;
    uint32_t after = to < last ? switch_search_mhz_of(search, search->plan, on_device[to]) : 0;
    uint32_t after_end = to < last ? run_end(search, to, last) : to;
    bool changed = switch_search_try_clock(search, from, to, before) ||
                   switch_search_try_clock(search, from, to, after);

    /* The run takes in an operation of either neighbour, or all of the next run, or moves by a
     * step. */
    changed = changed || (to < last && switch_search_try_clock(search, from, to + 1, own)) ||
              (from > first && switch_search_try_clock(search, from - 1, to, own)) ||
              switch_search_try_clock(search, from, after_end, own);
    for (int way = -1; way <= 1 && !changed; way += 2)
        changed =
            switch_search_try_clock(search, from, to, next_mhz(search, on_device[from], way)) ||
            switch_search_try_clock(search, from, after_end,
                                    next_mhz(search, on_device[from], way));
    return changed;
}

/* Tries one operation alone: a step up or down, or the clock of the operation before or after it.
 */
static bool change_op(struct lull_switching_search *search, uint32_t first, uint32_t at,
                      uint32_t last)
{
    const uint32_t *on_device = search->problem->graph->on_device;
    uint32_t op = on_device[at];
    bool changed = false;

    if (at > first)
        changed = switch_search_try_clock(
            search, at, at + 1, switch_search_mhz_of(search, search->plan, on_device[at - 1]));
    if (!changed && at + 1 < last)
        changed = switch_search_try_clock(
            search, at, at + 1, switch_search_mhz_of(search, search->plan, on_device[at + 1]));
    for (int way = -1; way <= 1 && !changed; way += 2)
        changed = switch_search_try_clock(search, at, at + 1, next_mhz(search, op, way));
    return changed;
}

/* Whole runs are tried before single operations, since a change of a run can remove two changes of
 * the clock at once. */
static bool change_device(struct lull_switching_search *search, uint32_t device)
{
    const struct lull_pipeline_graph *graph = search->problem->graph;
    uint32_t first = graph->first_on[device];
    uint32_t last = graph->first_on[device + 1];
    bool changed = false;

    for (uint32_t from = first; from < last;) {
        uint32_t to = run_end(search, from, last);

        changed = change_run(search, first, from, to, last) || changed;
        from = to;
    }
    for (uint32_t at = first; at < last; at++)
        changed = change_op(search, first, at, last) || changed;
    return changed;
}

/* Tries, for all of the device, every clock that its first operation with a clock has. */
static bool change_all_of(struct lull_switching_search *search, uint32_t device)
{
    const struct lull_pipeline_graph *graph = search->problem->graph;
    const struct lull_pipeline_class *class = NULL;
    bool changed = false;

    for (uint32_t k = graph->first_on[device]; k < graph->first_on[device + 1]; k++)
        if (class == NULL && switch_search_mhz_of(search, search->plan, graph->on_device[k]) > 0)
            class = lull_pipeline_class_of(search->problem, graph->on_device[k]);
    for (size_t i = 0; class != NULL && i < class->point_count; i++)
        changed = switch_search_try_clock(search, graph->first_on[device],
                                          graph->first_on[device + 1], class->points[i].sm_mhz) ||
                  changed;
    return changed;
}

/* Changes search->plan until no change helps or no walks are left. */
static void switch_search_descend(struct lull_switching_search *search)
{
    bool changed = true;

    lull_switching_judge(search);
    while (changed && search->walks_left > 0) {
        changed = false;
        for (uint32_t device = 0; device < search->problem->graph->device_count; device++) {
            changed = change_device(search, device) || changed;
            changed = change_all_of(search, device) || changed;
        }
    }
}

static void allow_walks(struct lull_switching_search *search)
{
    size_t ops = search->problem->graph->op_count;

    search->walks_left = lull_min_size(STEPS_LIMIT / ops, WALKS_LIMIT);
}

void lull_switching_consider(struct lull_switching_search *search)
{
    allow_walks(search);
    switch_search_descend(search);
    if (search->excess_ns < search->wrong_ns)
        search->wrong_ns = search->excess_ns;
    assert(search->excess_ns >= 0);
    if (search->excess_ns > 0 || search->cost_nj >= search->min_nj)
        return;
    search->min_nj = search->cost_nj;
    memcpy(search->best, search->plan, search->problem->graph->op_count * sizeof(*search->best));
}

int lull_switching_begin(struct lull_switching_search *search,
                         const struct lull_pipeline_problem *problem, struct lull_error *err)
{
    const size_t ops = problem->graph->op_count;
    const size_t devices = problem->graph->device_count;
    struct lull_memory *const memory = &search->memory;

    search->clocks = lull_memory_take(memory, devices, sizeof(*search->clocks));
    search->end_ns = lull_memory_take(memory, ops, sizeof(*search->end_ns));
    search->plan = lull_memory_take(memory, ops, sizeof(*search->plan));
    search->trial = lull_memory_take(memory, ops, sizeof(*search->trial));
    search->best = lull_memory_take(memory, ops, sizeof(*search->best));
    search->device_nj = lull_memory_take(memory, devices, sizeof(*search->device_nj));
    search->trial_nj = lull_memory_take(memory, devices, sizeof(*search->trial_nj));
    search->min_nj = (double)INFINITY;
    search->wrong_ns = INT64_MAX;
    if (memory->has_failed)
        return lull_error_set(err, -ENOMEM, "no memory for a plan of %zu operations", ops);
    return 0;
}
