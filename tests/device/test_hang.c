/*
 * The device writer beside a GPU whose driver calls do not return, on an emulated node (F10).
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "device/writer.h"
#include "emulator/node.h"

enum { GPUS = 2, LOW_MHZ = 600 };

/* A client: the request of each GPU, which the writer takes once. */
struct client {
    struct lull_writer_source source;
    _Atomic uint64_t asked[GPUS];
    _Atomic uint32_t sm_mhz[GPUS];
    _Atomic uint64_t taken[GPUS]; /* the writer's thread */
    atomic_int releases;
};

static struct lull_node *node;
static struct lull_devices *devices;
static struct lull_journal *journal;
static struct lull_writer *writer;
static struct client client;
static char directory[64];
static atomic_int ends[GPUS]; /* 1: not yet */
static atomic_int statuses[GPUS];
static int64_t hung_ns; /* 0: the typical */

static bool take(void *context, uint32_t gpu, struct lull_switch_request *request_out)
{
    struct client *its = context;
    const uint64_t sequence = atomic_load(&its->asked[gpu]);

    if (sequence == its->taken[gpu])
        return false;
    its->taken[gpu] = sequence;
    *request_out = (struct lull_switch_request){.sequence = sequence,
                                                .sm_mhz = atomic_load(&its->sm_mhz[gpu]),
                                                .deadline_ns = INT64_MAX,
                                                .valid_until_ns = INT64_MAX};
    return true;
}

static void keep_result(void *context, uint32_t gpu, const struct lull_switch_result *result)
{
    (void)context;
    atomic_store(&statuses[gpu], result->status);
}

static bool take_no_limit(void *context, uint32_t gpu, struct lull_limit_request *request_out)
{
    (void)context;
    (void)gpu;
    (void)request_out;
    return false;
}

static void ignore_limit(void *context, uint32_t gpu, const struct lull_limit_result *result)
{
    (void)context;
    (void)gpu;
    (void)result;
}

static void count_release(void *context)
{
    atomic_fetch_add(&((struct client *)context)->releases, 1);
}

static void keep_end(void *context, uint32_t gpu, int result)
{
    (void)context;
    atomic_store(&ends[gpu], result);
}

static void ask(uint32_t gpu, uint32_t sm_mhz)
{
    atomic_store(&client.sm_mhz[gpu], sm_mhz);
    atomic_fetch_add(&client.asked[gpu], 1);
    eventfd_write(client.source.doorbell_fd, 1);
}

static double asked_mhz(uint32_t gpu)
{
    struct lull_node_truth truth;

    lull_node_read_truth(node, gpu, &truth);
    return truth.is_locked ? truth.asked_mhz : 0;
}

static enum lull_writer_health health_of(uint32_t gpu)
{
    struct lull_writer_state state;

    lull_writer_state(writer, gpu, &state);
    return state.health;
}

/* Waits for at most 30 s of real time until the condition holds; returns how long, in ms. */
#define WAIT_UNTIL(condition)                                                                      \
    ({                                                                                             \
        const int64_t begin_ns = lull_now_ns();                                                    \
                                                                                                   \
        while (!(condition) && lull_now_ns() < begin_ns + 30 * LULL_NS_PER_S)                      \
            usleep(1000);                                                                          \
        assert_true(condition);                                                                    \
        lull_ms_from_ns(lull_now_ns() - begin_ns);                                                 \
    })

static int start(void **state)
{
    struct lull_node_spec spec = {.seed = 0, .time_scale = 1};
    struct lull_writer_options options = lull_writer_defaults;
    const struct lull_band band = {200, 1400, 0, 0};

    (void)state;
    snprintf(directory, sizeof(directory), "/tmp/lull-hang-XXXXXX");
    if (mkdtemp(directory) == NULL || lull_node_spec_parse("2xA100-SXM4-40GB", &spec, NULL) < 0 ||
        lull_node_create(&spec, &node, NULL) < 0 ||
        lull_node_set_faults(node, geteuid() == 0 ? "" : "any_user", NULL) < 0)
        return -1;
    setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(node), 1);
    setenv("LULL_VENDOR", "nvidia", 1);
    options.ended = keep_end;
    if (hung_ns != 0)
        options.hung_ns = hung_ns;
    if (lull_devices_open(&devices, NULL) < 0 || lull_journal_open(directory, &journal, NULL) < 0 ||
        lull_writer_start(devices, journal, &options, &writer, NULL) < 0)
        return -1;
    memset(&client, 0, sizeof(client));
    client.source = (struct lull_writer_source){.doorbell_fd = eventfd(0, EFD_CLOEXEC),
                                                .channel = {.context = &client,
                                                            .take = take,
                                                            .publish = keep_result,
                                                            .take_limit = take_no_limit,
                                                            .publish_limit = ignore_limit},
                                                .released = count_release,
                                                .context = &client};
    if (lull_writer_add_source(writer, &client.source, NULL) < 0)
        return -1;
    for (uint32_t i = 0; i < GPUS; i++) {
        atomic_store(&ends[i], 1);
        lull_writer_grant(writer, i, &client.source, &band);
        ask(i, LOW_MHZ);
    }
    for (uint32_t i = 0; i < GPUS; i++)
        WAIT_UNTIL(asked_mhz(i) > 0);
    return 0;
}

/* Gives everything back, but for what a stuck thread may still use. */
static int stop(void **state)
{
    char command[96];

    (void)state;
    if (writer != NULL) {
        assert_int_equal(lull_writer_stop(writer, 10 * LULL_NS_PER_S), 0);
        lull_journal_close(journal);
        lull_devices_close(devices);
        close(client.source.doorbell_fd);
    }
    lull_node_remove(node);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    return system(command);
}

