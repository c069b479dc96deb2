/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/picture/bins.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

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

/* Heights are drawn to a tenth of a pixel. */
static long tenths(const struct lull_picture_bins *bins, const struct lull_picture_area *area,
                   size_t i)
{
    return i < bins->count ? lround(10.0 * bins->mean[i] * area->per_amount) : 0;
}

void lull_picture_bins_write(const struct lull_picture_bins *bins,
                             const struct lull_picture_area *area, FILE *file)
{
    const double step = area->width / (double)bins->count;
    long height = 0;

    for (size_t i = 0; i <= bins->count; i++) {
        const long next = tenths(bins, area, i);
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
