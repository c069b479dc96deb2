/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "wire/command.h"

static bool take(struct lull_command_table *table, uint32_t slot,
                 struct lull_switch_request *request)
{
    const struct lull_switch_channel channel = lull_command_channel(table);

    return channel.take(channel.context, slot, request);
}

static void publish(struct lull_command_table *table, uint32_t slot,
                    const struct lull_switch_result *result)
{
    const struct lull_switch_channel channel = lull_command_channel(table);

    channel.publish(channel.context, slot, result);
}

static bool take_limit(struct lull_command_table *table, uint32_t slot,
                       struct lull_limit_request *request)
{
    const struct lull_switch_channel channel = lull_command_channel(table);

    return channel.take_limit(channel.context, slot, request);
}

static void publish_limit(struct lull_command_table *table, uint32_t slot,
                          const struct lull_limit_result *result)
{
    const struct lull_switch_channel channel = lull_command_channel(table);

    channel.publish_limit(channel.context, slot, result);
}

static const size_t table_bytes = 4 * LULL_COMMAND_SLOTS * 64;

static void test_latest_request_is_taken_once(void **state)
{
    struct lull_command_table *writer;
    struct lull_command_table *client;
    struct lull_switch_request request = {.sm_mhz = 900, .deadline_ns = -5, .valid_until_ns = 7};

    (void)state;
    assert_int_equal(lull_command_table_create(&writer, NULL), 0);
    assert_int_equal(lull_command_table_open(lull_command_table_fd(writer), &client, NULL), 0);
    assert_false(take(writer, 3, &request));
    assert_int_equal(lull_command_post(client, 3, &request), 1);
    request.sm_mhz = 1000;
    assert_int_equal(lull_command_post(client, 3, &request), 2);
    memset(&request, 0, sizeof(request));
    assert_false(take(writer, 2, &request));
    assert_true(take(writer, 3, &request));
    assert_int_equal(request.sequence, 2);
    assert_int_equal(request.sm_mhz, 1000);
    assert_int_equal(request.deadline_ns, -5);
    assert_int_equal(request.valid_until_ns, 7);
    assert_false(take(writer, 3, &request));
    lull_command_table_close(client);
    lull_command_table_close(writer);
}

static void test_results_come_back(void **state)
{
    struct lull_command_table *writer;
    struct lull_command_table *client;
    const struct lull_switch_result sent = {9, 1, 2, -2, LULL_E_STALE, 900, 915, 31, 507000};
    struct lull_switch_result got;

    (void)state;
    assert_int_equal(lull_command_table_create(&writer, NULL), 0);
    assert_int_equal(lull_command_table_open(lull_command_table_fd(writer), &client, NULL), 0);
    lull_command_result(client, 63, &got);
    assert_int_equal(got.sequence, 0);
    publish(writer, 63, &sent);
    lull_command_result(client, 63, &got);
    assert_int_equal(got.sequence, 9);
    assert_int_equal(got.status, LULL_E_STALE);
    assert_int_equal(got.settle_ns, -2);
    assert_int_equal(got.observed_mhz, 915);
    assert_int_equal(got.calls, 31);
    assert_int_equal(got.blocked_us, 507000);
    lull_command_table_close(client);
    lull_command_table_close(writer);
}

static void test_limits_go_and_come_back(void **state)
{
    struct lull_command_table *writer;
    struct lull_command_table *client;
    const struct lull_limit_result sent = {2, LULL_E_NOT_OBEYED, 250000};
    struct lull_limit_request request;
    struct lull_limit_result got;

    (void)state;
    assert_int_equal(lull_command_table_create(&writer, NULL), 0);
    assert_int_equal(lull_command_table_open(lull_command_table_fd(writer), &client, NULL), 0);
    assert_false(take_limit(writer, 3, &request));
    for (uint32_t i = 1; i <= 2; i++)
        assert_int_equal(lull_command_post_limit(
                             client, 3, &(struct lull_limit_request){.limit_mw = i * 100000}),
                         i);
    assert_true(take_limit(writer, 3, &request)); /* the latest one */
    assert_int_equal(request.sequence, 2);
    assert_int_equal(request.limit_mw, 200000);
    assert_false(take_limit(writer, 3, &request));
    publish_limit(writer, 3, &sent);
    lull_command_limit_result(client, 3, &got);
    assert_memory_equal(&got, &sent, sizeof(got));
    lull_command_table_close(client);
    lull_command_table_close(writer);
}

