/*
 * The controller against simulated jobs: what it saves, what it costs, what it leaves alone.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "core/section/feed_forward.h"
#include "job_sim.h"

struct comparison {
    struct job_sim_result unmanaged;
    struct job_sim_result managed;
    double slowdown;
    double saving;
    double ideal_saving;
};

static struct lull_controller *create(const struct job_sim_config *config,
                                      enum lull_descent_strategy strategy)
{
    struct lull_controller_config control;
    uint32_t points[16];

    for (uint32_t i = 0; i < config->gpus; i++)
        points[i] = config->points;
    lull_controller_config_default(&control);
    control.strategy = strategy;
    return lull_controller_create(&control, config->gpus, points);
}

static double lowest_ideal_j(const struct job_sim_config *config)
{
    double best = job_sim_ideal_energy_j(config, 0);

    for (uint32_t i = 1; i <= config->knee_point; i++)
        if (job_sim_ideal_energy_j(config, i) < best)
            best = job_sim_ideal_energy_j(config, i);
    return best;
}

static struct comparison compare(const struct job_sim_config *config,
                                 struct lull_controller *controller, const char *name)
{
    struct comparison c;

    job_sim_run(config, NULL, &c.unmanaged);
    job_sim_run(config, controller, &c.managed);
    c.slowdown = c.managed.settled_iteration_ms / c.unmanaged.settled_iteration_ms - 1.0;
    c.saving = 1.0 - c.managed.settled_energy_j / c.unmanaged.settled_energy_j;
    c.ideal_saving = 1.0 - lowest_ideal_j(config) / job_sim_ideal_energy_j(config, 0);
    printf("%s: settled after %llu, slowdown %.2f %%, saving %.2f %% of ideal %.2f %%, "
           "computed low %.2f %%\n",
           name, (unsigned long long)lull_controller_settled_after(controller), c.slowdown * 100.0,
           c.saving * 100.0, c.ideal_saving * 100.0,
           100.0 * (double)c.managed.computed_low / (double)c.managed.computed);
    return c;
}

static void test_it_saves_nearly_all_at_no_time(void **state)
{
    struct job_sim_config config;

    (void)state;
    for (uint32_t gpus = 1; gpus <= 8; gpus *= 2) {
        struct lull_controller *controller;
        struct comparison c;
        char name[32];

        job_sim_config_default(&config);
        config.gpus = gpus;
        snprintf(name, sizeof(name), "%u GPUs", gpus);
        controller = create(&config, LULL_DESCENT_BISECT);
        c = compare(&config, controller, name);
        assert_true(lull_controller_settled_after(controller) > 0);
        assert_true(lull_controller_settled_after(controller) <= 300);
        assert_true(c.slowdown < 0.005);
        assert_true(c.saving > 0.7 * c.ideal_saving);
        lull_controller_destroy(controller);
    }
}

static void test_all_strategies_end_at_the_knee(void **state)
{
    static const enum lull_descent_strategy strategies[] = {LULL_DESCENT_STEP, LULL_DESCENT_BISECT,
                                                            LULL_DESCENT_GALLOP};
    struct job_sim_config config;

    (void)state;
    job_sim_config_default(&config);
    config.points = 21;
    config.knee_point = 10;
    config.iterations = 900;
    for (uint32_t i = 0; i < 3; i++) {
        struct lull_controller *controller = create(&config, strategies[i]);
        struct comparison c = compare(&config, controller, "knee");
        uint32_t count;
        const struct lull_target *targets = lull_controller_targets(controller, &count);

        assert_int_equal(count, 1);
        assert_true(targets[0].settled);
        printf("  ended at point %u of knee %u\n", targets[0].descent.good, config.knee_point);
        assert_in_range(targets[0].descent.good, config.knee_point - 1, config.knee_point + 1);
        assert_true(c.slowdown < 0.01);
        lull_controller_destroy(controller);
    }
}

static void test_sections_too_short_are_left_alone(void **state)
{
    struct job_sim_config config;
    struct lull_controller *controller;
    struct comparison c;

    (void)state;
    job_sim_config_default(&config);
    config.exposed_ms = 8.0;
    config.compute_ms = 100.0;
    config.memory_share = 0.0;
    controller = create(&config, LULL_DESCENT_BISECT);
    c = compare(&config, controller, "short sections");
    assert_true(lull_controller_is_steady(controller));
    assert_true(c.slowdown < 0.003);
    assert_true(c.managed.total_ms / c.unmanaged.total_ms - 1.0 < 0.003);
    lull_controller_destroy(controller);
}

static void test_a_memory_bound_job_gets_a_steady_point(void **state)
{
    struct job_sim_config config;
    struct lull_controller *controller;
    struct comparison c;
    uint32_t count;

    (void)state;
    job_sim_config_default(&config);
    config.exposed_ms = 2.0;
    config.compute_ms = 100.0;
    config.memory_share = 1.0;
    config.iterations = 800;
    controller = create(&config, LULL_DESCENT_BISECT);
    c = compare(&config, controller, "memory bound");
    assert_true(lull_controller_is_steady(controller));
    assert_true(lull_controller_targets(controller, &count)[0].descent.good > 40);
    assert_true(c.slowdown < 0.003);
    assert_true(c.saving > 0.3);
    lull_controller_destroy(controller);
}

static void test_rare_extra_calls_raise_at_once_and_results_are_kept(void **state)
{
    struct job_sim_config config;
    struct lull_controller *controller;
    struct comparison c;
    uint32_t count;

    (void)state;
    job_sim_config_default(&config);
    config.odd_every = 150;
    config.iterations = 700;
    controller = create(&config, LULL_DESCENT_BISECT);
    c = compare(&config, controller, "extra calls");
    lull_controller_targets(controller, &count);
    assert_int_equal(count, 1);
    assert_true(c.slowdown < 0.005);
    assert_true(c.saving > 0.6 * c.ideal_saving);
    lull_controller_destroy(controller);
}

static void test_a_job_that_changes_shape_is_learnt_again(void **state)
{
    struct job_sim_config config;
    struct lull_controller *controller;
    struct comparison c;

    (void)state;
    job_sim_config_default(&config);
    config.change_at = 300;
    config.iterations = 800;
    controller = create(&config, LULL_DESCENT_BISECT);
    c = compare(&config, controller, "change of shape");
    assert_int_equal(lull_controller_phase(controller), LULL_PHASE_SETTLED);
    assert_true(c.slowdown < 0.005);
    lull_controller_destroy(controller);
}

static void test_uncertain_sections_are_not_lowered_ahead(void **state)
{
    struct lull_feed_forward feed;
    struct lull_forecast forecast = {.length_ms = 100.0,
                                     .gap_low_ms = 60.0,
                                     .gap_high_ms = 62.0,
                                     .ahead_ms = 4.0,
                                     .lead_ms = 30.0};

    (void)state;
    lull_feed_forward_init(&feed);
    assert_false(lull_feed_forward_end(&feed, 0, 5, &forecast));
    assert_int_equal(feed.lower_at_ns, 56000000);
    forecast.gap_high_ms = 80.0;
    lull_feed_forward_init(&feed);
    assert_false(lull_feed_forward_end(&feed, 0, 5, &forecast));
    assert_true(feed.lower_at_ns == INT64_MAX);
    /* Nothing is asked for until the section itself begins. */
    assert_true(lull_feed_forward_begin(&feed, 70000000, 5, &forecast));
    assert_int_equal(feed.requested, 5);
    assert_int_equal(feed.raise_at_ns, 140000000);
    assert_true(lull_feed_forward_poll(&feed, 140000000));
    assert_int_equal(feed.requested, 0);
}

