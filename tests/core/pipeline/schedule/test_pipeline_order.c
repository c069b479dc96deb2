/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/schedule/order.h"

#include <errno.h>
#include <string.h>

#include "../pipeline_unit.h"

/* ---- fit ---- */

static void add(struct lull_pipeline_profile *profile, uint32_t stage, enum lull_pipeline_kind kind,
                uint32_t sm_mhz, int64_t time_ns, int64_t energy_nj)
{
    const struct lull_pipeline_point point = {time_ns, energy_nj, sm_mhz};

    assert_int_equal(lull_pipeline_profile_add(profile, 0, stage, kind, 0, &point, NULL), 0);
}

/* Eight stages; stage s: forward 100 + s, backward 200 + s ns at 1410 MHz, 50 longer at 1080 MHz.
 */
static void measure(struct lull_pipeline_profile *profile)
{
    lull_pipeline_profile_init(profile);
    for (uint32_t s = 0; s < 8; s++) {
        add(profile, s, LULL_PIPELINE_FORWARD, 1410, 100 + s, 1000);
        add(profile, s, LULL_PIPELINE_FORWARD, 1080, 150 + s, 900);
        add(profile, s, LULL_PIPELINE_BACKWARD, 1410, 200 + s, 2000);
        add(profile, s, LULL_PIPELINE_BACKWARD, 1080, 250 + s, 1800);
    }
}

static void test_stages_of_other_pipelines(void **state)
{
    struct lull_pipeline_profile measured;
    struct lull_pipeline_fit fit = {.measured = &measured, .parts = 1, .input_ratio = 0.5};

    (void)state;
    measure(&measured);
    fit.stages = 12;
    for (uint32_t s = 0; s < 12; s++)
        assert_int_equal(lull_pipeline_fit_stage(&fit, s), s == 11 ? 7 : s < 6 ? s : 6);
    fit.stages = 3;
    assert_int_equal(lull_pipeline_fit_stage(&fit, 0), 0);
    assert_int_equal(lull_pipeline_fit_stage(&fit, 1), 1);
    assert_int_equal(lull_pipeline_fit_stage(&fit, 2), 7);
    fit.stages = 1;
    assert_int_equal(lull_pipeline_fit_stage(&fit, 0), 7);
    fit.stages = 8; /* chunks, two to a stage that was measured */
    fit.parts = 2;
    assert_int_equal(lull_pipeline_fit_stage(&fit, 3), 1);
    assert_int_equal(lull_pipeline_fit_stage(&fit, 5), 2);
    assert_int_equal(lull_pipeline_fit_stage(&fit, 6), 7);
    lull_pipeline_profile_fini(&measured);
}

static const struct lull_pipeline_point *fitted_point(struct lull_pipeline_fit *fit, uint32_t stage,
                                                      enum lull_pipeline_kind kind,
                                                      uint32_t partner, size_t point)
{
    struct lull_error err = {0};
    const int found = lull_pipeline_fit_class(fit, stage, kind, partner, &err);

    if (found < 0)
        fail_msg("%s", err.text);
    assert_int_equal(lull_pipeline_fit_class(fit, stage, kind, partner, NULL), found);
    assert_true(fit->fitted->classes[found].stage == stage);
    assert_int_equal(fit->fitted->classes[found].point_count, 2);
    return &fit->fitted->classes[found].points[point];
}

static void test_what_is_derived(void **state)
{
    struct lull_pipeline_profile measured, fitted;
    struct lull_pipeline_fit fit = {
        .measured = &measured, .fitted = &fitted, .stages = 8, .parts = 1, .input_ratio = 0.25};

    (void)state;
    measure(&measured);
    lull_pipeline_profile_init(&fitted);
    assert_int_equal(fitted_point(&fit, 4, LULL_PIPELINE_INPUT, 0, 0)->time_ns, 51);
    assert_int_equal(fitted_point(&fit, 4, LULL_PIPELINE_WEIGHT, 0, 0)->time_ns, 153);
    assert_int_equal(fitted_point(&fit, 4, LULL_PIPELINE_WEIGHT, 0, 1)->energy_nj, 1350);
    assert_int_equal(fitted_point(&fit, 4, LULL_PIPELINE_RECOMPUTE, 0, 1)->time_ns, 154);
    assert_int_equal(fitted_point(&fit, 1, LULL_PIPELINE_OVERLAP, 6, 0)->time_ns, 101 + 206);
    assert_int_equal(fitted_point(&fit, 6, LULL_PIPELINE_OVERLAP, 1, 1)->time_ns, 156 + 251);
    fit.parts = 2;
    assert_int_equal(fitted_point(&fit, 2, LULL_PIPELINE_FORWARD, 0, 0)->time_ns, 51); /* 50.5 */
    assert_int_equal(fitted_point(&fit, 2, LULL_PIPELINE_FORWARD, 0, 0)->energy_nj, 500);
    lull_pipeline_profile_fini(&fitted);
    lull_pipeline_profile_fini(&measured);
}

