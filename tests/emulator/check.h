/*
 * Common parts of the emulator's tests: cmocka's includes, statistics, printed figures.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_EMULATOR_CHECK_H
#define LULL_TESTS_EMULATOR_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S(seconds) ((int64_t)((seconds)*1e9))
#define MS(milliseconds) ((int64_t)((milliseconds)*1e6))

static inline int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Quantile of values, which it sorts. */
static inline double quantile(double *values, size_t count, double q)
{
    qsort(values, count, sizeof(values[0]), compare_doubles);
    return values[(size_t)(q * (double)(count - 1) + 0.5)];
}

static inline double mean(const double *values, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

/* Prints what was reached beside what is wanted, then checks it. */
static inline void check_within(const char *name, double reached, double low, double high)
{
    printf("%s: %.5g (wanted %.5g .. %.5g)\n", name, reached, low, high);
    fflush(stdout);
    assert_true(reached >= low && reached <= high);
}

#endif
