/*
 * The emulated node among processes: times of waits, shared state, and processes killed anywhere.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "check.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "emulator/node.h"
#include "emulator/noise.h"
#include "emulator/workload.h"

static struct lull_node *node;

static int create_node(void **state)
{
    struct lull_node_spec spec = {.seed = 0, .time_scale = 1};

    (void)state;
    if (lull_node_spec_parse("2xA100-SXM4-40GB", &spec, NULL) < 0 ||
        lull_node_create(&spec, &node, NULL) < 0)
        return -1;
    return setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(node), 1);
}

static int remove_node(void **state)
{
    (void)state;
    lull_node_remove(node);
    return 0;
}

static struct lull_node_truth read_truth(uint32_t gpu)
{
    struct lull_node_truth truth;

    lull_node_read_truth(node, gpu, &truth);
    return truth;
}

static struct lull_emulated_gpu *open_gpu(uint32_t index)
{
    struct lull_emulated_gpu *gpu = NULL;

    assert_int_equal(lull_emulated_gpu_open(index, &gpu, NULL), 0);
    assert_non_null(gpu);
    return gpu;
}

static void apply_lock(struct lull_physics *physics, double settle_factor, const void *data)
{
    const uint32_t *step = data;
    const struct lull_clock_setting lock = {.is_locked = true, .max_step = *step};

    lull_physics_ask_clocks(physics, &lock, settle_factor);
}

static int lock_clock(uint32_t gpu, uint32_t step)
{
    return lull_node_call(node, gpu, 1, apply_lock, &step);
}

static void test_without_a_node_everything_is_a_no_op(void **state)
{
    struct lull_emulated_gpu *gpu = (struct lull_emulated_gpu *)1;
    const struct lull_kernel kernel = {.duration_ms = 1000};
    const struct lull_workload_transfer transfer = {.bytes = 1e12, .link_gbs = 1, .channels = 1};

    (void)state;
    unsetenv(LULL_EMULATED_NODE_VARIABLE);
    assert_int_equal(lull_emulated_gpu_open(0, &gpu, NULL), 0);
    assert_null(gpu);
    lull_emulated_gpu_launch(gpu, &kernel);
    lull_emulated_gpu_wait(gpu);
    lull_emulated_gpu_transfer_begin(gpu, &transfer);
    lull_emulated_gpu_transfer_wait(gpu, 1);
    lull_emulated_gpu_transfer_end(gpu);
    lull_emulated_gpu_close(gpu);
}

static void test_a_wrong_node_is_refused(void **state)
{
    struct lull_emulated_gpu *gpu;
    struct lull_error err = {0};

    (void)state;
    assert_int_equal(lull_emulated_gpu_open(2, &gpu, &err), -ENODEV);
    setenv(LULL_EMULATED_NODE_VARIABLE, "/nonexistent/node", 1);
    assert_int_equal(lull_emulated_gpu_open(0, &gpu, &err), -ENOENT);
    setenv(LULL_EMULATED_NODE_VARIABLE, "/proc/self/exe", 1);
    assert_true(lull_emulated_gpu_open(0, &gpu, &err) < 0);
}

static void test_waits_end_on_time(void **state)
{
    const struct lull_kernel kernel = {.duration_ms = 5, .profile = "lammps"};
    const struct lull_workload_transfer transfer = {.bytes = 2e8, .link_gbs = 20, .channels = 4};
    struct lull_emulated_gpu *gpu = open_gpu(0);
    double compute_ms[20];
    double transfer_ms[20];

    (void)state;
    for (int i = 0; i < 20; i++) {
        int64_t begin_ns = lull_now_ns();

        lull_emulated_gpu_launch(gpu, &kernel);
        lull_emulated_gpu_launch(gpu, &kernel);
        lull_emulated_gpu_wait(gpu);
        compute_ms[i] = lull_ms_from_ns(lull_now_ns() - begin_ns);
        begin_ns = lull_now_ns();
        lull_emulated_gpu_transfer_begin(gpu, &transfer);
        lull_emulated_gpu_transfer_wait(gpu, 1);
        lull_emulated_gpu_transfer_end(gpu);
        transfer_ms[i] = lull_ms_from_ns(lull_now_ns() - begin_ns);
    }
    lull_emulated_gpu_close(gpu);
    /* Upper bounds leave room for a busy machine and for sanitizers; the lower ones are exact. */
    check_within("compute of 10 ms, median ms", quantile(compute_ms, 20, 0.5), 10, 15);
    check_within("compute of 10 ms, least ms", compute_ms[0], 10, 15);
    check_within("transfer of 10 ms, median ms", quantile(transfer_ms, 20, 0.5), 10, 15);
}

