/*
 * The controller on simulated jobs: its savings, its cost, and the sections that it does not
 * change. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "core/stats/random.h"
#include "core/switching/feed_forward.h"
#include "job_sim.h"

/* Levers that the controller may use. */
enum levers { ALL, SECTIONS, STEADY };

/* One job, unmanaged and managed. */
struct comparison {
    struct job_sim_config config;
    enum levers levers;
    struct lull_controller *controller;
    struct job_sim_result unmanaged;
    struct job_sim_result managed;
    double slowdown;
    double saving;
    double ideal_saving;
};

static struct lull_controller *create(const struct job_sim_config *config, enum levers levers,
                                      enum lull_descent_strategy strategy)
{
    struct lull_controller_config control;

    lull_controller_config_default(&control);
    control.strategy = strategy;
    control.only_sections = levers == SECTIONS;
    control.only_steady = levers == STEADY;
    return job_sim_create_controller(config, &control);
}

static double lowest_ideal_j(const struct job_sim_config *config)
{
    double best = job_sim_ideal_energy_j(config, 0);

    for (uint32_t i = 1; i <= config->knee_point; i++)
        if (job_sim_ideal_energy_j(config, i) < best)
            best = job_sim_ideal_energy_j(config, i);
    return best;
}

/* Simulates the job of c->config both ways; may be called again with another one. */
static void compare(struct comparison *c, enum lull_descent_strategy strategy, const char *name)
{
    lull_controller_destroy(c->controller);
    c->controller = create(&c->config, c->levers, strategy);
    job_sim_run(&c->config, NULL, &c->unmanaged);
    job_sim_run(&c->config, c->controller, &c->managed);
    c->slowdown = c->managed.settled_iteration_ms / c->unmanaged.settled_iteration_ms - 1.0;
    c->saving = 1.0 - c->managed.settled_energy_j / c->unmanaged.settled_energy_j;
    c->ideal_saving = 1.0 - lowest_ideal_j(&c->config) / job_sim_ideal_energy_j(&c->config, 0);
    printf("%s: settled after %llu, slowdown %.2f %%, saving %.2f %% of ideal %.2f %%, "
           "computed low %.2f %%\n",
           name, (unsigned long long)lull_controller_look(c->controller).settled_after,
           c->slowdown * 100.0, c->saving * 100.0, c->ideal_saving * 100.0,
           100.0 * (double)c->managed.computed_low / (double)c->managed.computed);
}

static int set_up(void **state)
{
    struct comparison *c = calloc(1, sizeof(*c));

    if (c != NULL)
        job_sim_config_default(&c->config);
    *state = c;
    return c == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    struct comparison *c = *state;

    lull_controller_destroy(c->controller);
    free(c);
    return 0;
}

static void test_it_saves_nearly_all_at_no_time(void **state)
{
    struct comparison *c = *state;

    c->levers = SECTIONS;
    for (uint32_t gpus = 1; gpus <= 8; gpus *= 2) {
        char name[32];

        c->config.gpus = gpus;
        snprintf(name, sizeof(name), "%u GPUs", gpus);
        compare(c, LULL_DESCENT_BISECT, name);
        assert_true(lull_controller_look(c->controller).settled_after > 0);
        assert_true(lull_controller_look(c->controller).settled_after <= 300);
        assert_true(c->slowdown < 0.005);
        assert_true(c->saving > 0.7 * c->ideal_saving);
    }
}

/* A job may use any of the node's GPUs: those before them, without a rank, change nothing. */
static void test_the_first_gpu_may_have_no_rank(void **state)
{
    struct comparison *c = *state;
    struct job_sim_result first;

    c->levers = SECTIONS;
    c->config.gpus = 2;
    compare(c, LULL_DESCENT_BISECT, "on the first GPUs");
    first = c->managed;
    c->config.idle_gpus = 3;
    compare(c, LULL_DESCENT_BISECT, "on the last GPUs");
    assert_int_equal(c->managed.settled_iterations, first.settled_iterations);
    /* Pulses begin in other iterations on other GPUs. */
    assert_true(fabs(c->managed.settled_energy_j / first.settled_energy_j - 1.0) < 1e-3);
    assert_true(fabs(c->managed.total_ms / first.total_ms - 1.0) < 1e-3);
}

