/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/picture.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

double lull_picture_tick(double span, double about)
{
    const double power = pow(10.0, floor(log10(span / about)));
    const double ratio = span / about / power;

    if (ratio < 1.5)
        return power;
    if (ratio < 3.5)
        return 2.0 * power;
    if (ratio < 7.5)
        return 5.0 * power;
    return 10.0 * power;
}

/* ---- time --------------------------------------------------------------------------------- */

struct axis_unit {
    const char *name;
    double size_s;
};

static struct axis_unit picture_unit_of(double span_s)
{
    if (span_s < 1.0)
        return (struct axis_unit){"ms", 1e-3};
    if (span_s < 600.0)
        return (struct axis_unit){"s", 1.0};
    if (span_s < 10800.0)
        return (struct axis_unit){"min", 60.0};
    if (span_s < 432000.0)
        return (struct axis_unit){"h", 3600.0};
    return (struct axis_unit){"d", 86400.0};
}

void lull_picture_draw_time_axis(FILE *file, const struct lull_picture_time_axis *axis)
{
    const struct axis_unit unit = picture_unit_of(axis->span_s);
    const double span = axis->span_s / unit.size_s;
    const double tick = lull_picture_tick(span, 8.0);
    const double pixels = axis->width / span * tick;

    fprintf(file, "<path class=\"line\" stroke=\"#888\" d=\"M%.1f %.1fH%.1f", axis->left,
            axis->bottom, axis->left + axis->width);
    for (int i = 0; i * tick <= span; i++)
        fprintf(file, "M%.1f %.1fv6", axis->left + i * pixels, axis->bottom);
    fprintf(file, "\"/>\n<path class=\"grid\" stroke=\"#0000000d\" d=\"");
    for (int i = 0; i * tick <= span; i++)
        fprintf(file, "M%.1f %.1fV%.1f", axis->left + i * pixels, axis->top, axis->bottom);
    fprintf(file, "\"/>\n<g class=\"label\" font-size=\"11\" text-anchor=\"middle\" "
                  "fill=\"#444\">\n");
    for (int i = 0; i * tick <= span; i++)
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\">%g %s</text>\n", axis->left + i * pixels,
                axis->bottom + 19.0, i * tick, unit.name);
    fprintf(file, "</g>\n");
}

/* ---- amounts ------------------------------------------------------------------------------ */

void lull_picture_draw_amount_axis(FILE *file, const struct lull_picture_amount_axis *axis)
{
    const double tick = lull_picture_tick(axis->most, (axis->bottom - axis->top) / 28.0);
    const double pixels = (axis->bottom - axis->top) / axis->most * tick;

    fprintf(file, "<path class=\"line\" stroke=\"#888\" d=\"M%.1f %.1fV%.1f\"/>\n", axis->left,
            axis->top, axis->bottom);
    fprintf(file, "<path class=\"grid\" stroke=\"#0000001a\" d=\"");
    for (int i = 1; i * tick <= axis->most; i++)
        fprintf(file, "M%.1f %.1fH%.1f", axis->left, axis->bottom - i * pixels, axis->right);
    fprintf(file, "\"/>\n<g class=\"label\" font-size=\"11\" text-anchor=\"end\" fill=\"#444\">\n");
    for (int i = 0; i * tick <= axis->most; i++)
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", axis->left - 6.0,
                axis->bottom - i * pixels + 4.0, axis->text(i * tick).text);
    fprintf(file, "</g>\n");
}

/* ---- functions of time ----------------------------------------------------------------------- */

int lull_picture_bins_init(struct lull_picture_bins *bins, double span_s, size_t count)
{
    double *const mean = calloc(count, sizeof(*mean));

    if (mean == NULL)
        return -ENOMEM;
    *bins = (struct lull_picture_bins){span_s, count, mean};
    return 0;
}

void lull_picture_bins_fini(struct lull_picture_bins *bins)
{
    free(bins->mean);
    *bins = (struct lull_picture_bins){0};
}

void lull_picture_bins_add(struct lull_picture_bins *bins, double begin_s, double end_s,
                           double value)
{
    const double per_s = (double)bins->count / bins->span_s;
    const double begin = fmax(begin_s * per_s, 0.0);
    const double end = fmin(end_s * per_s, (double)bins->count);

    for (size_t i = (size_t)begin; (double)i < end; i++)
        bins->mean[i] += value * (fmin(end, (double)i + 1.0) - fmax(begin, (double)i));
}

double lull_picture_bins_most(const struct lull_picture_bins *bins)
{
    double most = 0.0;

    for (size_t i = 0; i < bins->count; i++)
        most = fmax(most, bins->mean[i]);
    return most;
}

/* Heights are rounded to a tenth of a pixel: equal neighbours are then one line of the path, which
 * keeps files small. */
static long picture_tenths(const struct lull_picture_bins *bins,
                           const struct lull_picture_area *area, size_t i)
{
    return i < bins->count ? lround(10.0 * bins->mean[i] * area->per_amount) : 0;
}

void lull_picture_bins_write(const struct lull_picture_bins *bins,
                             const struct lull_picture_area *area, FILE *file)
{
    const double step = area->width / (double)bins->count;
    long height = 0;

    for (size_t i = 0; i <= bins->count; i++) {
        const long next = picture_tenths(bins, area, i);
        const double x = area->left + step * (double)i;

        if (next == height)
            continue;
        if (height == 0)
            fprintf(file, "M%.1f %.1f", x, area->bottom);
        else
            fprintf(file, "H%.1f", x);
        fprintf(file, "V%.1f", area->bottom - 0.1 * (double)next);
        if (next == 0)
            fputc('z', file);
        height = next;
    }
}

/* ---- colours of clocks ----------------------------------------------------------------------- */

/* The colours from the lowest clock to the highest. They also differ in lightness, for readers with
 * colour vision deficiency. */
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
