/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/lease.h"

static const struct lull_band band = {600, 1200};

static void test_grant_and_refuse(void **state)
{
    struct lull_lease_table *table = lull_lease_table_create(2);
    const struct lull_band empty = {1200, 600};
    const struct lull_band one_clock = {600, 600};
    struct lull_error error;
    uint64_t id = 0;
    uint64_t second = 0;

    (void)state;
    assert_int_equal(
        lull_lease_grant(table, &(struct lull_lease_request){2, 7, &band, 10}, 0, &id, &error),
        -ENODEV);
    assert_int_equal(
        lull_lease_grant(table, &(struct lull_lease_request){0, 7, &empty, 10}, 0, &id, &error),
        -EINVAL);
    assert_int_equal(
        lull_lease_grant(table, &(struct lull_lease_request){0, 7, &band, 0}, 0, &id, &error),
        -EINVAL);
    assert_int_equal(id, 0);
    assert_int_equal(
        lull_lease_grant(table, &(struct lull_lease_request){1, 6, &one_clock, 1}, 0, &id, &error),
        0);
    assert_true(lull_lease_end(table, 1));
    lull_lease_settle(table, 1);
    assert_int_equal(
        lull_lease_grant(table, &(struct lull_lease_request){0, 7, &band, 10}, 0, &id, &error), 0);
    assert_int_equal(
        lull_lease_grant(table, &(struct lull_lease_request){0, 8, &band, 10}, 0, &second, &error),
        -EBUSY);
    assert_int_equal(
        lull_lease_grant(table, &(struct lull_lease_request){1, 8, &band, 10}, 0, &second, &error),
        0);
    assert_int_not_equal(id, second);
    assert_int_equal(lull_lease_find(table, 0)->client, 7);
    assert_null(lull_lease_find(table, 5));
    lull_lease_table_destroy(table);
}

static void test_end_keeps_busy_until_settled(void **state)
{
    struct lull_lease_table *table = lull_lease_table_create(1);
    struct lull_error error;
    uint64_t id;

    (void)state;
    assert_false(lull_lease_end(table, 0));
    assert_int_equal(
        lull_lease_grant(table, &(struct lull_lease_request){0, 7, &band, 10}, 0, &id, &error), 0);
    assert_true(lull_lease_end(table, 0));
    assert_false(lull_lease_end(table, 0));
    assert_null(lull_lease_find(table, 0));
    assert_int_equal(
        lull_lease_grant(table, &(struct lull_lease_request){0, 8, &band, 10}, 0, &id, &error),
        -EBUSY);
    lull_lease_settle(table, 0);
    assert_int_equal(
        lull_lease_grant(table, &(struct lull_lease_request){0, 8, &band, 10}, 0, &id, &error), 0);
    lull_lease_table_destroy(table);
}

static void test_expiry_and_renewal(void **state)
{
    struct lull_lease_table *table = lull_lease_table_create(2);
    struct lull_error error;
    uint64_t id;

    (void)state;
    assert_true(lull_lease_next_expiry_ns(table) == INT64_MAX);
    assert_int_equal(
        lull_lease_grant(table, &(struct lull_lease_request){0, 7, &band, 10}, 0, &id, &error), 0);
    assert_int_equal(
        lull_lease_grant(table, &(struct lull_lease_request){1, 7, &band, 20}, 0, &id, &error), 0);
    assert_int_equal(lull_lease_next_expiry_ns(table), 10);
    assert_int_equal(lull_lease_find_expired(table, 9), -ENOENT);
    assert_int_equal(lull_lease_find_expired(table, 10), 0);
    assert_int_equal(lull_lease_renew(table, 8, 5, 100), 0);
    /* The first has run out, and its heartbeat was read late. */
    assert_int_equal(lull_lease_renew(table, 7, 12, 100), 2);
    assert_int_equal(lull_lease_find_expired(table, 111), -ENOENT);
    assert_int_equal(lull_lease_settling(table), 0);
    assert_true(lull_lease_end(table, 1));
    assert_int_equal(lull_lease_settling(table), 2);
    assert_int_equal(lull_lease_renew(table, 7, 20, 100), 1); /* an ended lease stays ended */
    assert_int_equal(lull_lease_next_expiry_ns(table), 120);
    lull_lease_settle(table, 1);
    assert_int_equal(lull_lease_settling(table), 0);
    lull_lease_table_destroy(table);
}

/* A heartbeat counts on every GPU of the client alone. */
static void test_all_leases_of_a_client_are_renewed(void **state)
{
    static const uint64_t clients[] = {7, 0, 7};
    struct lull_lease_table *table = lull_lease_table_create(4);
    struct lull_error error;
    uint64_t id;

    (void)state;
    for (uint32_t gpu = 0; gpu < 3; gpu++)
        assert_int_equal(
            lull_lease_grant(table, &(struct lull_lease_request){gpu, clients[gpu], &band, 10}, 0,
                             &id, &error),
            0);
    assert_int_equal(lull_lease_renew(table, 7, 9, 10), 2);
    assert_int_equal(lull_lease_find(table, 0)->expires_ns, 19);
    assert_int_equal(lull_lease_find(table, 1)->expires_ns, 10);
    assert_int_equal(lull_lease_find(table, 2)->expires_ns, 19);
    assert_int_equal(lull_lease_renew(table, 0, 9, 10), 1); /* the last GPU has no lease */
    lull_lease_table_destroy(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grant_and_refuse),
        cmocka_unit_test(test_end_keeps_busy_until_settled),
        cmocka_unit_test(test_expiry_and_renewal),
        cmocka_unit_test(test_all_leases_of_a_client_are_renewed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
