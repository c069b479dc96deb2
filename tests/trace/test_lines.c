/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends_of_lines),
        cmocka_unit_test(test_lines_longer_than_the_buffer),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_cells),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
