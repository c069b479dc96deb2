/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../text_file.h"
#include "trace/analysis.h"

static void read_text(const char *text, struct lull_trace *trace)
{
    struct lull_error err = {0};

    if (lull_trace_read(text_file(text, strlen(text)), NULL, trace, &err) != 0)
        fail_msg("%s", err.text);
}

static void test_everything_of_a_kernel(void **state)
{
    struct lull_trace trace;
    const struct lull_trace_kernel *kernel;

    (void)state;
    read_text("{\"distributedInfo\": {\"rank\": 3, \"world_size\": 8},"
              " \"deviceProperties\": [{\"id\": 0, \"name\": \"first\"},"
              " {\"name\": \"NVIDIA A100\", \"id\": 2}],"
              " \"baseTimeNanoseconds\": 1700000000000000000,"
              " \"traceEvents\": [{\"args\": {\"dtype\": \"BFloat16\", \"In msg nelems\": 1000,"
              " \"device\": 2, \"stream\": 7, \"correlation\": 11, \"External id\": 12,"
              " \"Group size\": 4, \"Collective name\": \"_allgather_base\","
              " \"Process Group Name\": \"tp\", \"grid\": [1, 1, 1]},"
              " \"dur\": 2.5, \"ts\": 1682725898236567.123, \"cat\": \"Kernel\","
              " \"name\": \"ncclDevKernel_Generic(x)\", \"ph\": \"X\"},"
              " {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\","
              " \"ts\": 5, \"dur\": 1, \"args\": {\"correlation\": 11}}]}",
              &trace);
    assert_int_equal(trace.kernel_count, 1);
    kernel = &trace.kernels[0];
    assert_true(kernel->begin_ns == 1682725898236567123);
    assert_true(kernel->end_ns == 1682725898236569623);
    assert_string_equal(kernel->operation, "allgather");
    assert_int_equal(kernel->bytes, 2000);
    assert_int_equal(kernel->ranks, 4);
    assert_int_equal(kernel->device, 2);
    assert_int_equal(kernel->stream, 7);
    assert_string_equal(lull_trace_string(&trace, kernel->name), "ncclDevKernel_Generic(x)");
    assert_string_equal(lull_trace_string(&trace, kernel->group), "tp");
    assert_string_equal(trace.gpu, "NVIDIA A100");
    assert_int_equal(trace.rank, 3);
    assert_int_equal(trace.world_size, 8);
    assert_non_null(lull_trace_find_launch(&trace, 11));
    assert_int_equal(lull_trace_find_launch(&trace, 11)->begin_ns, 5000);
    assert_null(lull_trace_find_launch(&trace, 12));
    lull_trace_fini(&trace);
}

static void test_what_is_unknown(void **state)
{
    struct lull_trace trace;

    (void)state;
    read_text("[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"ts\":1,\"dur\":1},"
              "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"no end\",\"ts\":1},"
              "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"before\",\"ts\":-1,\"dur\":1},"
              "{\"ph\":\"B\",\"cat\":\"kernel\",\"name\":\"other\",\"ts\":1,\"dur\":1},"
              "7, [8], \"nine\", {}]",
              &trace);
    assert_int_equal(trace.kernel_count, 1);
    assert_int_equal(trace.unusable_kernels, 2);
    assert_null(trace.kernels[0].operation);
    assert_true(trace.kernels[0].bytes == LULL_TRACE_UNKNOWN);
    assert_true(trace.kernels[0].correlation == LULL_TRACE_UNKNOWN);
    assert_true(trace.rank == LULL_TRACE_UNKNOWN && trace.world_size == LULL_TRACE_UNKNOWN);
    assert_string_equal(trace.gpu, "");
    lull_trace_fini(&trace);
}

/* One event leaves nothing behind for the next. */
static void test_events_do_not_mix(void **state)
{
    struct lull_trace trace;

    (void)state;
    read_text(
        "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"nccl\",\"ts\":1,\"dur\":1,"
        "\"args\":{\"Collective name\":\"allreduce\",\"stream\":3}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclX\",\"ts\":3,\"dur\":1}, {\"ts\":9}]",
        &trace);
    assert_int_equal(trace.kernel_count, 2);
    assert_string_equal(trace.kernels[0].operation, "allreduce");
    assert_string_equal(trace.kernels[1].operation, "communication");
    assert_true(trace.kernels[1].stream == LULL_TRACE_UNKNOWN);
    lull_trace_fini(&trace);
}

static void test_operations(void **state)
{
    static const struct {
        const char *kernel;
        const char *operation;
    } cases[] = {
        {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "allreduce"},
        {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter"},
        {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", "sendrecv"},
        {"NCCL_BROADCAST", "broadcast"},
        {"ncclKernel_Reduce_RING", "reduce"},
        {"ncclWhatever", "communication"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        struct lull_trace trace;

        snprintf(text, sizeof(text),
                 "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"%s\",\"ts\":1,\"dur\":1}]",
                 cases[i].kernel);
        read_text(text, &trace);
        assert_string_equal(trace.kernels[0].operation, cases[i].operation);
        lull_trace_fini(&trace);
    }
}

/* A prologue of two, then this many iterations of three operations, 10 ms each. */
static void test_iterations_without_marks(void **state)
{
    enum { ITERATIONS = 20, LARGEST = 64 << 10 };
    static const char *const names[] = {"AllReduce", "AllGather", "SendRecv"};
    char *const text = malloc(LARGEST);
    int length = snprintf(text, LARGEST, "[{}");
    struct lull_analysis analysis;
    struct lull_trace trace;

    (void)state;
    for (int i = -2; i < 3 * ITERATIONS; i++)
        length += snprintf(text + length, (size_t)(LARGEST - length),
                           ",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"nccl%s\",\"ts\":%d,"
                           "\"dur\":1000}",
                           i < 0 ? "Broadcast" : names[i % 3], 20000 + i * 10000 / 3);
    snprintf(text + length, (size_t)(LARGEST - length), "]");
    read_text(text, &trace);
    assert_int_equal(lull_analysis_init(&trace, &analysis, NULL), 0);
    assert_int_equal(analysis.iterations, ITERATIONS);
    assert_true(analysis.iteration_ms > 9.999 && analysis.iteration_ms < 10.001);
    assert_false(analysis.has_marks);
    assert_int_equal(analysis.section_count, 4);
    lull_analysis_fini(&analysis);
    lull_trace_fini(&trace);
    free(text);
}

static void test_marks(void **state)
{
    struct lull_analysis analysis;
    struct lull_trace trace;

    (void)state;
    read_text("[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"ts\":1,\"dur\":1},"
              "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#7\",\"ts\":30,"
              "\"dur\":10},"
              "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#6\",\"ts\":10,"
              "\"dur\":20},"
              "{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":\"ProfilerStep#7\",\"ts\":31,"
              "\"dur\":90}]",
              &trace);
    assert_int_equal(trace.step_count, 2);
    assert_int_equal(trace.steps[0].number, 6);
    assert_int_equal(lull_analysis_init(&trace, &analysis, NULL), 0);
    assert_int_equal(analysis.iterations, 2);
    assert_true(analysis.iteration_ms > 0.01499 && analysis.iteration_ms < 0.01501);
    assert_true(analysis.has_marks);
    lull_analysis_fini(&analysis);
    lull_trace_fini(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_of_a_kernel),   cmocka_unit_test(test_what_is_unknown),
        cmocka_unit_test(test_events_do_not_mix),        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_iterations_without_marks), cmocka_unit_test(test_marks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
