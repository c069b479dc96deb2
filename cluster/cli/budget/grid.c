/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/budget/grid.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/json_string.h"

/* A reading under way. */
struct grid_reader {
    const char *name;
    int64_t now_s;
    struct lull_grid_events grid;
    struct lull_error *err;
};

static const double most_w = 1e12;

static int grid_refuse(const struct grid_reader *reader, size_t index, const char *what)
{
    return lull_error_set(reader->err, -EINVAL, "%.80s: event %zu: %s", reader->name, index + 1,
                          what);
}

static int grid_add_event(struct grid_reader *reader, size_t index,
                          const struct lull_grid_event *event)
{
    if (!(event->target_w >= 0.0 && event->target_w <= most_w))
        return grid_refuse(reader, index, "the target must be a number of watts, at least 0");
    if (event->end_s <= (event->begins_now ? reader->now_s : event->begin_s) ||
        event->until_s <= event->after_s)
        return grid_refuse(reader, index, "it ends before it has begun");
    if (reader->grid.count == LULL_GRID_MAX_EVENTS)
        return lull_error_set(reader->err, -EINVAL, "%.80s: more than %d events", reader->name,
                              LULL_GRID_MAX_EVENTS);
    reader->grid.events[reader->grid.count++] = *event;
    return 0;
}

static int64_t later_by(int64_t time_s, int64_t duration_s)
{
    if (duration_s >= LULL_GRID_FOR_EVER || time_s >= LULL_GRID_FOR_EVER - duration_s)
        return LULL_GRID_FOR_EVER;
    return time_s + duration_s;
}

/* Reads a time of ISO 8601; without one the time stays. */
static int grid_read_time(const json_t *object, const char *key, int64_t *time_s)
{
    const json_t *value = json_object_get(object, key);

    if (value == NULL)
        return 0;
    return json_is_string(value) ? lull_grid_parse_time(json_string_value(value), time_s) : -EINVAL;
}

/* --- Lull's own --- */

static int grid_read_event(struct grid_reader *reader, size_t index, const json_t *event)
{
    const json_t *duration = json_object_get(event, "duration_s");
    struct lull_grid_event added = {.begins_now = json_object_get(event, "begin") == NULL,
                                    .begin_s = reader->now_s,
                                    .end_s = LULL_GRID_FOR_EVER,
                                    .until_s = LULL_GRID_FOR_EVER};
    const char *key;
    json_t *unused;

    if (!json_is_object(event) || !json_is_number(json_object_get(event, "target_w")))
        return grid_refuse(reader, index, "it needs \"target_w\", a number of watts");
    json_object_foreach(
        (json_t *)event, key,
        unused) if (strcmp(key, "target_w") != 0 && strcmp(key, "begin") != 0 &&
                    strcmp(key, "end") != 0 &&
                    strcmp(key, "duration_s") !=
                        0) return grid_refuse(reader, index,
                                              "it has only \"target_w\", \"begin\", \"end\" and "
                                              "\"duration_s\"");
    if (grid_read_time(event, "begin", &added.begin_s) < 0 ||
        grid_read_time(event, "end", &added.end_s) < 0)
        return grid_refuse(reader, index, "a time is written 2026-11-28T17:00:00Z");
    if (duration != NULL) {
        const double duration_s = json_number_value(duration);

        if (json_object_get(event, "end") != NULL || !(duration_s >= 1.0 && duration_s <= 1e9))
            return grid_refuse(
                reader, index,
                "\"duration_s\" must be a number of seconds, at least 1; it replaces \"end\"");
        added.until_s = (int64_t)duration_s;
    }
    added.target_w = json_number_value(json_object_get(event, "target_w"));
    return grid_add_event(reader, index, &added);
}

static int grid_read_own(struct grid_reader *reader, const json_t *root)
{
    const json_t *events = json_object_get(root, "events");
    int result = 0;

    if (json_is_object(root) && events == NULL)
        return grid_read_event(reader, 0, root);
    if (!json_is_array(events) || json_object_size(root) != 1)
        return lull_error_set(reader->err, -EINVAL,
                              "%.80s: it is neither an event nor {\"events\": [...]}",
                              reader->name);
    for (size_t i = 0; i < json_array_size(events) && result == 0; i++)
        result = grid_read_event(reader, i, json_array_get(events, i));
    return result;
}

/* --- OpenADR 3 --- */

