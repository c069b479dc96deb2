/*
 * Long pipelines from a short one, against their own frontier: 1F1B of a measured profile, and
 * of one with stages that differ.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/pipeline/frontier/periodic.h"
#include "../pipeline_case.h"
#include "../../property.h"

enum { STAGES = 4, DEADLINES = 10 };

static const char profile_path[] = LULL_SHARED_DATA "/profiles/gpt3-175b_a100_sxm_bf16.csv";

/* Makes every stage up to 15 % faster or slower, the same in every case of a seed. */
static void vary(struct pipeline_case *it, uint64_t seed)
{
    struct lull_random random;

    lull_random_init(&random, seed);
    for (uint32_t stage = 0; stage < STAGES; stage++) {
        const double ratio = 0.85 + 0.3 * lull_random_uniform(&random);

        for (size_t i = 0; i < it->profile.class_count; i++) {
            struct lull_pipeline_class *operations = &it->profile.classes[i];

            for (size_t j = 0; j < operations->point_count && operations->stage == stage; j++) {
                struct lull_pipeline_point *point = &operations->points[j];

                point->time_ns = llround(ratio * (double)point->time_ns);
                point->energy_nj = llround(ratio * (double)point->energy_nj);
            }
        }
    }
}

static void make(struct pipeline_case *it, uint32_t microbatches, uint64_t seed)
{
    if (!pipeline_case_1f1b(it, profile_path, STAGES, microbatches, PIPELINE_CASE_A100_W)) {
        fprintf(stderr, "skipped: no measured profile %s\n", profile_path);
        skip();
    }
    if (seed != 0)
        vary(it, seed);
}

/* Cuts every operation in two of its class, of which the first sends the data. */
static void cut_in_two(struct pipeline_case *it)
{
    struct lull_pipeline_graph graph;

    lull_pipeline_graph_init(&graph);
    for (size_t i = 0; i < it->graph.op_count; i++)
        for (int half = 0; half < 2; half++)
            assert_true(lull_pipeline_graph_add(&graph, &it->graph.ops[i]) >= 0);
    for (size_t i = 0; i < it->graph.edge_count; i++) {
        const struct lull_pipeline_edge *edge = &it->graph.edges[i];

        if (it->graph.ops[edge->from].device != it->graph.ops[edge->to].device)
            assert_int_equal(
                lull_pipeline_graph_connect(&graph, 2 * edge->from, 2 * edge->to, edge->latency_ns),
                0);
    }
    assert_int_equal(lull_pipeline_graph_finish(&graph, &it->profile, NULL), 0);
    lull_pipeline_graph_fini(&it->graph);
    it->graph = graph;
}

/* Largest relative gaps over the deadlines: of the plan to its bound, of the bound to the exact. */
struct gaps {
    double plan;
    double bound;
};

static struct gaps compare(uint32_t small_count, uint32_t full_count, uint64_t seed, bool is_cut)
{
    struct pipeline_case small;
    struct pipeline_case larger;
    struct pipeline_case full;
    struct gaps gaps = {0.0, 0.0};
    struct lull_certificate certificate;
    const struct lull_frontier_point *points;
    size_t count;

    make(&small, small_count, seed);
    make(&larger, small_count + 1, seed);
    make(&full, full_count, seed);
    if (is_cut) {
        cut_in_two(&small);
        cut_in_two(&larger);
        cut_in_two(&full);
    }
    const struct lull_periodic_problem problem = {small.problem, larger.problem, full.problem};
    struct lull_periodic *periodic = lull_periodic_create(&problem, NULL);
    struct lull_frontier *exact = lull_frontier_create(&full.problem, NULL);
    int64_t *duration_ns = calloc(full.graph.op_count, sizeof(*duration_ns));

    assert_true(periodic != NULL && exact != NULL && duration_ns != NULL);
    assert_int_equal(lull_certificate_init(&certificate, &full.graph), 0);
    points = lull_periodic_points(periodic, &count);
    for (int i = 0; i <= DEADLINES; i++) {
        const int64_t fastest_ns = points[count - 1].time_ns;
        const int64_t time_ns = fastest_ns + (points[0].time_ns - fastest_ns) * i / DEADLINES;
        struct lull_periodic_plan plan;

        holds(lull_periodic_plan(periodic, time_ns, duration_ns, &certificate, &plan) == 0, seed);
        holds(lull_pipeline_earliest(&full.graph, duration_ns, NULL) == plan.time_ns, seed);
        holds(plan.time_ns <= time_ns, seed);
        holds(lull_certificate_check(&certificate, &full.graph, NULL) == 0, seed);
        holds(lull_frontier_seek(exact, time_ns) == 0, seed);
        const double exact_j = lull_frontier_here(exact).energy_j;

        holds(plan.bound_j <= exact_j * (1.0 + 1e-10), seed);
        holds(plan.relaxed_j >= exact_j * (1.0 - 1e-10), seed);
        gaps.plan = fmax(gaps.plan, plan.relaxed_j / plan.bound_j - 1.0);
        gaps.bound = fmax(gaps.bound, 1.0 - plan.bound_j / exact_j);
    }
    lull_certificate_fini(&certificate);
    lull_periodic_destroy(periodic);
    lull_frontier_destroy(exact);
    free(duration_ns);
    pipeline_case_fini(&small);
    pipeline_case_fini(&larger);
    pipeline_case_fini(&full);
    return gaps;
}

