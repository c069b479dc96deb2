/*
 * Reads a server's metrics once per period on a thread of its own: the page over HTTP
 * (metrics_http.h), and what it shows (metrics_reading.h).
 *
 * It does not disturb the server: one connection, one request at a time, and less often where a
 * page takes longer than a fifth of the period or the server fails. A request ends after 10
 * periods.
 *
 * Threads: one owns it. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_SERVING_METRICS_FETCH_H
#define LULL_GOVERNOR_SERVING_METRICS_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/serving/reading.h"
#include "governor/serving/metrics_address.h"

struct lull_metrics_config {
    const char *address;    /* as lull_metrics_address_parse() takes it */
    const char *names_path; /* the user's names of metrics; NULL: none */
    int64_t period_ns;      /* typically 100 ms */
    uint32_t unused;        /* bits of enum lull_metrics_quantity: nothing is reported of those */
    int64_t start_ns;       /* a server that does not answer may be starting for so long */
    bool only_parks; /* the GPUs are parked by their own readings: metrics only add to them */
};

enum lull_metrics_phase {
    LULL_METRICS_CONNECTING, /* no page has come yet */
    LULL_METRICS_READING,
    LULL_METRICS_LAGGING, /* pages come, but they are old */
    LULL_METRICS_FAILING,
};

enum { LULL_METRICS_SENTENCE_BYTES = 480 };

struct lull_metrics_state {
    enum lull_metrics_phase phase;
    char sentence[LULL_METRICS_SENTENCE_BYTES]; /* explains the phase */
    const char *engine;                         /* kind of the server, "vLLM"; NULL: not known */
    uint64_t pages;                             /* that were read */
    uint64_t failures;                          /* requests without a page */
    int64_t page_ns;                            /* time that a page takes now */
    int64_t distance_ns;                        /* from one request to the next */
};

struct lull_metrics;

/*
 * Starts the thread. The server need not run yet. Errors: those of lull_metrics_address_parse(),
 * lull_metrics_names_open() and lull_metrics_http_open(); -errno there is no thread.
 */
int lull_metrics_open(const struct lull_metrics_config *config, struct lull_metrics **metrics_out,
                      struct lull_error *err);

/* Ends the thread, which may take as long as a request, at most 10 periods; NULL is allowed. */
void lull_metrics_close(struct lull_metrics *metrics);

/* A descriptor that is readable while there is a reading or a message that was not taken. */
int lull_metrics_descriptor(const struct lull_metrics *metrics);

/* Takes the latest reading. False: there is none since the last call, because the server did not
 * answer, or because its page is old. */
bool lull_metrics_take(struct lull_metrics *metrics, struct lull_serving_reading *reading_out);

/* Takes the next sentence for the user, oldest first, about something that changed: a failure, its
 * end, a missing metric, a restart. False: there is none. */
bool lull_metrics_take_message(struct lull_metrics *metrics,
                               char text_out[LULL_METRICS_SENTENCE_BYTES]);

void lull_metrics_state(struct lull_metrics *metrics, struct lull_metrics_state *state_out);

#endif