static void test_a_full_queue_makes_launch_wait(void **state)
{
    const struct lull_kernel kernel = {.duration_ms = 1, .profile = "lammps"};
    struct lull_emulated_gpu *gpu = open_gpu(0);
    const int64_t begin_ns = lull_now_ns();

    (void)state;
    for (int i = 0; i < 100; i++)
        lull_emulated_gpu_launch(gpu, &kernel);
    lull_emulated_gpu_wait(gpu);
    check_within("100 kernels, ms", lull_ms_from_ns(lull_now_ns() - begin_ns), 100, 150);
    assert_int_equal(read_truth(0).kernels_started, 100);
    lull_emulated_gpu_close(gpu);
}

static void test_a_waiter_follows_a_clock_change(void **state)
{
    const struct lull_kernel kernel = {.duration_ms = 100, .profile = "dgemm"};
    int64_t begin_ns;
    double took_ms;
    pid_t child;

    (void)state;
    child = fork();
    if (child == 0) {
        lull_sleep_until_ns(lull_now_ns() + 20 * LULL_NS_PER_MS);
        _exit(lock_clock(0, 33)); /* 705 MHz, half the highest */
    }
    struct lull_emulated_gpu *gpu = open_gpu(0);

    begin_ns = lull_now_ns();
    lull_emulated_gpu_launch(gpu, &kernel);
    lull_emulated_gpu_wait(gpu);
    took_ms = lull_ms_from_ns(lull_now_ns() - begin_ns);
    waitpid(child, NULL, 0);
    lull_emulated_gpu_close(gpu);
    check_within("100 ms kernel, half clock after some 30 ms", took_ms, 120, 185);
}

static void test_calls_of_all_gpus_take_turns(void **state)
{
    enum { calls = 5 };
    int64_t begin_ns = lull_now_ns();

    (void)state;
    for (uint32_t gpu = 0; gpu < 2; gpu++) {
        if (fork() == 0) {
            for (uint32_t i = 0; i < calls; i++)
                lock_clock(gpu, i);
            _exit(0);
        }
    }
    while (wait(NULL) > 0)
        continue;
    check_within("10 calls of two processes, ms each",
                 lull_ms_from_ns(lull_now_ns() - begin_ns) / (2 * calls), 2, 16);
}

static void test_the_dead_leave_their_contexts(void **state)
{
    const struct lull_kernel kernel = {.duration_ms = 60000, .profile = "dgemm"};
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        struct lull_emulated_gpu *gpu = open_gpu(1);

        lull_emulated_gpu_launch(gpu, &kernel);
        lull_emulated_gpu_wait(gpu);
        _exit(0);
    }
    while (read_truth(1).contexts == 0)
        usleep(1000);
    kill(child, SIGKILL);
    usleep(100000); /* not waited for: a zombie is dead enough */
    assert_int_equal(read_truth(1).contexts, 0);
    waitpid(child, NULL, 0);
}

/* Works on the node as fast as it can until it is killed. */
static void __attribute__((noreturn)) work_for_ever(uint64_t random)
{
    const struct lull_kernel kernel = {.duration_ms = 0.05, .profile = "lammps"};
    const struct lull_workload_transfer transfer = {.bytes = 1e6, .link_gbs = 20, .channels = 4};

    for (;;) {
        const uint32_t index = lull_noise_next(&random) < 0.5 ? 0 : 1;
        struct lull_emulated_gpu *gpu = NULL;

        if (lull_emulated_gpu_open(index, &gpu, NULL) < 0)
            continue; /* all contexts are taken by the dead of the last moment */
        for (int i = 0; i < 10; i++) {
            lull_emulated_gpu_launch(gpu, &kernel);
            lull_emulated_gpu_transfer_begin(gpu, &transfer);
            lull_emulated_gpu_wait(gpu);
        }
        if (lull_noise_next(&random) < 0.1)
            lock_clock(index, 20);
        lull_emulated_gpu_close(gpu);
    }
}

