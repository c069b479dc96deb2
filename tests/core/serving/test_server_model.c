/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../property.h"

#include "core/serving/server_model.h"

/* A server whose steps take 2 ms of the host, 6 ms of memory and 1 ms of computation, and whose
 * prompts are computed. */
static const double prompt_s = 40e-6;

static struct lull_server_window window_at(const struct lull_server_clock *clock,
                                           struct lull_random *random)
{
    struct lull_server_window window = {
        .steps = 30.0 + 20.0 * lull_random_uniform(random),
        .prompt_tokens = 5000.0 * lull_random_uniform(random),
    };
    const double decode_s = window.steps * (0.006 * clock->memory + 0.001 * clock->compute);
    const double prefill_s = window.prompt_tokens * prompt_s * clock->compute;

    window.output_tokens = window.steps * (1.0 + 7.0 * lull_random_uniform(random));
    window.seconds = window.steps * 0.002 + decode_s + prefill_s;
    window.joules = 100.0 * window.seconds + clock->dynamic * (60.0 * decode_s + 200.0 * prefill_s);
    return window;
}

static const struct lull_device_curve *curve_h100(void)
{
    return lull_device_curve_find("H100-SXM5", strlen("H100-SXM5"));
}

static const struct lull_server_demand demand = {
    .running = 4.0, .output_rate = 300.0, .prompt_rate = 4000.0, .prompt_tokens = 1000.0};

/* The true mean time of a step at a clock, prefill included. */
static double true_step_s(const struct lull_server_clock *clock)
{
    const double decode_s = 0.002 + 0.006 * clock->memory + 0.001 * clock->compute;

    return decode_s / (1.0 - demand.prompt_rate * prompt_s * clock->compute);
}

/* At the highest clock alone, lower clocks are predicted to be slower than they are, never faster.
 * Windows at two lower clocks make a third one known. */
static void test_caution_then_knowledge(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const double clocks_mhz[] = {1980.0, 1500.0, 1005.0};
        struct lull_server_model model;
        struct lull_random random;
        const struct lull_server_clock low = lull_server_clock_at(curve_h100(), 1980.0, 1200.0);

        lull_random_init(&random, seed);
        lull_server_model_init(&model, curve_h100(), 1980.0, 345.0);
        for (int i = 0; i < 120; i++) {
            const struct lull_server_clock clock =
                lull_server_clock_at(curve_h100(), 1980.0, clocks_mhz[i / 40]);
            const struct lull_server_window window = window_at(&clock, &random);

            lull_server_model_add(&model, &clock, &window);
            if (i == 39)
                holds(lull_server_model_predict(&model, &low, &demand).step_s > true_step_s(&low),
                      seed);
        }
        holds(fabs(lull_server_model_predict(&model, &low, &demand).step_s / true_step_s(&low) -
                   1.0) < 0.05,
              seed);
    }
}

/* Predicted power at a clock between two measured ones. */
static void test_power(void **state)
{
    struct lull_server_model model;
    struct lull_random random;
    struct lull_server_outlook highest;
    struct lull_server_outlook low;

    (void)state;
    lull_random_init(&random, 1);
    lull_server_model_init(&model, curve_h100(), 1980.0, 345.0);
    for (int i = 0; i < 120; i++) {
        const struct lull_server_clock clock =
            lull_server_clock_at(curve_h100(), 1980.0, i % 2 == 0 ? 1980.0 : 1005.0);
        const struct lull_server_window window = window_at(&clock, &random);

        lull_server_model_add(&model, &clock, &window);
    }

    const struct lull_server_clock at[] = {lull_server_clock_at(curve_h100(), 1980.0, 1980.0),
                                           lull_server_clock_at(curve_h100(), 1980.0, 1200.0)};

    highest = lull_server_model_predict(&model, &at[0], &demand);
    low = lull_server_model_predict(&model, &at[1], &demand);
    assert_near(highest.watts, 100.0 + 2.5 * (0.84 * 0.78 * 60.0 + 0.16 * 200.0), 30.0);
    assert_true(low.watts < 0.75 * highest.watts);
}

/* More work than fits: the busy share says so. */
static void test_overload(void **state)
{
    const struct lull_server_demand much = {
        .running = 10.0, .output_rate = 300.0, .prompt_rate = 30000.0, .prompt_tokens = 1000.0};
    struct lull_server_model model;
    struct lull_random random;
    const struct lull_server_clock clock = lull_server_clock_at(curve_h100(), 1980.0, 1980.0);

    (void)state;
    lull_random_init(&random, 1);
    lull_server_model_init(&model, curve_h100(), 1980.0, 345.0);
    for (int i = 0; i < 40; i++) {
        const struct lull_server_window window = window_at(&clock, &random);

        lull_server_model_add(&model, &clock, &window);
    }
    assert_true(lull_server_model_predict(&model, &clock, &much).busy_ratio > 1.0);
    assert_true(lull_server_model_predict(&model, &clock, &demand).busy_ratio < 0.3);
    assert_true(isfinite(lull_server_model_predict(&model, &clock, &much).step_s));
}

/* A prefill pool: the time of full steps belongs to their tokens. */
static void test_a_prefill_pool(void **state)
{
    const struct lull_server_demand prompts = {
        .output_rate = 10.0, .prompt_rate = 10000.0, .prompt_tokens = 1000.0, .is_prefill = true};
    const struct lull_server_clock highest = lull_server_clock_at(curve_h100(), 1980.0, 1980.0);
    struct lull_server_model model;
    struct lull_server_outlook at;
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 1);
    lull_server_model_init(&model, curve_h100(), 1980.0, 345.0);
    for (int i = 0; i < 60; i++) {
        const double tokens = 5000.0 + 5000.0 * lull_random_uniform(&random);
        const struct lull_server_window window = {.seconds = tokens * prompt_s,
                                                  .steps = ceil(tokens / 512.0),
                                                  .output_tokens = rint(tokens / 1000.0),
                                                  .first_tokens = rint(tokens / 1000.0),
                                                  .prompt_tokens = tokens,
                                                  .joules = 600.0 * tokens * prompt_s};

        assert_true(lull_server_window_is_prefill(&window));
        lull_server_model_add(&model, &highest, &window);
    }
    at = lull_server_model_predict(&model, &highest, &prompts);
    assert_near(at.first_token_s, 1000.0 * prompt_s, 0.1 * 1000.0 * prompt_s);
    assert_near(at.busy_ratio, 10000.0 * prompt_s, 0.05);
    assert_near(at.prefill_s, at.first_token_s / 1000.0, 1e-12);
    assert_near(at.watts, 0.4 * 600.0 + 0.6 * highest.waiting_w, 30.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_caution_then_knowledge),
        cmocka_unit_test(test_power),
        cmocka_unit_test(test_overload),
        cmocka_unit_test(test_a_prefill_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
