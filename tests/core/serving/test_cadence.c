/*
 * Readings from the cadence of steps, the steps of tensor parallelism, and the controller on such
 * readings. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "../property.h"
#include "base/clock.h"
#include "core/serving/cadence.h"
#include "core/serving/controller.h"
#include "core/serving/step_finder.h"
#include "core/serving/step_load.h"

#define MS(MILLISECONDS) ((int64_t)(MILLISECONDS)*LULL_NS_PER_MS)
#define BEGIN_NS MS(1000)

static const double bound_s = 0.05;

static double count_all(const struct lull_serving_reading *reading)
{
    return reading->itl.total[reading->itl.count - 1];
}

static double count_within(const struct lull_serving_reading *reading, double time_s)
{
    return reading->itl.total[lull_serving_bucket_within(&reading->itl, time_s)];
}

static void test_steps_become_a_reading(void **state)
{
    struct lull_cadence cadence;
    struct lull_serving_reading reading;
    int bound;

    (void)state;
    lull_cadence_init(&cadence, bound_s);
    assert_false(lull_cadence_read(&cadence, BEGIN_NS, &reading)); /* no step yet */
    for (int i = 0; i <= 20; i++)
        lull_cadence_take_step(&cadence, 3, BEGIN_NS + MS(10 * i));
    lull_cadence_take_step(&cadence, 3, BEGIN_NS + MS(260)); /* one of 60 ms */
    assert_true(lull_cadence_read(&cadence, BEGIN_NS + MS(265), &reading));
    assert_int_equal(reading.time_ns, BEGIN_NS + MS(260)); /* it cuts no step */
    assert_true(reading.is_of_steps);
    assert_false(reading.is_overdue);
    assert_float_equal(reading.running, 1.0, 0.0);
    assert_float_equal(reading.steps, 21.0, 1e-9);
    assert_float_equal(count_all(&reading), 21.0, 0.0);
    assert_float_equal(count_within(&reading, bound_s), 20.0, 0.0);
    assert_float_equal(reading.itl.sum_s, 0.26, 1e-9);
    /* The bound of the objective is one of the buckets. */
    bound = lull_serving_bucket_within(&reading.itl, bound_s);
    assert_float_equal(reading.itl.bound_s[bound], bound_s, 1e-9);
    /* The next one is not due yet. */
    lull_cadence_take_step(&cadence, 3, BEGIN_NS + MS(270));
    assert_false(lull_cadence_read(&cadence, BEGIN_NS + MS(275), &reading));
    lull_cadence_take_step(&cadence, 3, BEGIN_NS + MS(355));
    assert_true(lull_cadence_read(&cadence, BEGIN_NS + MS(365), &reading));
}

static void test_idle_time_is_no_step(void **state)
{
    struct lull_cadence cadence;
    struct lull_serving_reading reading;

    (void)state;
    lull_cadence_init(&cadence, bound_s);
    lull_cadence_take_step(&cadence, 0, BEGIN_NS);
    lull_cadence_take_step(&cadence, 0, BEGIN_NS + MS(10));
    assert_true(lull_cadence_read(&cadence, BEGIN_NS + MS(12), &reading));
    lull_cadence_take_idle(&cadence, 0);
    assert_true(lull_cadence_read(&cadence, BEGIN_NS + MS(20), &reading)); /* at once */
    assert_float_equal(reading.running, 0.0, 0.0);
    lull_cadence_take_work(&cadence, 0, BEGIN_NS + MS(500));
    assert_true(lull_cadence_read(&cadence, BEGIN_NS + MS(502), &reading)); /* at once */
    assert_float_equal(reading.running, 1.0, 0.0);
    lull_cadence_take_step(&cadence, 0, BEGIN_NS + MS(530));
    assert_true(lull_cadence_read(&cadence, BEGIN_NS + MS(700), &reading));
    assert_float_equal(reading.steps, 2.0, 1e-9);
    assert_float_equal(reading.itl.sum_s, 0.04, 1e-9);
}

