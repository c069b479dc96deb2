/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/budget/grid_file.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"

/* How long a round waits for the file. */
static const int64_t wait_ns = 200 * LULL_NS_PER_MS;

struct lull_grid_file {
    pthread_mutex_t lock; /* guards what follows up to the blank line */
    pthread_cond_t changed;
    uint64_t asked; /* how often the file was to be read */
    uint64_t done;
    bool is_ending;
    bool is_over;
    bool is_given_up; /* the thread frees this */
    struct lull_grid_events grid;

    pthread_t thread;
    struct lull_file_stamp stamp; /* the thread's */
    struct lull_grid_events fresh;
    char path[];
};

/* ---- the thread ---------------------------------------------------------------------------- */

/* Reads the file into `fresh`; false: the earlier requests continue. */
static bool grid_file_poll(struct lull_grid_file *file)
{
    struct lull_error error = {0};
    struct stat unused;
    char *text;
    size_t size;
    int result;

    if (stat(file->path, &unused) < 0 && errno == ENOENT) {
        file->fresh.count = 0;
        file->stamp = (struct lull_file_stamp){0};
        return true;
    }
    if (!lull_file_has_changed(file->path, &file->stamp))
        return false;
    result = lull_file_read(file->path, LULL_GRID_MAX_BYTES, &text, &size, &error);
    if (result == 0) {
        result = lull_grid_read(file->path, text, size, (int64_t)time(NULL), &file->fresh, &error);
        free(text);
    }
    if (result < 0)
        lull_log(LULL_LOG_WARNING, "budget", "%s; the previous limits stay in force", error.text);
    return result == 0;
}

static void grid_file_destroy(struct lull_grid_file *file)
{
    pthread_cond_destroy(&file->changed);
    pthread_mutex_destroy(&file->lock);
    free(file);
}

static void *grid_file_thread(void *argument)
{
    struct lull_grid_file *const file = argument;
    bool is_given_up;

    pthread_mutex_lock(&file->lock);
    while (!file->is_ending) {
        bool has_read;
        const uint64_t asked = file->asked;

        if (asked == file->done) {
            pthread_cond_wait(&file->changed, &file->lock);
            continue;
        }
        pthread_mutex_unlock(&file->lock);
        has_read = grid_file_poll(file);
        pthread_mutex_lock(&file->lock);
        if (has_read)
            file->grid = file->fresh;
        file->done = asked;
        pthread_cond_broadcast(&file->changed);
    }
    file->is_over = true;
    is_given_up = file->is_given_up;
    pthread_cond_broadcast(&file->changed);
    pthread_mutex_unlock(&file->lock);
    if (is_given_up)
        grid_file_destroy(file);
    return NULL;
}

/* ---- the owner ----------------------------------------------------------------------------- */

int lull_grid_file_start(const char *path, struct lull_grid_file **file_out, struct lull_error *err)
{
    struct lull_grid_file *const file = calloc(1, sizeof(*file) + strlen(path) + 1);
    int result;

    if (file == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory to read it", path);
    memcpy(file->path, path, strlen(path) + 1);
    pthread_mutex_init(&file->lock, NULL);
    lull_thread_init_condition(&file->changed);
    result = lull_thread_start(&file->thread, grid_file_thread, file);
    if (result < 0) {
        grid_file_destroy(file);
        return lull_error_set(err, result, "%s: no thread to read it: %s", path, strerror(-result));
    }
    *file_out = file;
    return 0;
}

/* Waits until the thread has ended, or has done all requested reads; locked. False: it is late. */
static bool grid_file_await(struct lull_grid_file *file)
{
    const struct timespec until = lull_timespec_from_ns(lull_now_ns() + wait_ns);

    while (!file->is_over && (file->is_ending || file->done != file->asked))
        if (pthread_cond_timedwait(&file->changed, &file->lock, &until) == ETIMEDOUT)
            return false;
    return true;
}

void lull_grid_file_stop(struct lull_grid_file *file)
{
    bool is_over;

    if (file == NULL)
        return;
    pthread_mutex_lock(&file->lock);
    file->is_ending = true;
    pthread_cond_broadcast(&file->changed);
    is_over = grid_file_await(file);
    file->is_given_up = !is_over;
    if (!is_over)
        pthread_detach(file->thread);
    pthread_mutex_unlock(&file->lock);
    if (!is_over)
        return;
    pthread_join(file->thread, NULL);
    grid_file_destroy(file);
}

void lull_grid_file_read(struct lull_grid_file *file, struct lull_grid_events *grid_out)
{
    bool becomes_late = false;

    grid_out->count = 0;
    if (file == NULL)
        return;
    pthread_mutex_lock(&file->lock);
    if (file->done == file->asked) {
        file->asked++;
        pthread_cond_broadcast(&file->changed);
        becomes_late = !grid_file_await(file);
    }
    *grid_out = file->grid;
    pthread_mutex_unlock(&file->lock);
    if (becomes_late)
        lull_log(LULL_LOG_WARNING, "budget",
                 "%s does not answer; the previous limits stay in force", file->path);
}
