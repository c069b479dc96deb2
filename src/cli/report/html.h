/*
 * Pieces of a page: texts that are escaped, figures that may not be known, tables, and charts of
 * one amount over another. Pictures carry classes, which page.c gives colours, for light, dark and
 * paper. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_REPORT_HTML_H
#define LULL_CLI_REPORT_HTML_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/amount.h"

/* Format numbers for the page. A value that is not finite is "not known". */
struct lull_amount lull_html_percent(double ratio);                      /* "11.4 %" */
struct lull_amount lull_html_figure(double number, const char *unit);    /* "106.2 ms" */
struct lull_amount lull_html_range(double low_ratio, double high_ratio); /* "10.8 to 12.0 %" */

/* Format what a run has saved, and how much slower it was, as far as its figures prove it
 * (core/energy/gain.h): "not proven" where they do not. */
struct lull_amount lull_html_saved(double saving_ratio, double low_ratio, double high_ratio);
struct lull_amount lull_html_slower(double slowdown_ratio, double upper_ratio,
                                    double allowed_ratio);

/* Writes an escaped text between tags, such as "<td>" and "</td>"; a NULL one as "not known". */
void lull_html_text(FILE *out, const char *before, const char *text, const char *after);

/* Begin and end a table with this caption and heads, the last of which is NULL. It scrolls for
 * itself where it is wider than the page. */
void lull_html_begin_table(FILE *out, const char *caption, const char *const *heads);
void lull_html_end_table(FILE *out);

/* Writes a cell of a row; a text that is NULL is written as "not known". */
void lull_html_cell(FILE *out, const char *text);
void lull_html_number_cell(FILE *out, struct lull_amount amount);

/* ---- charts ------------------------------------------------------------------------------ */

struct lull_html_axis {
    double low; /* low < high */
    double high;
    const char *name;
    bool is_percent; /* values are ratios */
};

struct lull_html_chart {
    double width; /* pixels of the whole picture */
    double height;
    struct lull_html_axis x;
    struct lull_html_axis y;
    /* Between begin and end: the marks in words, for those to whom no tooltip shows. */
    FILE *words; /* NULL: out of memory */
    char *words_text;
    size_t words_size;
};

/* Begin an axis, which shows no value yet; widen it so that it shows a value too, unless that is
 * not finite. */
void lull_html_axis_begin(struct lull_html_axis *axis, const char *name, bool is_percent);
void lull_html_axis_add(struct lull_html_axis *axis, double value);

/* Gives an axis a margin on both sides, and a length above 0 in any case. */
void lull_html_axis_finish(struct lull_html_axis *axis);

/* Begin a picture with both axes, which screen readers call by this title; end it, and list below
 * it what its marks say, folded up. */
void lull_html_begin_chart(FILE *out, struct lull_html_chart *chart, const char *title);
void lull_html_end_chart(FILE *out, struct lull_html_chart *chart);

/* Positions of values, in pixels. */
double lull_html_x(const struct lull_html_chart *chart, double value);
double lull_html_y(const struct lull_html_chart *chart, double value);

/* Marks differ in shape as well as in colour. */
enum lull_html_mark {
    LULL_HTML_GOOD,   /* a full circle */
    LULL_HTML_BAD,    /* a cross */
    LULL_HTML_OPEN,   /* a ring */
    LULL_HTML_TRIED,  /* a diamond */
    LULL_HTML_CHOSEN, /* a star */
    LULL_HTML_MARKS
};

/* Position of a mark, and its interval along y; NAN: it has none. */
struct lull_html_place {
    double x, y;
    double low, high;
};

/* Draws a mark with a tooltip, and its interval. */
void lull_html_draw_mark(FILE *out, const struct lull_html_chart *chart, enum lull_html_mark mark,
                         struct lull_html_place at, const char *tooltip);

/* A place without an interval. */
static inline struct lull_html_place lull_html_at(double x, double y)
{
    return (struct lull_html_place){x, y, (double)NAN, (double)NAN};
}

#endif
