/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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
    assert_int_equal(trace.gpu_count, 1);
    assert_int_equal(trace.gpus[0].device, 2);
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
    assert_int_equal(trace.kernel_count, 2); /* one at 1 us, one 2 us before it */
    assert_int_equal(trace.kernels[1].begin_ns - trace.kernels[0].begin_ns, 2000);
    assert_int_equal(trace.kernels[0].begin_ns, 0);
    assert_int_equal(trace.loss.no_times, 1);
    assert_int_equal(trace.loss.unpaired, 1);
    assert_int_equal(lull_trace_unusable_kernels(&trace.loss), 2);
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

/* ---- traces as people bring them ---- */

/* An event of a kernel on GPU 0; times in us. */
#define KERNEL(NAME, BEGIN, LENGTH, STREAM, MORE)                                                  \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" NAME "\",\"pid\":0,\"tid\":" STREAM             \
    ",\"ts\":" BEGIN ",\"dur\":" LENGTH ",\"args\":{\"device\":0,\"stream\":" STREAM MORE "}}"
#define LAUNCH(BEGIN, CORRELATION)                                                                 \
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":9,\"tid\":9,"    \
    "\"ts\":" BEGIN ",\"dur\":1,\"args\":{\"correlation\":" CORRELATION "}}"

static uint64_t kernels_of(const char *text, struct lull_trace_loss *loss_out)
{
    struct lull_trace trace;
    uint64_t count;

    read_text(text, &trace);
    count = trace.kernel_count;
    *loss_out = trace.loss;
    lull_trace_fini(&trace);
    return count;
}

static void test_impossible_times(void **state)
{
    struct lull_trace_loss loss;

    (void)state;
    /* Without a time, and at time 0 in a trace that counts from 1970. */
    assert_int_equal(
        kernels_of("[" KERNEL("a", "1700000000000000", "5", "7", "") "," KERNEL(
                       "b", "0", "0", "7", "") "," KERNEL("c", "0", "5", "7",
                                                          "") "," KERNEL("d", "1700000000000010",
                                                                         "5", "7", "") "]",
                   &loss),
        2);
    assert_int_equal(loss.no_times, 2);
    /* Negative, of all 64 bits, longer than an hour, and no number at all. */
    assert_int_equal(
        kernels_of("[" KERNEL("a", "1", "-3", "7", "") "," KERNEL(
                       "b", "18446744073709551615", "5", "7",
                       "") "," KERNEL("c", "1", "9223372036854775807", "7",
                                      "") "," KERNEL("d", "1", "3600000001", "8",
                                                     "") "," KERNEL("e", "NaN", "5", "7",
                                                                    "") "," KERNEL("f", "9", "5",
                                                                                   "7", "") "]",
                   &loss),
        1);
    assert_int_equal(loss.no_times, 5);
    /* 5 ms before its launch; 0.5 ms may be a difference between clocks. */
    assert_int_equal(
        kernels_of(
            "[" LAUNCH("10000", "1") "," LAUNCH("20000", "2") "," KERNEL(
                "a", "5000", "5", "7",
                ",\"correlation\":1") "," KERNEL("b", "19500", "5", "7",
                                                 ",\"correlation\":2") "," KERNEL("c", "30000", "5",
                                                                                  "7",
                                                                                  ",\"correlation\""
                                                                                  ":3") "]",
            &loss),
        2);
    assert_int_equal(loss.before_launch, 1);
    /* If most are, the clocks differ. */
    assert_int_equal(
        kernels_of(
            "[" LAUNCH("10000", "1") "," LAUNCH("20000", "2") "," KERNEL(
                "a", "5000", "5", "7",
                ",\"correlation\":1") "," KERNEL("b", "15000", "5", "7",
                                                 ",\"correlation\":2") "," KERNEL("c", "30000", "5",
                                                                                  "7",
                                                                                  ",\"correlation\""
                                                                                  ":3") "]",
            &loss),
        3);
    assert_int_equal(loss.before_launch, 0);
    /* By another clock, an hour away. */
    assert_int_equal(
        kernels_of("[" KERNEL("a", "1000", "5", "7", "") "," KERNEL(
                       "b", "2000", "5", "7", "") "," KERNEL("c", "3600002000", "5", "7", "") "]",
                   &loss),
        2);
    assert_int_equal(loss.other_clock, 1);
}