/* The rank that led has left: the others continue being checked. */
static void test_the_leading_rank_may_leave(void **state)
{
    struct comparison *c = *state;
    uint64_t iterations;

    c->levers = SECTIONS;
    c->config.gpus = 2;
    compare(c, LULL_DESCENT_BISECT, "both ranks");
    assert_int_equal(lull_controller_look(c->controller).lead, 0);
    iterations = lull_track_iteration(lull_controller_look_gpu(c->controller, 0).track);
    lull_controller_take_exit(c->controller, 0);
    assert_int_equal(lull_controller_look(c->controller).lead, 1);
    assert_true(lull_track_iteration(lull_controller_look_gpu(c->controller, 1).track) >=
                iterations - 1);
    assert_int_equal(lull_controller_look(c->controller).phase, LULL_PHASE_SETTLED);
}

/* Returns the number of computations that begin low before the descent begins. */
static uint64_t begun_low_at_first(struct comparison *c, const struct lull_switch_cost *known)
{
    lull_controller_destroy(c->controller);
    c->controller = create(&c->config, c->levers, LULL_DESCENT_BISECT);
    for (uint32_t i = 0; i < c->config.gpus; i++)
        lull_controller_set_switch_cost(c->controller, i, known);
    job_sim_run(&c->config, c->controller, &c->managed);
    return c->managed.computed_low;
}

static void test_a_job_is_spared_pulses_where_their_result_is_known(void **state)
{
    struct comparison *c = *state;
    struct lull_switch_cost known = {0};

    c->config.iterations = 12;
    assert_true(begun_low_at_first(c, &known) > 0);
    for (uint32_t i = 0; i < 80; i++)
        for (int k = 0; k < LULL_DIRECTION_COUNT; k++)
            lull_switch_cost_add(&known, (enum lull_direction)k, c->config.call_ms * c->config.gpus,
                                 c->config.settle_ms + c->config.settle_spread_ms * i / 80.0);
    assert_int_equal(begun_low_at_first(c, &known), 0);
}

static void test_all_strategies_end_at_the_knee(void **state)
{
    static const enum lull_descent_strategy strategies[] = {LULL_DESCENT_STEP, LULL_DESCENT_BISECT,
                                                            LULL_DESCENT_GALLOP};
    struct comparison *c = *state;

    c->levers = SECTIONS;
    c->config.points = 21;
    c->config.knee_point = 10;
    c->config.iterations = 900;
    for (uint32_t i = 0; i < 3; i++) {
        const struct lull_target *targets;

        compare(c, strategies[i], "knee");
        targets = lull_controller_look(c->controller).targets;
        assert_int_equal(lull_controller_look(c->controller).target_count, 1);
        assert_true(targets[0].settled);
        printf("  ended at point %u of knee %u\n", targets[0].descent.good, c->config.knee_point);
        assert_in_range(targets[0].descent.good, c->config.knee_point - 1,
                        c->config.knee_point + 1);
        assert_true(c->slowdown < 0.01);
    }
}

static void test_sections_too_short_are_left_alone(void **state)
{
    struct comparison *c = *state;

    c->levers = SECTIONS;
    c->config.exposed_ms = 8.0;
    c->config.compute_ms = 100.0;
    c->config.memory_share = 0.0;
    compare(c, LULL_DESCENT_BISECT, "short sections");
    assert_false(lull_controller_look(c->controller).has_sections);
    assert_true(c->slowdown < 0.003);
    assert_true(c->managed.total_ms / c->unmanaged.total_ms - 1.0 < 0.003);
}

static void test_a_memory_bound_job_gets_a_steady_point(void **state)
{
    struct comparison *c = *state;

    c->config.exposed_ms = 2.0;
    c->config.compute_ms = 100.0;
    c->config.memory_share = 1.0;
    c->config.iterations = 800;
    compare(c, LULL_DESCENT_BISECT, "memory bound");
    assert_false(lull_controller_look(c->controller).has_sections);
    assert_true(lull_controller_look(c->controller).targets[0].descent.good > 40);
    assert_true(c->slowdown < 0.003);
    assert_true(c->saving > 0.3);
}

static void test_rare_extra_calls_raise_at_once_and_results_are_kept(void **state)
{
    struct comparison *c = *state;

    c->levers = SECTIONS;
    c->config.odd_every = 150;
    c->config.iterations = 700;
    compare(c, LULL_DESCENT_BISECT, "extra calls");
    assert_int_equal(lull_controller_look(c->controller).target_count, 1);
    assert_true(c->slowdown < 0.005);
    assert_true(c->saving > 0.6 * c->ideal_saving);
}

