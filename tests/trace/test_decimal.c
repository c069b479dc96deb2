/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/decimal.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void check(const char *text, int shift, int64_t expected)
{
    int64_t value = 42;

    if (lull_decimal_parse(text, strlen(text), shift, &value) != 0 || value != expected)
        fail_msg("%s: %" PRId64 ", not %" PRId64, text, value, expected);
}

static void check_refused(const char *text, int code)
{
    int64_t value = 42;

    assert_int_equal(lull_decimal_parse(text, strlen(text), 3, &value), code);
    assert_int_equal(value, 42);
}

static void test_microseconds_are_exact(void **state)
{
    (void)state;
    check("1682725898236567", 3, 1682725898236567000);
    check("1712195495505583.123", 3, 1712195495505583123);
    check("4458677009853.422", 3, 4458677009853422);
    check("0.001", 3, 1);
    check("68.0", 3, 68000);
    check("1.682725898236567e+15", 3, 1682725898236567000);
    check("25E-1", 3, 2500);
}

static void test_rounding(void **state)
{
    (void)state;
    check("1.0004999999999", 3, 1000);
    check("1.0005", 3, 1001);
    check("-1.0005", 3, -1001);
    check("0.9", 0, 1);
    check("0.49", 0, 0);
    check("1e-400", 3, 0);
    check("123456789012345678.12345678901234567890", 0, 123456789012345678);
}

static void test_every_nanosecond(void **state)
{
    (void)state;
    for (int64_t ns = 1682725898236000000; ns < 1682725898236005000; ns++) {
        char text[40];

        snprintf(text, sizeof(text), "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
        check(text, 3, ns);
    }
}

static void test_limits(void **state)
{
    (void)state;
    check("4611686018427387903", 0, LULL_DECIMAL_MAX);
    check("-4611686018427387903", 0, -LULL_DECIMAL_MAX);
    check("0e999999999999", 3, 0);
    check_refused("4611686018427387904", -ERANGE);
    check_refused("1e300", -ERANGE);
    check_refused("99999999999999999999999999", -ERANGE);
}

static void test_what_is_no_number(void **state)
{
    static const char *const texts[] = {"",   "-",  ".5", "1.",  "1e",    "1e+",  "NaN",
                                        "1x", "1 ", " 1", "--1", "1.2.3", "0x10", "null"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        check_refused(texts[i], -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_microseconds_are_exact), cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_every_nanosecond),       cmocka_unit_test(test_limits),
        cmocka_unit_test(test_what_is_no_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
