/*
 * The noise of iteration times that the guard is audited with: one factor per iteration. It shares
 * no code with the tests' jobs or with core/stats/random.h, so that a mistake there shows here.
 *
 * Random numbers: xoshiro256++ (Blackman and Vigna 2021), seeded by splitmix64 from a seed and the
 * number of a stream. Caller's storage; one thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BENCH_GUARD_NOISE_H
#define LULL_BENCH_GUARD_NOISE_H

#include <stdbool.h>
#include <stdint.h>

struct audit_random {
    uint64_t state[4];
    double spare; /* the second normal number of a pair */
    bool has_spare;
};

void audit_random_init(struct audit_random *random, uint64_t seed, uint64_t stream);

/* Uniform in [0, 1). */
double audit_random_uniform(struct audit_random *random);

/* Normal with mean 0 and deviation 1. */
double audit_random_normal(struct audit_random *random);

/* NAME:NUMBER:NUMBER..., a name and up to three numbers; how many there were, or -1: not so. */
int audit_parse(const char *text, char name_out[16], double numbers_out[3]);

enum audit_noise_kind {
    AUDIT_NOISE_GAUSS,
    AUDIT_NOISE_AR1,       /* the deviation is that of a long run; `rho` from one to the next */
    AUDIT_NOISE_T3,        /* Student's t with 3 degrees of freedom, scaled to the deviation */
    AUDIT_NOISE_LOGNORMAL, /* skewed to the right, scaled to the deviation */
    AUDIT_NOISE_STALLS,    /* a share of the iterations takes 5 to 35 % longer */
    AUDIT_NOISE_DRIFT,     /* 1 % per 100 iterations, up for 1000 of them and down again */
    AUDIT_NOISE_REGIMES,  /* changes between two levels 3 % apart, every 60 iterations on average */
    AUDIT_NOISE_PERIODIC, /* `long_ones` of every `period` iterations take 5 % longer */
    AUDIT_NOISE_WARM_UP,  /* `size` longer at first, which fades by 1/e every `period` iterations */
    AUDIT_NOISE_TREND,    /* longer by `size` per 1000 iterations; negative: shorter */
    AUDIT_NOISE_PARETO,   /* Pareto's with the exponent `size`, over 2, scaled to the deviation */
    AUDIT_NOISE_RHYTHM,   /* every `period`-th iteration takes `size` times as long */
};

struct audit_noise_spec {
    enum audit_noise_kind kind;
    double deviation; /* of the independent part; relative to an iteration */
    double rho;
    double share;
    double size;
    uint32_t long_ones;
    uint32_t period;
};

struct audit_noise {
    struct audit_noise_spec spec;
    struct audit_random random;
    double level;     /* of AR(1), of the regime */
    uint32_t phase;   /* of what is periodic */
    uint32_t counted; /* iterations */
};

/*
 * gauss:D, ar1:RHO:D, t3:D, lognormal:D, stalls:SHARE:D, drift:D, regimes:D, periodic:OF:EVERY:D,
 * warm-up:SIZE:ITERATIONS:D, trend:SIZE:D, pareto:EXPONENT:D or rhythm:TIMES:EVERY:D, where D is
 * the deviation. False: it is none of them.
 */
bool audit_noise_parse(const char *text, struct audit_noise_spec *spec_out);

void audit_noise_init(struct audit_noise *noise, const struct audit_noise_spec *spec, uint64_t seed,
                      uint64_t stream);

/* By how much the next iteration takes longer than planned: a factor around 1, at least 0.3. */
double audit_noise_next(struct audit_noise *noise);

#endif
