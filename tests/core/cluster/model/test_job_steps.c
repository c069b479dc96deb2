/*
 * Steps of large models against published ones, and the shares of their sections.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/cluster/model/job_parallel.h"

static const struct lull_job_tempo highest = {1410, 1.0, 400.0, 1.0, 120.0, 90.0};

struct step {
    const char *name;
    uint32_t hidden;
    uint32_t layers;
    uint32_t tensor;
    uint32_t pipeline;
    uint32_t data;
    uint32_t chunks;
    uint32_t batch; /* of all copies, sequences of 2048 */
    uint32_t micro_batch;
    bool is_all_recomputed;
    double published_s;
};

/* A link that reaches so much. */
static struct lull_job_link link_of(double gbs, int64_t latency_ns)
{
    return (struct lull_job_link){latency_ns, 1.0 / gbs};
}

static struct lull_job_iteration iterate(const struct step *step, bool is_h100, uint32_t vocabulary)
{
    const struct lull_job_transformer model = {
        .layers = step->layers,
        .hidden = step->hidden,
        .sequence = 2048,
        .vocabulary = vocabulary,
        .micro_batch = step->micro_batch,
        .is_all_recomputed = step->is_all_recomputed,
        .is_sequence_parallel = !step->is_all_recomputed,
    };
    struct lull_job_parallel parallel = {
        .data = step->data,
        .tensor = step->tensor,
        .pipeline = step->pipeline,
        .microbatches = step->batch / step->data / step->micro_batch,
        .schedule = {.family = step->chunks > 1 ? LULL_PIPELINE_INTERLEAVED : LULL_PIPELINE_1F1B,
                     .chunks = step->chunks},
        .buckets = 1,
        /* NVLink at 65 % of 300 and 450 GB/s, one port of 25 and 50 GB/s per GPU at 90 %. */
        .tensor_link = link_of(is_h100 ? 292.5 : 195.0, 1000),
        .stage_link = link_of(is_h100 ? 45.0 : 22.5, 20000),
        .data_link = link_of(is_h100 ? 45.0 : 22.5, 1000),
    };
    struct lull_job_iteration iteration;
    struct lull_job_graph graph;

    lull_job_transformer_fill(&model, is_h100 ? &lull_job_matrix_h100_fp8 : &lull_job_matrix_a100,
                              &parallel);
    assert_int_equal(lull_job_parallel_build(&parallel, &graph, NULL), 0);
    assert_int_equal(lull_job_iterate(&graph, parallel.pipeline,
                                      (uint64_t)parallel.data * parallel.tensor, &highest,
                                      &iteration),
                     0);
    lull_job_graph_fini(&graph);
    return iteration;
}

static void check(const struct step *steps, size_t count, bool is_h100, double least_error,
                  double most_error)
{
    for (size_t i = 0; i < count; i++) {
        const double step_s = (double)iterate(&steps[i], is_h100, 51200).time_ns * 1e-9;
        const double error = step_s / steps[i].published_s - 1.0;

        print_message("%-24s %8.3f s, published %8.3f: %+.1f %%\n", steps[i].name, step_s,
                      steps[i].published_s, 100.0 * error);
        assert_true(error >= least_error && error <= most_error);
    }
}

/* Korthikanti et al., table 5: the constants of the A100 are fitted to these eight. */
static void test_fitted(void **state)
{
    static const struct step steps[] = {
        {"22B, all again", 6144, 48, 8, 1, 1, 1, 4, 4, true, 1.42},
        {"22B", 6144, 48, 8, 1, 1, 1, 4, 4, false, 1.10},
        {"175B, all again", 12288, 96, 8, 8, 1, 3, 64, 1, true, 18.13},
        {"175B", 12288, 96, 8, 8, 1, 3, 64, 1, false, 13.75},
        {"530B, all again", 20480, 105, 8, 35, 1, 3, 280, 1, true, 49.05},
        {"530B", 20480, 105, 8, 35, 1, 3, 280, 1, false, 37.83},
        {"1T, all again", 25600, 128, 8, 64, 1, 1, 512, 1, true, 94.42},
        {"1T", 25600, 128, 8, 64, 1, 1, 512, 1, false, 71.49},
    };

    (void)state;
    check(steps, sizeof(steps) / sizeof(steps[0]), false, -0.03, 0.03);
}

/*
 * Narayanan et al., SC'21, table 1, nothing fitted: seconds from the published layouts and
 * operations per second. Micro-batches of one sequence. The two smallest, narrow products whose
 * other kernels are not modelled, are not claimed.
 */
