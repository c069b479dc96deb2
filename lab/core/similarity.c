/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/similarity.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

/* The squares of distances within which kernels count alike, to choose from. Chosen on the sets
 * of docs/research/measurements/models.md, which states its effect. */
static const double reaches[] = {0.05, 0.1, 0.3, 1.0};
enum { REACHES = sizeof(reaches) / sizeof(reaches[0]), MIN_KERNELS = 3 };

static const double *feature_of(const struct lull_similarity *similarity, uint32_t kernel)
{
    return &similarity->feature[(size_t)kernel * similarity->features];
}

static const double *residual_of(const struct lull_similarity *similarity, uint32_t kernel)
{
    return &similarity->residual[(size_t)kernel * similarity->points];
}

/* 1 / variance of each feature over all kernels; 0 for one that does not vary. */
static void weigh_features(const struct lull_similarity *similarity, double *weights)
{
    for (uint32_t f = 0; f < similarity->features; f++) {
        double mean = 0.0, squares = 0.0;

        for (uint32_t k = 0; k < similarity->kernels; k++)
            mean += feature_of(similarity, k)[f] / similarity->kernels;
        for (uint32_t k = 0; k < similarity->kernels; k++) {
            const double off = feature_of(similarity, k)[f] - mean;

            squares += off * off / similarity->kernels;
        }
        weights[f] = squares > 0.0 ? 1.0 / squares : 0.0;
    }
}

/* The mean over the features, so that the reach means the same for any number of probes. */
static double similarity_distance(const struct lull_similarity *similarity, const double *weights,
                                  uint32_t a, uint32_t b)
{
    const double *const first = feature_of(similarity, a);
    const double *const second = feature_of(similarity, b);
    double sum = 0.0;

    for (uint32_t f = 0; f < similarity->features; f++)
        sum += weights[f] * (first[f] - second[f]) * (first[f] - second[f]);
    return sum / similarity->features;
}

/* The mean residual of kernels like `kernel`, without that one and another. */
static void mean_residual(const struct lull_similarity *similarity, const double *weights,
                          uint32_t kernel, uint32_t without, double reach, double *residual_out)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < similarity->points; i++)
        residual_out[i] = 0.0;
    for (uint32_t k = 0; k < similarity->kernels; k++) {
        const double *const residual = residual_of(similarity, k);
        double weight;

        if (k == kernel || k == without)
            continue;
        weight = 1.0 / (reach + similarity_distance(similarity, weights, kernel, k));
        sum += weight;
        for (uint32_t i = 0; i < similarity->points; i++)
            residual_out[i] += weight * residual[i];
    }
    for (uint32_t i = 0; i < similarity->points; i++)
        residual_out[i] /= sum;
}

/* The error that is left of the other kernels when each is predicted by the rest; with reach 0
 * their residuals as they are. */
static double left_out_error(const struct lull_similarity *similarity, const double *weights,
                             uint32_t kernel, double reach)
{
    double predicted[LULL_GRID_POINTS] = {0.0};
    double error = 0.0;

    for (uint32_t k = 0; k < similarity->kernels; k++) {
        const double *const residual = residual_of(similarity, k);

        if (k == kernel)
            continue;
        if (reach > 0.0)
            mean_residual(similarity, weights, k, kernel, reach, predicted);
        for (uint32_t i = 0; i < similarity->points; i++)
            error += fabs(residual[i] - predicted[i]);
    }
    return error;
}

void lull_similarity_residual(const struct lull_similarity *similarity, uint32_t kernel,
                              double *residual_out)
{
    double weights[LULL_SIMILARITY_FEATURES];
    double least, chosen = 0.0;

    assert(similarity->features >= 1 && similarity->features <= LULL_SIMILARITY_FEATURES);
    assert(similarity->points <= LULL_GRID_POINTS && kernel < similarity->kernels);
    for (uint32_t i = 0; i < similarity->points; i++)
        residual_out[i] = 0.0;
    if (similarity->kernels <= MIN_KERNELS)
        return;
    weigh_features(similarity, weights);
    least = left_out_error(similarity, weights, kernel, 0.0);
    for (uint32_t r = 0; r < REACHES; r++) {
        const double error = left_out_error(similarity, weights, kernel, reaches[r]);

        if (error < least) {
            least = error;
            chosen = reaches[r];
        }
    }
    if (chosen > 0.0)
        mean_residual(similarity, weights, kernel, kernel, chosen, residual_out);
}
