/*
 * The C API in a job: sections, misuse, fork, threads, windows; and without one.
 * Each case runs in a child process, because liblull joins once per process.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "device/device.h"
#include "emulator/node.h"
#include "lull/lull.h"
#include "wire/event.h"

#include "../wire/job_fixture.h"

static int in_child(const char *path, int (*body)(void))
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        if (path != NULL)
            setenv(LULL_JOB_ENV, path, 1);
        else
            unsetenv(LULL_JOB_ENV);
        _exit(body());
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

/* "B0 E0 S" for begin and end of name 0 and a step. */
static const char *reported(struct fixture *fixture, uint32_t slot)
{
    static char text[4096];
    struct lull_event event;
    size_t length = 0;

    text[0] = '\0';
    while (lull_event_segment_read(fixture->job, slot, &event, 1) == 1 &&
           length < sizeof(text) - 8) {
        const char letter = event.kind < 7 ? "?BEPSXN"[event.kind] : '?';

        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%c",
                                   length > 0 ? " " : "", letter);
        if (letter != 'S')
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%u", event.name);
    }
    return text;
}

static int nested_sections(void)
{
    char reused[16] = "forward";

    errno = 7;
    lull_section_begin(reused);
    snprintf(reused, sizeof(reused), "backward");
    lull_section_begin(reused);
    lull_section_end("backward");
    lull_section_end("forward");
    lull_step();
    return errno == 7 ? 0 : 1;
}

static void sections_and_steps(void **state)
{
    struct fixture *fixture = *state;
    struct lull_process_info info;
    char name[LULL_JOB_NAME_BYTES];

    assert_int_equal(in_child(fixture->path, nested_sections), 0);
    assert_string_equal(reported(fixture, 0), "B0 B1 E1 E0 S");
    lull_event_segment_name(fixture->job, 0, 1, name);
    assert_string_equal(name, "backward");
    assert_int_equal(lull_event_segment_process(fixture->job, 0, &info), 0);
    assert_string_equal(info.program, "test_lull");
}

static int misuse(void)
{
    const uint32_t section = lull_section_register("a");

    lull_section_end("a");
    lull_section_begin(NULL);
    lull_section_end(NULL);
    lull_section_enter(64);
    lull_section_leave(UINT32_MAX);
    lull_section_begin("a");
    lull_section_enter(section);
    lull_section_leave(section);
    lull_section_end("a");
    return 0;
}

static void test_f32_misuse_is_tolerated(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(in_child(fixture->path, misuse), 0);
    assert_string_equal(reported(fixture, 0), "B0 E0 B0 E0");
}

enum { CARELESS_THREADS = 3, CARELESS_CALLS = 600 };

/* Begins and ends as they come: twice, never, overlapping, on the wrong thread. */
static void *careless(void *seed)
{
    static const char *const names[] = {"a", "b", "c", "communication"};
    uint64_t random = (uint64_t)(intptr_t)seed;

    for (int i = 0; i < CARELESS_CALLS; i++) {
        const char *name;

        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        name = names[random >> 33 & 3];
        if ((random >> 40 & 1) != 0)
            lull_section_begin(name);
        else
            lull_section_end(name);
    }
    return NULL;
}

