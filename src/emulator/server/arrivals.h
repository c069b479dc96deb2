/*
 * Requests that arrive at a server: drawn at random, or those of a trace at another rate. Only the
 * rate of a trace changes (its time axis is compressed or stretched); the lengths of requests stay.
 *
 * simulator/serving/arrivals_file.h reads traces. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_SERVER_ARRIVALS_H
#define LULL_EMULATOR_SERVER_ARRIVALS_H

#include <stddef.h>
#include <stdint.h>

struct lull_server_arrival {
    int64_t time_ns;        /* from 0 */
    uint32_t prompt_tokens; /* > 0 */
    uint32_t output_tokens; /* > 0 */
};

/* In the order of time. Begin with {0}; free with lull_server_arrivals_fini. */
struct lull_server_arrivals {
    struct lull_server_arrival *items;
    size_t count;
    int64_t period_ns; /* of a trace: after this time it repeats; > the last time */
};

void lull_server_arrivals_fini(struct lull_server_arrivals *arrivals);

/* Adds one at the end. -ENOMEM: nothing has changed. */
int lull_server_arrivals_add(struct lull_server_arrivals *arrivals,
                             const struct lull_server_arrival *arrival);

/* Requests per second of a trace. */
double lull_server_arrivals_rate(const struct lull_server_arrivals *trace);

/* Selects a part of a trace. */
struct lull_server_arrivals_part {
    double rate_per_s;   /* mean rate of the whole trace after scaling, > 0 */
    int64_t duration_ns; /* of the result, > 0; the trace is repeated if it is shorter */
    double start_ratio;  /* where in the trace it begins, 0..1 */
};

/* Fills in an empty list from a trace with a period. -ENOMEM. */
int lull_server_arrivals_scale(const struct lull_server_arrivals *trace,
                               const struct lull_server_arrivals_part *part,
                               struct lull_server_arrivals *arrivals_out);

/* A Poisson process whose requests have exponentially distributed lengths of at least one token,
 * at most eight times the mean. */
struct lull_server_arrivals_poisson {
    double rate_per_s;    /* > 0 */
    int64_t duration_ns;  /* > 0 */
    double prompt_tokens; /* means, >= 1 */
    double output_tokens;
    uint64_t seed;
};

/* Fills in an empty list. -ENOMEM. */
int lull_server_arrivals_draw(const struct lull_server_arrivals_poisson *poisson,
                              struct lull_server_arrivals *arrivals_out);

#endif
