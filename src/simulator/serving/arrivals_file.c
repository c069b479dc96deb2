/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/serving/arrivals_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "trace/columns.h"

enum { TIME, PROMPT, OUTPUT, FIELDS };
enum { MAX_TOKENS = 1 << 24 };

static const struct lull_column known[] = {
    {"TIMESTAMP", TIME, 1},
    {"ContextTokens", PROMPT, 1},
    {"Request tokens", PROMPT, 1, .is_alias = true},
    {"GeneratedTokens", OUTPUT, 1},
    {"Response tokens", OUTPUT, 1, .is_alias = true},
    {0},
};

struct arrivals_reading {
    const char *path;
    struct lull_server_arrivals *trace;
    struct lull_server_arrivals_skipped *skipped;
    bool is_sorted;
};

static void reading_skip(struct arrivals_reading *reading, const char *reason)
{
    if (reading->skipped->rows++ == 0)
        snprintf(reading->skipped->reason, sizeof(reading->skipped->reason), "%s", reason);
}

static void reading_skip_broken(void *context, size_t line)
{
    struct arrivals_reading *reading = context;
    char reason[300];

    snprintf(reason, sizeof(reason), "%.200s: line %zu: its cells do not match the header",
             reading->path, line);
    reading_skip(reading, reason);
}

static int reading_take(const struct lull_columns *columns, void *context, struct lull_error *err)
{
    static const char lengths[] = "must be a number of tokens from 1 to 16777216";
    struct arrivals_reading *reading = context;
    struct lull_server_arrivals *trace = reading->trace;
    struct lull_error fault = {0};
    struct lull_server_arrival arrival;
    int64_t prompt;
    int64_t output;

    if (lull_columns_instant(columns, TIME, &arrival.time_ns, &fault) < 0 ||
        lull_columns_integer(columns, PROMPT, 1, MAX_TOKENS, lengths, &prompt, &fault) < 0 ||
        lull_columns_integer(columns, OUTPUT, 1, MAX_TOKENS, lengths, &output, &fault) < 0) {
        reading_skip(reading, fault.text);
        return 0;
    }
    arrival.prompt_tokens = (uint32_t)prompt;
    arrival.output_tokens = (uint32_t)output;
    if (trace->count > 0 && trace->items[trace->count - 1].time_ns > arrival.time_ns)
        reading->is_sorted = false;
    if (lull_server_arrivals_add(trace, &arrival) < 0)
        return lull_error_set(err, -ENOMEM, "%s: no memory", reading->path);
    return 0;
}

static int arrivals_compare(const void *a, const void *b)
{
    const struct lull_server_arrival *x = a;
    const struct lull_server_arrival *y = b;

    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    if (x->prompt_tokens != y->prompt_tokens)
        return x->prompt_tokens < y->prompt_tokens ? -1 : 1;
    return (x->output_tokens > y->output_tokens) - (x->output_tokens < y->output_tokens);
}

/* Orders the rows and lets time begin at 0. The trace repeats a mean distance after its end. */
static int reading_finish(struct arrivals_reading *reading, struct lull_error *err)
{
    struct lull_server_arrivals *trace = reading->trace;
    int64_t first_ns;
    int64_t last_ns;

    if (!reading->is_sorted)
        qsort(trace->items, trace->count, sizeof(trace->items[0]), arrivals_compare);
    if (trace->count < 2 || trace->items[0].time_ns == trace->items[trace->count - 1].time_ns)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: no two requests at different times%s%s. The table needs the "
                              "columns TIMESTAMP, ContextTokens and GeneratedTokens, and at least "
                              "two rows.",
                              reading->path, reading->skipped->rows > 0 ? "; first fault: " : "",
                              reading->skipped->reason);
    first_ns = trace->items[0].time_ns;
    for (size_t i = 0; i < trace->count; i++)
        trace->items[i].time_ns -= first_ns;
    last_ns = trace->items[trace->count - 1].time_ns;
    trace->period_ns = last_ns + last_ns / (int64_t)(trace->count - 1) + 1;
    return 0;
}

int lull_server_arrivals_read(const char *path, struct lull_server_arrivals *trace_out,
                              struct lull_server_arrivals_skipped *skipped_out,
                              struct lull_error *err)
{
    static const struct lull_table table = {
        .known = known,
        .needed = (1u << FIELDS) - 1,
        .manual = "lull-simulate(1)",
        .read = reading_take,
        .broken = reading_skip_broken,
    };
    struct arrivals_reading reading = {
        .path = path, .trace = trace_out, .skipped = skipped_out, .is_sorted = true};
    int result;

    *skipped_out = (struct lull_server_arrivals_skipped){0};
    result = lull_columns_read(path, &table, &reading, err);
    if (result == 0)
        result = reading_finish(&reading, err);
    if (result < 0)
        lull_server_arrivals_fini(trace_out);
    return result;
}
