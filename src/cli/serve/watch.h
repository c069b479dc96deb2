/*
 * The watch of a node: a thread that reads the state of the node once a second. While there are
 * viewers, it reads at their update rate. It stores the newest document and makes frames of it for
 * the streams.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SERVE_WATCH_H
#define LULL_CLI_SERVE_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "base/error.h"

/* Content of a stream. */
enum lull_serve_view {
    LULL_SERVE_JSON, /* the document */
    LULL_SERVE_HTML, /* the parts of the live page that change, as one JSON text of HTML */
    LULL_SERVE_VIEWS
};

/* Counts since the server began. */
enum lull_serve_count {
    LULL_SERVE_REQUESTS,
    LULL_SERVE_REFUSED,        /* requests over the rate limit, or without authorization */
    LULL_SERVE_FRAMES,         /* sent to viewers */
    LULL_SERVE_FRAMES_DROPPED, /* not sent, because the viewer had not read the previous one */
    LULL_SERVE_COUNTS
};

/* An event of a stream, as it is sent; it stays until it is released. */
struct lull_serve_frame {
    uint64_t number; /* ascending over all views, from 1 */
    size_t size;
    const char *text;
};

struct lull_serve_watch;

struct lull_serve_watch_options {
    const char *runtime_dir;         /* of lulld; borrowed */
    const char *runs;                /* the folder with the folders of runs; borrowed */
    bool is_for_all;                 /* runs of all users are shown */
    double rate_hz;                  /* updates per second sent to viewers, 0 < rate_hz <= 5 */
    void (*reported)(void *context); /* called on the watch's thread after each frame */
    void *context;
};

/* Starts the thread. Errors: -ENOMEM; -errno. */
int lull_serve_watch_start(const struct lull_serve_watch_options *options,
                           struct lull_serve_watch **watch_out, struct lull_error *err);

/* Ends the thread and frees; NULL is allowed. All frames must have been released. */
void lull_serve_watch_stop(struct lull_serve_watch *watch);

/* Waits for the first document, and lends the newest until unlock. Its field "serve" is of now. */
json_t *lull_serve_watch_lock(struct lull_serve_watch *watch);
void lull_serve_watch_unlock(struct lull_serve_watch *watch);

/* Returns the last runs as an array, locked like the document. */
const json_t *lull_serve_watch_runs(const struct lull_serve_watch *watch);

/* Writes what of the page changes; the watch is locked. */
void lull_serve_watch_write_page(struct lull_serve_watch *watch, FILE *out);

/* Count one viewer more, or one less, of a view. */
void lull_serve_watch_join(struct lull_serve_watch *watch, enum lull_serve_view view);
void lull_serve_watch_leave(struct lull_serve_watch *watch, enum lull_serve_view view);

/* Returns the newest frame of a view if its number is above `after`; NULL: there is none. */
struct lull_serve_frame *lull_serve_watch_take(struct lull_serve_watch *watch,
                                               enum lull_serve_view view, uint64_t after);
void lull_serve_watch_release(struct lull_serve_watch *watch, struct lull_serve_frame *frame);

void lull_serve_watch_count(struct lull_serve_watch *watch, enum lull_serve_count count);

#endif