static void test_no_clock_stays_low_for_long(void **state)
{
    struct job_sim_config config;
    struct lull_controller *controller;
    struct comparison c;

    (void)state;
    job_sim_config_default(&config);
    config.jitter = 0.05;
    controller = create(&config, LULL_DESCENT_BISECT);
    c = compare(&config, controller, "noisy");
    assert_true(c.managed.longest_low_ms < 2.0 * config.exposed_ms);
    lull_controller_destroy(controller);
}

/* One iteration in 40 follows the clock: the mean hardly shows it, the 99 % quantile does. */
static void test_the_tail_may_count_as_well(void **state)
{
    struct job_sim_config config;

    (void)state;
    job_sim_config_default(&config);
    config.gpus = 1;
    config.points = 9;
    config.knee_point = 8;
    config.compute_ms = 30.0;
    config.exposed_ms = 90.0;
    config.bound_every = 40;
    config.iterations = 5000;
    for (int with_tail = 0; with_tail < 2; with_tail++) {
        struct lull_controller_config control;
        struct lull_controller *controller;
        struct job_sim_result result;
        uint32_t count;

        lull_controller_config_default(&control);
        control.tail_tolerance_ratio = with_tail ? 0.05 : 0.0;
        controller = lull_controller_create(&control, 1, &config.points);
        job_sim_run(&config, controller, &result);
        assert_true(lull_controller_has_settled(controller));
        assert_int_equal(lull_controller_targets(controller, &count)[0].descent.good,
                         with_tail ? 0 : 8);
        lull_controller_destroy(controller);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_saves_nearly_all_at_no_time),
        cmocka_unit_test(test_all_strategies_end_at_the_knee),
        cmocka_unit_test(test_sections_too_short_are_left_alone),
        cmocka_unit_test(test_a_memory_bound_job_gets_a_steady_point),
        cmocka_unit_test(test_rare_extra_calls_raise_at_once_and_results_are_kept),
        cmocka_unit_test(test_a_job_that_changes_shape_is_learnt_again),
        cmocka_unit_test(test_uncertain_sections_are_not_lowered_ahead),
        cmocka_unit_test(test_no_clock_stays_low_for_long),
        cmocka_unit_test(test_the_tail_may_count_as_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
