/*
 * JSON as `lull serve` writes it: jansson reads the same from it as from what jansson writes.
 * Random documents print their seed. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/serve/json_text.h"
#include "core/stats/random.h"

static struct lull_random random_state;

static uint64_t below(uint64_t bound)
{
    return lull_random_below(&random_state, bound);
}

/* A text of pieces that writers have trouble with. */
static json_t *make_string(void)
{
    static const char *const pieces[] = {
        "a", "\"", "\\", "/", "\n", "\t", "\x01", "\x1f", "\x7f", "\303\251", "\360\237\230\200",
        "W", " ",  "<b>"};
    char text[64] = "";
    const uint64_t count = below(9);
    size_t used = 0;

    for (uint64_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s",
                                 pieces[below(sizeof(pieces) / sizeof(pieces[0]))]);
    return json_string(text);
}

static json_t *make_real(void)
{
    const double plain = floor(lull_random_uniform(&random_state) * 1e4);
    const double exponent = floor(lull_random_uniform(&random_state) * 60.0) - 30.0;
    const double any = (lull_random_uniform(&random_state) - 0.5) * pow(10.0, exponent);
    static const double special[] = {0.0, -0.0, 1e11, 999999999999.0, 1e12, 1e13, -1e12, 0.1, -7.0};

    switch (below(3)) {
    case 0:
        return json_real(plain);
    case 1:
        return json_real(any);
    default:
        return json_real(special[below(sizeof(special) / sizeof(special[0]))]);
    }
}

static json_t *make_integer(void)
{
    static const json_int_t special[] = {0, -1, 9, 10, INT64_MAX, INT64_MIN};

    if (below(2) == 0)
        return json_integer(special[below(sizeof(special) / sizeof(special[0]))]);
    return json_integer((json_int_t)lull_random_next(&random_state));
}

static json_t *make_value(unsigned depth)
{
    const uint64_t count = below(5);
    json_t *container;

    switch (below(depth > 0 ? 8 : 6)) {
    case 0:
        return make_string();
    case 1:
        return make_real();
    case 2:
        return make_integer();
    case 3:
        return json_true();
    case 4:
        return json_false();
    case 5:
        return json_null();
    case 6:
        container = json_array();
        for (uint64_t i = 0; i < count; i++)
            json_array_append_new(container, make_value(depth - 1));
        return container;
    default:
        container = json_object();
        for (uint64_t i = 0; i < count; i++) {
            json_t *const key = make_string();

            json_object_set_new(container, json_string_value(key), make_value(depth - 1));
            json_decref(key);
        }
        return container;
    }
}

static json_t *read_text(const char *text, size_t size)
{
    json_error_t error;
    json_t *const value = json_loadb(text, size, JSON_DECODE_ANY, &error);

    if (value == NULL)
        print_error("%s: %s\n", error.text, text);
    return value;
}

/* The written text reads back as the text of jansson does, and it is one line. */
static void check(const json_t *document)
{
    char *const expected_text = json_dumps(document, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
    json_t *const expected = read_text(expected_text, strlen(expected_text));
    size_t size;
    char *const text = lull_serve_json_text(document, &size);
    json_t *const found = read_text(text, size);

    assert_int_equal(size, strlen(text));
    assert_null(strchr(text, '\n'));
    assert_true(json_equal(found, expected));
    json_decref(found);
    json_decref(expected);
    free(text);
    free(expected_text);
}

static void test_random_documents(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        json_t *document;

        lull_random_init(&random_state, seed);
        document = make_value(4);
        if (seed % 500 == 0)
            printf("seeds up to %llu\n", (unsigned long long)seed);
        check(document);
        json_decref(document);
    }
}

/* Fields stay in their order, without blanks. */
static void test_order(void **state)
{
    json_t *const document =
        json_pack("{s:[i,f,f,n,b], s:{}, s:s}", "z", -12, 1320.0, 0.25, 1, "a", "m", "x\n\"\\");
    size_t size;
    char *const text = lull_serve_json_text(document, &size);

    (void)state;
    assert_string_equal(text,
                        "{\"z\":[-12,1320.0,0.25,null,true],\"a\":{},\"m\":\"x\\n\\\"\\\\\"}");
    free(text);
    json_decref(document);
}

/* A text that is longer than the first piece of memory, and one in which there is a NUL. */
static void test_quote(void **state)
{
    char *const longest = malloc(100001);
    static const char with_nul[] = "a\0b";
    size_t size;
    char *text;
    json_t *value;

    (void)state;
    for (size_t i = 0; i < 100000; i++)
        longest[i] = "\"ab\n"[i % 4];
    longest[100000] = '\0';
    text = lull_serve_json_quote(longest, 100000, &size);
    value = read_text(text, size);
    assert_int_equal(size, 150002);
    assert_string_equal(json_string_value(value), longest);
    json_decref(value);
    free(text);
    free(longest);
    text = lull_serve_json_quote(with_nul, 3, &size);
    assert_string_equal(text, "\"a\\u0000b\"");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_documents),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_quote),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
