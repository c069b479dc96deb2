/*
 * The NCCL profiler plugin, called through the ABI of each version: its reports to
 * the governor, and its robustness against known behaviour and violations of NCCL.
 *   test_nccl_profiler PLUGIN CHAINED_PLUGIN
 * Each case runs in a child process, because the plugin joins its job once per process.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "wire/event.h"

#include "../wire/job_fixture.h"
#include "nccl_chained.h"
#include "nccl_driver.h"

enum { THREADS = 8, CALLS = 100, OPERATIONS = 8192, PAIRS = 16384, COMMUNICATORS = 1024 };

/* In a child, a broken expectation is its exit status: the line. */
#define expect(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "version %d, line %d: not so: %s\n", driver.version, __LINE__,         \
                    #condition);                                                                   \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* The GPU's timer, as far from ours as it likes. */
#define GPU_AHEAD_NS INT64_C(123456789012345)

static const char *plugin_path;
static const char *chained_path;
static struct nccl_driver driver;
static struct fixture *job; /* shared with the child */
static int nccl_version;    /* reported by the stub libnccl */

/* The plugin asks the library that called it, which is this program. */
int ncclGetVersion(int *version);

__attribute__((visibility("default"))) int ncclGetVersion(int *version)
{
    *version = nccl_version;
    return 0;
}

static uint64_t gpu_now_ns(void)
{
    return (uint64_t)(lull_now_ns() + GPU_AHEAD_NS);
}

static void ask(uint32_t what)
{
    for (uint32_t slot = 0; slot < 4; slot++)
        lull_event_segment_ask(job->job, slot, what);
}

static int run_child(const char *job_path, int version, void (*body)(void))
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        if (job_path != NULL)
            setenv(LULL_JOB_ENV, job_path, 1);
        else
            unsetenv(LULL_JOB_ENV);
        if (nccl_open(&driver, plugin_path, version) < 0) {
            fprintf(stderr, "%s\n", dlerror());
            _exit(2);
        }
        body();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void in_child(struct fixture *fixture, int version, void (*body)(void))
{
    job = fixture;
    assert_int_equal(run_child(fixture->path, version, body), 0);
}

/* ---- reports ---- */

/* Kernels in the order of their first edge. */
static uint32_t kernel_number(uint32_t tag)
{
    static uint32_t tags[4096];
    static uint32_t count;
    uint32_t i;

    if (tag == UINT32_MAX) {
        count = 0;
        return 0;
    }
    for (i = 0; i < count && tags[i] != tag; i++)
        continue;
    if (i == count && count < 4096)
        tags[count++] = tag;
    return i;
}

static void describe(const struct fixture *fixture, uint32_t slot, const struct lull_event *event,
                     char *text, size_t size)
{
    const char *operation = lull_operation_name((enum lull_operation)event->operation);
    char name[LULL_JOB_NAME_BYTES];

    lull_event_segment_name(fixture->job, slot, event->name, name);
    switch (event->kind) {
    case LULL_EVENT_COMMUNICATOR:
        snprintf(text, size, "communicator %u: rank %d of %u on %u '%s'\n", event->communicator,
                 event->peer, event->ranks, (uint32_t)event->bytes, name);
        break;
    case LULL_EVENT_ENQUEUE:
        snprintf(text, size, "%u enqueue %s %u peer %d of %u\n", event->communicator, operation,
                 (uint32_t)event->bytes, event->peer, event->ranks);
        break;
    case LULL_EVENT_KERNEL_BEGIN:
    case LULL_EVENT_KERNEL_END:
        snprintf(text, size, "%u %s %s %u peer %d of %u #%u\n", event->communicator,
                 event->kind == LULL_EVENT_KERNEL_BEGIN ? "begin" : "end", operation,
                 (uint32_t)event->bytes, event->peer, event->ranks, kernel_number(event->thread));
        break;
    default:
        snprintf(text, size, "kind %u?\n", event->kind);
    }
}

static const char *reported(struct fixture *fixture, uint32_t slot)
{
    static char text[16384];
    struct lull_event event;
    size_t length = 0;

    text[0] = '\0';
    kernel_number(UINT32_MAX);
    while (lull_event_segment_read(fixture->job, slot, &event, 1) == 1 &&
           length < sizeof(text) - 256) {
        describe(fixture, slot, &event, text + length, sizeof(text) - length);
        length += strlen(text + length);
    }
    return text;
}

/* Counts events by kind; checks that edges come in pairs and in order. */
static void count_events(struct fixture *fixture, uint32_t slot, uint32_t *counts)
{
    static uint8_t edges[1 << 16];
    static int64_t begins_ns[1 << 16];
    struct lull_event event;

    memset(edges, 0, sizeof(edges));
    while (lull_event_segment_read(fixture->job, slot, &event, 1) == 1) {
        uint8_t *edge = &edges[event.thread & 0xffff];

        assert_true(event.kind <= LULL_EVENT_COMMUNICATOR);
        counts[event.kind]++;
        assert_true(event.time_ns <= lull_now_ns());
        if (event.kind == LULL_EVENT_KERNEL_BEGIN) {
            assert_int_equal((*edge)++, 0);
            begins_ns[event.thread & 0xffff] = event.time_ns;
        } else if (event.kind == LULL_EVENT_KERNEL_END) {
            assert_int_equal((*edge)++, 1);
            assert_true(event.time_ns >= begins_ns[event.thread & 0xffff]);
        }
    }
}

