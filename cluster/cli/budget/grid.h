/*
 * Requests of a power grid or its operator: targets in watts for periods of time. Read from Lull's
 * own JSON (a file, a webhook), or from the events of an OpenADR 3 server. The readers are pure:
 * text in, struct out. Threads: any. SPDX-License-Identifier: Apache-2.0
 *
 * Lull's own: {"events": [EVENT...]}, or one EVENT alone:
 *     {"target_w": 7000, "begin": "2026-11-28T17:00:00Z", "end": "2026-11-28T19:00:00Z"}
 * "duration_s" may represent "end"; without "begin" it has started, without an end it continues.
 */
#ifndef LULL_CLUSTER_CLI_BUDGET_GRID_H
#define LULL_CLUSTER_CLI_BUDGET_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    LULL_GRID_MAX_EVENTS = 256,
    LULL_GRID_MAX_BYTES = 256 * 1024, /* of a text */
};

#define LULL_GRID_FOR_EVER (INT64_MAX / 4)

/*
 * A stated begin and end follow the wall clock, whatever it is set to. A duration is measured on
 * CLOCK_MONOTONIC once its event has begun, so that no change of the wall clock changes it.
 */
struct lull_grid_event {
    bool begins_now; /* no begin is stated: it begins when it is first known */
    /* The begin, since 1970. begins_now: when it was read, or 0 if the source repeats the event. */
    int64_t begin_s;
    int64_t end_s;   /* stated, since 1970; LULL_GRID_FOR_EVER: none is */
    int64_t after_s; /* delay of the target after the start */
    int64_t until_s; /* and until when, > after_s; LULL_GRID_FOR_EVER: no duration is stated */
    double target_w; /* >= 0 */
    /* With a duration, once the event has begun: when, on CLOCK_MONOTONIC, in seconds. */
    bool has_begun;
    double began_s;
};

struct lull_grid_events {
    uint32_t count;
    struct lull_grid_event events[LULL_GRID_MAX_EVENTS];
};

/*
 * Parses a time of ISO 8601, such as 2026-11-28T17:00:00Z or 2026-11-28T18:00:00.5+01:00; a
 * fraction of a second is cut off. -EINVAL: it is none.
 */
int lull_grid_parse_time(const char *text, int64_t *time_s_out);

/* Parses a duration of ISO 8601, such as PT1H30M or P2D; a month counts as 30 days, a year as 365.
 * -EINVAL: it is none. */
int lull_grid_parse_duration(const char *text, int64_t *duration_s_out);

/* Reads Lull's own text of this name at now_s, since 1970. The grid is
 * written on success only. Errors: -EINVAL, with the reason in err. */
int lull_grid_read(const char *name, const char *text, size_t size, int64_t now_s,
                   struct lull_grid_events *grid_out, struct lull_error *err);

/*
 * Reads the response of an OpenADR 3 server to GET /events: an array of events, whose payloads of
 * the types IMPORT_CAPACITY_LIMIT and DISPATCH_SETPOINT are targets, in kilowatts unless a
 * descriptor says W or MW; other types are left unchanged. Errors: as above.
 */
int lull_grid_read_openadr(const char *name, const char *text, size_t size, int64_t now_s,
                           struct lull_grid_events *grid_out, struct lull_error *err);

/* Writes a grid as Lull's own text, which the caller frees; NULL: out of memory. */
char *lull_grid_print(const struct lull_grid_events *grid);

/* Replaces the events by those that were read again. Those that were there already do not begin
 * again. */
void lull_grid_update(struct lull_grid_events *grid, const struct lull_grid_events *read);

/* Returns the lowest target of the events at a time of the wall clock and of CLOCK_MONOTONIC, W;
 * INFINITY: there is none. Events that have begun are marked. */
double lull_grid_target_w(struct lull_grid_events *grid, int64_t now_s, int64_t now_ns);

#endif
