/*
 * Ranks that differ: points of single GPUs below the common one, and ranks that do not wait for
 * each other. Against simulated jobs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "job_sim.h"

struct outcome {
    struct lull_controller *controller;
    struct job_sim_result result;
    const struct lull_target *target;
};

static void run(const struct job_sim_config *config, const struct lull_controller_config *control,
                struct outcome *outcome)
{
    outcome->controller = job_sim_create_controller(config, control);
    job_sim_run(config, outcome->controller, &outcome->result);
    outcome->target = lull_controller_look(outcome->controller).targets;
}

/* Three GPUs that arrive early and need little clock to transfer, and one that arrives last. */
static void uneven_job(struct job_sim_config *config, uint32_t knee_of_last)
{
    job_sim_config_default(config);
    config->iterations = 1500;
    config->uneven = true;
    for (uint32_t i = 0; i < 4; i++) {
        config->compute_scale[i] = i == 3 ? 1.0 : 0.6;
        config->own_knee[i] = i == 3 ? knee_of_last : 70;
    }
}

/* Jointly and refined, of the same job. Both within the tolerance. */
static void compare(const struct job_sim_config *config, struct outcome *joint,
                    struct outcome *refined, double savings[2])
{
    struct lull_controller_config control;
    struct job_sim_result unmanaged;

    lull_controller_config_default(&control);
    control.only_sections = true;
    job_sim_run(config, NULL, &unmanaged);
    run(config, &control, refined);
    control.together = true;
    run(config, &control, joint);
    savings[0] = job_sim_saving(&unmanaged, &joint->result);
    savings[1] = job_sim_saving(&unmanaged, &refined->result);
    print_message("joint point %u: saving %.2f %%, slowdown %.2f %%\n", joint->target->descent.good,
                  savings[0] * 100.0, job_sim_slowdown(&unmanaged, &joint->result) * 100.0);
    print_message("refined: saving %.2f %%, slowdown %.2f %%, settled after %llu, points",
                  savings[1] * 100.0, job_sim_slowdown(&unmanaged, &refined->result) * 100.0,
                  (unsigned long long)lull_controller_look(refined->controller).settled_after);
    for (uint32_t i = 0; i < config->gpus; i++)
        print_message(" %u", lull_controller_kept_point(refined->controller, i, refined->target));
    print_message("\n");
    assert_true(lull_controller_look(refined->controller).has_settled);
    assert_true(job_sim_slowdown(&unmanaged, &joint->result) < control.tolerance_ratio);
    assert_true(job_sim_slowdown(&unmanaged, &refined->result) < control.tolerance_ratio);
}

static void destroy(struct outcome *joint, struct outcome *refined)
{
    lull_controller_destroy(joint->controller);
    lull_controller_destroy(refined->controller);
}

static void test_early_gpus_go_lower_than_the_common_point(void **state)
{
    struct job_sim_config config;

    (void)state;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct outcome joint;
        struct outcome refined;
        double savings[2];

        uneven_job(&config, 20);
        config.seed = seed;
        compare(&config, &joint, &refined, savings);
        assert_in_range(joint.target->descent.good, 15, 22);
        assert_true(savings[1] > 1.15 * savings[0]);
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t point =
                lull_controller_kept_point(refined.controller, i, refined.target);

            assert_true(point <= config.own_knee[i] + 2);
            if (i < 3)
                assert_true(point >= 55);
        }
        destroy(&joint, &refined);
    }
}

static void test_a_gpu_that_cannot_go_lower_is_left_out(void **state)
{
    struct job_sim_config config;
    struct outcome joint;
    struct outcome refined;
    double savings[2];

    (void)state;
    uneven_job(&config, 0);
    config.points = 11;
    for (uint32_t i = 0; i < 3; i++)
        config.own_knee[i] = 9;
    compare(&config, &joint, &refined, savings);
    assert_int_equal(joint.target->descent.good, 0);
    assert_true(savings[1] > 0.07);
    assert_int_equal(lull_controller_kept_point(refined.controller, 3, refined.target), 0);
    destroy(&joint, &refined);
}

static void test_gpus_that_are_alike_have_no_turns(void **state)
{
    struct job_sim_config config;
    struct lull_controller_config control;
    struct outcome outcome;

    (void)state;
    job_sim_config_default(&config);
    config.knee_point = 30;
    config.iterations = 700;
    lull_controller_config_default(&control);
    control.only_sections = true;
    run(&config, &control, &outcome);
    assert_true(lull_controller_look(outcome.controller).has_settled);
    assert_false(outcome.target->has_own);
    for (uint32_t i = 0; i < outcome.target->record_count; i++)
        assert_int_equal(outcome.target->records[i].gpu, -1);
    lull_controller_destroy(outcome.controller);
}

