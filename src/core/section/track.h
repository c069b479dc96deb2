/*
 * Track: one rank's stream of calls, with its sections and their times as far as known.
 *
 * The outermost calls of one thread are the symbols of the iteration finder. Once the period is
 * known, the track learns from a few of them; two or three periods of the same calls may turn out
 * to be one iteration, distinguished by the computation between them. Then it merges neighbouring
 * calls with almost no computation between them into sections, and forecasts their starts and ends.
 * An iteration is counted at the beginning of the call with the longest computation before it, so
 * that no section reaches across the boundary of two iterations.
 *
 * Pure; create/destroy; one thread at a time. Times: int64_t ns of the caller's monotonic clock.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_TRACK_H
#define LULL_CORE_SECTION_TRACK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/section/call.h"
#include "core/stats/moments.h"
#include "core/stats/quantile.h"

enum {
    LULL_TRACK_LEARN_ITERATIONS = 6, /* periods observed before sections are formed */
    LULL_TRACK_MAX_SECTIONS = 64,    /* the longest are kept */
};

struct lull_section {
    uint64_t signature; /* joined over its calls */
    uint64_t class; /* the same without places (call.h): gaps of one class differ in nothing else */
    uint32_t place; /* of a gap, from 1; 0: a run of calls */
    uint32_t first; /* position of its first call, counted from the iteration's boundary */
    uint32_t calls; /* consecutive calls in it */
    uint16_t operation; /* of its longest call */
    uint64_t bytes;     /* payload of all its calls */
    uint32_t ranks;
    uint32_t name;
    bool is_cautious;                   /* one of its calls may be computation */
    struct lull_moments length_ms;      /* begin of its first to end of its last call */
    struct lull_moments exposed_ms;     /* within its calls: the time that computation waits */
    struct lull_quantile recent_length; /* the last lengths, from which the next one is forecast */
    struct lull_quantile recent_gap;    /* from the end of the section before to its start, ms, as
                                         * if never slowed */
    double stretch_ms;                  /* the time that lowered clocks add to that */
};

enum lull_track_phase {
    LULL_TRACK_SEARCHING, /* no iteration is known */
    LULL_TRACK_LEARNING,  /* the iteration is known, its sections are not yet */
    LULL_TRACK_KNOWN,     /* the sections are known */
};

/* The changes by one call. */
struct lull_track_note {
    bool became_known;     /* sections have just been formed */
    bool deviated;         /* the sequence broke: everything but the totals is unknown again */
    bool iteration_ended;  /* this call begins the next iteration */
    double iteration_ms;   /* length of the ended one; 0 for the first boundary */
    int32_t begun_section; /* index of the section that starts here; -1: none */
    int32_t ended_section; /* index of the section that ends here; -1: none */
};

/* Totals over the whole life, deviations included. */
struct lull_track_totals {
    uint64_t calls;
    double communication_ms; /* time inside outermost calls */
    int64_t first_ns;
    int64_t last_ns;
};

struct lull_track;

/*
 * joins_rounds: the rank computes between its calls, so that the time there distinguishes rounds;
 * false: the calls only enqueue, and that time has no meaning. null: out of memory.
 */
struct lull_track *lull_track_create(bool joins_rounds);
void lull_track_destroy(struct lull_track *track);

/* Sets the steady point at which computation runs from now on; 0: the reference. The time that a
 * point adds is assumed to be proportional to it until it has been measured. */
void lull_track_set_steady(struct lull_track *track, uint32_t point);

/* Takes the next edge; calls inside a call only count its depth. */
struct lull_track_note lull_track_take(struct lull_track *track, const struct lull_call *call);

enum lull_track_phase lull_track_phase(const struct lull_track *track);

/* Iterations since the sections became known; the current one has this number. */
uint64_t lull_track_iteration(const struct lull_track *track);

/* Begin of the current iteration; 0 before the first boundary since the sections became known. */
int64_t lull_track_boundary_ns(const struct lull_track *track);

/* Calls per iteration; 0 while searching. */
uint32_t lull_track_period(const struct lull_track *track);

/* Sections in the order of the iteration; valid until the next call of lull_track_take. */
const struct lull_section *lull_track_sections(const struct lull_track *track, uint32_t *count_out);

/* Iteration times of this track while its sections are known, ms. */
const struct lull_moments *lull_track_iteration_ms(const struct lull_track *track);

void lull_track_totals(const struct lull_track *track, struct lull_track_totals *totals_out);

#endif
