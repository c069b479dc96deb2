/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/picture/axis.h"

#include <math.h>

double lull_picture_tick(double span, double about)
{
    const double power = pow(10.0, floor(log10(span / about)));
    const double rest = span / about / power;

    return power * (rest < 1.5 ? 1.0 : rest < 3.5 ? 2.0 : rest < 7.5 ? 5.0 : 10.0);
}

void lull_picture_write_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '&')
            fputs("&amp;", file);
        else
            fputc(*text, file);
    }
}

/* ---- time --------------------------------------------------------------------------------- */

struct axis_unit {
    const char *name;
    double size_s;
};

static struct axis_unit unit_of(double span_s)
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
    const struct axis_unit unit = unit_of(axis->span_s);
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
