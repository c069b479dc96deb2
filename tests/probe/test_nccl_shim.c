/*
 * The marker shim between a program and the emulated NCCL and driver:
 *   test_nccl_shim markers|without_driver
 * NCCL is loaded as Python loads it, locally (RTLD_LOCAL), and called through the shim. The
 * test acts as the governor (it requests and reads), the program and the GPU (a stub stream).
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "emulator/node.h"
#include "../emulator/stub_stream.h"
#include "../wire/job_fixture.h"

enum { FLOAT32 = 7, SUM = 0, MARKERS = 512, PATIENCE_MS = 20000 };

typedef struct {
    char internal[128];
} unique_id;

struct config {
    size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
    int numbers_1[3];
    const char *net_name;
    int numbers_2[2];
    const char *comm_name;
};

static void *nccl;
static void *shim;
static void *driver;
static struct lull_node *node;
static struct stub_stream *first;
static struct stub_stream *second;
static void *comm;
static char buffer[64];

static struct lull_event events[16384];
static uint32_t event_count;

#define SHIM(name, types, ...) (((int(*) types)dlsym(shim, "nccl" #name))(__VA_ARGS__))
#define NCCL(name, types, ...) (((int(*) types)dlsym(nccl, "nccl" #name))(__VA_ARGS__))

static int all_reduce(struct stub_stream *stub, size_t count)
{
    return SHIM(AllReduce, (const void *, void *, size_t, int, int, void *, void *), buffer, buffer,
                count, FLOAT32, SUM, comm, stub);
}

static void send_and_receive(struct stub_stream *stub)
{
    assert_int_equal(SHIM(Send, (const void *, size_t, int, int, void *, void *), buffer, 8,
                          FLOAT32, 1, comm, stub),
                     0);
    assert_int_equal(
        SHIM(Recv, (void *, size_t, int, int, void *, void *), buffer, 8, FLOAT32, 1, comm, stub),
        0);
}

/* ---- reports ---- */

static void read_events(struct fixture *fixture)
{
    uint32_t count;

    while ((count = lull_event_segment_read(fixture->job, 0, events + event_count, 1000)) > 0)
        event_count += count;
}

static uint32_t count_kind(uint32_t kind)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < event_count; i++)
        count += events[i].kind == kind;
    return count;
}

static void wait_for_ends(struct fixture *fixture, uint32_t count)
{
    for (int i = 0; i < PATIENCE_MS && count_kind(LULL_EVENT_KERNEL_END) < count; i++) {
        read_events(fixture);
        lull_sleep_until_ns(lull_now_ns() + LULL_NS_PER_MS);
    }
    lull_sleep_until_ns(lull_now_ns() + 5 * LULL_NS_PER_MS);
    read_events(fixture);
    assert_int_equal(count_kind(LULL_EVENT_KERNEL_BEGIN), count);
    assert_int_equal(count_kind(LULL_EVENT_KERNEL_END), count);
}

static const struct lull_event *event_of(uint32_t kind, uint32_t index)
{
    for (uint32_t i = 0; i < event_count; i++)
        if (events[i].kind == kind && index-- == 0)
            return &events[i];
    fail_msg("no event of kind %u", kind);
    return NULL;
}

/* "W AllReduce W": what a stream was given since a position. */
static const char *given(const struct stub_stream *stub, uint32_t begin)
{
    static char text[256];
    size_t length = 0;

    text[0] = '\0';
    for (uint32_t i = begin; i < stub->enqueued && length < sizeof(text) - 32; i++) {
        const char *function = stub->works[i].function;

        length +=
            (size_t)snprintf(text + length, sizeof(text) - length, "%s%s", i > begin ? " " : "",
                             strcmp(function, "WriteValue") == 0 ? "W" : function);
    }
    return text;
}

/* ---- cases, in this order ---- */

static int begin_case(void **state)
{
    struct fixture *fixture = *state;

    stub_stream_wait(first);
    stub_stream_wait(second);
    stub_stream_fini(first);
    stub_stream_fini(second);
    stub_stream_init(first, 200000);
    stub_stream_init(second, 200000);
    read_events(fixture);
    event_count = 0;
    return 0;
}

