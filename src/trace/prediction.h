/*
 * Predicts what could be saved on a recorded rank. Time and power of the GPU are those of its model
 * (core/energy/device_curve.h) at its default power limit: where a rank would draw more on average,
 * the board computes at a lower clock than it is requested, and the recorded times are of that one.
 *
 * Assumed: power settles at once; computation is the model's kernel "training", or what represents
 * it; communication and idle time last as long at the low clock, which is the lowest one that still
 * fills the link; switches themselves cost no energy. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_PREDICTION_H
#define LULL_TRACE_PREDICTION_H

#include <stdbool.h>

#include "core/energy/job_frontier.h"
#include "core/energy/device_curve.h"
#include "core/section/savings_estimate.h"
#include "trace/analysis.h"

/* Ways to lower the clock in gaps; core/section/savings_estimate.h has the rules. */
enum lull_switching {
    LULL_SWITCHING_ALONE,        /* each gap for itself, when it has started */
    LULL_SWITCHING_MERGED,       /* once for several gaps and the computation between them */
    LULL_SWITCHING_FEED_FORWARD, /* ahead of a gap, with perfect foresight */
    LULL_SWITCHING_IDEAL,        /* by a driver that needs no time */
    LULL_SWITCHING_COUNT,
};

#define LULL_PREDICTION_TOLERANCE_RATIO 0.01 /* the slowdown that merging may cause */

/* The frontier of a job: what these slowdowns save, and last what the user's tolerance does. */
enum {
    LULL_PREDICTION_TOLERANCE = LULL_JOB_FRONTIER_BUDGETS,
    LULL_PREDICTION_BUDGETS,
};

/* Savings of a steady point within a slowdown: one clock, or that clock alternating with the next
 * lower one (core/section/duty.h), with gaps lowered ahead of time below it. */
struct lull_prediction_budget {
    double tolerance_ratio;
    double slowdown_ratio; /* of one clock */
    double steady_mhz;
    double steady_j;   /* saved by that clock alone */
    double both_j;     /* saved by it and gaps, >= steady_j */
    double likely_j;   /* saved by the point that is aimed at, with the gaps that are reached */
    double max_j;      /* saved by a point that costs all of the tolerance, with all gaps */
    double cautious_j; /* sure to be saved by a clock that leaves the guard some of the tolerance */
};

/* A clock whose slowdown is at most this share of the tolerance can be proven in reasonable time.
 * On a100-ddp-2ranks, whose iterations scatter, 1000 iterations do not distinguish a slowdown of
 * 0.96 % from 1 %. A clock with 0.81 % is accepted (docs/research/measurements/joint.md). */
#define LULL_PREDICTION_PROVEN_SHARE 0.75
/* The share of the tolerance at which a run aims when it turns between two clocks: the wanted share
 * in core/section/controller/expectation.c. */
#define LULL_PREDICTION_AIMED_SHARE 0.95
/* At most this share of the iterations runs at the highest clocks once the search has settled, to
 * watch what was kept. Of made-up jobs of 60 to 4000 ms per iteration, the settled part is 1 to 11
 * % less slow than the clocks that were kept; likely is half of it. */
#define LULL_PREDICTION_WATCH_SHARE 0.12
/* If iterations scatter by more (standard deviation over mean), proofs may continue to the end of
 * the run, and half of a proof runs at the highest clocks: a made-up job that is evaluated in every
 * 50th iteration saves half of its clock's saving over 1000 iterations. */
#define LULL_PREDICTION_MAX_SCATTER 0.2
#define LULL_PREDICTION_PROOF_SHARE 0.5
/* The share of what perfect foresight saves in gaps that is reached below a steady clock, at the
 * driver's own latency, which varies: 0.31, 0.38 and 0.07 on sampled_rank-0 and -1 and
 * a100-ddp-2ranks (docs/research/measurements/joint.md). */
#define LULL_PREDICTION_GAPS_SHARE 0.35
/* Allowance for the temperature dependence of power. In the simulation, which models it, the saving
 * of one steady clock differs by at most 2 % on the recorded jobs, at the same clock. */
