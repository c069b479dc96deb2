/*
 * The oracle estimates the highest possible saving. It simulates a periodic job of compute and one
 * collective on n GPUs in virtual time, with the physics of the emulated node, at every clock of
 * the collective, in three ways:
 *
 * ideal: the clock changes at once and at no cost. real: the device's latencies hold, but they are
 * foreseen perfectly: the lowering is issued early, yet late enough hardly ever to touch compute (1
 * % quantile of one call and settling); the raising is issued so early that all GPUs are back in
 * time in 95 of 100 cases; calls follow one after the other. steady: the whole iteration runs at
 * one clock and nothing is switched.
 *
 * Deterministic. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_ORACLE_H
#define LULL_EMULATOR_ORACLE_H

#include <stdint.h>

#include "base/error.h"
#include "emulator/gpu_model.h"

enum { LULL_ORACLE_CLOCKS = 512 };

struct lull_oracle_job {
    const struct lull_gpu_model *model;
    uint32_t gpus;       /* 1..64 */
    double compute_ms;   /* at fmax, > 0 */
    const char *profile; /* as lull_gpu_model_profile() */
    double bytes;        /* per GPU, >= 0 */
    double link_gbs;     /* > 0 */
    uint32_t channels;   /* >= 1 */
    double tolerance_ratio;
    double heat_w; /* the power whose steady temperature holds throughout; 0: each point's own */
};

/* The means of one iteration; the energy is that of all GPUs together. */
struct lull_oracle_outcome {
    double time_s;
    double energy_j;
    double slowdown_ratio;
    double saving_ratio;
};

/* The three ways in which each clock is tried. */
enum lull_oracle_way {
    LULL_ORACLE_IDEAL,
    LULL_ORACLE_REAL,
    LULL_ORACLE_STEADY,
    LULL_ORACLE_WAYS,
};

struct lull_oracle_point {
    double mhz;
    struct lull_oracle_outcome outcomes[LULL_ORACLE_WAYS];
};

struct lull_oracle_answer {
    double compute_s; /* in the reference run, which keeps the highest clock */
    double transfer_s;
    struct lull_oracle_outcome reference;
    uint32_t count;
    struct lull_oracle_point points[LULL_ORACLE_CLOCKS]; /* the highest clock comes first */
    /* Of each way, the index of the point that saves most within the tolerance; point 0 saves
     * nothing. */
    uint32_t best[LULL_ORACLE_WAYS];
};

/* Fills the answer, which takes some seconds for eight GPUs. Errors: -EINVAL a number is out of its
 * range; -ENOMEM. */
int lull_oracle_ask(const struct lull_oracle_job *job, struct lull_oracle_answer *answer_out,
                    struct lull_error *err);

/* The quantile (0..1) of the time that this many driver calls in a row and the settling of the last
 * one take on a nominal unit, ns. */
int64_t lull_oracle_latency_ns(const struct lull_gpu_model *model, uint32_t calls, uint32_t step,
                               double quantile);

/* Fills in the ratios of an outcome, compared with the reference. */
void lull_oracle_compare(struct lull_oracle_outcome *outcome,
                         const struct lull_oracle_outcome *reference);

#endif
