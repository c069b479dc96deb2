/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/serving/metrics_reading.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "governor/serving/latency_bound.h"
#include "governor/serving/metrics_lag.h"
#include "governor/serving/metrics_page.h"

/* Metrics that appear with the first request may be missing for this long after it. */
static const int64_t appear_ns = 5 * LULL_NS_PER_S;

/* Starts of the process that differ by less are the same one. */
static const double start_s = 1.0;

enum { NO_ROW = -1, NO_ENGINE = -1 };

static const struct {
    const char *what;
    const char *cost;
} quantities[LULL_METRICS_QUANTITIES] = {
    [LULL_METRICS_RUNNING] = {"running requests", "the load is unknown, so no clock is lowered "
                                                  "by load"},
    [LULL_METRICS_WAITING] = {"waiting requests",
                              "a growing queue is seen only by its effect on TTFT"},
    [LULL_METRICS_CACHE] = {"use of the cache", "a full cache is seen only when requests wait"},
    [LULL_METRICS_PROMPT_TOKENS] = {"prompt tokens", "prefill and decode cannot be distinguished"},
    [LULL_METRICS_OUTPUT_TOKENS] = {"output tokens", "energy per token stays unknown"},
    [LULL_METRICS_FINISHED] = {"finished requests", "energy per request stays unknown"},
    [LULL_METRICS_STEPS] = {"steps of the engine", "the time of a step is estimated from tokens"},
    [LULL_METRICS_TTFT] = {"the time to first token",
                           "misses of a TTFT bound cannot be counted, so an objective with "
                           "ttft keeps the highest clock while requests run"},
    [LULL_METRICS_TPOT] = {"the time per output token",
                           "misses of a TPOT bound cannot be counted, so an objective with "
                           "tpot keeps the highest clock while requests run"},
    [LULL_METRICS_DECODE_TIME] = {"the time of decoding", "TPOT cannot be judged by it"},
    [LULL_METRICS_ANSWER_TOKENS] = {"the tokens of an answer", "TPOT cannot be judged by them"},
    [LULL_METRICS_QUEUE_TIME] = {"the time in the queue", "TTFT cannot be judged by it"},
    [LULL_METRICS_PREFILL_TIME] = {"the time of prefill", "TTFT cannot be judged by it"},
    [LULL_METRICS_ITL] = {"the time between tokens", "the time of single tokens stays unknown"},
};

struct lull_metrics_reader {
    const struct lull_metrics_names *names;
    struct lull_metrics_page *page;
    bool has_reading;
    int engine;                          /* of the last good page */
    int chosen[LULL_METRICS_QUANTITIES]; /* rows of the last good page; NO_ROW */
    bool was_seen[LULL_METRICS_QUANTITIES];
    struct lull_serving_reading reading; /* the last good one */
    double start_s;
    struct lull_latency_bound ttft; /* where the page has no histogram of it... */
    struct lull_latency_bound tpot;
    int64_t work_since_ns; /* when requests ran first; 0: never */
    struct lull_metrics_lag lag;
};

/* ---- notes --------------------------------------------------------------------------------- */

static void __attribute__((format(printf, 4, 5)))
result_note(struct lull_metrics_result *result, enum lull_metrics_note_kind kind,
            enum lull_metrics_quantity quantity, const char *format, ...)
{
    struct lull_metrics_note *note;
    va_list arguments;

    if (result->note_count == LULL_METRICS_MAX_NOTES)
        return;
    note = &result->notes[result->note_count++];
    note->kind = kind;
    note->quantity = quantity;
    va_start(arguments, format);
    vsnprintf(note->text, sizeof(note->text), format, arguments);
    va_end(arguments);
}

