/*
 * The power of a node is told of by rounds: when all GPUs have been read that were read in the
 * round before, whichever come and go. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "governor/control/control_state.h"

/* What the controller has been told. */
static uint32_t told;
static int64_t told_ns;
static double told_w;

static void take_power_fake(struct lull_controller *controller, uint32_t gpu, double power_w)
{
    (void)controller;
    (void)gpu;
    (void)power_w;
}

static void take_node_power_fake(struct lull_controller *controller, int64_t time_ns,
                                 double power_w)
{
    (void)controller;
    told++;
    told_ns = time_ns;
    told_w = power_w;
}

void forget_device_under_test(struct lull_governed_gpu *gpu);

#define lull_controller_take_power take_power_fake
#define lull_controller_take_node_power take_node_power_fake
#define lull_section_decider decider_under_test
#define lull_control_forget_device forget_device_under_test
#include "governor/control/section_decider.c"

static struct lull_control control;

static void read_gpu(uint32_t gpu, int64_t time_ns, double power_w)
{
    decider_under_test.take_power(&control, gpu, time_ns, power_w);
}

static void rounds_are_summed(void **state)
{
    (void)state;
    read_gpu(0, 1, 100.0);
    read_gpu(1, 2, 200.0); /* nobody knows yet how many there are */
    assert_int_equal(told, 0);
    for (int64_t i = 1; i <= 3; i++) {
        read_gpu(0, 10 * i, 100.0);
        read_gpu(1, 10 * i + 1, 200.0 + (double)i);
        assert_int_equal(told, i);
        assert_int_equal(told_ns, 10 * i + 1);
        assert_true(told_w == 300.0 + (double)i);
    }
    /* GPU 0 is left; its first reading alone might still be half a round. */
    read_gpu(0, 50, 70.0);
    assert_int_equal(told, 3);
    read_gpu(0, 60, 80.0);
    assert_int_equal(told, 4);
    assert_true(told_w == 80.0);
    /* GPU 2 comes. */
    read_gpu(0, 70, 80.0);
    read_gpu(2, 71, 10.0);
    assert_int_equal(told, 5);
    read_gpu(0, 80, 81.0);
    assert_int_equal(told, 5);
    read_gpu(2, 81, 11.0);
    assert_int_equal(told, 6);
    assert_true(told_w == 92.0);
    assert_int_equal(told_ns, 81);
    /* GPU 0 tells nothing for once: what it tells next is of another round than GPU 2. */
    read_gpu(2, 91, 12.0);
    read_gpu(0, 100, 83.0);
    assert_int_equal(told, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_are_summed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
