/*
 * The oracle of a play estimates the highest possible saving, in virtual time with the physics of
 * the emulated node.
 *
 * A gap is a time without a compute kernel on a GPU. ideal: each gap runs at the clock that is best
 * for it and all else at the highest; switching takes no time. real: the driver's latencies hold,
 * but are foreseen perfectly: a lowering is requested early, yet late enough hardly ever to touch
 * compute (1 % quantile of one call and settling); the raising is requested so early that the GPUs
 * that wait for each other are back in all but a share of the cases (late_ratio). The calls of all
 * GPUs queue in the node's driver, which is foreseen too (oracle_queue.h), and gaps that do not pay
 * stay at the highest clock. This is no proven optimum: clocks are swept as if each GPU had a
 * driver of its own, and then played with the one there is; the ranks of a recorded play, which do
 * not wait for each other, begin all at once or evenly over a period, whichever saves more. steady:
 * one clock holds all the time. slack: each rank that waits for later ones runs at the clock that
 * saves most without making the play longer, and all others at the highest. joint: gaps as in real,
 * on top of each steady clock, and ranks that wait lower than that; the best of all that stay
 * within the tolerance; ranks of a recorded play do not wait for each other, so each may have a
 * steady clock of its own. The slowdown is that of the rank that loses most. What is not
 * enumerated: clocks of two ranks that are harmless together though each alone is not, beyond all
 * waiting ranks lower by one or two; clocks of gaps between the strides.
 *
 * The clock of a gap is the one that takes least energy from the begin of this gap to the begin of
 * the next, among those that make this time longer by no more than the tolerance. All gaps are
 * swept at once, clock by clock. Deterministic. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_ORACLE_PLAY_H
#define LULL_EMULATOR_ORACLE_PLAY_H

#include "emulator/oracle.h"
#include "emulator/player/play.h"

struct lull_oracle_play_question {
    const struct lull_play *play; /* finished */
    const struct lull_gpu_model *model;
    double call_ms;   /* time of every driver call; below 0: the model decides both */
    double settle_ms; /* time that every clock takes to settle */
    double tolerance_ratio;
    double late_ratio; /* share of the raisings that may be late; 0: one in twenty */
    /* Share of the iterations in which a raising may be late. It
     * overrides late_ratio unless it is 0. */
    double late_iterations_ratio;
    double heat_w;   /* the power whose steady temperature holds throughout; 0: each run's own */
    uint32_t stride; /* only every stride-th clock is tried, >= 1 */
    /* Called with context at every beginning of a rank's period: in which run of the play, from 1,
     * and in which of its periods, from 1. NULL: no callback. */
    void (*watch)(void *context, uint32_t run, uint64_t period);
    void *watch_context;
};

struct lull_oracle_play_answer {
    double period_s;        /* length of a period at the highest clock */
    double gap_ratio;       /* share of the time in gaps, mean over the ranks */
    uint32_t gaps;          /* number of gaps of all ranks in a period */
    uint32_t ideal_lowered; /* number of gaps that run below the highest clock */
    uint32_t real_lowered;
    double steady_mhz;
    double joint_mhz; /* the steady clock below which gaps are lowered further */
    double joint_rank_mhz[LULL_PLAY_RANKS]; /* the clock of each rank: lower where it waits */
    struct lull_oracle_outcome reference;   /* means of a period; the energy is that of all GPUs */
    struct lull_oracle_outcome ideal;
    struct lull_oracle_outcome real;
    struct lull_oracle_outcome steady;
    struct lull_oracle_outcome slack;
    struct lull_oracle_outcome joint;
};

/* Fills the answer. Errors: -EINVAL a number is out of its range; -EDEADLK as lull_play_sim_run();
 * -ENOMEM. */
int lull_oracle_ask_play(const struct lull_oracle_play_question *question,
                         struct lull_oracle_play_answer *answer_out, struct lull_error *err);

#endif