static void test_a_job_that_changes_shape_is_learnt_again(void **state)
{
    struct comparison *c = *state;

    c->levers = SECTIONS;
    c->config.change_at = 300;
    c->config.iterations = 800;
    compare(c, LULL_DESCENT_BISECT, "change of shape");
    assert_int_equal(lull_controller_look(c->controller).phase, LULL_PHASE_SETTLED);
    assert_true(c->slowdown < 0.005);
}

/* A GPU limited by heat, reported ten times a second as a governor does. */
struct hot_gpu {
    struct lull_controller *controller;
    int64_t until_ns;
    int64_t begin_ns;
};

static void tell_heat(void *context, int64_t now_ns)
{
    struct hot_gpu *hot = context;

    if (hot->begin_ns == 0)
        hot->begin_ns = now_ns;
    if (now_ns - hot->begin_ns < hot->until_ns)
        lull_controller_take_disturbance(hot->controller, 0);
}

/* Returns the saving of energy if the first GPU is hot until until_ns. */
static double saving_in_heat(struct comparison *c, int64_t until_ns)
{
    struct hot_gpu hot = {.until_ns = until_ns};
    struct job_sim_nodes nodes = {.node_count = 1, .exchange = tell_heat, .context = &hot};

    lull_controller_destroy(c->controller);
    c->controller = create(&c->config, c->levers, LULL_DESCENT_BISECT);
    hot.controller = c->controller;
    nodes.controllers[0] = c->controller;
    job_sim_run(&c->config, NULL, &c->unmanaged);
    job_sim_run_nodes(&c->config, &nodes, &c->managed);
    return 1.0 - c->managed.settled_energy_j / c->unmanaged.settled_energy_j;
}

static void test_f17_nothing_is_kept_for_what_was_measured_in_heat(void **state)
{
    struct comparison *c = *state;
    double cool;
    double passing;
    double lasting;

    c->levers = SECTIONS;
    c->config.iterations = 1000;
    cool = saving_in_heat(c, 0);
    passing = saving_in_heat(c, 60 * LULL_NS_PER_S);
    lasting = saving_in_heat(c, INT64_MAX);
    printf("saving: cool %.2f %%, hot for a minute %.2f %%, always hot %.2f %%\n", cool * 100.0,
           passing * 100.0, lasting * 100.0);
    assert_true(cool > 0.0);
    assert_true(passing > 0.4 * cool); /* of all iterations since, at the reference or not */
    assert_true(lasting < 0.1 * cool);
    assert_int_equal(c->managed.last_ran_at, 0);
}

/*
 * A job that has been learnt, and then calls that fit nothing: ends without begins, begins that
 * never end, nested ones, those of other communicators. The GPU is never asked to stay low for
 * long, and goes up when the rank is gone.
 */
static void take_careless_calls(struct lull_controller *controller, struct lull_random *random,
                                int64_t *now_ns, uint32_t point[1])
{
    for (uint32_t i = 0; i < 4000; i++) {
        struct lull_command commands[8];
        const struct lull_call edge = {
            .time_ns = *now_ns,
            .bytes = 1 + lull_random_below(random, 3),
            .ranks = (uint32_t)lull_random_below(random, 5),
            .communicator = (uint32_t)lull_random_below(random, 3),
            .peer = -1,
            .place = (uint32_t)(lull_random_below(random, 8) == 0),
            .operation = (uint16_t)lull_random_below(random, 4),
            .begin = lull_random_below(random, 2) == 0,
            .is_cautious = lull_random_below(random, 4) == 0,
            .is_late = lull_random_below(random, 8) == 0,
        };
        uint32_t count;

        lull_controller_take_call(controller, 0, &edge);
        *now_ns += (int64_t)lull_random_below(random, 50 * LULL_NS_PER_MS);
        count = lull_controller_poll(controller, *now_ns, commands, 8);
        for (uint32_t k = 0; k < count; k++) {
            point[0] = commands[k].point;
            if (commands[k].point > 0)
                assert_true(commands[k].valid_until_ns - *now_ns <= 10 * LULL_NS_PER_S);
        }
    }
}

