/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/serving/metrics_fetch.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "governor/serving/metrics_http.h"
#include "governor/serving/metrics_reading.h"

/* The server makes pages in at most one part of so many of its time: a period is longer if a page
 * takes more. Fewer disturb the server more, more see a burst later. */
enum { PAGE_SHARE = 5 };

/* The time limit of a request, and the distance of requests that fail, in periods. A smaller number
 * makes a server that is slow for a moment produce a page twice. A larger number finds a returning
 * server later. A late page is not used, but does no harm.
 */
enum { MOST_PERIODS = 10 };

/* So many slow pages in a row are reported: one may be slow because of the host. */
enum { SLOW_PAGES = 10 };

/* The same message comes again after this time at the earliest. */
static const int64_t repeat_ns = 60 * LULL_NS_PER_S;

enum { MESSAGES = 32 };

struct lull_metrics {
    char shown[128]; /* the address in messages */
    struct lull_metrics_names names;
    struct lull_metrics_http *http;
    struct lull_metrics_reader *reader;
    int64_t period_ns;
    uint32_t unused;
    int64_t starting_ns; /* before this time the server may be starting */
    bool only_parks;
    pthread_t thread;
    int event; /* readable: something can be taken */
    /* the thread's */
    int64_t last_ns;     /* time of the last page */
    int64_t page_ns;     /* time of a page: of a slow one for some pages */
    uint32_t slow_count; /* slow pages in a row */
    int failure;         /* code of the last request; 0: it succeeded */
    int64_t failed_ns;   /* when requests began to fail */
    bool is_reported;    /* that they fail */
    int reported_failure;
    int64_t failure_reported_ns;
    int64_t slow_reported_ns;
    bool is_active[LULL_METRICS_NOTE_KINDS][LULL_METRICS_QUANTITIES]; /* on the last page */
    int64_t noted_ns[LULL_METRICS_NOTE_KINDS][LULL_METRICS_QUANTITIES];
    struct lull_metrics_result result;
    /* shared */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t stop;
    bool is_stopping;
    bool has_reading;
    bool is_restarted; /* a page has shown so since the last reading was taken */
    struct lull_serving_reading reading;
    struct lull_metrics_state state;
    uint32_t first_message;
    uint32_t message_count;
    char messages[MESSAGES][LULL_METRICS_SENTENCE_BYTES];
};

/* ---- messages ------------------------------------------------------------------------------ */

static void metrics_signal(struct lull_metrics *metrics)
{
    const uint64_t one = 1;

    if (write(metrics->event, &one, sizeof(one)) < 0)
        return; /* it is readable already */
}

/* Queues a message; the oldest one goes if there are too many. */
static void __attribute__((format(printf, 2, 3)))
metrics_report(struct lull_metrics *metrics, const char *format, ...)
{
    char text[LULL_METRICS_SENTENCE_BYTES];
    const int begun = snprintf(text, sizeof(text), "%s: ", metrics->shown);
    va_list arguments;
    uint32_t at;

    va_start(arguments, format);
    vsnprintf(text + begun, sizeof(text) - (size_t)begun, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&metrics->lock);
    if (metrics->message_count == MESSAGES) {
        metrics->first_message = (metrics->first_message + 1) % MESSAGES;
        metrics->message_count--;
    }
    at = (metrics->first_message + metrics->message_count++) % MESSAGES;
    memcpy(metrics->messages[at], text, sizeof(text));
    pthread_mutex_unlock(&metrics->lock);
    metrics_signal(metrics);
}

/* Reports the notes of a page that were not on the one before, each once in a while. */
static void metrics_report_notes(struct lull_metrics *metrics, int64_t now_ns)
{
    const struct lull_metrics_result *const result = &metrics->result;
    bool is_active[LULL_METRICS_NOTE_KINDS][LULL_METRICS_QUANTITIES] = {0};

    for (uint32_t i = 0; i < result->note_count; i++) {
        const struct lull_metrics_note *const note = &result->notes[i];
        int64_t *const noted_ns = &metrics->noted_ns[note->kind][note->quantity];

        if ((metrics->unused >> note->quantity & 1) != 0)
            continue;
        is_active[note->kind][note->quantity] = true;
        if (metrics->is_active[note->kind][note->quantity] ||
            (*noted_ns != 0 && now_ns - *noted_ns < repeat_ns))
            continue;
        *noted_ns = now_ns;
        metrics_report(metrics, "%s", note->text);
    }
    memcpy(metrics->is_active, is_active, sizeof(is_active));
}

