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

#include <stdatomic.h>

/* Tells the test of every store into the shared memory, after it. */
static void on_store(const volatile void *address);

#undef atomic_store_explicit
#define atomic_store_explicit(address, value, order)                                               \
    do {                                                                                           \
        *(address) = (value);                                                                      \
        on_store(address);                                                                         \
    } while (0)

#include "wire/command.c"

static const _Atomic uint64_t *watched; /* the version of a record; NULL: none */
static uint64_t versions_seen[16];      /* after each store into it */
static uint32_t stores;

static void on_store(const volatile void *address)
{
    (void)address;
    if (watched != NULL && stores < 16)
        versions_seen[stores++] = *watched;
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
    assert_false(command_ring_take(writer, 3, &request));
    assert_int_equal(lull_command_post(client, 3, &request), 1);
    request.sm_mhz = 1000;
    assert_int_equal(lull_command_post(client, 3, &request), 2);
    memset(&request, 0, sizeof(request));
    assert_false(command_ring_take(writer, 2, &request));
    assert_true(command_ring_take(writer, 3, &request));
    assert_int_equal(request.sequence, 2);
    assert_int_equal(request.sm_mhz, 1000);
    assert_int_equal(request.deadline_ns, -5);
    assert_int_equal(request.valid_until_ns, 7);
    assert_false(command_ring_take(writer, 3, &request));
    lull_command_table_close(client);
    lull_command_table_close(writer);
}

static void test_results_come_back(void **state)
{
    struct lull_command_table *writer;
    struct lull_command_table *client;
    static const struct lull_switch_result sent = {9,  1,    2,      -2, LULL_E_STALE, 900, 915,
                                                   31, 1005, 507000, 12};
    struct lull_switch_result got;

    (void)state;
    assert_int_equal(lull_command_table_create(&writer, NULL), 0);
    assert_int_equal(lull_command_table_open(lull_command_table_fd(writer), &client, NULL), 0);
    lull_command_result(client, 63, &got);
    assert_int_equal(got.sequence, 0);
    command_ring_publish(writer, 63, &sent);
    lull_command_result(client, 63, &got);
    assert_int_equal(got.sequence, 9);
    assert_memory_equal(&got, &sent, sizeof(got));
    lull_command_table_close(client);
    lull_command_table_close(writer);
}

static void test_limits_go_and_come_back(void **state)
{
    struct lull_command_table *writer;
    struct lull_command_table *client;
    const struct lull_limit_result sent = {2,  LULL_E_NOT_APPLIED, 250000, 2, -EACCES, 5, 3, -EBUSY,
                                           400};
    struct lull_limit_request request;
    struct lull_limit_result got;

    (void)state;
    assert_int_equal(lull_command_table_create(&writer, NULL), 0);
    assert_int_equal(lull_command_table_open(lull_command_table_fd(writer), &client, NULL), 0);
    assert_false(command_ring_take_limit(writer, 3, &request));
    for (uint32_t i = 1; i <= 2; i++)
        assert_int_equal(lull_command_post_limit(
                             client, 3,
                             &(struct lull_limit_request){.limit_mw = i * 100000,
                                                          .profiles = i,
                                                          .smoothing = {i, 500, 600, 100 + i}}),
                         i);
    assert_true(command_ring_take_limit(writer, 3, &request)); /* the latest one */
    assert_int_equal(request.sequence, 2);
    assert_int_equal(request.limit_mw, 200000);
    assert_int_equal(request.profiles, 2);
    assert_int_equal(request.smoothing.floor_percent, 2);
    assert_int_equal(request.smoothing.hysteresis_ms, 102);
    assert_false(command_ring_take_limit(writer, 3, &request));
    command_ring_publish_limit(writer, 3, &sent);
    lull_command_limit_result(client, 3, &got);
    assert_memory_equal(&got, &sent, sizeof(got));
    lull_command_table_close(client);
    lull_command_table_close(writer);
}