/* A stream runs one kernel at a time, except those of one graph. */
static void test_overruns(void **state)
{
    static const char *const text =
        "[" KERNEL("a", "0", "90000", "7", ",\"correlation\":1") "," KERNEL("b", "10000", "5", "7", ",\"correlation\":2") "," KERNEL(
            "c", "20000", "5", "7",
            ",\"correlation\":3") "," KERNEL("d", "30000", "5000", "8",
                                             ",\"correlation\":4") "," KERNEL("e", "31000", "5",
                                                                              "8",
                                                                              ",\"correlation\""
                                                                              ":4") "," KERNEL("f",
                                                                                               "400"
                                                                                               "00",
                                                                                               "5",
                                                                                               "8",
                                                                                               ",\""
                                                                                               "cor"
                                                                                               "rel"
                                                                                               "ati"
                                                                                               "on"
                                                                                               "\":"
                                                                                               "5") "]";
    struct lull_trace trace;

    (void)state;
    read_text(text, &trace);
    assert_int_equal(trace.kernel_count, 6);
    assert_int_equal(trace.loss.cut, 1);
    assert_int_equal(trace.kernels[0].end_ns, 10000000);
    assert_int_equal(trace.kernels[3].end_ns, 35000000);
    lull_trace_fini(&trace);
}

static void test_twice(void **state)
{
    struct lull_trace_loss loss;

    (void)state;
    assert_int_equal(kernels_of("[" KERNEL("a", "1", "5", "7", "") "," KERNEL(
                                    "a", "1", "5", "7", "") "," KERNEL("a", "1", "5", "8", "") "]",
                                &loss),
                     2);
    assert_int_equal(loss.doubled, 1);
}

static void test_several_gpus(void **state)
{
    static const char *const text =
        "[{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#0\",\"pid\":\"[C] 9\","
        "\"ts\":7,\"dur\":9},"
        "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#0\",\"pid\":\"[B] 9\","
        "\"ts\":6,\"dur\":9},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":\"[A] 0\",\"ts\":3,\"dur\":1,"
        "\"args\":{\"device\":0}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"b\",\"pid\":\"[B] 0\",\"ts\":1,\"dur\":1,"
        "\"args\":{\"device\":0}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"c\",\"pid\":\"[B] 1\",\"ts\":2,\"dur\":1,"
        "\"args\":{\"device\":1}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"d\",\"pid\":\"[B] 1\",\"ts\":8,\"dur\":1}]";
    static const uint64_t kernels[] = {1, 1, 2};
    struct lull_trace trace;

    (void)state;
    read_text(text, &trace);
    assert_int_equal(trace.gpu_count, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct lull_trace one = lull_trace_of_gpu(&trace, i);

        assert_int_equal(one.kernel_count, kernels[i]);
        assert_int_equal(one.step_count, i > 0); /* the marks of its own rank */
    }
    lull_trace_fini(&trace);
}

