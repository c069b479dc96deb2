/*
 * Plans that respect switching: which plans the search begins from, and what comes of it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/switching/switching.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/frontier/envpipe_planner.h"
#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/switching/switching_state.h"
#include "core/pipeline/rounding/driver_calls.h"

/* Reports the best plan, if there is one, beside the one that was given. */
static int conclude(struct lull_switching_search *search, uint32_t *point_inout,
                    struct lull_pipeline_switching_report *report_out, struct lull_error *err)
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

int lull_pipeline_switching(const struct lull_pipeline_problem *problem,
                            const struct lull_pipeline_switching *switching, int64_t deadline_ns,
                            bool is_quick, uint32_t *point_inout,
                            struct lull_pipeline_switching_report *report_out,
                            struct lull_error *err)
{
    struct lull_switching_search search = {
        .problem = problem, .switching = switching, .deadline_ns = deadline_ns};
    int rc = lull_switching_begin(&search, problem, err);

    if (rc != 0)
        goto done;
    memcpy(search.plan, point_inout, problem->graph->op_count * sizeof(*point_inout));
    lull_switching_consider(&search);
    lull_switching_consider_uniform(&search);
    lull_switching_consider_stretches(&search, point_inout, is_quick);
    rc = conclude(&search, point_inout, report_out, err);
done:
    lull_memory_free(&search.memory);
    return rc;
}

/* Shorter deadlines leave time for clocks to settle; these are shares of the deadline. Commit
 * 726112c chose them and the numbers below. */
static const double SHARES[] = {1.0, 0.999, 0.998, 0.996, 0.993, 0.99, 0.985, 0.98, 0.97, 0.96};
enum { ENVPIPE_ITERATIONS = 1000 };
enum { SHARE_COUNT = sizeof(SHARES) / sizeof(SHARES[0]), GOOD_ENOUGH = 2, MOVES_TRIED = 200 };

/* Makes the plan for a shorter deadline, which knows nothing of switching, in search->plan. */
static int plan_for(struct lull_switching_search *search, struct lull_pipeline_rounding *rounding,
                    struct lull_frontier *frontier, int64_t time_ns, int64_t *duration_ns)
{
    int rc = lull_frontier_seek(frontier, time_ns);
    int64_t moves;

    if (rc < 0)
        return rc;
    lull_frontier_durations(frontier, duration_ns);
    rc = lull_pipeline_round_quick(rounding, duration_ns, time_ns, search->plan);
    if (rc < 0)
        return rc;
    moves = lull_pipeline_round_improve(rounding, time_ns, MOVES_TRIED, search->plan);
    if (moves < 0)
        return (int)moves;
    return 0;
}

/* Considers plans for shorter deadlines until two of them keep this one. Where none does, considers
 * the plan itself. */
static int consider_shorter(struct lull_switching_search *search,
                            struct lull_pipeline_rounding *rounding, struct lull_frontier *frontier,
                            const uint32_t *point, int64_t *duration_ns)
{
    unsigned good = 0;

    for (unsigned i = 0; i < SHARE_COUNT && good < GOOD_ENOUGH; i++) {
        int rc = plan_for(search, rounding, frontier,
                          (int64_t)((double)search->deadline_ns * SHARES[i]), duration_ns);

        if (rc == -ERANGE && i > 0)
            break;
        if (rc < 0)
            return rc;
        lull_switching_judge(search);
        if (search->excess_ns > 0)
            continue;
        good++;
        lull_switching_consider(search);
    }
    if (good == 0) {
        memcpy(search->plan, point, search->problem->graph->op_count * sizeof(*point));
        lull_switching_consider(search);
    }
    return 0;
}

/* Prices of time as shares of what time is worth at the deadline. Where it costs somewhat more,
 * there is time left to win back. Commit 3c23d02 chose them. */
static const double PRICES[] = {1.0, 1.02, 1.05, 1.1};
enum { PRICE_COUNT = sizeof(PRICES) / sizeof(PRICES[0]) };

/* Considers plans that pay for time and for changes, at the prices of the flow that proves the
 * frontier's bound. */
static int consider_priced(struct lull_switching_search *search,
                           struct lull_pipeline_rounding *rounding, struct lull_frontier *frontier,
                           int64_t *duration_ns, double *price_w)
{
    const struct lull_pipeline_graph *graph = search->problem->graph;
    struct lull_certificate flow;
    int rc = lull_certificate_init(&flow, graph);

    for (unsigned i = 0; i < PRICE_COUNT && rc == 0; i++) {
        rc = plan_for(search, rounding, frontier, search->deadline_ns, duration_ns);
        if (rc < 0)
            break;
        lull_frontier_certify(frontier, &flow);
        for (size_t op = 0; op < graph->op_count; op++)
            price_w[op] = (double)flow.op_flow[op] * flow.unit_w * PRICES[i];
        rc = lull_switching_price(search, price_w);
        if (rc < 0)
            break;
        lull_switching_consider(search);
    }
    lull_certificate_fini(&flow);
    return rc;
}