static int careless_threads(void)
{
    pthread_t threads[CARELESS_THREADS];

    for (intptr_t i = 0; i < CARELESS_THREADS; i++)
        pthread_create(&threads[i], NULL, careless, (void *)(getpid() + i));
    for (int i = 0; i < CARELESS_THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

/* Whatever a program does, what is reported of each thread and section is begin, end, begin, end.
 */
static void test_f32_what_is_told_is_well_formed(void **state)
{
    struct fixture *fixture = *state;

    for (uint32_t job = 0; job < 20; job++) {
        bool is_open[LULL_JOB_MAX_THREADS][LULL_JOB_MAX_NAMES] = {{false}};
        struct lull_event event;
        uint32_t count = 0;

        assert_int_equal(in_child(fixture->path, careless_threads), 0);
        while (lull_event_segment_read(fixture->job, job, &event, 1) == 1) {
            bool *open = &is_open[event.thread][event.name];

            assert_true(event.kind == LULL_EVENT_BEGIN || event.kind == LULL_EVENT_END);
            assert_int_equal(*open, event.kind == LULL_EVENT_END);
            *open = !*open;
            count++;
        }
        assert_int_equal(lull_event_segment_lost(fixture->job, job), 0);
        /* Events while another thread joins are not reported. */
        assert_true(count > CARELESS_CALLS / 2);
    }
}

static int many_names(void)
{
    char name[80];

    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "section with a rather long name so that it is cut %d", i);
        lull_section_begin(name + (i < 50 ? 0 : 40));
        lull_section_end(name + (i < 50 ? 0 : 40));
    }
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "%d", i);
        if (lull_section_register(name) >= LULL_JOB_MAX_NAMES)
            return 1;
        lull_section_begin(name);
        lull_section_end(name);
    }
    return lull_section_register("one more") == LULL_JOB_MAX_NAMES - 1 ? 0 : 1;
}

static void names_run_out(void **state)
{
    struct fixture *fixture = *state;
    struct lull_event event;
    uint32_t count = 0;

    assert_int_equal(in_child(fixture->path, many_names), 0);
    while (lull_event_segment_read(fixture->job, 0, &event, 1) == 1) {
        assert_true(event.name < LULL_JOB_MAX_NAMES);
        count++;
    }
    assert_int_equal(count, 400);
}

static int forks(void)
{
    int status = 0;
    pid_t pid;

    lull_section_begin("parent");
    pid = fork();
    if (pid == 0) {
        lull_section_end("parent"); /* not begun by the child */
        lull_section_begin("child");
        lull_section_end("child");
        _exit(0);
    }
    waitpid(pid, &status, 0);
    lull_section_end("parent");
    return status;
}

static void test_f40_fork(void **state)
{
    struct fixture *fixture = *state;
    struct lull_process_info parent;
    struct lull_process_info child;

    assert_int_equal(in_child(fixture->path, forks), 0);
    assert_int_equal(lull_event_segment_process_count(fixture->job), 2);
    assert_string_equal(reported(fixture, 0), "B0 E0");
    assert_string_equal(reported(fixture, 1), "B1 E1");
    assert_int_equal(lull_event_segment_process(fixture->job, 0, &parent), 0);
    assert_int_equal(lull_event_segment_process(fixture->job, 1, &child), 0);
    assert_true(parent.pid != child.pid);
}

static void *work(void *argument)
{
    (void)argument;
    for (int i = 0; i < 200; i++) {
        lull_section_begin("work");
        lull_section_end("work");
    }
    return NULL;
}

static int threads_and_forks(void)
{
    pthread_t threads[4];
    int failed = 0;

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 20; i++) {
        int status = 0;
        pid_t pid = fork();

        if (pid == 0) {
            work(NULL);
            _exit(0);
        }
        waitpid(pid, &status, 0);
        failed |= status;
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return failed != 0;
}

static void test_f40_fork_in_a_busy_client(void **state)
{
    struct fixture *fixture = *state;
    struct lull_event event;
    uint32_t threads_seen = 0;
    uint32_t parent = 0;

    assert_int_equal(in_child(fixture->path, threads_and_forks), 0);
    for (uint32_t slot = 0; slot < lull_event_segment_process_count(fixture->job); slot++) {
        uint32_t count = 0;
        uint32_t threads = 0;

        while (lull_event_segment_read(fixture->job, slot, &event, 1) == 1) {
            assert_true(event.thread < 8);
            threads |= 1u << event.thread;
            count++;
        }
        assert_int_equal(lull_event_segment_lost(fixture->job, slot), 0);
        if (count > 400)
            parent++;
        threads_seen |= threads;
        assert_true(count <= 1600);
    }
    assert_true(parent <= 1);
    assert_true(threads_seen != 0);
}