/* The cost of a missing quantity; other ones may stand in for TTFT and TPOT. */
static const char *cost_of(const struct lull_metrics_reader *reader,
                           enum lull_metrics_quantity quantity)
{
    if (quantity == LULL_METRICS_TTFT && reader->ttft.sources != 0)
        return "TTFT is judged by the times in the queue and in prefill, which do not pair up, so "
               "more requests count as missed than miss; the time before the queue is not in them";
    if (quantity != LULL_METRICS_TPOT)
        return quantities[quantity].cost;
    if ((reader->tpot.sources & LULL_LATENCY_FROM_ENDS) != 0)
        return "TPOT is judged by the times and lengths of requests that ended, which do not pair "
               "up, so more requests count as missed than miss";
    if (reader->tpot.sources != 0)
        return "TPOT is judged by the time between tokens: a request with one late token counts as "
               "missed, so more count than miss";
    return quantities[quantity].cost;
}

static const struct lull_metrics_row *row_of(const struct lull_metrics_reader *reader, int row)
{
    return &reader->page->rows[row];
}

/* ---- the kind of server -------------------------------------------------------------------- */

/* Chooses the row of a quantity: the first one that the page has. */
static int choose_row(const struct lull_metrics_page *page, uint32_t engine,
                      enum lull_metrics_quantity quantity)
{
    for (uint32_t i = 0; i < page->row_count; i++) {
        const struct lull_metrics_row *const row = &page->rows[i];

        if (row->engine == engine && row->name->quantity == quantity && row->is_found)
            return (int)i;
    }
    return NO_ROW;
}

/* Finds the engine from first to before end with the most quantities on the page; NO_ENGINE: the
 * page has none of theirs. */
static int find_engine(const struct lull_metrics_reader *reader, uint32_t first, uint32_t end)
{
    int best = NO_ENGINE;
    int most = 0;

    for (uint32_t engine = first; engine < end; engine++) {
        int count = 0;

        for (int q = 0; q < LULL_METRICS_QUANTITIES; q++)
            count += choose_row(reader->page, engine, (enum lull_metrics_quantity)q) != NO_ROW;
        if (count > most) {
            most = count;
            best = (int)engine;
        }
    }
    return best;
}

/* Chooses the engine that the page is of: the last one while the page has its load, else one of the
 * user, else one that Lull knows. NO_ENGINE: the page has no name of any. */
static int choose_engine(const struct lull_metrics_reader *reader)
{
    const uint32_t own_count = reader->names->own_count;
    int engine;

    if (reader->engine != NO_ENGINE &&
        choose_row(reader->page, (uint32_t)reader->engine, LULL_METRICS_RUNNING) != NO_ROW)
        return reader->engine;
    engine = find_engine(reader, 0, own_count);
    if (engine != NO_ENGINE)
        return engine;
    return find_engine(reader, own_count, reader->names->count);
}

static int refuse_unknown(const struct lull_metrics_reader *reader,
                          const struct lull_prometheus_page *page, struct lull_error *err)
{
    if (reader->engine != NO_ENGINE)
        return lull_error_set(err, -ENODATA, "all metrics of %s vanished from the page",
                              reader->names->engines[reader->engine]->name);
    if (page->samples == 0 && page->bad_lines == 0)
        return lull_error_set(err, LULL_E_FORMAT,
                              "the page is not in Prometheus' text format: it has no sample; give "
                              "the address of the server's metrics");
    if (page->samples == 0)
        return lull_error_set(err, LULL_E_FORMAT,
                              "the page is not in Prometheus' text format: line %llu (%s); give "
                              "the address of the server's metrics",
                              (unsigned long long)page->bad_line, page->bad_reason);
    return lull_error_set(err, -ENODATA,
                          "the page has %llu samples, the first of %s, but no metric that Lull "
                          "knows; give another address, or the names with --metric-names FILE",
                          (unsigned long long)page->samples, reader->page->first_name);
}

/* ---- values -------------------------------------------------------------------------------- */

static void note_bad_value(const struct lull_metrics_reader *reader,
                           const struct lull_metrics_row *row, struct lull_metrics_result *result)
{
    const enum lull_metrics_quantity quantity = row->name->quantity;

    result_note(result, LULL_METRICS_NOTE_VALUE, quantity,
                "%s has the value %g, which is impossible: %s", row->name->name, row->bad_value,
                cost_of(reader, quantity));
}

