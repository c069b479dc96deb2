/*
 * The CUPTI window in the emulated driver, one case per process, because CUPTI and the driver are:
 *   test_cupti_window window|busy|missing
 * The test acts as the governor (it requests and reads), the program (cuInit) and the GPU
 * (kernels). SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "emulator/node.h"
#include "emulator/stream.h"
#include "../wire/job_fixture.h"

enum { PATIENCE_MS = 20000 };

static void *cupti;
static struct lull_node *node;

/* ---- the driver and its profiling interface ---- */

static void load(bool has_cupti)
{
    struct lull_node_spec spec = {.seed = 0, .time_scale = 1};
    void *driver = dlopen(LULL_EMULATED_CUDA, RTLD_NOW | RTLD_LOCAL);
    int (*init)(unsigned);

    assert_non_null(driver);
    if (has_cupti) {
        cupti = dlopen(LULL_EMULATED_CUPTI, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(cupti);
    }
    assert_int_equal(lull_node_spec_parse("A100-SXM4-40GB", &spec, NULL), 0);
    assert_int_equal(lull_node_create(&spec, &node, NULL), 0);
    setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(node), 1);
    setenv("CUDA_INJECTION64_PATH", LULL_CUPTI_WINDOW, 1);
    *(void **)&init = dlsym(driver, "cuInit");
    assert_int_equal(init(0), 0);
    assert_int_equal(init(0), 0); /* injects once */
}

static int try_to_subscribe(void **subscriber)
{
    int (*subscribe)(void **, void *, void *);

    *(void **)&subscribe = dlsym(cupti, "cuptiSubscribe");
    return subscribe(subscriber, NULL, NULL);
}

static void unsubscribe(void *subscriber)
{
    int (*function)(void *);

    *(void **)&function = dlsym(cupti, "cuptiUnsubscribe");
    assert_int_equal(function(subscriber), 0);
}

/* Only while the window is not asked to open: it would find CUPTI taken. */
static void wait_until_closed(void)
{
    for (int i = 0; i < PATIENCE_MS; i++) {
        void *subscriber;

        if (try_to_subscribe(&subscriber) == 0) {
            unsubscribe(subscriber);
            return;
        }
        lull_sleep_until_ns(lull_now_ns() + LULL_NS_PER_MS);
    }
    fail_msg("the window did not close");
}

static void kernel(const char *name, int64_t begin_ns, int64_t end_ns)
{
    lull_emulated_kernel_function function;

    *(void **)&function = dlsym(cupti, "lull_emulated_kernel");
    function(name, 7, begin_ns, end_ns);
}

static int64_t gpu_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * LULL_NS_PER_S + now.tv_nsec;
}

/* ---- reports ---- */

static struct lull_event events[32768];
static uint32_t event_count;

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

/* Reads until this many runs have been reported. */
static void wait_for_runs(struct fixture *fixture, uint32_t count)
{
    for (int i = 0; i < PATIENCE_MS && count_kind(LULL_EVENT_COMPUTE) < count; i++) {
        read_events(fixture);
        lull_sleep_until_ns(lull_now_ns() + LULL_NS_PER_MS);
    }
    read_events(fixture);
    assert_int_equal(count_kind(LULL_EVENT_COMPUTE), count);
}

/* Communication is not a run, but its recording is reported. */
static void wait_until_recording(struct fixture *fixture)
{
    event_count = 0;
    for (int i = 0; i < PATIENCE_MS && count_kind(LULL_EVENT_COMPLETE) == 0; i++) {
        const int64_t now_ns = gpu_now_ns();

        kernel("ncclDevKernel_Broadcast", now_ns, now_ns + 1);
        lull_sleep_until_ns(lull_now_ns() + LULL_NS_PER_MS);
        read_events(fixture);
    }
    assert_true(count_kind(LULL_EVENT_COMPLETE) > 0);
    event_count = 0;
}

