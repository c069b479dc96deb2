/* F55: any bytes of a user become valid text in each form, and do not affect the output of other
 * users. The oracle is the C library's iconv. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json_string.h"
#include "base/log.h"
#include "base/output.h"
#include "base/printable.h"
#include "any_text.h"

enum { TEXTS = 100000, MOST_SHOWN = 8 * MAX_BYTES + 1 };

/* Appends what a character is expected to become to a text with room for MOST_SHOWN bytes. */
static void expect_code(enum lull_printable_form form, const char *bytes, size_t length,
                        uint32_t code, char *expected)
{
    static const char *const entities[] = {"<&lt;", ">&gt;", "&&amp;", "\"&quot;", "'&#39;"};
    const bool is_blank = code == '\n' || code == '\t';
    char *const end = expected + strlen(expected);
    const size_t room = (size_t)(expected + MOST_SHOWN - end);

    if (code == 0xfffd)
        snprintf(end, room, "�");
    else if (form == LULL_PRINTABLE_PAGE && ((controls(code) && !is_blank) || deceives(code)))
        snprintf(end, room, "�");
    else if ((form == LULL_PRINTABLE_LINE || (form == LULL_PRINTABLE_LINES && !is_blank)) &&
             (controls(code) || deceives(code)))
        snprintf(end, room, "\\u%04x", code);
    else
        snprintf(end, room, "%.*s", (int)length, bytes);
    for (size_t i = 0; form == LULL_PRINTABLE_PAGE && i < 5; i++)
        if (code == (uint32_t)entities[i][0])
            snprintf(end, room, "%s", entities[i] + 1);
}

static void write_expected(enum lull_printable_form form, const char *text, size_t length,
                           char *expected)
{
    expected[0] = '\0';
    for (size_t at = 0; at < length;) {
        uint32_t code;
        const size_t size = next_code(text + at, length - at, &code);

        expect_code(form, text + at, size, code, expected);
        at += size;
    }
}

/* ---- forms --------------------------------------------------------------------------------- */

static void test_forms(void **user)
{
    (void)user;
    for (uint32_t i = 0; i < TEXTS; i++) {
        const enum lull_printable_form form = (enum lull_printable_form)(i % 4);
        char text[MAX_BYTES + 8];
        char expected[MOST_SHOWN];
        const size_t length = draw_text(text);
        char *const shown = lull_printable_copy(form, text, length);

        write_expected(form, text, length, expected);
        assert_string_equal(shown, expected);
        free(shown);
    }
}

static void test_written_line_is_cut_between_characters(void **user)
{
    (void)user;
    for (uint32_t i = 0; i < TEXTS; i++) {
        char text[MAX_BYTES + 8];
        char shown[MOST_SHOWN];
        char again[MOST_SHOWN];
        const size_t size = 1 + draw(60);
        const size_t length = draw_text(text);
        char *const whole = lull_printable_copy(LULL_PRINTABLE_LINE, text, length);

        lull_printable_write(text, shown, size);
        assert_true(strlen(shown) < size);
        assert_memory_equal(shown, whole, strlen(shown));
        assert_true(strlen(shown) == strlen(whole) || strlen(shown) + LULL_PRINTABLE_PIECE >= size);
        write_expected(LULL_PRINTABLE_VALID, shown, strlen(shown), again);
        assert_string_equal(shown, again); /* no character was cut */
        free(whole);
    }
}

static void test_addresses_keep_all_bytes(void **user)
{
    (void)user;
    for (uint32_t i = 0; i < TEXTS; i++) {
        char text[MAX_BYTES + 8];
        const size_t length = draw_text(text);
        char *const address = lull_printable_copy(LULL_PRINTABLE_ADDRESS, text, length);
        const char *at = address;

        assert_null(strpbrk(address, "/#?&<>\"' "));
        for (size_t k = 0; k < length; k++) {
            char digits[3] = "";
            unsigned long byte = (unsigned char)*at;

            if (*at == '%') {
                memcpy(digits, at + 1, 2);
                byte = strtoul(digits, NULL, 16);
                at += 2;
            }
            assert_int_equal(byte, (unsigned char)text[k]);
            at++;
        }
        assert_int_equal(*at, '\0');
        free(address);
    }
}

/* ---- documents and streams ----------------------------------------------------------------- */

