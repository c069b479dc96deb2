/*
 * What could be saved at best in a play, in virtual time with the physics of the emulated node.
 *
 * A gap is a time without a compute kernel on a GPU. ideal: each gap runs at the clock that is best
 * for it, all else at the highest; switching takes no time. real: the same with the driver's
 * latencies and perfect foresight: a lowering is asked for so early that it hardly ever touches
 * compute (1 % quantile of one call and settling), the raising so early that the GPUs that wait for
 * each other are back in all but a share of the cases (late_ratio); calls of all GPUs queue in the
 * node's driver, which is foreseen (oracle_queue.h); gaps that do not pay stay at the highest
 * clock. It is no proven optimum: clocks are swept as if each GPU had a driver of its own, and then
 * played with the one there is; ranks of a recorded play, which wait for nobody, begin all at once
 * or evenly over a period, whichever saves more. steady: one clock all the time.
 *
 * The clock of a gap is the one that costs least energy from its begin to that of the next gap,
 * among those that make this time longer by no more than the tolerance; all gaps are swept at once,
 * clock by clock. Deterministic. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_ORACLE_PLAY_H
#define LULL_EMULATOR_ORACLE_PLAY_H

#include "emulator/oracle.h"
#include "emulator/player/play.h"

struct lull_oracle_play_question {
    const struct lull_play *play; /* finished */
    const struct lull_gpu_model *model;
    double call_ms; /* every driver call takes so long; below 0, and the next too: the model's */
    double settle_ms;
    double tolerance_ratio;
    double late_ratio; /* of raisings that may be late; 0: one in twenty */
    /* Of iterations, those in which one may be: overrules late_ratio; 0: it stands. */
    double late_iterations_ratio;
    double heat_w;   /* power whose steady temperature holds throughout; 0: each run's own */
    uint32_t stride; /* every so many clocks is tried, >= 1 */
};

struct lull_oracle_play_answer {
    double period_s;        /* of the play, at the highest clock */
    double gap_ratio;       /* share of the time that gaps take, mean over the ranks */
    uint32_t gaps;          /* of all ranks in a period */
    uint32_t ideal_lowered; /* gaps that run below the highest clock */
    uint32_t real_lowered;
    double steady_mhz;
    struct lull_oracle_outcome reference; /* of a period, energy of all GPUs together */
    struct lull_oracle_outcome ideal;
    struct lull_oracle_outcome real;
    struct lull_oracle_outcome steady;
};

/* Errors: -EINVAL a number out of range; -EDEADLK as lull_play_sim_run(); -ENOMEM. */
int lull_oracle_ask_play(const struct lull_oracle_play_question *question,
                         struct lull_oracle_play_answer *answer_out, struct lull_error *err);

#endif
