/*
 * One page of metrics reduced to the sums of the rows of names that are on it. Internal to
 * metrics_reading.h.
 *
 * Samples that differ in labels are added; those of several ranks of one replica count once. Each
 * series keeps its last value, so that one counter that begins again is found although the sum
 * rises.
 *
 * One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_SERVING_METRICS_PAGE_H
#define LULL_GOVERNOR_SERVING_METRICS_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "governor/serving/metrics_names.h"
#include "trace/prometheus.h"

enum {
    LULL_METRICS_BOUNDS = 96,   /* of a histogram on a page; of more the highest are left out */
    LULL_METRICS_SERIES = 4096, /* that are compared with the page before; a power of two */
};

struct lull_metrics_bucket {
    double bound; /* in the unit of the page */
    double total;
    uint32_t series; /* that have it */
};

struct lull_metrics_histogram {
    uint32_t count;
    struct lull_metrics_bucket buckets[LULL_METRICS_BOUNDS]; /* by bound */
    double sum;
};

/* What a page has of a row of names. */
struct lull_metrics_row {
    const struct lull_metrics_name *name;
    uint32_t engine;
    size_t length;                            /* of the name */
    struct lull_metrics_histogram *histogram; /* NULL: a counter or gauge */
    /* of the page */
    bool is_found;
    bool has_bad_value;
    bool has_fallen; /* a series is below its last value */
    bool is_back;    /* a series was not on the page before, but on an earlier one */
    double value;
    double plus;
    double bad_value;
    double fallen_from;
    double fallen_to;
};

/* The rows of a kind of servers. */
struct lull_metrics_group {
    const char *prefix; /* that all its names begin with */
    size_t prefix_length;
    uint32_t first; /* its rows */
    uint32_t end;
    uint64_t hash; /* of all samples of the page with this prefix */
};

struct lull_metrics_series {
    uint64_t key;  /* of the row and the labels; 0: free */
    uint64_t copy; /* of the labels that only distinguish ranks */
    uint64_t page; /* the last one that has it */
    double value;
};

struct lull_metrics_page {
    struct lull_metrics_row rows[LULL_METRICS_MAX_NAMES];
    uint32_t row_count;
    struct lull_metrics_group groups[LULL_METRICS_MAX_ENGINES];
    uint32_t group_count;
    uint64_t number;     /* of the page, from 1 */
    double start_s;      /* of the server's process; NAN: not on the page */
    double cpu_s;        /* that its process has used; NAN */
    double stamp_s;      /* the latest time stamp of a row; NAN */
    bool is_python;      /* the server is a Python program */
    char first_name[64]; /* of the page's first sample */
    uint32_t series_count;
    struct lull_metrics_series series[LULL_METRICS_SERIES];
};

/* Creates one; borrows the names. NULL: no memory. */
struct lull_metrics_page *lull_metrics_page_create(const struct lull_metrics_names *names);
void lull_metrics_page_destroy(struct lull_metrics_page *page); /* NULL is allowed */

/* Begins the next page. */
void lull_metrics_page_begin(struct lull_metrics_page *page);

/* A lull_prometheus_take; the context is the page. */
void lull_metrics_page_take(void *page, const struct lull_prometheus_sample *sample);

#endif