/* Reports that pages are slow, and how often they are read therefore. */
static void metrics_report_slow(struct lull_metrics *metrics, int64_t distance_ns, int64_t now_ns)
{
    if (distance_ns <= metrics->period_ns) {
        metrics->slow_count = 0;
        return;
    }
    if (++metrics->slow_count < SLOW_PAGES)
        return;
    if (metrics->slow_reported_ns != 0 && now_ns - metrics->slow_reported_ns < repeat_ns)
        return;
    metrics->slow_reported_ns = now_ns;
    metrics_report(metrics,
                   "a page takes %.0f ms, more than a fifth of the period of %.0f ms; Lull reads "
                   "one each %.0f ms, so that the server loses little time",
                   lull_ms_from_ns(metrics->page_ns), lull_ms_from_ns(metrics->period_ns),
                   lull_ms_from_ns(distance_ns));
}

/* ---- one page ------------------------------------------------------------------------------ */

/* Returns what missing metrics mean. */
static const char *metrics_loss(const struct lull_metrics *metrics)
{
    if (metrics->only_parks)
        return "without metrics only the GPUs' own readings show work";
    if (metrics->state.pages == 0)
        return "until a page comes, idle GPUs are parked and nothing else is lowered";
    return "without metrics the clock stays the highest";
}

/* Makes a reading available. A restart counts until a reading is taken, also one that an old page
 * showed. */
static void metrics_publish(struct lull_metrics *metrics, int64_t distance_ns)
{
    const struct lull_metrics_result *const result = &metrics->result;
    const bool is_lagging = result->is_lagging;
    struct lull_metrics_state *const state = &metrics->state;

    pthread_mutex_lock(&metrics->lock);
    metrics->has_reading = !is_lagging;
    metrics->is_restarted |= result->reading.is_restarted;
    metrics->reading = result->reading;
    metrics->reading.is_restarted = metrics->is_restarted;
    state->phase = is_lagging ? LULL_METRICS_LAGGING : LULL_METRICS_READING;
    state->engine = result->engine;
    state->pages++;
    state->page_ns = metrics->page_ns;
    state->distance_ns = distance_ns;
    if (is_lagging)
        snprintf(state->sentence, sizeof(state->sentence), "%s: the pages of %s are old; %s",
                 metrics->shown, result->engine, metrics_loss(metrics));
    else
        snprintf(state->sentence, sizeof(state->sentence),
                 "%s: reads the metrics of %s each %.0f ms", metrics->shown, result->engine,
                 lull_ms_from_ns(distance_ns));
    pthread_mutex_unlock(&metrics->lock);
    if (!is_lagging)
        metrics_signal(metrics);
}

/* Returns whether a server that has not answered yet may still be starting. */
static bool metrics_is_starting(const struct lull_metrics *metrics, const struct lull_error *error,
                                int64_t now_ns)
{
    return metrics->state.pages == 0 && now_ns < metrics->starting_ns &&
           (error->code == -ECONNREFUSED || error->code == -EAGAIN);
}

/* Takes a failed request into account. */
static void metrics_fail(struct lull_metrics *metrics, const struct lull_error *error,
                         int64_t distance_ns, int64_t now_ns)
{
    const bool is_starting = metrics_is_starting(metrics, error, now_ns);

    if (metrics->failure == 0)
        metrics->failed_ns = now_ns;
    metrics->failure = error->code;
    pthread_mutex_lock(&metrics->lock);
    metrics->state.failures++;
    metrics->state.distance_ns = distance_ns;
    metrics->state.phase =
        metrics->state.pages > 0 ? LULL_METRICS_FAILING : LULL_METRICS_CONNECTING;
    if (is_starting)
        snprintf(metrics->state.sentence, sizeof(metrics->state.sentence),
                 "%s: waits for the server to start", metrics->shown);
    else
        snprintf(metrics->state.sentence, sizeof(metrics->state.sentence), "%s: %.240s; %s",
                 metrics->shown, error->text, metrics_loss(metrics));
    pthread_mutex_unlock(&metrics->lock);
    if (is_starting)
        return;
    if (metrics->failure_reported_ns != 0 && metrics->reported_failure == error->code &&
        now_ns - metrics->failure_reported_ns < repeat_ns)
        return;
    metrics->failure_reported_ns = now_ns;
    metrics->reported_failure = error->code;
    metrics->is_reported = true;
    metrics_report(metrics, "%.240s; %s", error->text, metrics_loss(metrics));
}

