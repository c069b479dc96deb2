/*
 * The 99 % quantile of up to LULL_UPPER_TAIL_MOST values, exact, from the few largest of them.
 *
 * For latencies per token and the like, where the mean says little. Beyond so many values it is
 * the largest kept one and too high a quantile. Pure; caller's storage; zero-initialised is empty.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_STATS_UPPER_TAIL_H
#define LULL_CORE_STATS_UPPER_TAIL_H

#include <stdint.h>

enum {
    LULL_UPPER_TAIL_KEPT = 8,
    LULL_UPPER_TAIL_MOST = 100 * LULL_UPPER_TAIL_KEPT,
    LULL_UPPER_TAIL_LEAST = 100, /* values from which the quantile is more than the largest */
};

struct lull_upper_tail {
    uint32_t count;
    double largest[LULL_UPPER_TAIL_KEPT]; /* descending */
};

/* A value that is not finite is ignored. */
void lull_upper_tail_add(struct lull_upper_tail *tail, double value);

/* The value that one in a hundred exceeds or equals (nearest rank); NAN when empty. */
double lull_upper_tail_p99(const struct lull_upper_tail *tail);

#endif
