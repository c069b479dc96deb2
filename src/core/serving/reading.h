/*
 * What one look at a server's metrics shows. All servers are reduced to this form, whatever names
 * their metrics have. Counters are totals since the server's start; NAN is unknown.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SERVING_READING_H
#define LULL_CORE_SERVING_READING_H

#include <stdbool.h>
#include <stdint.h>

enum { LULL_SERVING_BUCKETS = 48 };

/* A cumulative histogram of times, as Prometheus has it. */
struct lull_serving_histogram {
    uint32_t count;                       /* of buckets; 0: the server has no such histogram */
    double bound_s[LULL_SERVING_BUCKETS]; /* rising; the last one is INFINITY */
    double total[LULL_SERVING_BUCKETS];   /* values that are at most the bound; not falling */
    double sum_s;
    bool is_upper; /* the values are upper bounds, and are counted when requests end */
};

struct lull_serving_reading {
    int64_t time_ns;      /* when the server answered */
    bool is_restarted;    /* counters began again since the reading before: a difference of the two
                             has no meaning */
    bool is_of_steps;     /* made from the cadence of steps (cadence.h): only engines that run,
                             steps and itl are known */
    bool is_overdue;      /* of these: a step has not ended within the bound */
    double running;       /* requests in the batch */
    double waiting;       /* requests in the queue */
    double cache_ratio;   /* share of the cache of keys and values that is in use, 0..1 */
    double prompt_tokens; /* counter */
    double output_tokens; /* counter */
    double finished;      /* counter of requests */
    double steps;         /* counter of the engine's steps */
    struct lull_serving_histogram ttft;
    struct lull_serving_histogram tpot;        /* one value per request: mean over its tokens */
    struct lull_serving_histogram likely_tpot; /* where tpot has upper bounds: estimates */
    struct lull_serving_histogram itl;         /* one value per token: time since the one before */
};

/* Returns the last bucket whose bound is at most a time; -1: none. Values above its bound count as
 * above the time. */
int lull_serving_bucket_within(const struct lull_serving_histogram *histogram, double time_s);

#endif
