/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/picture/colour.h"

#include <math.h>

/* From the lowest clock to the highest; lightness differs too, for those who see few colours. */
static const double stops[][3] = {
    {38, 70, 133}, {62, 142, 176}, {134, 200, 170}, {247, 222, 120}, {240, 150, 70}, {201, 54, 62},
};

enum { LAST_STOP = sizeof(stops) / sizeof(stops[0]) - 1 };

static struct lull_clock_shade shade_at(double ratio)
{
    const double place = ratio * LAST_STOP;
    const int stop = place >= LAST_STOP ? LAST_STOP - 1 : (int)place;
    struct lull_clock_shade shade = {0};
    double channel[3];

    for (int i = 0; i < 3; i++) {
        channel[i] = stops[stop][i] + (place - stop) * (stops[stop + 1][i] - stops[stop][i]);
        shade.rgb = shade.rgb << 8 | (uint32_t)lround(channel[i]);
    }
    shade.is_dark = 0.3 * channel[0] + 0.59 * channel[1] + 0.11 * channel[2] < 140.0;
    return shade;
}

void lull_clock_colours_init(struct lull_clock_colours *colours)
{
    *colours = (struct lull_clock_colours){.low_mhz = UINT32_MAX};
}

void lull_clock_colours_add(struct lull_clock_colours *colours, uint32_t mhz)
{
    if (mhz > colours->high_mhz)
        colours->high_mhz = mhz;
    if (mhz > 0 && mhz < colours->low_mhz)
        colours->low_mhz = mhz;
}

void lull_clock_colours_finish(struct lull_clock_colours *colours)
{
    colours->shade_count = LULL_CLOCK_SHADES + 1;
    colours->shades[0] = (struct lull_clock_shade){0x8a8a92, true};
    for (int i = 0; i < LULL_CLOCK_SHADES; i++)
        colours->shades[i + 1] = shade_at((double)i / (LULL_CLOCK_SHADES - 1));
}

uint32_t lull_clock_colours_shade(const struct lull_clock_colours *colours, uint32_t mhz)
{
    if (mhz < colours->low_mhz)
        return 0;
    if (colours->high_mhz == colours->low_mhz)
        return LULL_CLOCK_SHADES;
    return 1 + (uint32_t)lround((double)(mhz - colours->low_mhz) /
                                (double)(colours->high_mhz - colours->low_mhz) *
                                (LULL_CLOCK_SHADES - 1));
}

double lull_clock_colours_draw(const struct lull_clock_colours *colours, FILE *file, double x,
                               double y)
{
    const double width = 7.0;
    const bool is_one = colours->high_mhz <= colours->low_mhz;

    if (colours->high_mhz == 0)
        return x;
    fprintf(file, "<text x=\"%.0f\" y=\"%.0f\">%u</text>\n", x, y + 11.0, colours->low_mhz);
    x += 36.0;
    for (int i = is_one ? LULL_CLOCK_SHADES : 1; i <= LULL_CLOCK_SHADES; i++, x += width)
        fprintf(file, "<rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"14\" fill=\"#%06x\"/>",
                x, y, width + 0.5, colours->shades[i].rgb);
    fprintf(file, "\n<text x=\"%.0f\" y=\"%.0f\">%u MHz</text>\n", x + 6.0, y + 11.0,
            colours->high_mhz);
    return x + 100.0;
}
