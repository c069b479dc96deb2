/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/text.h"

static void test_ratio_accepts_percent_and_fraction(void **state)
{
    double value = -1.0;

    (void)state;
    assert_int_equal(lull_text_parse_ratio("1%", &value), 0);
    assert_float_equal(value, 0.01, 1e-15);
    assert_int_equal(lull_text_parse_ratio("0.25", &value), 0);
    assert_float_equal(value, 0.25, 1e-15);
    assert_int_equal(lull_text_parse_ratio("0", &value), 0);
    assert_float_equal(value, 0.0, 0.0);
}

static void test_a_bare_number_may_mean_percent(void **state)
{
    static const char *const meant[] = {"1", "0.5", "5", "1e2"};
    static const char *const others[] = {"0.49", "1%", "50%", "0", "-1", "x", ""};
    double value = 7.0;

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(lull_text_is_bare_percent(others[i], &value));
    assert_float_equal(value, 7.0, 0.0);
    for (size_t i = 0; i < sizeof(meant) / sizeof(meant[0]); i++)
        assert_true(lull_text_is_bare_percent(meant[i], &value));
    assert_float_equal(value, 100.0, 0.0);
}

static void test_bad_numbers_are_refused_and_leave_the_output(void **state)
{
    static const char *const bad[] = {"",    " 1",  "1x",    "%",   "-1%",    "101%", "nan",
                                      "inf", "1%%", "1e999", "0x0", "0X1p-3", "-0x0"};
    double value = 7.0;
    int64_t integer = 7;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_true(lull_text_parse_ratio(bad[i], &value) < 0);
        assert_true(lull_text_parse_int(bad[i], 0, 1000, &integer) < 0);
    }
    assert_true(lull_text_parse_int("1001", 0, 1000, &integer) < 0);
    assert_true(lull_text_parse_int("99999999999999999999", 0, INT64_MAX, &integer) < 0);
    assert_float_equal(value, 7.0, 0.0);
    assert_int_equal(integer, 7);
}

static void test_at_least_takes_inf_and_keeps_the_output_otherwise(void **state)
{
    static const char *const bad[] = {"", "0.99", "-inf", "infinity", "nan", "1x", "1e999"};
    double value = 0.0;

    (void)state;
    assert_int_equal(lull_text_parse_at_least("1", 1.0, &value), 0);
    assert_float_equal(value, 1.0, 0.0);
    assert_int_equal(lull_text_parse_at_least("inf", 1.0, &value), 0);
    assert_true(isinf(value) && value > 0.0);
    value = 7.0;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_true(lull_text_parse_at_least(bad[i], 1.0, &value) < 0);
    assert_float_equal(value, 7.0, 0.0);
}

static void test_trim_cuts_both_ends_and_nothing_else(void **state)
{
    struct {
        char text[16];
        const char *expected;
    } cases[] = {{"", ""},    {" \t\r", ""}, {"a", "a"}, {"  a b\t\r", "a b"},
                 {"a ", "a"}, {"\na", "\na"}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(lull_text_trim(cases[i].text), cases[i].expected);
}

static void test_numbers_as_they_are_printed(void **state)
{
    static const struct {
        const char *text;
        enum lull_text_comma comma;
        const char *plain; /* null: refused */
    } cases[] = {
        {"8", LULL_TEXT_COMMA_GROUPS, "8"},
        {"+0.5", LULL_TEXT_COMMA_GROUPS, "0.5"},
        {"-.5", LULL_TEXT_COMMA_GROUPS, "-0.5"},
        {"8.", LULL_TEXT_COMMA_GROUPS, "8"},
        {"1,234.5", LULL_TEXT_COMMA_AMBIGUOUS, "1234.5"},
        {"1.234,5", LULL_TEXT_COMMA_GROUPS, "1234.5"},
        {"1,234,567", LULL_TEXT_COMMA_DECIMAL, "1234567"},
        {"1.234.567", LULL_TEXT_COMMA_GROUPS, "1234567"},
        {"1,234", LULL_TEXT_COMMA_GROUPS, "1234"},
        {"1,234", LULL_TEXT_COMMA_DECIMAL, "1.234"},
        {"1,234", LULL_TEXT_COMMA_AMBIGUOUS, NULL},
        {"0,934", LULL_TEXT_COMMA_AMBIGUOUS, "0.934"},
        {"93,4", LULL_TEXT_COMMA_GROUPS, "93.4"},
        {"1'234.5", LULL_TEXT_COMMA_GROUPS, "1234.5"},
        {"1\xc2\xa0"
         "234",
         LULL_TEXT_COMMA_GROUPS, "1234"},
        {"1.5e+3", LULL_TEXT_COMMA_GROUPS, "1.5e+3"},
        {"70,5 W", LULL_TEXT_COMMA_DECIMAL, "70.5 W"},
        {"1,23,456", LULL_TEXT_COMMA_GROUPS, NULL},
        {"12,3456.7", LULL_TEXT_COMMA_GROUPS, NULL},
        {"1.2,3.4", LULL_TEXT_COMMA_GROUPS, NULL},
        {"1 234", LULL_TEXT_COMMA_GROUPS,
         "1 234"}, /* which is not a number to those who parse it */
        {"", LULL_TEXT_COMMA_GROUPS, NULL},
        {"x", LULL_TEXT_COMMA_GROUPS, NULL},
        {",", LULL_TEXT_COMMA_DECIMAL, NULL},
        {"1111111111111111111111111111111111111111111111111111111111111111", LULL_TEXT_COMMA_GROUPS,
         NULL},
    };
    char plain[LULL_TEXT_NUMBER_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int rc = lull_text_plain_number(cases[i].text, cases[i].comma, plain);

        assert_int_equal(rc < 0, cases[i].plain == NULL);
        if (rc == 0)
            assert_string_equal(plain, cases[i].plain);
    }
}

static void test_words_for_missing_values(void **state)
{
    static const char *const missing[] = {"", "-", "N/A", "[N/A]", "nan", "None", "\\N", "unknown"};
    static const char *const others[] = {"0", "x", "nano", "--x", "[W]", "none of them"};

    (void)state;
    for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++)
        assert_true(lull_text_is_missing(missing[i]));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(lull_text_is_missing(others[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ratio_accepts_percent_and_fraction),
        cmocka_unit_test(test_a_bare_number_may_mean_percent),
        cmocka_unit_test(test_bad_numbers_are_refused_and_leave_the_output),
        cmocka_unit_test(test_at_least_takes_inf_and_keeps_the_output_otherwise),
        cmocka_unit_test(test_trim_cuts_both_ends_and_nothing_else),
        cmocka_unit_test(test_numbers_as_they_are_printed),
        cmocka_unit_test(test_words_for_missing_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
