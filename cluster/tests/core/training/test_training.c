/*
 * Power over a step, which adds up to its energy with every meter; the constant of a software,
 * found from a step. tests/cli/test_model_job.py compares the time of steps with a simulation.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cluster/core/training/training.h"
#include "cluster/core/training/training_power.h"

enum { BINS = 37 };

static const struct lull_job_tempo tempo[LULL_JOB_PARALLEL_WORKS] = {
    {1410, 1.0, 400.0, 1.0, 120.0, 90.0},
    {1410, 1.0, 350.0, 1.0, 120.0, 90.0},
    {1410, 1.0, 250.0, 1.0, 120.0, 90.0},
};

static struct lull_training_setup make(uint32_t pipeline, uint32_t chunks)
{
    return (struct lull_training_setup){
        .model = {.layers = 12,
                  .hidden = 2048,
                  .heads = 16,
                  .kv_heads = 16,
                  .feed_forward = 8192,
                  .vocabulary = 50000,
                  .sequence = 1024,
                  .is_causal = true},
        .matrix_ratio = 0.7,
        .gap_s = 0.02,
        .gpus = 16 * pipeline,
        .tensor = 2,
        .context = 1,
        .pipeline = pipeline,
        .chunks = chunks,
        .batch = 8 * 4 * pipeline,
        .micro_batch = 1,
        .sharding = LULL_TRAINING_OPTIMIZER,
    };
}

static void build(const struct lull_training_setup *job, struct lull_training_step *step,
                  struct lull_job_graph *graph)
{
    const struct lull_training_gpu *gpu = lull_training_gpu_find("A100-SXM4-80GB");

    assert_int_equal(lull_training_compose(job, gpu, step, NULL), 0);
    assert_int_equal(lull_job_parallel_build(&step->parallel, graph, NULL), 0);
}

static double mean(const double *watts)
{
    double sum = 0.0;

    for (int i = 0; i < BINS; i++)
        sum += watts[i];
    return sum / BINS;
}

static double spread(const double *watts)
{
    double least = INFINITY, most = 0.0;

    for (int i = 0; i < BINS; i++) {
        least = fmin(least, watts[i]);
        most = fmax(most, watts[i]);
    }
    return most - least;
}

/* With every window the mean over the step gives its energy. A
 * longer window shows less variation, and one of a whole step
 * none. */
static void check_power(uint32_t pipeline, uint32_t chunks)
{
    const struct lull_training_setup job = make(pipeline, chunks);
    struct lull_training_step step;
    struct lull_job_iteration once;
    struct lull_job_graph graph;
    double watts[BINS];
    double before = INFINITY;
    double gpu_w;

    build(&job, &step, &graph);
    assert_int_equal(lull_job_iterate(&graph, pipeline, job.gpus / pipeline, tempo, &once), 0);
    gpu_w = once.energy_j / ((double)once.time_ns * 1e-9) / job.gpus;
    for (int i = 0; i <= 4; i++) {
        assert_int_equal(
            lull_training_power(&graph, pipeline, tempo, once.time_ns * i / 4, BINS, watts), 0);
        assert_true(fabs(mean(watts) / gpu_w - 1.0) < 2e-3);
        assert_true(spread(watts) <= before + 0.5);
        before = spread(watts);
    }
    assert_true(before < 0.5);
    assert_int_equal(lull_training_power(&graph, pipeline, tempo, 0, BINS, watts), 0);
    /* The host's gap is the end of the step. */
    assert_true(watts[BINS - 1] < 0.7 * gpu_w);
    lull_job_graph_fini(&graph);
}

static void test_power(void **state)
{
    (void)state;
    check_power(1, 1);
    check_power(2, 1);
    check_power(4, 1);
    check_power(4, 3);
}

static void test_fit(void **state)
{
    const struct lull_training_gpu *gpu = lull_training_gpu_find("A100-SXM4-80GB");
    struct lull_training_setup job = make(2, 1);
    struct lull_training_step step;
    struct lull_job_iteration once;
    struct lull_job_graph graph;
    double found;

    (void)state;
    for (double ratio = 0.02; ratio < 1.5; ratio *= 1.7) {
        job.matrix_ratio = ratio;
        build(&job, &step, &graph);
        assert_int_equal(lull_job_iterate(&graph, 2, 1, tempo, &once), 0);
        lull_job_graph_fini(&graph);
        job.matrix_ratio = 1.0;
        assert_int_equal(lull_training_fit(&job, gpu, (double)once.time_ns * 1e-9, &found, NULL),
                         0);
        assert_true(fabs(found / ratio - 1.0) < 1e-3);
    }
    found = 7.0;
    assert_int_equal(lull_training_fit(&job, gpu, 1e-6, &found, NULL), -ERANGE);
    assert_int_equal(lull_training_fit(&job, gpu, 1e6, &found, NULL), -ERANGE);
    assert_true(found == 7.0);
}

static void test_factors(void **state)
{
    double before = 1.0;

    (void)state;
    for (double confidence = 0.1; confidence <= LULL_TRAINING_MAX_CONFIDENCE; confidence += 0.05) {
        const double factor = lull_training_factor(confidence);

        assert_true(factor >= before);
        assert_true(lull_training_energy_factor(confidence) > factor);
        before = factor;
    }
}

/* Each table has all that a prediction needs. */
static void test_tables(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < lull_training_gpu_count; i++) {
        const struct lull_training_gpu *gpu = &lull_training_gpus[i];

        assert_ptr_equal(lull_training_gpu_find(gpu->name), gpu);
        assert_true(gpu->flops[LULL_TRAINING_BF16] > 0.0 && gpu->memory_bytes_s > 0.0);
        assert_true(gpu->inside.ns_per_byte < gpu->between.ns_per_byte);
    }
    for (uint32_t i = 0; i < lull_training_software_count; i++) {
        const struct lull_training_software *software = &lull_training_softwares[i];

        assert_ptr_equal(lull_training_software_find(software->name), software);
        assert_true(software->matrix_ratio > 0.0 && software->matrix_ratio < 1.0);
        assert_true(software->fitted[0] != '\0');
    }
    assert_null(lull_training_gpu_find("abacus"));
    assert_null(lull_training_software_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_tables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
