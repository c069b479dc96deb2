/*
 * EnvPipe's planner against the energies that the authors of Perseus recorded for it on GPT-3, and
 * on pipelines small enough to follow by hand. SPDX-License-Identifier: Apache-2.0
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/frontier/envpipe_planner.h"
#include "../pipeline_case.h"
#include "../../property.h"

enum { STAGES = 8, MOST_MICROBATCHES = 96, ANY = 100000 };

struct pipeline {
    struct lull_pipeline_profile profile;
    struct lull_pipeline_graph graph;
    struct lull_pipeline_problem problem;
    double blocking_w[STAGES];
    uint32_t *point;
};

/* ---- building ---------------------------------------------------------------------------- */

static uint32_t add_op(struct pipeline *pipeline, uint32_t stage, enum lull_pipeline_kind kind,
                       uint32_t microbatch)
{
    const int found = lull_pipeline_profile_find(&pipeline->profile, 0, stage, kind, 0);

    assert_true(found >= 0);
    return (uint32_t)lull_pipeline_graph_add(
        &pipeline->graph, &(struct lull_pipeline_op){stage, (uint32_t)found, microbatch, 0});
}

static void connect_ops(struct pipeline *pipeline, uint32_t from, uint32_t to)
{
    assert_int_equal(lull_pipeline_graph_connect(&pipeline->graph, from, to, 0), 0);
}

/* 1F1B: min(stages - s, microbatches) forwards, then one backward, one forward. */
static void build(struct pipeline *pipeline, uint32_t stages, uint32_t microbatches, double watts)
{
    static uint32_t forward[STAGES][MOST_MICROBATCHES];
    static uint32_t backward[STAGES][MOST_MICROBATCHES];

    lull_pipeline_graph_init(&pipeline->graph);
    for (uint32_t s = 0; s < stages; s++) {
        uint32_t next = 0;

        for (; next < stages - s && next < microbatches; next++)
            forward[s][next] = add_op(pipeline, s, LULL_PIPELINE_FORWARD, next);
        for (uint32_t m = 0; m < microbatches; m++) {
            backward[s][m] = add_op(pipeline, s, LULL_PIPELINE_BACKWARD, m);
            if (next < microbatches) {
                forward[s][next] = add_op(pipeline, s, LULL_PIPELINE_FORWARD, next);
                next++;
            }
        }
        pipeline->blocking_w[s] = watts;
    }
    for (uint32_t s = 0; s + 1 < stages; s++)
        for (uint32_t m = 0; m < microbatches; m++) {
            connect_ops(pipeline, forward[s][m], forward[s + 1][m]);
            connect_ops(pipeline, backward[s + 1][m], backward[s][m]);
        }
    assert_int_equal(lull_pipeline_graph_finish(&pipeline->graph, &pipeline->profile, NULL), 0);
    pipeline->point = calloc(pipeline->graph.op_count, sizeof(*pipeline->point));
    pipeline->problem =
        (struct lull_pipeline_problem){&pipeline->profile, &pipeline->graph, pipeline->blocking_w};
}

static void fini(struct pipeline *pipeline)
{
    free(pipeline->point);
    lull_pipeline_graph_fini(&pipeline->graph);
    lull_pipeline_profile_fini(&pipeline->profile);
}

static struct lull_envpipe_outcome plan(struct pipeline *pipeline, enum lull_envpipe_method method,
                                        uint32_t most)
{
    struct lull_envpipe_outcome outcome;

    assert_int_equal(lull_envpipe_plan(&pipeline->problem, method, most, pipeline->point, &outcome),
                     0);
    return outcome;
}

static struct lull_pipeline_cost cost(const struct pipeline *pipeline)
{
    return lull_pipeline_plan_cost(&pipeline->problem, pipeline->point, 0);
}

/* ---- what was recorded ------------------------------------------------------------------- */

struct recorded {
    const char *profile;
    double blocking_w;
    uint32_t stages;
    uint32_t microbatches;
    double time_s; /* rounded to 1 ms */
    double energy_j;
    uint32_t iterations; /* 0: not told */
};

#define A100 "gpt3-175b_a100_sxm_bf16_stage.csv", 8 * 83.64
#define A40 "gpt3-175b_a40_bf16_stage.csv", 8 * 70.38

static void recorded_energies_come_out(void **state)
{
    /* envpipe/envpipe_emulation_gpt3.csv */
    static const struct recorded all[] = {
        {A100, 8, 12, 28.365, 503607.718, 86},   {A100, 8, 24, 46.712, 968871.603, 86},
        {A100, 8, 48, 83.406, 1899399.374, 86},  {A100, 8, 96, 156.794, 3760454.915, 86},
        {A40, 8, 12, 75.463, 893872.742, 0},     {A40, 8, 24, 123.658, 1702218.570, 0},
        {A40, 8, 48, 220.046, 3319080.689, 0},   {A40, 8, 96, 412.824, 6552804.926, 0},
        {A100, 4, 8, 16.525, 2097.344 * 80, 36}, {A100, 4, 16, 28.756, 4084.808 * 80, 36},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct pipeline pipeline;
        struct lull_envpipe_outcome outcome;
        char path[512];

        snprintf(path, sizeof(path), "%s/profiles/%s", LULL_SHARED_PIPELINE, all[i].profile);
        lull_pipeline_profile_init(&pipeline.profile);
        if (!pipeline_case_profile(&pipeline.profile, path, all[i].stages))
            skip();
        build(&pipeline, all[i].stages, all[i].microbatches, all[i].blocking_w);
        outcome = plan(&pipeline, LULL_ENVPIPE_BALANCED, ANY);
        print_message("%.4s %ux%-2u %3u iterations, %.3f s, %.3f J (recorded %.3f)\n",
                      all[i].profile + 10, all[i].stages, all[i].microbatches, outcome.iterations,
                      (double)cost(&pipeline).time_ns * 1e-9, cost(&pipeline).energy_j,
                      all[i].energy_j);
        assert_true(outcome.is_settled);
        assert_near((double)cost(&pipeline).time_ns * 1e-9, all[i].time_s, 0.00051);
        assert_near(cost(&pipeline).energy_j / all[i].energy_j, 1.0,
                    all[i].stages == 8 ? 1e-8 : 1e-6);
        if (all[i].iterations != 0)
            assert_int_equal(outcome.iterations, all[i].iterations);
        fini(&pipeline);
    }
}

