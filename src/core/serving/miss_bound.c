/* SPDX-License-Identifier: Apache-2.0 */
#include "core/serving/miss_bound.h"

#include <assert.h>
#include <math.h>

/* The mixture over r: where the bound is narrow, from no miss to as many as a few hundred blocks
 * expect. Default: each further row widens the others. */
static const struct {
    double r;
    double weight;
} rows[] = {{0.02, 0.4}, {0.2, 0.2}, {0.5, 0.2}, {0.75, 0.1}, {0.9, 0.1}};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

void lull_miss_bound_add(struct lull_miss_bound *bound, double requests, double misses)
{
    assert(requests >= 0.0 && misses >= 0.0);
    bound->requests += requests;
    bound->misses += misses;
}

/* The logarithm of the mixture if this many blocks of misses were expected. */
static double miss_bound_evidence(double missed, double expected)
{
    double largest = -INFINITY;
    double logs[ROWS];
    double sum = 0.0;

    for (int i = 0; i < ROWS; i++) {
        logs[i] = log(rows[i].weight) + missed * log(rows[i].r) + (1.0 - rows[i].r) * expected;
        largest = fmax(largest, logs[i]);
    }
    for (int i = 0; i < ROWS; i++)
        sum += exp(logs[i] - largest);
    return largest + log(sum);
}

double lull_miss_bound_find(const struct lull_miss_bound *bound, double error)
{
    const double blocks = floor(bound->requests / LULL_MISS_BLOCK);
    const double missed = bound->misses / LULL_MISS_BLOCK;
    double low = 0.0;
    double high = blocks;

    assert(error > 0.0 && error < 1.0);
    if (blocks < 1.0 || miss_bound_evidence(missed, blocks) < -log(error))
        return 1.0;
    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2.0;

        if (miss_bound_evidence(missed, middle) < -log(error))
            low = middle;
        else
            high = middle;
    }
    return high / blocks;
}
