/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/lines.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json_string.h"

/* Standard input, read without a buffer of the C library, which poll() does not see. */
struct lines_input {
    char text[LULL_LINES_MAX_BYTES];
    size_t length;
};

json_t *lull_lines_error(const char *text)
{
    json_t *document = json_object();

    json_object_set_new(document, "error", lull_json_string(text));
    return document;
}

static int lines_print(json_t *document, struct lull_error *err)
{
    const int result = json_dumpf(document, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));

    json_decref(document);
    if (result < 0 || fputc('\n', stdout) == EOF || fflush(stdout) == EOF)
        return lull_error_set(err, -EIO, "standard output cannot be written");
    return 0;
}

/* Answers the lines that have arrived. Returns 1 at the end of input. */
static int lines_answer(const struct lull_lines *lines, struct lines_input *input,
                        struct lull_error *err)
{
    const ssize_t got =
        read(STDIN_FILENO, input->text + input->length, sizeof(input->text) - input->length);
    char *line = input->text;
    char *end;

    if (got < 0 && errno == EINTR)
        return 0;
    if (got <= 0)
        return 1;
    input->length += (size_t)got;
    while ((end = memchr(line, '\n', input->length)) != NULL) {
        int result;

        *end = '\0';
        input->length -= (size_t)(end + 1 - line);
        result = lines_print(lines->answer(lines->context, line), err);
        if (result < 0)
            return result;
        line = end + 1;
    }
    if (input->length == sizeof(input->text))
        return lull_error_set(err, -EINVAL, "a line of standard input has more than %d bytes",
                              LULL_LINES_MAX_BYTES);
    memmove(input->text, line, input->length);
    return 0;
}

int lull_lines_serve(const struct lull_lines *lines, json_t *greeting, struct lull_error *err)
{
    struct pollfd request = {.fd = STDIN_FILENO, .events = POLLIN};
    struct lines_input input = {.length = 0};
    int result = lines_print(greeting, err);

    while (result == 0) {
        if (poll(&request, 1, lines->wait_ms(lines->context)) > 0)
            result = lines_answer(lines, &input, err);
        else
            result = lines->idle(lines->context, err);
    }
    return result < 0 ? result : 0;
}