static int nothing_happens(void)
{
    return nested_sections() + misuse() + many_names() + forks();
}

static void test_f35_no_job(void **state)
{
    struct fixture *fixture = *state;
    char garbage[80];
    FILE *file;

    assert_int_equal(in_child(NULL, nothing_happens), 0);
    assert_int_equal(in_child("", nothing_happens), 0);
    assert_int_equal(in_child("/nowhere/at/all", nothing_happens), 0);
    assert_int_equal(in_child("/dev/null", nothing_happens), 0);
    assert_int_equal(in_child("/", nothing_happens), 0);
    snprintf(garbage, sizeof(garbage), "%s-garbage", fixture->path);
    file = fopen(garbage, "w");
    assert_non_null(file);
    fputs("garbage", file);
    fclose(file);
    assert_int_equal(in_child(garbage, nothing_happens), 0);
    unlink(garbage);
    chmod(fixture->path, 0);
    if (geteuid() != 0) {
        assert_int_equal(in_child(fixture->path, nothing_happens), 0);
        assert_int_equal(lull_event_segment_process_count(fixture->job), 0);
    }
}

enum { MOST_WINDOWS = LULL_JOB_MAX_WINDOWS };

static int windows(void)
{
    struct lull_window window = {.seconds = -1.0};
    int numbers[MOST_WINDOWS];

    errno = 7;
    if (lull_window_begin(NULL) != -EINVAL || lull_window_end(-1, &window) != -ENOENT ||
        lull_window_end(0, NULL) != -ENOENT || lull_window_end(INT32_MAX, &window) != -ENOENT ||
        window.seconds >= 0.0)
        return 1;
    for (int i = 0; i < MOST_WINDOWS; i++) {
        numbers[i] = lull_window_begin(i % 2 == 0 ? "even" : "odd");
        if (numbers[i] < 0)
            return 2;
    }
    if (lull_window_begin("one too many") != -ENOSPC)
        return 3;
    if (lull_window_end(numbers[3], &window) != 0 || window.seconds < 0.0 ||
        lull_window_end(numbers[3], &window) != -ENOENT)
        return 4;
    if (lull_window_begin("again") == numbers[3] || lull_window_end(numbers[4], NULL) != 0)
        return 5;
    return (window.flags & LULL_WINDOW_JOULES_VALID) == 0 && errno == 7 ? 0 : 6;
}

static void windows_without_gpus(void **state)
{
    (void)state;
    assert_int_equal(in_child(NULL, windows), 0);
}

/* Idle power of the two GPUs of the emulated node that this test runs on, nominal units. */
static const double a100_w = 59.7;
static const double v100_w = 40.0;

static int measures(double power_w, uint32_t gpus, int is_valid)
{
    struct lull_window window;
    const int number = lull_window_begin("w");

    usleep(1000000);
    if (lull_window_end(number, &window) != 0 || window.seconds < 1.0 || window.gpus != gpus)
        return 1;
    if (((window.flags & LULL_WINDOW_JOULES_VALID) != 0) != is_valid)
        return 2;
    if (is_valid && (window.joules < power_w * window.seconds - window.uncertainty_j ||
                     window.joules > power_w * window.seconds + window.uncertainty_j ||
                     window.uncertainty_j > 60.0))
        return 3;
    return 0;
}

static int number_of_window;
static struct lull_window window_of_thread;

static void *end_window(void *unused)
{
    (void)unused;
    usleep(700000);
    return (void *)(intptr_t)lull_window_end(number_of_window, &window_of_thread);
}