static void check_order(void)
{
    int64_t complete_ns = 0;
    int64_t begin_ns = 0;

    for (uint32_t i = 0; i < event_count; i++) {
        assert_int_equal(events[i].communicator, LULL_EVENT_NO_COMMUNICATOR);
        if (events[i].kind == LULL_EVENT_COMPUTE) {
            assert_true(events[i].time_ns > begin_ns && events[i].time_ns >= complete_ns);
            begin_ns = events[i].time_ns;
        } else {
            assert_int_equal(events[i].kind, LULL_EVENT_COMPLETE);
            assert_int_equal(events[i].peer, -1);
            assert_true(events[i].time_ns > complete_ns && events[i].time_ns > begin_ns);
            complete_ns = events[i].time_ns;
        }
    }
}

static const struct lull_event *run(uint32_t index)
{
    for (uint32_t i = 0; i < event_count; i++)
        if (events[i].kind == LULL_EVENT_COMPUTE && index-- == 0)
            return &events[i];
    fail_msg("no run %u", index);
    return NULL;
}

static void check_near(int64_t time_ns, int64_t expected_ns)
{
    assert_true(llabs(time_ns - expected_ns) < 5 * LULL_NS_PER_MS); /* two clocks were compared */
}

/* ---- cases ---- */

static void ask(struct fixture *fixture, uint32_t asked)
{
    lull_event_segment_ask(fixture->job, 0, asked);
}

/* Close kernels join, NCCL's do not count, order of arrival does not matter. */
static void check_window(struct fixture *fixture)
{
    const int64_t us = LULL_NS_PER_US;
    const int64_t offset_ns = lull_now_ns() - gpu_now_ns();
    int64_t t;

    ask(fixture, LULL_ASK_COMPUTE | LULL_ASK_TIMES);
    wait_until_recording(fixture);
    t = gpu_now_ns();
    kernel("ampere_sgemm_128x64_tn", t, t + 100 * us);
    kernel("vectorized_elementwise_kernel", t + 130 * us, t + 150 * us); /* 30 us later */
    kernel("ampere_sgemm_128x64_tn", t + 105 * us, t + 110 * us);        /* fills the gap */
    kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", t + 150 * us, t + 900 * us);
    kernel("NCCL_custom", t + 200 * us, t + 210 * us);
    kernel("softmax", t + 300 * us, t + 400 * us);
    kernel("late", t + LULL_NS_PER_S, t + LULL_NS_PER_S + us);
    kernel("reversed", t + 500 * us, t + 400 * us);
    wait_for_runs(fixture, 3);
    check_near(run(0)->time_ns, t + offset_ns);
    assert_int_equal(run(0)->bytes, 110 * us);
    check_near(run(1)->time_ns, t + 130 * us + offset_ns);
    assert_int_equal(run(1)->bytes, 20 * us);
    assert_int_equal(run(2)->bytes, 100 * us);
    assert_int_equal(events[event_count - 1].kind, LULL_EVENT_COMPLETE);
    assert_int_equal(events[event_count - 1].bytes, 0);
    check_near(events[event_count - 1].time_ns,
               t + LULL_NS_PER_S - 20 * LULL_NS_PER_MS + offset_ns);
    ask(fixture, LULL_ASK_TIMES);
    wait_until_closed();
    read_events(fixture);
    check_order();
    assert_int_equal(lull_event_segment_lost(fixture->job, 0), 0);
}

static void a_window_opens_and_closes_when_asked(void **state)
{
    struct fixture *fixture = *state;

    load(true);
    assert_int_equal(lull_event_segment_process_count(fixture->job), 1);
    wait_until_closed();
    kernel("before", gpu_now_ns(), gpu_now_ns() + LULL_NS_PER_S);
    check_window(fixture);
    check_window(fixture);
}

/* Without a reader, runs fill half of the ring and no more, and dropped ones are counted. */
static void a_reader_that_sleeps_loses_no_other_event(void **state)
{
    struct fixture *fixture = *state;
    const int64_t step_ns = 40 * LULL_NS_PER_US;
    const uint32_t kernels = 6000;
    uint64_t reported = 0;
    int64_t t;

    ask(fixture, LULL_ASK_COMPUTE);
    wait_until_recording(fixture);
    t = gpu_now_ns();
    for (uint32_t i = 0; i < kernels; i++)
        kernel("k", t + i * step_ns, t + i * step_ns + step_ns / 4);
    kernel("last", t + LULL_NS_PER_S, t + LULL_NS_PER_S + 1); /* ends what is complete */
    ask(fixture, 0);
    wait_until_closed();
    read_events(fixture);
    check_order();
    assert_true(count_kind(LULL_EVENT_COMPUTE) <= LULL_JOB_RING_EVENTS / 2);
    for (uint32_t i = 0; i < event_count; i++)
        reported += events[i].kind == LULL_EVENT_COMPUTE ? 1 : events[i].bytes;
    assert_int_equal(reported, kernels);
    assert_int_equal(lull_event_segment_lost(fixture->job, 0), 0);
}