static void test_an_overdue_step_is_read_at_once(void **state)
{
    struct lull_cadence cadence;
    struct lull_serving_reading reading;

    (void)state;
    lull_cadence_init(&cadence, bound_s);
    lull_cadence_take_step(&cadence, 0, BEGIN_NS);
    lull_cadence_take_step(&cadence, 0, BEGIN_NS + MS(10));
    assert_true(lull_cadence_read(&cadence, BEGIN_NS + MS(12), &reading));
    assert_false(lull_cadence_read(&cadence, BEGIN_NS + MS(58), &reading));
    assert_true(lull_cadence_read(&cadence, BEGIN_NS + MS(62), &reading));
    assert_true(reading.is_overdue);
    assert_float_equal(reading.running, 1.0, 0.0);
    assert_true(lull_cadence_is_overdue(&cadence, 0, BEGIN_NS + MS(62)));
    assert_false(lull_cadence_is_overdue(&cadence, 1, BEGIN_NS + MS(62)));
}

/* All steps of all engines are judged, and the model gets those of one. */
static void test_several_engines(void **state)
{
    struct lull_cadence cadence;
    struct lull_serving_reading reading;

    (void)state;
    lull_cadence_init(&cadence, bound_s);
    for (int i = 0; i <= 10; i++) {
        lull_cadence_take_step(&cadence, 7, BEGIN_NS + MS(10 * i));
        lull_cadence_take_step(&cadence, 9, BEGIN_NS + MS(10 * i + 3));
    }
    assert_true(lull_cadence_read(&cadence, BEGIN_NS + MS(110), &reading));
    assert_float_equal(reading.running, 2.0, 0.0);
    assert_float_equal(count_all(&reading), 20.0, 0.0);
    assert_float_equal(reading.steps, 10.0, 1e-9);
}

/* A step of `layers` layers on communicator 0. Returns its edges: how often it began and ended. */
static int run_layers(struct lull_step_finder *finder, int layers, int sums, int gathers)
{
    int edges = 0;

    for (int i = 0; i < layers * sums; i++)
        edges += lull_step_finder_take_sum(finder, 0) == LULL_STEP_BEGINS;
    for (int i = 0; i < gathers; i++)
        edges += 10 * (lull_step_finder_take_gather(finder, 0) == LULL_STEP_ENDS);
    return edges;
}

static void test_steps_of_tensor_parallelism(void **state)
{
    struct lull_step_finder finder = {0};
    struct lull_step_finder second = {0};
    struct lull_step_finder sequence = {0};

    (void)state;
    lull_step_finder_announce(&finder, 0, 4, 0);
    lull_step_finder_announce(&second, 0, 4, 1);
    lull_step_finder_announce(&sequence, 0, 4, 0);
    assert_int_equal(run_layers(&finder, 32, 2, 1), 0);
    assert_int_equal(run_layers(&finder, 32, 2, 1), 0);
    assert_int_equal(run_layers(&finder, 32, 2, 1), 10); /* the third one proves it */
    assert_true(lull_step_finder_is_sure(&finder));
    assert_int_equal(run_layers(&finder, 32, 2, 1), 11);
    assert_int_equal(run_layers(&finder, 32, 0, 1), 10); /* summed by kernels of the engine */
    for (int i = 0; i < 5; i++) {
        assert_int_equal(run_layers(&second, 32, 2, 1), 0);  /* another rank of the same group */
        assert_int_equal(run_layers(&sequence, 1, 2, 1), 0); /* a gather in each layer */
    }
    assert_int_equal(run_layers(&finder, 1, 2, 1), 1); /* they show no steps any more */
    assert_false(lull_step_finder_is_sure(&finder));
}

/* ---- prompts in steps ------------------------------------------------------------------------ */

