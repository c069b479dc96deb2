/*
 * A line of progress on standard error. It is drawn only on a terminal, and only when the work
 * takes more than two seconds. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_WATCH_H
#define LULL_CLI_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct lull_watch {
    int64_t begun_ns;
    int64_t drawn_ns; /* 0: the line was never drawn */
};

/* Begins to count the time. */
struct lull_watch lull_watch_begin(void);

/* Says whether the line is to be drawn now, which is at most five times a second. */
bool lull_watch_is_due(struct lull_watch *watch);

/* Draws the line over the last one. */
void lull_watch_draw(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Removes the line, if one was drawn. */
void lull_watch_end(const struct lull_watch *watch);

#endif
