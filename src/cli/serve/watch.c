/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "cli/serve/history.h"
#include "cli/serve/json_text.h"
#include "cli/serve/live_page.h"
#include "cli/serve/node.h"
#include "cli/serve/run_list.h"
#include "governor/report/report_fields.h"

/* Interval of reading the folder of runs. */
static const int64_t runs_ns = 5 * LULL_NS_PER_S;
/* And after their file system did not answer, which has held up the GPUs' figures by 2 s. */
static const int64_t hung_runs_ns = 60 * LULL_NS_PER_S;

struct frame {
    struct lull_serve_frame shown; /* first, so that the one is found from the other */
    uint32_t holders;              /* guarded by the watch's lock */
    char text[];
};

struct lull_serve_watch {
    struct lull_serve_watch_options options;
    struct lull_serve_node *node;         /* of the thread alone */
    struct lull_serve_run_list *run_list; /* likewise */
    int64_t runs_due_ns;                  /* when they are looked for next */
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool is_stopping;
    json_t *document; /* NULL: there is none yet */
    int64_t document_ns;
    json_t *runs;
    struct lull_serve_history history;
    int64_t history_ns; /* of its newest value; 0: there is none */
    uint32_t viewers[LULL_SERVE_VIEWS];
    bool is_waited_for; /* a viewer has come who has seen nothing yet */
    uint64_t frame_number;
    struct frame *frames[LULL_SERVE_VIEWS];
    uint64_t counts[LULL_SERVE_COUNTS];
};

/* ---- frames ------------------------------------------------------------------------------ */

static void frame_release(struct frame *frame)
{
    if (frame != NULL && --frame->holders == 0)
        free(frame);
}

/* Makes an event of a stream; NULL: out of memory. */
static struct frame *make_frame(uint64_t number, const char *event, const char *data,
                                size_t data_size)
{
    char head[64];
    const int head_size = snprintf(
        head, sizeof(head), "id: %llu\nevent: %s\ndata: ", (unsigned long long)number, event);
    const size_t whole = (size_t)head_size + data_size + 2;
    struct frame *const frame = malloc(sizeof(*frame) + whole + 1);

    if (frame == NULL)
        return NULL;
    snprintf(frame->text, whole + 1, "%s%s\n\n", head, data);
    frame->shown = (struct lull_serve_frame){number, whole, frame->text};
    frame->holders = 1;
    return frame;
}

static char *page_as_text(struct lull_serve_watch *watch, size_t *size_out)
{
    char *html = NULL;
    char *text = NULL;
    size_t size = 0;
    FILE *const file = open_memstream(&html, &size);

    if (file == NULL)
        return NULL;
    lull_serve_watch_write_page(watch, file);
    if (fclose(file) == 0)
        text = lull_serve_json_quote(html, size, size_out);
    free(html);
    return text;
}

/* Makes the frames of views that have a viewer. The caller holds the lock. */
static bool make_frames(struct lull_serve_watch *watch)
{
    static const char *const events[] = {"node", "page"};
    bool is_any = false;

    for (uint32_t view = 0; view < LULL_SERVE_VIEWS; view++) {
        char *text;
        size_t size;
        struct frame *frame = NULL;

        if (watch->viewers[view] == 0)
            continue;
        text = view == LULL_SERVE_JSON ? lull_serve_json_text(watch->document, &size)
                                       : page_as_text(watch, &size);
        if (text != NULL)
            frame = make_frame(++watch->frame_number, events[view], text, size);
        free(text);
        if (frame == NULL)
            continue;
        frame_release(watch->frames[view]);
        watch->frames[view] = frame;
        is_any = true;
    }
    return is_any;
}

struct lull_serve_frame *lull_serve_watch_take(struct lull_serve_watch *watch,
                                               enum lull_serve_view view, uint64_t after)
{
    struct lull_serve_frame *taken = NULL;

    pthread_mutex_lock(&watch->lock);
    if (watch->frames[view] != NULL && watch->frames[view]->shown.number > after) {
        watch->frames[view]->holders++;
        watch->counts[LULL_SERVE_FRAMES]++;
        taken = &watch->frames[view]->shown;
    }
    pthread_mutex_unlock(&watch->lock);
    return taken;
}

void lull_serve_watch_release(struct lull_serve_watch *watch, struct lull_serve_frame *frame)
{
    if (frame == NULL)
        return;
    pthread_mutex_lock(&watch->lock);
    frame_release((struct frame *)frame);
    pthread_mutex_unlock(&watch->lock);
}

/* ---- what is known ----------------------------------------------------------------------- */

/* Writes the state of the server. The caller holds the lock. */
static void add_server(struct lull_serve_watch *watch)
{
    static const char *const names[] = {"requests", "refused", "frames", "frames_dropped"};
    json_t *const serve = json_object();

    lull_field_number(serve, "age_s", (double)(lull_now_ns() - watch->document_ns) * 1e-9);
    lull_field_integer(serve, "viewers",
                       watch->viewers[LULL_SERVE_JSON] + watch->viewers[LULL_SERVE_HTML]);
    for (uint32_t i = 0; i < LULL_SERVE_COUNTS; i++)
        lull_field_integer(serve, names[i], (json_int_t)watch->counts[i]);
    lull_field_json(watch->document, "serve", serve);
}

json_t *lull_serve_watch_lock(struct lull_serve_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    while (watch->document == NULL)
        pthread_cond_wait(&watch->changed, &watch->lock);
    add_server(watch);
    return watch->document;
}

void lull_serve_watch_unlock(struct lull_serve_watch *watch)
{
    pthread_mutex_unlock(&watch->lock);
}