static void test_other_profilers(void **state)
{
    static const char *const texts[] = {
        /* a list of categories */
        "[{\"ph\":\"X\",\"cat\":\"gpu,kernel\",\"name\":\"a\",\"ts\":1,\"dur\":1}]",
        "[{\"ph\":\"X\",\"cat\":\"gpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":1}]",
        "[{\"ph\":\"X\",\"cat\":\"cuda\",\"tid\":\"Stream 7\",\"name\":\"a\",\"ts\":1,\"dur\":1},"
        "{\"ph\":\"X\",\"cat\":\"cuda\",\"tid\":\"Thread 7\",\"name\":\"a\",\"ts\":1,\"dur\":1}]",
        /* XLA: the lines beside the streams hold the same again */
        "[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"/device:GPU:0\"}},"
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,"
        "\"args\":{\"name\":\"Stream #13(Compute)\"}},"
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":3,\"args\":{\"name\":\"XLA "
        "Ops\"}},"
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":7,\"args\":{\"name\":\"/host:CPU\"}},"
        "{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"name\":\"fusion\",\"ts\":1,\"dur\":1},"
        "{\"ph\":\"X\",\"pid\":1,\"tid\":3,\"name\":\"fusion\",\"ts\":0,\"dur\":9},"
        "{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"name\":\"MemcpyD2H\",\"ts\":2,\"dur\":1},"
        "{\"ph\":\"X\",\"pid\":7,\"tid\":2,\"name\":\"Execute\",\"ts\":1,\"dur\":9}]",
        /* rocmProfileData */
        "[ "
        "{}\n,{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":\"0\",\"args\":{\"name\":\"GPU0\"}}\n"
        ",{\"pid\":\"0\",\"tid\":\"2\",\"name\":\"Cijk\",\"ts\":\"1\",\"dur\":\"1\",\"ph\":\"X\","
        "\"args\":{\"desc\":\"KernelExecution\"}}\n"
        ",{\"pid\":\"0\",\"tid\":\"2\",\"name\":\"CopyHostToDevice\",\"ts\":\"3\",\"dur\":\"1\","
        "\"ph\":\"X\",\"args\":{\"desc\":\"CopyHostToDevice\"}}\n"
        ",{\"pid\":\"0\",\"tid\":\"2\",\"name\":\"step\",\"ts\":\"0\",\"dur\":\"9\",\"ph\":\"X\","
        "\"args\":{\"desc\":\"UserMarker frame: 2 ops\"}}\n]",
        /* pairs of begin and end */
        "[{\"ph\":\"B\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":0,\"tid\":7,\"ts\":1},"
        "{\"ph\":\"B\",\"cat\":\"range\",\"name\":\"r\",\"pid\":0,\"tid\":8,\"ts\":1},"
        "{\"ph\":\"E\",\"pid\":0,\"tid\":8,\"ts\":9},{\"ph\":\"E\",\"pid\":0,\"tid\":7,\"ts\":2}]",
        "[{\"ph\":\"b\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":0,\"id\":3,\"ts\":1},"
        "{\"ph\":\"b\",\"cat\":\"range\",\"name\":\"r\",\"pid\":0,\"id\":4,\"ts\":1},"
        "{\"ph\":\"e\",\"pid\":0,\"id\":3,\"ts\":2},{\"ph\":\"e\",\"pid\":0,\"id\":4,\"ts\":9}]",
        /* plain numbers that are not JSON */
        "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"ts\":+1,\"dur\":1.}]",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct lull_trace trace;

        read_text(texts[i], &trace);
        assert_int_equal(trace.kernel_count, 1);
        assert_int_equal(trace.kernels[0].begin_ns, 1000);
        assert_int_equal(trace.kernels[0].end_ns, 2000);
        lull_trace_fini(&trace);
    }
}

static void test_pairs_that_do_not_match(void **state)
{
    struct lull_trace_loss loss;

    (void)state;
    assert_int_equal(
        kernels_of("[{\"ph\":\"E\",\"cat\":\"kernel\",\"pid\":0,\"tid\":7,\"ts\":1},"
                   "{\"ph\":\"B\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":0,\"tid\":7,\"ts\":3},"
                   "{\"ph\":\"E\",\"pid\":0,\"tid\":7,\"ts\":2},"
                   "{\"ph\":\"B\",\"cat\":\"kernel\",\"name\":\"b\",\"pid\":0,\"tid\":7,\"ts\":4}]",
                   &loss),
        0);
    assert_int_equal(loss.unpaired, 2);
    assert_int_equal(loss.no_times, 1);
}