/* ---- the ordinary course ---- */

static void *open_communicator(int *mask)
{
    void *context = NULL;

    expect(nccl_init_as(&driver, &context, mask, "DATA_PARALLEL_GROUP:1", 2, 8, 3) == 0);
    expect(context != NULL);
    return context;
}

static int calls_mask(void)
{
    return driver.version < 5 ? NCCL_COLL | NCCL_P2P : NCCL_COLL_API | NCCL_P2P_API;
}

/* One call and its task, whose handle it returns. */
static void *enqueue(void *context, uint64_t type, const struct nccl_word *function, size_t count,
                     const struct nccl_word *datatype, int peer, uint8_t channels)
{
    void *call = NULL;
    void *task;

    if (driver.version > 4) {
        call = nccl_start_call(&driver, context, type == NCCL_COLL ? NCCL_COLL_API : NCCL_P2P_API,
                               NULL, function, count, datatype, peer, 0);
        expect(call != NULL);
        driver.table->stop(call);
    }
    task = nccl_start_task(&driver, context, type, call, function, count, datatype, peer, channels);
    expect(task != NULL);
    driver.table->stop(task);
    return task;
}

/* Both channels begin, wait, and end in the other order. */
static void run_kernel(void *context, void *task)
{
    const uint64_t begin = gpu_now_ns();
    void *first;
    void *second;

    if (driver.version < 3)
        return;
    first = nccl_start_kernel(&driver, context, task, 0, begin);
    second = nccl_start_kernel(&driver, context, task, 63, begin + 1);
    expect(first != NULL && second != NULL);
    nccl_stop_kernel(&driver, second, begin + 20);
    nccl_stop_kernel(&driver, first, begin + 10);
}

static void ordinary(void)
{
    int mask = -1;
    void *context;

    ask(LULL_ASK_TIMES);
    context = open_communicator(&mask);
    expect(mask == (calls_mask() | (driver.version > 2 ? NCCL_KERNEL_CH : 0)));
    run_kernel(context, enqueue(context, NCCL_COLL, &nccl_all_reduce, 1000, &nccl_float32, 0, 2));
    run_kernel(context, enqueue(context, NCCL_COLL, &nccl_broadcast, 10, &nccl_bfloat16, 5, 2));
    run_kernel(context, enqueue(context, NCCL_P2P, &nccl_send, 7, &nccl_float32, 4, 2));
    expect(driver.table->finalize(context) == 0);
}

static void tells_of_each_version(void **state)
{
    static const char *const from_v4 = "communicator 0: rank 3 of 8 on 2 'DATA_PARALLEL_GROUP:1'\n"
                                       "0 enqueue allreduce 4000 peer -1 of 8\n"
                                       "0 begin allreduce 4000 peer -1 of 8 #0\n"
                                       "0 end allreduce 4000 peer -1 of 8 #0\n"
                                       "0 enqueue broadcast 20 peer 5 of 8\n"
                                       "0 begin broadcast 20 peer 5 of 8 #1\n"
                                       "0 end broadcast 20 peer 5 of 8 #1\n"
                                       "0 enqueue send 28 peer %d of 8\n"
                                       "0 begin send 28 peer 4 of 8 #2\n"
                                       "0 end send 28 peer 4 of 8 #2\n";
    static const char *const to_v2 = "communicator 0: rank -1 of 0 on 0 ''\n"
                                     "0 enqueue allreduce 4000 peer -1 of 0\n"
                                     "0 enqueue broadcast 20 peer 5 of 0\n"
                                     "0 enqueue send 28 peer 4 of 0\n";
    static const char *const of_v3 = "communicator 0: rank -1 of 0 on 0 ''\n"
                                     "0 enqueue allreduce 4000 peer -1 of 0\n"
                                     "0 begin allreduce 4000 peer -1 of 0 #0\n"
                                     "0 end allreduce 4000 peer -1 of 0 #0\n"
                                     "0 enqueue broadcast 20 peer 5 of 0\n"
                                     "0 begin broadcast 20 peer 5 of 0 #1\n"
                                     "0 end broadcast 20 peer 5 of 0 #1\n"
                                     "0 enqueue send 28 peer 4 of 0\n"
                                     "0 begin send 28 peer 4 of 0 #2\n"
                                     "0 end send 28 peer 4 of 0 #2\n";
    char expected[2048];

    for (int version = 1; version <= NCCL_VERSIONS; version++) {
        tear_down(state);
        set_up(state);
        in_child(*state, version, ordinary);
        if (version < 4)
            snprintf(expected, sizeof(expected), "%s", version < 3 ? to_v2 : of_v3);
        else
            snprintf(expected, sizeof(expected), from_v4, version == 4 ? 4 : -1);
        assert_string_equal(reported(*state, 0), expected);
    }
}

static void timed(void)
{
    const struct timespec pause = {.tv_nsec = 6000000};
    int mask;
    void *context = open_communicator(&mask);

    for (int i = 0; i < 3; i++) {
        void *task = enqueue(context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 1);
        const uint64_t begin = gpu_now_ns();
        void *kernel = nccl_start_kernel(&driver, context, task, 5, begin);

        nanosleep(&pause, NULL);
        nccl_stop_kernel(&driver, kernel, begin + 5000000);
    }
}

