/*
 * The load of a server, from its readings: rates, and requests that have no token yet.
 *
 * A reading's requests in the queue and the batch, with those that are finished, are all that have
 * arrived; the histogram of times to first token counts those that have begun to answer. The
 * difference is pending: in the queue or in prefill.
 *
 * Pure; caller's storage; zero-initialised is empty. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SERVING_SERVER_LOAD_H
#define LULL_CORE_SERVING_SERVER_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/serving/reading.h"

/* What has changed between two readings. Counters that the server lacks are 0. */
struct lull_server_change {
    double seconds;
    double steps;
    double prompt_tokens;
    double output_tokens;
    double arrived; /* requests; not below 0 */
    double finished;
    double first_tokens; /* requests that got theirs */
};

struct lull_server_load {
    bool has_reading;
    struct lull_serving_reading last;
    struct lull_server_change change; /* up to it; all 0 after the first reading */
    double requests;                  /* in queue and batch */
    double pending;
    double arrival_rate; /* requests per second, over some seconds */
    double burst;        /* evidence that it has grown at once; 0: none */
    bool has_burst;      /* it has grown while the pending requests arrived */
    double prompt_rate;  /* tokens per second, over some seconds */
    double output_rate;  /* tokens per second, over some seconds */
    double first_rate;   /* the same of first tokens alone */
    double busy_ratio;   /* share of the last minutes with a request */
    double running;      /* over a second */
    double recent_s;     /* time and steps of the last part of a second */
    double recent_steps;
    double prompt_tokens; /* of one request; 0: none is known */
    double life_s;        /* of one request; 0: none is known */
    bool has_offset;
    double offset;        /* of the difference of counters */
    double seen_arrivals; /* requests, and those of them that found the server idle */
    double seen_woken;
    double seen_prompts; /* requests and tokens that prompt_tokens is made of */
    double seen_prompt_tokens;
};

/* Returns whether the server computes nothing but prompts, as a prefill pool does. */
bool lull_server_load_is_prefill(const struct lull_server_load *load);

/* Returns whether a reading can be used after the last one: its numbers are there and possible. */
bool lull_server_load_accepts(const struct lull_server_load *load,
                              const struct lull_serving_reading *reading);

/* Takes an accepted reading. */
void lull_server_load_take(struct lull_server_load *load,
                           const struct lull_serving_reading *reading);

#endif