static void test_text_that_is_no_json(void **state)
{
    static const struct {
        const char *text;
        uint64_t kernels;
        uint64_t events;
        bool has_no_end;
    } cases[] = {
        /* quotes without escapes */
        {"[{\"ph\":\"X\",\"name\":\"{\"a\": 1}(2): run\",\"args\":{\"b\":{}}},\n" KERNEL(
             "a", "1", "1", "7", "") "]",
         1, 1, false},
        /* an event of which the rest is missing, and its last quote */
        {"[{\"ph\":\"X\",\"cat\":\"kernel\",\"ts\":1,\n" KERNEL("a", "1", "1", "7", "") "]", 1, 1,
         false},
        {"[{\"ph\":\"X\",\"name\":\"ge\n" KERNEL("a", "1", "1", "7", "") "]", 1, 1, false},
        {"[" KERNEL("a", "1", "1", "7", "") " " KERNEL("b", "2", "1", "7", "") "]", 2, 1, false},
        /* the last event */
        {"{\"traceEvents\":[" KERNEL("a", "1", "1", "7", "") ",{\"ph\" 1}]}", 1, 1, true},
        /* no end, and commas before one */
        {"[" KERNEL("a", "1", "1", "7", "") ",\n", 1, 0, true},
        {"{\"traceEvents\":[" KERNEL("a", "1", "1", "7", "") "\n", 1, 0, true},
        {"{\"traceEvents\":[" KERNEL("a", "1", "1", "7", "") "]", 1, 0, true},
        {"{\"x\":[1,],\"traceEvents\":[" KERNEL("a", "1", "1", "7", "") ",],}", 1, 0, false},
        /* words for numbers */
        {"[{\"ph\":\"C\",\"args\":{\"a\":None,\"b\":0x1f,\"c\":-nan(ind),\"d\":.5,\"e\":+1}}"
         "," KERNEL("a", "1", "1", "7", "") "]",
         1, 0, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_trace_loss loss;

        assert_int_equal(kernels_of(cases[i].text, &loss), cases[i].kernels);
        assert_int_equal(loss.events, cases[i].events);
        assert_int_equal(loss.has_no_end, cases[i].has_no_end);
    }
}

/* Texts of several buffers: an event with a fault, wherever it lies, costs no other. */
static void test_faults_in_a_long_text(void **state)
{
    enum { EVENTS = 20000, FAULTY = 1000, EVENT_BYTES = 256 };
    static const char *const faults[] = {
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a \"b\" c\",\"ts\":1,\"dur\":1}",
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a",
        "{\"ph\":\"X\",\"args\":{\"a\":[1,{\"b\":2]}}"};
    const size_t size = (size_t)EVENTS * EVENT_BYTES;
    char *const text = malloc(size);
    size_t length = 0;
    struct lull_trace_loss loss;

    (void)state;
    assert_non_null(text);
    for (int i = 0; i < EVENTS; i++)
        if (i % FAULTY == FAULTY / 2)
            length += (size_t)snprintf(text + length, size - length, "%s%s", i == 0 ? "[" : ",\n",
                                       faults[i / FAULTY % 3]);
        else
            length += (size_t)snprintf(text + length, size - length,
                                       "%s" KERNEL("%0*d", "%d", "1", "7", ""),
                                       i == 0 ? "[" : ",\n", 1 + i % 90, i, 2 * i + 1);
    snprintf(text + length, size - length, "]");
    assert_int_equal(kernels_of(text, &loss), EVENTS - EVENTS / FAULTY);
    assert_int_equal(loss.events, EVENTS / FAULTY);
    free(text);
}

/* The fault is seen behind the end of the reader's buffer (512 KiB), and the next event begins
 * before it. */
static void test_a_fault_across_buffers(void **state)
{
    enum { BUFFER_BYTES = 1 << 19, ROOM = 1024 };
    static const char begin[] = "[{\"ph\":\"M\",\"name\":\"";
    static const char end[] = "\"},\n{\"ph\":\"X\",\"name\":\"half\n";
    char *const text = malloc(BUFFER_BYTES + ROOM);

    (void)state;
    assert_non_null(text);
    for (size_t place = BUFFER_BYTES - 4; place < BUFFER_BYTES + 4;
         place++) { /* of the next event */
        struct lull_trace_loss loss;

        memset(text, 'x', place);
        memcpy(text, begin, strlen(begin));
        strcpy(text + place - strlen(end), end);
        strcpy(text + place, KERNEL("a", "1", "1", "7", "") "]");
        assert_int_equal(kernels_of(text, &loss), 1);
        assert_int_equal(loss.events, 1);
    }
    free(text);
}

static void refuse_text(const char *text, size_t size, const char *words)
{
    struct lull_error err = {0};
    struct lull_trace trace;

    if (lull_trace_read(text_file(text, size), NULL, &trace, &err) == 0) {
        assert_int_equal(lull_trace_require_kernels(&trace, &err), LULL_E_FORMAT);
        lull_trace_fini(&trace);
    }
    if (strstr(err.text, words) == NULL)
        fail_msg("%s does not say \"%s\"", err.text, words);
}

static void test_refusals(void **state)
{
    static const char utf_16[] = "\xff\xfe[\0]";
    static const char *const cases[][2] = {
        {"{\"name\":\"x\"}", "neither \"traceEvents\""},
        {"[1, 2]", "neither \"traceEvents\""},
        {"{\"traceEvents\":[]}", "its list of events is empty"},
        {"{\"schema\":\"1.1\",\"nodes\":[{}]}", "execution trace"},
        {"{\"rocprofiler-sdk-tool\":[]}", "rocprofv3"},
        {"[{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy HtoD\",\"ts\":1,\"dur\":1}]",
         "only copies"},
        {"[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"Memset\",\"ts\":1,\"dur\":1}]",
         "only copies"},
        {"[{\"ph\":\"X\",\"cat\":\"odd\",\"name\":\"a\",\"ts\":1,\"dur\":1}]",
         "of category odd; kernel is wanted"},
        {"[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":1}]",
         "ProfilerActivity.CUDA"},
        {"[{\"ph\":\"B\",\"name\":\"ALLREDUCE\",\"ts\":1},{\"ph\":\"E\",\"ts\":2},\n", "Horovod"},
        {"[{\"ph\":\"b\",\"cat\":\"COLL\",\"args\":{\"t\":ncclFloat}}]", "NCCL's profiler"},
        {"[" KERNEL("a", "1", "-1", "7", "") "]", "impossible"},
        {"[" KERNEL("a", "1", "1", "7", "") ",{\"ph\":", "1 kernels could be read"},
        {"[" KERNEL("a", "1", "1", "7", "") "]\n[]", "second document"},
        {"[" KERNEL("a", "1", "1", "7", "") ",{\"ph\": \"user_ann: \"X\"},\n" KERNEL("a", "1", "1",
                                                                                     "7", "") "]",
         "several ranks"},
        {"[" KERNEL("a", "1", "1", "7",
                    "") ",{\"ph\": \"X{\"schemaVersion\": 1},\n" KERNEL("b", "2", "1", "7", "") "]",
         "several ranks"},
    };

    (void)state;
    refuse_text(utf_16, sizeof(utf_16) - 1, "UTF-16");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        refuse_text(cases[i][0], strlen(cases[i][0]), cases[i][1]);
}