static double read_scalar(const struct lull_metrics_reader *reader,
                          enum lull_metrics_quantity quantity, struct lull_metrics_result *result)
{
    const struct lull_metrics_row *row;
    double value;

    if (reader->chosen[quantity] == NO_ROW)
        return NAN;
    row = row_of(reader, reader->chosen[quantity]);
    if (row->has_bad_value) {
        note_bad_value(reader, row, result);
        return NAN;
    }
    value = row->value * row->name->scale + row->plus;
    return quantity == LULL_METRICS_CACHE ? fmin(value, 1.0) : value;
}

/* Copies the buckets that all series have: a bound that only some have misses values of the others.
 */
static void histogram_copy(const struct lull_metrics_histogram *from, double scale,
                           struct lull_serving_histogram *to)
{
    const struct lull_metrics_bucket *const last = &from->buckets[from->count - 1];

    for (uint32_t i = 0; i < from->count; i++) {
        const struct lull_metrics_bucket *const bucket = &from->buckets[i];
        const bool is_last = i + 1 == from->count;

        if (bucket->series != last->series || (!is_last && to->count == LULL_SERVING_BUCKETS - 1))
            continue;
        to->bound_s[to->count] = bucket->bound * scale;
        to->total[to->count++] = bucket->total;
    }
    to->sum_s = from->sum * scale;
}

static bool histogram_is_sound(const struct lull_serving_histogram *histogram)
{
    for (uint32_t i = 1; i < histogram->count; i++)
        if (histogram->total[i] < histogram->total[i - 1])
            return false;
    return histogram->count > 0 && isinf(histogram->bound_s[histogram->count - 1]);
}

static void read_histogram(const struct lull_metrics_reader *reader,
                           enum lull_metrics_quantity quantity, struct lull_metrics_result *result,
                           struct lull_serving_histogram *histogram_out)
{
    struct lull_serving_histogram histogram = {0};
    const struct lull_metrics_row *row;

    *histogram_out = histogram;
    if (reader->chosen[quantity] == NO_ROW)
        return;
    row = row_of(reader, reader->chosen[quantity]);
    if (row->has_bad_value) {
        note_bad_value(reader, row, result);
        return;
    }
    if (row->histogram->count > 0)
        histogram_copy(row->histogram, row->name->scale, &histogram);
    if (histogram_is_sound(&histogram)) {
        *histogram_out = histogram;
        return;
    }
    result_note(result, LULL_METRICS_NOTE_VALUE, quantity,
                "the buckets of %s do not rise up to +Inf, which is impossible: %s",
                row->name->name, cost_of(reader, quantity));
}

/* Bounds a latency without a histogram by other quantities. */
static void stand_in(struct lull_metrics_reader *reader, struct lull_metrics_result *result)
{
    struct lull_serving_reading *const reading = &result->reading;
    struct lull_request_times times = {.finished = reading->finished,
                                       .alive = reading->running + reading->waiting,
                                       .between = reading->itl};
    const bool had_ttft = reader->ttft.sources != 0;
    const bool had_tpot = reader->tpot.sources != 0;
    bool has_begun = false;

    read_histogram(reader, LULL_METRICS_DECODE_TIME, result, &times.decode);
    read_histogram(reader, LULL_METRICS_ANSWER_TOKENS, result, &times.answer);
    read_histogram(reader, LULL_METRICS_QUEUE_TIME, result, &times.queue);
    read_histogram(reader, LULL_METRICS_PREFILL_TIME, result, &times.prefill);
    if (reader->chosen[LULL_METRICS_TTFT] != NO_ROW)
        reader->ttft.sources = 0;
    else
        has_begun |= lull_latency_bound_ttft(&reader->ttft, &times, &reading->ttft) && had_ttft;
    if (reader->chosen[LULL_METRICS_TPOT] != NO_ROW)
        reader->tpot.sources = 0;
    else
        has_begun |=
            lull_latency_bound_tpot(&reader->tpot, &times, &reading->tpot, &reading->likely_tpot) &&
            had_tpot;
    reading->is_restarted |= has_begun;
}

