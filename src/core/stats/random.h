/*
 * Seeded random numbers (xoshiro256**, Blackman and Vigna 2018; seeded by splitmix64): the same
 * sequence on every machine. Pure; caller's storage.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_STATS_RANDOM_H
#define LULL_CORE_STATS_RANDOM_H

#include <stdint.h>

struct lull_random {
    uint64_t state[4];
};

/* The largest seed: JSON readers keep integers of 53 bits exactly. */
#define LULL_SEED_MAX ((UINT64_C(1) << 53) - 1)

/* Returns a seed from 1 to LULL_SEED_MAX for any number. */
static inline uint64_t lull_seed_from(uint64_t number)
{
    return number % LULL_SEED_MAX + 1;
}

void lull_random_init(struct lull_random *random, uint64_t seed);
uint64_t lull_random_next(struct lull_random *random);

/* Uniform in [0, 1). */
double lull_random_uniform(struct lull_random *random);

/* Uniform integer in [0, bound), without bias; bound > 0. */
uint64_t lull_random_below(struct lull_random *random, uint64_t bound);

/* Normal with the given mean and standard deviation (polar method, both halves not kept). */
double lull_random_normal(struct lull_random *random, double mean, double deviation);

#endif
