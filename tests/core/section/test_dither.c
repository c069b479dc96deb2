/*
 * The steady point between two clocks, in virtual time: whole jobs under the controller.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "job_sim.h"

struct outcome {
    struct job_sim_result managed;
    double slowdown_ratio; /* of its last quarter */
    uint32_t point;
    double below_ratio;
};

/* A step costs some 0.7 % of time: one is within the tolerance, two are not. */
static void set_up(struct job_sim_config *config)
{
    job_sim_config_default(config);
    config->gpus = 1;
    config->exposed_ms = 10.0;
    config->memory_share = 0.3;
    config->jitter = 0.001;
    config->iterations = 1200;
}

static void run(const struct job_sim_config *config, const struct lull_controller_config *control,
                struct outcome *outcome_out)
{
    struct lull_controller *controller = job_sim_create_controller(config, control);
    struct job_sim_result unmanaged;
    const struct lull_target *steady;

    job_sim_run(config, controller, &outcome_out->managed);
    job_sim_run(config, NULL, &unmanaged);
    outcome_out->slowdown_ratio =
        outcome_out->managed.settled_iteration_ms / unmanaged.settled_iteration_ms - 1.0;
    steady = lull_controller_look(controller).steady;
    outcome_out->point = steady->proven.common;
    outcome_out->below_ratio = lull_target_below_ratio(steady);
    lull_controller_destroy(controller);
}

static void test_half_a_step_is_found_and_within_the_tolerance(void **state)
{
    struct lull_controller_config control;
    struct job_sim_config config;
    struct outcome outcome;

    (void)state;
    lull_controller_config_default(&control);
    set_up(&config);
    for (config.seed = 1; config.seed <= 4; config.seed++) {
        run(&config, &control, &outcome);
        print_message("point %u and %.3f of a step, %.3f %%, %u calls\n", outcome.point,
                      outcome.below_ratio, 100.0 * outcome.slowdown_ratio,
                      (unsigned)outcome.managed.calls);
        assert_int_equal(outcome.point, 1);
        assert_true(outcome.below_ratio >= 0.125 && outcome.below_ratio <= 0.4);
        assert_true(outcome.slowdown_ratio < control.tolerance_ratio);
    }
}

/* Once settled, collectives slow down at lower clocks: from then on a duty is harm. */
static void test_what_has_become_harmful_is_given_up(void **state)
{
    struct lull_controller_config control;
    struct job_sim_config config;
    struct outcome before;
    struct outcome after;

    (void)state;
    lull_controller_config_default(&control);
    set_up(&config);
    config.exposed_ms = 30.0;
    run(&config, &control, &before);
    config.knee_moves_at = config.iterations;
    config.knee_after = 0;
    config.iterations = 4000;
    run(&config, &control, &after);
    print_message("%.3f of a step, then %.3f at point %u\n", before.below_ratio, after.below_ratio,
                  after.point);
    assert_true(before.below_ratio > 0.0);
    assert_true(after.point + after.below_ratio < before.point + before.below_ratio);
}

/* Below the first step a knee makes each iteration much longer: the trials of that point say so. */
static void test_no_duty_where_the_next_point_hurts(void **state)
{
    struct lull_controller_config control;
    struct job_sim_config config;
    struct outcome outcome;

    (void)state;
    lull_controller_config_default(&control);
    set_up(&config);
    config.exposed_ms = 150.0;
    config.knee_point = 1;
    for (config.seed = 1; config.seed <= 4; config.seed++) {
        run(&config, &control, &outcome);
        assert_true(outcome.slowdown_ratio < control.tolerance_ratio);
    }
}

/* With a tail that counts the lower of two clocks would decide alone. */
static void test_one_steady_point_where_the_tail_counts(void **state)
{
    struct lull_controller_config control;
    struct job_sim_config config;
    struct outcome outcome;

    (void)state;
    lull_controller_config_default(&control);
    set_up(&config);
    control.tail_tolerance_ratio = 0.5;
    config.iterations = 4000;
    run(&config, &control, &outcome);
    assert_int_equal(outcome.point, 1);
    assert_true(outcome.below_ratio == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_a_step_is_found_and_within_the_tolerance),
        cmocka_unit_test(test_what_has_become_harmful_is_given_up),
        cmocka_unit_test(test_no_duty_where_the_next_point_hurts),
        cmocka_unit_test(test_one_steady_point_where_the_tail_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