static void read_values(struct lull_metrics_reader *reader, int64_t time_ns,
                        struct lull_metrics_result *result)
{
    struct lull_serving_reading *const reading = &result->reading;
    const int running = reader->chosen[LULL_METRICS_RUNNING];

    *reading = (struct lull_serving_reading){
        .time_ns = time_ns,
        .is_restarted = reading->is_restarted,
        .running = read_scalar(reader, LULL_METRICS_RUNNING, result),
        .waiting = read_scalar(reader, LULL_METRICS_WAITING, result),
        .cache_ratio = read_scalar(reader, LULL_METRICS_CACHE, result),
        .prompt_tokens = read_scalar(reader, LULL_METRICS_PROMPT_TOKENS, result),
        .output_tokens = read_scalar(reader, LULL_METRICS_OUTPUT_TOKENS, result),
        .finished = read_scalar(reader, LULL_METRICS_FINISHED, result),
        .steps = read_scalar(reader, LULL_METRICS_STEPS, result),
    };
    if (running != NO_ROW && row_of(reader, running)->name->counts_waiting &&
        isfinite(reading->waiting))
        reading->running = fmax(reading->running - reading->waiting, 0.0);
    read_histogram(reader, LULL_METRICS_TTFT, result, &reading->ttft);
    read_histogram(reader, LULL_METRICS_TPOT, result, &reading->tpot);
    read_histogram(reader, LULL_METRICS_ITL, result, &reading->itl);
    stand_in(reader, result);
}

/* ---- changes since the page before --------------------------------------------------------- */

static bool is_counter(enum lull_metrics_quantity quantity)
{
    return quantity > LULL_METRICS_CACHE;
}

/* Chooses the rows of this page and notes those that replace others. */
static void choose_rows(struct lull_metrics_reader *reader, struct lull_metrics_result *result)
{
    int before[LULL_METRICS_QUANTITIES];

    memcpy(before, reader->chosen, sizeof(before));
    for (int q = 0; q < LULL_METRICS_QUANTITIES; q++)
        reader->chosen[q] =
            choose_row(reader->page, (uint32_t)reader->engine, (enum lull_metrics_quantity)q);
    for (int q = 0; q < LULL_METRICS_QUANTITIES; q++) {
        const enum lull_metrics_quantity quantity = (enum lull_metrics_quantity)q;
        const int now = reader->chosen[q];

        if (now != NO_ROW && before[q] != NO_ROW && now != before[q]) {
            result_note(result, LULL_METRICS_NOTE_RENAMED, quantity, "%s replaces %s on the page",
                        row_of(reader, now)->name->name, row_of(reader, before[q])->name->name);
            result->reading.is_restarted |= is_counter(quantity);
        }
        if (now == NO_ROW && before[q] != NO_ROW)
            reader->was_seen[q] = true;
    }
}

/* The first name of a quantity of the server's kind; NULL: it never has one. */
static const char *name_of(const struct lull_metrics_reader *reader,
                           enum lull_metrics_quantity quantity)
{
    const struct lull_metrics_engine *const engine = reader->names->engines[reader->engine];

    for (uint32_t i = 0; i < engine->count; i++)
        if (engine->names[i].quantity == quantity)
            return engine->names[i].name;
    return NULL;
}

/* Notes a quantity that the server's kind has under this name, but the page does not. */
static void note_absent(const struct lull_metrics_reader *reader,
                        enum lull_metrics_quantity quantity, const char *name,
                        struct lull_metrics_result *result)
{
    const struct lull_metrics_engine *const engine = reader->names->engines[reader->engine];
    const bool has_hint =
        engine->hint != NULL && (quantity == LULL_METRICS_RUNNING || quantity == LULL_METRICS_TTFT);

    result_note(result, LULL_METRICS_NOTE_MISSING, quantity, "%s is not on the page of %s: %s%s%s",
                name, engine->name, cost_of(reader, quantity), has_hint ? "; " : "",
                has_hint ? engine->hint : "");
}

