/*
 * Idle phases of one GPU: stretches in which its rank reports nothing and no kernel runs, such as
 * the rollouts that a trainer of reinforcement learning waits for. They need not repeat. The GPU
 * goes to its lowest clock for the rest of a phase, and back with the first sign of work.
 *
 * Work shows in the events of the rank, or in a reading of the GPU: utilisation, or more power than
 * in the phase so far. Before the first sign has been seen and the clock has risen, kernels run at
 * the lowest clock. That is the cost of a raising. What it may be on average is bounded: each
 * second of the run earns `rate`, each raising spends what it has cost, from the middle of the time
 * in which the work may have begun, and with less than nothing left no phase is lowered: a run
 * loses at most `rate` of its time and one raising.
 *
 * A phase is lowered once it has lasted for a second, and as long again as the costs of twenty
 * raisings is expected to remain: on average over the last phases that lasted longer than this one
 * so far; without one, as long as it has lasted.
 *
 * Without readings nothing is lowered, and what is low is raised.
 *
 * Pure; caller's storage; one thread. Source: none.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_IDLE_PHASE_H
#define LULL_CORE_SECTION_IDLE_PHASE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats/moments.h"

enum { LULL_IDLE_PHASES_KEPT = 16 };

/* Share of the run's time that raisings may cost. */
#define LULL_IDLE_PHASE_RATE 0.002

/* A GPU is read for signs of work after this time without an event. */
#define LULL_IDLE_PHASE_QUIET_NS INT64_C(500000000)

struct lull_idle_phase {
    double rate;         /* of the time, that raisings may cost */
    double lowest_ratio; /* the lowest clock by the highest, [0, 1] */
    int64_t start_ns;    /* from which on time is earned */
    int64_t begin_ns;    /* of the present phase: the last sign of work */
    int64_t reading_ns;  /* the last reading without work in this phase; 0: there was none */
    bool is_low;
    int64_t low_ns;     /* since then it is low */
    int64_t awaited_ns; /* the work that is to be paid for began about then; 0: nothing is */
    double spent_s;
    double cost_s;         /* mean of the raisings so far, or a guess before the first */
    uint32_t length_count; /* phases of a second or more so far; the last ones are kept */
    double lengths_s[LULL_IDLE_PHASES_KEPT];
    struct lull_moments idle_w; /* in this phase, before it was lowered */
    struct lull_moments low_w;  /* and since */
    uint32_t phases;            /* that were lowered... */
    double low_s;               /* ...for how long in total... */
    double saved_j;             /* ...and what that saved, as far as power was read */
};

/* rate: in [0, 1); lowest_ratio: in (0, 1]. */
void lull_idle_phase_init(struct lull_idle_phase *phase, double rate, double lowest_ratio,
                          int64_t now_ns);

/* The rank has reported something. */
void lull_idle_phase_take_event(struct lull_idle_phase *phase, int64_t time_ns);

/* The GPU was read. is_busy: a kernel ran; power_w: NAN if it is not known. */
void lull_idle_phase_take_reading(struct lull_idle_phase *phase, int64_t time_ns, bool is_busy,
                                  double power_w);

/* The clock that was raised last follows since then. */
void lull_idle_phase_take_raised(struct lull_idle_phase *phase, int64_t effect_ns);

/* Returns whether the GPU is to be at its lowest clock now. */
bool lull_idle_phase_poll(struct lull_idle_phase *phase, int64_t now_ns);

/* Something else has raised the GPU, or takes its clock over. */
void lull_idle_phase_stop(struct lull_idle_phase *phase, int64_t now_ns);

#endif
