/*
 * Colours for clocks: cool for the lowest, warm for the highest, grey for what has none.
 * Up to LULL_CLOCK_SHADES clocks each have their own shade; more share them.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PICTURE_COLOUR_H
#define LULL_CLI_PICTURE_COLOUR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { LULL_CLOCK_SHADES = 48 };

struct lull_clock_shade {
    uint32_t rgb;
    bool is_dark; /* text on it should be white */
};

struct lull_clock_colours {
    uint32_t low_mhz;
    uint32_t high_mhz;
    struct lull_clock_shade shades[LULL_CLOCK_SHADES + 1]; /* the first: no clock */
    uint32_t shade_count;
};

/* Init, add every clock that occurs (0: none), finish. */
void lull_clock_colours_init(struct lull_clock_colours *colours);
void lull_clock_colours_add(struct lull_clock_colours *colours, uint32_t mhz);
void lull_clock_colours_finish(struct lull_clock_colours *colours);

/* Index of the shade of a clock. */
uint32_t lull_clock_colours_shade(const struct lull_clock_colours *colours, uint32_t mhz);

/* Draws the scale as SVG with its upper left corner at x, y; returns where it ends to the right. */
double lull_clock_colours_draw(const struct lull_clock_colours *colours, FILE *file, double x,
                               double y);

#endif
