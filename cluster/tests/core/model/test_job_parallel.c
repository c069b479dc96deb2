/*
 * Iterations of parallel jobs: times equal to the pipeline's own, closed forms of communication,
 * operating points by clock.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/core/model/operating_points.h"
#include "cluster/core/model/job_parallel.h"
#include "cluster/core/model/job_pipeline.h"
#include "core/pipeline/frontier/frontier.h"

static const struct lull_job_tempo highest = {1410, 1.0, 400.0, 1.0, 120.0, 90.0};

static struct lull_job_parallel make(const char *schedule, uint32_t pipeline, uint32_t microbatches)
{
    struct lull_job_parallel parallel = {
        .data = 1,
        .tensor = 1,
        .pipeline = pipeline,
        .microbatches = microbatches,
        .forward_ns = 10000,
        .backward_ns = 21000,
        .buckets = 1,
    };

    assert_int_equal(lull_pipeline_schedule_parse(schedule, &parallel.schedule, NULL), 0);
    return parallel;
}

static struct lull_job_iteration iterate(const struct lull_job_parallel *parallel,
                                         const struct lull_job_tempo *tempo)
{
    struct lull_job_iteration iteration;
    struct lull_job_graph graph;

    assert_int_equal(lull_job_parallel_build(parallel, &graph, NULL), 0);
    assert_int_equal(lull_job_iterate(&graph, parallel->pipeline,
                                      (uint64_t)parallel->data * parallel->tensor, tempo,
                                      &iteration),
                     0);
    lull_job_graph_fini(&graph);
    return iteration;
}

/* ---- against core/pipeline ---------------------------------------------------------------- */

static int64_t pipeline_time_ns(const struct lull_job_parallel *parallel)
{
    const uint32_t stages = parallel->pipeline * parallel->schedule.chunks;
    const int64_t latency_ns = lull_job_transfer_ns(&parallel->stage_link, parallel->stage_bytes);
    const struct lull_pipeline_shape shape = {
        .devices = parallel->pipeline,
        .microbatches = parallel->microbatches,
        .links = {&latency_ns, 1},
        .replicas = {.count = 1},
        .by_chunk = true,
    };
    struct lull_pipeline_profile measured;
    struct lull_pipeline_profile fitted;
    struct lull_pipeline_graph graph;
    int64_t *duration_ns;
    int64_t time_ns;

    lull_pipeline_profile_init(&measured);
    for (uint32_t stage = 0; stage < stages; stage++) {
        const bool is_last = stage + 1 == stages;
        const struct lull_pipeline_point forward = {
            parallel->forward_ns + (is_last ? parallel->head_forward_ns : 0), 1, 1410};
        const struct lull_pipeline_point backward = {
            parallel->backward_ns + (is_last ? parallel->head_backward_ns : 0), 1, 1410};

        assert_int_equal(lull_pipeline_profile_add(&measured, 0, stage, LULL_PIPELINE_FORWARD, 0,
                                                   &forward, NULL),
                         0);
        assert_int_equal(lull_pipeline_profile_add(&measured, 0, stage, LULL_PIPELINE_BACKWARD, 0,
                                                   &backward, NULL),
                         0);
    }
    assert_int_equal(
        lull_pipeline_schedule_build(&parallel->schedule, &shape, &measured, &fitted, &graph, NULL),
        0);
    duration_ns = malloc(graph.op_count * sizeof(*duration_ns));
    assert_non_null(duration_ns);
    for (size_t i = 0; i < graph.op_count; i++)
        duration_ns[i] = fitted.classes[graph.ops[i].class_index].points[0].time_ns;
    time_ns = lull_pipeline_earliest(&graph, duration_ns, NULL);
    free(duration_ns);
    lull_pipeline_graph_fini(&graph);
    lull_pipeline_profile_fini(&fitted);
    lull_pipeline_profile_fini(&measured);
    return time_ns;
}