/* One COMPLETE says why, then nothing more is ever said. */
static void check_stands_aside(struct fixture *fixture, int reason)
{
    event_count = 0;
    ask(fixture, LULL_ASK_COMPUTE);
    for (int i = 0; i < PATIENCE_MS && event_count == 0; i++) {
        read_events(fixture);
        lull_sleep_until_ns(lull_now_ns() + LULL_NS_PER_MS);
    }
    assert_int_equal(event_count, 1);
    assert_int_equal(events[0].kind, LULL_EVENT_COMPLETE);
    assert_int_equal(events[0].peer, reason);
    ask(fixture, 0);
    lull_sleep_until_ns(lull_now_ns() + 50 * LULL_NS_PER_MS);
    ask(fixture, LULL_ASK_COMPUTE);
    lull_sleep_until_ns(lull_now_ns() + 100 * LULL_NS_PER_MS);
    read_events(fixture);
    assert_int_equal(event_count, 1);
}

static void another_subscriber_is_left_alone(void **state)
{
    void *subscriber;

    load(true);
    assert_int_equal(try_to_subscribe(&subscriber), 0);
    check_stands_aside(*state, -EBUSY);
    unsubscribe(subscriber);
    assert_int_equal(try_to_subscribe(&subscriber), 0);
}

static void without_cupti_it_stands_aside(void **state)
{
    load(false);
    check_stands_aside(*state, -ENOENT);
}

/* ---- running ---- */

/*
 * Runs this program again where the linker finds something else under CUPTI's names, so that a
 * CUPTI of this machine's own does not count.
 */
static int run_with_broken_libraries(char *argv[])
{
    static const char *const names[] = {"libcupti.so.12", "libcupti.so.13", "libcupti.so"};
    char directory[] = "/tmp/lull-test-XXXXXX";

    if (mkdtemp(directory) == NULL)
        return 1;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[64];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        file = fopen(path, "w");
        if (file == NULL || fputs("This is no library.\n", file) < 0 || fclose(file) != 0)
            return 1;
    }
    setenv("LD_LIBRARY_PATH", directory, 1);
    setenv("LULL_TEST_DIRECTORY", directory, 1);
    execv("/proc/self/exe", argv);
    return 1;
}

static void remove_broken_libraries(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -r %s", getenv("LULL_TEST_DIRECTORY"));
    if (system(command) != 0)
        fprintf(stderr, "cannot remove %s\n", getenv("LULL_TEST_DIRECTORY"));
}

static int set_up_job(void **state)
{
    const int result = set_up(state);

    setenv(LULL_JOB_ENV, ((struct fixture *)*state)->path, 1);
    return result;
}

static int tear_down_job(void **state)
{
    lull_node_remove(node);
    return tear_down(state);
}

int main(int argc, char *argv[])
{
    const struct CMUnitTest window[] = {
        cmocka_unit_test(a_window_opens_and_closes_when_asked),
        cmocka_unit_test(a_reader_that_sleeps_loses_no_other_event),
    };
    const struct CMUnitTest busy[] = {cmocka_unit_test(another_subscriber_is_left_alone)};
    const struct CMUnitTest missing[] = {cmocka_unit_test(without_cupti_it_stands_aside)};
    int failed;

    if (argc != 2)
        return 2;
    if (strcmp(argv[1], "window") == 0)
        return cmocka_run_group_tests(window, set_up_job, tear_down_job);
    if (strcmp(argv[1], "busy") == 0)
        return cmocka_run_group_tests(busy, set_up_job, tear_down_job);
    if (getenv("LULL_TEST_DIRECTORY") == NULL)
        return run_with_broken_libraries(argv);
    failed = cmocka_run_group_tests(missing, set_up_job, tear_down_job);
    remove_broken_libraries();
    return failed;
}
