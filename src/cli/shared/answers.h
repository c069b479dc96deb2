/*
 * Commands that a program runs beside itself: each line of standard input is answered with a line
 * of JSON, until the end of input. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SHARED_ANSWERS_H
#define LULL_CLI_SHARED_ANSWERS_H

#include <jansson.h>

#include "base/error.h"

/* The longest line that is accepted, with its line feed. */
enum { LULL_ANSWERS_MAX_BYTES = 256 };

struct lull_answers {
    /* Returns the answer to a line, without its line feed. */
    json_t *(*answer)(void *context, const char *line);
    /* Called when no line has come for wait_ms(context) milliseconds. Errors end the command. */
    int (*idle)(void *context, struct lull_error *err);
    int (*wait_ms)(const void *context);
    void *context;
};

/* Prints the greeting, which it takes over, and answers lines until the end of input. Errors: -EIO
 * standard output cannot be written; -EINVAL a line is too long; those of idle. */
int lull_answers_serve(const struct lull_answers *answers, json_t *greeting,
                       struct lull_error *err);

/* Returns a new answer that only says what is wrong: {"error": text}. */
json_t *lull_answers_error(const char *text);

#endif
