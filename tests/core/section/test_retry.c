/*
 * Points are tried again: a proven point stays in force while lower points are searched, and
 * a job that has become less sensitive is lowered further. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "job_sim.h"

struct outcome {
    struct job_sim_result managed;
    uint32_t proven; /* point of GPU 0 */
    bool has_settled;
    bool searches;
    uint32_t verdicts;
};

static void run(const struct job_sim_config *config, struct outcome *outcome_out)
{
    struct lull_controller_config control;
    struct lull_controller *controller;
    struct lull_controller_view now;

    lull_controller_config_default(&control);
    control.only_sections = true;
    controller = job_sim_create_controller(config, &control);
    job_sim_run(config, controller, &outcome_out->managed);
    now = lull_controller_look(controller);
    assert_int_equal(now.target_count, 1);
    outcome_out->proven = lull_controller_kept_point(controller, 0, &now.targets[0]);
    outcome_out->has_settled = now.has_settled;
    outcome_out->searches = now.descending != NULL;
    outcome_out->verdicts = now.targets[0].record_count;
    lull_controller_destroy(controller);
}

static void set_up(struct job_sim_config *config)
{
    job_sim_config_default(config);
    config->points = 21;
    config->knee_point = 6;
}

static void test_a_job_that_has_become_less_sensitive_goes_lower(void **state)
{
    struct job_sim_config config;
    struct outcome outcome;

    (void)state;
    set_up(&config);
    config.knee_moves_at = 600;
    config.knee_after = 14;
    config.iterations = 1000;
    run(&config, &outcome);
    assert_in_range(outcome.proven, 5, 7);
    config.iterations = 4500;
    run(&config, &outcome);
    assert_in_range(outcome.proven, 13, 15);
    assert_in_range(outcome.managed.last_ran_at, 13, 15);
}

/* The run may end at any moment of a search in vain: its result is what had been proven. */
static void test_what_is_proven_stays_while_lower_points_are_tried(void **state)
{
    struct job_sim_config config;
    struct outcome before;
    uint32_t searching = 0;

    (void)state;
    set_up(&config);
    config.iterations = 1000;
    run(&config, &before);
    assert_true(before.has_settled && !before.searches);
    for (config.iterations = 1296 + 1024; config.iterations <= 1320 + 1024;
         config.iterations += 2) {
        struct outcome outcome;

        run(&config, &outcome);
        assert_true(outcome.has_settled);
        assert_int_equal(outcome.proven, before.proven);
        searching += outcome.searches;
    }
    assert_in_range(searching, 1, 10);
}

/* The second search comes after twice the time, and each takes one verdict where nothing has
 * changed. */
static void test_searches_in_vain_become_rarer(void **state)
{
    struct job_sim_config config;
    struct outcome first;
    struct outcome second;

    (void)state;
    set_up(&config);
    config.iterations = 2000;
    run(&config, &first);
    config.iterations = 2000 + 4096 + 1200;
    run(&config, &second);
    assert_in_range(second.verdicts - first.verdicts, 2, 4);
    assert_int_equal(second.proven, first.proven);
}

/* While sections rest the job has settled, but its search is not over: lower points are tried again
 * only so many iterations after the steady point has been found. */
static void test_a_retry_counts_from_the_end_of_the_search(void **state)
{
    struct lull_controller_config control;
    struct lull_controller *controller = NULL;
    struct job_sim_config config;
    struct job_sim_result managed;

    (void)state;
    lull_controller_config_default(&control);
    set_up(&config);
    config.gpus = 1;
    config.memory_share = 0.9;
    config.iterations = 600;
    for (int run = 0; run < 2; run++) {
        lull_controller_destroy(controller);
        controller = job_sim_create_controller(&config, &control);
        job_sim_run(&config, controller, &managed);
        assert_true(lull_controller_look(controller).settled_after > 0);
        config.iterations = (uint32_t)lull_controller_look(controller).settled_after + 2048 + 10;
    }
    assert_true(lull_controller_look(controller).steady->proven.common > 0);
    assert_null(lull_controller_look(controller).descending);
    lull_controller_destroy(controller);
}

/* Runs a job whose collective takes 2 % of its iteration with all levers. Returns what is known of
 * the collective's target. */
static struct lull_target run_short(uint32_t iterations)
{
    struct job_sim_config config;
    struct lull_controller_config control;
    struct lull_controller *controller;
    struct job_sim_result result;
    struct lull_controller_view now;
    struct lull_target found = {0};

    set_up(&config);
    config.gpus = 1;
    config.knee_point = config.points - 1;
    config.compute_ms = 4800.0;
    config.exposed_ms = 100.0;
    config.iterations = iterations;
    lull_controller_config_default(&control);
    controller = job_sim_create_controller(&config, &control);
    job_sim_run(&config, controller, &result);
    now = lull_controller_look(controller);
    assert_true(now.has_settled);
    for (uint32_t i = 0; i < now.target_count; i++)
        if (&now.targets[i] != now.steady)
            found = now.targets[i];
    assert_int_equal(now.target_count, 2);
    lull_controller_destroy(controller);
    return found;
}

/* The steady point does not wait for a search that saves next to nothing; that comes with the first
 * retry. */
static void test_short_sections_come_last(void **state)
{
    const struct lull_target early = run_short(600);
    const struct lull_target late = run_short(2500);

    (void)state;
    assert_false(early.settled);
    assert_int_equal(early.record_count, 0);
    assert_int_equal(early.reason, LULL_REASON_SHORT);
    assert_true(late.settled && late.record_count > 0 && late.descent.good > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_sections_come_last),
        cmocka_unit_test(test_a_job_that_has_become_less_sensitive_goes_lower),
        cmocka_unit_test(test_what_is_proven_stays_while_lower_points_are_tried),
        cmocka_unit_test(test_searches_in_vain_become_rarer),
        cmocka_unit_test(test_a_retry_counts_from_the_end_of_the_search),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
