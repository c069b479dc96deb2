/*
 * Chooses the clock of a server's GPUs by load, under a latency objective.
 *
 * The caller passes in readings of the server's metrics, and of the GPUs' energy, about once per
 * control period, and polls for the clock. All GPUs of the server get the same clock: a step of a
 * tensor-parallel server is as fast as its slowest GPU.
 *
 * Promise: of all requests judged so far, the expected share that misses the objective because of
 * lower clocks is less than (1 - share) / 2, at 95 % confidence over all times at which one looks.
 * Counted is every request that a histogram shows above the bound (that of the last bucket within
 * it) and that the highest clock may have served in time: a first token comes at most as much later
 * as the time that lower clocks have left undone since no request was pending, a token at most by
 * the ratio of the clocks within two lives of a request. Misses beyond that are not the clock's.
 * Of a server of which only steps are known (cadence.h), each step counts as a request.
 * A histogram of upper bounds (is_upper) shows no miss that is certain: then each one within two
 * lives of a lower clock counts, so the promise is hardly ever proven. Clocks are chosen by the
 * estimate beside it (likely_tpot). miss_bound.h has the proof; docs/research/guard.md states what
 * it leaves open. Without a reading the clock is the highest. Without a histogram of the judged
 * latency no clock is lowered, except that of an idle server.
 *
 * Pure; caller's storage; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SERVING_CONTROLLER_H
#define LULL_CORE_SERVING_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/energy/device_curve.h"
#include "core/serving/objective.h"
#include "core/serving/reading.h"

enum { LULL_SERVING_CLOCKS = 64 };

struct lull_serving_config {
    struct lull_objective objective;
    uint32_t clock_count;                   /* 1..LULL_SERVING_CLOCKS */
    double clocks_mhz[LULL_SERVING_CLOCKS]; /* that may be requested, the highest first */
    const struct lull_device_curve *curve;  /* of the GPUs; NULL: unknown */
    uint32_t gpu_count;
    int64_t period_ns;     /* distance of readings at first; typically 100 ms */
    int64_t latency_ns;    /* from a request until all GPUs run at the clock, p99 */
    int64_t park_after_ns; /* idle time after which the clock falls to the lowest one */
    double wake_s;         /* what the first token after an idle time may pay; INFINITY: no bound */
    uint64_t seed;         /* of the coins that choose blocks at the highest clock */
};

enum lull_serving_mode {
    LULL_SERVING_BLIND,    /* no usable reading, or a latency cannot be judged: the highest clock */
    LULL_SERVING_LEARNING, /* the highest clock, until the server's speed is known */
    LULL_SERVING_TESTING,  /* a clock by load whose misses are being counted */
    LULL_SERVING_PROVEN,   /* the same; the promise is proven for the present choice */
    LULL_SERVING_RAISED,   /* a higher clock: the objective is in danger */
    LULL_SERVING_IDLE,     /* no request: parked */
};

struct lull_serving_state {
    enum lull_serving_mode mode;
    const char *reason; /* one sentence that explains the mode */
    double clock_mhz;
    double requests;           /* that were judged */
    double missed_ratio;       /* of them; NAN: none was judged */
    double missed_bound_ratio; /* upper 95 % bound of what the clocks have added; NAN: none yet */
    double predicted_ttft_s;   /* at the present clock and forecast load; NAN: unknown */
    double predicted_tpot_s;
    double saved_ratio; /* estimated energy saved against the highest clock; NAN: unknown */
};

struct lull_serving_controller;

/* Creates one; it copies the config. NULL: no memory. */
struct lull_serving_controller *
lull_serving_controller_create(const struct lull_serving_config *config);
void lull_serving_controller_destroy(
    struct lull_serving_controller *controller); /* NULL is allowed */

/* Readings come at this distance from now on: pages of a slow server are read less often. */
void lull_serving_controller_set_period(struct lull_serving_controller *controller,
                                        int64_t period_ns);

/* Takes a reading. Readings come in the order of time. */
void lull_serving_controller_take(struct lull_serving_controller *controller,
                                  const struct lull_serving_reading *reading);

/* Takes the energy of all GPUs together since any fixed time, J; NAN: it is unknown. */
void lull_serving_controller_take_energy(struct lull_serving_controller *controller,
                                         int64_t time_ns, double joules);

/* The clock has taken effect on all GPUs, or another program or a limit holds another one. */
void lull_serving_controller_take_clock(struct lull_serving_controller *controller, int64_t time_ns,
                                        double mhz);

/* Returns the clock to request now, MHz: one of clocks_mhz. Readings older than a few periods
 * count as missing. */
double lull_serving_controller_poll(struct lull_serving_controller *controller, int64_t now_ns);

void lull_serving_controller_state(const struct lull_serving_controller *controller,
                                   struct lull_serving_state *state_out);

#endif