#define LULL_PREDICTION_POWER_RATIO 0.05

/* Switching of one rank's GPU. A negative latency selects that of the model. */
struct lull_prediction_setup {
    const struct lull_device_curve *model; /* NULL: the one whose name the trace has */
    double down_ms;
    double up_ms;
    double tolerance_ratio; /* permitted slowdown of the job */
};

struct lull_prediction {
    const struct lull_device_curve *model;
    bool is_model_assumed; /* the trace names no GPU, or none that is known */
    const char *borrower;  /* the product for which the model stands; null: its own */
    double down_ms;
    double up_ms;
    double high_mhz;
    double low_mhz;
    double link_gbs; /* bandwidth that its communication is assumed to have */
    struct lull_power_levels levels;
    double energy_j; /* the energy at the highest clock throughout */
    struct lull_switchable switchable[LULL_SWITCHING_COUNT];
    double saving_j[LULL_SWITCHING_COUNT];
    struct lull_prediction_budget budgets[LULL_PREDICTION_BUDGETS];
};

/* A GPU when a clock is requested, at its default power limit. */
struct lull_prediction_clock {
    double mhz;
    double speed_ratio; /* of computing, to that at the highest clock; in (0, 1] */
    double compute_w;
    double waiting_w;
};

struct lull_prediction_clocks {
    uint32_t count;
    struct lull_prediction_clock clocks[LULL_DEVICE_CURVE_CLOCKS]; /* the highest first */
};

/* A run's saving once its search has settled, as shares of a job's energy: from what a steady clock
 * saves that leaves room for its proof, less the watch, to what two clocks by turns save that cost
 * all of the tolerance, and all gaps that foresight could lower. */
struct lull_prediction_range {
    double low_ratio;
    double likely_ratio;
    double high_ratio;
};

/* Adds the savings of one rank to those of a job: the slowest rank's slowdown, the lowest clock. */
void lull_prediction_add(const struct lull_prediction_budget *rank,
                         struct lull_prediction_budget *job);

/* energy_j: of the job at its highest clocks; the ratios are 0 unless it is > 0. */
struct lull_prediction_range lull_prediction_range_of(const struct lull_prediction_budget *budget,
                                                      double energy_j);

/* Returns the power at which the model's default limit holds its board, W. */
double lull_predict_limit_w(const struct lull_device_curve *model);

/* Writes all clocks of a model, of which computation may draw at most limit_w, may be INFINITY. */
void lull_predict_clocks(const struct lull_device_curve *model, double limit_w,
                         struct lull_prediction_clocks *clocks_out);

/* The same for a kernel of the model. */
void lull_predict_kernel_clocks(const struct lull_device_curve *model,
                                const struct lull_device_kernel *kernel, double limit_w,
                                struct lull_prediction_clocks *clocks_out);

/* Returns what computation may draw until a rank's mean power is at the limit, W. */
double lull_predict_compute_limit_w(const struct lull_prediction *prediction,
                                    const struct lull_exposure *exposure);

/* Returns the power of a rank at a clock. */
struct lull_power_level lull_predict_level(const struct lull_prediction *prediction,
                                           const struct lull_prediction_clock *clock);

/* Returns the time of a rank whose computation, and what communicates beside it, runs at another
 * speed. */
struct lull_exposure lull_predict_slower(const struct lull_exposure *exposure, double speed_ratio);

/* Sets the model that a product's name ("" unknown) or the setup names, and the latencies. */
void lull_predict_model(const struct lull_prediction_setup *setup, const char *product,
                        struct lull_prediction *prediction);

/* Predicts the savings on one rank from its analysis, which must still have its gaps. Errors:
 * -ENOMEM. */
int lull_predict(const struct lull_prediction_setup *setup, const struct lull_trace *trace,
                 const struct lull_analysis *analysis, struct lull_prediction *prediction_out,
                 struct lull_error *err);

#endif
