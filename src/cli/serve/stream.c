/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* Looks are not on the dot: a frame that comes this much early is not too early. */
static const int64_t early_ns = 30 * LULL_NS_PER_MS;

enum { BLOCK = 16 * 1024 }; /* of a frame, handed over at once; */

struct viewer {
    struct lull_serve_streams *streams;
    struct MHD_Connection *connection;
    enum lull_serve_view view;
    int64_t interval_ns;
    int64_t due_ns;                 /* earliest time of its next frame */
    uint64_t number;                /* of the frame that it has started to read last */
    struct lull_serve_frame *frame; /* NULL: it has read all */
    size_t read;                    /* bytes of it */
    bool is_suspended;              /* until there is a frame */
    struct viewer *next;
};

struct lull_serve_streams {
    struct lull_serve_watch *watch;
    pthread_mutex_t lock; /* guards what follows; taken before the watch's */
    struct viewer *first;
    uint32_t count;
    bool is_ending;
};

struct lull_serve_streams *lull_serve_streams_create(void)
{
    struct lull_serve_streams *const streams = calloc(1, sizeof(*streams));

    if (streams != NULL)
        pthread_mutex_init(&streams->lock, NULL);
    return streams;
}

void lull_serve_streams_set_watch(struct lull_serve_streams *streams,
                                  struct lull_serve_watch *watch)
{
    streams->watch = watch;
}

void lull_serve_streams_destroy(struct lull_serve_streams *streams)
{
    if (streams == NULL)
        return;
    pthread_mutex_destroy(&streams->lock);
    free(streams);
}

/* ---- one viewer -------------------------------------------------------------------------- */

/* Takes the next frame, if it is there and due. */
static bool take_frame(struct viewer *viewer)
{
    const int64_t now_ns = lull_now_ns();

    if (now_ns < viewer->due_ns)
        return false;
    viewer->frame = lull_serve_watch_take(viewer->streams->watch, viewer->view, viewer->number);
    if (viewer->frame == NULL)
        return false;
    viewer->number = viewer->frame->number;
    viewer->read = 0;
    viewer->due_ns = now_ns + viewer->interval_ns - early_ns;
    return true;
}

/* The library calls this when it can send more. */
static ssize_t stream_read_more(void *context, uint64_t position, char *buffer, size_t size)
{
    struct viewer *const viewer = context;
    struct lull_serve_streams *const streams = viewer->streams;
    ssize_t result = 0;

    (void)position;
    pthread_mutex_lock(&streams->lock);
    if (streams->is_ending) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else if (viewer->frame != NULL || take_frame(viewer)) {
        const size_t left = viewer->frame->size - viewer->read;
        const size_t part = left < size ? left : size;

        memcpy(buffer, viewer->frame->text + viewer->read, part);
        viewer->read += part;
        if (viewer->read == viewer->frame->size) {
            lull_serve_watch_release(streams->watch, viewer->frame);
            viewer->frame = NULL;
        }
        result = (ssize_t)part;
    } else {
        viewer->is_suspended = true;
        MHD_suspend_connection(viewer->connection);
    }
    pthread_mutex_unlock(&streams->lock);
    return result;
}

static void end_viewer(void *context)
{
    struct viewer *const viewer = context;
    struct lull_serve_streams *const streams = viewer->streams;
    struct viewer **at = &streams->first;

    pthread_mutex_lock(&streams->lock);
    while (*at != viewer)
        at = &(*at)->next;
    *at = viewer->next;
    streams->count--;
    pthread_mutex_unlock(&streams->lock);
    lull_serve_watch_release(streams->watch, viewer->frame);
    lull_serve_watch_leave(streams->watch, viewer->view);
    free(viewer);
}

/* ---- all viewers ------------------------------------------------------------------------- */

static bool stream_add(struct lull_serve_streams *streams, struct viewer *viewer)
{
    bool has_room;

    pthread_mutex_lock(&streams->lock);
    has_room = streams->count < LULL_SERVE_MAX_VIEWERS && !streams->is_ending;
    if (has_room) {
        viewer->next = streams->first;
        streams->first = viewer;
        streams->count++;
    }
    pthread_mutex_unlock(&streams->lock);
    return has_room;
}

struct MHD_Response *lull_serve_streams_open(struct lull_serve_streams *streams,
                                             struct MHD_Connection *connection,
                                             enum lull_serve_view view, double rate_hz)
{
    struct viewer *const viewer = calloc(1, sizeof(*viewer));
    struct MHD_Response *response;

    if (viewer == NULL)
        return NULL;
    viewer->streams = streams;
    viewer->connection = connection;
    viewer->view = view;
    viewer->interval_ns = (int64_t)(1e9 / rate_hz);
    if (!stream_add(streams, viewer)) {
        free(viewer);
        return NULL;
    }
    lull_serve_watch_join(streams->watch, view);
    response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, stream_read_more, viewer,
                                                 end_viewer);
    if (response == NULL)
        end_viewer(viewer);
    return response;
}

static void stream_resume(struct viewer *viewer)
{
    viewer->is_suspended = false;
    MHD_resume_connection(viewer->connection);
}

void lull_serve_streams_notify(void *context)
{
    struct lull_serve_streams *const streams = context;
    const int64_t now_ns = lull_now_ns();

    pthread_mutex_lock(&streams->lock);
    for (struct viewer *viewer = streams->first; viewer != NULL; viewer = viewer->next) {
        if (now_ns < viewer->due_ns)
            continue;
        if (viewer->is_suspended)
            stream_resume(viewer);
        else if (viewer->frame != NULL)
            lull_serve_watch_count(streams->watch, LULL_SERVE_FRAMES_DROPPED);
    }
    pthread_mutex_unlock(&streams->lock);
}

void lull_serve_streams_end(struct lull_serve_streams *streams)
{
    pthread_mutex_lock(&streams->lock);
    streams->is_ending = true;
    for (struct viewer *viewer = streams->first; viewer != NULL; viewer = viewer->next)
        if (viewer->is_suspended)
            stream_resume(viewer);
    pthread_mutex_unlock(&streams->lock);
}
