/* Dates against the C library's calendar, and lengths of time. SPDX-License-Identifier: Apache-2.0
 */
#include "trace/timestamp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <cmocka.h>

static void test_dates_against_timegm(void **state)
{
    (void)state;
    for (time_t at = 0; at < INT64_C(4600000000); at += 86399 * 7) {
        struct tm parts;
        char text[80];
        int64_t time_ns = -1;

        gmtime_r(&at, &parts);
        strftime(text, sizeof(text), at % 2 == 0 ? "%Y-%m-%d %H:%M:%S" : "%Y/%m/%dT%H:%M:%SZ",
                 &parts);
        assert_int_equal(lull_timestamp_parse(text, &time_ns), 0);
        assert_int_equal(time_ns, (int64_t)at * 1000000000);
    }
}

static void test_forms(void **state)
{
    static const struct {
        const char *text;
        int64_t time_ns; /* -1: refused */
    } cases[] = {
        {"1970-01-02", INT64_C(86400000000000)},
        {"19700102 00:00:01", INT64_C(86401000000000)},
        {"1970-01-01 00:01", INT64_C(60000000000)},
        {"1970-01-01 08:00:01.5+08:00", INT64_C(1500000000)},
        {"1970-01-01 08:00:01,25 +0800", INT64_C(1250000000)},
        {"1970-01-01T00:00:01-01", INT64_C(3601000000000)},
        {"1970-01-01 00:00:00.0000000019 UTC", 1},
        {"2024-02-29", INT64_C(1709164800000000000)},
        {"2023-02-29", -1},
        {"2100-02-29", -1},
        {"2024-13-01", -1},
        {"2024-00-01", -1},
        {"2024-04-31", -1},
        {"2024-01-01 24:00:00", -1},
        {"2024-01-01 00:60:00", -1},
        {"2024-01-01 00:00:00 CEST", -1},
        {"2024-01/01", -1},
        {"02/05/2024", -1},
        {"1969-12-31", -1},
        {"2024-01-01x", -1},
        {"Unknown", -1},
        {"", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t time_ns = -1;

        if (lull_timestamp_parse(cases[i].text, &time_ns) < 0 && time_ns != -1)
            fail_msg("%s has changed the output", cases[i].text);
        if (time_ns != cases[i].time_ns)
            fail_msg("%s is %lld", cases[i].text, (long long)time_ns);
    }
}

static void test_elapsed(void **state)
{
    static const struct {
        const char *text;
        int64_t seconds; /* -1: refused */
    } cases[] = {
        {"01:40", 100},
        {"00:01:40", 100},
        {"2-01:01:12", 176472},
        {"100:00:00", 360000},
        {"1-02:03", 93780},
        {"1 day, 2:03:04", 93784},
        {"3 days 00:00:01", 259201},
        {"0:00", 0},
        {"00:60", -1},
        {"1:2:3:4", -1},
        {"5", -1},
        {"1-", -1},
        {"-1:00", -1},
        {"11000-00:00:00", -1},
        {"00:00:00x", -1},
        {"999999:00:00", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t time_ns = -1;

        lull_timestamp_elapsed(cases[i].text, &time_ns);
        if (time_ns != (cases[i].seconds < 0 ? -1 : cases[i].seconds * INT64_C(1000000000)))
            fail_msg("%s is %lld ns", cases[i].text, (long long)time_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dates_against_timegm),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_elapsed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
