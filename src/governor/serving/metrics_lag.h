/*
 * Judges whether pages of metrics are old: a cache or proxy in between may serve a page again and
 * again, while the answers themselves are prompt. Internal to metrics_reading.h.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_SERVING_METRICS_LAG_H
#define LULL_GOVERNOR_SERVING_METRICS_LAG_H

#include <stdbool.h>
#include <stdint.h>

/* Begin with zeros. */
struct lull_metrics_lag {
    bool has_page;
    uint64_t hash;
    int64_t changed_ns; /* when the hash changed last */
    double cpu_s;
    int64_t cpu_changed_ns;
    int64_t until_ns; /* pages before this time count as old */
};

struct lull_metrics_look {
    int64_t time_ns; /* pages come in its order */
    uint64_t hash;   /* of what the server has published */
    double running;  /* requests; NAN: unknown */
    double cpu_s;    /* that a Python server has used; NAN: it is not one, or does not say */
    double age_s;    /* of the page's latest time stamp; NAN: it has none */
};

enum lull_metrics_lag_reason {
    LULL_METRICS_LAG_NONE,    /* the page is of now */
    LULL_METRICS_LAG_STAMPS,  /* its time stamps are old */
    LULL_METRICS_LAG_WORK,    /* it did not change although requests run */
    LULL_METRICS_LAG_PROCESS, /* it did not change although the server's process renders it */
};

/* Takes the next page, and returns why it is old. */
enum lull_metrics_lag_reason lull_metrics_lag_judge(struct lull_metrics_lag *lag,
                                                    const struct lull_metrics_look *look);

/* Time without a change after which a page is old, s. */
double lull_metrics_lag_limit_s(void);

#endif
