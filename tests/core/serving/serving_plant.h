/*
 * A small server with continuous batching, for tests of the controller. It shares no code with the
 * emulator: steps take host + (a + b n) s + d tokens s', each s with its own share of memory time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_SERVING_PLANT_H
#define LULL_TESTS_SERVING_PLANT_H

#include "core/serving/controller.h"
#include "core/stats/random.h"

struct plant_request {
    double arrival_s;
    double prompt_tokens;
    double output_tokens;
    double ttft_s; /* of a run: NAN: it has no first token */
    double tpot_s; /* NAN: it is not finished, or has one token */
};

struct plant_config {
    const struct lull_device_curve *curve;
    double host_s;
    double step_s;     /* a */
    double sequence_s; /* b */
    double prompt_s;   /* d */
    double decode_memory_ratio;
    double prefill_memory_ratio;
    double base_w;
    double decode_w;
    double prefill_w;
    double budget_tokens;
    double latency_s; /* of a clock change */
    double period_s;
};

/* Histograms that a server may publish when requests end. */
struct plant_ends {
    struct lull_serving_histogram queue;
    struct lull_serving_histogram prefill;
    struct lull_serving_histogram decode;
    struct lull_serving_histogram answer; /* tokens */
};

/* Changes a reading before the controller takes it. */
typedef void plant_change_fn(void *changer, const struct plant_ends *ends,
                             struct lull_serving_reading *reading);

/* What may go wrong between server and controller. */
struct plant_faults {
    double vanish_from_s; /* no readings in between; 0: never */
    double vanish_to_s;
    double restart_s;     /* counters begin again; 0: never */
    double freeze_from_s; /* readings repeat old counters; 0: never */
    double freeze_to_s;
    bool lacks_ttft; /* no such histogram */
    bool lacks_tpot;
    plant_change_fn *change; /* NULL: none */
    void *changer;
};

struct plant_result {
    double joules; /* of one GPU */
    double seconds;
    double busy_s;
    double clock_s;                  /* integral of clock / highest clock over time */
    double missed;                   /* requests */
    double added;                    /* misses that another run of the same requests did not have */
    double first_lower_s;            /* when a lower clock was requested first; INFINITY: never */
    struct lull_serving_state state; /* at the end */
};

/* Called after each poll; may be NULL. */
typedef void plant_watch_fn(void *user, double now_s, double clock_mhz,
                            const struct lull_serving_reading *reading,
                            const struct lull_serving_state *state);

/* A server like a small model on one GPU. */
struct plant_config plant_small(const struct lull_device_curve *curve);

struct lull_serving_config plant_controller_config(const struct plant_config *plant,
                                                   const struct lull_objective *objective);

/* Poisson arrivals with exponential lengths between `from_s` and `to_s`. Returns how many requests
 * were written, at most `room`. */
size_t plant_arrivals(struct plant_request *requests, size_t room, double from_s, double to_s,
                      double rate, double prompt_tokens, double output_tokens,
                      struct lull_random *random);

/* Runs the requests (by arrival) for some time, under the controller, or at a fixed clock if
 * controller is NULL. */
struct plant_result plant_run(const struct plant_config *config, struct plant_request *requests,
                              size_t count, double seconds,
                              struct lull_serving_controller *controller, double fixed_mhz,
                              const struct plant_faults *faults, plant_watch_fn *watch, void *user);

/* Whether a request of a run missed the objective. */
bool plant_missed(const struct plant_request *request, const struct lull_objective *objective);

#endif
