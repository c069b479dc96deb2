/*
 * What could be saved at best: a periodic job of compute and one collective on n GPUs, simulated in
 * virtual time by the same physics as the emulated node, at every clock of the collective.
 *
 * ideal: the clock changes at once and for nothing. real: with the device's latencies and perfect
 * foresight: the lowering is issued so early that it hardly ever touches compute (1 % quantile of
 * one call and settling), the raising so early that all GPUs are back in time in 95 of 100 cases,
 * calls one after the other. steady: one clock for the whole iteration, no switching.
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
    double heat_w; /* power whose steady temperature holds throughout; 0: each point's own */
};

/* Means of one iteration; energy of all GPUs together. */
struct lull_oracle_outcome {
    double time_s;
    double energy_j;
    double slowdown_ratio;
    double saving_ratio;
};

struct lull_oracle_point {
    double mhz;
    struct lull_oracle_outcome ideal;
    struct lull_oracle_outcome real;
    struct lull_oracle_outcome steady;
};

struct lull_oracle_answer {
    double compute_s; /* of the reference: everything at the highest clock */
    double transfer_s;
    struct lull_oracle_outcome reference;
    uint32_t count;
    struct lull_oracle_point points[LULL_ORACLE_CLOCKS]; /* highest clock first */
    /* Of the points within the tolerance, those that save most; 0, the highest, saves nothing. */
    uint32_t best_ideal;
    uint32_t best_real;
    uint32_t best_steady;
};

/* Errors: -EINVAL a number out of range; -ENOMEM. Takes some seconds for eight GPUs. */
int lull_oracle_ask(const struct lull_oracle_job *job, struct lull_oracle_answer *answer_out,
                    struct lull_error *err);

/* Quantile of so many driver calls one after the other and the settling of the last, at a nominal
 * unit. */
int64_t lull_oracle_latency_ns(const struct lull_gpu_model *model, uint32_t calls, uint32_t step,
                               double quantile);

/* Fills in the ratios. */
void lull_oracle_compare(struct lull_oracle_outcome *outcome,
                         const struct lull_oracle_outcome *reference);

#endif
