/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/schedule/schedule.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/pipeline/model/plan.h"
#include "../pipeline_unit.h"

static const char *const families[] = {
    "gpipe",   "1f1b",      "1f1b-recompute", "interleaved:2", "interleaved:3",
    "envpipe", "envpipe:1", "zb-h1",          "zbv",           "dualpipev",
};

static struct lull_pipeline_schedule parse(const char *text)
{
    struct lull_pipeline_schedule schedule;
    struct lull_error err = {0};

    if (lull_pipeline_schedule_parse(text, &schedule, &err) < 0)
        fail_msg("%s", err.text);
    return schedule;
}

static struct lull_pipeline_shape shape_of(uint32_t devices, uint32_t microbatches)
{
    return (struct lull_pipeline_shape){.devices = devices,
                                        .microbatches = microbatches,
                                        .replicas = {.count = 1},
                                        .by_chunk = true};
}

/* False: the schedule cannot have this shape. */
static bool order_of(const char *text, uint32_t devices, uint32_t microbatches,
                     struct lull_pipeline_order *order)
{
    const struct lull_pipeline_schedule schedule = parse(text);
    const struct lull_pipeline_shape shape = shape_of(devices, microbatches);
    struct lull_pipeline_profile profile;
    struct lull_error err = {0};
    int rc;

    unit_profile(&profile, 2);
    rc = lull_pipeline_schedule_order(&schedule, &shape, &profile, order, &err);
    lull_pipeline_profile_fini(&profile);
    if (rc < 0)
        assert_true(rc == -EINVAL && err.text[0] != '\0');
    return rc == 0;
}

static int64_t graph_makespan(const char *text, const struct lull_pipeline_shape *shape,
                              int64_t backward_units)
{
    const struct lull_pipeline_schedule schedule = parse(text);
    struct lull_pipeline_profile profile, fitted;
    struct lull_pipeline_graph graph;
    struct lull_error err = {0};
    int64_t end_ns;

    unit_profile(&profile, backward_units);
    if (lull_pipeline_schedule_build(&schedule, shape, &profile, &fitted, &graph, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    end_ns = makespan_ns(&graph, &fitted);
    assert_int_equal(end_ns % UNIT_NS, 0);
    lull_pipeline_graph_fini(&graph);
    lull_pipeline_profile_fini(&fitted);
    lull_pipeline_profile_fini(&profile);
    return end_ns / UNIT_NS;
}

static int64_t units(const char *text, uint32_t devices, uint32_t microbatches,
                     int64_t backward_units)
{
    const struct lull_pipeline_shape shape = shape_of(devices, microbatches);

    return graph_makespan(text, &shape, backward_units);
}

/* Complete, never stuck, and the graph takes as long as a replay of the order. */
static void check_order(const char *text, uint32_t devices, uint32_t microbatches)
{
    struct lull_pipeline_order order;
    struct lull_error err = {0};
    struct lull_pipeline_place place;
    int64_t simulated;

    if (!order_of(text, devices, microbatches, &order))
        return;
    if (lull_pipeline_order_check(&order, NULL, &err) < 0)
        fail_msg("%s %ux%u: %s", text, devices, microbatches, err.text);
    assert_int_equal(lull_pipeline_order_stuck(&order, &place), 0);
    simulated = unit_simulate(&order, 2);
    if (simulated != units(text, devices, microbatches, 2))
        fail_msg("%s %ux%u: the graph takes other than %d units", text, devices, microbatches,
                 (int)simulated);
    lull_pipeline_order_fini(&order);
}

static void test_every_schedule_is_complete_and_runs(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++)
        for (uint32_t devices = 1; devices <= 7; devices++)
            for (uint32_t microbatches = 1; microbatches <= 24; microbatches++)
                check_order(families[f], devices, microbatches);
}

/* Narayanan et al. 2021, section 2.2: of M + S - 1 turns S - 1 are bubbles; interleaved 1/V. */
static void test_known_lengths(void **state)
{
    (void)state;
    for (uint32_t s = 1; s <= 8; s++) {
        for (uint32_t m = 1; m <= 20; m++) {
            assert_int_equal(units("gpipe", s, m, 1), 2 * (m + s - 1));
            assert_int_equal(units("1f1b", s, m, 1), 2 * (m + s - 1));
            assert_int_equal(units("gpipe", s, m, 2), 3 * (m + s - 1));
            assert_int_equal(units("1f1b", s, m, 2), 3 * (m + s - 1));
        }
        for (uint32_t m = s; m <= 3 * s; m += s) {
            assert_int_equal(units("interleaved:2", s, m, 1), 2 * (2 * m + s - 1));
            assert_int_equal(units("interleaved:3", s, m, 2), 3 * (3 * m + s - 1));
        }
    }
}

/* Early recomputation: the way back does not wait for it, only the last device's own turns do. */
static void test_recomputation_in_bubbles(void **state)
{
    (void)state;
    for (uint32_t s = 1; s <= 8; s++)
        for (uint32_t m = 1; m <= 20; m++)
            assert_int_equal(units("1f1b-recompute", s, m, 1), 3 * m + 2 * (s - 1));
}

/* Qi et al. 2024, with t_F = t_I = t_W: H1 leaves S - 1 units of bubble, V as good as none: but for
 * what device S - 1 waits for the first micro-batch. */
static void test_zero_bubble_lengths(void **state)
{
    (void)state;
    for (uint32_t s = 1; s <= 8; s++) {
        for (uint32_t m = 2 * s; m <= 4 * s; m++) {
            assert_int_equal(units("zb-h1", s, m, 2), 3 * m + s - 1);
            assert_int_equal(units("zbv", s, m, 2), 6 * m + s - 1);
        }
    }
}

/* ---- memory ---- */

static uint32_t min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void check_memory(const char *text, uint32_t s, uint32_t m)
{
    struct lull_pipeline_order order;

    if (!order_of(text, s, m, &order))
        return;
    for (uint32_t d = 0; d < s; d++) {
        const uint32_t held = lull_pipeline_order_in_flight(&order, d);

        if (strcmp(text, "gpipe") == 0)
            assert_int_equal(held, m);
        else if (strncmp(text, "1f1b", 4) == 0)
            assert_int_equal(held, min(s - d, m));
        else if (strcmp(text, "zb-h1") == 0)
            assert_int_equal(held, min(s, m));
        else if (strcmp(text, "envpipe:1") == 0)
            assert_true(held >= min(s - d, m) && held <= min(s - d + 1, m));
        else if (strcmp(text, "zbv") == 0)
            assert_true(held <= 2 * s);
        else if (strcmp(text, "dualpipev") == 0)
            assert_true(held <= 2 * s + 1);
        else if (strcmp(text, "interleaved:2") == 0)
            assert_int_equal(held, min(2 * (s - d - 1) + min(s, m) + 1, 2 * m));
    }
    lull_pipeline_order_fini(&order);
}

static void test_memory_limits(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++)
        for (uint32_t s = 1; s <= 7; s++)
            for (uint32_t m = 1; m <= 20; m++)
                check_memory(families[f], s, m);
}