static void note_missing(const struct lull_metrics_reader *reader, int64_t time_ns,
                         struct lull_metrics_result *result)
{
    const char *const engine = reader->names->engines[reader->engine]->name;
    const bool may_appear =
        reader->work_since_ns == 0 || time_ns - reader->work_since_ns < appear_ns;

    for (int q = 0; q < LULL_METRICS_QUANTITIES; q++) {
        const enum lull_metrics_quantity quantity = (enum lull_metrics_quantity)q;
        const char *const name = name_of(reader, quantity);

        if (reader->chosen[q] != NO_ROW || quantity > LULL_METRICS_ITL)
            continue;
        if (quantity == LULL_METRICS_ITL && reader->chosen[LULL_METRICS_TPOT] != NO_ROW)
            continue;
        if (name == NULL)
            result_note(result, LULL_METRICS_NOTE_MISSING, quantity, "%s has no metric of %s: %s",
                        engine, quantities[q].what, cost_of(reader, quantity));
        else if (reader->was_seen[q])
            result_note(result, LULL_METRICS_NOTE_VANISHED, quantity,
                        "%s vanished from the page of %s: %s", name, engine,
                        cost_of(reader, quantity));
        else if (quantity == LULL_METRICS_RUNNING || !may_appear)
            note_absent(reader, quantity, name, result);
    }
}

static bool histogram_has_bounds(const struct lull_serving_histogram *a,
                                 const struct lull_serving_histogram *b)
{
    return a->count == b->count &&
           memcmp(a->bound_s, b->bound_s, a->count * sizeof(a->bound_s[0])) == 0;
}

static void note_buckets(const struct lull_metrics_reader *reader,
                         enum lull_metrics_quantity quantity,
                         const struct lull_serving_histogram *before,
                         const struct lull_serving_histogram *now,
                         struct lull_metrics_result *result)
{
    const int row = reader->chosen[quantity];

    if (before->count == 0 || now->count == 0 || histogram_has_bounds(before, now))
        return;
    result->reading.is_restarted = true;
    result_note(result, LULL_METRICS_NOTE_BUCKETS, quantity,
                "the buckets of %s changed: counting begins again",
                row != NO_ROW ? row_of(reader, row)->name->name : quantities[quantity].what);
}

/* Notes a counter that fell, or came back. One note is enough: a restart resets all. */
static void note_resets(const struct lull_metrics_reader *reader,
                        struct lull_metrics_result *result)
{
    bool is_noted = false;

    for (int q = LULL_METRICS_CACHE + 1; q < LULL_METRICS_QUANTITIES; q++) {
        const enum lull_metrics_quantity quantity = (enum lull_metrics_quantity)q;
        const struct lull_metrics_row *row;

        if (reader->chosen[q] == NO_ROW)
            continue;
        row = row_of(reader, reader->chosen[q]);
        if (!row->has_fallen && !row->is_back)
            continue;
        result->reading.is_restarted = true;
        if (!is_noted && row->has_fallen)
            result_note(result, LULL_METRICS_NOTE_RESET, quantity,
                        "%s fell from %.6g to %.6g: counting begins again", row->name->name,
                        row->fallen_from, row->fallen_to);
        else if (!is_noted)
            result_note(result, LULL_METRICS_NOTE_RESET, quantity,
                        "%s came back to the page: counting begins again", row->name->name);
        is_noted = true;
    }
}

/* Returns whether a sum is below the one before because a series of it left the page. */
static bool has_lost_series(double before, double now)
{
    return isfinite(before) && isfinite(now) && now < before;
}