/* The channel that ends last is not reported last. */
static void timed_by_two(void)
{
    int mask;
    void *context = open_communicator(&mask);
    void *task = enqueue(context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 2);
    const uint64_t begin = gpu_now_ns() - 10000000;
    void *first = nccl_start_kernel(&driver, context, task, 0, begin);
    void *second = nccl_start_kernel(&driver, context, task, 17, begin + 1000);
    const struct timespec pause = {.tv_nsec = 6000000};

    nanosleep(&pause, NULL);
    nccl_stop_kernel(&driver, second, begin + 5000000);
    nccl_stop_kernel(&driver, first, begin + 4000000);
}

/* A host that is late sees one channel after the other. */
static void timed_late(void)
{
    int mask;
    void *context = open_communicator(&mask);
    void *task = enqueue(context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 3);
    const uint64_t begin = gpu_now_ns();
    const struct timespec pause = {.tv_nsec = 6000000};

    for (uint8_t channel = 0; channel < 3; channel++) {
        void *kernel = nccl_start_kernel(&driver, context, task, channel, begin);

        expect(kernel != NULL);
        if (channel == 2)
            nanosleep(&pause, NULL);
        nccl_stop_kernel(&driver, kernel, begin + (channel < 2 ? 1000000 : 5000000));
    }
}

static int read_any(struct fixture *fixture, struct lull_event *event_out)
{
    for (uint32_t slot = 0; slot < lull_event_segment_process_count(fixture->job); slot++)
        if (lull_event_segment_read(fixture->job, slot, event_out, 1) == 1)
            return 1;
    return 0;
}

/* Lengths are exact; the start is known as well as the quickest observation allows. */
static void times_of_the_gpu_become_ours(void **state)
{
    for (int version = 4; version <= NCCL_VERSIONS; version++) {
        struct fixture *fixture;
        struct lull_event event;
        const int64_t before_ns = lull_now_ns();
        int64_t begin_ns = 0;
        uint32_t edges = 0;

        tear_down(state);
        set_up(state);
        fixture = *state;
        in_child(fixture, version, timed);
        in_child(fixture, version, timed_by_two);
        in_child(fixture, version, timed_late);
        while (read_any(fixture, &event)) {
            if (event.kind == LULL_EVENT_KERNEL_BEGIN) {
                assert_true(event.time_ns > before_ns && event.time_ns < lull_now_ns());
                begin_ns = event.time_ns;
            } else if (event.kind == LULL_EVENT_KERNEL_END) {
                assert_int_equal(event.time_ns - begin_ns, 5000000);
                edges++;
            }
        }
        assert_int_equal(edges, 5);
    }
}

/* ---- the mask ---- */

static void mask_follows(void)
{
    const int kernels = driver.version > 2 ? NCCL_KERNEL_CH : 0;
    int mask = 0;
    void *context = open_communicator(&mask);
    void *task;
    void *kernel;

    expect(mask == calls_mask());
    ask(LULL_ASK_TIMES | LULL_ASK_COMPUTE);
    task = enqueue(context, NCCL_COLL, &nccl_all_gather, 3, &nccl_float32, 0, 1);
    expect(mask == (calls_mask() | kernels));
    kernel = nccl_start_kernel(&driver, context, task, 0, gpu_now_ns());
    ask(LULL_ASK_COMPUTE);
    enqueue(context, NCCL_COLL, &nccl_all_gather, 3, &nccl_float32, 0, 1);
    expect(mask == calls_mask());
    nccl_stop_kernel(&driver, kernel, gpu_now_ns()); /* begun before */
    mask = 4095;                                     /* another program's options stays */
    enqueue(context, NCCL_COLL, &nccl_all_gather, 3, &nccl_float32, 0, 1);
    expect(mask == 4095);
}

static void the_mask_follows_what_is_asked(void **state)
{
    for (int version = 1; version <= NCCL_VERSIONS; version++) {
        uint32_t counts[LULL_EVENT_COMMUNICATOR + 1] = {0};

        tear_down(state);
        set_up(state);
        in_child(*state, version, mask_follows);
        count_events(*state, 0, counts);
        assert_int_equal(counts[LULL_EVENT_ENQUEUE], 3);
        assert_int_equal(counts[LULL_EVENT_KERNEL_BEGIN], 1);
        assert_int_equal(counts[LULL_EVENT_KERNEL_END], 1);
    }
}

static void kernels_are_not_timed(void)
{
    int mask = 0;

    ask(LULL_ASK_TIMES);
    open_communicator(&mask);
    expect(mask == calls_mask());
}

static void nccl_2_31_is_not_asked_for_kernels(void **state)
{
    nccl_version = 23102;
    in_child(*state, 7, kernels_are_not_timed);
    in_child(*state, 5, kernels_are_not_timed);
    nccl_version = 0; /* unknown */
    in_child(*state, 7, kernels_are_not_timed);
    nccl_version = 23000;
}

/* ---- what should not happen ---- */