/* Adds a second of steps of 8 ms for memory, and of 16 ms for prompts in a share of the time, at a
 * clock at which computation takes `compute` times as long. */
static void run_second(struct lull_step_load *load, double prompt_share, double compute,
                       int64_t *now_ns)
{
    const struct lull_server_clock clock = {.compute = compute, .memory = 1.0};
    struct lull_cadence cadence;
    struct lull_serving_reading before = {.time_ns = *now_ns};
    struct lull_serving_reading reading;
    double spent_s = 0.0;
    double prompts_s = 0.0;

    lull_cadence_init(&cadence, bound_s);
    lull_cadence_take_work(&cadence, 0, *now_ns);
    while (spent_s < 1.0) {
        const bool has_prompt = prompts_s < prompt_share * spent_s;
        const double step_s = has_prompt ? 0.016 * compute : 0.008;

        spent_s += step_s;
        prompts_s += has_prompt ? step_s : 0.0;
        lull_cadence_take_step(&cadence, 0, *now_ns + (int64_t)(spent_s * 1e9));
    }
    *now_ns += LULL_NS_PER_S;
    assert_true(lull_cadence_read(&cadence, *now_ns, &reading));
    reading.time_ns = *now_ns;
    lull_step_load_take(load, &before, &reading, &clock);
}

static void test_steps_full_of_prompts(void **state)
{
    struct lull_step_load load = {0};
    int64_t now_ns = BEGIN_NS;

    (void)state;
    for (int i = 0; i < 60; i++)
        run_second(&load, 0.4, 1.0, &now_ns);
    assert_float_equal(load.prompt_ratio, 0.4, 0.1);
    assert_false(lull_step_load_is_full(&load));
    /* The same prompts take twice the time at half of the clock. */
    for (int i = 0; i < 60; i++)
        run_second(&load, 0.8, 2.0, &now_ns);
    assert_float_equal(load.prompt_ratio, 0.4, 0.1);
    assert_false(lull_step_load_is_full(&load));
    for (int i = 0; i < 5; i++)
        run_second(&load, 1.1, 2.0, &now_ns);
    assert_true(lull_step_load_is_full(&load));
    /* Without prompts at the highest clock it is not full any more. */
    for (int i = 0; i < 5; i++)
        run_second(&load, 0.0, 1.0, &now_ns);
    assert_false(lull_step_load_is_full(&load));
}

static void test_equal_steps_show_no_prompts(void **state)
{
    struct lull_step_load load = {0};
    int64_t now_ns = BEGIN_NS;

    (void)state;
    for (int i = 0; i < 60; i++)
        run_second(&load, 0.0, 1.5, &now_ns);
    assert_float_equal(load.prompt_ratio, 0.0, 0.0);
    assert_false(lull_step_load_is_full(&load));
}

/* ---- the controller ---------------------------------------------------------------------- */

/* A server whose steps take 8 ms for memory and the host, and 6 ms at the highest clock for the
 * rest. Polls every 10 ms. Returns the clock at the end. */
static double serve(struct lull_serving_controller *controller, struct lull_cadence *cadence,
                    int64_t *now_ns, double seconds, double *joules)
{
    const double highest_mhz = 1980.0;
    const int64_t end_ns = *now_ns + (int64_t)(seconds * 1e9);
    int64_t step_ns = *now_ns;
    double mhz = lull_serving_controller_poll(controller, *now_ns);

    for (; *now_ns < end_ns; *now_ns += MS(10)) {
        struct lull_serving_reading reading;
        const double ratio = mhz / highest_mhz;

        for (; step_ns <= *now_ns; step_ns += (int64_t)(1e9 * (0.008 + 0.006 / ratio)))
            lull_cadence_take_step(cadence, 0, step_ns);
        *joules += 0.01 * (200.0 + 400.0 * ratio * ratio * ratio);
        if (lull_cadence_read(cadence, *now_ns, &reading)) {
            lull_serving_controller_take(controller, &reading);
            lull_serving_controller_take_energy(controller, *now_ns, *joules);
        }
        mhz = lull_serving_controller_poll(controller, *now_ns);
        lull_serving_controller_take_clock(controller, *now_ns, mhz);
    }
    return mhz;
}

