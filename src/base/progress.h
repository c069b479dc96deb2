/*
 * A line of progress on standard error. It is drawn only on a terminal, and only after two seconds
 * of work.
 *
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_PROGRESS_H
#define LULL_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct lull_progress {
    int64_t begun_ns;
    int64_t drawn_ns; /* 0 until the line is drawn for the first time */
};

/* Starts the timer at the start of the work. */
struct lull_progress lull_progress_begin(void);

/* Returns whether to draw the line now: true at most five times a second. */
bool lull_progress_is_due(struct lull_progress *progress);

/* Draws the line in place of the last one. */
void lull_progress_draw(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Erases the line, if one was drawn. */
void lull_progress_end(const struct lull_progress *progress);

#endif