static void unasked_it_only_tells_of_calls(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(all_reduce(first, 16), 0);
    assert_string_equal(given(first, 0), "AllReduce");
    read_events(fixture);
    assert_int_equal(event_count, 2);
    assert_int_equal(events[0].kind, LULL_EVENT_COMMUNICATOR);
    assert_int_equal(events[0].ranks, 2);
    assert_int_equal(events[0].peer, 0);
    assert_int_equal(events[0].name, LULL_JOB_MAX_NAMES);
    assert_int_equal(events[1].kind, LULL_EVENT_ENQUEUE);
    assert_int_equal(events[1].operation, LULL_OPERATION_ALLREDUCE);
    assert_int_equal(events[1].bytes, 64);
    assert_int_equal(events[1].communicator, events[0].communicator);
    assert_int_equal(events[1].ranks, 2);
    assert_int_equal(events[1].peer, -1);
}

static void asked_it_brackets_each_call(void **state)
{
    struct fixture *fixture = *state;

    lull_event_segment_ask(fixture->job, 0, LULL_ASK_TIMES);
    stub_stream_hold(first, true);
    assert_int_equal(all_reduce(first, 16), 0);
    assert_int_equal(all_reduce(first, 32), 0);
    assert_string_equal(given(first, 0), "W AllReduce W W AllReduce W");
    lull_sleep_until_ns(lull_now_ns() + 20 * LULL_NS_PER_MS);
    read_events(fixture);
    assert_int_equal(event_count, 2); /* the GPU has not begun */
    stub_stream_hold(first, false);
    wait_for_ends(fixture, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct lull_event *begin = event_of(LULL_EVENT_KERNEL_BEGIN, i);
        const struct lull_event *end = event_of(LULL_EVENT_KERNEL_END, i);

        assert_true(begin < end && begin->time_ns <= end->time_ns);
        assert_true(begin->time_ns >= event_of(LULL_EVENT_ENQUEUE, 1)->time_ns);
        assert_int_equal(begin->thread, end->thread);
        assert_int_equal(begin->operation, LULL_OPERATION_ALLREDUCE);
        assert_int_equal(begin->bytes, i == 0 ? 64 : 128);
        assert_int_equal(end->communicator, event_of(LULL_EVENT_ENQUEUE, 0)->communicator);
    }
    assert_true(event_of(LULL_EVENT_KERNEL_END, 0) < event_of(LULL_EVENT_KERNEL_BEGIN, 1));
}

/* The kernels of a group are launched by its outermost end. */
static void a_group_is_bracketed_at_its_end(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(SHIM(GroupStart, (void)), 0);
    assert_int_equal(SHIM(GroupStart, (void)), 0);
    send_and_receive(first);
    assert_int_equal(SHIM(GroupEnd, (void)), 0);
    assert_int_equal(all_reduce(second, 16), 0);
    assert_int_equal(first->enqueued + second->enqueued, 0);
    assert_int_equal(SHIM(GroupEnd, (void)), 0);
    assert_string_equal(given(first, 0), "W Send Recv W");
    assert_string_equal(given(second, 0), "W AllReduce W");
    wait_for_ends(fixture, 2);
    assert_int_equal(count_kind(LULL_EVENT_ENQUEUE), 3);
    for (uint32_t i = 0; i < 2; i++) {
        const struct lull_event *end = event_of(LULL_EVENT_KERNEL_END, i);

        assert_int_equal(end->bytes, 64);
        assert_true(end->operation == LULL_OPERATION_ALLREDUCE ||
                    end->operation == LULL_OPERATION_SENDRECV);
        assert_int_equal(end->peer, end->operation == LULL_OPERATION_SENDRECV ? 1 : -1);
    }
    send_and_receive(first); /* the group is over */
    assert_string_equal(given(first, 4), "W Send W W Recv W");
    wait_for_ends(fixture, 4);
}

static void a_captured_stream_is_left_alone(void **state)
{
    struct fixture *fixture = *state;
    void (*set_capturing)(void *);

    *(void **)&set_capturing = dlsym(driver, "lull_emulated_set_capturing");
    set_capturing(first);
    assert_int_equal(all_reduce(first, 16), 0);
    assert_int_equal(all_reduce(second, 16), 0);
    set_capturing(NULL);
    assert_string_equal(given(first, 0), "AllReduce");
    assert_string_equal(given(second, 0), "W AllReduce W");
    wait_for_ends(fixture, 1);
    assert_int_equal(count_kind(LULL_EVENT_ENQUEUE), 2);
}

/* A host that runs far ahead gets no more markers than there is room for. */
static void surplus_calls_pass_without_markers(void **state)
{
    struct fixture *fixture = *state;

    first->work_ns = 1000;
    stub_stream_hold(first, true);
    for (int i = 0; i < MARKERS + 100; i++)
        assert_int_equal(all_reduce(first, 16), 0);
    assert_int_equal(first->enqueued, 3 * MARKERS + 100);
    stub_stream_hold(first, false);
    wait_for_ends(fixture, MARKERS);
    assert_int_equal(count_kind(LULL_EVENT_ENQUEUE), MARKERS + 100);
    assert_int_equal(lull_event_segment_lost(fixture->job, 0), 0);
    assert_int_equal(all_reduce(first, 16), 0);
    wait_for_ends(fixture, MARKERS + 1);
}

