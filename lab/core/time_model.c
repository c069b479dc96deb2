/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/time_model.h"

#include <assert.h>
#include <math.h>

#include "lab/core/nnls.h"

static const double exponents[LULL_TIME_EXPONENTS] = {1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 30.0};

/* The relative error that a shape may have before its weight drops. Chosen on the sets of
 * docs/research/measurements/models.md: from 0.5 to 1.5 % no error of a kernel fitted alone changes
 * by more than 0.4 points. */
static const double sigma_ratio = 0.007;

double lull_time_shape(uint32_t shape, double sm_ratio, double mem_ratio)
{
    const double p = exponents[shape / LULL_TIME_SHARES];
    const double share = (double)(shape % LULL_TIME_SHARES) / (LULL_TIME_SHARES - 1);
    const double sm = (1.0 - share) / sm_ratio, mem = share / mem_ratio;
    const double larger = fmax(sm, mem);

    assert(shape < LULL_TIME_SHAPES);
    /* Relative to the larger one no power overflows. */
    return larger * pow(pow(sm / larger, p) + pow(mem / larger, p), 1.0 / p);
}

void lull_time_shapes(const struct lull_grid *grid, double *shapes_out)
{
    for (uint32_t i = 0; i < grid->point_count; i++)
        for (uint32_t shape = 0; shape < LULL_TIME_SHAPES; shape++)
            *shapes_out++ =
                lull_time_shape(shape, grid->points[i].sm_ratio, grid->points[i].mem_ratio);
}

/* A shape's part of the mean. */
struct fitted_shape {
    double fixed_ms;
    double scale_ms;
    double misfit; /* the sum of squares of relative errors */
};

static struct fitted_shape fit_shape(uint32_t shape, const double *shapes, const double *times_ms,
                                     const uint32_t *probes, uint32_t probe_count)
{
    struct lull_nnls fit = lull_nnls_begin(2);
    double found[2], misfit = 0.0;

    for (uint32_t i = 0; i < probe_count; i++) {
        const double row[2] = {1.0, shapes[(size_t)probes[i] * LULL_TIME_SHAPES + shape]};

        lull_nnls_add(&fit, row, times_ms[probes[i]]);
    }
    lull_nnls_solve(&fit, found);
    for (uint32_t i = 0; i < probe_count; i++) {
        const double value = shapes[(size_t)probes[i] * LULL_TIME_SHAPES + shape];
        const double error = (found[0] + found[1] * value) / times_ms[probes[i]] - 1.0;

        misfit += error * error;
    }
    return (struct fitted_shape){found[0], found[1], misfit};
}

void lull_time_fit(const double *shapes, const double *times_ms, const uint32_t *probes,
                   uint32_t probe_count, struct lull_time_model *model_out)
{
    struct lull_time_doubt doubt;

    lull_time_fit_with_doubt(shapes, times_ms, probes, probe_count, model_out, &doubt);
}

void lull_time_fit_with_doubt(const double *shapes, const double *times_ms, const uint32_t *probes,
                              uint32_t probe_count, struct lull_time_model *model_out,
                              struct lull_time_doubt *doubt_out)
{
    struct fitted_shape fitted[LULL_TIME_SHAPES];
    double least = INFINITY, sum = 0.0;

    assert(probe_count >= 1);
    for (uint32_t shape = 0; shape < LULL_TIME_SHAPES; shape++) {
        fitted[shape] = fit_shape(shape, shapes, times_ms, probes, probe_count);
        least = fmin(least, fitted[shape].misfit);
    }
    model_out->fixed_ms = doubt_out->fixed_square = 0.0;
    for (uint32_t shape = 0; shape < LULL_TIME_SHAPES; shape++) {
        const double fixed_ms = fitted[shape].fixed_ms, scale_ms = fitted[shape].scale_ms;
        const double weight =
            exp(-(fitted[shape].misfit - least) / (2.0 * sigma_ratio * sigma_ratio));

        sum += weight;
        model_out->fixed_ms += weight * fixed_ms;
        model_out->scale_ms[shape] = weight * scale_ms;
        doubt_out->fixed_square += weight * fixed_ms * fixed_ms;
        doubt_out->across[shape] = 2.0 * weight * fixed_ms * scale_ms;
        doubt_out->square[shape] = weight * scale_ms * scale_ms;
    }
    model_out->fixed_ms /= sum;
    doubt_out->fixed_square /= sum;
    for (uint32_t shape = 0; shape < LULL_TIME_SHAPES; shape++) {
        model_out->scale_ms[shape] /= sum;
        doubt_out->across[shape] /= sum;
        doubt_out->square[shape] /= sum;
    }
}

double lull_time_at(const struct lull_time_model *model, const double *point_shapes)
{
    double time_ms = model->fixed_ms;

    for (uint32_t shape = 0; shape < LULL_TIME_SHAPES; shape++)
        time_ms += model->scale_ms[shape] * point_shapes[shape];
    return time_ms;
}

double lull_time_doubt_at(const struct lull_time_doubt *doubt, const double *point_shapes,
                          double time_ms)
{
    double square = doubt->fixed_square;

    for (uint32_t shape = 0; shape < LULL_TIME_SHAPES; shape++)
        square += (doubt->across[shape] + doubt->square[shape] * point_shapes[shape]) *
                  point_shapes[shape];
    return sqrt(fmax(square / (time_ms * time_ms) - 1.0, 0.0));
}
