/*
 * Step time and power of a server by load and clock, learned from readings.
 *
 * A step of continuous batching takes
 *
 *     host + a + b n + d prefill tokens,
 *
 * n being the sequences that decode. a, b and d have a part that follows the SM clock (fmax / f)
 * and one that follows the bandwidth of memory, as in core/energy/device_curve.h; the host's part
 * and collectives follow neither. A window in which the server was always busy gives one equation:
 * its length is the sum over its steps. Until windows at lower clocks show otherwise, all time
 * follows the SM clock, which is the worst case. Power is
 *
 *     P = B + A (f / fmax) v(f)^2 r,
 *
 * with one A for the time that decodes and one for the time that prefills.
 *
 * The load at another clock follows from Little's law: with R output tokens per second there are
 * R times the step's time sequences in the batch.
 *
 * Pure; caller's storage. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SERVING_SERVER_MODEL_H
#define LULL_CORE_SERVING_SERVER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/energy/device_curve.h"
#include "core/serving/clock_fit.h"

/* A clock, relative to the highest one that may be requested. */
struct lull_server_clock {
    double mhz;
    double compute; /* time of computation, >= 1 */
    double memory;  /* time of memory accesses, >= 1 */
    double dynamic; /* (f / fmax) v^2 */
    double waiting_w;
};

/* curve: NULL: unknown; then all time follows the clock, and power falls with the clock only. */
struct lull_server_clock lull_server_clock_at(const struct lull_device_curve *curve,
                                              double highest_mhz, double mhz);

/* A stretch of time at one clock in which the server was always busy. */
struct lull_server_window {
    double seconds;
    double steps;
    double output_tokens;
    double prompt_tokens;
    double first_tokens; /* of the output tokens */
    double joules;       /* of one GPU; NAN: unknown */
};

/* Returns whether a window computed nothing but prompts, as those of a prefill pool do: each step
 * is full of their tokens, so steps explain no time of their own. */
bool lull_server_window_is_prefill(const struct lull_server_window *window);

struct lull_server_model {
    struct lull_clock_fit time;
    struct lull_clock_fit power;
    double windows;
    bool has_power;
    bool is_known;  /* the product */
    double limit_w; /* that settled power stays below */
};

/* The times of one step, of one decoding sequence and of one prompt token at a clock. */
struct lull_server_times {
    double step_s;
    double sequence_s;
    double prompt_s;
};

/* The load to predict for. */
struct lull_server_demand {
    double running;       /* sequences now */
    double output_rate;   /* tokens per second */
    double prompt_rate;   /* tokens per second */
    double prompt_tokens; /* of a typical request */
    bool is_prefill;      /* nothing is decoded: a request ends with its first token */
    bool is_of_steps;     /* nothing but steps is known; running is 0 while none come */
    double prompt_ratio;  /* of steps: share of time at the highest clock, see step_load.h */
};

/* What a clock means for a load. */
struct lull_server_outlook {
    double decode_s;      /* a step without prefill */
    double step_s;        /* mean time of an output token, prefill included */
    double first_token_s; /* of a typical request that does not wait */
    double prefill_s;     /* per token of prompts, decoding included */
    double busy_ratio;    /* work per time; from 1 on the queue grows without bound */
    double watts;         /* of one GPU */
};

void lull_server_model_init(struct lull_server_model *model, const struct lull_device_curve *curve,
                            double highest_mhz, double lowest_mhz);

void lull_server_model_add(struct lull_server_model *model, const struct lull_server_clock *clock,
                           const struct lull_server_window *window);

struct lull_server_times lull_server_model_times(const struct lull_server_model *model,
                                                 const struct lull_server_clock *clock);

/* Return the dynamic power at a clock of decoding and of prompts, relative to its coefficient. */
double lull_server_model_decoding(const struct lull_server_model *model,
                                  const struct lull_server_clock *clock, double running);
double lull_server_model_prefilling(const struct lull_server_model *model,
                                    const struct lull_server_clock *clock);

struct lull_server_outlook lull_server_model_predict(const struct lull_server_model *model,
                                                     const struct lull_server_clock *clock,
                                                     const struct lull_server_demand *demand);

#endif
