/*
 * The serving governor: chooses the clocks of GPUs on which an inference server runs, for `lull
 * attach` and `lull run --slo`.
 *
 * With a latency objective and the server's metrics, all GPUs get one clock by load
 * (core/serving/controller.h). Without metrics a bound of the time per output token alone is judged
 * by the steps that probes show (core/serving/cadence.h). Without an objective each GPU on which
 * nothing runs is parked at a low clock (park.h), and raised by the first sign of work
 * (idle_watch.h). Without leases, under a cap, and as long as a GPU or its driver fails, the
 * highest clock is requested.
 *
 * Clocks are requested through the control for two seconds and renewed: if this process stops, the
 * device writer raises the GPUs.
 *
 * Threads: the main thread; tick and request take the control's lock.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_SERVING_SERVING_H
#define LULL_GOVERNOR_SERVING_SERVING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/serving/controller.h"
#include "core/serving/objective.h"
#include "governor/control/control.h"
#include "governor/energy/accounting.h"
#include "governor/run/run_log.h"
#include "governor/serving/figures.h"
#include "wire/live.h"

struct lull_serving_options {
    bool is_wanted;
    bool has_objective;
    struct lull_objective objective;
    const char *metrics;      /* address of the server's metrics; NULL: none */
    bool has_probes;          /* the server's processes load Lull's probes, which show its steps */
    const char *metric_names; /* file of further names of metrics; NULL: none */
    int64_t start_ns;         /* a server that does not answer may be starting for so long */
    int64_t wake_ns;          /* what the first work after an idle time may pay */
    int64_t park_after_ns;    /* idle time after which a GPU is parked */
};

/* Sets a delay of 50 ms, parking after 500 ms, and a server that starts within 5 min. */
void lull_serving_options_default(struct lull_serving_options *options);

/* Returns whether the server's steps are judged in place of its requests. */
bool lull_serving_is_by_steps(const struct lull_serving_options *options);

struct lull_serving;

/* Borrows options and control until destroy. Errors: -ENOMEM; those of the metrics' address. */
int lull_serving_create(const struct lull_serving_options *options, struct lull_control *control,
                        struct lull_serving **serving_out, struct lull_error *err);
void lull_serving_destroy(struct lull_serving *serving); /* NULL is allowed */

/* ---- GPUs -------------------------------------------------------------------------------- */

/* Leases all GPUs of the control. Errors: those of lull_control_lease, with the GPU's number. */
int lull_serving_lease_all(struct lull_serving *serving, struct lull_error *err);

/* Takes the processes on a GPU of the control, and leases it if a descendant of `server` is one of
 * them; server 0: it has not started. */
void lull_serving_take_list(struct lull_serving *serving, uint32_t gpu,
                            const struct lull_device_processes *list, pid_t server, int64_t now_ns);
bool lull_serving_wants_lists(const struct lull_serving *serving, int64_t now_ns);

/* Returns the fields to read of a GPU now, enum lull_reading_field; 0: none. The driver may hang in
 * a reading, so the owner reads. */
uint32_t lull_serving_wanted(const struct lull_serving *serving, uint32_t gpu, int64_t now_ns);
void lull_serving_take(struct lull_serving *serving, uint32_t gpu, uint32_t wanted,
                       const struct lull_sample *sample);

/* ---- control ----------------------------------------------------------------------------- */

/* Call it every LULL_SERVING_TICK_MS. accounting: of the GPUs' energy, NULL: none. note_out is set
 * if there is a message for the user; otherwise its code is 0. */
enum { LULL_SERVING_TICK_MS = 10 };
void lull_serving_tick(struct lull_serving *serving, const struct lull_accounting *accounting,
                       int64_t now_ns, struct lull_error *note_out);

/* The leases were lost, and taken again. */
void lull_serving_resume(struct lull_serving *serving);

/* Nothing is managed any more: the records end now. */
void lull_serving_end(struct lull_serving *serving, int64_t now_ns);

/* Returns whether the server has ended: processes were on the GPUs, and have been gone for
 * LULL_SERVING_END_S, like its metrics. */
enum { LULL_SERVING_END_S = 30 };
bool lull_serving_has_ended(const struct lull_serving *serving, int64_t now_ns);

/* ---- results ----------------------------------------------------------------------------- */

struct lull_serving_gpu_summary {
    bool is_served;
    uint32_t park_mhz; /* clock at which it is parked; 0: it is not served */
    uint32_t parks;    /* how often */
    double parked_s;
    double saved_j;      /* estimate; NAN: unknown */
    double first_work_s; /* longest delay of the first work after an idle time */
    uint32_t signs[5];   /* readings that ended a park, by enum lull_idle_sign */
};

struct lull_serving_summary {
    bool has_objective;
    bool has_metrics;
    bool is_by_steps; /* steps are judged in place of requests */
    struct lull_objective objective;
    const char *metrics; /* address; NULL: none */
    const char *engine;  /* NULL: unknown */
    enum lull_live_mode mode;
    const char *reason;                /* one sentence that explains the mode */
    struct lull_serving_state control; /* valid with has_objective and has_metrics */
    struct lull_serving_totals totals; /* since the first reading; valid with has_totals */
    bool has_totals;
    struct lull_serving_totals minute; /* valid with has_minute */
    bool has_minute;
    double running; /* NAN: unknown */
    double waiting;
    double clock_mhz; /* requested of all GPUs; NAN: they differ */
    double modes_s[LULL_LIVE_MODE_COUNT];
    uint32_t gpu_count; /* served */
    uint32_t parks;
    double parked_s;         /* mean over the served GPUs */
    int64_t parked_since_ns; /* when the last GPU was parked; 0: not all are */
    double park_saved_j;     /* estimate over all GPUs; NAN: unknown */
};

void lull_serving_summary(const struct lull_serving *serving, int64_t now_ns,
                          struct lull_serving_summary *summary_out);
struct lull_serving_gpu_summary lull_serving_gpu_summary(const struct lull_serving *serving,
                                                         uint32_t gpu, int64_t now_ns);

/* Returns the state of a GPU in words: "parked", "working", ... */
const char *lull_serving_gpu_text(const struct lull_serving *serving, uint32_t gpu);

#endif