/* No transfer is so long that the next one has to wait for the link. */
static void test_equal_to_pipelines(void **state)
{
    static const char *const schedules[] = {"gpipe",         "1f1b",  "1f1b-recompute",
                                            "interleaved:2", "zb-h1", "interleaved:3,4"};
    uint32_t compared = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(schedules) / sizeof(schedules[0]); i++)
        for (uint32_t devices = 1; devices <= 8; devices++)
            for (uint32_t m = devices; m <= 4 * devices; m += devices)
                for (int latency = 0; latency <= 9000; latency += 3000) {
                    struct lull_job_parallel parallel = make(schedules[i], devices, m);

                    if (strstr(schedules[i], ":3,4") != NULL && (m % 4 != 0 || devices != 4))
                        continue;
                    parallel.head_forward_ns = 1500;
                    parallel.head_backward_ns = 2500;
                    parallel.stage_link.latency_ns = latency;
                    assert_int_equal(iterate(&parallel, &highest).time_ns,
                                     pipeline_time_ns(&parallel));
                    compared++;
                }
    print_message("%u pipelines\n", compared);
    assert_true(compared > 500);
}

/* (p - 1) / (m + p - 1) of the time of 1F1B are bubbles; interleaved v times less. */
static void test_bubbles(void **state)
{
    struct lull_job_parallel parallel = make("1f1b", 8, 32);
    struct lull_job_iteration iteration = iterate(&parallel, &highest);

    (void)state;
    assert_true(fabs(iteration.bubble_ratio - 7.0 / 39.0) < 1e-9);
    assert_true(fabs(iteration.compute_ratio + iteration.exposed_ratio + iteration.bubble_ratio -
                     1.0) < 1e-12);
    assert_true(fabs(iteration.energy_j - 8e-9 * (32 * 31000 * 400.0 + 7 * 31000 * 90.0)) < 1e-9);
    parallel = make("interleaved:4", 8, 32);
    iteration = iterate(&parallel, &highest);
    assert_true(fabs(iteration.bubble_ratio - 7.0 / (4 * 32 + 7)) < 1e-9);
}

/* ---- communication ------------------------------------------------------------------------ */

static void test_tensor_parallel(void **state)
{
    struct lull_job_parallel parallel = make("1f1b", 1, 5);
    struct lull_job_iteration iteration;

    (void)state;
    const struct lull_job_link link = {10, 2.0};

    parallel.tensor = 4;
    /* A ring of four: 6 steps of 10 ns, 1.5 times the bytes. */
    assert_int_equal(lull_job_all_reduce_ns(&link, 1000.0, 4), 60 + 3000);
    parallel.forward_link_ns = 3 * 3060;
    parallel.backward_link_ns = 4 * 3060;
    iteration = iterate(&parallel, &highest);
    assert_int_equal(iteration.time_ns, 5 * (31000 + 7 * 3060));
    assert_true(fabs(iteration.exposed_ratio - 21420.0 / 52420.0) < 1e-12);
    assert_true(iteration.bubble_ratio == 0.0);
}

/* Collectives of a device need no tensor parallelism, those of gradients need copies. */
static void test_known_collectives(void **state)
{
    struct lull_job_parallel parallel = make("1f1b", 1, 5);
    struct lull_job_graph graph;

    (void)state;
    parallel.forward_link_ns = 100;
    parallel.backward_link_ns = 20;
    parallel.gradient_link_ns = 900; /* of one copy: nothing to reduce */
    assert_int_equal(iterate(&parallel, &highest).time_ns, 5 * (31000 + 120));
    parallel.data = 2;
    assert_int_equal(iterate(&parallel, &highest).time_ns, 5 * (31000 + 120) + 900);
    parallel.backward_link_ns = -1;
    assert_int_equal(lull_job_parallel_build(&parallel, &graph, NULL), -EINVAL);
}