/* ---- Megatron ---- */

/* The reference's example: rank 0 of 2, 5 micro-batches, 2 chunks, groups of 3. */
static void test_megatron_table(void **state)
{
    const struct lull_pipeline_schedule schedule = parse("interleaved:2,3");
    const struct lull_pipeline_shape shape = shape_of(2, 5);
    struct lull_pipeline_order order;
    char text[128] = "";
    size_t length = 0;

    (void)state;
    assert_int_equal(lull_pipeline_schedule_order(&schedule, &shape, NULL, &order, NULL), 0);
    for (size_t i = 0; i < order.rows[0].count; i++) {
        const struct lull_pipeline_action *action = &order.rows[0].actions[i];

        length += (size_t)snprintf(text + length, sizeof(text) - length, " %s%u",
                                   action->kind == LULL_PIPELINE_BACKWARD ? "-" : "",
                                   action->stage / 2 + 1);
    }
    assert_string_equal(text, " 1 1 1 2 2 2 -2 1 -2 1 -2 2 -1 2 -1 -1 -2 -2 -1 -1");
    lull_pipeline_order_fini(&order);
}

/* ---- EnvPipe ---- */

static void add_clock(struct lull_pipeline_profile *profile, uint32_t stage,
                      enum lull_pipeline_kind kind, int64_t time_ns, int64_t energy_nj,
                      uint32_t sm_mhz)
{
    const struct lull_pipeline_point point = {time_ns, energy_nj, sm_mhz};

    assert_int_equal(lull_pipeline_profile_add(profile, 0, stage, kind, 0, &point, NULL), 0);
}

static void check_hoist(const char *text, uint32_t devices, uint32_t microbatches,
                        const uint32_t *expected)
{
    const struct lull_pipeline_schedule schedule = parse(text);
    const struct lull_pipeline_shape shape = shape_of(devices, microbatches);
    struct lull_pipeline_profile profile;
    uint32_t hoist[8];

    lull_pipeline_profile_init(&profile);
    for (uint32_t stage = 0; stage < 2; stage++) { /* 93 ms at 1410 MHz, 62 ms at 1080 MHz */
        add_clock(&profile, stage, LULL_PIPELINE_FORWARD, 50000000, 24, 1410);
        add_clock(&profile, stage, LULL_PIPELINE_FORWARD, 62000000, 17, 1080);
        add_clock(&profile, stage, LULL_PIPELINE_FORWARD, 75000000, 18, 900);
        add_clock(&profile, stage, LULL_PIPELINE_BACKWARD, 93000000, 45, 1410);
        add_clock(&profile, stage, LULL_PIPELINE_BACKWARD, 113000000, 32, 1080);
    }
    assert_int_equal(lull_pipeline_envpipe_hoist(&schedule, &shape, &profile, hoist, NULL), 0);
    for (uint32_t d = 0; d < devices; d++)
        assert_int_equal(hoist[d], expected[d]);
    lull_pipeline_profile_fini(&profile);
}

