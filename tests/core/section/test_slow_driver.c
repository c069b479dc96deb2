/*
 * A driver whose calls sometimes block for half a second: its cost to the job, and how often it is
 * called. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "job_sim.h"

/* Two ranks, a quarter of each iteration computation, sections shorter than a slow call. */
static struct job_sim_config job(uint32_t iterations)
{
    struct job_sim_config config;

    job_sim_config_default(&config);
    config.gpus = 2;
    config.compute_ms = 60.0;
    config.exposed_ms = 165.0;
    config.iterations = iterations;
    config.slow_call_ms = 500.0;
    config.slow_every = 1;
    return config;
}

struct outcome {
    struct job_sim_result managed;
    double lost_ms;
    double slowdown_ratio;
    bool is_withheld; /* at the end */
    bool has_settled;
};

static struct outcome run(const struct job_sim_config *config, const char *name)
{
    struct lull_controller_config control;
    struct lull_controller *controller;
    struct job_sim_result unmanaged;
    struct outcome outcome;

    lull_controller_config_default(&control);
    controller = job_sim_create_controller(config, &control);
    assert_non_null(controller);
    job_sim_run(config, NULL, &unmanaged);
    job_sim_run(config, controller, &outcome.managed);
    outcome.lost_ms = outcome.managed.total_ms - unmanaged.total_ms;
    outcome.slowdown_ratio = outcome.lost_ms / unmanaged.total_ms;
    outcome.is_withheld = lull_controller_look(controller).is_suspended;
    outcome.has_settled = lull_controller_look(controller).has_settled;
    lull_controller_destroy(controller);
    printf("%s: %.0f s, %+.2f %%, %llu of %llu calls slow, longest low %.0f ms\n", name,
           unmanaged.total_ms * 1e-3, outcome.slowdown_ratio * 100.0,
           (unsigned long long)outcome.managed.slow_calls,
           (unsigned long long)outcome.managed.calls, outcome.managed.longest_low_ms);
    return outcome;
}

static uint32_t ran_low(const struct job_sim_result *result)
{
    uint32_t sum = 0;

    for (uint32_t i = 2; i < JOB_SIM_MAX_POINTS; i++)
        sum += result->ran_at[i];
    return sum;
}

static void test_from_the_beginning(void **state)
{
    (void)state;
    for (uint32_t gpus = 1; gpus <= 8; gpus *= 2) {
        struct job_sim_config config = job(80);
        struct outcome outcome;

        config.gpus = gpus;
        outcome = run(&config, "from the beginning");
        assert_true(outcome.slowdown_ratio < 0.002);
        assert_true(outcome.is_withheld);
        /* One lowering shows it, and has to be undone. */
        assert_int_equal(outcome.managed.calls, 2);
    }
}

static void test_retries_are_ever_rarer(void **state)
{
    struct job_sim_config config = job(2000); /* 450 s: after 20, 40, 80, 160 s more */
    struct outcome outcome;

    (void)state;
    outcome = run(&config, "for long");
    assert_true(outcome.slowdown_ratio < 0.001);
    assert_in_range(outcome.managed.calls, 2 * 4, 2 * 6);
}

static void test_from_some_moment_on(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) { /* in any part of an iteration: before a raising, too */
        struct job_sim_config config = job(800);
        struct outcome outcome;

        config.slow_from_ms = 41000.0 + 60.0 * i;
        outcome = run(&config, "from some moment on");
        /* Both were low, and the second waits for the first. */
        assert_true(outcome.lost_ms < 500.0 + 2 * 500.0);
        assert_true(outcome.slowdown_ratio < 0.01);
        assert_true(outcome.is_withheld);
        /* Down and up of both, and a retry after 100 s. */
        assert_in_range(outcome.managed.slow_calls, 2, 2 * 2 + 2);
    }
}

static void test_one_call_in_twenty(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct job_sim_config config = job(800);

        config.slow_every = 17 + (uint32_t)seed;
        config.seed = seed;
        assert_true(run(&config, "one call in twenty").slowdown_ratio < 0.01);
    }
}

static void test_one_gpu_of_two(void **state)
{
    (void)state;
    for (int32_t gpu = 0; gpu < 2; gpu++) {
        struct job_sim_config config = job(400);
        struct outcome outcome;

        config.slow_gpu = gpu;
        outcome = run(&config, "one GPU of two");
        assert_true(outcome.slowdown_ratio < 0.005);
        assert_in_range(outcome.managed.slow_calls, 2, 2 * 3);
    }
}

static void test_an_exception_is_forgiven(void **state)
{
    struct job_sim_config config = job(1200);
    struct outcome outcome;

    (void)state;
    config.slow_from_ms = 45000.0;
    config.slow_most = 1;
    outcome = run(&config, "once");
    assert_int_equal(outcome.managed.slow_calls, 1);
    assert_true(outcome.slowdown_ratio < 0.005);
    assert_false(outcome.is_withheld);
    assert_true(outcome.has_settled);
    assert_true(ran_low(&outcome.managed) > 1200 / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_the_beginning),  cmocka_unit_test(test_retries_are_ever_rarer),
        cmocka_unit_test(test_from_some_moment_on), cmocka_unit_test(test_one_call_in_twenty),
        cmocka_unit_test(test_one_gpu_of_two),      cmocka_unit_test(test_an_exception_is_forgiven),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