static void test_json_holds_any_text(void **user)
{
    (void)user;
    for (uint32_t i = 0; i < TEXTS; i++) {
        char text[MAX_BYTES + 8];
        char expected[MOST_SHOWN];
        const size_t length = draw_text(text);
        json_t *const list = json_pack("[o]", lull_json_string(text));
        char *const dumped = json_dumps(list, 0);
        json_t *const read = json_loads(dumped, 0, NULL);

        write_expected(LULL_PRINTABLE_VALID, text, length, expected);
        assert_string_equal(json_string_value(json_array_get(read, 0)), expected);
        json_decref(read);
        free(dumped);
        json_decref(list);
    }
    assert_true(json_is_null(lull_json_string_or_null(NULL)));
}

/* Puts a new file instead of a descriptor; returns the one that was there. */
static int divert(int fd, int *file_out)
{
    const int kept = dup(fd);

    *file_out = memfd_create("test", 0);
    assert_true(kept >= 0 && *file_out >= 0);
    assert_int_equal(dup2(*file_out, fd), fd);
    return kept;
}

static char *put_back(int fd, int kept, int file)
{
    const off_t size = lseek(file, 0, SEEK_END);
    char *const text = calloc(1, (size_t)size + 1);

    assert_int_equal(pread(file, text, (size_t)size, 0), size);
    dup2(kept, fd);
    close(kept);
    close(file);
    return text;
}

static void test_log_lines_stay_lines(void **user)
{
    const char *line;
    char *shown;
    char *rest;
    int file;
    int kept;

    (void)user;
    kept = divert(STDERR_FILENO, &file);
    for (uint32_t i = 0; i < TEXTS / 10; i++) {
        char text[MAX_BYTES + 8];

        draw_text(text);
        lull_log(LULL_LOG_ERROR, "test", "[%s]", text);
    }
    shown = put_back(STDERR_FILENO, kept, file);
    rest = shown;
    for (uint32_t i = 0; i < TEXTS / 10; i++) {
        line = strsep(&rest, "\n");
        assert_memory_equal(line, "lull test: error: [", 19);
        assert_int_equal(line[strlen(line) - 1], ']');
        for (size_t at = 0; line[at] != '\0';) {
            uint32_t code;
            const size_t size = next_code(line + at, strlen(line + at), &code);

            assert_true(code != 0xfffd || size == 3);
            assert_false(controls(code) || deceives(code));
            at += size;
        }
    }
    assert_string_equal(rest, "");
    free(shown);
}

/* Writes all texts with flushes at any byte, and expects the form of them as a whole. */
static void test_streams_are_printable(void **user)
{
    static char all[TEXTS / 10 * MAX_BYTES];
    size_t size = 0;
    char *expected;
    char *shown;
    int file;
    int kept;
    int result;

    (void)user;
    for (uint32_t i = 0; i < TEXTS / 10; i++)
        size += draw_text(all + size);
    memcpy(all + size, "\xe2\x82", 2);
    size += 2; /* cut off at the end */
    kept = divert(STDOUT_FILENO, &file);
    lull_output_begin();
    for (size_t at = 0; at < size;) {
        size_t part = 1 + draw(draw(20) == 0 ? 9000 : 7);

        if (part > size - at)
            part = size - at;
        fwrite(all + at, 1, part, stdout);
        if (draw(4) > 0)
            fflush(stdout);
        at += part;
    }
    result = lull_output_finish();
    shown = put_back(STDOUT_FILENO, kept, file);
    expected = lull_printable_copy(LULL_PRINTABLE_LINES, all, size);
    assert_int_equal(result, 0);
    assert_int_equal(strlen(shown), strlen(expected));
    assert_true(strcmp(shown, expected) == 0);
    free(expected);
    free(shown);
}

static void test_a_full_output_is_an_error(void **user)
{
    const int kept = dup(STDOUT_FILENO);
    const int full = open("/dev/full", O_WRONLY);
    int result;

    (void)user;
    dup2(full, STDOUT_FILENO);
    printf("text\n");
    result = lull_output_finish();
    clearerr(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    close(full);
    assert_int_equal(result, -ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_written_line_is_cut_between_characters),
        cmocka_unit_test(test_addresses_keep_all_bytes),
        cmocka_unit_test(test_json_holds_any_text),
        cmocka_unit_test(test_log_lines_stay_lines),
        cmocka_unit_test(test_streams_are_printable),
        cmocka_unit_test(test_a_full_output_is_an_error),
    };
    begin_decoding();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
