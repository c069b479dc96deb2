/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/random.h"

#include <assert.h>
#include <math.h>

static uint64_t rotate_left(uint64_t value, unsigned int bits)
{
    return (value << bits) | (value >> (64 - bits));
}

/* splitmix64: turns any seed, also 0, into well-mixed state. */
static uint64_t split_mix(uint64_t *seed)
{
    uint64_t value = *seed += UINT64_C(0x9e3779b97f4a7c15);

    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

void lull_random_init(struct lull_random *random, uint64_t seed)
{
    for (unsigned int i = 0; i < 4; i++)
        random->state[i] = split_mix(&seed);
}

uint64_t lull_random_next(struct lull_random *random)
{
    uint64_t *const s = random->state;
    const uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    const uint64_t shifted = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

double lull_random_uniform(struct lull_random *random)
{
    return (double)(lull_random_next(random) >> 11) * 0x1p-53;
}

uint64_t lull_random_below(struct lull_random *random, uint64_t bound)
{
    uint64_t value;

    assert(bound > 0);
    /* 2^64 mod bound values at the low end would favour small results: draw again. */
    const uint64_t unfair = (UINT64_MAX - bound + 1) % bound;
    do
        value = lull_random_next(random);
    while (value < unfair);
    return value % bound;
}

double lull_random_normal(struct lull_random *random, double mean, double deviation)
{
    double x, y, square;

    do {
        x = 2.0 * lull_random_uniform(random) - 1.0;
        y = 2.0 * lull_random_uniform(random) - 1.0;
        square = x * x + y * y;
    } while (square >= 1.0 || square <= 0.0);
    return mean + deviation * x * sqrt(-2.0 * log(square) / square);
}