/* Writes how many watts a unit of this type of payload is; the standard's default is a kilowatt. */
static int grid_find_unit(const json_t *event, const char *type, double *unit_w_out)
{
    const json_t *descriptors = json_object_get(event, "payloadDescriptors");
    const char *units = "KW";

    for (size_t i = 0; i < json_array_size(descriptors); i++) {
        const json_t *descriptor = json_array_get(descriptors, i);
        const char *of = json_string_value(json_object_get(descriptor, "payloadType"));
        const char *said = json_string_value(json_object_get(descriptor, "units"));

        if (of != NULL && said != NULL && strcmp(of, type) == 0)
            units = said;
    }
    if (strcmp(units, "KW") == 0)
        *unit_w_out = 1e3;
    else if (strcmp(units, "W") == 0)
        *unit_w_out = 1.0;
    else if (strcmp(units, "MW") == 0)
        *unit_w_out = 1e6;
    else
        return -EINVAL;
    return 0;
}

/* Period of an interval: its start, the delay after which it applies, and its duration. */
struct period {
    bool begins_now;
    int64_t begin_s;
    int64_t after_s;
    int64_t duration_s;
};

/* Reads the period of an event or interval. Fields that it omits stay unchanged. *has_begin: it
 * has a start. */
static int read_period(const json_t *object, struct period *period, bool *has_begin)
{
    const json_t *value = json_object_get(object, "intervalPeriod");
    const json_t *duration = json_object_get(value, "duration");

    *has_begin = json_is_string(json_object_get(value, "start"));
    if (value == NULL || json_is_null(value))
        return 0;
    if (grid_read_time(value, "start", &period->begin_s) < 0)
        return -EINVAL;
    if (*has_begin) {
        period->after_s = 0;
        period->begins_now = strncmp(json_string_value(json_object_get(value, "start")),
                                     "0001-01-01", strlen("0001-01-01")) == 0;
        if (period->begins_now)
            period->begin_s = 0; /* the server repeats it; the standard's value for "now" */
    }
    if (duration == NULL || json_is_null(duration))
        return 0;
    if (!json_is_string(duration))
        return -EINVAL;
    return lull_grid_parse_duration(json_string_value(duration), &period->duration_s);
}

static int read_payloads(struct grid_reader *reader, size_t index, const json_t *event,
                         const json_t *interval, const struct period *period)
{
    const json_t *payloads = json_object_get(interval, "payloads");

    for (size_t i = 0; i < json_array_size(payloads); i++) {
        const json_t *payload = json_array_get(payloads, i);
        const char *type = json_string_value(json_object_get(payload, "type"));
        const json_t *value = json_array_get(json_object_get(payload, "values"), 0);
        double unit_w;
        int result;

        if (type == NULL ||
            (strcmp(type, "IMPORT_CAPACITY_LIMIT") != 0 && strcmp(type, "DISPATCH_SETPOINT") != 0))
            continue;
        if (!json_is_number(value))
            return grid_refuse(reader, index, "the values of its payload are no numbers");
        if (grid_find_unit(event, type, &unit_w) < 0)
            return grid_refuse(reader, index, "its payload is in other units than W, KW and MW");
        result = grid_add_event(
            reader, index,
            &(struct lull_grid_event){.begins_now = period->begins_now,
                                      .begin_s = period->begin_s,
                                      .end_s = LULL_GRID_FOR_EVER,
                                      .after_s = period->after_s,
                                      .until_s = later_by(period->after_s, period->duration_s),
                                      .target_w = json_number_value(value) * unit_w});
        if (result < 0)
            return result;
    }
    return 0;
}

/* Intervals without a start follow each other. */
static int read_openadr_event(struct grid_reader *reader, size_t index, const json_t *event)
{
    const json_t *intervals = json_object_get(event, "intervals");
    struct period whole = {.begins_now = true, .duration_s = LULL_GRID_FOR_EVER};
    struct period next; /* of an interval without a start */
    bool has_begin;
    int result = 0;

    if (!json_is_object(event) || !json_is_array(intervals))
        return grid_refuse(reader, index, "not an OpenADR 3 event: it has no intervals");
    if (read_period(event, &whole, &has_begin) < 0)
        return grid_refuse(reader, index, "its intervalPeriod is not supported");
    next = whole;
    for (size_t i = 0; i < json_array_size(intervals) && result == 0; i++) {
        const json_t *interval = json_array_get(intervals, i);
        struct period period = next;

        period.duration_s = whole.duration_s;
        if (read_period(interval, &period, &has_begin) < 0)
            return grid_refuse(reader, index, "the intervalPeriod of an interval is not supported");
        next = period;
        next.after_s = later_by(period.after_s, period.duration_s);
        if (period.duration_s == 0) /* the standard's value for "until further notice" */
            period.duration_s = LULL_GRID_FOR_EVER;
        if (period.after_s < LULL_GRID_FOR_EVER)
            result = read_payloads(reader, index, event, interval, &period);
    }
    return result;
}

