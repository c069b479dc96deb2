/*
 * Reads pages of a server's metrics, one after the other: text to struct lull_serving_reading, with
 * one sentence for each thing that is missing or has changed, and what that costs.
 *
 * It recognises restarts of the server, counters that begin again, metrics that vanish, come back
 * or change their names, histograms with other buckets, values that are impossible, and pages that
 * do not change although the server works.
 *
 * No I/O and no clock: the caller passes in texts and times. One thread at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_SERVING_METRICS_READING_H
#define LULL_GOVERNOR_SERVING_METRICS_READING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/serving/reading.h"
#include "governor/serving/metrics_names.h"

enum lull_metrics_note_kind {
    LULL_METRICS_NOTE_MISSING,  /* a quantity is not on the page */
    LULL_METRICS_NOTE_VANISHED, /* it was on the page before */
    LULL_METRICS_NOTE_RENAMED,
    LULL_METRICS_NOTE_VALUE,    /* impossible: NaN, negative, a histogram that falls */
    LULL_METRICS_NOTE_RESET,    /* a counter fell, or came back */
    LULL_METRICS_NOTE_BUCKETS,  /* a histogram has other buckets */
    LULL_METRICS_NOTE_RESTART,  /* of the server, or another server */
    LULL_METRICS_NOTE_LAG,      /* the page is old */
    LULL_METRICS_NOTE_BAD_LINE, /* of the page */
    LULL_METRICS_NOTE_KINDS
};

enum { LULL_METRICS_MAX_NOTES = 24, LULL_METRICS_NOTE_BYTES = 320 };

/* A sentence for the user, printable. */
struct lull_metrics_note {
    enum lull_metrics_note_kind kind;
    enum lull_metrics_quantity quantity; /* 0 if it is of none */
    char text[LULL_METRICS_NOTE_BYTES];
};

struct lull_metrics_result {
    struct lull_serving_reading reading;
    const char *engine; /* name of the server's kind */
    bool is_lagging;    /* the reading is not of now: do not use it */
    uint32_t note_count;
    struct lull_metrics_note notes[LULL_METRICS_MAX_NOTES];
};

struct lull_metrics_reader;

/* Borrows the names. NULL: no memory. */
struct lull_metrics_reader *lull_metrics_reader_create(const struct lull_metrics_names *names);
void lull_metrics_reader_destroy(struct lull_metrics_reader *reader); /* NULL is allowed */

/*
 * Reads a page of size bytes that the server sent at time_ns (monotonic); wall_s is the time since
 * 1970, to judge time stamps. Pages come in the order of time. Errors, with a sentence in err:
 * LULL_E_FORMAT it is not a page of metrics, or it is incomplete; -ENODATA it has no metric that
 * Lull knows; -EFBIG it is too large. After an error the next page is compared with the last good
 * one.
 */
int lull_metrics_reader_read(struct lull_metrics_reader *reader, const char *page, size_t size,
                             int64_t time_ns, double wall_s, struct lull_metrics_result *result_out,
                             struct lull_error *err);

#endif