static void test_killed_anywhere_the_node_stays_usable(void **state)
{
    enum { workers = 3, kills = 150 };
    pid_t children[workers];
    uint64_t random = 11;
    double energy_j = 0;

    (void)state;
    for (int i = 0; i < workers; i++) {
        children[i] = fork();
        if (children[i] == 0)
            work_for_ever((uint64_t)i);
    }
    for (int i = 0; i < kills; i++) {
        const int victim = i % workers;
        struct lull_node_truth truth;

        usleep((unsigned)(5000 * lull_noise_next(&random)));
        kill(children[victim], SIGKILL);
        waitpid(children[victim], NULL, 0);
        children[victim] = fork();
        if (children[victim] == 0)
            work_for_ever((uint64_t)(i + workers));
        truth = read_truth(0);
        assert_true(truth.energy_j >= energy_j);
        energy_j = truth.energy_j;
    }
    for (int i = 0; i < workers; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    usleep(60000);
    read_truth(0);
    assert_int_equal(read_truth(0).contexts, 0);
    assert_int_equal(lock_clock(0, 5), 0);
    usleep(100000);
    assert_true(read_truth(0).asked_mhz == 285);
}

static void test_faults_of_set_calls(void **state)
{
    int64_t begin_ns;

    (void)state;
    assert_int_equal(lull_node_set_faults(node, "0:set_code=10x1", NULL), 0);
    assert_int_equal(lock_clock(1, 3), 0);
    assert_int_equal(lock_clock(0, 3), 10);
    assert_false(read_truth(0).is_locked);
    assert_int_equal(lock_clock(0, 3), 0);
    assert_true(read_truth(0).is_locked);
    assert_int_equal(lull_node_set_faults(node, "0:set_code=10x1@1", NULL), 0);
    assert_int_equal(lock_clock(0, 3), 0);
    assert_int_equal(lock_clock(0, 3), 10);
    assert_int_equal(lock_clock(0, 3), 0);
    assert_int_equal(lull_node_set_faults(node, "no_effectx1", NULL), -EINVAL);
    assert_int_equal(lull_node_set_faults(node, "no_effect=1x1,hang_ms=200x1", NULL), 0);
    begin_ns = lull_now_ns();
    assert_int_equal(lock_clock(0, 4), 0);
    check_within("a call that hangs for 200 ms", lull_ms_from_ns(lull_now_ns() - begin_ns), 200,
                 400);
    assert_true(read_truth(0).asked_mhz == 255);
}

static void test_virtual_time_may_run_faster(void **state)
{
    const struct lull_kernel kernel = {.duration_ms = 1000, .profile = "lammps"};
    struct lull_node_spec spec = {.time_scale = 20};
    struct lull_node *fast;
    struct lull_emulated_gpu *gpu;
    int64_t begin_ns;

    (void)state;
    assert_int_equal(lull_node_spec_parse("A100", &spec, NULL), 0);
    assert_int_equal(lull_node_create(&spec, &fast, NULL), 0);
    setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(fast), 1);
    gpu = open_gpu(0);
    begin_ns = lull_now_ns();
    lull_emulated_gpu_launch(gpu, &kernel);
    lull_emulated_gpu_wait(gpu);
    check_within("1000 ms at scale 20, ms", lull_ms_from_ns(lull_now_ns() - begin_ns), 50, 80);
    lull_emulated_gpu_close(gpu);
    lull_node_remove(fast);
}

#define WITH_NODE(test) cmocka_unit_test_setup_teardown(test, create_node, remove_node)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_NODE(test_without_a_node_everything_is_a_no_op),
        WITH_NODE(test_a_wrong_node_is_refused),
        WITH_NODE(test_waits_end_on_time),
        WITH_NODE(test_a_full_queue_makes_launch_wait),
        WITH_NODE(test_a_waiter_follows_a_clock_change),
        WITH_NODE(test_calls_of_all_gpus_take_turns),
        WITH_NODE(test_the_dead_leave_their_contexts),
        WITH_NODE(test_killed_anywhere_the_node_stays_usable),
        WITH_NODE(test_faults_of_set_calls),
        WITH_NODE(test_virtual_time_may_run_faster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