/* The client's descriptor is the same memory: it must not be able to shrink it. */
static void test_size_is_sealed(void **state)
{
    struct lull_command_table *table;
    struct lull_error error;
    int other = memfd_create("other", MFD_CLOEXEC);

    (void)state;
    assert_int_equal(lull_command_table_create(&table, NULL), 0);
    assert_int_equal(ftruncate(lull_command_table_fd(table), 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(lull_command_table_fd(table), (off_t)(2 * table_bytes)), -1);
    assert_int_equal(lull_command_table_open(other, &table, &error), -EINVAL);
    close(other);
    lull_command_table_close(table);
}

/* Versions that never settle, jump or stay odd cost a bounded look and no more. */
static void test_hostile_memory_is_survived(void **state)
{
    struct lull_command_table *table;
    struct lull_switch_request request;
    struct lull_limit_request limit;
    unsigned char *memory;

    (void)state;
    assert_int_equal(lull_command_table_create(&table, NULL), 0);
    memory = mmap(NULL, table_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                  lull_command_table_fd(table), 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    memset(memory, 0xff, table_bytes);
    for (uint32_t slot = 0; slot < LULL_COMMAND_SLOTS; slot++)
        assert_false(take(table, slot, &request) || take_limit(table, slot, &limit));
    memset(memory, 0xfe, table_bytes);
    for (uint32_t slot = 0; slot < LULL_COMMAND_SLOTS; slot++) {
        assert_true(take(table, slot, &request));
        assert_int_equal(request.sm_mhz, 0xfefefefe);
    }
    munmap(memory, table_bytes);
    lull_command_table_close(table);
}

static void test_forked_child_has_no_table(void **state)
{
    struct lull_command_table *table;
    int status;
    pid_t child;

    (void)state;
    assert_int_equal(lull_command_table_create(&table, NULL), 0);
    child = fork();
    if (child == 0) {
        struct lull_switch_request request = {.sm_mhz = 1};

        fclose(stderr); /* a sanitizer's report of what is meant to happen */
        signal(SIGSEGV, SIG_DFL);
        lull_command_post(table, 0, &request);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    lull_command_table_close(table);
}

struct race {
    struct lull_command_table *table;
    atomic_bool is_over;
};

static void *post_all(void *argument)
{
    struct race *race = argument;

    for (uint32_t i = 1; i <= 200000; i++) {
        const struct lull_switch_request request = {
            .sm_mhz = i, .deadline_ns = i, .valid_until_ns = 2 * (int64_t)i};

        lull_command_post(race->table, 0, &request);
    }
    atomic_store(&race->is_over, true);
    return NULL;
}

static void test_records_are_never_torn(void **state)
{
    struct race race = {.is_over = false};
    struct lull_switch_request request;
    uint64_t last = 0;
    pthread_t poster;

    (void)state;
    assert_int_equal(lull_command_table_create(&race.table, NULL), 0);
    assert_int_equal(pthread_create(&poster, NULL, post_all, &race), 0);
    while (!atomic_load(&race.is_over) || last < 200000) {
        if (!take(race.table, 0, &request))
            continue;
        assert_true(request.sequence > last);
        assert_int_equal(request.sm_mhz, request.sequence);
        assert_int_equal(request.deadline_ns, request.sequence);
        assert_int_equal(request.valid_until_ns, 2 * request.sequence);
        last = request.sequence;
    }
    pthread_join(poster, NULL);
    lull_command_table_close(race.table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latest_request_is_taken_once),
        cmocka_unit_test(test_results_come_back),
        cmocka_unit_test(test_limits_go_and_come_back),
        cmocka_unit_test(test_size_is_sealed),
        cmocka_unit_test(test_hostile_memory_is_survived),
        cmocka_unit_test(test_forked_child_has_no_table),
        cmocka_unit_test(test_records_are_never_torn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
