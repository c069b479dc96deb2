/*
 * Repeatable randomness of the emulated node: a function of seed and position only, or a small
 * generator that the caller stores. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_NOISE_H
#define LULL_EMULATOR_NOISE_H

#include <math.h>
#include <stdint.h>

/* Mixes 64 bits so that neighbouring inputs give unrelated outputs (splitmix64). */
static inline uint64_t lull_noise_mix(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* Makes a uniform number in (0, 1) of 64 mixed bits. */
static inline double lull_noise_unit(uint64_t bits)
{
    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

/* Returns the next uniform number in (0, 1) of a generator. */
static inline double lull_noise_next(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return lull_noise_unit(lull_noise_mix(*state));
}

/* Makes a standard normal number of two uniform ones (Box and Muller). */
static inline double lull_noise_normal(double u, double w)
{
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * w);
}

/* Makes a standard normal number of 64 mixed bits. */
static inline double lull_noise_normal_of(uint64_t bits)
{
    return lull_noise_normal(lull_noise_unit(bits), lull_noise_unit(lull_noise_mix(bits)));
}

#endif
