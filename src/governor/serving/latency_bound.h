/*
 * Upper bounds of how many requests exceed a latency, for servers without a histogram of it.
 *
 * TPOT, from two sources; the lower count holds:
 *   - the time between tokens: a request whose mean is above a time has a token that took longer.
 *     So no more requests can miss than there were such tokens, nor more than there were requests.
 *   - the time of decoding and the number of tokens of the requests that ended between two pages.
 *     Which time is of which request is unknown: the pairing with the most misses counts. The time
 *     from arrival to end may stand for that of decoding.
 * TTFT, from the times in the queue and in prefill of the requests that ended between two pages, in
 * the same way.
 *
 * The counts never fall below the true ones since the first page; requests that were there on the
 * first page count as if they had had a slow token.
 *
 * Beside the bound of TPOT there is an estimate, which the controller's model learns from: the mean
 * of the requests that ended between two pages, or the mean time between tokens over the life of a
 * request or of a short one, whichever is longest.
 *
 * Pure; caller's storage; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_SERVING_LATENCY_BOUND_H
#define LULL_GOVERNOR_SERVING_LATENCY_BOUND_H

#include <stdbool.h>

#include "core/serving/reading.h"

/* What a page says of requests. A histogram with count 0 is not there. */
struct lull_request_times {
    double finished;                       /* counter of requests; NAN: unknown */
    double alive;                          /* requests that run or wait; NAN: unknown */
    struct lull_serving_histogram between; /* tokens */
    struct lull_serving_histogram decode;  /* one value per request, when it ends, s */
    struct lull_serving_histogram answer;  /* the same: output tokens */
    struct lull_serving_histogram queue;   /* the same, s */
    struct lull_serving_histogram prefill; /* the same, s */
};

enum lull_latency_source {
    LULL_LATENCY_FROM_TOKENS = 1, /* the time between them */
    LULL_LATENCY_FROM_ENDS = 2,   /* times and lengths of requests that ended */
};

/* Times between tokens of which old ones are forgotten. */
struct lull_token_mean {
    double sum_s;
    double count;
};

/* Begin with zeros. */
struct lull_latency_bound {
    uint32_t sources; /* of the last page, a set of enum lull_latency_source */
    struct lull_request_times before;
    double requests;                          /* since the first page */
    double slow_tokens[LULL_SERVING_BUCKETS]; /* of the requests that are there */
    struct lull_token_mean life;              /* of the last life of a request */
    struct lull_token_mean latest;            /* of a short answer */
    double tokens;                            /* since the first page */
    double likely[LULL_SERVING_BUCKETS];      /* requests up to a time */
    double likely_sum_s;
    double above[2][LULL_SERVING_BUCKETS]; /* requests, by source */
};

/*
 * Takes the next page and writes a histogram of the latency whose counts above a bound are upper
 * bounds; its count of buckets is 0 if the page has no source. Returns whether counting has begun
 * again: with the first page, other sources, or counters that fell.
 */
bool lull_latency_bound_tpot(struct lull_latency_bound *bound,
                             const struct lull_request_times *page,
                             struct lull_serving_histogram *histogram_out,
                             struct lull_serving_histogram *likely_out);
bool lull_latency_bound_ttft(struct lull_latency_bound *bound,
                             const struct lull_request_times *page,
                             struct lull_serving_histogram *histogram_out);

#endif