const json_t *lull_serve_watch_runs(const struct lull_serve_watch *watch)
{
    return watch->runs;
}

void lull_serve_watch_write_page(struct lull_serve_watch *watch, FILE *out)
{
    lull_serve_page_write_live(out, watch->document, watch->runs, &watch->history);
}

void lull_serve_watch_count(struct lull_serve_watch *watch, enum lull_serve_count count)
{
    pthread_mutex_lock(&watch->lock);
    watch->counts[count]++;
    pthread_mutex_unlock(&watch->lock);
}

/* ---- viewers ----------------------------------------------------------------------------- */

void lull_serve_watch_join(struct lull_serve_watch *watch, enum lull_serve_view view)
{
    pthread_mutex_lock(&watch->lock);
    watch->viewers[view]++;
    watch->is_waited_for = true;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
}

void lull_serve_watch_leave(struct lull_serve_watch *watch, enum lull_serve_view view)
{
    pthread_mutex_lock(&watch->lock);
    if (--watch->viewers[view] == 0) {
        frame_release(watch->frames[view]);
        watch->frames[view] = NULL;
    }
    pthread_mutex_unlock(&watch->lock);
}

/* ---- the thread -------------------------------------------------------------------------- */

/* Takes a new document. Returns whether there are frames of it. */
static bool take_document(struct lull_serve_watch *watch, json_t *document)
{
    bool has_frames;

    pthread_mutex_lock(&watch->lock);
    json_decref(watch->document);
    watch->document = document;
    watch->document_ns = lull_now_ns();
    if (watch->history_ns == 0 || watch->document_ns - watch->history_ns >= LULL_NS_PER_S) {
        lull_serve_history_add(&watch->history, document);
        watch->history_ns = watch->document_ns;
    }
    add_server(watch);
    has_frames = make_frames(watch);
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    return has_frames;
}

static void serve_watch_scan_runs(struct lull_serve_watch *watch)
{
    struct lull_error err = {0};
    json_t *runs;

    if (lull_now_ns() < watch->runs_due_ns)
        return;
    watch->runs_due_ns = lull_now_ns() + runs_ns;
    /* The GPUs must not wait for a file system that hangs. */
    if (lull_serve_run_list_look(watch->run_list, &runs, &err) < 0) {
        lull_log(LULL_LOG_WARNING, "serve", "no list of runs for now: %s", err.text);
        watch->runs_due_ns = lull_now_ns() + hung_runs_ns;
        return;
    }
    pthread_mutex_lock(&watch->lock);
    json_decref(watch->runs);
    watch->runs = runs;
    pthread_mutex_unlock(&watch->lock);
}

/* Sleeps until the next look is due, a viewer comes, or the watch ends. Returns whether the watch
 * continues. */
static bool wait_for_next(struct lull_serve_watch *watch, int64_t looked_ns)
{
    bool is_stopping;

    pthread_mutex_lock(&watch->lock);
    while (!watch->is_stopping && !watch->is_waited_for) {
        const bool has_viewers =
            watch->viewers[LULL_SERVE_JSON] + watch->viewers[LULL_SERVE_HTML] > 0;
        const double period_s = has_viewers ? 1.0 / watch->options.rate_hz : 1.0;
        const struct timespec until = lull_timespec_from_ns(looked_ns + (int64_t)(period_s * 1e9));

        if (pthread_cond_timedwait(&watch->changed, &watch->lock, &until) == ETIMEDOUT)
            break;
    }
    watch->is_waited_for = false;
    is_stopping = watch->is_stopping;
    pthread_mutex_unlock(&watch->lock);
    return !is_stopping;
}

static void *serve_watch_thread(void *argument)
{
    struct lull_serve_watch *const watch = argument;
    int64_t looked_ns;

    do {
        json_t *document;

        looked_ns = lull_now_ns();
        serve_watch_scan_runs(watch);
        document = lull_serve_node_look(watch->node);
        if (document != NULL && take_document(watch, document))
            watch->options.reported(watch->options.context);
    } while (wait_for_next(watch, looked_ns));
    return NULL;
}

static void serve_watch_finish(struct lull_serve_watch *watch)
{
    for (uint32_t view = 0; view < LULL_SERVE_VIEWS; view++)
        frame_release(watch->frames[view]);
    json_decref(watch->document);
    json_decref(watch->runs);
    lull_serve_run_list_destroy(watch->run_list);
    lull_serve_node_destroy(watch->node);
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

int lull_serve_watch_start(const struct lull_serve_watch_options *options,
                           struct lull_serve_watch **watch_out, struct lull_error *err)
{
    struct lull_serve_watch *const watch = calloc(1, sizeof(*watch));
    int result;

    if (watch == NULL)
        return lull_error_set(err, -ENOMEM, "no memory to watch the node");
    watch->options = *options;
    pthread_mutex_init(&watch->lock, NULL);
    lull_thread_init_condition(&watch->changed);
    lull_serve_history_init(&watch->history);
    watch->node = lull_serve_node_create(options->runtime_dir, options->is_for_all);
    watch->run_list = lull_serve_run_list_create(options->runs);
    result = -ENOMEM;
    if (watch->node != NULL && watch->run_list != NULL)
        result = lull_thread_start(&watch->thread, serve_watch_thread, watch);
    if (result < 0) {
        serve_watch_finish(watch);
        return lull_error_set(err, result, "cannot start the thread that watches the node: %s",
                              strerror(-result));
    }
    *watch_out = watch;
    return 0;
}

void lull_serve_watch_stop(struct lull_serve_watch *watch)
{
    if (watch == NULL)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->is_stopping = true;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    serve_watch_finish(watch);
}
