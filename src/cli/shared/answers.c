/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/answers.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json_string.h"

/* Standard input, read without a buffer of the C library, which poll() does not see. */
struct answers_input {
    char text[LULL_ANSWERS_MAX_BYTES];
    size_t length;
};

json_t *lull_answers_error(const char *text)
{
    json_t *document = json_object();

    json_object_set_new(document, "error", lull_json_string(text));
    return document;
}

static int answers_print(json_t *document, struct lull_error *err)
{
    const int result = json_dumpf(document, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));

    json_decref(document);
    if (result < 0 || fputc('\n', stdout) == EOF || fflush(stdout) == EOF)
        return lull_error_set(err, -EIO, "standard output cannot be written");
    return 0;
}

/* A NUL would hide the rest of a line. */
static json_t *answers_get(const struct lull_answers *answers, const char *line, size_t length)
{
    if (memchr(line, '\0', length) != NULL)
        return lull_answers_error("a request must not contain the byte 0");
    return answers->answer(answers->context, line);
}

/* Answers the lines that have arrived. Returns 1 at the end of input. */
static int answers_take(const struct lull_answers *answers, struct answers_input *input,
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
        result = answers_print(answers_get(answers, line, (size_t)(end - line)), err);
        if (result < 0)
            return result;
        line = end + 1;
    }
    if (input->length == sizeof(input->text))
        return lull_error_set(err, -EINVAL, "a line of standard input has more than %d bytes",
                              LULL_ANSWERS_MAX_BYTES);
    memmove(input->text, line, input->length);
    return 0;
}

int lull_answers_serve(const struct lull_answers *answers, json_t *greeting, struct lull_error *err)
{
    struct pollfd request = {.fd = STDIN_FILENO, .events = POLLIN};
    struct answers_input input = {.length = 0};
    int result = answers_print(greeting, err);

    while (result == 0) {
        if (poll(&request, 1, answers->wait_ms(answers->context)) > 0)
            result = answers_take(answers, &input, err);
        else
            result = answers->idle(answers->context, err);
    }
    return result < 0 ? result : 0;
}