/* A timeline of operations is known by its threads, wherever in the file they are named. */
static void test_what_is_a_timeline(void **state)
{
    static const char operation[] =
        "{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"name\":\"mine\",\"ts\":-5,\"dur\":1,"
        "\"args\":{\"step\":0}}";
    static const char thread[] = "{\"ph\":\"M\",\"pid\":0,\"tid\":1,\"name\":\"thread_name\","
                                 "\"args\":{\"name\":\"PP rank 0, TP rank 0, compute\"}}";
    struct lull_trace trace;
    char text[1024];

    (void)state;
    snprintf(text, sizeof(text), "{\"x\":\"%0300d\",\"traceEvents\":[%s,%s]}", 0, operation,
             thread);
    read_text(text, &trace);
    assert_non_null(trace.timeline);
    lull_trace_fini(&trace);
    snprintf(text, sizeof(text),
             "[{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":"
             "\"forward-compute\",\"ts\":1,\"dur\":1}," KERNEL("a", "1", "1", "7", "") "]");
    read_text(text, &trace);
    assert_null(trace.timeline);
    assert_int_equal(trace.kernel_count, 1);
    lull_trace_fini(&trace);
}

static void test_names(void **state)
{
    static const char *const communicate[] = {
        "void mori::moe::EpDispatchIntraNodeKernel<__hip_bfloat16>(mori::moe::Args<int>)",
        "EpCombineInterNodeV1Kernel",
        "void pplx::(anonymous namespace)::dispatchKernel<4>(int)",
        "a2a_combine_recv_kernel",
        "deep_ep::elastic::dispatch_impl<8>",
        "nixl_ep::ep::dispatch",
        "void uccl::ep::internode::dispatch<4>(int*)",
        "moeA2ACombineKernel",
        "tensorrt_llm::kernels::mnnvl::oneshotAllreduceFusionKernel<8>",
        "flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<8>",
        "void c10d::symmetric_memory::(anonymous namespace)::reduce_scatter_kernel<float>",
        "void (anonymous namespace)::multimem_one_shot_reduce_kernel<float>",
        "void barrier_kernel(unsigned int**, int)",
        "put_signal_kernel",
        "c10d::nvshmem_x::f",
        "void nvshmemi_transfer<1>()",
        "kernel_ring_reduce_scatter",
        "all_gather_push_2d",
        "oneccl_allreduce_base<float, 2>",
        "_ZTS20oneccl_allreduce_baseIfLi2EE",
        "void mscclpp::executionKernel<LL16Packet>(int)",
        "mscclKernel_Sum_half",
        "_Z21ncclDevKernel_GenericPv",
        "_ZN7deep_ep9intranode8dispatchILi8EEEvPi",
        "hcom_send",
        "rcclGenericKernel",
        "Memcpy PtoP (Device -> Device)",
    };
    static const char *const compute[] = {
        "smallReduceKernel<float>",
        "void callReduceKernel(int)",
        "parallelReduceKernel",
        "void internode::something_else",
        "gemm_nvls_epilogue",
        "void fused_with_nccl_style(int)",
        "void at::native::reduce_kernel<512, 1>",
        "my_barrier_kernel",
        "barrier_kernel_of_mine",
        "all_gather_gemm_fused",
        "block_all_reduce_sum",
        "void f<ncclDataType_t>(int)",
        "void at::native::elementwise_kernel<nccl::op>(ncclFunc)",
        "combine_heads",
        "dispatch",
    };
    struct lull_trace_loss loss;
    char text[512];

    (void)state;
    for (size_t i = 0; i < sizeof(communicate) / sizeof(communicate[0]); i++) {
        struct lull_trace trace;

        snprintf(text, sizeof(text), "[" KERNEL("%s", "1", "1", "7", "") "]", communicate[i]);
        read_text(text, &trace);
        if (trace.kernels[0].operation == NULL)
            fail_msg("%s communicates", communicate[i]);
        lull_trace_fini(&trace);
    }
    for (size_t i = 0; i < sizeof(compute) / sizeof(compute[0]); i++) {
        struct lull_trace trace;

        snprintf(text, sizeof(text), "[" KERNEL("%s", "1", "1", "7", "") "]", compute[i]);
        read_text(text, &trace);
        if (trace.kernels[0].operation != NULL)
            fail_msg("%s computes", compute[i]);
        lull_trace_fini(&trace);
    }
    kernels_of("[" KERNEL("block_all_reduce_sum", "1", "1", "7", "") "]", &loss);
    assert_int_equal(loss.likely, 1);
    assert_int_equal(
        kernels_of("[" KERNEL("__amd_rocclr_copyBuffer", "1", "1", "7", "") "]", &loss), 0);
    assert_int_equal(loss.copies, 1);
}