static int read_openadr(struct grid_reader *reader, const json_t *root)
{
    int result = 0;

    if (!json_is_array(root))
        return lull_error_set(reader->err, -EINVAL,
                              "%.80s: the answer is not an array of OpenADR 3 events",
                              reader->name);
    for (size_t i = 0; i < json_array_size(root) && result == 0; i++)
        result = read_openadr_event(reader, i, json_array_get(root, i));
    return result;
}

/* --- both --- */

static int grid_read_text(struct grid_reader *reader, const char *text, size_t size,
                          int (*read)(struct grid_reader *reader, const json_t *root),
                          struct lull_grid_events *grid_out)
{
    json_error_t error;
    json_t *root;
    int result;

    if (size > LULL_GRID_MAX_BYTES)
        return lull_error_set(reader->err, -EINVAL, "%.80s: longer than %d bytes", reader->name,
                              LULL_GRID_MAX_BYTES);
    root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        return lull_error_set(reader->err, -EINVAL, "%.80s:%d: no JSON: %.100s", reader->name,
                              error.line, error.text);
    result = read(reader, root);
    json_decref(root);
    if (result == 0)
        *grid_out = reader->grid;
    return result;
}

int lull_grid_read(const char *name, const char *text, size_t size, int64_t now_s,
                   struct lull_grid_events *grid_out, struct lull_error *err)
{
    struct grid_reader reader = {.name = name, .now_s = now_s, .err = err};

    return grid_read_text(&reader, text, size, grid_read_own, grid_out);
}

int lull_grid_read_openadr(const char *name, const char *text, size_t size, int64_t now_s,
                           struct lull_grid_events *grid_out, struct lull_error *err)
{
    struct grid_reader reader = {.name = name, .now_s = now_s, .err = err};

    return grid_read_text(&reader, text, size, read_openadr, grid_out);
}

static json_t *grid_print_time(int64_t time_s)
{
    const time_t time = (time_t)time_s;
    struct tm parts;
    char text[64];

    if (gmtime_r(&time, &parts) == NULL ||
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        return NULL;
    return lull_json_string(text);
}

char *lull_grid_print(const struct lull_grid_events *grid)
{
    json_t *events = json_array();
    json_t *root = json_pack("{s:o}", "events", events);
    char *text;

    for (uint32_t i = 0; i < grid->count; i++) {
        const struct lull_grid_event *event = &grid->events[i];
        json_t *object = json_pack("{s:f}", "target_w", event->target_w);

        /* A duration continues where another process reads this. */
        if (!event->begins_now || event->until_s != LULL_GRID_FOR_EVER)
            json_object_set_new(object, "begin", grid_print_time(event->begin_s));
        if (event->until_s != LULL_GRID_FOR_EVER)
            json_object_set_new(object, "duration_s", json_integer(event->until_s));
        if (event->end_s != LULL_GRID_FOR_EVER)
            json_object_set_new(object, "end", grid_print_time(event->end_s));
        json_array_append_new(events, object);
    }
    text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    json_decref(root);
    return text;
}

static bool grid_is_same(const struct lull_grid_event *a, const struct lull_grid_event *b)
{
    return a->begins_now == b->begins_now && a->begin_s == b->begin_s && a->end_s == b->end_s &&
           a->after_s == b->after_s && a->until_s == b->until_s && a->target_w == b->target_w;
}

void lull_grid_update(struct lull_grid_events *grid, const struct lull_grid_events *read)
{
    struct lull_grid_events updated = *read;

    for (uint32_t i = 0; i < updated.count; i++)
        for (uint32_t j = 0; j < grid->count; j++)
            if (grid_is_same(&updated.events[i], &grid->events[j])) {
                updated.events[i] = grid->events[j];
                break;
            }
    *grid = updated;
}

static bool grid_applies(struct lull_grid_event *event, int64_t now_s, double monotonic_s)
{
    double elapsed_s;

    if (event->after_s == 0 && event->until_s == LULL_GRID_FOR_EVER)
        return (event->begins_now || event->begin_s <= now_s) && now_s < event->end_s;
    if (!event->has_begun && !event->begins_now && now_s < event->begin_s)
        return false;
    if (!event->has_begun) {
        event->has_begun = true;
        event->began_s = monotonic_s;
        if (!event->begins_now)
            event->began_s -= (double)(now_s - event->begin_s);
    }
    elapsed_s = monotonic_s - event->began_s;
    return (double)event->after_s <= elapsed_s && elapsed_s < (double)event->until_s;
}

double lull_grid_target_w(struct lull_grid_events *grid, int64_t now_s, int64_t now_ns)
{
    double target_w = INFINITY;

    for (uint32_t i = 0; i < grid->count; i++)
        if (grid_applies(&grid->events[i], now_s, (double)now_ns * 1e-9))
            target_w = fmin(target_w, grid->events[i].target_w);
    return target_w;
}
