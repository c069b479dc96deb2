/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../text_file.h"

static void expect_lines(const char *text, size_t size, const char *const *expected)
{
    struct lull_lines *lines;
    struct lull_error err = {0};
    char *line;
    size_t count = 0;

    assert_int_equal(lull_lines_open(text_file(text, size), &lines, &err), 0);
    while (lull_lines_next(lines, &line, &err) > 0) {
        assert_string_equal(line, expected[count++]);
        assert_int_equal(lull_lines_number(lines), count);
    }
    assert_null(expected[count]);
    assert_int_equal(err.code, 0);
    lull_lines_close(lines);
}

static void test_ends_of_lines(void **state)
{
    (void)state;
    expect_lines("", 0, (const char *[]){NULL});
    expect_lines("\n", 1, (const char *[]){"", NULL});
    expect_lines("a", 1, (const char *[]){"a", NULL});
    expect_lines("a\r\n\r\nb", 6, (const char *[]){"a", "", "b", NULL});
    expect_lines("\xef\xbb\xbf"
                 "a\n",
                 5, (const char *[]){"a", NULL});
}

static void test_lines_longer_than_the_buffer(void **state)
{
    enum { LONG = 200000 };
    char *text = malloc(2 * LONG);
    char *line;
    struct lull_lines *lines;

    (void)state;
    memset(text, 'x', 2 * LONG);
    text[LONG] = '\n';
    assert_int_equal(lull_lines_open(text_file(text, 2 * LONG), &lines, NULL), 0);
    assert_int_equal(lull_lines_next(lines, &line, NULL), 1);
    assert_int_equal(strlen(line), LONG);
    assert_int_equal(lull_lines_next(lines, &line, NULL), 1);
    assert_int_equal(strlen(line), LONG - 1);
    assert_int_equal(lull_lines_next(lines, &line, NULL), 0);
    lull_lines_close(lines);
    free(text);
}

static int error_of(const char *text, size_t size, struct lull_error *err)
{
    struct lull_lines *lines;
    char *line;
    int rc;

    assert_int_equal(lull_lines_open(text_file(text, size), &lines, NULL), 0);
    while ((rc = lull_lines_next(lines, &line, err)) > 0)
        ;
    lull_lines_close(lines);
    return rc;
}

static void test_what_is_refused(void **state)
{
    const size_t huge = (size_t)3 * LULL_LINE_MAX;
    char *text = malloc(huge);
    struct lull_error err = {0};

    (void)state;
    memset(text, 'x', huge);
    assert_int_equal(error_of(text, huge, &err), LULL_E_FORMAT);
    assert_non_null(strstr(err.text, "line 1 is longer"));
    assert_int_equal(error_of("a\nb\0c\n", 6, &err), LULL_E_FORMAT);
    assert_non_null(strstr(err.text, "line 2, byte 2"));
    assert_true(lull_lines_open("/nonexistent", &(struct lull_lines *){NULL}, &err) < 0);
    free(text);
}

static void test_cells(void **state)
{
    char text[] = " a , b,,c ";
    char *rest = text;

    (void)state;
    assert_string_equal(lull_lines_cell(&rest), "a");
    assert_string_equal(lull_lines_cell(&rest), "b");
    assert_string_equal(lull_lines_cell(&rest), "");
    assert_string_equal(lull_lines_cell(&rest), "c");
    assert_null(rest);
}

static void expect_cells(const char *text, char separator, const char *const *expected)
{
    char copy[100];
    char *rest = copy;

    snprintf(copy, sizeof(copy), "%s", text);
    for (; *expected != NULL; expected++) {
        assert_non_null(rest);
        assert_string_equal(lull_lines_cell_of(&rest, separator), *expected);
    }
    assert_null(rest);
}

static void test_quotes_and_separators(void **state)
{
    (void)state;
    expect_cells("\"a,b\",c", ',', (const char *[]){"a,b", "c", NULL});
    expect_cells(" \"a \"\"b\"\"\" ;c", ';', (const char *[]){"a \"b\"", "c", NULL});
    expect_cells("a\"b\",c", ',', (const char *[]){"a\"b\"", "c", NULL});
    expect_cells("\"a\" b,\"\"", ',', (const char *[]){"a b", "", NULL});
    expect_cells("a\t\t b", '\t', (const char *[]){"a", "", "b", NULL});
    expect_cells("  GPU 0 \t 61.5  ", ' ', (const char *[]){"GPU", "0", "61.5", NULL});
    assert_true(lull_lines_is_open("a,\"b", ','));
    assert_true(lull_lines_is_open("a,\"b\"\"", ','));
    assert_false(lull_lines_is_open("a,\"b;c\"", ','));
    assert_false(lull_lines_is_open("5\" disk,b", ','));
}

/* Lines that are put together lie at the end of a read, or across two. */
static void test_lines_extended_and_put_back(void **state)
{
    enum { LONG = 65530 };
    char *const text = malloc(LONG + 100);
    struct lull_lines *lines;
    char *line;

    (void)state;
    for (size_t ahead = LONG - 20; ahead < LONG + 20; ahead++) {
        memset(text, 'x', ahead);
        memcpy(text + ahead, "\na\r\nb\nc", 7);
        assert_int_equal(lull_lines_open(text_file(text, ahead + 7), &lines, NULL), 0);
        assert_int_equal(lull_lines_next(lines, &line, NULL), 1);
        assert_int_equal(lull_lines_next(lines, &line, NULL), 1);
        assert_string_equal(line, "a");
        lull_lines_back(lines);
        assert_int_equal(lull_lines_next(lines, &line, NULL), 1);
        assert_string_equal(line, "a");
        assert_int_equal(lull_lines_number(lines), 2);
        assert_int_equal(lull_lines_extend(lines, &line, NULL), 1);
        assert_string_equal(line, "a\r\nb");
        assert_int_equal(lull_lines_extend(lines, &line, NULL), 1);
        assert_string_equal(line, "a\r\nb\nc");
        assert_int_equal(lull_lines_extend(lines, &line, NULL), 0);
        assert_string_equal(line, "a\r\nb\nc");
        assert_int_equal(lull_lines_next(lines, &line, NULL), 0);
        lull_lines_close(lines);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends_of_lines),
        cmocka_unit_test(test_lines_longer_than_the_buffer),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_quotes_and_separators),
        cmocka_unit_test(test_lines_extended_and_put_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
