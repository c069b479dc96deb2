/*
 * The operations of a device in a plan, as passed to a tracker and a plan
 * controller: fixed operations are left out, neighbours are named, clocks are
 * rounded up. SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/follow/device_plan.h"
#include "../../property.h"

enum { FORWARD, BACKWARD, FIXED, CLASSES };

static struct lull_pipeline_profile profile;
static struct lull_pipeline_graph graph;
static double blocking_w[2];
static struct lull_pipeline_problem problem = {&profile, &graph, blocking_w};

static void add_class(enum lull_pipeline_kind kind, int64_t time_ns, uint32_t sm_mhz)
{
    const struct lull_pipeline_point points[] = {{time_ns, 1000, sm_mhz},
                                                 {time_ns + 5, 900, sm_mhz / 2}};

    for (int i = 0; i < (sm_mhz == 0 ? 1 : 2); i++)
        assert_int_equal(lull_pipeline_profile_add(&profile, 0, 0, kind, 0, &points[i], NULL), 0);
}

static uint32_t add_op(uint32_t device, uint32_t class_index)
{
    const struct lull_pipeline_op op = {.device = device, .class_index = class_index};
    const int64_t index = lull_pipeline_graph_add(&graph, &op);

    assert_true(index >= 0);
    return (uint32_t)index;
}

/* Device 0: forward, a collective, backward; device 1: forward, backward. */
static int set_up(void **state)
{
    uint32_t forward[2];
    uint32_t backward[2];

    (void)state;
    lull_pipeline_profile_init(&profile);
    lull_pipeline_graph_init(&graph);
    add_class(LULL_PIPELINE_FORWARD, 10, 1400);
    add_class(LULL_PIPELINE_BACKWARD, 20, 1400);
    add_class(LULL_PIPELINE_FIXED, 30, 0);
    forward[0] = add_op(0, FORWARD);
    add_op(0, FIXED);
    backward[0] = add_op(0, BACKWARD);
    forward[1] = add_op(1, FORWARD);
    backward[1] = add_op(1, BACKWARD);
    assert_int_equal(lull_pipeline_graph_connect(&graph, forward[0], forward[1], 0), 0);
    assert_int_equal(lull_pipeline_graph_connect(&graph, backward[1], backward[0], 0), 0);
    return lull_pipeline_graph_finish(&graph, &profile, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    lull_pipeline_graph_fini(&graph);
    lull_pipeline_profile_fini(&profile);
    return 0;
}

static void test_what_a_tracker_follows(void **state)
{
    static const uint32_t point[] = {0, 0, 1, 0, 0};
    struct lull_op_tracker_op ops[2];

    (void)state;
    assert_int_equal(lull_device_plan_count(&problem, 0), 2);
    assert_int_equal(lull_device_plan_count(&problem, 1), 2);
    lull_device_plan_track(&problem, point, 0, ops);
    assert_false(ops[0].is_backward);
    assert_int_equal(ops[0].receives_from, LULL_OP_TRACKER_NONE);
    assert_int_equal(ops[0].sends_to, 1);
    assert_int_equal(ops[0].length_ns, 10);
    assert_true(ops[1].is_backward);
    assert_int_equal(ops[1].receives_from, 1);
    assert_int_equal(ops[1].sends_to, LULL_OP_TRACKER_NONE);
    assert_int_equal(ops[1].length_ns, 25);
}

/* The clock is the lowest of the GPU's that is not below the plan's. */
static void test_what_a_controller_sets(void **state)
{
    static const uint32_t point[] = {0, 0, 1, 0, 0};
    static const int64_t begin_ns[] = {0, 10, 90, 10, 20};
    static const struct {
        uint32_t clocks_mhz[3];
        uint32_t count;
        uint32_t point[2];
    } rows[] = {
        {{1400, 700, 350}, 3, {0, 1}}, {{1500, 1400, 699}, 3, {1, 1}},
        {{1500, 701, 700}, 3, {0, 2}}, {{1300, 800, 750}, 3, {0, 2}},
        {{1300}, 1, {0, 0}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lull_plan_controller_op ops[2];

        lull_device_plan_control(&problem, point, begin_ns, 0, rows[i].clocks_mhz, rows[i].count,
                                 ops);
        for (int op = 0; op < 2; op++)
            assert_int_equal(ops[op].point, rows[i].point[op]);
        assert_int_equal(ops[0].begin_ns, 0);
        assert_int_equal(ops[0].end_ns, 10);
        assert_int_equal(ops[1].begin_ns, 90);
        assert_int_equal(ops[1].end_ns, 115);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_a_tracker_follows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_a_controller_sets, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