static void wrong_arguments(void)
{
    char descriptor[NCCL_DESCRIPTOR_BYTES];
    uint64_t arguments = 0;
    int mask;
    void *context = open_communicator(&mask);
    void *unknown = NULL;
    void *handle = &mask;

    expect(nccl_init_as(&driver, NULL, &mask, NULL, 1, 1, 0) == 0);
    expect(nccl_init_as(&driver, &unknown, NULL, NULL, 1, 1, 0) == 0 && unknown != NULL);
    nccl_describe(&driver, descriptor, NCCL_GROUP, NULL);
    expect(nccl_start(&driver, unknown, descriptor) == NULL);
    expect(nccl_start(&driver, NULL, descriptor) == NULL);
    expect(nccl_start(&driver, &mask, descriptor) == NULL);
    for (int i = 1; i < 128; i++)
        expect(nccl_start(&driver, (char *)context + i, descriptor) == NULL);
    expect(nccl_start(&driver, context, descriptor) != NULL);
    expect(driver.table->start(context, NULL, descriptor) == 0);
    expect(driver.table->start(context, &handle, NULL) == 0 && handle == NULL);
    for (uint64_t type = 0; type < 256; type++) {
        nccl_describe(&driver, descriptor, type, NULL);
        if (type != NCCL_GROUP && type != NCCL_COLL && type != NCCL_P2P)
            expect(nccl_start(&driver, context, descriptor) == NULL);
    }
    for (uintptr_t garbage = 0; garbage < 4096; garbage++) {
        expect(driver.table->stop((void *)garbage) == 0);
        expect(driver.table->stop((void *)~garbage) == 0);
        expect(driver.table->record((void *)garbage, NCCL_KERNEL_CH_STOP, &arguments) == 0);
        expect(driver.table->record((void *)~garbage, NCCL_KERNEL_CH_STOP, NULL) == 0);
    }
    expect(driver.table->stop(context) == 0 && driver.table->stop(&mask) == 0);
    expect(driver.table->record(&mask, NCCL_GROUP_START_API_STOP, NULL) == 0);
    expect(driver.table->finalize(NULL) == 0 && driver.table->finalize(&mask) == 0);
    expect(driver.table->finalize(unknown) == 0);
    enqueue(context, NCCL_COLL, &nccl_all_reduce, 2, &nccl_float32, 0, 1);
}

static void wrong_arguments_do_nothing(void **state)
{
    for (int version = 1; version <= NCCL_VERSIONS; version++) {
        tear_down(state);
        set_up(state);
        in_child(*state, version, wrong_arguments);
        assert_non_null(strstr(reported(*state, 0), "0 enqueue allreduce 8 peer -1"));
    }
}

/* The documented one: a CollApi handle is stopped again when the mask is off. */
static void stops_again(void)
{
    const uint64_t begin = gpu_now_ns();
    int mask;
    void *context = open_communicator(&mask);
    void *task = enqueue(context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 2);
    void *first = nccl_start_kernel(&driver, context, task, 0, begin);
    void *second = nccl_start_kernel(&driver, context, task, 1, begin);

    expect(nccl_start_kernel(&driver, context, task, 1, begin) == NULL); /* runs already */
    expect(nccl_start_kernel(&driver, context, task, 64, begin) == NULL);
    driver.table->stop(task);
    driver.table->stop(task);
    for (int i = 0; i < 3; i++)
        nccl_stop_kernel(&driver, first, begin + 1);
    ask(LULL_ASK_COMPUTE); /* not ended yet: only one of two channels is */
    enqueue(context, NCCL_COLL, &nccl_all_reduce, 2, &nccl_float32, 0, 2);
    for (int i = 0; i < 3; i++)
        nccl_stop_kernel(&driver, second, begin + 2);
    expect(nccl_start_kernel(&driver, context, task, 2, begin) == NULL); /* is over */
}

static void a_second_stop_does_nothing(void **state)
{
    for (int version = 3; version <= NCCL_VERSIONS; version++) {
        const char *text;
        const char *end;

        tear_down(state);
        set_up(state);
        in_child(*state, version, stops_again);
        text = reported(*state, 0);
        end = strstr(text, "end allreduce 4 ");
        assert_non_null(end);
        assert_null(strstr(end + 1, "end allreduce 4 "));
        assert_true(end > strstr(text, "enqueue allreduce 8 "));
    }
}

/* Kernels of operations that are unknown, forgotten or another's. */
static void stale_parents(void)
{
    static void *later[OPERATIONS];
    const uint64_t begin = gpu_now_ns();
    int mask;
    void *context = open_communicator(&mask);
    void *task = enqueue(context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 1);
    void *open = enqueue(context, NCCL_COLL, &nccl_all_reduce, 2, &nccl_float32, 0, 1);
    void *kernel = nccl_start_kernel(&driver, context, open, 0, begin);

    expect(nccl_start_kernel(&driver, context, NULL, 0, begin) == NULL);
    expect(nccl_start_kernel(&driver, context, &mask, 0, begin) == NULL);
    expect(nccl_start_kernel(&driver, context, (char *)&mask + 1, 0, begin) == NULL);
    expect(nccl_start_kernel(&driver, context, kernel, 0, begin) == NULL);
    for (uintptr_t garbage = 0; garbage < 1024; garbage++)
        expect(nccl_start_kernel(&driver, context, (void *)garbage, 0, begin) == NULL);
    for (int i = 0; i < OPERATIONS; i++)
        later[i] = nccl_start_task(&driver, context, NCCL_COLL, NULL, &nccl_all_reduce, 3,
                                   &nccl_float32, 0, 1);
    expect(nccl_start_kernel(&driver, context, task, 0, begin) == NULL);
    nccl_stop_kernel(&driver, kernel, begin + 1);
    driver.table->stop(task);
    for (int i = 0; i < OPERATIONS; i++) /* none has suffered from it */
        expect(nccl_start_kernel(&driver, context, later[i], 0, begin) != NULL);
}