/* Buckets are sent during the rest of the last backward; the part after it is exposed. */
static void test_data_parallel(void **state)
{
    struct lull_job_parallel parallel = make("1f1b", 1, 2);
    struct lull_job_iteration iteration;

    (void)state;
    parallel.data = 8;
    parallel.gradient_link_ns = 14000;
    parallel.optimizer_ns = 500;
    iteration = iterate(&parallel, &highest);
    assert_int_equal(iteration.time_ns, 2 * 31000 + 14000 + 500);
    parallel.buckets = 4;
    iteration = iterate(&parallel, &highest); /* each 3500 ns, a quarter of a backward is 5250 */
    assert_int_equal(iteration.time_ns, 2 * 31000 + 3500 + 500);
    assert_true(fabs(iteration.exposed_ratio - 3500.0 / 66000.0) < 1e-12);
    parallel.gradient_link_ns *= 2; /* 7000 ns: the link is busy from the first on */
    iteration = iterate(&parallel, &highest);
    assert_int_equal(iteration.time_ns, 31000 + 10000 + 5250 + 4 * 7000 + 500);
    parallel.is_gradient_late = true;
    iteration = iterate(&parallel, &highest);
    assert_int_equal(iteration.time_ns, 2 * 31000 + 28000 + 500);
}

/* Parameters come ahead of a forward, in pieces, or ahead of everything, one piece ahead. */
static void test_shared_parameters(void **state)
{
    struct lull_job_parallel parallel = make("1f1b", 1, 2);

    (void)state;
    parallel.data = 8;
    parallel.buckets = 10;
    parallel.parameter_link_ns = 20000;
    /* A piece of 2000 ns each 1000 ns of forward: nine pieces behind the first are waited for. */
    assert_int_equal(iterate(&parallel, &highest).time_ns, 20000 + 1000 + 21000 + 31000);
    parallel.parameter_link_ns = 5000;
    assert_int_equal(iterate(&parallel, &highest).time_ns, 500 + 2 * 31000);
    parallel.parameter_link_ns = 0;
    parallel.gather_link_ns = 5000;
    parallel.scatter_link_ns = 5000;
    /* Pieces of 500 ns; the last one's gradients stick out. */
    assert_int_equal(iterate(&parallel, &highest).time_ns, 500 + 2 * 31000 + 500);
    parallel.data = 1;
    assert_int_equal(iterate(&parallel, &highest).time_ns, 2 * 31000);
}

/* Input is read and copied beside the step, the host's gap comes behind it. */
static void test_host(void **state)
{
    struct lull_job_parallel parallel = make("1f1b", 2, 4);
    const int64_t step_ns = iterate(&parallel, &highest).time_ns;

    (void)state;
    parallel.input_ns = step_ns / 2;
    parallel.copy_ns = step_ns / 2;
    assert_int_equal(iterate(&parallel, &highest).time_ns, step_ns);
    parallel.copy_ns += 10;
    assert_int_equal(iterate(&parallel, &highest).time_ns, parallel.input_ns + parallel.copy_ns);
    parallel.gap_ns = 1000;
    assert_int_equal(iterate(&parallel, &highest).time_ns, step_ns + 1000);
}

/* Communication does not follow the clock. */
static void test_clocks(void **state)
{
    const struct lull_job_tempo half = {705, 2.0, 150.0, 1.0, 100.0, 70.0};
    struct lull_job_parallel parallel = make("1f1b", 4, 8);
    struct lull_job_iteration fast;
    struct lull_job_iteration slow;

    (void)state;
    parallel.tensor = 2;
    parallel.forward_link_ns = parallel.backward_link_ns = 5000;
    fast = iterate(&parallel, &highest);
    slow = iterate(&parallel, &half);
    /* 11 slots of a forward and a backward and their two calls. */
    assert_int_equal(fast.time_ns, 11 * (31000 + 10000));
    assert_int_equal(slow.time_ns, 11 * (62000 + 10000));
    assert_true(fabs(slow.energy_j / (4 * 2 * 1e-9) -
                     (8 * (62000 * 150.0 + 10000 * 100.0) + 3 * 72000 * 70.0)) < 1e-3);
}

static void test_points(void **state)
{
    static const struct lull_job_tempo tempo[] = {{1410, 1.0, 400.0, 1.0, 120.0, 90.0},
                                                  {1200, 1.175, 280.0, 1.0, 105.0, 80.0},
                                                  {1050, 1.343, 230.0, 1.0, 100.0, 75.0}};
    struct lull_job_parallel parallel = make("1f1b", 4, 8);
    struct lull_cluster_point points[3];
    struct lull_job_graph graph;

    (void)state;
    parallel.data = 2;
    assert_int_equal(lull_job_parallel_build(&parallel, &graph, NULL), 0);
    assert_int_equal(lull_job_parallel_points(&parallel, &graph, tempo, 3, 1000, 1, points), 3);
    assert_int_equal(points[0].time_ns, 1000 * iterate(&parallel, &tempo[0]).time_ns);
    assert_int_equal(points[0].gpus, 8);
    assert_int_equal(points[2].sm_mhz, 1050);
    assert_true(points[0].energy_j > points[1].energy_j && points[1].energy_j > points[2].energy_j);
    /* None takes 30 years. */
    assert_int_equal(lull_job_parallel_points(&parallel, &graph, tempo, 3, UINT64_MAX, 1, points),
                     0);
    lull_job_graph_fini(&graph);
}