static void note_losses(const struct lull_metrics_reader *reader,
                        struct lull_metrics_result *result)
{
    const struct lull_serving_reading *const before = &reader->reading;
    const struct lull_serving_reading *const now = &result->reading;
    const struct {
        enum lull_metrics_quantity quantity;
        double before;
        double now;
    } sums[] = {
        {LULL_METRICS_PROMPT_TOKENS, before->prompt_tokens, now->prompt_tokens},
        {LULL_METRICS_OUTPUT_TOKENS, before->output_tokens, now->output_tokens},
        {LULL_METRICS_FINISHED, before->finished, now->finished},
        {LULL_METRICS_STEPS, before->steps, now->steps},
    };

    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
        if (result->reading.is_restarted || !has_lost_series(sums[i].before, sums[i].now))
            continue;
        result->reading.is_restarted = true;
        result_note(result, LULL_METRICS_NOTE_RESET, sums[i].quantity,
                    "%s fell from %.6g to %.6g: counting begins again",
                    row_of(reader, reader->chosen[sums[i].quantity])->name->name, sums[i].before,
                    sums[i].now);
    }
}

static void note_restart(struct lull_metrics_reader *reader, struct lull_metrics_result *result)
{
    const double now = reader->page->start_s;

    if (isfinite(now) && isfinite(reader->start_s) && fabs(now - reader->start_s) >= start_s) {
        result->reading.is_restarted = true;
        result_note(result, LULL_METRICS_NOTE_RESTART, LULL_METRICS_RUNNING,
                    "%s restarted (process_start_time_seconds changed): counting begins again",
                    reader->names->engines[reader->engine]->name);
    }
    if (isfinite(now))
        reader->start_s = now;
}

static void compare_pages(struct lull_metrics_reader *reader, struct lull_metrics_result *result)
{
    const struct lull_serving_reading *const before = &reader->reading;
    const struct lull_serving_reading *const now = &result->reading;

    note_restart(reader, result);
    if (!reader->has_reading)
        return;
    if (!result->reading.is_restarted)
        note_resets(reader, result);
    note_losses(reader, result);
    note_buckets(reader, LULL_METRICS_TTFT, &before->ttft, &now->ttft, result);
    note_buckets(reader, LULL_METRICS_TPOT, &before->tpot, &now->tpot, result);
    note_buckets(reader, LULL_METRICS_ITL, &before->itl, &now->itl, result);
}

static void judge_lag(struct lull_metrics_reader *reader, int64_t time_ns, double wall_s,
                      struct lull_metrics_result *result)
{
    const struct lull_metrics_page *const page = reader->page;
    const struct lull_metrics_look look = {.time_ns = time_ns,
                                           .hash = page->groups[reader->engine].hash,
                                           .running = result->reading.running,
                                           .cpu_s = page->is_python ? page->cpu_s : (double)NAN,
                                           .age_s = wall_s - page->stamp_s};
    const enum lull_metrics_lag_reason reason = lull_metrics_lag_judge(&reader->lag, &look);

    result->is_lagging = reason != LULL_METRICS_LAG_NONE;
    if (reason == LULL_METRICS_LAG_STAMPS)
        result_note(result, LULL_METRICS_NOTE_LAG, LULL_METRICS_RUNNING,
                    "the samples of the page are %.0f s old, so no clock is lowered by load; "
                    "give the address of the server itself",
                    look.age_s);
    else if (result->is_lagging)
        result_note(result, LULL_METRICS_NOTE_LAG, LULL_METRICS_RUNNING,
                    "the page is old: it did not change for over %.0f s although %s, so no clock "
                    "is lowered by load; if the server does not hang, give its own address, "
                    "without a cache in between",
                    lull_metrics_lag_limit_s(),
                    reason == LULL_METRICS_LAG_WORK ? "requests run" : "the server renders it");
}

/* ---- pages --------------------------------------------------------------------------------- */

static bool page_is_whole(const char *page, size_t size)
{
    static const char mark[] = "# EOF";
    const size_t length = sizeof(mark) - 1;

    if (size > 0 && page[size - 1] == '\n')
        return true;
    return size >= length && memcmp(page + size - length, mark, length) == 0;
}

