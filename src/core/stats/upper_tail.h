/*
 * High quantiles from the few largest of many values.
 *
 * The 99 % quantile is exact for up to LULL_UPPER_TAIL_MOST values; beyond that many it is the
 * smallest kept one and too high a quantile. Pure; caller's storage; zero-initialised is empty.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_STATS_UPPER_TAIL_H
#define LULL_CORE_STATS_UPPER_TAIL_H

#include <stdint.h>

enum {
    LULL_UPPER_TAIL_KEPT = 32,
    LULL_UPPER_TAIL_MOST = 100 * LULL_UPPER_TAIL_KEPT,
    LULL_UPPER_TAIL_LEAST = 100, /* values from which the quantile is more than the largest */
};

struct lull_upper_tail {
    uint32_t count;
    double largest[LULL_UPPER_TAIL_KEPT]; /* descending */
};

/* A value that is not finite is ignored. */
void lull_upper_tail_add(struct lull_upper_tail *tail, double value);

/* Adds the values of another tail, as if each had been added here. */
void lull_upper_tail_merge(struct lull_upper_tail *tail, const struct lull_upper_tail *other);

/* The value that one in a hundred exceeds or equals (nearest rank); NAN when empty. */
double lull_upper_tail_p99(const struct lull_upper_tail *tail);

/*
 * The value that a share of all values exceeds, share in (0, 1); NAN when empty. Shares too small
 * to have been seen are extrapolated: what is kept, but of few values no more than a third (or
 * eight), is the tail. Beyond its smallest value it is taken to be exponential (Pickands 1975,
 * shape 0), with the mean excess of the others, of many values the largest censored at the second
 * (Epstein and Sobel 1953): one is bound to be a hiccup. Shares larger than the tail's give its
 * smallest value: too high, never too low.
 */
double lull_upper_tail_exceeded(const struct lull_upper_tail *tail, double share);

enum { LULL_RECENT_TAIL_SPAN = 1024 };

/* The tail of the last values: between one and two spans of them. Zero-initialised is empty. */
struct lull_recent_tail {
    struct lull_upper_tail older;
    struct lull_upper_tail newer;
};

void lull_recent_tail_add(struct lull_recent_tail *tail, double value);

/* As lull_upper_tail_exceeded(), of the last values. */
double lull_recent_tail_exceeded(const struct lull_recent_tail *tail, double share);

#endif
