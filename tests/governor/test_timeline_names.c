/*
 * Names of boards in trace.json: with any bytes from a driver, the file is valid JSON and UTF-8.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "governor/report/timeline.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static json_t *read_names(const char *name)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);
    json_t *events;

    assert_non_null(out);
    fputc('[', out);
    write_names(out, 3, name, true);
    fputc(']', out);
    fclose(out);
    events = json_loadb(text, size, 0, NULL);
    free(text);
    assert_non_null(events);
    return events;
}

static void check_name(const char *name, const char *expected)
{
    json_t *const events = read_names(name);
    json_t *const arguments = json_object_get(json_array_get(events, 0), "args");

    assert_string_equal(json_string_value(json_object_get(arguments, "name")), expected);
    json_decref(events);
}

static void names_of_boards_are_escaped(void **state)
{
    (void)state;
    check_name("NVIDIA A100", "GPU 3 NVIDIA A100");
    check_name("A \"quoted\" \\ board\n", "GPU 3 A \"quoted\" \\ board\n");
    check_name("\"}},{\"ph\":\"X", "GPU 3 \"}},{\"ph\":\"X");
    check_name("\xff\xfe\x1b[31m", "GPU 3 \xef\xbf\xbd\xef\xbf\xbd\x1b[31m");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_of_boards_are_escaped)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