/* Refuses what is certainly not a page of metrics. */
static int check_form(const char *page, size_t size, struct lull_error *err)
{
    size_t at = 0;

    while (at < size && isspace((unsigned char)page[at]))
        at++;
    if (at == size)
        return lull_error_set(err, LULL_E_FORMAT,
                              "the page is empty; does the server publish metrics?");
    if (page[at] == '<')
        return lull_error_set(err, LULL_E_FORMAT,
                              "the page is HTML, not Prometheus' text format; give the address of "
                              "the metrics, such as http://localhost:8000/metrics");
    if (page[at] == '[' || page[at] == '"' ||
        (page[at] == '{' && at + 1 < size && page[at + 1] != '"'))
        return lull_error_set(err, LULL_E_FORMAT,
                              "the page is JSON, not Prometheus' text format; trtllm-serve has "
                              "that at /prometheus/metrics");
    if (!page_is_whole(page, size))
        return lull_error_set(err, LULL_E_FORMAT,
                              "the page ends inside a line: the answer is incomplete");
    return 0;
}

static void note_bad_lines(const struct lull_prometheus_page *page,
                           struct lull_metrics_result *result)
{
    if (page->bad_lines > 0)
        result_note(result, LULL_METRICS_NOTE_BAD_LINE, LULL_METRICS_RUNNING,
                    "invalid lines on the page: %llu; the first is line %llu (%s); they are left "
                    "out",
                    (unsigned long long)page->bad_lines, (unsigned long long)page->bad_line,
                    page->bad_reason);
}

/* Takes the engine that the page is of. */
static void take_engine(struct lull_metrics_reader *reader, int engine,
                        struct lull_metrics_result *result)
{
    if (reader->engine != NO_ENGINE && reader->engine != engine) {
        result->reading.is_restarted = true;
        result_note(result, LULL_METRICS_NOTE_RESTART, LULL_METRICS_RUNNING,
                    "the page is now of %s, it was of %s: counting begins again",
                    reader->names->engines[engine]->name,
                    reader->names->engines[reader->engine]->name);
        for (int q = 0; q < LULL_METRICS_QUANTITIES; q++) {
            reader->chosen[q] = NO_ROW;
            reader->was_seen[q] = false;
        }
    }
    reader->engine = engine;
}

int lull_metrics_reader_read(struct lull_metrics_reader *reader, const char *page, size_t size,
                             int64_t time_ns, double wall_s, struct lull_metrics_result *result_out,
                             struct lull_error *err)
{
    struct lull_metrics_result *const result = result_out;
    struct lull_prometheus_page parsed;
    int code = check_form(page, size, err);
    int engine;

    if (code < 0)
        return code;
    lull_metrics_page_begin(reader->page);
    code = lull_prometheus_read(page, size, lull_metrics_page_take, reader->page, &parsed, err);
    if (code < 0)
        return code;
    engine = choose_engine(reader);
    if (engine == NO_ENGINE)
        return refuse_unknown(reader, &parsed, err);
    memset(result, 0, sizeof(*result));
    take_engine(reader, engine, result);
    result->engine = reader->names->engines[engine]->name;
    choose_rows(reader, result);
    read_values(reader, time_ns, result);
    if (reader->work_since_ns == 0 && result->reading.running > 0.0)
        reader->work_since_ns = time_ns;
    note_missing(reader, time_ns, result);
    compare_pages(reader, result);
    judge_lag(reader, time_ns, wall_s, result);
    note_bad_lines(&parsed, result);
    reader->reading = result->reading;
    reader->has_reading = true;
    return 0;
}

struct lull_metrics_reader *lull_metrics_reader_create(const struct lull_metrics_names *names)
{
    struct lull_metrics_reader *reader = calloc(1, sizeof(*reader));

    if (reader == NULL)
        return NULL;
    reader->page = lull_metrics_page_create(names);
    if (reader->page == NULL) {
        free(reader);
        return NULL;
    }
    reader->names = names;
    reader->engine = NO_ENGINE;
    reader->start_s = NAN;
    for (int q = 0; q < LULL_METRICS_QUANTITIES; q++)
        reader->chosen[q] = NO_ROW;
    return reader;
}

void lull_metrics_reader_destroy(struct lull_metrics_reader *reader)
{
    if (reader == NULL)
        return;
    lull_metrics_page_destroy(reader->page);
    free(reader);
}