/* Considers EnvPipe's plan, which seldom changes clocks. */
static int consider_envpipe(struct lull_switching_search *search)
{
    struct lull_envpipe_outcome outcome;
    const int rc = lull_envpipe_plan(search->problem, LULL_ENVPIPE_BALANCED, ENVPIPE_ITERATIONS,
                                     search->plan, &outcome);

    if (rc != 0)
        return rc;
    lull_switching_consider(search);
    return 0;
}

/* Fed forward, switching costs energy instead of time, so plans of few changes and plans that pay
 * for each change compete with those that ignore switching. */
static int consider_fed_forward(struct lull_switching_search *search,
                                struct lull_pipeline_rounding *rounding,
                                struct lull_frontier *frontier, int64_t *duration_ns)
{
    double *price_w = malloc(search->problem->graph->op_count * sizeof(*price_w));
    int rc;

    if (price_w == NULL)
        return -ENOMEM;
    rc = consider_envpipe(search);
    if (rc != 0)
        goto done;
    rc = consider_priced(search, rounding, frontier, duration_ns, price_w);
done:
    free(price_w);
    return rc;
}

/* Collects candidates from shorter deadlines, from prices and from stretches; the cheapest of those
 * that keep the deadline is reported. */
static int replan(const struct lull_pipeline_problem *problem,
                  struct lull_pipeline_rounding *rounding, struct lull_frontier *frontier,
                  const struct lull_pipeline_switching *switching, int64_t deadline_ns,
                  uint32_t *point_inout, struct lull_pipeline_switching_report *report_out,
                  struct lull_error *err)
{
    struct lull_switching_search search = {
        .problem = problem, .switching = switching, .deadline_ns = deadline_ns};
    int64_t *duration_ns = malloc(problem->graph->op_count * sizeof(*duration_ns));
    int rc = lull_switching_begin(&search, problem, err);

    if (rc < 0)
        goto done;
    if (duration_ns == NULL) {
        rc = lull_error_set(err, -ENOMEM, "no memory for a plan");
        goto done;
    }
    rc = consider_shorter(&search, rounding, frontier, point_inout, duration_ns);
    if (rc == 0 && switching->is_fed_forward)
        rc = consider_fed_forward(&search, rounding, frontier, duration_ns);
    if (rc < 0) {
        lull_error_set(err, rc, "no plan of real clocks keeps %.3f ms", (double)deadline_ns * 1e-6);
        goto done;
    }
    lull_switching_consider_uniform(&search);
    lull_switching_consider_stretches(&search, point_inout, false);
    rc = conclude(&search, point_inout, report_out, err);
done:
    free(duration_ns);
    lull_memory_free(&search.memory);
    return rc;
}

/* ---- drivers that serve one call after the other ------------------------------------------ */

/* What a change is taken to cost, since a driver's time is scarce: a share of an operation's mean
 * energy. Commit a1ce013 measured it on a simulated job of 16 GPUs. */
static const double call_price = 0.04;

/* Makes a plan that seldom changes clocks, and changes it so that the drivers can serve it. */
static int replan_queued(const struct lull_pipeline_problem *problem,
                         struct lull_pipeline_rounding *rounding, struct lull_frontier *frontier,
                         const struct lull_pipeline_switching *switching, int64_t deadline_ns,
                         uint32_t *point_inout, struct lull_pipeline_switching_report *report_out,
                         struct lull_error *err)
{
    struct lull_pipeline_switching priced = *switching;
    int rc;

    priced.switch_j += call_price * lull_pipeline_plan_cost(problem, point_inout, 0).energy_j /
                       (double)problem->graph->op_count;
    rc = replan(problem, rounding, frontier, &priced, deadline_ns, point_inout, report_out, err);
    if (rc < 0)
        return rc;
    if (lull_pipeline_queue_deliver(problem, switching, point_inout) < 0)
        return lull_error_set(err, -ENOMEM, "no memory for a plan");
    /* Without the lowerings that were left out the plan may be faster. */
    report_out->time_ns =
        lull_pipeline_switching_timeline(problem, switching, point_inout, NULL, NULL);
    return 0;
}

int lull_pipeline_switching_replan(const struct lull_pipeline_problem *problem,
                                   struct lull_pipeline_rounding *rounding,
                                   struct lull_frontier *frontier,
                                   const struct lull_pipeline_switching *switching,
                                   int64_t deadline_ns, uint32_t *point_inout,
                                   struct lull_pipeline_switching_report *report_out,
                                   struct lull_error *err)
{
    if (switching->is_fed_forward && switching->call_ns > 0)
        return replan_queued(problem, rounding, frontier, switching, deadline_ns, point_inout,
                             report_out, err);
    return replan(problem, rounding, frontier, switching, deadline_ns, point_inout, report_out,
                  err);
}
