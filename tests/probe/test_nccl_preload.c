/*
 * A program that binds libnccl dynamically, with the marker shim preloaded (LD_PRELOAD): the shim
 * is in front, NCCL behind it, and a collective is bracketed.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <string.h>

#include "base/clock.h"
#include "emulator/node.h"
#include "../emulator/stub_stream.h"
#include "../wire/job_fixture.h"

enum { FLOAT32 = 7, SUM = 0, PATIENCE_MS = 20000 };

typedef struct {
    char internal[128];
} unique_id;

int ncclCommInitRank(void **comm, int ranks, unique_id id, int rank);
int ncclCommDestroy(void *comm);
int ncclAllReduce(const void *send, void *receive, size_t count, int datatype, int op, void *comm,
                  void *stream);
int cuInit(unsigned flags);

static void a_preloaded_shim_is_in_front(void **state)
{
    Dl_info info;

    (void)state;
    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "ncclAllReduce"), &info), 0);
    assert_non_null(strstr(info.dli_fname, "liblull-nccl.so"));
    assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "pncclAllReduce"), &info), 0);
    assert_non_null(strstr(info.dli_fname, "libnccl.so.2"));
}

static void a_collective_is_bracketed(void **state)
{
    struct fixture *fixture = *state;
    struct stub_stream *stub = calloc(1, sizeof(*stub));
    struct lull_event events[8];
    unique_id id = {{0}};
    uint32_t count = 0;
    char buffer[64];
    void *comm;

    assert_int_equal(ncclCommInitRank(&comm, 2, id, 0), 0);
    stub_stream_init(stub, 200000);
    assert_int_equal(ncclAllReduce(buffer, buffer, 16, FLOAT32, SUM, comm, stub), 0);
    lull_event_segment_ask(fixture->job, 0, LULL_ASK_TIMES); /* the slot is claimed now */
    assert_int_equal(ncclAllReduce(buffer, buffer, 16, FLOAT32, SUM, comm, stub), 0);
    for (int i = 0; i < PATIENCE_MS && count < 5; i++) {
        count += lull_event_segment_read(fixture->job, 0, events + count, 8 - count);
        lull_sleep_until_ns(lull_now_ns() + LULL_NS_PER_MS);
    }
    assert_int_equal(count, 5);
    assert_int_equal(events[0].kind, LULL_EVENT_COMMUNICATOR);
    assert_int_equal(events[1].kind, LULL_EVENT_ENQUEUE);
    assert_int_equal(events[2].kind, LULL_EVENT_ENQUEUE);
    assert_int_equal(events[3].kind, LULL_EVENT_KERNEL_BEGIN);
    assert_int_equal(events[4].kind, LULL_EVENT_KERNEL_END);
    stub_stream_fini(stub);
    assert_int_equal(ncclCommDestroy(comm), 0);
    free(stub);
}

static struct lull_node *node;

static int set_up_node(void **state)
{
    struct lull_node_spec spec = {.seed = 0, .time_scale = 1};

    if (set_up(state) < 0 || lull_node_spec_parse("A100-SXM4-40GB", &spec, NULL) < 0 ||
        lull_node_create(&spec, &node, NULL) < 0)
        return -1;
    setenv(LULL_JOB_ENV, ((struct fixture *)*state)->path, 1);
    setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(node), 1);
    setenv("NCCL_PROFILER_PLUGIN", "none", 1);
    return cuInit(0);
}

static int tear_down_node(void **state)
{
    lull_node_remove(node);
    return tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_preloaded_shim_is_in_front),
        cmocka_unit_test(a_collective_is_bracketed),
    };

    return cmocka_run_group_tests(tests, set_up_node, tear_down_node);
}