static void test_f32_calls_that_fit_nothing(void **state)
{
    struct comparison *c = *state;

    c->config.gpus = 1;
    c->config.iterations = 150;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct lull_command commands[8];
        struct lull_random random;
        uint32_t point = 0;
        int64_t now_ns;
        uint32_t count;

        lull_controller_destroy(c->controller);
        c->controller = create(&c->config, c->levers, LULL_DESCENT_BISECT);
        job_sim_run(&c->config, c->controller, &c->managed);
        now_ns = 10 * lull_ns_from_ms(c->managed.total_ms);
        lull_random_init(&random, seed);
        take_careless_calls(c->controller, &random, &now_ns, &point);
        lull_controller_take_exit(c->controller, 0);
        count = lull_controller_poll(c->controller, now_ns, commands, 8);
        if (count > 0)
            point = commands[count - 1].point;
        assert_int_equal(point, 0);
    }
}

/* Calls of half a second: whether sections are long enough for them or not, over a whole short run,
 * learning included. */
static void test_a_driver_that_hangs_costs_nothing(void **state)
{
    static const double exposed_ms[] = {20.0, 165.0, 500.0, 2500.0};
    struct comparison *c = *state;

    c->config.call_ms = 500.0;
    c->config.compute_ms = 60.0;
    c->config.iterations = 80;
    for (uint32_t gpus = 2; gpus <= 8; gpus *= 2)
        for (uint32_t i = 0; i < sizeof(exposed_ms) / sizeof(exposed_ms[0]); i++) {
            double whole;

            c->config.gpus = gpus;
            c->config.exposed_ms = exposed_ms[i];
            compare(c, LULL_DESCENT_BISECT, "calls of 500 ms");
            whole = c->managed.total_ms / c->unmanaged.total_ms - 1.0;
            printf("  %u GPUs, %.0f ms exposed: %.2f %% over the whole run\n", gpus, exposed_ms[i],
                   whole * 100.0);
            assert_true(whole < 0.005);
        }
}

static void test_a_driver_without_effect_costs_nothing(void **state)
{
    struct comparison *c = *state;

    c->config.stop_obeying = 1;
    c->config.iterations = 80;
    compare(c, LULL_DESCENT_BISECT, "no effect");
    assert_true(c->managed.total_ms / c->unmanaged.total_ms - 1.0 < 0.01);
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
    /* Nothing is requested until the section itself begins. */
    assert_true(lull_feed_forward_begin(&feed, 70000000, 5, &forecast));
    assert_int_equal(feed.requested, 5);
    assert_int_equal(feed.raise_at_ns, 140000000);
    assert_true(lull_feed_forward_poll(&feed, 140000000));
    assert_int_equal(feed.requested, 0);
}

static void test_no_clock_stays_low_for_long(void **state)
{
    struct comparison *c = *state;

    c->levers = SECTIONS;
    c->config.jitter = 0.05;
    compare(c, LULL_DESCENT_BISECT, "noisy");
    assert_true(c->managed.longest_low_ms < 2.0 * c->config.exposed_ms);
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

        lull_controller_config_default(&control);
        control.tail_tolerance_ratio = with_tail ? 0.05 : 0.0;
        control.only_sections = true;
        controller = lull_controller_create(&control, 1, &config.points);
        job_sim_run(&config, controller, &result);
        assert_true(lull_controller_look(controller).has_settled);
        assert_int_equal(lull_controller_look(controller).targets[0].descent.good > 0, !with_tail);
        lull_controller_destroy(controller);
    }
}

/* Waiting at the lowest clock and computation at a steady one: each lever alone saves less, once
 * the steady point is found. */
static void test_levers_add_up(void **state)
{
    struct comparison *c = *state;
    double savings[] = {[ALL] = 0.0, [SECTIONS] = 0.0, [STEADY] = 0.0};

    c->config.gpus = 2;
    c->config.memory_share = 0.9;
    c->config.iterations = 2000;
    for (enum levers levers = ALL; levers <= STEADY; levers++) {
        c->levers = levers;
        compare(c, LULL_DESCENT_BISECT, "levers");
        assert_true(lull_controller_look(c->controller).has_settled);
        assert_true(c->slowdown < 0.01);
        savings[levers] = c->saving;
    }
    assert_true(savings[ALL] > savings[SECTIONS] + 0.01);
    assert_true(savings[ALL] > savings[STEADY] + 0.01);
}

