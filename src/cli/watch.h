/*
 * A line of progress on standard error, where that is a terminal and only of what takes more than
 * two seconds. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_WATCH_H
#define LULL_CLI_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct lull_watch {
    int64_t begun_ns;
    int64_t drawn_ns; /* 0: not yet */
};

/* From now on. */
struct lull_watch lull_watch_begin(void);

/* Whether to draw the line now, at most five times a second. */
bool lull_watch_is_due(struct lull_watch *watch);

/* Draws it over the last one. */
void lull_watch_draw(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Takes the line away, if there is one. */
void lull_watch_end(const struct lull_watch *watch);

#endif
