/*
 * Many numbers of a seeded run in one, to be compared with what it was: for code whose single
 * numbers nobody can say beforehand. A change of any decision or of an eleventh digit shows.
 * With LULL_TEST_DIGESTS set, a program prints its digests instead of comparing them.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_CORE_DIGEST_H
#define LULL_TESTS_CORE_DIGEST_H

#include <stdio.h>
#include <stdlib.h>

#include "property.h"

struct digest {
    double sum;
    uint32_t count;
};

/* Places count too, so that numbers cannot change places unnoticed, and small numbers beside large
 * ones. */
static inline void digest_add(struct digest *digest, double number)
{
    const double weight = 1.0 + 0.01 * (digest->count++ % 101);

    if (isnan(number))
        number = 1234.5;
    else if (isinf(number))
        number = number > 0.0 ? 4321.5 : -4322.5;
    digest->sum += weight * asinh(number);
}

static inline void digest_check(const struct digest *digest, const char *name, double expected)
{
    if (getenv("LULL_TEST_DIGESTS") != NULL)
        printf("%s %.17g\n", name, digest->sum);
    else if (!(fabs(digest->sum - expected) <= 1e-11 * fmax(fabs(expected), 1.0)))
        fail_msg("%s: %.17g, and was %.17g", name, digest->sum, expected);
}

#endif