/* A job that ends soon after its sections are proven has all that they save. */
static void test_sections_rest_before_a_steady_point_is_sought(void **state)
{
    struct comparison *c = *state;
    double savings[] = {[ALL] = 0.0, [SECTIONS] = 0.0};

    c->config.gpus = 2;
    c->config.memory_share = 0.9;
    c->config.iterations = 160;
    for (enum levers levers = ALL; levers <= SECTIONS; levers++) {
        c->levers = levers;
        compare(c, LULL_DESCENT_BISECT, "rest");
        assert_true(lull_controller_look(c->controller).has_settled);
        /* A run that rests is not at its end: it says so. */
        assert_int_equal(lull_controller_look(c->controller).is_searching, levers == ALL);
        savings[levers] = c->saving;
    }
    assert_true(fabs(savings[ALL] - savings[SECTIONS]) < 0.005);
}

/* A rest would put off the steady point for next to nothing: with sections of a fiftieth of the
 * time both are proven by the time that the job first settles. */
static void test_short_sections_do_not_rest(void **state)
{
    struct comparison *c = *state;
    uint64_t settled_after;

    c->levers = ALL;
    c->config.gpus = 2;
    c->config.memory_share = 0.9;
    c->config.compute_ms = 2000.0;
    c->config.exposed_ms = 80.0;
    c->config.iterations = 1000;
    compare(c, LULL_DESCENT_BISECT, "short sections");
    settled_after = lull_controller_look(c->controller).settled_after;
    assert_in_range(settled_after, 1, c->config.iterations - 1);
    c->config.iterations = (uint32_t)settled_after + 10;
    compare(c, LULL_DESCENT_BISECT, "short sections, settled");
    assert_true(lull_controller_look(c->controller).has_sections);
    assert_true(lull_controller_look(c->controller).steady->proven.common > 0);
}

/* An inner loop that passed for the iteration must not make windows long. */
static void test_windows_are_of_the_present_iteration(void **state)
{
    const uint32_t points = 9;
    struct lull_controller_config config;
    struct lull_controller *controller;
    struct lull_call call = {.peer = -1, .ranks = 2, .operation = 1};
    int64_t now_ns = 1000000;

    (void)state;
    lull_controller_config_default(&config);
    config.observe_only = true;
    controller = lull_controller_create(&config, 1, &points);
    assert_non_null(controller);
    for (uint32_t i = 0; i < 1000; i++) {
        const bool is_inner = i < 300;

        call.bytes = is_inner || i % 3 != 0 ? 1 : 1u << 20;
        for (uint32_t edge = 0; edge < 2; edge++) {
            call.begin = edge == 0;
            call.time_ns = now_ns;
            lull_controller_take_call(controller, 0, &call);
            now_ns += call.begin ? 1000000 : is_inner ? 2000000 : 200000000;
        }
        if (i == 290)
            assert_int_equal(lull_controller_window(controller), 100);
    }
    assert_true(lull_controller_window(controller) <= config.window_iterations);
    lull_controller_destroy(controller);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_it_saves_nearly_all_at_no_time),
        TEST(test_the_first_gpu_may_have_no_rank),
        TEST(test_the_leading_rank_may_leave),
        TEST(test_a_job_is_spared_pulses_where_their_result_is_known),
        TEST(test_all_strategies_end_at_the_knee),
        TEST(test_f32_calls_that_fit_nothing),
        TEST(test_f17_nothing_is_kept_for_what_was_measured_in_heat),
        TEST(test_sections_too_short_are_left_alone),
        TEST(test_a_memory_bound_job_gets_a_steady_point),
        TEST(test_rare_extra_calls_raise_at_once_and_results_are_kept),
        TEST(test_a_driver_that_hangs_costs_nothing),
        TEST(test_a_driver_without_effect_costs_nothing),
        TEST(test_a_job_that_changes_shape_is_learnt_again),
        cmocka_unit_test(test_uncertain_sections_are_not_lowered_ahead),
        TEST(test_no_clock_stays_low_for_long),
        TEST(test_levers_add_up),
        TEST(test_sections_rest_before_a_steady_point_is_sought),
        TEST(test_short_sections_do_not_rest),
        cmocka_unit_test(test_the_tail_may_count_as_well),
        cmocka_unit_test(test_windows_are_of_the_present_iteration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