static void test_what_cannot_be_derived(void **state)
{
    struct lull_pipeline_profile measured, fitted;
    struct lull_pipeline_fit fit = {
        .measured = &measured, .fitted = &fitted, .stages = 2, .parts = 1, .input_ratio = 0.5};
    struct lull_error err = {0};

    (void)state;
    lull_pipeline_profile_init(&measured);
    lull_pipeline_profile_init(&fitted);
    assert_int_equal(lull_pipeline_fit_class(&fit, 0, LULL_PIPELINE_FORWARD, 0, &err), -ENOENT);
    add(&measured, 0, LULL_PIPELINE_FORWARD, 1410, 100, 1);
    add(&measured, 1, LULL_PIPELINE_BACKWARD, 1080, 100, 1);
    assert_int_equal(lull_pipeline_fit_class(&fit, 0, LULL_PIPELINE_WEIGHT, 0, &err), -ENOENT);
    assert_non_null(strstr(err.text, "needs weight"));
    assert_int_equal(lull_pipeline_fit_class(&fit, 0, LULL_PIPELINE_OVERLAP, 1, &err), -ENOENT);
    assert_non_null(strstr(err.text, "clock in common"));
    assert_int_equal(lull_pipeline_fit_class(&fit, 2, LULL_PIPELINE_FORWARD, 0, &err), -EINVAL);
    fit.input_ratio = 1.0;
    assert_int_equal(lull_pipeline_fit_class(&fit, 0, LULL_PIPELINE_FORWARD, 0, &err), -EINVAL);
    lull_pipeline_profile_fini(&fitted);
    lull_pipeline_profile_fini(&measured);
}

/* ---- orders ---- */

/* "0F1" style: stage, kind letter (F B I W R), micro-batch; devices are separated by '|'. */
static void write_order(const char *text, uint32_t devices, uint32_t stages, uint32_t microbatches,
                        struct lull_pipeline_order *order)
{
    static const char letters[] = "FBIW";
    uint32_t device = 0;

    assert_int_equal(lull_pipeline_order_init(order, devices, NULL), 0);
    order->stages = stages;
    order->microbatches = microbatches;
    for (; *text != '\0'; text += *text == '|' ? 1 : 3) {
        struct lull_pipeline_action action = {.kind = LULL_PIPELINE_RECOMPUTE};

        if (*text == '|') {
            device++;
            continue;
        }
        action.stage = (uint32_t)(text[0] - '0');
        action.microbatch = (uint32_t)(text[2] - '0');
        if (text[1] != 'R')
            action.kind = (enum lull_pipeline_kind)(strchr(letters, text[1]) - letters);
        assert_int_equal(lull_pipeline_order_add(order, device, &action), 0);
    }
}

static void test_incomplete_orders(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } bad[] = {
        {"0F00B0|1F0", "the backward of stage 1, micro-batch 0 is missing"},
        {"0F00B0|1F01I0", "the weight gradient of stage 1, micro-batch 0 is missing"},
        {"0F00B00F0|1F01B0", "the forward of stage 0, micro-batch 0 comes twice"},
        {"0F00B0|1F01B01W0", "the weight gradient of stage 1, micro-batch 0 comes twice"},
        {"0F00B01F0|1B0", "stage 1 is on device 0 and on device 1"},
        {"0F00B0|1F01B02F0", "stage 2"},
        {"0F00B0|1F01B11B0", "micro-batch 1"},
        {"0F0|", "some are missing"},
        {"", "some are missing"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct lull_pipeline_order order;
        struct lull_error err = {0};

        write_order(bad[i].text, 2, 2, 1, &order);
        assert_int_equal(lull_pipeline_order_check(&order, NULL, &err), -EINVAL);
        if (strstr(err.text, bad[i].message) == NULL)
            fail_msg("%s: '%s' lacks '%s'", bad[i].text, err.text, bad[i].message);
        lull_pipeline_order_fini(&order);
    }
}

static int build(const struct lull_pipeline_order *order, const struct lull_pipeline_links *links,
                 const struct lull_pipeline_replicas *replicas, int64_t *makespan_out,
                 size_t *ops_out, struct lull_error *err)
{
    struct lull_pipeline_profile measured, fitted;
    struct lull_pipeline_fit fit = {
        .measured = &measured, .fitted = &fitted, .parts = 1, .input_ratio = 0.5};
    struct lull_pipeline_graph graph;
    int rc;

    unit_profile(&measured, 1);
    lull_pipeline_profile_init(&fitted);
    rc = lull_pipeline_order_build(order, links, replicas, &fit, &graph, err);
    if (rc == 0) {
        *makespan_out = makespan_ns(&graph, &fitted);
        *ops_out = graph.op_count;
        lull_pipeline_graph_fini(&graph);
    }
    lull_pipeline_profile_fini(&fitted);
    lull_pipeline_profile_fini(&measured);
    return rc;
}

static const struct lull_pipeline_links no_links = {NULL, 0};
static const struct lull_pipeline_replicas one_copy = {.count = 1};

/* Orders with operations that wait for themselves are rejected, also within a device and through
 * another one. */