/* Names come with the configuration; a non-blocking communicator launches who knows when. */
static void communicators_have_names_and_numbers(void **state)
{
    struct fixture *fixture = *state;
    struct config config = {.size = sizeof(config),
                            .magic = 0xcafebeef,
                            .version = 22809,
                            .blocking = 1,
                            .comm_name = "TENSOR_MODEL_PARALLEL_GROUP:3"};
    char name[LULL_JOB_NAME_BYTES];
    unique_id id = {{0}};
    void *before = comm;

    assert_int_equal(
        SHIM(CommInitRankConfig, (void **, int, unique_id, int, void *), &comm, 4, id, 2, &config),
        0);
    read_events(fixture);
    assert_int_equal(event_count, 1);
    assert_int_equal(events[0].kind, LULL_EVENT_COMMUNICATOR);
    assert_int_equal(events[0].ranks, 4);
    assert_int_equal(events[0].peer, 2);
    lull_event_segment_name(fixture->job, 0, events[0].name, name);
    assert_string_equal(name, config.comm_name);
    assert_int_equal(SHIM(CommDestroy, (void *), comm), 0);

    config.blocking = 0;
    assert_int_equal(
        SHIM(CommInitRankConfig, (void **, int, unique_id, int, void *), &comm, 4, id, 2, &config),
        0);
    assert_int_equal(all_reduce(first, 16), 0);
    assert_string_equal(given(first, 0), "AllReduce");
    read_events(fixture);
    assert_int_equal(event_count, 3);
    assert_int_not_equal(events[1].communicator, events[0].communicator);
    assert_int_equal(events[2].communicator, events[1].communicator);
    assert_int_equal(SHIM(CommAbort, (void *), comm), 0);
    comm = before;
}

static void every_function_passes_through(void **state)
{
    struct fixture *fixture = *state;

#define TWO_BUFFERS const void *, void *, size_t, int
    assert_int_equal(SHIM(Reduce, (TWO_BUFFERS, int, int, void *, void *), buffer, buffer, 8,
                          FLOAT32, SUM, 1, comm, first),
                     0);
    assert_int_equal(SHIM(Broadcast, (TWO_BUFFERS, int, void *, void *), buffer, buffer, 8, FLOAT32,
                          1, comm, first),
                     0);
    assert_int_equal(
        SHIM(Bcast, (void *, size_t, int, int, void *, void *), buffer, 8, FLOAT32, 1, comm, first),
        0);
    assert_int_equal(
        SHIM(AllGather, (TWO_BUFFERS, void *, void *), buffer, buffer, 8, FLOAT32, comm, first), 0);
    assert_int_equal(SHIM(ReduceScatter, (TWO_BUFFERS, int, void *, void *), buffer, buffer, 8,
                          FLOAT32, SUM, comm, first),
                     0);
    assert_int_equal(
        SHIM(AlltoAll, (TWO_BUFFERS, void *, void *), buffer, buffer, 8, FLOAT32, comm, first), 0);
    assert_int_equal(SHIM(Gather, (TWO_BUFFERS, int, void *, void *), buffer, buffer, 8, FLOAT32, 1,
                          comm, first),
                     0);
    assert_int_equal(SHIM(Scatter, (TWO_BUFFERS, int, void *, void *), buffer, buffer, 8, FLOAT32,
                          1, comm, first),
                     0);
    assert_int_equal(SHIM(Reduce, (TWO_BUFFERS, int, int, void *, void *), buffer, buffer, 8,
                          FLOAT32, SUM, 9, comm, first),
                     4); /* NCCL's own error */
    wait_for_ends(fixture, 9);
    for (uint32_t i = 0; i < 9; i++)
        assert_int_equal(event_of(LULL_EVENT_KERNEL_END, i)->bytes, 32);
    assert_int_equal(event_of(LULL_EVENT_ENQUEUE, 1)->peer, 1);
    assert_int_equal(SHIM(GroupStart, (void)), 0);
    assert_int_equal(SHIM(GroupSimulateEnd, (void *), NULL), 0);
}

static void a_child_is_no_trouble(void **state)
{
    struct fixture *fixture = *state;
    int status = 1;
    const pid_t pid = fork();

    if (pid == 0)
        _exit(all_reduce(NULL, 16) == 0 ? 0 : 1);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(all_reduce(first, 16), 0);
    wait_for_ends(fixture, 1);
}

