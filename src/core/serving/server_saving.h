/*
 * Estimates the energy that a server would have used at the highest clock for the same requests.
 *
 * A server idles, decodes, or computes prompts: a request without a token is pending then. The time
 * in each of these states at the highest clock follows from the time that it took:
 *
 * - Prompts take the share of their time that the model of the server predicts.
 * - With R output tokens per second, and a share x of the time that computes prompts, Little's law
 *   gives m = R s / (1 - x - R b) decoding requests on average, s being the time of a step and b
 * the part of it that a sequence adds. Of n requests that decode now, each would be there with the
 *   probability r = m / mean of n. So the server decodes for 1 - (1 - r)^n of the rest of the time.
 *
 * The power of each state at the highest clock is fitted to all windows there. What they do not
 * show is predicted from windows at all clocks, whose ends need not be free of prompts or of
 * changes of the clock: times and joules are added up. All times are priced in the end, with the
 * last powers.
 *
 * Pure; caller's storage; zero-initialised is empty; one thread at a time. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_CORE_SERVING_SERVER_SAVING_H
#define LULL_CORE_SERVING_SERVER_SAVING_H

#include <stdbool.h>

#include "core/serving/server_load.h"
#include "core/serving/server_model.h"

enum { LULL_SAVING_SAMPLES = 64 };

enum lull_saving_state {
    LULL_SAVING_IDLE,
    LULL_SAVING_DECODE,
    LULL_SAVING_PREFILL,
    LULL_SAVING_STATES,
};

/* Times and energies of a window. */
struct lull_saving_window {
    double seconds;
    double joules;
    double state_s[LULL_SAVING_STATES];
    double error_s2;  /* variance of the time of prompts */
    double idle_s;    /* idle time times the clock's power while waiting */
    double decode_s;  /* decoding time times its dynamic power */
    double prefill_s; /* the same of prompts */
    double compute_s; /* time multiplied by how slow the clock computes */
};

/* A part of a run that is short enough for one rate of requests. */
struct lull_saving_block {
    double seconds;
    double highest_s; /* at the highest clock */
    double state_s[LULL_SAVING_STATES];
    double prompt_tokens;
    double first_tokens;
    double decoded_tokens;
    uint32_t samples;
    double decoding[LULL_SAVING_SAMPLES]; /* requests */
};

struct lull_server_saving {
    enum lull_saving_state state; /* at the last reading */
    uint32_t idle_readings;       /* in a row, at one clock */

    /* this life of the server */
    double seconds;
    double joules; /* of one GPU */
    double state_s[LULL_SAVING_STATES];
    double prompt_s;                      /* of all prompts, as predicted for the clocks in force */
    double highest_s[LULL_SAVING_STATES]; /* estimates at the highest clock, of closed blocks */
    struct lull_saving_block block;

    /* powers */
    double idle_s;    /* in which power was measured */
    double waiting_j; /* measured then */
    double waiting_s; /* the same time, multiplied by the clock's power while waiting */
    struct lull_saving_window window;
    struct lull_clock_fit power;          /* by clock */
    struct lull_saving_window at_highest; /* a window at the highest clock */
    struct {
        double seconds;
        double products[2][2]; /* of busy time and time of prompts */
        double targets[2];
    } highest;

    /* former lives, and comparisons of lull_server_saving_add() */
    double past_j;
    double past_highest_j;
};

/* The change of a load between its last two readings, with the energy of that time. */
struct lull_saving_change {
    const struct lull_server_model *model;
    const struct lull_server_clock *highest;
    const struct lull_server_clock *in_force;
    const struct lull_server_load *load;
    double joules;   /* of one GPU; NAN: unknown */
    bool is_steady;  /* the clock has not changed */
    bool is_highest; /* and is the highest */
};

void lull_server_saving_take(struct lull_server_saving *saving,
                             const struct lull_saving_change *change);

/* Adds energy for which that at the highest clock is known from elsewhere, J; NAN: unknown. */
void lull_server_saving_add(struct lull_server_saving *saving, double joules, double highest_j);

/* The server has restarted: the model and the load begin again. Both arguments are those from
 * before. */
void lull_server_saving_restart(struct lull_server_saving *saving,
                                const struct lull_server_model *model,
                                const struct lull_server_clock *highest);

/* Returns the share of energy that was saved; NAN: unknown. */
double lull_server_saving_ratio(const struct lull_server_saving *saving,
                                const struct lull_server_model *model,
                                const struct lull_server_clock *highest);

#endif
