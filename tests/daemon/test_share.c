/* A lease's share of the device writer, in virtual time. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"

static int64_t fake_time_ns;

static int64_t fake_now_ns(void)
{
    return fake_time_ns;
}

#define lull_now_ns fake_now_ns
#include "daemon/share.c"

static struct lull_switch_request asked;
static struct lull_limit_result limit_told;
static bool has_asked;
static uint32_t floods;

static bool take_asked(void *context, uint32_t gpu, struct lull_switch_request *request_out)
{
    (void)context;
    (void)gpu;
    *request_out = asked;
    return has_asked;
}

static void ignore_result(void *context, uint32_t gpu, const struct lull_switch_result *result)
{
    (void)context;
    (void)gpu;
    (void)result;
}

static bool take_asked_limit(void *context, uint32_t gpu, struct lull_limit_request *request_out)
{
    (void)context;
    (void)gpu;
    *request_out = (struct lull_limit_request){.sequence = 9, .limit_mw = 1};
    return has_asked;
}

static void note_limit(void *context, uint32_t gpu, const struct lull_limit_result *result)
{
    (void)context;
    (void)gpu;
    limit_told = *result;
}

static void count_flood(void *context)
{
    (void)context;
    floods++;
}

static struct lull_share share;
static struct lull_switch_channel channel;

static int set_up(void **state)
{
    const struct lull_switch_channel inner = {.take = take_asked,
                                              .publish = ignore_result,
                                              .take_limit = take_asked_limit,
                                              .publish_limit = note_limit};

    (void)state;
    fake_time_ns = LULL_NS_PER_S;
    lull_share_init(&share, &inner, count_flood, NULL);
    channel = lull_share_channel(&share);
    has_asked = true;
    floods = 0;
    return 0;
}

/* Requests a clock and lets it be applied; returns what reached the writer. */
static uint32_t ask(uint32_t sm_mhz)
{
    struct lull_switch_request request;
    struct lull_switch_result result = {.status = 0};

    asked.sm_mhz = sm_mhz;
    assert_true(channel.take(channel.context, 1, &request));
    result.sm_mhz = request.sm_mhz;
    channel.publish(channel.context, 1, &result);
    return request.sm_mhz;
}

static void f48_stepwise_raisings_beyond_the_share_go_all_the_way_up(void **state)
{
    uint32_t calls = 0;

    (void)state;
    assert_int_equal(ask(600), 600);
    assert_int_equal(ask(700), 700);
    assert_int_equal(ask(800), 800);
    assert_int_equal(ask(900), 0);
    assert_int_equal(ask(900), 900); /* a lowering, which the writer's budget bounds */
    assert_int_equal(ask(800), 800);
    assert_int_equal(ask(0), 0);
    assert_int_equal(ask(600), 600);
    fake_time_ns += RAISING_INTERVAL_NS;
    assert_int_equal(ask(615), 615);
    assert_int_equal(ask(630), 0);
    for (int i = 0; i < 1000; i++, fake_time_ns += LULL_NS_PER_MS) { /* for a second */
        share.gpus[1].applied_mhz = 600;
        calls += ask(700) == 700;
    }
    assert_true(calls <= 21);
}

static void f48_power_limits_beyond_the_share_are_refused(void **state)
{
    struct lull_limit_request request;

    (void)state;
    for (int i = 0; i < LIMIT_BURST; i++)
        assert_true(channel.take_limit(channel.context, 0, &request));
    assert_int_equal(limit_told.status, 0);
    assert_false(channel.take_limit(channel.context, 0, &request));
    assert_int_equal(limit_told.status, -EDQUOT);
    assert_int_equal(limit_told.sequence, 9);
    fake_time_ns += LIMIT_INTERVAL_NS;
    assert_true(channel.take_limit(channel.context, 0, &request));
    has_asked = false;
    assert_false(channel.take_limit(channel.context, 0, &request));
}

static void f48_a_flood_of_rounds_is_reported(void **state)
{
    struct lull_switch_request request;

    (void)state;
    has_asked = false;
    for (int second = 0; second < 3; second++) /* as many as honest clients cause */
        for (int i = 0; i < 9000; i++, fake_time_ns += LULL_NS_PER_S / 9000)
            channel.take(channel.context, 0, &request);
    assert_int_equal(floods, 0);
    for (int i = 0; i < 2000; i++, fake_time_ns += LULL_NS_PER_S / 20000) /* for 100 ms */
        channel.take(channel.context, 0, &request);
    assert_in_range(floods, 2, 3);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(f48_stepwise_raisings_beyond_the_share_go_all_the_way_up),
        TEST(f48_power_limits_beyond_the_share_are_refused),
        TEST(f48_a_flood_of_rounds_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
