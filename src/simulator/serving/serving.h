/*
 * A server of a language model in virtual time: engine, cost of its steps, emulated GPUs behind
 * their slow driver, and what chooses their clocks. An hour of a server takes seconds here.
 *
 * The controller, the engine and the physics are the real ones; the controller sees readings of the
 * engine's statistics once per period, and the GPUs' energy counters. Prefill and decode may be
 * pools of their own, each with an engine, GPUs on a node of their own, and a controller; a request
 * then goes from one to the other with its keys and values, and is judged as its client sees it.
 *
 * Deterministic. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_SERVING_SERVING_H
#define LULL_SIMULATOR_SERVING_SERVING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/serving/controller.h"
#include "emulator/server/arrivals.h"
#include "emulator/server/engine.h"
#include "emulator/server/step.h"

enum { LULL_SERVING_POOLS = 2 };

/* ---- settings ----------------------------------------------------------------------------- */

struct lull_serving_pool {
    struct lull_step_setup setup;
    uint32_t max_sequences;
    uint32_t max_batched_tokens;
    struct lull_objective objective; /* of its controller */
};

enum lull_serving_policy {
    LULL_SERVING_AT_HIGHEST, /* nothing is set */
    LULL_SERVING_AT_CLOCK,   /* one clock is locked */
    LULL_SERVING_AT_LIMIT,   /* one power limit is set */
    LULL_SERVING_UNDER_LULL, /* a controller chooses */
    LULL_SERVING_BY_STEP,    /* a function chooses for each step, and clocks change at once */
};

/* A step that is about to run. */
struct lull_serving_step {
    int64_t now_ns;
    const struct lull_engine *engine; /* which has begun the step */
    const struct lull_step_batch *batch;
    const struct lull_step_cost *cost;
    size_t arrived; /* number of arrivals that have been submitted */
};

/* What may go wrong with the metrics and the server. Zero: nothing does. */
struct lull_serving_faults {
    int64_t lag_ns;       /* an answer arrives so long after it was made */
    double lost_ratio;    /* share of answers that never arrive */
    int64_t lost_from_ns; /* between these times no answer arrives */
    int64_t lost_until_ns;
    int64_t reset_ns;     /* the counters begin again */
    int64_t restart_ns;   /* the server ends, and its requests are lost... */
    int64_t restarted_ns; /* ...until then, as are those that arrive meanwhile */
};

/* A run is given up once it misses more requests, or has used as much energy: then it cannot become
 * the best of a search. */
struct lull_serving_bar {
    uint64_t most_missed;
    double energy_j;
};

struct lull_serving_run {
    uint32_t pool_count; /* 1; or 2: prefill, then decode */
    struct lull_serving_pool pools[LULL_SERVING_POOLS];
    double handover_gbs; /* rate at which keys and values go from one pool to the other */
    const struct lull_server_arrivals *arrivals; /* their period is the run's duration */
    struct lull_objective objective;             /* by which requests are judged */
    enum lull_serving_policy policy;
    double clock_mhz;
    double limit_w;                                                        /* of each GPU */
    double (*choose)(void *context, const struct lull_serving_step *step); /* MHz */
    void *choose_context;
    const struct lull_serving_bar *bar; /* NULL: the run is not given up */
    bool no_quantiles; /* lull_serving_find_quantiles() follows, or they are not needed */
    int64_t period_ns; /* of readings; 0: 100 ms */
    int64_t park_after_ns;
    double wake_s;
    bool is_of_steps; /* controllers see the cadence of steps in place of metrics: cadence.h */
    uint64_t seed;    /* of the driver's latencies and the controller's coins */
    struct lull_serving_faults faults;
    /* Called when a pool's controller has requested a clock (is_effect is false), and when it has
     * taken effect on all GPUs; may be NULL. */
    void (*watch)(void *context, uint32_t pool, int64_t time_ns, double mhz, bool is_effect);
    void *watch_context;
};

/* ---- results ------------------------------------------------------------------------------ */

enum lull_serving_fate {
    LULL_SERVING_OPEN,
    LULL_SERVING_DONE,
    LULL_SERVING_REFUSED, /* longer than the cache */
    LULL_SERVING_LOST,    /* the server restarted */
};

struct lull_serving_request {
    double ttft_s; /* NAN: no token came */
    double tpot_s; /* NAN: fewer than two tokens */
    enum lull_serving_fate fate;
    bool is_missed; /* of one that is done */
};

struct lull_serving_pool_outcome {
    double energy_j; /* of all its GPUs */
    double busy_s;
    double mean_mhz; /* in steps; NAN: there were none */
    uint64_t calls;  /* of the driver */
};

struct lull_serving_outcome {
    struct lull_serving_request *requests; /* [arrivals->count]; the caller frees it */
    bool is_given_up; /* the run ended early, and its figures are those until then */
    uint64_t done;
    uint64_t refused;
    uint64_t lost;
    uint64_t missed; /* of those that are done; of them: */
    uint64_t missed_ttft;
    uint64_t missed_tpot;
    uint64_t prompt_tokens; /* of those that are done */
    uint64_t output_tokens;
    double span_s;   /* until the end of the run's duration, or the last token if that is later */
    double energy_j; /* of all GPUs in this time */
    uint64_t steps;
    uint64_t gaps;      /* times between two tokens of a request */
    uint64_t long_gaps; /* of them, above the bound of the time per output token */
    uint64_t preempted;
    uint64_t calls;    /* of the driver */
    double ttft_p50_s; /* NAN: no value, or no quantiles */
    double ttft_p99_s;
    double tpot_p50_s;
    double tpot_p99_s;
    struct lull_serving_pool_outcome pools[LULL_SERVING_POOLS];
    struct lull_serving_state states[LULL_SERVING_POOLS]; /* of the controllers, at the end */
};

/* Simulates it. Errors: -EINVAL the weights do not fit; -ENOMEM. */
int lull_serving_simulate(const struct lull_serving_run *run,
                          struct lull_serving_outcome *outcome_out, struct lull_error *err);

/* Finds the quantiles of an outcome with so many requests. -ENOMEM. */
int lull_serving_find_quantiles(struct lull_serving_outcome *outcome, size_t count,
                                struct lull_error *err);

/* Writes the clocks that a controller of this GPU model may request, from the highest to the
 * lowest: at most LULL_SERVING_CLOCKS, evenly spread. Returns their number. */
uint32_t lull_serving_list_clocks(const struct lull_gpu_model *model,
                                  double clocks_mhz_out[LULL_SERVING_CLOCKS]);

/* Share of the requests that were done and missed the objective; NAN: none was done. */
double lull_serving_missed_ratio(const struct lull_serving_outcome *outcome);

#endif
