/* Settings files: kinds of lines, their limits, and random texts.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/settings.h"

static enum lull_settings_kind next_of(struct lull_settings *settings, const char *text)
{
    *settings = (struct lull_settings){.at = text, .end = text + strlen(text)};
    return lull_settings_next(settings);
}

static void test_kinds_of_lines(void **state)
{
    static const struct {
        const char *text;
        enum lull_settings_kind kind;
        uint32_t line;
        const char *name;
        const char *value;
    } cases[] = {
        {"a=b", LULL_SETTINGS_KEY, 1, "a", "b"},
        {"\n  \n# x = y\n\t# z\n a b\t=  c d \r\n", LULL_SETTINGS_KEY, 5, "a b", "c d"},
        {"a = b = c # d", LULL_SETTINGS_KEY, 1, "a", "b = c # d"},
        {"=", LULL_SETTINGS_KEY, 1, "", ""},
        {"[a]", LULL_SETTINGS_SECTION, 1, "a", ""},
        {" [ a\tb  c ] \n", LULL_SETTINGS_SECTION, 1, "a", "b  c"},
        {"[]", LULL_SETTINGS_SECTION, 1, "", ""},
        {"[a=b]", LULL_SETTINGS_SECTION, 1, "a=b", ""},
        {"[a", LULL_SETTINGS_NO_SECTION, 1, "[a", NULL},
        {"[a] b\n", LULL_SETTINGS_NO_SECTION, 1, "[a] b", NULL},
        {"[a]] \n", LULL_SETTINGS_NO_SECTION, 1, "[a]]", NULL},
        {" a b \n", LULL_SETTINGS_NO_KEY, 1, "a b", NULL},
        {"", LULL_SETTINGS_END, 0, NULL, NULL},
        {"\n#\n", LULL_SETTINGS_END, 2, NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_settings settings;

        assert_int_equal(next_of(&settings, cases[i].text), cases[i].kind);
        assert_int_equal(settings.line, cases[i].line);
        if (cases[i].name != NULL)
            assert_string_equal(settings.name, cases[i].name);
        if (cases[i].value != NULL)
            assert_string_equal(settings.value, cases[i].value);
    }
}

static void test_lines_that_are_no_text(void **state)
{
    static char text[2 * LULL_SETTINGS_LINE_BYTES];
    static const char with_zero[6] = "a=b\0c\n";
    struct lull_settings settings = {.at = text, .end = text + LULL_SETTINGS_LINE_BYTES + 4};

    (void)state;
    memset(text, 'a', sizeof(text));
    memcpy(text + LULL_SETTINGS_LINE_BYTES, "\nb=c", 4);
    assert_int_equal(lull_settings_next(&settings), LULL_SETTINGS_NOT_TEXT);
    assert_int_equal(lull_settings_next(&settings), LULL_SETTINGS_KEY);
    assert_int_equal(settings.line, 2);
    assert_int_equal(lull_settings_next(&settings), LULL_SETTINGS_END);
    text[LULL_SETTINGS_LINE_BYTES - 1] = '\n'; /* one byte less fits */
    settings = (struct lull_settings){.at = text, .end = text + LULL_SETTINGS_LINE_BYTES};
    assert_int_equal(lull_settings_next(&settings), LULL_SETTINGS_NO_KEY);
    assert_int_equal(strlen(settings.name), LULL_SETTINGS_LINE_BYTES - 1);
    settings = (struct lull_settings){.at = with_zero, .end = with_zero + sizeof(with_zero)};
    assert_int_equal(lull_settings_next(&settings), LULL_SETTINGS_NOT_TEXT);
}

/* Any bytes end, within the text, and no line is read twice. */
static void test_random_texts_end(void **state)
{
    static const char letters[] = "[]=# \t\r\n\nab";

    (void)state;
    srand(1);
    for (int round = 0; round < 20000; round++) {
        const size_t size = (size_t)(rand() % 40);
        char *const text = malloc(size + 1); /* exact, for the sanitizers */
        struct lull_settings settings = {.at = text, .end = text + size};
        uint32_t lines = 0;
        uint32_t before = 0;

        for (size_t i = 0; i < size; i++)
            text[i] = letters[(size_t)rand() % (sizeof(letters) - 1)];
        for (size_t i = 0; i < size; i++)
            lines += text[i] == '\n' || i + 1 == size;
        while (lull_settings_next(&settings) != LULL_SETTINGS_END) {
            assert_true(settings.line > before && settings.name != NULL);
            before = settings.line;
        }
        assert_int_equal(settings.line, lines);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_of_lines),
        cmocka_unit_test(test_lines_that_are_no_text),
        cmocka_unit_test(test_random_texts_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