/* Early, but what they transfer needs the same clock: two turns come to nothing, then it ends. */
static void test_turns_that_come_to_nothing_end_soon(void **state)
{
    struct job_sim_config config;
    struct lull_controller_config control;
    struct outcome outcome;
    uint32_t turns = 0;
    int32_t last = -1;

    (void)state;
    uneven_job(&config, 20);
    for (uint32_t i = 0; i < 4; i++)
        config.own_knee[i] = 20;
    lull_controller_config_default(&control);
    control.only_sections = true;
    run(&config, &control, &outcome);
    assert_true(lull_controller_look(outcome.controller).has_settled);
    for (uint32_t i = 0; i < outcome.target->record_count; i++) {
        if (outcome.target->records[i].gpu >= 0 && outcome.target->records[i].gpu != last)
            turns++;
        last = outcome.target->records[i].gpu;
    }
    assert_int_equal(turns, 2);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(lull_controller_kept_point(outcome.controller, i, outcome.target) <= 22);
    lull_controller_destroy(outcome.controller);
}

/* ---- ranks that do not wait ---------------------------------------------------------------- */

/* One of four feels every clock below point 10, the others none: the mean hides a part of that. */
static void test_a_rank_that_nobody_waits_for_is_not_slowed(void **state)
{
    struct job_sim_config config;
    struct job_sim_result unmanaged;
    struct lull_controller_config control;
    struct outcome outcome;

    (void)state;
    job_sim_config_default(&config);
    config.points = 41;
    config.uneven = true;
    config.uncoupled = true;
    config.iterations = 2500;
    for (uint32_t i = 0; i < 4; i++) {
        config.compute_scale[i] = 1.0 + 0.1 * i;
        config.own_knee[i] = i == 2 ? 10 : 40;
    }
    lull_controller_config_default(&control);
    control.only_sections = true;
    job_sim_run(&config, NULL, &unmanaged);
    run(&config, &control, &outcome);
    print_message("common point %u\n", outcome.target->descent.good);
    assert_true(lull_controller_look(outcome.controller).has_settled);
    assert_in_range(outcome.target->descent.good, 8, 11);
    for (uint32_t i = 0; i < 4; i++) {
        const double slower =
            outcome.result.rank_iteration_ms[i] / unmanaged.rank_iteration_ms[i] - 1.0;

        print_message("rank %u: %+.2f %%\n", i, slower * 100.0);
        assert_true(slower < control.tolerance_ratio);
    }
    lull_controller_destroy(outcome.controller);
}

/* One is five times as fast as another: neither stops the other's test. */
static void test_ranks_of_very_different_speed_come_to_an_end(void **state)
{
    struct job_sim_config config;
    struct lull_controller_config control;
    struct outcome outcome;

    (void)state;
    job_sim_config_default(&config);
    config.gpus = 2;
    config.uneven = true;
    config.uncoupled = true;
    config.points = 21;
    config.exposed_ms = 150.0;
    config.compute_ms = 100.0;
    config.compute_scale[0] = 1.0;
    config.compute_scale[1] = 11.0;
    config.own_knee[0] = config.own_knee[1] = 10;
    config.iterations = 3000;
    lull_controller_config_default(&control);
    control.only_sections = true;
    run(&config, &control, &outcome);
    print_message("settled after %llu at point %u\n",
                  (unsigned long long)lull_controller_look(outcome.controller).settled_after,
                  outcome.target->descent.good);
    assert_true(lull_controller_look(outcome.controller).has_settled);
    assert_in_range(outcome.target->descent.good, 1, 11);
    lull_controller_destroy(outcome.controller);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_early_gpus_go_lower_than_the_common_point),
        cmocka_unit_test(test_a_gpu_that_cannot_go_lower_is_left_out),
        cmocka_unit_test(test_gpus_that_are_alike_have_no_turns),
        cmocka_unit_test(test_turns_that_come_to_nothing_end_soon),
        cmocka_unit_test(test_a_rank_that_nobody_waits_for_is_not_slowed),
        cmocka_unit_test(test_ranks_of_very_different_speed_come_to_an_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