static void test_stages_alike_are_exact(void **state)
{
    (void)state;
    const struct gaps gaps = compare(5 * STAGES, 100, 0, false);

    assert_true(gaps.bound < 1e-9);
    assert_true(gaps.plan < 1e-6);
}

static void test_stages_that_differ_are_proven(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const struct gaps gaps = compare(8 * STAGES, 100, seed, false);

        holds(gaps.bound < 1e-3, seed);
        holds(gaps.plan < 2e-2, seed);
    }
}

static void test_operations_of_one_name_are_told_apart(void **state)
{
    (void)state;
    const struct gaps gaps = compare(8 * STAGES, 50, 3, true);

    assert_true(gaps.bound < 1e-3);
    assert_true(gaps.plan < 2e-2);
}

static void test_points_are_those_of_the_full_graph(void **state)
{
    struct pipeline_case it[3];
    struct lull_frontier_point point;
    const struct lull_frontier_point *points;
    size_t count;
    size_t i = 0;

    (void)state;
    make(&it[0], 8 * STAGES, 0);
    make(&it[1], 8 * STAGES + 1, 0);
    make(&it[2], 128, 0);
    const struct lull_periodic_problem problem = {it[0].problem, it[1].problem, it[2].problem};
    struct lull_periodic *periodic = lull_periodic_create(&problem, NULL);
    struct lull_frontier *exact = lull_frontier_create(&it[2].problem, NULL);

    assert_true(periodic != NULL && exact != NULL);
    points = lull_periodic_points(periodic, &count);
    for (; lull_frontier_next(exact, &point) == 1; i++) {
        assert_true(i < count);
        assert_int_equal(points[i].time_ns, point.time_ns);
        assert_near(points[i].energy_j, point.energy_j, 1e-9 * point.energy_j);
        assert_near(points[i].slope_w, point.slope_w, 1e-6);
    }
    assert_int_equal(i, count);
    lull_periodic_destroy(periodic);
    lull_frontier_destroy(exact);
    for (i = 0; i < 3; i++)
        pipeline_case_fini(&it[i]);
}

static void test_what_cannot_be_that_fast_says_so(void **state)
{
    struct pipeline_case it[3];
    struct lull_certificate certificate;
    struct lull_periodic_plan plan;
    const struct lull_frontier_point *points;
    int64_t *duration_ns;
    size_t count;

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        make(&it[i], i == 2 ? 32 : 8 * STAGES + i, 0);
    const struct lull_periodic_problem problem = {it[0].problem, it[1].problem, it[2].problem};
    struct lull_periodic *periodic = lull_periodic_create(&problem, NULL);

    assert_non_null(periodic);
    duration_ns = calloc(it[2].graph.op_count, sizeof(*duration_ns));
    assert_non_null(duration_ns);
    assert_int_equal(lull_certificate_init(&certificate, &it[2].graph), 0);
    points = lull_periodic_points(periodic, &count);
    assert_int_equal(lull_periodic_plan(periodic, points[count - 1].time_ns - 1, duration_ns,
                                        &certificate, &plan),
                     -ERANGE);
    lull_certificate_fini(&certificate);
    lull_periodic_destroy(periodic);
    free(duration_ns);
    for (int i = 0; i < 3; i++)
        pipeline_case_fini(&it[i]);
}

static void test_graphs_that_do_not_continue_are_refused(void **state)
{
    struct pipeline_case it[3];
    struct lull_error err;

    (void)state;
    make(&it[0], 8, 0);
    make(&it[1], 10, 0);
    make(&it[2], 13, 0);
    struct lull_periodic_problem problem = {it[0].problem, it[1].problem, it[2].problem};

    assert_null(lull_periodic_create(&problem, &err));
    assert_int_equal(err.code, -EINVAL);
    problem.larger = it[0].problem;
    assert_null(lull_periodic_create(&problem, &err));
    problem.full = it[0].problem;
    problem.small = it[2].problem;
    assert_null(lull_periodic_create(&problem, &err));
    for (int i = 0; i < 3; i++)
        pipeline_case_fini(&it[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages_alike_are_exact),
        cmocka_unit_test(test_stages_that_differ_are_proven),
        cmocka_unit_test(test_operations_of_one_name_are_told_apart),
        cmocka_unit_test(test_points_are_those_of_the_full_graph),
        cmocka_unit_test(test_what_cannot_be_that_fast_says_so),
        cmocka_unit_test(test_graphs_that_do_not_continue_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
