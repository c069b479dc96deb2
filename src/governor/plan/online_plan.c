/* Makes a profile of what online.c has measured, and a plan for it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/switching/switching.h"
#include "core/pipeline/rounding/rounding.h"
#include "core/pipeline/schedule/schedule.h"
#include "governor/plan/online_state.h"

int lull_online_build_plan(const struct lull_online *online,
                           const struct lull_pipeline_profile *profile, struct lull_plan_file *plan,
                           struct lull_error *err)
{
    const struct lull_pipeline_shape shape = {
        .devices = online->devices,
        .microbatches = online->options.microbatches,
        .replicas = {.count = 1},
    };
    struct lull_pipeline_schedule *schedule = calloc(1, sizeof(*schedule));
    int result = schedule == NULL ? -ENOMEM : 0;

    if (result == 0)
        result = lull_pipeline_schedule_parse(online->options.schedule, schedule, err);
    if (result == 0)
        result = lull_pipeline_schedule_build(schedule, &shape, profile, &plan->profile,
                                              &plan->graph, err);
    free(schedule);
    if (result < 0)
        return result;
    plan->blocking_w = calloc(plan->graph.device_count, sizeof(plan->blocking_w[0]));
    plan->option = calloc(plan->graph.op_count, sizeof(plan->option[0]));
    for (uint32_t i = 0; plan->blocking_w != NULL && i < plan->graph.device_count; i++)
        plan->blocking_w[i] = online->options.blocking_w;
    return plan->blocking_w == NULL || plan->option == NULL ? -ENOMEM : 0;
}

/* ---- the profile ------------------------------------------------------------------------- */

static uint32_t operations_of(const struct lull_plan_file *plan, uint32_t device,
                              enum lull_pipeline_kind kind)
{
    const struct lull_pipeline_graph *graph = &plan->graph;
    uint32_t count = 0;

    for (uint32_t i = graph->first_on[device]; i < graph->first_on[device + 1]; i++)
        count += plan->profile.classes[graph->ops[graph->on_device[i]].class_index].kind == kind;
    return count;
}

static int add_options(const struct lull_online *online, uint32_t device, uint32_t clock,
                       struct lull_pipeline_profile *measured, struct lull_error *err)
{
    const struct lull_profiling_mean mean = lull_profiling_mean(online->profiling, device, clock);
    const struct lull_plan_file *order = &online->plans[ORDER];
    const double busy_s =
        1e-3 * (mean.forward_ms * operations_of(order, device, LULL_PIPELINE_FORWARD) +
                mean.backward_ms * operations_of(order, device, LULL_PIPELINE_BACKWARD));
    const double waiting_s = fmax(online->iteration_ms[clock] * 1e-3 - busy_s, 0.0);
    const double busy_w =
        fmax(mean.energy_j - online->options.blocking_w * waiting_s, 0.0) / busy_s;
    const double ms[] = {mean.forward_ms, mean.backward_ms};
    int result = 0;

    for (int i = 0; i < 2 && result >= 0 && mean.count > 0; i++) {
        const struct lull_pipeline_point option = {
            .time_ns = llround(ms[i] * 1e6),
            .energy_nj = llround(busy_w * ms[i] * 1e6),
            .sm_mhz = online->mhz[clock],
        };

        result = lull_pipeline_profile_add(measured, 0, device,
                                           i == 0 ? LULL_PIPELINE_FORWARD : LULL_PIPELINE_BACKWARD,
                                           0, &option, err);
    }
    return result < 0 ? result : 0;
}

static int build_profile(const struct lull_online *online, struct lull_pipeline_profile *measured,
                         struct lull_error *err)
{
    int result = 0;

    lull_pipeline_profile_init(measured);
    for (uint32_t device = 0; device < online->devices; device++)
        for (uint32_t clock = 0; clock < online->clock_count && result == 0; clock++)
            result = add_options(online, device, clock, measured, err);
    return result;
}

/* Makes the plan of the least energy whose iterations are no longer than those at the highest
 * clocks. */
static int plan_frontier(const struct lull_pipeline_problem *problem,
                         const struct lull_pipeline_switching *switching, uint32_t *option,
                         struct lull_error *err)
{
    struct lull_frontier *frontier = lull_frontier_create(problem, err);
    struct lull_pipeline_rounding *rounding = NULL;
    struct lull_pipeline_switching_report report;
    int64_t deadline_ns;
    int result = frontier == NULL ? -ENOMEM : lull_pipeline_rounding_create(problem, &rounding);

    lull_pipeline_plan_highest(problem, option);
    deadline_ns = lull_pipeline_plan_cost(problem, option, 0).time_ns;
    if (result == 0)
        result = lull_pipeline_round_thorough(rounding, frontier, deadline_ns, option);
    if (result == 0)
        result =
            lull_pipeline_switching(problem, switching, deadline_ns, false, option, &report, err);
    if (rounding != NULL)
        lull_pipeline_rounding_destroy(rounding);
    lull_frontier_destroy(frontier);
    return result;
}

static void judge_plan(struct lull_online *online)
{
    struct lull_plan_file *plan = &online->plans[PLAN];
    const struct lull_pipeline_cost cost =
        lull_pipeline_plan_cost(&online->problem, plan->option, 0);

    plan->time_ns = plan->period_ns = plan->deadline_ns = cost.time_ns;
    plan->energy_j = cost.energy_j + lull_pipeline_switching_energy_j(
                                         &online->problem, &plan->switching, plan->option);
    plan->bound_j = NAN;
}

int lull_online_make_plan(struct lull_online *online,
                          const struct lull_pipeline_switching *switching, struct lull_error *err)
{
    struct lull_plan_file *plan = &online->plans[PLAN];
    struct lull_pipeline_profile measured;
    int result = build_profile(online, &measured, err);

    if (result == 0)
        result = lull_online_build_plan(online, &measured, plan, err);
    lull_pipeline_profile_fini(&measured);
    if (result < 0)
        return result;
    online->problem =
        (struct lull_pipeline_problem){&plan->profile, &plan->graph, plan->blocking_w};
    plan->switching = *switching;
    result = plan_frontier(&online->problem, switching, plan->option, err);
    if (result < 0)
        return result;
    judge_plan(online);
    snprintf(plan->title, sizeof(plan->title), "%s, %u stages, %u micro-batches, profiled online",
             online->options.schedule, online->devices, online->options.microbatches);
    snprintf(plan->planner, sizeof(plan->planner), "%s", "frontier");
    return 0;
}