static void test_cycles(void **state)
{
    static const struct {
        const char *text;
        uint32_t device;
        size_t index;
    } bad[] = {
        {"0B00F0|1F01B0", 0, 0},    {"0F00B0|1B01F0", 0, 1},
        {"0F00B0|1F01W01I0", 0, 1}, {"0F00R00B0|1R01F01B0", 0, 2},
        {"0F00B00R0|1F01B0", 0, 1}, {"0F00B00F10B1|1F11B11F01B0", 0, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct lull_pipeline_order order;
        struct lull_error err = {0};
        struct lull_pipeline_place place = {99, 99};
        size_t ops;
        int64_t end_ns;

        write_order(bad[i].text, 2, 2, strchr(bad[i].text, '1') < strchr(bad[i].text, '|') ? 2 : 1,
                    &order);
        assert_int_equal(build(&order, &no_links, &one_copy, &end_ns, &ops, &err), -ELOOP);
        assert_true(err.text[0] != '\0');
        if (strchr(bad[i].text, 'R') == NULL) /* the simulation takes its place for granted */
            assert_int_equal(unit_simulate(&order, 1), -1);
        assert_int_equal(lull_pipeline_order_stuck(&order, &place), 1);
        assert_int_equal(place.device, bad[i].device);
        assert_int_equal(place.index, bad[i].index);
        lull_pipeline_order_fini(&order);
    }
}

static void expect_makespan(const char *text, uint32_t devices, uint32_t stages,
                            const struct lull_pipeline_links *links,
                            const struct lull_pipeline_replicas *replicas, int64_t expected_ns,
                            size_t expected_ops)
{
    struct lull_pipeline_order order;
    struct lull_error err = {0};
    int64_t end_ns;
    size_t ops;

    write_order(text, devices, stages, 1, &order);
    if (build(&order, links, replicas, &end_ns, &ops, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    assert_int_equal(end_ns, expected_ns);
    assert_int_equal(ops, expected_ops);
    lull_pipeline_order_fini(&order);
}

static void test_transfers(void **state)
{
    static const int64_t latency_ns[] = {7, 100};
    const struct lull_pipeline_links one = {latency_ns, 1};
    const struct lull_pipeline_links each = {latency_ns, 2};

    (void)state;
    expect_makespan("0F00B0|1F01B0|2F02B0", 3, 3, &no_links, &one_copy, 6000, 6);
    expect_makespan("0F00B0|1F01B0|2F02B0", 3, 3, &one, &one_copy, 6000 + 4 * 7, 6);
    expect_makespan("0F00B0|1F01B0|2F02B0", 3, 3, &each, &one_copy, 6000 + 2 * 107, 6);
    /* Stages 1 and 2 share a device: no transfer there. */
    expect_makespan("0F00B0|1F02F02B01B0", 2, 3, &each, &one_copy, 6000 + 2 * 7, 6);
}

static void test_copies_wait_for_each_other(void **state)
{
    static const int64_t sync_ns[] = {250, 0};
    static const int64_t energy_nj[] = {9, 0};
    static const int64_t late_ns[] = {0, 1500};
    const struct lull_pipeline_replicas alone = {.count = 3};
    const struct lull_pipeline_replicas synced = {3, sync_ns, energy_nj, 1};
    const struct lull_pipeline_replicas first = {3, sync_ns, energy_nj, 2};
    const struct lull_pipeline_replicas second = {3, late_ns, NULL, 2};

    (void)state;
    expect_makespan("0F00B0|1F01B0", 2, 2, &no_links, &alone, 4000, 12);
    expect_makespan("0F00B0|1F01B0", 2, 2, &no_links, &synced, 4250, 18);
    /* A sync of one device alone: the first ends last; the second has a backward's time to spare.
     */
    expect_makespan("0F00B0|1F01B0", 2, 2, &no_links, &first, 4250, 15);
    expect_makespan("0F00B0|1F01B0", 2, 2, &no_links, &second, 4500, 15);
}

static void test_bad_surroundings(void **state)
{
    static const int64_t latency_ns[] = {1, 2, -3};
    const struct lull_pipeline_links links[] = {{latency_ns, 2}, {latency_ns + 2, 1}, {NULL, 0}};
    static const int64_t sync_ns[] = {1, 2, -3};
    const struct lull_pipeline_replicas replicas[] = {
        one_copy, one_copy, {.count = 0}, {2, sync_ns, NULL, 3}, {2, sync_ns + 2, NULL, 1}};
    struct lull_pipeline_order order;

    (void)state;
    write_order("0F00B0|1F01B0", 2, 2, 1, &order);
    for (size_t i = 0; i < 5; i++) {
        struct lull_error err = {0};
        int64_t end_ns;
        size_t ops;

        assert_int_equal(build(&order, &links[i < 2 ? i : 2], &replicas[i], &end_ns, &ops, &err),
                         -EINVAL);
        assert_true(err.text[0] != '\0');
    }
    lull_pipeline_order_fini(&order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages_of_other_pipelines),
        cmocka_unit_test(test_what_is_derived),
        cmocka_unit_test(test_what_cannot_be_derived),
        cmocka_unit_test(test_incomplete_orders),
        cmocka_unit_test(test_cycles),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_copies_wait_for_each_other),
        cmocka_unit_test(test_bad_surroundings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
