/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/error_bound.h"

#include <math.h>

#include "core/stats/quantile.h"

/* The part of the root mean square of errors that no doubt is below. Chosen on random halves of
 * the sets of docs/research/measurements/models.md, as are the kernels that the quantile is short
 * of. */
static const double typical_share = 0.3;
static const double missing_kernels = 4.0;

struct lull_error_bound lull_error_bound_new(const struct lull_error_sample *sample,
                                             uint32_t kernels)
{
    const double missed = (1.0 - LULL_ERROR_CONFIDENCE) * kernels / (kernels + missing_kernels);
    double square = 0.0, typical, score;

    for (size_t i = 0; i < sample->count; i++)
        square += sample->errors[i] * sample->errors[i] / (double)sample->count;
    typical = typical_share * sqrt(square);
    if (sample->count > 0 && !(typical > 0.0))
        return (struct lull_error_bound){0.0, 0.0};
    for (size_t i = 0; i < sample->count; i++)
        sample->errors[i] /= typical + sample->doubts[i];
    lull_quantile_sort(sample->errors, sample->count);
    score = lull_quantile_of_sorted(sample->errors, sample->count, 1.0 - missed);
    return (struct lull_error_bound){score * typical, score};
}

struct lull_error_bound lull_error_bound_same(double *errors, size_t count)
{
    lull_quantile_sort(errors, count);
    return (struct lull_error_bound){lull_quantile_of_sorted(errors, count, LULL_ERROR_CONFIDENCE),
                                     0.0};
}

double lull_error_bound_at(const struct lull_error_bound *bound, double doubt)
{
    return bound->floor + bound->slope * doubt;
}
