/*
 * Plans in the job that executes them, in virtual time: the predictions of
 * a plan that takes fed-forward switching into account, and the results. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/switching/switching.h"
#include "core/pipeline/rounding/rounding.h"
#include "pipe_sim.h"
#include "../../property.h"

enum planner { FRONTIER, FED_FORWARD, PLANNERS };

/* Timing of the simulated driver: 4 ms a call, 5 to 20 ms until a clock has settled. */
static const struct lull_pipeline_switching switching = {
    .down_ns = 16500000, .up_ns = 24000000, .is_fed_forward = true, .early_ns = 7500000};

struct outcome {
    double promised; /* saving */
    double saved;
    double slower;
    double commands; /* in an iteration */
};

static void plan_frontier(const struct lull_pipeline_problem *problem, bool is_fed_forward,
                          uint32_t *point)
{
    struct lull_frontier *frontier = lull_frontier_create(problem, NULL);
    struct lull_pipeline_rounding *rounding;
    struct lull_pipeline_switching_report report;
    struct lull_error err;
    int64_t deadline_ns;

    assert_non_null(frontier);
    assert_int_equal(lull_pipeline_rounding_create(problem, &rounding), 0);
    lull_pipeline_plan_highest(problem, point);
    deadline_ns = lull_pipeline_plan_cost(problem, point, 0).time_ns;
    assert_int_equal(lull_pipeline_round_thorough(rounding, frontier, deadline_ns, point), 0);
    if (is_fed_forward)
        assert_int_equal(
            lull_pipeline_switching(problem, &switching, deadline_ns, false, point, &report, &err),
            0);
    lull_pipeline_rounding_destroy(rounding);
    lull_frontier_destroy(frontier);
}

static double promise(const struct lull_pipeline_problem *problem, const uint32_t *point)
{
    uint32_t *highest = calloc(problem->graph->op_count, sizeof(*highest));
    double highest_j;

    lull_pipeline_plan_highest(problem, highest);
    highest_j = lull_pipeline_plan_cost(problem, highest, 0).energy_j;
    free(highest);
    return 1.0 - (lull_pipeline_plan_cost(problem, point, 0).energy_j +
                  lull_pipeline_switching_energy_j(problem, &switching, point)) /
                     highest_j;
}

static struct outcome try_planner(const struct pipe_sim_config *job, enum planner planner)
{
    struct pipe_sim *sim = pipe_sim_create(job);
    const struct lull_pipeline_problem *problem = pipe_sim_problem(sim);
    uint32_t *point = calloc(problem->graph->op_count, sizeof(*point));
    struct lull_plan_controller_config config;
    struct lull_plan_controller *plan_controller;
    struct pipe_sim_result result;
    struct outcome outcome;

    lull_plan_controller_config_default(&config);
    plan_controller = pipe_sim_plan_controller(sim, &config);
    assert_non_null(plan_controller);
    plan_frontier(problem, planner == FED_FORWARD, point);
    assert_int_equal(pipe_sim_add_plan(sim, plan_controller, point, 0), 0);
    pipe_sim_run(sim, plan_controller, &result);
    outcome = (struct outcome){
        .promised = promise(problem, point),
        .saved = 1.0 - result.plan_j / result.highest_j,
        .slower = result.plan_ms / result.highest_ms - 1.0,
        .commands = (double)result.commands / result.iterations_told,
    };
    assert_int_equal(lull_plan_controller_phase(plan_controller), LULL_PLAN_CONTROLLER_KEPT);
    lull_plan_controller_destroy(plan_controller);
    pipe_sim_destroy(sim);
    free(point);
    return outcome;
}

/* The predicted saving is reached, and a plan that takes switching into account predicts no less.
 */
static void test_promises(void **state)
{
    static const char *const names[] = {"frontier", "fed forward"};
    struct outcome outcomes[PLANNERS];

    (void)state;
    for (enum planner i = 0; i < PLANNERS; i++) {
        struct pipe_sim_config job;

        pipe_sim_config_default(&job);
        outcomes[i] = try_planner(&job, i);
        printf("%11s: promised %.2f %%, saved %.2f %%, %.3f %% slower, %.1f commands\n", names[i],
               100.0 * outcomes[i].promised, 100.0 * outcomes[i].saved, 100.0 * outcomes[i].slower,
               outcomes[i].commands);
        assert_true(fabs(outcomes[i].saved - outcomes[i].promised) < 0.004);
        assert_true(outcomes[i].slower < 0.001);
    }
    assert_true(outcomes[FED_FORWARD].promised >= outcomes[FRONTIER].promised);
    assert_true(outcomes[FED_FORWARD].commands <= outcomes[FRONTIER].commands);
    assert_true(outcomes[FED_FORWARD].saved > 0.12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_promises),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
