/*
 * Lines: a view as lines of text, the same on the screen and with --once. An unknown value is "-".
 * In case of an error a line below has the reason. Threads: one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_TOP_LINES_H
#define LULL_CLI_TOP_LINES_H

#include <stdint.h>

#include "cli/top/view.h"

enum { LULL_TOP_LINE_BYTES = 512 };

enum lull_top_style {
    LULL_TOP_PLAIN,
    LULL_TOP_HEADING, /* the first line of a run */
    LULL_TOP_DIM,     /* less important text */
    LULL_TOP_LOWERED, /* a GPU below its highest clock */
    LULL_TOP_WARNING, /* something that may need action by the user */
};

struct lull_top_line {
    char text[LULL_TOP_LINE_BYTES];
    enum lull_top_style style;
    int32_t run; /* whose it is; -1: no run's */
};

/* Zero-initialised has no lines. */
struct lull_top_lines {
    struct lull_top_line *items;
    uint32_t count;
    uint32_t capacity;
};

/* Text above the lines, whichever part of them is visible: the title and the column headings. */
void lull_top_title(const struct lull_top_view *view, char *text, size_t size);
const char *lull_top_columns(void);

/* Makes the lines again; without memory for more, the rest is left out. Text of others is fit to be
 * shown in a terminal. */
void lull_top_make_lines(const struct lull_top_view *view, struct lull_top_lines *lines);
void lull_top_lines_fini(struct lull_top_lines *lines);

/* Returns how many bytes of a text fit into so many columns of a terminal. */
size_t lull_top_fit(const char *text, int columns);

#endif