static void inject(const char *text)
{
    assert_int_equal(lull_node_set_faults(node, text, NULL), 0);
}

/* Lets GPU 0 hang in a call, raises GPU 1 and measures how long that takes. */
static void check_raise_beside(const char *fault, enum lull_writer_health health)
{
    double raise_ms;

    inject(fault);
    ask(0, 0);
    usleep(10000); /* lets the call of GPU 0 begin, which is the worst case */
    ask(1, 0);
    raise_ms = WAIT_UNTIL(asked_mhz(1) == 0);
    printf("GPU 1 raised beside the hung GPU 0 after %.1f ms\n", raise_ms);
    assert_true(raise_ms < 1000); /* 100 ms on a host that is not busy */
    WAIT_UNTIL(health_of(0) == health);
    assert_int_equal(health_of(1), LULL_WRITER_UP);
    WAIT_UNTIL(health_of(0) == LULL_WRITER_UP);
    WAIT_UNTIL(asked_mhz(0) == 0);
}

static void test_f10_a_set_that_hangs_delays_no_other_gpu(void **state)
{
    (void)state;
    check_raise_beside("0:hang_ms=3000x1", LULL_WRITER_SUSPECT);
}

static void test_f10_a_reading_that_hangs_delays_no_other_gpu(void **state)
{
    (void)state;
    check_raise_beside("0:read_hang_ms=3000x1", LULL_WRITER_SUSPECT);
}

/* An ended lease of a hung GPU is reported after a second, and its client is held until it returns.
 */
static void test_f10_the_end_of_a_hung_lease_is_not_waited_for(void **state)
{
    (void)state;
    inject("0:hang_ms=4000x1");
    ask(0, 0);
    usleep(200000); /* the call is under way and has lost its turn */
    lull_writer_remove_source(writer, &client.source);
    WAIT_UNTIL(atomic_load(&ends[1]) == 0);
    WAIT_UNTIL(atomic_load(&ends[0]) != 1);
    assert_int_equal(atomic_load(&ends[0]), -ETIMEDOUT);
    assert_int_equal(atomic_load(&client.releases), 0);
    WAIT_UNTIL(atomic_load(&client.releases) == 1);
    WAIT_UNTIL(asked_mhz(0) == 0);
    assert_int_equal(atomic_load(&ends[0]), -ETIMEDOUT); /* reported once */
}

static void test_f10_a_stop_does_not_wait_for_a_hung_gpu(void **state)
{
    const int64_t begin_ns = lull_now_ns();
    double stop_ms;

    (void)state;
    inject("0:hang_ms=60000x1");
    ask(0, 0);
    usleep(200000);
    assert_int_equal(lull_writer_stop(writer, 20 * LULL_NS_PER_S), -EINPROGRESS);
    stop_ms = lull_ms_from_ns(lull_now_ns() - begin_ns);
    printf("stopped after %.0f ms\n", stop_ms);
    assert_true(stop_ms < 10000); /* a second after the call began, and what a busy host adds */
    assert_true(asked_mhz(1) == 0);
    writer = NULL;
}

static int start_impatient(void **state)
{
    int result;

    hung_ns = 2 * LULL_NS_PER_S;
    result = start(state);
    hung_ns = 0;
    return result;
}

/* Returns the number of lines of a file that contain a text. */
static uint32_t count_lines(const char *path, const char *text)
{
    FILE *file = fopen(path, "r");
    char line[512];
    uint32_t count = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, text) != NULL;
    fclose(file);
    return count;
}

/* Requests to a GPU that hangs are answered, and what its thread does is said once. */
static void test_f10_a_hung_gpu_answers_its_requests(void **state)
{
    const int error_fd = dup(STDERR_FILENO);
    struct lull_error error;
    char log[80];
    int log_fd;

    (void)state;
    snprintf(log, sizeof(log), "%s/log", directory);
    log_fd = open(log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    dup2(log_fd, STDERR_FILENO);
    inject("0:hang_ms=5000x1");
    ask(0, 900);
    WAIT_UNTIL(health_of(0) == LULL_WRITER_SUSPECT);
    assert_int_equal(lull_writer_check(writer, 0, &error), -ETIMEDOUT);
    assert_int_equal(lull_writer_check(writer, 1, NULL), 0);
    ask(0, 700);
    WAIT_UNTIL(atomic_load(&statuses[0]) == -ETIMEDOUT);
    WAIT_UNTIL(health_of(0) == LULL_WRITER_HUNG);
    ask(0, 800);
    WAIT_UNTIL(client.taken[0] == atomic_load(&client.asked[0]));
    WAIT_UNTIL(health_of(0) == LULL_WRITER_UP);
    dup2(error_fd, STDERR_FILENO);
    close(error_fd);
    close(log_fd);
    assert_int_equal(count_lines(log, "HUNG: its thread"), 1);
    assert_int_equal(count_lines(log, "is in state S"), 1); /* the emulator sleeps */
    assert_int_equal(lull_writer_check(writer, 0, NULL), 0);
    ask(0, 600);
    WAIT_UNTIL(asked_mhz(0) == 600);
}

#define WITH_NODE(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_NODE(test_f10_a_set_that_hangs_delays_no_other_gpu),
        WITH_NODE(test_f10_a_reading_that_hangs_delays_no_other_gpu),
        WITH_NODE(test_f10_the_end_of_a_hung_lease_is_not_waited_for),
        cmocka_unit_test_setup_teardown(test_f10_a_hung_gpu_answers_its_requests, start_impatient,
                                        stop),
        WITH_NODE(test_f10_a_stop_does_not_wait_for_a_hung_gpu), /* the last: a thread stays */
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