static struct lull_serving_controller *make_controller(double tpot_s)
{
    const char *const name = "H100-SXM5";
    struct lull_serving_config config = {
        .objective = {INFINITY, tpot_s, 0.99},
        .curve = lull_device_curve_find(name, strlen(name)),
        .clock_count = 40,
        .gpu_count = 1,
        .period_ns = MS(100),
        .latency_ns = MS(20),
        .park_after_ns = MS(500),
        .wake_s = INFINITY,
    };

    for (uint32_t i = 0; i < config.clock_count; i++)
        config.clocks_mhz[i] = 1980.0 - 40.0 * i;
    return lull_serving_controller_create(&config);
}

static void test_the_clock_follows_steps(void **state)
{
    struct lull_serving_controller *const controller = make_controller(bound_s);
    struct lull_cadence cadence;
    struct lull_serving_reading reading;
    struct lull_serving_state now;
    int64_t now_ns = BEGIN_NS;
    double joules = 0.0;

    (void)state;
    assert_non_null(controller);
    lull_cadence_init(&cadence, bound_s);
    assert_true(serve(controller, &cadence, &now_ns, 1.0, &joules) == 1980.0);
    assert_true(serve(controller, &cadence, &now_ns, 240.0, &joules) < 1400.0);
    lull_serving_controller_state(controller, &now);
    assert_int_equal(now.mode, LULL_SERVING_PROVEN);
    assert_float_equal(now.missed_ratio, 0.0, 0.0);
    assert_true(now.missed_bound_ratio < 0.005);
    assert_true(isnan(now.predicted_ttft_s));
    assert_true(now.saved_ratio > 0.1);
    /* No step ends within the bound. */
    now_ns += MS(60);
    assert_true(lull_cadence_read(&cadence, now_ns, &reading));
    lull_serving_controller_take(controller, &reading);
    assert_true(lull_serving_controller_poll(controller, now_ns) == 1980.0);
    /* The engine is idle, and parked after half a second. */
    lull_cadence_take_idle(&cadence, 0);
    for (int i = 0; i < 80; i++, now_ns += MS(10))
        if (lull_cadence_read(&cadence, now_ns, &reading))
            lull_serving_controller_take(controller, &reading);
    assert_true(lull_serving_controller_poll(controller, now_ns) < 1400.0);
    lull_serving_controller_state(controller, &now);
    assert_int_equal(now.mode, LULL_SERVING_IDLE);
    lull_serving_controller_destroy(controller);
}

/* Steps take 14 ms at the highest clock: a bound of 16 ms leaves no room. */
static void test_a_tight_bound_keeps_the_highest_clock(void **state)
{
    struct lull_serving_controller *const controller = make_controller(0.016);
    struct lull_cadence cadence;
    int64_t now_ns = BEGIN_NS;
    double joules = 0.0;

    (void)state;
    assert_non_null(controller);
    lull_cadence_init(&cadence, 0.016);
    for (int i = 0; i < 30; i++)
        assert_true(serve(controller, &cadence, &now_ns, 1.0, &joules) == 1980.0);
    lull_serving_controller_destroy(controller);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_become_a_reading),
        cmocka_unit_test(test_idle_time_is_no_step),
        cmocka_unit_test(test_an_overdue_step_is_read_at_once),
        cmocka_unit_test(test_several_engines),
        cmocka_unit_test(test_steps_of_tensor_parallelism),
        cmocka_unit_test(test_steps_full_of_prompts),
        cmocka_unit_test(test_equal_steps_show_no_prompts),
        cmocka_unit_test(test_the_clock_follows_steps),
        cmocka_unit_test(test_a_tight_bound_keeps_the_highest_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