static void test_held_out(void **state)
{
    static const struct step steps[] = {
        {"7.5B", 4096, 36, 4, 1, 32, 1, 512, 1, true, 3.7},
        {"18B", 6144, 40, 8, 1, 32, 1, 1024, 1, true, 9.4},
        {"39B", 8192, 48, 8, 2, 32, 1, 1536, 1, true, 14.5},
        {"76B", 10240, 60, 8, 4, 32, 3, 1792, 1, true, 16.1},
        {"145B", 12288, 80, 8, 8, 24, 2, 2304, 1, true, 24.8},
        {"310B", 16384, 96, 8, 16, 15, 2, 2160, 1, true, 37.6},
        {"530B, 2520 GPUs", 20480, 105, 8, 35, 9, 3, 2520, 1, true, 54.1},
        {"1T, 3072 GPUs", 25600, 128, 8, 64, 6, 1, 3072, 1, true, 102.6},
    };

    static const struct step small[] = {
        {"1.7B", 2304, 24, 1, 1, 32, 1, 512, 1, true, 3.5},
        {"3.6B", 3072, 30, 2, 1, 32, 1, 512, 1, true, 3.7},
    };

    (void)state;
    check(steps, sizeof(steps) / sizeof(steps[0]), false, -0.12, 0.08);
    check(small, sizeof(small) / sizeof(small[0]), false, -0.30, 0.0);
}

/*
 * GPT-3 175B in MLPerf on H100, fp8: one constant fitted to the second row. The run whose power was
 * recorded is another submitter's, 12 % slower than NVIDIA's of the same size.
 */
static void test_mlperf(void **state)
{
    static const struct step steps[] = {
        {"256 GPUs", 12288, 96, 4, 8, 8, 6, 2048, 2, false, 18.372},
        {"512 GPUs", 12288, 96, 4, 8, 16, 6, 2048, 2, false, 9.493},
    };
    static const struct step power_run = {
        "512 GPUs, power run", 12288, 96, 4, 8, 16, 12, 2048, 2, false, 10.638};

    (void)state;
    check(steps, sizeof(steps) / sizeof(steps[0]), true, -0.02, 0.02);
    check(&power_run, 1, true, -0.13, 0.0);
}

/*
 * Strong scaling is not claimed: with 8 or 16 micro-batches per copy the model is a fifth to a
 * quarter too fast (published steps are derived from throughput, evaluation included, which is up
 * to 11 % of that; what else grows with the number of GPUs is not modelled). Never too slow.
 */
static void test_strong_scaling(void **state)
{
    static const struct step steps[] = {
        {"4096 GPUs", 12288, 96, 4, 8, 128, 6, 2048, 1, false, 1.785},
        {"6144 GPUs", 12288, 96, 4, 8, 192, 6, 3072, 1, false, 1.805},
        {"8192 GPUs", 12288, 96, 4, 8, 256, 6, 4096, 1, false, 1.871},
        {"10240 GPUs", 12288, 96, 4, 8, 320, 6, 2560, 1, false, 1.062},
        {"10752 GPUs", 12288, 96, 4, 8, 336, 6, 2688, 1, false, 1.068},
    };

    (void)state;
    check(steps, sizeof(steps) / sizeof(steps[0]), true, -0.25, 0.0);
}

/* Bubbles and exposed data parallelism as Calculon's model has them, in per cent of the step.
 * It has no head of the model, which makes the last stage longer. Its tensor parallelism is up to
 * twice ours, which the published steps above speak for. */
static void test_shares(void **state)
{
    static const struct {
        struct step step;
        bool is_h100;
        double bubble_percent;
    } rows[] = {
        {{"13B PP4", 5120, 40, 4, 4, 4, 1, 1024, 2, false, 17.82}, false, 2.3},
        {{"13B PP8", 5120, 40, 2, 8, 4, 1, 1024, 1, false, 15.82}, false, 2.6},
        {{"175B PP8 v3", 12288, 96, 8, 8, 1, 3, 64, 1, false, 13.36}, false, 3.5},
        {{"175B PP8", 12288, 96, 8, 8, 16, 1, 1536, 1, false, 21.07}, false, 6.6},
        {{"175B PP16", 12288, 96, 8, 16, 8, 1, 1536, 1, false, 20.99}, false, 7.2},
        {{"175B H100", 12288, 96, 8, 8, 16, 1, 2048, 1, false, 11.76}, true, 5.1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct lull_job_iteration iteration = iterate(&rows[i].step, rows[i].is_h100, 0);

        print_message("%-12s bubble %.1f %%, Calculon %.1f; exposed %.1f %%\n", rows[i].step.name,
                      100.0 * iteration.bubble_ratio, rows[i].bubble_percent,
                      100.0 * iteration.exposed_ratio);
        assert_true(fabs(100.0 * iteration.bubble_ratio - rows[i].bubble_percent) <= 1.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fitted), cmocka_unit_test(test_held_out),
        cmocka_unit_test(test_mlperf), cmocka_unit_test(test_strong_scaling),
        cmocka_unit_test(test_shares),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