/* An outer window that another thread closes, inner ones of one name that overlap in it. */
static int nested(void)
{
    struct lull_window inner[2];
    void *result = NULL;
    pthread_t thread;
    int numbers[2];

    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    number_of_window = lull_window_begin("outer");
    pthread_create(&thread, NULL, end_window, NULL);
    numbers[0] = lull_window_begin("inner");
    usleep(200000);
    numbers[1] = lull_window_begin("inner");
    usleep(200000);
    if (lull_window_end(numbers[0], &inner[0]) != 0)
        return 1;
    usleep(800000); /* the thread closes the outer one; more than a second since the reading */
    if (lull_window_end(numbers[1], &inner[1]) != 0)
        return 2;
    pthread_join(thread, &result);
    if ((intptr_t)result != 0 || window_of_thread.seconds < 0.7 || inner[0].seconds < 0.4)
        return 3;
    for (int i = 0; i < 2; i++)
        if ((inner[i].flags & LULL_WINDOW_JOULES_VALID) == 0 ||
            fabs(inner[i].joules - a100_w * inner[i].seconds) > inner[i].uncertainty_j)
            return 4;
    /* 0.4 s without a reading at its end: hardly more is known than what the GPU can draw. */
    return inner[0].uncertainty_j > 15.0 && inner[1].uncertainty_j < inner[0].uncertainty_j + 50.0
               ? 0
               : 5;
}

static int all_visible(void)
{
    setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
    return measures(a100_w + v100_w, 2, 1);
}

static int one_by_uuid(void)
{
    struct lull_devices *devices;

    if (lull_devices_open(&devices, NULL) < 0)
        return 4;
    setenv("CUDA_VISIBLE_DEVICES", lull_device_info(devices, 1)->uuid, 1);
    lull_devices_close(devices);
    return measures(v100_w, 1, 1);
}

static int unknown_device(void)
{
    setenv("CUDA_VISIBLE_DEVICES", "0,7", 1);
    return measures(0.0, 0, 0);
}

static int whose_is_unknown(void)
{
    unsetenv("CUDA_VISIBLE_DEVICES");
    return measures(0.0, 0, 0);
}

static int no_counter(void)
{
    struct lull_node *node;

    if (lull_node_open(getenv(LULL_EMULATED_NODE_VARIABLE), &node, NULL) < 0 ||
        lull_node_set_faults(node, "no_energy", NULL) < 0)
        return 4;
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    return measures(0.0, 1, 0);
}

static void windows_with_gpus(void **state)
{
    (void)state;
    if (getenv(LULL_EMULATED_NODE_VARIABLE) == NULL) {
        print_message("skipped: not on an emulated node (lull emulate --seed 0 1xA100,1xV100 -- "
                      "test_lull)\n");
        skip();
    }
    assert_int_equal(in_child(NULL, all_visible), 0);
    assert_int_equal(in_child(NULL, one_by_uuid), 0);
    assert_int_equal(in_child(NULL, unknown_device), 0);
    assert_int_equal(in_child(NULL, whose_is_unknown), 0);
    assert_int_equal(in_child(NULL, nested), 0);
    assert_int_equal(in_child(NULL, no_counter), 0);
}

/* ---- a driver that hangs ------------------------------------------------------------------ */

static void *begin_window(void *number)
{
    *(int *)number = lull_window_begin("in the driver");
    return NULL;
}

static double ms_since(int64_t begin_ns)
{
    return (double)(lull_now_ns() - begin_ns) * 1e-6;
}

static int set_faults(const char *text)
{
    struct lull_node *node;

    if (lull_node_open(getenv(LULL_EMULATED_NODE_VARIABLE), &node, NULL) < 0)
        return -1;
    return lull_node_set_faults(node, text, NULL);
}

/* In the child the driver is not to be used any more, but windows cost nothing. */
static int windows_after_fork(void)
{
    const int64_t begin_ns = lull_now_ns();
    struct lull_window window;
    const int number = lull_window_begin("child");

    if (number < 0 || lull_window_end(number, &window) != 0)
        return 1;
    return ms_since(begin_ns) < 500.0 ? 0 : 2;
}