/* Thirty layers that communicate alike are no iterations, unless sizes distinguish them or they
 * take as long as iterations do. */
static void test_layers_are_no_iterations(void **state)
{
    static const struct {
        const char *args; /* of the communication */
        int length_us;
        uint64_t iterations;
    } cases[] = {
        {"", 1000, 0},
        {"", 50000, 0},
        {",\"In msg nelems\":9,\"dtype\":\"Int\"", 1000, 0},
        {",\"In msg nelems\":9,\"dtype\":\"Int\"", 50000, 30},
    };
    enum { LARGEST = 64 << 10 };
    char *const text = malloc(LARGEST);

    (void)state;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        int length = snprintf(text, LARGEST, "[{}");
        struct lull_analysis analysis;
        struct lull_trace trace;

        for (int i = 0; i < 30; i++)
            length += snprintf(text + length, (size_t)(LARGEST - length),
                               "," KERNEL("ncclAllReduce", "%d", "10", "7", "%s"),
                               i * cases[c].length_us, cases[c].args);
        snprintf(text + length, (size_t)(LARGEST - length), "]");
        read_text(text, &trace);
        assert_int_equal(lull_analysis_init(&trace, &analysis, NULL), 0);
        assert_int_equal(analysis.iterations, cases[c].iterations);
        lull_analysis_fini(&analysis);
        lull_trace_fini(&trace);
    }
    free(text);
}

