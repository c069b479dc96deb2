/* Quotas of clients: buckets (base/bucket.h), lines of the log, users who may not lease.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/bucket.h"
#include "base/clock.h"
#include "daemon/quota.h"

static void a_bucket_gives_a_burst_and_then_its_rate(void **state)
{
    struct lull_bucket bucket = {.interval_ns = 10, .burst = 3};
    int64_t now_ns = 1000;
    uint32_t taken = 0;

    (void)state;
    for (int i = 0; i < 5; i++)
        taken += lull_bucket_take(&bucket, now_ns);
    assert_int_equal(taken, 3);
    assert_false(lull_bucket_take(&bucket, now_ns + 9));
    assert_true(lull_bucket_take(&bucket, now_ns + 10));
    assert_false(lull_bucket_take(&bucket, now_ns + 19));
    for (now_ns = 1020, taken = 0; now_ns < 2020; now_ns++)
        taken += lull_bucket_take(&bucket, now_ns);
    assert_int_equal(taken, 100);
    for (int i = 0; i < 5; i++)
        taken += lull_bucket_take(&bucket, 9000);
    assert_int_equal(taken, 103); /* a pause saves no more than the burst */
}

static void f48_lines_are_bounded_and_those_left_out_counted(void **state)
{
    static struct lull_quota quota;
    const int64_t begin_ns = 7 * LULL_NS_PER_S;
    uint64_t logged = 0, reported = 0, count;
    uid_t uid;

    (void)state;
    for (uid_t user = 0; user < 300; user++) {
        uint32_t of_user = 0;

        for (int i = 0; i < 50; i++)
            of_user += lull_quota_allows_line(&quota, user, begin_ns + i);
        assert_int_equal(of_user, user < 10 ? LULL_QUOTA_LINES_OF_USER : 0);
        logged += of_user;
    }
    assert_int_equal(logged, LULL_QUOTA_LINES);
    assert_true(lull_quota_has_left_out(&quota));
    assert_false(lull_quota_take_left_out(&quota, begin_ns, &uid, &count)); /* more may come */
    while (lull_quota_take_left_out(&quota, begin_ns + LULL_NS_PER_S, &uid, &count))
        reported += count;
    assert_int_equal(logged + reported, 300 * 50);
    assert_false(lull_quota_has_left_out(&quota));
    assert_true(lull_quota_allows_line(&quota, 299, begin_ns + LULL_NS_PER_S));
}

/* F61: a user who connects without end has a share of the connections, and fills no log. */
static void f61_a_user_has_a_share_of_the_connections(void **state)
{
    static struct lull_quota quota;
    const int64_t begin_ns = LULL_NS_PER_S;
    uint32_t allowed = 0, of_other = 0, lines = 0;
    uint64_t refused = 0;

    (void)state;
    for (int i = 0; i < 50000; i++) { /* 5 s */
        const int64_t now_ns = begin_ns + i * LULL_NS_PER_S / 10000;
        uint64_t count;

        if (lull_quota_allows_connect(&quota, 1, now_ns)) {
            allowed++;
            continue;
        }
        count = lull_quota_count_refusal(&quota, 1, now_ns);
        lines += count > 0;
        refused += count;
        of_other += i % 1000 == 500 + 1 && lull_quota_allows_connect(&quota, 2, now_ns);
    }
    assert_in_range(allowed, LULL_QUOTA_CONNECTS_IN_A_ROW + 5 * LULL_QUOTA_CONNECTS_PER_S - 1,
                    LULL_QUOTA_CONNECTS_IN_A_ROW + 5 * LULL_QUOTA_CONNECTS_PER_S + 1);
    assert_int_equal(lines, 1);
    assert_int_equal(refused, 1);
    assert_in_range(of_other, 45, 50);
    assert_int_equal(
        lull_quota_count_refusal(&quota, 1, begin_ns + (LULL_QUOTA_REFUSALS_S + 5) * LULL_NS_PER_S),
        50000 - allowed);
}

/* Of more users than there are entries, the one that was idle longest is forgotten. */
static void an_idle_user_is_forgotten_first(void **state)
{
    static struct lull_quota quota;

    (void)state;
    for (uid_t user = 0; user < LULL_QUOTA_USERS; user++)
        lull_quota_bar(&quota, user, 1 + user, 1000);
    assert_true(lull_quota_allows_connect(&quota, 0, 100)); /* user 1 is idle longest now */
    assert_true(lull_quota_allows_connect(&quota, 5000, 101));
    assert_true(lull_quota_is_barred(&quota, 0, 102));
    assert_false(lull_quota_is_barred(&quota, 1, 102));
}

static void a_barred_user_waits(void **state)
{
    static struct lull_quota quota;

    (void)state;
    assert_false(lull_quota_is_barred(&quota, 5, 0));
    lull_quota_bar(&quota, 5, 0, 100);
    assert_true(lull_quota_is_barred(&quota, 5, 99));
    assert_false(lull_quota_is_barred(&quota, 5, 100));
    assert_false(lull_quota_is_barred(&quota, 6, 99));
}

/* F48: the messages of a user are counted on all connections together. */
static void f48_a_user_has_a_share_of_the_messages(void **state)
{
    static struct lull_quota quota;
    uint32_t allowed = 0;

    (void)state;
    for (int64_t ms = 1; ms <= 3000; ms++)
        for (int i = 0; i < 5; i++)
            allowed += lull_quota_allows_packet(&quota, 1, ms * LULL_NS_PER_MS);
    assert_in_range(allowed, LULL_QUOTA_PACKETS_IN_A_ROW + 3 * LULL_QUOTA_PACKETS_PER_S - 2,
                    LULL_QUOTA_PACKETS_IN_A_ROW + 3 * LULL_QUOTA_PACKETS_PER_S);
    assert_true(lull_quota_allows_packet(&quota, 2, 3000 * LULL_NS_PER_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f48_a_user_has_a_share_of_the_messages),
        cmocka_unit_test(a_bucket_gives_a_burst_and_then_its_rate),
        cmocka_unit_test(f48_lines_are_bounded_and_those_left_out_counted),
        cmocka_unit_test(f61_a_user_has_a_share_of_the_connections),
        cmocka_unit_test(an_idle_user_is_forgotten_first),
        cmocka_unit_test(a_barred_user_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
