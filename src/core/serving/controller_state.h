/*
 * The state of a controller, and its parts: judge.c counts misses, choose.c chooses a clock by
 * load, controller.c combines both. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SERVING_CONTROLLER_STATE_H
#define LULL_CORE_SERVING_CONTROLLER_STATE_H

#include "core/serving/controller.h"
#include "core/serving/latency_tail.h"
#include "core/serving/miss_bound.h"
#include "core/serving/server_load.h"
#include "core/serving/server_model.h"
#include "core/serving/server_saving.h"
#include "core/serving/step_load.h"
#include "core/stats/allowance.h"

/* One of the two latencies of an objective. */
struct lull_serving_latency {
    double bound_s;
    struct lull_latency_tail tail; /* at the highest clock, relative to... */
    double predicted_s;            /* ...the prediction for an empty queue there */
    double slack_s; /* what lower clocks may have added to a latency at the bound that ends now */
    bool has_histogram;
    int64_t absent_ns; /* since when requests run without a histogram; 0: there is one */
};

enum { LULL_SERVING_LOST_KEPT = 256 };

/* The time that low clocks have cost so far, if a request was always served. */
struct lull_serving_lost {
    double now_s;
    double caught_up_s; /* of it: does not delay a request that arrives now */
    double arrived;     /* requests */
    uint64_t count;     /* readings in the ring */
    struct {
        int64_t time_ns;
        double lost_s;
        double caught_up_s;
        double arrived;
    } kept[LULL_SERVING_LOST_KEPT];
};

/* A choice for a load without danger. */
struct lull_serving_choice {
    uint32_t index; /* of the clock */
    double lost_s;  /* that lower clocks may cost while requests are pending; then it is raised */
};

/* Misses of the last readings, and since the start. */
struct lull_serving_misses {
    double requests;
    double missed;
    double blamed; /* of these: may have met the objective at the highest clock */
};

struct lull_serving_controller {
    struct lull_serving_config config;
    struct lull_server_clock clocks[LULL_SERVING_CLOCKS];
    struct lull_server_model model;
    struct lull_server_load load;
    struct lull_server_demand demand;
    struct lull_step_load step_load; /* of readings of steps */

    /* readings */
    int64_t read_ns;   /* the last usable reading; 0: none */
    int64_t still_ns;  /* since when counters have not grown although requests run; 0: they grow */
    uint32_t usable;   /* usable readings in a row, up to those that end a blind time */
    bool is_new;       /* no clock was chosen since the last reading */
    int64_t idle_ns;   /* since when there is no request; 0: there is one */
    const char *doubt; /* why readings are not usable */

    /* the clock */
    struct lull_server_clock in_force;
    uint32_t requested;   /* index */
    int64_t requested_ns; /* when it was requested */
    int64_t changed_ns;   /* when another clock came into force */

    /* windows for the model */
    struct lull_server_window window;
    int64_t energy_ns; /* of the last sample; 0: none */
    double energy_j;
    double power_w;         /* between the last two samples; NAN: unknown */
    double window_energy_j; /* at the begin of the window */
    bool is_window_mixed;   /* a prompt was being computed then */

    /* latencies and misses */
    struct lull_serving_latency ttft;
    struct lull_serving_latency tpot;
    double slowness; /* longest time of computation at a clock of the last two lives of a request,
                        relative to the highest clock */
    struct lull_serving_lost lost;
    struct lull_serving_misses misses;
    struct lull_miss_bound bound;
    struct lull_allowance allowance; /* of blamed misses */
    double blamed_part;              /* of a miss, not spent yet */

    /* search */
    uint32_t settled; /* index of the clock of the last choice without danger */
    double deepest;   /* lowest clock tried, as the highest clock / it */
    int64_t deepened_ns;
    double deepened_requests;  /* that had been judged by then */
    double forgotten_requests; /* judged before the server's last restart */
    uint32_t limit;            /* index of the lowest clock that may be chosen */
    int64_t limit_until_ns;
    double retreat_s;
    double lost_most_s; /* of the present choice */

    /* results */
    enum lull_serving_mode mode;
    const char *reason;
    struct lull_server_outlook outlook; /* at the clock in force */
    double read_j;                      /* of one GPU, at the last usable reading; NAN: unknown */
    struct lull_server_saving saving;
};

/* ---- judge.c ------------------------------------------------------------------------------- */

void lull_serving_judge_init(struct lull_serving_controller *controller);

/* Counts misses between two readings, and adds the latencies to the tails. `before` is the reading
 * before controller->load.last. */
void lull_serving_judge(struct lull_serving_controller *controller,
                        const struct lull_serving_reading *before);

/* Returns the time that the pending requests need at the highest clock, s. */
double lull_serving_queue_s(const struct lull_serving_controller *controller,
                            const struct lull_server_outlook *highest);

/* Returns the time by which lower clocks have delayed the oldest pending request so far, s: what
 * delayed it when it arrived, and what has been lost since. */
double lull_serving_pending_lost_s(const struct lull_serving_controller *controller);

/* Returns whether the histograms of all judged latencies are there. */
bool lull_serving_is_judged(const struct lull_serving_controller *controller);

/* Returns a sentence on the judged latency that the server does not publish; NULL: it publishes
 * all, or may still do so with its first values. */
const char *lull_serving_find_unjudged(const struct lull_serving_controller *controller);

/* ---- choose.c ------------------------------------------------------------------------------ */

/* Returns whether requests are in danger that only the highest clock can avert. */
bool lull_serving_is_in_danger(const struct lull_serving_controller *controller);

/* Returns the lowest clock, at most `index`, at which the pending requests lose no more time than
 * they may. */
uint32_t lull_serving_serve_queue(const struct lull_serving_controller *controller, uint32_t index);

/* Finds the cheapest choice that is predicted to keep the objective, with a clock that is not lower
 * than `lowest`. False: there is none. */
bool lull_serving_choose(const struct lull_serving_controller *controller, uint32_t lowest,
                         struct lull_serving_choice *choice_out);

/* Returns the index of the clock for an idle server. */
uint32_t lull_serving_choose_parking(const struct lull_serving_controller *controller);

#endif
