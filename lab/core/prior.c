/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/prior.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

#include "base/array.h"

enum { NEIGHBOURS = 3 };

/* The constants of the forms, in units of the variance of changes. Default: they span
 * what any of six sets of docs/research/measurements/models.md prefers. */
static const double lengths[] = {0.5, 1.0, 2.0, 4.0};
static const double slopes[] = {0.1, 0.3, 1.0, 3.0};
static const double noises[] = {1e-3, 1e-2, 3e-2, 0.1, 0.3};
/* The variance of the mean of all changes, so large that the mean is what the kernels show. */
static const double mean_variance = 10.0;
/* Exponent of a form's error in its weight. Measured: with 5 to 40 no error of six sets changes by
 * more than 0.3 points. */
static const double sharpness = 20.0;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Inputs of all forms, and the sums over them. */
struct prior_work {
    const struct lull_prior *prior;
    double *place;    /* kernels x features: in standard deviations */
    double *distance; /* kernels x kernels: mean square over features */
    double *product;  /* kernels x kernels: mean over features */
    double *inverse;  /* of a form's covariance */
    double *weighted; /* kernels x points: the inverse times the changes */
    double *sum;      /* kernels x points: of predictions, weighted */
    double *weight;   /* of each kernel's sum */
};

static size_t prior_index(const struct prior_work *work, uint32_t row, uint32_t column)
{
    return (size_t)row * work->prior->kernels + column;
}

static const double *change_of(const struct prior_work *work, uint32_t kernel)
{
    return &work->prior->change[(size_t)kernel * work->prior->points];
}

/* ---- features ----------------------------------------------------------------------------- */

/* Writes a feature in standard deviations from its mean; 0 where all kernels have the same. */
static bool prior_standardise(const struct prior_work *work, uint32_t feature)
{
    const uint32_t kernels = work->prior->kernels, features = work->prior->features;
    double mean = 0.0, square = 0.0, scale = 0.0;

    for (uint32_t k = 0; k < kernels; k++)
        mean += work->prior->feature[(size_t)k * features + feature] / kernels;
    for (uint32_t k = 0; k < kernels; k++) {
        const double off = work->prior->feature[(size_t)k * features + feature] - mean;

        square += off * off / kernels;
    }
    if (square > 0.0)
        scale = 1.0 / sqrt(square);
    for (uint32_t k = 0; k < kernels; k++) {
        const size_t cell = (size_t)k * features + feature;

        work->place[cell] = (work->prior->feature[cell] - mean) * scale;
    }
    return square > 0.0;
}

static void prior_compare_kernels(const struct prior_work *work)
{
    const uint32_t kernels = work->prior->kernels, features = work->prior->features;
    uint32_t varied = 0;

    for (uint32_t f = 0; f < features; f++)
        varied += prior_standardise(work, f) ? 1U : 0U;
    for (uint32_t i = 0; i < kernels; i++)
        for (uint32_t j = 0; j < kernels; j++) {
            const double *const a = &work->place[(size_t)i * features];
            const double *const b = &work->place[(size_t)j * features];
            double distance = 0.0, product = 0.0;

            for (uint32_t f = 0; f < features; f++) {
                distance += (a[f] - b[f]) * (a[f] - b[f]);
                product += a[f] * b[f];
            }
            work->distance[prior_index(work, i, j)] = varied > 0 ? distance / varied : 0.0;
            work->product[prior_index(work, i, j)] = varied > 0 ? product / varied : 0.0;
        }
}

/* ---- one form ----------------------------------------------------------------------------- */

/* Inverts a symmetric positive definite matrix in its place (Gauss and Jordan; no pivoting is
 * needed, because every pivot is at least the noise). */
static void prior_invert(double *matrix, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        double *const pivot_row = &matrix[(size_t)k * count];
        const double pivot = pivot_row[k];

        assert(pivot > 0.0);
        pivot_row[k] = 1.0;
        for (uint32_t j = 0; j < count; j++)
            pivot_row[j] /= pivot;
        for (uint32_t i = 0; i < count; i++) {
            double *const row = &matrix[(size_t)i * count];
            const double factor = row[k];

            if (i == k)
                continue;
            row[k] = 0.0;
            for (uint32_t j = 0; j < count; j++)
                row[j] -= factor * pivot_row[j];
        }
    }
}

static void solve_form(const struct prior_work *work, double length, double slope, double noise)
{
    const uint32_t kernels = work->prior->kernels, points = work->prior->points;

    for (uint32_t i = 0; i < kernels; i++)
        for (uint32_t j = 0; j < kernels; j++) {
            const size_t cell = prior_index(work, i, j);

            work->inverse[cell] = mean_variance + slope * work->product[cell] +
                                  exp(-work->distance[cell] / (2.0 * length * length));
            if (i == j)
                work->inverse[cell] += noise;
        }
    prior_invert(work->inverse, kernels);
    for (uint32_t i = 0; i < kernels; i++) {
        double *const weighted = &work->weighted[(size_t)i * points];

        for (uint32_t p = 0; p < points; p++)
            weighted[p] = 0.0;
        for (uint32_t j = 0; j < kernels; j++)
            for (uint32_t p = 0; p < points; p++)
                weighted[p] += work->inverse[prior_index(work, i, j)] * change_of(work, j)[p];
    }
}

/* Returns the mean error at the other kernels, each predicted without itself and this one: the
 * residuals of what is left out are those of the whole, by the inverse of their block (Rasmussen
 * and Williams 2006, section 5.4.2). */