static void kernels_of_forgotten_operations_are_dropped(void **state)
{
    for (int version = 3; version <= NCCL_VERSIONS; version++) {
        uint32_t counts[LULL_EVENT_COMMUNICATOR + 1] = {0};

        tear_down(state);
        set_up(state);
        in_child(*state, version, stale_parents);
        count_events(*state, 0, counts);
        assert_true(counts[LULL_EVENT_KERNEL_BEGIN] > 0);
        assert_int_equal(counts[LULL_EVENT_KERNEL_END], 0);
    }
}

static void foreign(void)
{
    int mask;
    void *context = open_communicator(&mask);

    expect(nccl_start_proxy_op(&driver, context, (void *)(uintptr_t)0x7f0000000001, 1) == NULL);
    expect(nccl_start_proxy_op(&driver, (void *)(uintptr_t)0x7f0000000000, NULL, 1) == NULL);
    expect(nccl_start_proxy_op(&driver, context, NULL, getpid()) == NULL); /* not wanted */
}

static void proxy_operations_of_others_are_left_alone(void **state)
{
    for (int version = 1; version <= NCCL_VERSIONS; version++) {
        tear_down(state);
        set_up(state);
        in_child(*state, version, foreign);
    }
}

static void implausible(void)
{
    const uint64_t begin = gpu_now_ns();
    int mask;
    void *context = open_communicator(&mask);
    void *task = enqueue(context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 1);
    void *kernel = nccl_start_kernel(&driver, context, task, 0, begin);

    nccl_stop_kernel(&driver, kernel, begin - 1000); /* of an overwritten record */
    task = enqueue(context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 1);
    kernel = nccl_start_kernel(&driver, context, task, 0, 0);
    nccl_stop_kernel(&driver, kernel, 0);
    task = enqueue(context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 1);
    kernel = nccl_start_kernel(&driver, context, task, 0, begin + 1);
    nccl_stop_kernel(&driver, kernel, UINT64_MAX / 4);
    task = enqueue(context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 1);
    kernel = nccl_start_kernel(&driver, context, task, 0, gpu_now_ns());
    driver.table->record(kernel, NCCL_KERNEL_CH_STOP, NULL);
}

static void implausible_times_still_make_pairs(void **state)
{
    for (int version = 4; version <= NCCL_VERSIONS; version++) {
        uint32_t counts[LULL_EVENT_COMMUNICATOR + 1] = {0};

        tear_down(state);
        set_up(state);
        in_child(*state, version, implausible);
        count_events(*state, 0, counts);
        assert_int_equal(counts[LULL_EVENT_KERNEL_BEGIN], 4);
        assert_int_equal(counts[LULL_EVENT_KERNEL_END], 4);
    }
}

/* ---- the life of communicators ---- */

static void many_communicators(void)
{
    void *contexts[COMMUNICATORS + 2];
    void *again = NULL;
    int mask;

    for (int i = 0; i < COMMUNICATORS + 2; i++)
        contexts[i] = open_communicator(&mask);
    for (int i = 0; i < COMMUNICATORS; i++)
        for (int other = i + 1; other < COMMUNICATORS; other += 100)
            expect(contexts[i] != contexts[other]);
    expect(nccl_start_task(&driver, contexts[COMMUNICATORS], NCCL_COLL, NULL, &nccl_all_reduce, 1,
                           &nccl_float32, 0, 1) == NULL);
    driver.table->finalize(contexts[COMMUNICATORS]);
    driver.table->finalize(contexts[7]);
    again = open_communicator(&mask);
    expect(again == contexts[7]);
    driver.table->finalize(contexts[8]);
    driver.table->finalize(contexts[8]); /* twice */
    enqueue(again, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 1);
}

static void communicators_run_out_and_come_back(void **state)
{
    uint32_t counts[LULL_EVENT_COMMUNICATOR + 1] = {0};

    in_child(*state, 6, many_communicators);
    count_events(*state, 0, counts);
    assert_int_equal(counts[LULL_EVENT_COMMUNICATOR], COMMUNICATORS + 1);
    assert_int_equal(counts[LULL_EVENT_ENQUEUE], 1);
}

static void *work(void *barrier)
{
    static int mask; /* NCCL's is one for all */
    void *context;

    pthread_barrier_wait(barrier);
    context = open_communicator(&mask);
    for (int i = 0; i < CALLS; i++)
        run_kernel(context, enqueue(context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 2));
    driver.table->finalize(context);
    return NULL;
}

static void concurrent(void)
{
    pthread_barrier_t barrier;
    pthread_t threads[THREADS];

    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, &barrier);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void eight_threads_at_once(void **state)
{
    for (int version = 3; version <= NCCL_VERSIONS; version += 2) {
        uint32_t counts[LULL_EVENT_COMMUNICATOR + 1] = {0};

        tear_down(state);
        set_up(state);
        in_child(*state, version, concurrent);
        count_events(*state, 0, counts);
        assert_int_equal(counts[LULL_EVENT_COMMUNICATOR], THREADS);
        assert_int_equal(counts[LULL_EVENT_ENQUEUE], THREADS * CALLS);
        assert_int_equal(counts[LULL_EVENT_KERNEL_BEGIN], THREADS * CALLS);
        assert_int_equal(counts[LULL_EVENT_KERNEL_END], THREADS * CALLS);
    }
}

