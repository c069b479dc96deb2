/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "simulator/driver.h"

enum { GPUS = 2, CALL_MS = 6, SETTLE_MS = 12, STEPS_MAX = 100 };

static const int64_t ms_ns = 1000000;

struct node {
    struct lull_gpu_model model;
    struct lull_physics gpus[GPUS];
    struct lull_virtual_driver *driver;
    uint32_t points[GPUS];                     /* in effect */
    struct lull_switch_outcome reported[GPUS]; /* last */
    int64_t now_ns;
};

static void on_driven(void *context, uint32_t gpu, const struct lull_switch_outcome *outcome)
{
    ((struct node *)context)->points[gpu] = outcome->point;
    ((struct node *)context)->reported[gpu] = *outcome;
}

static void init(struct node *node, int64_t look_ns)
{
    struct lull_physics *gpus[GPUS];

    *node = (struct node){.model = *lull_gpu_model_find("A100-SXM4-40GB", 14)};
    lull_gpu_model_fix_latency(&node->model, CALL_MS, SETTLE_MS);
    for (uint32_t i = 0; i < GPUS; i++) {
        lull_physics_init(&node->gpus[i], &node->model, 0, 0);
        gpus[i] = &node->gpus[i];
    }
    node->driver = lull_virtual_driver_create(gpus, GPUS, look_ns, 1, on_driven, node);
    assert_non_null(node->driver);
}

static void ask(struct node *node, uint32_t gpu, uint32_t point, int64_t valid_until_ns)
{
    const struct lull_command command = {.gpu = gpu,
                                         .point = point,
                                         .deadline_ns = valid_until_ns,
                                         .valid_until_ns = valid_until_ns};

    lull_virtual_driver_ask(node->driver, &command, node->now_ns);
}

/* Until the driver has nothing left to do before until_ns. Every step goes forward in time. */
static void play(struct node *node, int64_t until_ns)
{
    for (uint32_t step = 0; step < STEPS_MAX; step++) {
        const int64_t next_ns = lull_virtual_driver_advance(node->driver, node->now_ns);

        assert_true(next_ns > node->now_ns);
        node->now_ns = next_ns < until_ns ? next_ns : until_ns;
        for (uint32_t i = 0; i < GPUS; i++)
            lull_physics_advance(&node->gpus[i], node->now_ns);
        if (node->now_ns == until_ns)
            return;
    }
    fail_msg("no end after %d steps", STEPS_MAX);
}

/* A lowering that is not renewed is undone, once, when its validity ends. */
static void test_undoes_what_is_not_renewed(void **state)
{
    struct node node;

    (void)state;
    init(&node, 0);
    ask(&node, 0, 5, 100 * ms_ns);
    play(&node, 90 * ms_ns);
    assert_int_equal(node.points[0], 5);
    play(&node, 200 * ms_ns);
    assert_int_equal(node.points[0], 0);
    assert_int_equal(lull_virtual_driver_calls(node.driver), 2);
    lull_virtual_driver_destroy(node.driver);
}

/* A lowering that ends while the driver is busy, with this GPU or another, waits for its turn. */
static void test_undoes_after_the_call_under_way(void **state)
{
    struct node node;

    (void)state;
    init(&node, 0);
    ask(&node, 0, 5, 100 * ms_ns);
    ask(&node, 1, 5, 102 * ms_ns);
    play(&node, 90 * ms_ns);
    assert_int_equal(node.points[0], 5);
    assert_int_equal(node.points[1], 5);
    play(&node, 200 * ms_ns);
    assert_int_equal(node.points[0], 0);
    assert_int_equal(node.points[1], 0);
    assert_int_equal(lull_virtual_driver_calls(node.driver), 4);
    lull_virtual_driver_destroy(node.driver);
}

/* Renewed in time, it stays without a call. */
static void test_renews_without_a_call(void **state)
{
    struct node node;

    (void)state;
    init(&node, 0);
    ask(&node, 0, 5, 100 * ms_ns);
    play(&node, 90 * ms_ns);
    ask(&node, 0, 5, 300 * ms_ns);
    play(&node, 290 * ms_ns);
    assert_int_equal(node.points[0], 5);
    assert_int_equal(lull_virtual_driver_calls(node.driver), 1);
    lull_virtual_driver_destroy(node.driver);
}

/* Calls return after 6 ms and clocks follow 12 ms later. Readings come every 2 ms, the third
 * change's first one after 1 ms. */
static void test_reads_clocks_back(void **state)
{
    struct node node;

    (void)state;
    init(&node, 2 * ms_ns);
    ask(&node, 0, 5, 1000 * ms_ns);
    play(&node, 100 * ms_ns);
    assert_float_equal(node.reported[0].settle_ms, 11.0, 1e-9);
    assert_float_equal(node.reported[0].unsure_ms, 1.0, 1e-9);
    assert_int_equal(node.reported[0].effect_ns, 17 * ms_ns);
    ask(&node, 0, 0, 1000 * ms_ns);
    play(&node, 200 * ms_ns);
    assert_float_equal(node.reported[0].settle_ms, 11.0, 1e-9);
    ask(&node, 0, 5, 1000 * ms_ns);
    play(&node, 300 * ms_ns);
    assert_float_equal(node.reported[0].settle_ms, 12.0, 1e-9);
    assert_int_equal(node.reported[0].effect_ns, 218 * ms_ns);
    assert_false(node.reported[0].overtaken);
    lull_virtual_driver_destroy(node.driver);
}

/* While a call for the other GPU is in progress the clock is not read, from 10 to 20 ms here. */
static void test_does_not_look_during_a_call(void **state)
{
    struct node node;

    (void)state;
    init(&node, 4 * ms_ns);
    ask(&node, 0, 5, 1000 * ms_ns);
    play(&node, 14 * ms_ns);
    ask(&node, 1, 5, 1000 * ms_ns);
    play(&node, 100 * ms_ns);
    assert_float_equal(node.reported[0].settle_ms, 9.0, 1e-9);
    assert_float_equal(node.reported[0].unsure_ms, 5.0, 1e-9);
    lull_virtual_driver_destroy(node.driver);
}

/* The next call ends the reading back, whose last reading was after 8 ms; or there was none. */
static void test_tells_what_was_overtaken(void **state)
{
    struct node node;

    (void)state;
    init(&node, 4 * ms_ns);
    ask(&node, 0, 5, 1000 * ms_ns);
    play(&node, 15 * ms_ns);
    ask(&node, 0, 0, 1000 * ms_ns);
    play(&node, 22 * ms_ns);
    assert_true(node.reported[0].overtaken);
    assert_int_equal(node.reported[0].point, 5);
    assert_float_equal(node.reported[0].settle_ms, 8.0, 1e-9);
    assert_int_equal(node.reported[0].effect_ns, 14 * ms_ns);
    ask(&node, 0, 5, 1000 * ms_ns);
    play(&node, 29 * ms_ns);
    assert_false(node.reported[0].overtaken);
    assert_true(isnan(node.reported[0].settle_ms));
    assert_int_equal(node.reported[0].effect_ns, 21 * ms_ns);
    lull_virtual_driver_destroy(node.driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_undoes_what_is_not_renewed),
        cmocka_unit_test(test_undoes_after_the_call_under_way),
        cmocka_unit_test(test_renews_without_a_call),
        cmocka_unit_test(test_reads_clocks_back),
        cmocka_unit_test(test_does_not_look_during_a_call),
        cmocka_unit_test(test_tells_what_was_overtaken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
