/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A text that comes in pieces of at most so many bytes. */
struct pieces {
    const char *at;
    size_t left;
    size_t most;
};

static ssize_t fill(void *context, char *buffer, size_t size, struct lull_error *err)
{
    struct pieces *const pieces = context;
    size_t length = pieces->left < pieces->most ? pieces->left : pieces->most;

    (void)err;
    if (length > size)
        length = size;
    memcpy(buffer, pieces->at, length);
    pieces->at += length;
    pieces->left -= length;
    return (ssize_t)length;
}

/* The tokens of a text as letters, with their texts in parentheses; at an error ends with '!'. */
static void tokens_of(const char *text, size_t most, char *out, size_t size, struct lull_error *err)
{
    static const char letters[] = "${}[]ksn";
    struct pieces pieces = {text, strlen(text), most};
    struct lull_json *const json = lull_json_create("text", fill, &pieces);
    struct lull_json_text token_text = {0};
    int token;

    assert_non_null(json);
    out[0] = '\0';
    do {
        const size_t length = strlen(out);

        token = lull_json_next(json, &token_text, err);
        if (token >= LULL_JSON_KEY)
            snprintf(out + length, size - length, "%c(%.*s)", letters[token],
                     (int)token_text.length, token_text.bytes);
        else
            snprintf(out + length, size - length, "%c", token < 0 ? '!' : letters[token]);
    } while (token > LULL_JSON_END);
    lull_json_destroy(json);
}

/* In one piece, and in pieces of every small size. */
static void check(const char *text, const char *expected)
{
    char tokens[512];

    for (size_t most = 1; most < 40; most++) {
        tokens_of(text, most, tokens, sizeof(tokens), NULL);
        assert_string_equal(tokens, expected);
    }
    tokens_of(text, 1000, tokens, sizeof(tokens), NULL);
    assert_string_equal(tokens, expected);
}

static void test_good_texts(void **state)
{
    (void)state;
    check("{}", "{}$");
    check(" [ ] \n", "[]$");
    check("[1,-2.5e+3,true,null,\"x\"]", "[n(1)n(-2.5e+3)n(true)n(null)s(x)]$");
    check("{\"a\" : {\"b\":[{}, [ ]]},\n\"c\":\"\"}", "{k(a){k(b)[{}[]]}k(c)s()}$");
    check("12", "n(12)$");
}

static void test_escapes(void **state)
{
    (void)state;
    check("[\"a\\\"b\\\\\\/\"]", "[s(a\"b\\/)]$");
    check("[\"\\u0041\\u00e9\\u20ac\\ud83d\"]", "[s(A\xc3\xa9\xe2\x82\xac?)]$");
    check("{\"c\\u0061t\":1}", "{k(cat)n(1)}$");
}

static void test_what_real_traces_get_wrong(void **state)
{
    (void)state;
    check("[\"a\\$b\\x41\\u12g\\u\"]", "[s(a\\$b\\x41\\u12g\\u)]$");
    check("[\"a\nb\tc\"]", "[s(a\nb\tc)]$");
    check("[NaN,-Infinity,inf,-nan]", "[n(NaN)n(-Infinity)n(inf)n(-nan)]$");
}

static void test_byte_order_mark(void **state)
{
    char tokens[64];

    (void)state;
    tokens_of("\xef\xbb\xbf{}", 100, tokens, sizeof(tokens), NULL);
    assert_string_equal(tokens, "{}$");
}

static void test_long_strings_are_cut(void **state)
{
    enum { LENGTH = 700000 };
    char *const text = malloc(LENGTH + 8);
    char *const tokens = malloc(LENGTH + 8);

    (void)state;
    assert_non_null(text);
    assert_non_null(tokens);
    memcpy(text, "[\"", 2);
    memset(text + 2, 'x', LENGTH);
    memcpy(text + 2 + LENGTH, "\"]", 3);
    tokens_of(text, LENGTH + 8, tokens, LENGTH + 8, NULL);
    assert_int_equal(strlen(tokens), LULL_JSON_MAX_TEXT + 6); /* [s()]$ */
    free(text);
    free(tokens);
}