/* One application thread enqueues, another reports the kernels; the channels end on two threads.
 */
struct relay {
    void *context;
    void *_Atomic tasks[CALLS];
    void *_Atomic kernels[CALLS];
};

static void *tell_kernels(void *argument)
{
    struct relay *relay = argument;

    for (int i = 0; i < CALLS; i++) {
        const uint64_t begin = gpu_now_ns();
        void *task;
        void *kernel;

        while ((task = relay->tasks[i]) == NULL)
            sched_yield();
        kernel = nccl_start_kernel(&driver, relay->context, task, 1, begin);
        relay->kernels[i] = nccl_start_kernel(&driver, relay->context, task, 2, begin);
        nccl_stop_kernel(&driver, kernel, begin + 10);
    }
    return NULL;
}

static void *end_kernels(void *argument)
{
    struct relay *relay = argument;

    for (int i = 0; i < CALLS; i++) {
        void *kernel;

        while ((kernel = relay->kernels[i]) == NULL)
            sched_yield();
        nccl_stop_kernel(&driver, kernel, gpu_now_ns());
    }
    return NULL;
}

static void relayed(void)
{
    static struct relay relay;
    pthread_t teller;
    pthread_t ender;
    int mask;

    relay.context = open_communicator(&mask);
    pthread_create(&teller, NULL, tell_kernels, &relay);
    pthread_create(&ender, NULL, end_kernels, &relay);
    for (int i = 0; i < CALLS; i++)
        relay.tasks[i] =
            enqueue(relay.context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 2);
    pthread_join(teller, NULL);
    pthread_join(ender, NULL);
}

static void kernels_are_told_by_other_threads(void **state)
{
    uint32_t counts[LULL_EVENT_COMMUNICATOR + 1] = {0};

    in_child(*state, 7, relayed);
    count_events(*state, 0, counts);
    assert_int_equal(counts[LULL_EVENT_KERNEL_BEGIN], CALLS);
    assert_int_equal(counts[LULL_EVENT_KERNEL_END], CALLS);
}

static void ends_early(void)
{
    int mask;
    void *context = open_communicator(&mask);
    void *task = enqueue(context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 1);
    void *other = enqueue(context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 1);
    const uint64_t begin = gpu_now_ns();
    void *kernel = nccl_start_kernel(&driver, context, task, 0, begin);

    driver.table->finalize(context);
    dlclose(driver.library);
    expect(nccl_start_kernel(&driver, context, other, 0, begin) == NULL);
    expect(nccl_start_task(&driver, context, NCCL_COLL, NULL, &nccl_all_reduce, 1, &nccl_float32, 0,
                           1) == NULL);
    nccl_stop_kernel(&driver, kernel, begin + 1);
    driver.table->finalize(context);
}

static void what_is_open_at_the_end_still_ends(void **state)
{
    for (int version = 3; version <= NCCL_VERSIONS; version++) {
        uint32_t counts[LULL_EVENT_COMMUNICATOR + 1] = {0};

        tear_down(state);
        set_up(state);
        in_child(*state, version, ends_early);
        count_events(*state, 0, counts);
        assert_int_equal(counts[LULL_EVENT_ENQUEUE], 2);
        assert_int_equal(counts[LULL_EVENT_KERNEL_BEGIN], 1);
        assert_int_equal(counts[LULL_EVENT_KERNEL_END], 1);
    }
}

static void exits(void)
{
    int mask;
    void *context = open_communicator(&mask);

    enqueue(context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 1);
    exit(0);
}

static void a_process_may_end_without_finalize(void **state)
{
    in_child(*state, 5, exits);
    assert_non_null(strstr(reported(*state, 0), "enqueue allreduce 4"));
}

