/*
 * Harm that a lowered clock does to a job that the guard is audited with: the increase of an
 * iteration's length at a point, in this iteration and on average.
 *
 * Points are indices into the clock list, 0 the reference. Caller's storage; one thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BENCH_GUARD_HARM_H
#define LULL_BENCH_GUARD_HARM_H

#include <stdbool.h>
#include <stdint.h>

#include "noise.h"

enum audit_harm_kind {
    AUDIT_HARM_NONE,
    AUDIT_HARM_FLAT,   /* the same at every point from `from_point` on */
    AUDIT_HARM_KNEE,   /* grows from 0 above `from_point` to the mean at the lowest point */
    AUDIT_HARM_EVERY,  /* flat, but all of it in every `every`-th iteration */
    AUDIT_HARM_RANDOM, /* flat, but all of it in one of `every` iterations, drawn by lot */
    AUDIT_HARM_LATE,   /* flat, but only after `after` low iterations in all */
    AUDIT_HARM_IN_ROW, /* flat, but only after `after` low iterations in a row */
    AUDIT_HARM_CARRY,  /* the `after` iterations after each low one are slow, at any clock */
};

struct audit_harm_spec {
    enum audit_harm_kind kind;
    double mean;         /* slowdown of the whole iteration, on average */
    uint32_t from_point; /* the highest clock that harms; 0: every lowered one does */
    uint32_t every;
    uint32_t after;
};

struct audit_harm {
    struct audit_harm_spec spec;
    struct audit_random random;
    uint32_t points;
    uint32_t iteration;
    uint32_t low; /* iterations so far, in all or in a row */
    bool strikes; /* in this iteration */
};

/*
 * none, flat:MEAN[:POINT], knee:MEAN:POINT, every:MEAN:N, random:MEAN:N, late:MEAN:AFTER,
 * in-row:MEAN:AFTER or carry:MEAN:AFTER. False: it is none of them.
 */
bool audit_harm_parse(const char *text, struct audit_harm_spec *spec_out);

void audit_harm_init(struct audit_harm *harm, const struct audit_harm_spec *spec, uint32_t points,
                     uint64_t seed, uint64_t stream);

/* The next iteration begins; was_low: the last one ran at a lowered point. */
void audit_harm_next(struct audit_harm *harm, bool was_low);

/* Slowdown of this iteration at the point. */
double audit_harm_now(const struct audit_harm *harm, uint32_t point);

/* The same with what is drawn by lot replaced by its mean: the truth without noise. */
double audit_harm_expected(const struct audit_harm *harm, uint32_t point);

/* Mean slowdown of a job that stays at the point for ever. */
double audit_harm_lasting(const struct audit_harm *harm, uint32_t point);

#endif