/* Releases without power profiles share shorter values; the rest of a record is 0 there. */
static void test_a_release_without_profiles_is_served(void **state)
{
    static const struct part old_request = {BYTES(struct lull_limit_request, limit_mw, limit_mw)};
    static const struct part old_result = {BYTES(struct lull_limit_result, sequence, limit_mw)};
    const struct lull_limit_result sent = {1, -EBUSY, 250000, 7, 7, 7, 7, 7, 7};
    struct lull_limit_request request = {
        .limit_mw = 200000, .profiles = 7, .smoothing = {7, 7, 7, 7}};
    struct lull_limit_result got;
    struct lull_command_table *table;

    (void)state;
    assert_int_equal(lull_command_table_create(&table, NULL), 0);
    command_ring_write_record(&table->shared->limit_requests[3], 2, &old_request, &request);
    assert_true(command_ring_take_limit(table, 3, &request));
    assert_int_equal(request.limit_mw, 200000);
    assert_int_equal(request.profiles, 0);
    assert_int_equal(request.smoothing.floor_percent, 0);
    command_ring_write_record(&table->shared->limit_results[3], 2, &old_result, &sent);
    lull_command_limit_result(table, 3, &got);
    assert_int_equal(got.status, -EBUSY);
    assert_int_equal(got.limit_mw, 250000);
    assert_int_equal(got.profile_sequence + got.profiles, 0);
    assert_int_equal(got.smoothing_sequence + got.smoothing_floor_w, 0);
    request = (struct lull_limit_request){.limit_mw = 300000, .profiles = 7};
    assert_int_equal(lull_command_post_limit(table, 4, &request), 1);
    request.limit_mw = 0;
    command_ring_read_record(&table->shared->limit_requests[4], 0, &old_request, &request);
    assert_int_equal(request.limit_mw, 300000);
    lull_command_table_close(table);
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
        assert_false(command_ring_take(table, slot, &request) ||
                     command_ring_take_limit(table, slot, &limit));
    memset(memory, 0xfe, table_bytes);
    for (uint32_t slot = 0; slot < LULL_COMMAND_SLOTS; slot++) {
        assert_true(command_ring_take(table, slot, &request));
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

/* A result that is being written, or whose writing never ended, leaves the last result unchanged.
 */
static void test_a_half_written_result_is_not_read(void **state)
{
    /* Static, so that what lies between their members is 0 as well. */
    static const struct lull_switch_result first = {1, 1, 2, 3, 0, 900, 915, 31, 507};
    static const struct lull_limit_result first_limit = {1, 0, 250000};
    struct lull_command_table *table;
    struct lull_switch_result got;
    struct lull_limit_result got_limit;
    unsigned char *memory;
    unsigned char *versions[2];

    (void)state;
    assert_int_equal(lull_command_table_create(&table, NULL), 0);
    memory = mmap(NULL, table_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                  lull_command_table_fd(table), 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    versions[0] = memory + (LULL_COMMAND_SLOTS + 5) * 64;     /* the result of slot 5... */
    versions[1] = memory + (3 * LULL_COMMAND_SLOTS + 5) * 64; /* ...and that of its limit */
    for (uint32_t round = 1; round <= 3; round++) {
        command_ring_publish(table, 5, &first);
        command_ring_publish_limit(table, 5, &first_limit);
        for (int i = 0; i < 2; i++)
            assert_int_equal(*versions[i], 2 * round);
    }
    lull_command_result(table, 5, &got);
    lull_command_limit_result(table, 5, &got_limit);
    for (int i = 0; i < 2; i++) {
        memset(versions[i], 0xfe, 64);
        *versions[i] = 0xff;
    }
    memset(&got, 0, sizeof(got));
    memset(&got_limit, 0, sizeof(got_limit));
    lull_command_result(table, 5, &got);
    lull_command_limit_result(table, 5, &got_limit);
    assert_memory_equal(&got, &first, sizeof(got));
    assert_memory_equal(&got_limit, &first_limit, sizeof(got_limit));
    for (int i = 0; i < 2; i++)
        *versions[i] = 0xfe; /* it is whole now */
    lull_command_result(table, 5, &got);
    lull_command_limit_result(table, 5, &got_limit);
    assert_int_equal(got.sm_mhz, 0xfefefefe);
    assert_int_equal(got_limit.limit_mw, 0xfefefefe);
    munmap(memory, table_bytes);
    lull_command_table_close(table);
}

static void watch(const _Atomic uint64_t *version)
{
    watched = version;
    stores = 0;
}

/* A version is odd from the first store into its record to the last, which makes it even. */
static void check_stores(uint64_t last)
{
    assert_int_equal(stores, RECORD_WORDS + 2);
    for (uint32_t i = 0; i <= RECORD_WORDS; i++)
        assert_int_equal(versions_seen[i], last - 1);
    assert_int_equal(versions_seen[RECORD_WORDS + 1], last);
    watched = NULL;
}

static void test_records_are_marked_while_they_are_written(void **state)
{
    const struct lull_switch_request request = {0};
    const struct lull_switch_result result = {0};
    const struct lull_limit_request limit_request = {0};
    const struct lull_limit_result limit_result = {0};
    struct lull_command_table *table;

    (void)state;
    assert_int_equal(lull_command_table_create(&table, NULL), 0);
    for (uint64_t round = 1; round <= 2; round++) {
        watch(&table->shared->requests[3].version);
        lull_command_post(table, 3, &request);
        check_stores(2 * round);
        watch(&table->shared->results[3].version);
        command_ring_publish(table, 3, &result);
        check_stores(2 * round);
        watch(&table->shared->limit_requests[3].version);
        lull_command_post_limit(table, 3, &limit_request);
        check_stores(2 * round);
        watch(&table->shared->limit_results[3].version);
        command_ring_publish_limit(table, 3, &limit_result);
        check_stores(2 * round);
    }
    lull_command_table_close(table);
}

/* A request is seen when it is whole: its version is twice its number then. */
static void test_versions_of_requests(void **state)
{
    struct lull_command_table *table;
    struct lull_switch_request request = {.sm_mhz = 900};
    struct lull_limit_request limit = {.limit_mw = 200000};
    unsigned char *memory;

    (void)state;
    assert_int_equal(lull_command_table_create(&table, NULL), 0);
    memory = mmap(NULL, table_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                  lull_command_table_fd(table), 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    for (unsigned char i = 1; i <= 3; i++) {
        assert_int_equal(lull_command_post(table, 7, &request), i);
        assert_int_equal(memory[7 * 64], 2 * i);
        assert_int_equal(lull_command_post_limit(table, 7, &limit), i);
        assert_int_equal(memory[(2 * LULL_COMMAND_SLOTS + 7) * 64], 2 * i);
    }
    memory[7 * 64]++;
    memory[(2 * LULL_COMMAND_SLOTS + 7) * 64]++;
    assert_false(command_ring_take(table, 7, &request));
    assert_false(command_ring_take_limit(table, 7, &limit));
    munmap(memory, table_bytes);
    lull_command_table_close(table);
}

static void test_a_closed_table_keeps_no_descriptor(void **state)
{
    struct lull_command_table *table;
    int fd;

    (void)state;
    assert_int_equal(lull_command_table_create(&table, NULL), 0);
    fd = lull_command_table_fd(table);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    lull_command_table_close(table);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void test_only_a_table_of_the_same_size_is_opened(void **state)
{
    struct lull_command_table *table;
    const int fd = memfd_create("table", MFD_CLOEXEC);

    (void)state;
    for (off_t more = -1; more <= 1; more++) {
        assert_int_equal(ftruncate(fd, (off_t)table_bytes + more), 0);
        assert_int_equal(lull_command_table_open(fd, &table, NULL), more == 0 ? 0 : -EINVAL);
    }
    lull_command_table_close(table);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC); /* the opener's own descriptor */
    close(fd);
    assert_int_equal(lull_command_table_open(-1, &table, NULL), -EBADF);
    lull_command_table_close(NULL);
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
        if (!command_ring_take(race.table, 0, &request))
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
        cmocka_unit_test(test_a_release_without_profiles_is_served),
        cmocka_unit_test(test_size_is_sealed),
        cmocka_unit_test(test_hostile_memory_is_survived),
        cmocka_unit_test(test_a_half_written_result_is_not_read),
        cmocka_unit_test(test_records_are_marked_while_they_are_written),
        cmocka_unit_test(test_versions_of_requests),
        cmocka_unit_test(test_a_closed_table_keeps_no_descriptor),
        cmocka_unit_test(test_only_a_table_of_the_same_size_is_opened),
        cmocka_unit_test(test_forked_child_has_no_table),
        cmocka_unit_test(test_records_are_never_torn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