static void metrics_recover(struct lull_metrics *metrics, int64_t now_ns)
{
    if (metrics->failure == 0)
        return;
    metrics->failure = 0;
    if (metrics->is_reported)
        metrics_report(metrics, "the server answers, after %.1f s without metrics",
                       (double)(now_ns - metrics->failed_ns) * 1e-9);
    metrics->is_reported = false;
}

/* Time from a request to the next one: longer while pages are slow, or requests fail. */
static int64_t metrics_distance(const struct lull_metrics *metrics, int64_t before_ns)
{
    const int64_t most_ns = MOST_PERIODS * metrics->period_ns;

    if (metrics->failure != 0)
        return lull_earlier_ns(2 * before_ns, most_ns);
    return lull_later_ns(PAGE_SHARE * metrics->page_ns, metrics->period_ns);
}

/* One slow page in a row may be the host's: the faster one of two counts. */
static void metrics_take_time(struct lull_metrics *metrics, int64_t page_ns)
{
    const int64_t faster_ns = lull_earlier_ns(page_ns, metrics->last_ns);

    metrics->last_ns = page_ns;
    metrics->page_ns = lull_later_ns(faster_ns, metrics->page_ns - metrics->page_ns / 8);
}

static double wall_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Requests a page and reads it. Returns the time from this request to the next one. */
static int64_t metrics_fetch(struct lull_metrics *metrics, int64_t distance_ns)
{
    const int64_t begin_ns = lull_now_ns();
    struct lull_metrics_answer answer;
    struct lull_error error = {0};
    int64_t now_ns;
    int result =
        lull_metrics_http_get(metrics->http, MOST_PERIODS * metrics->period_ns, &answer, &error);

    now_ns = lull_now_ns();
    if (result == 0)
        metrics_take_time(metrics, now_ns - begin_ns);
    if (result == 0)
        result = lull_metrics_reader_read(metrics->reader, answer.page, answer.size, answer.time_ns,
                                          wall_s(), &metrics->result, &error);
    if (result < 0) {
        metrics_fail(metrics, &error, distance_ns, now_ns);
        return metrics_distance(metrics, distance_ns);
    }
    metrics_recover(metrics, now_ns);
    distance_ns = metrics_distance(metrics, distance_ns);
    metrics_report_notes(metrics, now_ns);
    metrics_report_slow(metrics, distance_ns, now_ns);
    metrics_publish(metrics, distance_ns);
    return distance_ns;
}

/* ---- the thread ---------------------------------------------------------------------------- */

static bool metrics_wait(struct lull_metrics *metrics, int64_t until_ns)
{
    const struct timespec until = lull_timespec_from_ns(until_ns);
    bool is_stopping;

    pthread_mutex_lock(&metrics->lock);
    while (!metrics->is_stopping &&
           pthread_cond_timedwait(&metrics->stop, &metrics->lock, &until) != ETIMEDOUT)
        continue;
    is_stopping = metrics->is_stopping;
    pthread_mutex_unlock(&metrics->lock);
    return !is_stopping;
}

static void *metrics_run(void *argument)
{
    struct lull_metrics *const metrics = argument;
    int64_t distance_ns = metrics->period_ns;
    int64_t next_ns = lull_now_ns();

    while (metrics_wait(metrics, next_ns)) {
        const int64_t begin_ns = lull_now_ns();

        distance_ns = metrics_fetch(metrics, distance_ns);
        /* At an even distance, without a second request to make up for a late one. */
        next_ns = lull_later_ns(next_ns + distance_ns, begin_ns + distance_ns / 2);
        if (metrics->failure != 0)
            next_ns = lull_now_ns() + distance_ns;
    }
    return NULL;
}

/* ---- its owner ----------------------------------------------------------------------------- */

static void metrics_free(struct lull_metrics *metrics)
{
    lull_metrics_reader_destroy(metrics->reader);
    lull_metrics_http_close(metrics->http);
    lull_metrics_names_close(&metrics->names);
    if (metrics->event >= 0)
        close(metrics->event);
    free(metrics);
}

static int metrics_prepare(struct lull_metrics *metrics, const struct lull_metrics_config *config,
                           struct lull_error *err)
{
    struct lull_metrics_address address;
    int result = lull_metrics_address_parse(config->address, &address, err);

