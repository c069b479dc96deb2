/*
 * Clocks that must be held for a long time: plans of a small 1F1B against all
 * plans; each device gets its own clocks for warm-up, steady phase and cool-down.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>

#include "core/pipeline/schedule/schedule.h"
#include "switching_oracle.h"
#include "../pipeline_unit.h"
#include "../../property.h"

enum { CLOCKS = 3, STAGES = 2 };

/* About as GPT-3 on A100-SXM, with more head in the last stage. ms and mJ. */
static const struct {
    uint32_t sm_mhz;
    int64_t ms[STAGES][2];
    int64_t mj[STAGES][2];
} rows[CLOCKS] = {
    {1410, {{50, 93}, {58, 106}}, {{23810, 44580}, {25600, 47900}}},
    {1200, {{56, 103}, {65, 118}}, {{19400, 36100}, {20900, 38800}}},
    {930, {{72, 131}, {83, 150}}, {{16900, 31200}, {18200, 33600}}},
};

static void measure(struct lull_pipeline_profile *profile)
{
    lull_pipeline_profile_init(profile);
    for (uint32_t stage = 0; stage < STAGES; stage++)
        for (int kind = 0; kind < 2; kind++)
            for (int i = 0; i < CLOCKS; i++) {
                const struct lull_pipeline_point point = {rows[i].ms[stage][kind] * 1000000,
                                                          rows[i].mj[stage][kind] * 1000000,
                                                          rows[i].sm_mhz};

                assert_int_equal(lull_pipeline_profile_add(profile, 0, stage,
                                                           kind == 0 ? LULL_PIPELINE_FORWARD
                                                                     : LULL_PIPELINE_BACKWARD,
                                                           0, &point, NULL),
                                 0);
            }
}

static void build(struct pipeline_case *it, uint32_t microbatches)
{
    static double blocking_w[STAGES] = {84.0, 84.0};
    const struct lull_pipeline_shape shape = {
        .devices = STAGES, .microbatches = microbatches, .replicas = {.count = 1}};
    struct lull_pipeline_schedule schedule;
    struct lull_pipeline_profile measured;

    assert_int_equal(lull_pipeline_schedule_parse("1f1b", &schedule, NULL), 0);
    measure(&measured);
    assert_int_equal(
        lull_pipeline_schedule_build(&schedule, &shape, &measured, &it->profile, &it->graph, NULL),
        0);
    lull_pipeline_profile_fini(&measured);
    it->blocking_w = blocking_w;
    it->problem = (struct lull_pipeline_problem){&it->profile, &it->graph, blocking_w};
}

static void fini(struct pipeline_case *it)
{
    lull_pipeline_graph_fini(&it->graph);
    lull_pipeline_profile_fini(&it->profile);
}

/* The plan for a deadline from the highest clocks; what it costs. */
static double plan(const struct pipeline_case *it, const struct lull_pipeline_switching *switching,
                   int64_t deadline_ns, uint32_t *point, size_t *changes_out)
{
    struct lull_pipeline_switching_report report;

    lull_pipeline_plan_highest(&it->problem, point);
    assert_int_equal(
        lull_pipeline_switching(&it->problem, switching, deadline_ns, false, point, &report, NULL),
        0);
    assert_true(dwell_is_good(it, switching, point, deadline_ns, changes_out));
    return dwell_cost_j(it, switching, point, deadline_ns, *changes_out);
}

static int64_t deadline(const struct pipeline_case *it, int64_t percent)
{
    uint32_t point[DWELL_ORACLE_MOST_OPS];

    lull_pipeline_plan_highest(&it->problem, point);
    return lull_pipeline_plan_cost(&it->problem, point, 0).time_ns * percent / 100;
}

static void test_all_plans(void **state)
{
    struct pipeline_case it;
    double worst = 0.0;
    unsigned best = 0;

    (void)state;
    build(&it, 3);
    for (int64_t percent = 100; percent <= 106; percent += 6)
        for (int64_t dwell_ms = 100; dwell_ms <= 300; dwell_ms += 200) {
            const struct lull_pipeline_switching switching = {
                .down_ns = 10000000, .up_ns = 10000000, .dwell_ns = dwell_ms * 1000000};
            const int64_t deadline_ns = deadline(&it, percent);
            const double best_j = dwell_best_of_all(&it, &switching, deadline_ns);
            uint32_t point[DWELL_ORACLE_MOST_OPS];
            size_t changes;
            const double found_j = plan(&it, &switching, deadline_ns, point, &changes);

            printf("%lld %%, dwell %lld ms: %.3f J, the best of all %.3f J\n", (long long)percent,
                   (long long)dwell_ms, found_j, best_j);
            assert_true(found_j >= best_j - 1e-9);
            worst = fmax(worst, found_j / best_j - 1.0);
            best += found_j <= best_j + 1e-6;
        }
    assert_true(best >= 3); /* of 4 */
    assert_true(worst <= 0.04);
    fini(&it);
}

/* At the time of the highest clocks a stage that stays at one clock stays at the highest: it can
 * only be slower between its first forwards and its last backwards. */
static void test_a_phase(void **state)
{
    const struct lull_pipeline_switching switching = {
        .down_ns = 10000000, .up_ns = 10000000, .dwell_ns = 200000000};
    struct pipeline_case it;
    uint32_t point[DWELL_ORACLE_MOST_OPS];
    uint32_t highest[DWELL_ORACLE_MOST_OPS];
    size_t changes;
    double cost_j;
    double high_j;

    (void)state;
    build(&it, 12);
    lull_pipeline_plan_highest(&it.problem, highest);
    cost_j = plan(&it, &switching, deadline(&it, 100), point, &changes);
    high_j = dwell_cost_j(&it, &switching, highest, deadline(&it, 100), 0);
    printf("12 micro-batches: %.3f J, %.3f J at the highest, %zu changes\n", cost_j, high_j,
           changes);
    assert_true(changes >= 2);
    assert_true(cost_j < 0.97 * high_j);
    fini(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_plans),
        cmocka_unit_test(test_a_phase),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