static double judge_form(const struct prior_work *work, uint32_t kernel)
{
    const uint32_t kernels = work->prior->kernels, points = work->prior->points;
    const double *const own = &work->weighted[(size_t)kernel * points];
    const double own_diagonal = work->inverse[prior_index(work, kernel, kernel)];
    double error = 0.0;

    for (uint32_t j = 0; j < kernels; j++) {
        const double *const other = &work->weighted[(size_t)j * points];
        const double across = work->inverse[prior_index(work, kernel, j)];
        const double determinant =
            own_diagonal * work->inverse[prior_index(work, j, j)] - across * across;

        if (j == kernel)
            continue;
        for (uint32_t p = 0; p < points; p++)
            error += fabs((own_diagonal * other[p] - across * own[p]) / determinant);
    }
    return error / ((double)(kernels - 1) * points);
}

/* Adds a form's prediction of each kernel when that kernel is left out. */
static void add_form(const struct prior_work *work)
{
    static const double min_error = 1e-6; /* a form that is never off has a weight, too */
    const uint32_t points = work->prior->points;

    for (uint32_t k = 0; k < work->prior->kernels; k++) {
        const double weight = pow(judge_form(work, k) + min_error, -sharpness);
        const double diagonal = work->inverse[prior_index(work, k, k)];

        work->weight[k] += weight;
        for (uint32_t p = 0; p < points; p++) {
            const size_t cell = (size_t)k * points + p;

            work->sum[cell] +=
                weight * (work->prior->change[cell] - work->weighted[cell] / diagonal);
        }
    }
}

static void add_forms(const struct prior_work *work)
{
    for (size_t l = 0; l < COUNT(lengths); l++)
        for (size_t s = 0; s < COUNT(slopes); s++)
            for (size_t n = 0; n < COUNT(noises); n++) {
                solve_form(work, lengths[l], slopes[s], noises[n]);
                add_form(work);
            }
}

/* ---- neighbours --------------------------------------------------------------------------- */

/* Lists the nearest other kernels, the nearest first; of equal ones the first. Returns how many. */
static uint32_t list_nearest(const struct prior_work *work, uint32_t kernel, uint32_t *nearest_out)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < work->prior->kernels; k++) {
        const double distance = work->distance[prior_index(work, kernel, k)];
        uint32_t place = count;

        if (k == kernel)
            continue;
        while (place > 0 &&
               work->distance[prior_index(work, kernel, nearest_out[place - 1])] > distance)
            place--;
        if (place == NEIGHBOURS)
            continue;
        if (count < NEIGHBOURS)
            count++;
        for (uint32_t i = count - 1; i > place; i--)
            nearest_out[i] = nearest_out[i - 1];
        nearest_out[place] = k;
    }
    return count;
}

static void prior_average_neighbours(const struct prior_work *work, uint32_t kernel,
                                     double *change_out)
{
    uint32_t nearest[NEIGHBOURS];
    const uint32_t count = list_nearest(work, kernel, nearest);
    double weights = 0.0;

    for (uint32_t p = 0; p < work->prior->points; p++)
        change_out[p] = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        /* Kernels with the same counters share all of the weight. */
        const double weight =
            1.0 / (sqrt(work->distance[prior_index(work, kernel, nearest[i])]) + 1e-9);

        weights += weight;
        for (uint32_t p = 0; p < work->prior->points; p++)
            change_out[p] += weight * exp(change_of(work, nearest[i])[p]);
    }
    for (uint32_t p = 0; p < work->prior->points; p++)
        change_out[p] = log(change_out[p] / weights);
}

/* ---- all of it ---------------------------------------------------------------------------- */

static int prior_begin(const struct lull_prior *prior, struct lull_memory *memory,
                       struct prior_work *work)
{
    const size_t kernels = prior->kernels, cells = kernels * prior->points;

    assert(kernels >= LULL_PRIOR_KERNELS && prior->features >= 1 && prior->points >= 1);
    *work = (struct prior_work){
        .prior = prior,
        .place = lull_memory_take(memory, kernels * prior->features, sizeof(double)),
        .distance = lull_memory_take(memory, kernels * kernels, sizeof(double)),
        .product = lull_memory_take(memory, kernels * kernels, sizeof(double)),
        .inverse = lull_memory_take(memory, kernels * kernels, sizeof(double)),
        .weighted = lull_memory_take(memory, cells, sizeof(double)),
        .sum = lull_memory_take(memory, cells, sizeof(double)),
        .weight = lull_memory_take(memory, kernels, sizeof(double)),
    };
    if (memory->has_failed)
        return -ENOMEM;
    prior_compare_kernels(work);
    return 0;
}

int lull_prior_predict(const struct lull_prior *prior, double *change_out)
{
    struct lull_memory memory = {0};
    struct prior_work work;
    const int rc = prior_begin(prior, &memory, &work);

    if (rc == 0) {
        add_forms(&work);
        for (uint32_t k = 0; k < prior->kernels; k++) {
            double *const change = &change_out[(size_t)k * prior->points];

            prior_average_neighbours(&work, k, change);
            for (uint32_t p = 0; p < prior->points; p++)
                change[p] =
                    0.5 * (change[p] + work.sum[(size_t)k * prior->points + p] / work.weight[k]);
        }
    }
    lull_memory_free(&memory);
    return rc;
}

int lull_prior_neighbours(const struct lull_prior *prior, double *change_out)
{
    struct lull_memory memory = {0};
    struct prior_work work;
    const int rc = prior_begin(prior, &memory, &work);

    if (rc == 0)
        for (uint32_t k = 0; k < prior->kernels; k++)
            prior_average_neighbours(&work, k, &change_out[(size_t)k * prior->points]);
    lull_memory_free(&memory);
    return rc;
}
