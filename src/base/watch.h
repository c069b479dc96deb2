/*
 * A line of progress on standard error. It is drawn only on a terminal, and only for work that has
 * taken more than two seconds already.
 *
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_WATCH_H
#define LULL_BASE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct lull_watch {
    int64_t begun_ns;
    int64_t drawn_ns; /* 0 until the line is drawn for the first time */
};

/* The work begins now. */
struct lull_watch lull_watch_begin(void);

/* Tells whether to draw the line now, which it does at most five times a second. */
bool lull_watch_is_due(struct lull_watch *watch);

/* Draws the line in the place of the last one. */
void lull_watch_draw(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Erases the line, if one was drawn. */
void lull_watch_end(const struct lull_watch *watch);

#endif