/* ---- plans of the pipeline's own ---------------------------------------------------------- */

enum { CLOCKS = 12, POINTS = 24 };

/* The energy that mixing two operating points needs at this time; INFINITY: none is as fast. */
static double mixed_j(const struct lull_cluster_point *points, size_t count, int64_t time_ns)
{
    double best = (double)INFINITY;

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++) {
            const struct lull_cluster_point *fast = &points[i];
            const struct lull_cluster_point *slow = &points[k];

            if (fast->time_ns > time_ns)
                continue;
            best = fmin(best, fast->energy_j);
            if (slow->time_ns > time_ns)
                best = fmin(best, fast->energy_j + (slow->energy_j - fast->energy_j) *
                                                       (double)(time_ns - fast->time_ns) /
                                                       (double)(slow->time_ns - fast->time_ns));
        }
    return best;
}

/* No plan is below the relaxation's least energy for its time. */
static void check_bound(const struct lull_job_pipeline *pipeline,
                        const struct lull_cluster_point *plans, int64_t count)
{
    struct lull_frontier *frontier = lull_frontier_create(&pipeline->problem, NULL);

    assert_non_null(frontier);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(lull_frontier_seek(frontier, plans[i].time_ns / 10), 0);
        assert_true(plans[i].energy_j / 10.0 >=
                    lull_frontier_here(frontier).energy_j * (1.0 - 1e-9));
    }
    lull_frontier_destroy(frontier);
}

/* Clocks of its own for every operation are never more expensive than one clock for all, and where
 * stages differ and bubbles wait they are cheaper. */
static void check_plans(const char *schedule, double min_saving)
{
    struct lull_job_tempo tempo[CLOCKS];
    struct lull_cluster_point one_clock[CLOCKS];
    struct lull_cluster_point plans[POINTS];
    struct lull_job_parallel parallel = make(schedule, 4, 8);
    struct lull_job_pipeline pipeline;
    struct lull_job_graph graph;
    double most = 0.0;

    for (uint32_t i = 0; i < CLOCKS; i++) {
        const double ghz = 1.41 - 0.03 * i;
        const double volts = ghz > 1.1 ? 1.0 + 0.85 * (ghz - 1.1) : 1.0;

        tempo[i] = (struct lull_job_tempo){(uint32_t)lround(1000.0 * ghz),
                                           0.1 + 0.9 * 1.41 / ghz,
                                           40.0 + 320.0 * ghz / 1.41 * volts * volts,
                                           1.0,
                                           120.0,
                                           85.0};
    }
    parallel.forward_ns = 10000000;
    parallel.backward_ns = 20000000;
    parallel.head_forward_ns = 2000000;
    parallel.head_backward_ns = 4000000;
    parallel.tensor = 2;
    parallel.forward_link_ns = parallel.backward_link_ns = 1020000;
    assert_int_equal(lull_job_parallel_build(&parallel, &graph, NULL), 0);
    assert_int_equal(lull_job_parallel_points(&parallel, &graph, tempo, CLOCKS, 10, 0, one_clock),
                     CLOCKS);
    lull_job_graph_fini(&graph);
    assert_int_equal(lull_job_pipeline_init(&pipeline, &parallel, tempo, CLOCKS, NULL), 0);
    const int64_t count = lull_job_pipeline_points(&pipeline, POINTS, 10, 0, plans, NULL);

    assert_in_range(count, POINTS / 2, POINTS);
    for (int i = 0; i < CLOCKS; i++) {
        const double plan_j = mixed_j(plans, (size_t)count, one_clock[i].time_ns);

        assert_true(plan_j <= 1.001 * one_clock[i].energy_j);
        most = fmax(most, 1.0 - plan_j / one_clock[i].energy_j);
    }
    print_message("%s: at most %.1f %% less at the same time\n", schedule, 100.0 * most);
    assert_true(most >= min_saving);
    assert_int_equal(plans[0].gpus, 8);
    check_bound(&pipeline, plans, count);
    lull_job_pipeline_fini(&pipeline);
}