/* The driver refuses: no markers from then on, the calls continue. */
static void a_driver_that_refuses_ends_the_markers(void **state)
{
    struct fixture *fixture = *state;

    setenv("LULL_EMULATED_CUDA_FAULTS", "write_value", 1);
    assert_int_equal(all_reduce(first, 16), 0);
    unsetenv("LULL_EMULATED_CUDA_FAULTS");
    assert_int_equal(all_reduce(first, 16), 0);
    stub_stream_wait(first);
    assert_string_equal(given(first, 0), "AllReduce AllReduce");
    wait_for_ends(fixture, 0);
    assert_int_equal(count_kind(LULL_EVENT_ENQUEUE), 2);
}

static void without_a_driver_calls_pass_through(void **state)
{
    struct fixture *fixture = *state;

    lull_event_segment_ask(fixture->job, 0, LULL_ASK_TIMES);
    assert_int_equal(all_reduce(first, 16), 0);
    lull_event_segment_ask(fixture->job, 0, LULL_ASK_TIMES);
    assert_int_equal(all_reduce(first, 16), 0);
    assert_string_equal(given(first, 0), "AllReduce AllReduce");
    wait_for_ends(fixture, 0);
    assert_int_equal(count_kind(LULL_EVENT_ENQUEUE), 2);
}

/* ---- running ---- */

static void load_driver(void)
{
    struct lull_node_spec spec = {.seed = 0, .time_scale = 1};
    int (*init)(unsigned);

    driver = dlopen(LULL_EMULATED_CUDA, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(driver);
    assert_int_equal(lull_node_spec_parse("A100-SXM4-40GB", &spec, NULL), 0);
    assert_int_equal(lull_node_create(&spec, &node, NULL), 0);
    setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(node), 1);
    *(void **)&init = dlsym(driver, "cuInit");
    assert_int_equal(init(0), 0);
}

static int set_up_libraries(void **state, bool has_driver)
{
    unique_id id = {{0}};

    if (set_up(state) < 0)
        return -1;
    setenv(LULL_JOB_ENV, ((struct fixture *)*state)->path, 1);
    setenv("NCCL_PROFILER_PLUGIN", "none", 1);
    nccl = dlopen(LULL_EMULATED_NCCL, RTLD_NOW | RTLD_LOCAL);
    shim = dlopen(LULL_NCCL_SHIM, RTLD_NOW | RTLD_LOCAL);
    if (nccl == NULL || shim == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    if (has_driver)
        load_driver();
    first = calloc(1, sizeof(*first));
    second = calloc(1, sizeof(*second));
    stub_stream_init(first, 200000);
    stub_stream_init(second, 200000);
    return NCCL(CommInitRank, (void **, int, unique_id, int), &comm, 2, id, 0);
}

static int set_up_all(void **state)
{
    return set_up_libraries(state, true);
}

static int set_up_without_driver(void **state)
{
    return set_up_libraries(state, false);
}

static int tear_down_all(void **state)
{
    stub_stream_fini(first);
    stub_stream_fini(second);
    free(first);
    free(second);
    SHIM(CommDestroy, (void *), comm);
    if (node != NULL)
        lull_node_remove(node);
    return tear_down(state);
}

int main(int argc, char *argv[])
{
    const struct CMUnitTest markers[] = {
        cmocka_unit_test(unasked_it_only_tells_of_calls),
        cmocka_unit_test_setup(asked_it_brackets_each_call, begin_case),
        cmocka_unit_test_setup(a_group_is_bracketed_at_its_end, begin_case),
        cmocka_unit_test_setup(a_captured_stream_is_left_alone, begin_case),
        cmocka_unit_test_setup(surplus_calls_pass_without_markers, begin_case),
        cmocka_unit_test_setup(communicators_have_names_and_numbers, begin_case),
        cmocka_unit_test_setup(every_function_passes_through, begin_case),
        cmocka_unit_test_setup(a_child_is_no_trouble, begin_case),
        cmocka_unit_test_setup(a_driver_that_refuses_ends_the_markers, begin_case),
    };
    const struct CMUnitTest without_driver[] = {
        cmocka_unit_test(without_a_driver_calls_pass_through),
    };

    if (argc != 2)
        return 2;
    if (strcmp(argv[1], "markers") == 0)
        return cmocka_run_group_tests(markers, set_up_all, tear_down_all);
    return cmocka_run_group_tests(without_driver, set_up_without_driver, tear_down_all);
}