static void forks(void)
{
    int mask;
    int status = 0;
    void *context = open_communicator(&mask);
    void *task = enqueue(context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 1);
    const uint64_t begin = gpu_now_ns();
    void *kernel = nccl_start_kernel(&driver, context, task, 0, begin);
    pid_t pid = fork();

    if (pid == 0) {
        void *own;

        expect(nccl_start_task(&driver, context, NCCL_COLL, NULL, &nccl_all_reduce, 1,
                               &nccl_float32, 0, 1) == NULL);
        own = open_communicator(&mask);
        expect(own != context);
        nccl_stop_kernel(&driver, kernel,
                         begin + 1); /* the parent's: the child must not report it */
        enqueue(own, NCCL_COLL, &nccl_all_gather, 2, &nccl_float32, 0, 1);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    expect(status == 0);
    nccl_stop_kernel(&driver, kernel, begin + 1);
}

static void test_f40_a_child_joins_anew(void **state)
{
    in_child(*state, 6, forks);
    assert_string_equal(reported(*state, 0),
                        "communicator 0: rank 3 of 8 on 2 'DATA_PARALLEL_GROUP:1'\n"
                        "0 enqueue allreduce 4 peer -1 of 8\n"
                        "0 begin allreduce 4 peer -1 of 8 #0\n"
                        "0 end allreduce 4 peer -1 of 8 #0\n");
    assert_string_equal(reported(*state, 1),
                        "communicator 0: rank 3 of 8 on 2 'DATA_PARALLEL_GROUP:1'\n"
                        "0 enqueue allgather 8 peer -1 of 8\n");
}

static void without_job(void)
{
    int mask = -1;
    void *context = open_communicator(&mask);
    char descriptor[NCCL_DESCRIPTOR_BYTES];

    expect(mask == 0);
    for (uint64_t type = 1; type < 1 << (driver.version < 5 ? 8 : 16); type <<= 1) {
        nccl_describe(&driver, descriptor, type, NULL);
        memset(descriptor + 16, 0, sizeof(descriptor) - 16);
        expect(nccl_start(&driver, context, descriptor) == NULL);
    }
    driver.table->finalize(context);
}

static void test_f35_no_job(void **state)
{
    (void)state;
    for (int version = 1; version <= NCCL_VERSIONS; version++) {
        assert_int_equal(run_child(NULL, version, without_job), 0);
        assert_int_equal(run_child("/nowhere/at/all", version, without_job), 0);
    }
}

/* ---- graphs ---- */

static void captured(void)
{
    enum { CAPTURED = 20000 };
    int mask;
    void *context = open_communicator(&mask);
    void *group = nccl_start_group_api(&driver, context);
    void *call = NULL;

    for (int i = 0; i < CAPTURED; i++) {
        call = nccl_start_call(&driver, context, NCCL_COLL_API, group, &nccl_all_reduce, 5,
                               &nccl_float32, 0, 1);
        expect(call != NULL);
        driver.table->stop(call);
    }
    driver.table->record(group, NCCL_GROUP_START_API_STOP, NULL);
    driver.table->stop(group);
    for (int replay = 0; replay < 2; replay++) {
        void *task = nccl_start_task(&driver, context, NCCL_COLL, call, &nccl_all_reduce, 5,
                                     &nccl_float32, 0, 2);

        driver.table->stop(task);
        run_kernel(context, task);
    }
}

static void replays_are_enqueued_and_captures_are_not(void **state)
{
    for (int version = 5; version <= NCCL_VERSIONS; version++) {
        tear_down(state);
        set_up(state);
        in_child(*state, version, captured);
        assert_string_equal(reported(*state, 0),
                            "communicator 0: rank 3 of 8 on 2 'DATA_PARALLEL_GROUP:1'\n"
                            "0 enqueue allreduce 20 peer -1 of 8\n"
                            "0 begin allreduce 20 peer -1 of 8 #0\n"
                            "0 end allreduce 20 peer -1 of 8 #0\n"
                            "0 enqueue allreduce 20 peer -1 of 8\n"
                            "0 begin allreduce 20 peer -1 of 8 #1\n"
                            "0 end allreduce 20 peer -1 of 8 #1\n");
    }
}

/* ---- another plugin behind ours ---- */

static struct chained_state *load_chained(int mask)
{
    char text[16];
    void *library = dlopen(chained_path, RTLD_NOW | RTLD_LOCAL);

    snprintf(text, sizeof(text), "%d", mask);
    setenv("CHAINED_MASK", text, 1);
    setenv(LULL_NCCL_CHAIN_ENV, chained_path, 1);
    expect(library != NULL);
    return dlsym(library, "chained_state");
}

/* A group, a call, a task, its proxy operation and its kernel. */
static void play_all(void *context)
{
    void *group_api = driver.version > 4 ? nccl_start_group_api(&driver, context) : NULL;
    void *call = driver.version > 4 ? nccl_start_call(&driver, context, NCCL_COLL_API, group_api,
                                                      &nccl_all_reduce, 5, &nccl_float32, 0, 0)
                                    : NULL;
    const uint64_t begin = gpu_now_ns();
    char descriptor[NCCL_DESCRIPTOR_BYTES];
    void *group;
    void *task;
    void *proxy;
    void *kernel;

    nccl_describe(&driver, descriptor, NCCL_GROUP, NULL);
    group = nccl_start(&driver, context, descriptor);
    driver.group = group;
    task = nccl_start_task(&driver, context, NCCL_COLL, driver.version > 4 ? call : group,
                           &nccl_all_reduce, 5, &nccl_float32, 0, 1);
    proxy = nccl_start_proxy_op(&driver, context, task, getpid());
    kernel = nccl_start_kernel(&driver, context, task, 3, begin);
    driver.table->stop(task);
    driver.table->stop(group);
    nccl_stop_kernel(&driver, kernel, begin + 1);
    driver.table->stop(proxy);
    driver.table->stop(proxy);
    driver.table->stop(call);
    driver.table->stop(call);
    driver.table->stop(group_api);
}

static void chained(void)
{
    const int wanted = NCCL_COLL | NCCL_PROXY_OP;
    const int asked = driver.version > 2 ? NCCL_KERNEL_CH : 0;
    struct chained_state *seen = load_chained(wanted);
    uint64_t types = NCCL_GROUP | NCCL_COLL | NCCL_PROXY_OP;
    int mask = 0;
    void *context;
    void *late;

    if (driver.version > 4)
        types |= NCCL_GROUP_API | NCCL_COLL_API;
    ask(LULL_ASK_TIMES);
    context = open_communicator(&mask);
    expect(seen->inits == 1);
    expect(mask == (wanted | calls_mask() | asked));
    play_all(context);
    expect(seen->types == types && seen->errors == 0);
    expect(seen->starts == (driver.version > 4 ? 5 : 3) && seen->stops == seen->starts);
    expect(seen->parents == (driver.version > 4 ? 4 : 2));
    late = nccl_start_proxy_op(&driver, context, NULL, getpid());
    expect(late != NULL);
    expect(nccl_start_proxy_op(&driver, context, late, 1) == NULL); /* another process' */
    driver.table->finalize(context);
    driver.table->stop(late); /* not to a plugin that has ended */
    expect(seen->finalizes == 1 && seen->errors == 0);
    expect(seen->stops + 1 == seen->starts);
}

static void a_plugin_behind_gets_what_it_asked_for(void **state)
{
    for (int version = 1; version <= NCCL_VERSIONS; version++) {
        const char *text;

        tear_down(state);
        set_up(state);
        in_child(*state, version, chained);
        text = reported(*state, 0);
        assert_non_null(strstr(text, "0 enqueue allreduce 20 peer -1"));
        assert_non_null(strstr(text, "0 begin allreduce 20 peer -1"));
        assert_non_null(strstr(text, "0 end allreduce 20 peer -1"));
    }
}

/* More of its events run at once than there is room for; captured calls stay for ever. */
static void chained_to_exhaustion(void)
{
    struct chained_state *seen = load_chained(NCCL_COLL);
    int mask;
    void *context = open_communicator(&mask);
    uint32_t before;

    for (int i = 0; i < PAIRS + 1000; i++) {
        void *call = nccl_start_call(&driver, context, NCCL_COLL_API, NULL, &nccl_all_reduce, 5,
                                     &nccl_float32, 0, 1);

        expect(call != NULL);
        driver.table->stop(call);
    }
    expect(seen->starts == PAIRS && seen->stops == PAIRS && seen->errors == 0);
    driver.table->finalize(context);
    context = open_communicator(&mask);
    before = seen->starts;
    play_all(context);
    expect(seen->starts == before + 4 && seen->errors == 0);
}

static void room_for_a_plugin_behind_runs_out(void **state)
{
    in_child(*state, 6, chained_to_exhaustion);
}

static void chained_alone(void)
{
    struct chained_state *seen = load_chained(NCCL_COLL_API);
    int mask = 0;
    void *context = open_communicator(&mask);

    expect(mask == NCCL_COLL_API);
    play_all(context);
    expect(seen->types == (NCCL_GROUP_API | NCCL_COLL_API) && seen->errors == 0);
    expect(seen->starts == 2 && seen->stops == 2);
    driver.table->finalize(context);
    expect(seen->finalizes == 1);
}

static void a_plugin_behind_works_without_a_job(void **state)
{
    (void)state;
    assert_int_equal(run_child(NULL, 6, chained_alone), 0);
}

static void chain_of(const char *path)
{
    int mask = 0;
    void *context;

    setenv(LULL_NCCL_CHAIN_ENV, path, 1);
    context = open_communicator(&mask);
    expect(mask == calls_mask());
    enqueue(context, NCCL_COLL, &nccl_all_reduce, 1, &nccl_float32, 0, 1);
    driver.table->finalize(context);
}

static void chain_of_nothing(void)
{
    chain_of("no-such-plugin");
}

static void chain_of_no_plugin(void)
{
    chain_of("libc.so.6");
}

static void chain_of_itself(void)
{
    chain_of(plugin_path);
}

static void a_chain_that_fails_is_silent(void **state)
{
    static void (*const bodies[])(void) = {chain_of_nothing, chain_of_no_plugin, chain_of_itself};

    for (uint32_t slot = 0; slot < 3; slot++) {
        in_child(*state, 6, bodies[slot]);
        assert_string_equal(reported(*state, slot),
                            "communicator 0: rank 3 of 8 on 2 'DATA_PARALLEL_GROUP:1'\n"
                            "0 enqueue allreduce 4 peer -1 of 8\n");
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        TEST(tells_of_each_version),
        TEST(times_of_the_gpu_become_ours),
        TEST(the_mask_follows_what_is_asked),
        TEST(nccl_2_31_is_not_asked_for_kernels),
        TEST(wrong_arguments_do_nothing),
        TEST(a_second_stop_does_nothing),
        TEST(kernels_of_forgotten_operations_are_dropped),
        TEST(proxy_operations_of_others_are_left_alone),
        TEST(implausible_times_still_make_pairs),
        TEST(communicators_run_out_and_come_back),
        TEST(eight_threads_at_once),
        TEST(kernels_are_told_by_other_threads),
        TEST(what_is_open_at_the_end_still_ends),
        TEST(a_process_may_end_without_finalize),
        TEST(test_f40_a_child_joins_anew),
        TEST(test_f35_no_job),
        TEST(replays_are_enqueued_and_captures_are_not),
        TEST(a_plugin_behind_gets_what_it_asked_for),
        TEST(room_for_a_plugin_behind_runs_out),
        TEST(a_plugin_behind_works_without_a_job),
        TEST(a_chain_that_fails_is_silent),
    };

    if (argc < 3) {
        fprintf(stderr, "usage: test_nccl_profiler PLUGIN CHAINED_PLUGIN\n");
        return 2;
    }
    plugin_path = argv[1];
    chained_path = argv[2];
    nccl_version = 23000;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