static void test_pipeline_plans(void **state)
{
    (void)state;
    check_plans("1f1b", 0.05);
    check_plans("interleaved:2", 0.02);
    check_plans("gpipe", 0.05);
}

/* Asserts that a change of one number is refused, and said to be. */
#define assert_build(expected, what, value)                                                        \
    do {                                                                                           \
        struct lull_job_parallel parallel = make("1f1b", 2, 4);                                    \
        struct lull_error err = {0};                                                               \
        struct lull_job_graph graph;                                                               \
        int rc;                                                                                    \
                                                                                                   \
        parallel.what = (value);                                                                   \
        rc = lull_job_parallel_build(&parallel, &graph, &err);                                     \
        if (rc != (expected) || (rc < 0) != (err.text[0] != '\0'))                                 \
            fail_msg("%s of %s: %d, \"%s\"", #what, #value, rc, err.text);                         \
        if (rc == 0)                                                                               \
            lull_job_graph_fini(&graph);                                                           \
    } while (0)

static void test_counts_and_times_in_range(void **state)
{
    (void)state;
    assert_build(-EINVAL, data, 0);
    assert_build(-EINVAL, tensor, 0);
    assert_build(-EINVAL, pipeline, 0);
    assert_build(-EINVAL, buckets, 0);
    assert_build(-EINVAL, forward_ns, 0);
    assert_build(-EINVAL, backward_ns, 0);
    assert_build(0, forward_ns, 1);
    assert_build(0, backward_ns, 1);
    assert_build(-EINVAL, head_forward_ns, -1);
    assert_build(-EINVAL, head_backward_ns, -1);
    assert_build(-EINVAL, optimizer_ns, -1);
    assert_build(-EINVAL, optimizer_ns, LULL_JOB_MAX_TASK_NS + 1);
    assert_build(-EINVAL, forward_link_ns, -1);
    assert_build(-EINVAL, backward_link_ns, -1);
    assert_build(-EINVAL, gradient_link_ns, -1);
    assert_build(-EINVAL, parameter_link_ns, -1);
    assert_build(-EINVAL, gather_link_ns, -1);
    assert_build(-EINVAL, scatter_link_ns, -1);
    assert_build(-EINVAL, gap_ns, -1);
    assert_build(-EINVAL, schedule.family, LULL_PIPELINE_DUALPIPEV);
}

static void test_sizes_and_links_in_range(void **state)
{
    const double max_bytes = 1e15;

    (void)state;
    assert_build(0, stage_bytes, max_bytes);
    assert_build(-EINVAL, stage_bytes, 2 * max_bytes);
    assert_build(-EINVAL, stage_bytes, -1.0);
    assert_build(0, stage_link.ns_per_byte, 1e6);
    assert_build(0, stage_link.latency_ns, LULL_JOB_MAX_TASK_NS);
    assert_build(-EINVAL, stage_link.latency_ns, LULL_JOB_MAX_TASK_NS + 1);
    assert_build(-EINVAL, stage_link.latency_ns, -1);
    assert_build(-EINVAL, stage_link.ns_per_byte, 2e6);
    assert_build(-EINVAL, stage_link.ns_per_byte, (double)NAN);
    assert_build(-EINVAL, stage_link.ns_per_byte, -1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_to_pipelines),
        cmocka_unit_test(test_bubbles),
        cmocka_unit_test(test_tensor_parallel),
        cmocka_unit_test(test_shared_parameters),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_known_collectives),
        cmocka_unit_test(test_data_parallel),
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_points),
        cmocka_unit_test(test_pipeline_plans),
        cmocka_unit_test(test_counts_and_times_in_range),
        cmocka_unit_test(test_sizes_and_links_in_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