static void test_envpipe_hoist(void **state)
{
    (void)state;
    check_hoist("envpipe", 4, 16, (const uint32_t[]){4, 3, 1, 0}); /* 1.5 * (3, 2, 1) */
    check_hoist("envpipe:2", 4, 16, (const uint32_t[]){2, 2, 1, 0});
    check_hoist("envpipe:1,9,9,9", 4, 16, (const uint32_t[]){1, 1, 1, 0});
    check_hoist("envpipe", 4, 6, (const uint32_t[]){2, 3, 1, 0}); /* device 0 has all six in */
    check_hoist("envpipe", 4, 2, (const uint32_t[]){0, 0, 0, 0});
}

static void test_envpipe_needs_a_profile(void **state)
{
    const struct lull_pipeline_schedule schedule = parse("envpipe");
    const struct lull_pipeline_shape shape = shape_of(4, 8);
    struct lull_pipeline_profile profile;
    struct lull_pipeline_order order;
    struct lull_error err = {0};

    (void)state;
    lull_pipeline_profile_init(&profile);
    add_clock(&profile, 0, LULL_PIPELINE_FORWARD, 1, 1, 1);
    assert_int_equal(lull_pipeline_schedule_order(&schedule, &shape, &profile, &order, &err),
                     -ENOENT);
    assert_non_null(strstr(err.text, "stage 0 of the pipeline needs backward"));
    lull_pipeline_profile_fini(&profile);
}

/* ---- texts and shapes ---- */

static void test_parsing(void **state)
{
    static const char *const bad[] = {
        "",
        "1F1B",
        "1f1b:",
        "1f1b:2",
        "interleaved",
        "interleaved:",
        "interleaved:1",
        "interleaved:2,",
        "interleaved:2,3,4",
        "interleaved:x",
        "interleaved:65",
        "envpipe:",
        "envpipe:-1",
        "envpipe:1,,2",
        "envpipe:70000",
        "envpipe:99999999999999999999",
        "zbv:2",
        "interleaved:2 ",
        "gpipe ",
    };
    struct lull_pipeline_schedule schedule = {.chunks = 77};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct lull_error err = {0};

        if (lull_pipeline_schedule_parse(bad[i], &schedule, &err) != -EINVAL)
            fail_msg("'%s' was taken", bad[i]);
        assert_true(err.text[0] != '\0' && schedule.chunks == 77);
    }
    schedule = parse("interleaved:4,8");
    assert_true(schedule.family == LULL_PIPELINE_INTERLEAVED && schedule.chunks == 4);
    assert_int_equal(schedule.group, 8);
    schedule = parse("envpipe:3,2,1");
    assert_int_equal(schedule.limits, 3);
    assert_int_equal(schedule.limit[1], 2);
}

static void test_impossible_shapes(void **state)
{
    static const struct {
        const char *text;
        uint32_t devices;
        uint32_t microbatches;
    } bad[] = {{"1f1b", 0, 4},
               {"1f1b", 4, 0},
               {"1f1b", 5000, 4},
               {"1f1b", 4, 70000},
               {"gpipe", 4096, 4096},
               {"dualpipev", 4, 7},
               {"interleaved:2,3", 4, 8},
               {"interleaved:2,4", 4, 9},
               {"envpipe:1,2", 4, 8}};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct lull_pipeline_order order;

        if (order_of(bad[i].text, bad[i].devices, bad[i].microbatches, &order))
            fail_msg("%s on %u devices, %u micro-batches", bad[i].text, bad[i].devices,
                     bad[i].microbatches);
    }
}

/* The devices of all copies are numbered copy by copy. */
static void test_stages_are_those_of_one_copy(void **state)
{
    const struct lull_pipeline_schedule schedule = parse("1f1b");
    double blocking_w[6] = {0.0};

    (void)state;
    for (uint32_t copies = 1; copies <= 2; copies++) {
        struct lull_pipeline_shape shape = shape_of(3, 4);
        struct lull_pipeline_profile profile, fitted;
        struct lull_pipeline_graph graph;

        shape.replicas.count = copies;
        unit_profile(&profile, 2);
        assert_int_equal(
            lull_pipeline_schedule_build(&schedule, &shape, &profile, &fitted, &graph, NULL), 0);
        const struct lull_pipeline_problem problem = {&fitted, &graph, blocking_w};

        assert_int_equal(graph.device_count, 3 * copies);
        assert_int_equal(lull_pipeline_stages(&problem), 3);
        lull_pipeline_graph_fini(&graph);
        lull_pipeline_profile_fini(&fitted);
        lull_pipeline_profile_fini(&profile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_schedule_is_complete_and_runs),
        cmocka_unit_test(test_known_lengths),
        cmocka_unit_test(test_recomputation_in_bubbles),
        cmocka_unit_test(test_zero_bubble_lengths),
        cmocka_unit_test(test_memory_limits),
        cmocka_unit_test(test_megatron_table),
        cmocka_unit_test(test_envpipe_hoist),
        cmocka_unit_test(test_envpipe_needs_a_profile),
        cmocka_unit_test(test_stages_are_those_of_one_copy),
        cmocka_unit_test(test_parsing),
        cmocka_unit_test(test_impossible_shapes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
