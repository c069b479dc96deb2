/* The queue of a node's driver. SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/driver_queue.h"
#include "../property.h"

static const int64_t ms_ns = 1000000;

static void make_queue(struct lull_driver_queue *queue, const struct lull_switch_cost *prior,
                       bool never_suspends)
{
    const struct lull_driver_queue_config config = {
        .gpu_count = 4,
        .planned_quantile = 0.75,
        .prior_quantile = 0.5,
        .prior = prior,
        .min_gain_ns = 2 * ms_ns,
        .never_suspends = never_suspends,
    };

    lull_driver_queue_init(queue, &config);
}

static void test_calls_are_planned_by_those_seen(void **state)
{
    struct lull_switch_cost prior = {0};
    struct lull_driver_queue queue;

    (void)state;
    make_queue(&queue, &prior, false);
    assert_true(lull_driver_queue_call_ns(&queue) == 5 * ms_ns); /* the published prior */
    lull_switch_cost_add(&prior, LULL_DIRECTION_UP, 2.0, 1.0);
    lull_switch_cost_add(&prior, LULL_DIRECTION_UP, 4.0, 1.0);
    lull_switch_cost_add(&prior, LULL_DIRECTION_DOWN, 40.0, 1.0);
    assert_true(lull_driver_queue_call_ns(&queue) == 3 * ms_ns);
    for (int i = 1; i <= 5; i++)
        lull_driver_queue_learn_call(&queue, 10.0 * i);
    assert_true(lull_driver_queue_call_ns(&queue) == 40 * ms_ns);
}

static void test_calls_are_served_one_after_the_other(void **state)
{
    const struct lull_switch_cost prior = {0};
    struct lull_driver_queue queue;

    (void)state;
    make_queue(&queue, &prior, false);
    assert_true(lull_driver_queue_may_lower(&queue, 0));
    lull_driver_queue_keep_busy(&queue, 100 * ms_ns);
    lull_driver_queue_keep_busy(&queue, 101 * ms_ns);
    assert_false(lull_driver_queue_may_lower(&queue, 110 * ms_ns - 1));
    assert_true(lull_driver_queue_may_lower(&queue, 110 * ms_ns));
    lull_driver_queue_keep_busy(&queue, 200 * ms_ns);
    assert_true(queue.free_ns == 205 * ms_ns);
}

static void test_the_lowering_that_wins_most_is_chosen(void **state)
{
    const struct lull_switch_cost prior = {0};
    struct lull_lowering due[] = {
        {.gpu = 0, .raise_by_ns = 30 * ms_ns},
        {.gpu = 2, .raise_by_ns = 60 * ms_ns, .cost_ns = 10 * ms_ns},
        {.gpu = 3, .raise_by_ns = 60 * ms_ns, .cost_ns = 29 * ms_ns},
    };
    struct lull_driver_queue queue;
    struct lull_driver_plan plan;

    (void)state;
    make_queue(&queue, &prior, false);
    lull_driver_queue_init_plan(&queue, &plan);
    assert_true(plan.count == 4 && plan.call_ns == 5 * ms_ns);
    for (uint32_t i = 0; i < plan.count; i++)
        plan.raise_by_ns[i] = INT64_MAX;
    assert_ptr_equal(lull_driver_queue_choose(&queue, &plan, 0, due, 3), &due[1]);
    assert_true(due[0].gain_ns == 30 * ms_ns && due[1].gain_ns == 50 * ms_ns &&
                due[2].gain_ns == 31 * ms_ns);
    /* No more than the least gain is no gain. */
    due[0].cost_ns = 28 * ms_ns;
    assert_null(lull_driver_queue_choose(&queue, &plan, 0, due, 1));
    due[0].cost_ns--;
    assert_ptr_equal(lull_driver_queue_choose(&queue, &plan, 0, due, 1), &due[0]);
}

static void test_the_next_begin_is_found(void **state)
{
    const int64_t begins_ns[] = {30, INT64_MAX, 10, 20};

    (void)state;
    assert_true(lull_driver_plan_next_ns(begins_ns, 4, INT64_MIN) == 10);
    assert_true(lull_driver_plan_next_ns(begins_ns, 4, 10) == 20);
    assert_true(lull_driver_plan_next_ns(begins_ns, 4, 30) == INT64_MAX);
}

static void test_a_call_that_blocks_suspends_for_a_while(void **state)
{
    const struct lull_switch_cost prior = {0};
    struct lull_driver_queue queue;
    int64_t until_ns;

    (void)state;
    make_queue(&queue, &prior, false);
    assert_int_equal(lull_driver_queue_take_blocked(&queue, ms_ns, 900.0, 2000.0, 2, 1.0),
                     LULL_DRIVER_UNCHANGED);
    assert_int_equal(lull_driver_queue_take_blocked(&queue, 2 * ms_ns, 1001.0, 2000.0, 2, 1.0),
                     LULL_DRIVER_SUSPENDED);
    assert_false(lull_driver_queue_may_lower(&queue, 2 * ms_ns));
    until_ns = lull_driver_queue_wake_ns(&queue);
    assert_true(until_ns > 2 * ms_ns && until_ns < INT64_MAX);
    assert_int_equal(lull_driver_queue_update_trust(&queue, until_ns - 1), LULL_DRIVER_UNCHANGED);
    assert_int_equal(lull_driver_queue_update_trust(&queue, until_ns), LULL_DRIVER_RESUMED);
    assert_int_equal(lull_driver_queue_update_trust(&queue, until_ns), LULL_DRIVER_UNCHANGED);
    assert_true(lull_driver_queue_may_lower(&queue, until_ns));
    assert_int_equal(queue.suspensions, 1);
}

static void test_a_request_without_an_answer_suspends(void **state)
{
    const struct lull_switch_cost prior = {0};
    struct lull_driver_queue queue;

    (void)state;
    make_queue(&queue, &prior, false);
    /* 200 ms and 10 ms for each of the four GPUs, or the longest section. */
    assert_int_equal(lull_driver_queue_take_waiting(&queue, 1, 240.0, 0.0), LULL_DRIVER_UNCHANGED);
    assert_int_equal(lull_driver_queue_take_waiting(&queue, 2, 241.0, 300.0),
                     LULL_DRIVER_UNCHANGED);
    assert_int_equal(lull_driver_queue_take_waiting(&queue, 3, 241.0, 0.0), LULL_DRIVER_SUSPENDED);
    assert_near(queue.waiting_ms, 241.0, 0.0);
    assert_int_equal(lull_driver_queue_take_waiting(&queue, 4, 0.0, 0.0), LULL_DRIVER_RESUMED);
}

static void test_who_never_lowers_is_never_suspended(void **state)
{
    const struct lull_switch_cost prior = {0};
    struct lull_driver_queue queue;

    (void)state;
    make_queue(&queue, &prior, true);
    assert_int_equal(lull_driver_queue_take_blocked(&queue, 1, 9000.0, 0.0, 1, 1.0),
                     LULL_DRIVER_UNCHANGED);
    assert_false(queue.suspended);
    assert_int_equal(queue.suspensions, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_are_planned_by_those_seen),
        cmocka_unit_test(test_calls_are_served_one_after_the_other),
        cmocka_unit_test(test_the_lowering_that_wins_most_is_chosen),
        cmocka_unit_test(test_the_next_begin_is_found),
        cmocka_unit_test(test_a_call_that_blocks_suspends_for_a_while),
        cmocka_unit_test(test_a_request_without_an_answer_suspends),
        cmocka_unit_test(test_who_never_lowers_is_never_suspended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