static void check_error(const char *text, const char *expected)
{
    static const size_t sizes[] = {1, 2, 3, 7, 1000};
    char tokens[4096];

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct lull_error err = {0};

        tokens_of(text, sizes[i], tokens, sizeof(tokens), &err);
        assert_int_equal(tokens[strlen(tokens) - 1], '!');
        assert_int_equal(err.code, LULL_E_FORMAT);
        assert_string_equal(err.text, expected);
    }
}

static void test_errors_say_where(void **state)
{
    (void)state;
    check_error("", "text: byte 0: the file is empty");
    check_error("{\"a\":\n[1,\n", "text: truncated: it ends at byte 10, line 3, before its JSON "
                                  "does; was the job stopped while writing it?");
    check_error("[\"abc", "text: truncated: it ends at byte 5, line 1, before its JSON does; was "
                          "the job stopped while writing it?");
    check_error("[\"abc\\", "text: truncated: it ends at byte 6, line 1, before its JSON does; was "
                            "the job stopped while writing it?");
    check_error("[1,\n2 3]", "text: byte 6, line 2: expected a comma or the end of what is open, "
                             "found '3'");
    check_error("{1:2}", "text: byte 1, line 1: expected a key in quotes or }, found '1'");
    check_error("{\"a\" 2}", "text: byte 5, line 1: expected a colon, found '2'");
    check_error("{\"a\":}", "text: byte 5, line 1: expected a value, found '}'");
    check_error("[1,]", "text: byte 3, line 1: expected a value, found ']'");
    check_error("{\"a\":1,}", "text: byte 7, line 1: expected a key in quotes, found '}'");
    check_error("[}", "text: byte 1, line 1: expected a value or ], found '}'");
    check_error("[1]]", "text: byte 3, line 1: expected nothing more, found ']'");
    check_error("\x1b[0m", "text: byte 0, line 1: expected a value, found byte 0x1b");
    check_error("[tru,", "text: before byte 4, line 1: 'tru' is not a number, true, false or null");
    check_error("[1.,2]", "text: before byte 3, line 1: '1.' is not a number, true, false or null");
    check_error("hello",
                "text: before byte 5, line 1: 'hello' is not a number, true, false or null");
}

static void test_depth_is_bounded(void **state)
{
    char text[2 * LULL_JSON_MAX_DEPTH];
    char tokens[4096];
    struct lull_error err = {0};

    (void)state;
    memset(text, '[', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    tokens_of(text, 100, tokens, sizeof(tokens), &err);
    assert_int_equal(err.code, LULL_E_FORMAT);
    assert_non_null(strstr(err.text, "at most 512 levels"));
}

static void test_skipping(void **state)
{
    const char text[] = "{\"a\":{\"x\":[1,{}]},\"b\":2,\"c\":[[],3]}";
    struct pieces pieces = {text, strlen(text), 1000};
    struct lull_json *const json = lull_json_create("text", fill, &pieces);
    struct lull_json_text key;

    (void)state;
    assert_non_null(json);
    assert_int_equal(lull_json_next(json, &key, NULL), LULL_JSON_OBJECT_BEGIN);
    for (const char *wanted = "ab"; *wanted != '\0'; wanted++) {
        assert_int_equal(lull_json_next(json, &key, NULL), LULL_JSON_KEY);
        assert_int_equal(key.bytes[0], *wanted);
        assert_int_equal(lull_json_skip(json, NULL), 0);
    }
    assert_int_equal(lull_json_next(json, &key, NULL), LULL_JSON_KEY);
    assert_int_equal(lull_json_next(json, &key, NULL), LULL_JSON_ARRAY_BEGIN);
    assert_int_equal(lull_json_leave(json, NULL), 0);
    assert_int_equal(lull_json_next(json, &key, NULL), LULL_JSON_OBJECT_END);
    assert_int_equal(lull_json_next(json, &key, NULL), LULL_JSON_END);
    assert_int_equal(lull_json_offset(json), strlen(text));
    lull_json_destroy(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_texts),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_what_real_traces_get_wrong),
        cmocka_unit_test(test_byte_order_mark),
        cmocka_unit_test(test_long_strings_are_cut),
        cmocka_unit_test(test_errors_say_where),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_skipping),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