/* ---- by hand ----------------------------------------------------------------------------- */

/* Two stages alike, or the last one heavier: 3 clocks, the lowest has the least energy. */
static void build_small(struct pipeline *pipeline, int64_t last_ms)
{
    lull_pipeline_profile_init(&pipeline->profile);
    for (uint32_t stage = 0; stage < 2; stage++)
        for (int kind = LULL_PIPELINE_FORWARD; kind <= LULL_PIPELINE_BACKWARD; kind++)
            for (int64_t clock = 0; clock < 3; clock++)
                lull_pipeline_profile_add(
                    &pipeline->profile, 0, stage, (enum lull_pipeline_kind)kind, 0,
                    &(struct lull_pipeline_point){((stage == 1 ? last_ms : 10) + clock) * 1000000,
                                                  (5 - clock) * 1000000000,
                                                  (uint32_t)(300 - 100 * clock)},
                    NULL);
    build(pipeline, 2, 3, 10.0);
}

static uint32_t clock_of(const struct pipeline *pipeline, uint32_t op)
{
    return pipeline->profile.classes[pipeline->graph.ops[op].class_index]
        .points[pipeline->point[op]]
        .sm_mhz;
}

static void only_the_envelope_is_high_at_first(void **state)
{
    struct pipeline pipeline;

    (void)state;
    build_small(&pipeline, 10);
    plan(&pipeline, LULL_ENVPIPE_UNIFORM, ANY);
    for (uint32_t op = 0; op < pipeline.graph.op_count; op++)
        assert_int_equal(clock_of(&pipeline, op), 100);
    plan(&pipeline, LULL_ENVPIPE_ENVELOPE, ANY);
    /* Stage 0 runs F0 F1 B0 F2 B1 B2; then comes the last stage. */
    for (uint32_t op = 0; op < pipeline.graph.op_count; op++)
        assert_int_equal(clock_of(&pipeline, op), op == 0 || op >= 5 ? 300 : 100);
    fini(&pipeline);
}

static void a_heavy_last_stage_needs_no_raising(void **state)
{
    struct pipeline pipeline;

    (void)state;
    build_small(&pipeline, 20);
    for (int method = LULL_ENVPIPE_BALANCED; method <= LULL_ENVPIPE_GREEDY; method++) {
        const struct lull_envpipe_outcome outcome =
            plan(&pipeline, (enum lull_envpipe_method)method, ANY);

        assert_true(outcome.is_settled);
        assert_int_equal(outcome.iterations, 0);
        assert_int_equal(cost(&pipeline).time_ns, 140 * INT64_C(1000000));
    }
    fini(&pipeline);
}

/* EnvPipe believes that the last stage is the slowest. Where it is not, all ends at the highest. */
static void a_light_last_stage_ends_at_the_highest(void **state)
{
    struct pipeline pipeline;

    (void)state;
    build_small(&pipeline, 5);
    for (int method = LULL_ENVPIPE_BALANCED; method <= LULL_ENVPIPE_GREEDY; method++) {
        const struct lull_envpipe_outcome outcome =
            plan(&pipeline, (enum lull_envpipe_method)method, ANY);
        const int64_t time_ns = cost(&pipeline).time_ns;

        assert_true(outcome.is_settled);
        lull_pipeline_plan_highest(&pipeline.problem, pipeline.point);
        assert_int_equal(time_ns, cost(&pipeline).time_ns);
    }
    fini(&pipeline);
}

static void most_iterations_are_kept(void **state)
{
    struct pipeline pipeline;

    (void)state;
    build_small(&pipeline, 5);
    assert_true(plan(&pipeline, LULL_ENVPIPE_BALANCED, ANY).iterations > 1);
    assert_int_equal(plan(&pipeline, LULL_ENVPIPE_BALANCED, 1).iterations, 1);
    assert_false(plan(&pipeline, LULL_ENVPIPE_BALANCED, 1).is_settled);
    fini(&pipeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_envelope_is_high_at_first),
        cmocka_unit_test(a_heavy_last_stage_needs_no_raising),
        cmocka_unit_test(a_light_last_stage_ends_at_the_highest),
        cmocka_unit_test(most_iterations_are_kept),
        cmocka_unit_test(recorded_energies_come_out),
    };
    FILE *const file = fopen(LULL_SHARED_PIPELINE "/profiles/gpt3-175b_a40_bf16_stage.csv", "r");
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);

    if (file == NULL)
        puts("skipped: no " LULL_SHARED_PIPELINE);
    else
        fclose(file);
    return failed != 0 ? 1 : 0;
}
