/*
 * A rhythm: iterations whose length repeats with a period, as where every eighth one evaluates.
 *
 * A period explains them where the mean of the other
 * iterations of the same phase predicts an iteration better than the mean of all others does: the
 * leave-one-out error (Stone 1974, "Cross-validatory choice and assessment of statistical
 * predictions"). The time that a rhythm adds is subtracted from later iterations. It is known
 * before they run, so pairs in random order stay unbiased even if the rhythm is wrong: it can only
 * add noise.
 *
 * Pure; caller's storage; zero-initialised is empty. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_STATS_RHYTHM_H
#define LULL_CORE_STATS_RHYTHM_H

#include <stdint.h>

/* The longest period searched for, and the number of iterations kept. */
enum { LULL_RHYTHM_MAX = 32, LULL_RHYTHM_MEMORY = 128 };

struct lull_rhythm {
    uint32_t period;                   /* 0: there is none */
    double excess_ms[LULL_RHYTHM_MAX]; /* by phase, over the mean of all phases */
};

/* The last iterations at the reference, in no order. */
struct lull_rhythm_memory {
    uint64_t count; /* so far */
    uint64_t iteration[LULL_RHYTHM_MEMORY];
    double ms[LULL_RHYTHM_MEMORY];
};

/* Iteration number `iteration` has taken ms. */
void lull_rhythm_remember(struct lull_rhythm_memory *memory, uint64_t iteration, double ms);

/* Finds the rhythm of the kept iterations; none if they hardly differ. O(memory * longest
 * period). */
struct lull_rhythm lull_rhythm_find(const struct lull_rhythm_memory *memory);

/* Returns the excess of the mean of the kept iterations over their median, relative to the median.
 * A rhythm or stalls make it large. 0: there are none. */
double lull_rhythm_unevenness(const struct lull_rhythm_memory *memory);

/* The length of an iteration, ms > 0, without the rhythm's contribution. */
double lull_rhythm_even_ms(const struct lull_rhythm *rhythm, uint64_t iteration, double ms);

#endif