/* Both the thread that begins a window and the one that forks continue long
 * before the driver returns. After its return energy is measured again. */
static int forks_beside_a_hung_driver(void)
{
    int number = -1;
    int status = -1;
    struct lull_window window;
    pthread_t thread;
    int64_t begin_ns;
    pid_t pid;

    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    lull_window_end(lull_window_begin("first"), NULL);
    usleep(1100000);
    if (set_faults("0:read_hang_ms=6000x1") < 0)
        return 10;
    begin_ns = lull_now_ns();
    pthread_create(&thread, NULL, begin_window, &number);
    usleep(50000);
    pid = fork();
    if (pid == 0)
        _exit(windows_after_fork());
    waitpid(pid, &status, 0);
    pthread_join(thread, NULL);
    if (number < 0 || lull_window_end(number, &window) != 0)
        return 11;
    if (ms_since(begin_ns) > 3000.0)
        return 12;
    usleep(8000000 - (useconds_t)(ms_since(begin_ns) * 1e3));
    if (status != 0)
        return 100 + WEXITSTATUS(status);
    return measures(a100_w, 1, 1);
}

/* A driver that never answers costs a moment, once. */
static int hangs_from_the_beginning(void)
{
    const int64_t begin_ns = lull_now_ns();

    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    if (set_faults("0:read_hang_ms=60000x1") < 0)
        return 10;
    for (int i = 0; i < 100; i++) {
        struct lull_window window;

        if (lull_window_end(lull_window_begin("w"), &window) != 0 ||
            (window.flags & LULL_WINDOW_JOULES_VALID) != 0)
            return 11;
    }
    return ms_since(begin_ns) < 4000.0 ? 0 : 12;
}

static void test_f51_windows_beside_a_hung_driver(void **state)
{
    (void)state;
    if (getenv(LULL_EMULATED_NODE_VARIABLE) == NULL)
        skip();
    assert_int_equal(in_child(NULL, forks_beside_a_hung_driver), 0);
    assert_int_equal(in_child(NULL, hangs_from_the_beginning), 0);
}

static int tells_windows(void)
{
    const int outer = lull_window_begin("epoch");
    const int inner = lull_window_begin("eval");

    lull_window_end(outer, NULL);
    lull_window_end(inner, NULL);
    return outer == inner;
}

static void windows_are_told(void **state)
{
    struct fixture *fixture = *state;
    struct lull_event events[5];
    char name[LULL_JOB_NAME_BYTES];

    assert_int_equal(in_child(fixture->path, tells_windows), 0);
    assert_int_equal(lull_event_segment_read(fixture->job, 0, events, 5), 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(events[i].kind, i < 2 ? LULL_EVENT_WINDOW_BEGIN : LULL_EVENT_WINDOW_END);
        assert_int_equal(events[i].bytes, events[i % 2].bytes);
        lull_event_segment_name(fixture->job, 0, events[i].name, name);
        assert_string_equal(name, i % 2 == 0 ? "epoch" : "eval");
    }
    assert_true(events[0].bytes % LULL_JOB_MAX_WINDOWS != events[1].bytes % LULL_JOB_MAX_WINDOWS);
    assert_true(events[3].time_ns >= events[2].time_ns);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sections_and_steps),
        TEST(test_f32_misuse_is_tolerated),
        TEST(test_f32_what_is_told_is_well_formed),
        TEST(names_run_out),
        TEST(test_f40_fork),
        TEST(test_f40_fork_in_a_busy_client),
        TEST(test_f35_no_job),
        TEST(windows_are_told),
        cmocka_unit_test(windows_without_gpus),
        /* Before the case that takes the counters away permanently. */
        cmocka_unit_test(test_f51_windows_beside_a_hung_driver),
        cmocka_unit_test(windows_with_gpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
