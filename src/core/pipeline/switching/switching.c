/*
 * Plans that respect switching: which plans the search begins from, and its result.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/switching/switching.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/pipeline/switching/switching_state.h"
#include "core/pipeline/rounding/driver_calls.h"

/* Reports the best plan, if there is one, beside the one that was given. */
static int switching_conclude(struct lull_switching_search *search, uint32_t *point_inout,
                              struct lull_pipeline_switching_report *report_out,
                              struct lull_error *err)
{
    if (search->wrong_ns > 0)
        return lull_error_set(err, -ERANGE,
                              "no plan found that keeps %.3f ms with these switch latencies and "
                              "this dwell: %.3f ms are missing; allow more time",
                              (double)search->deadline_ns * 1e-6, (double)search->wrong_ns * 1e-6);
    report_out->switches_before = lull_switching_verdict(search, point_inout).switches;
    report_out->switches_after = lull_switching_verdict(search, search->best).switches;
    report_out->time_ns = lull_switching_verdict(search, search->best).time_ns;
    assert(report_out->time_ns <= search->deadline_ns);
    report_out->lost_j = (lull_switching_plan_nj(search, search->best) -
                          lull_switching_plan_nj(search, point_inout)) *
                         1e-9;
    memcpy(point_inout, search->best, search->problem->graph->op_count * sizeof(*point_inout));
    return 0;
}

/* Searches from the plan that is given and from stretches of one clock. */
static int search_plans(struct lull_switching_search *search, bool is_quick, uint32_t *point_inout,
                        struct lull_pipeline_switching_report *report_out, struct lull_error *err)
{
    int result = lull_switching_begin(search, search->problem, err);

    if (result == 0) {
        memcpy(search->plan, point_inout, search->problem->graph->op_count * sizeof(*point_inout));
        lull_switching_consider(search);
        lull_switching_consider_stretches(search, point_inout, is_quick);
        result = switching_conclude(search, point_inout, report_out, err);
    }
    lull_memory_free(&search->memory);
    return result;
}

/* Assumed cost of a change if devices share a driver, whose time is scarce: a share of an
 * operation's mean energy. Commit a1ce013 measured it on a simulated job of 16 GPUs. */
static const double call_price = 0.04;

int lull_pipeline_switching(const struct lull_pipeline_problem *problem,
                            const struct lull_pipeline_switching *switching, int64_t deadline_ns,
                            bool is_quick, uint32_t *point_inout,
                            struct lull_pipeline_switching_report *report_out,
                            struct lull_error *err)
{
    const bool is_queued = switching->is_fed_forward && switching->call_ns > 0;
    struct lull_pipeline_switching priced = *switching;
    struct lull_switching_search search = {
        .problem = problem, .switching = &priced, .deadline_ns = deadline_ns};
    int result;

    if (is_queued)
        priced.switch_j += call_price * lull_pipeline_plan_cost(problem, point_inout, 0).energy_j /
                           (double)problem->graph->op_count;
    result = search_plans(&search, is_quick, point_inout, report_out, err);
    if (result < 0 || !is_queued)
        return result;
    if (lull_pipeline_queue_deliver(problem, switching, point_inout) < 0)
        return lull_error_set(err, -ENOMEM, "no memory for a plan");
    /* Without the lowerings that were left out the plan may be faster. */
    report_out->time_ns =
        lull_pipeline_switching_timeline(problem, switching, point_inout, NULL, NULL);
    return 0;
}