/* The span of a GPU is at least as long as the marked iterations, wherever the CPU marked them. */
static void test_span_of_marks(void **state)
{
    static const struct {
        const char *begin;
        const char *length;
        int64_t span_ns;
    } cases[] = {{"0", "400", 400000},
                 {"100", "400", 400000},
                 {"140", "90", 100000},
                 {"0", "100", 100000},
                 {"160", "400", 400000}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_analysis analysis;
        struct lull_trace trace;
        char text[512];

        snprintf(text, sizeof(text),
                 "[{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":"
                 "\"ProfilerStep#1\",\"ts\":%s,\"dur\":%s}," KERNEL(
                     "a", "150", "90", "7", "") "," KERNEL("nccl", "240", "10", "20", "") "]",
                 cases[i].begin, cases[i].length);
        read_text(text, &trace);
        assert_int_equal(lull_analysis_init(&trace, &analysis, NULL), 0);
        assert_int_equal(analysis.exposure.span_ns, cases[i].span_ns);
        assert_int_equal(analysis.exposure.idle_ns, cases[i].span_ns - 100000);
        lull_analysis_fini(&analysis);
        lull_trace_fini(&trace);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_of_a_kernel),
        cmocka_unit_test(test_what_is_unknown),
        cmocka_unit_test(test_events_do_not_mix),
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_iterations_without_marks),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_impossible_times),
        cmocka_unit_test(test_overruns),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_several_gpus),
        cmocka_unit_test(test_other_profilers),
        cmocka_unit_test(test_pairs_that_do_not_match),
        cmocka_unit_test(test_text_that_is_no_json),
        cmocka_unit_test(test_faults_in_a_long_text),
        cmocka_unit_test(test_a_fault_across_buffers),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_what_is_a_timeline),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_layers_are_no_iterations),
        cmocka_unit_test(test_span_of_marks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
