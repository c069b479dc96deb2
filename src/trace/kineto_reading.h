/*
 * Private to trace/kineto*.c: a Kineto trace that is being read, and the data stored of its events.
 * One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_KINETO_READING_H
#define LULL_TRACE_KINETO_READING_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/contents.h"
#include "trace/json.h"
#include "trace/string_set.h"
#include "trace/timeline.h"
#include "trace/trace.h"
#include "trace/tracks.h"

enum { LULL_KINETO_DEVICES = 64 };

/* A time that an event does not have. */
#define LULL_KINETO_MISSING INT64_MIN

/* One of the events, as far as it has been read. */
struct lull_kineto_event {
    int64_t ts_ns;
    int64_t dur_ns;
    int64_t device;
    int64_t stream;
    int64_t correlation;
    int64_t elements;
    int64_t ranks;
    int64_t step;
    int64_t chunk;
    char phase[4];
    char category[64];
    char process[64];
    char thread[64];
    char id[32];    /* of an asynchronous pair */
    char label[64]; /* the name of a process or thread */
    char description[24];
    char collective[48];
    char dtype[24];
    char group[LULL_STRING_SET_BYTES + 1];
    char name[LULL_JSON_MAX_TEXT + 1];
};

struct lull_kineto_device {
    int64_t id;
    char name[64];
};

/* The meaning of the category of an event. */
enum lull_kineto_class { LULL_KINETO_OTHER, LULL_KINETO_KERNEL, LULL_KINETO_COPY };

/* An event of phase B whose E has not come yet. */
struct lull_kineto_begun {
    uint64_t track; /* hash of process and thread */
    enum lull_kineto_class class;
    bool is_timed;
    struct lull_trace_kernel kernel; /* without its end */
};

struct lull_kineto_reading {
    const char *name; /* of the text, for messages */
    struct lull_error *err;
    struct lull_trace *trace;
    struct lull_kineto_device devices[LULL_KINETO_DEVICES];
    uint32_t device_count;
    const regex_t *others;   /* further names that communicate; null: none */
    const char **operations; /* of the names seen so far; unlooked: not asked yet */
    size_t operation_count;
    struct lull_kineto_begun *begun;
    size_t begun_count;
    struct lull_tracks *tracks;
    struct lull_timeline_reading *timeline;
    struct lull_contents contents;
    struct lull_kineto_event event; /* being read */
};

/* Stores the event that was read if it is a kernel, a launch, a step, an operation or a name.
 * Errors: -ENOMEM. */
int lull_kineto_keep(struct lull_kineto_reading *reading);

#endif