    if (result == 0)
        result = lull_metrics_names_open(config->names_path, &metrics->names, err);
    if (result == 0)
        result = lull_metrics_http_open(&address, &metrics->http, err);
    if (result < 0)
        return result;
    metrics->period_ns = config->period_ns;
    metrics->unused = config->unused;
    metrics->starting_ns = lull_now_ns() + config->start_ns;
    metrics->only_parks = config->only_parks;
    snprintf(metrics->shown, sizeof(metrics->shown), "%s", config->address);
    metrics->reader = lull_metrics_reader_create(&metrics->names);
    metrics->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (metrics->reader == NULL || metrics->event < 0)
        return lull_error_set(err, -ENOMEM, "no memory or descriptor to read metrics");
    metrics->state.phase = LULL_METRICS_CONNECTING;
    metrics->state.distance_ns = config->period_ns;
    snprintf(metrics->state.sentence, sizeof(metrics->state.sentence),
             "%s: waits for the first page", metrics->shown);
    return 0;
}

int lull_metrics_open(const struct lull_metrics_config *config, struct lull_metrics **metrics_out,
                      struct lull_error *err)
{
    struct lull_metrics *metrics = calloc(1, sizeof(*metrics));
    int result;

    if (metrics == NULL)
        return lull_error_set(err, -ENOMEM, "no memory to read metrics");
    metrics->event = -1;
    result = metrics_prepare(metrics, config, err);
    if (result < 0) {
        metrics_free(metrics);
        return result;
    }
    pthread_mutex_init(&metrics->lock, NULL);
    lull_thread_init_condition(&metrics->stop);
    result = lull_thread_start(&metrics->thread, metrics_run, metrics);
    if (result < 0) {
        pthread_cond_destroy(&metrics->stop);
        pthread_mutex_destroy(&metrics->lock);
        metrics_free(metrics);
        return lull_error_set(err, result, "cannot start the thread that reads metrics: %s",
                              strerror(-result));
    }
    *metrics_out = metrics;
    return 0;
}

void lull_metrics_close(struct lull_metrics *metrics)
{
    if (metrics == NULL)
        return;
    pthread_mutex_lock(&metrics->lock);
    metrics->is_stopping = true;
    pthread_cond_signal(&metrics->stop);
    pthread_mutex_unlock(&metrics->lock);
    pthread_join(metrics->thread, NULL);
    pthread_cond_destroy(&metrics->stop);
    pthread_mutex_destroy(&metrics->lock);
    metrics_free(metrics);
}

int lull_metrics_descriptor(const struct lull_metrics *metrics)
{
    return metrics->event;
}

/* Clears the descriptor once nothing is left to take; locked. */
static void metrics_drain(struct lull_metrics *metrics)
{
    uint64_t count;

    if (!metrics->has_reading && metrics->message_count == 0 &&
        read(metrics->event, &count, sizeof(count)) < 0)
        return; /* it is not readable */
}

bool lull_metrics_take(struct lull_metrics *metrics, struct lull_serving_reading *reading_out)
{
    bool has_reading;

    pthread_mutex_lock(&metrics->lock);
    has_reading = metrics->has_reading;
    if (has_reading) {
        *reading_out = metrics->reading;
        metrics->is_restarted = false;
    }
    metrics->has_reading = false;
    metrics_drain(metrics);
    pthread_mutex_unlock(&metrics->lock);
    return has_reading;
}

bool lull_metrics_take_message(struct lull_metrics *metrics,
                               char text_out[LULL_METRICS_SENTENCE_BYTES])
{
    bool has_message;

    pthread_mutex_lock(&metrics->lock);
    has_message = metrics->message_count > 0;
    if (has_message) {
        memcpy(text_out, metrics->messages[metrics->first_message], LULL_METRICS_SENTENCE_BYTES);
        metrics->first_message = (metrics->first_message + 1) % MESSAGES;
        metrics->message_count--;
    }
    metrics_drain(metrics);
    pthread_mutex_unlock(&metrics->lock);
    return has_message;
}

void lull_metrics_state(struct lull_metrics *metrics, struct lull_metrics_state *state_out)
{
    pthread_mutex_lock(&metrics->lock);
    *state_out = metrics->state;
    pthread_mutex_unlock(&metrics->lock);
}
