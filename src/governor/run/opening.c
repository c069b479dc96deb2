/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/opening.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"

struct opening {
    pthread_mutex_t lock; /* guards what follows, except while the driver works on it */
    pthread_cond_t changed;
    struct lull_devices *devices;
    struct lull_error err;
    int result;
    bool is_over;
    bool is_given_up; /* the thread frees this */
};

static void opening_finish(struct opening *opening)
{
    pthread_cond_destroy(&opening->changed);
    pthread_mutex_destroy(&opening->lock);
    free(opening);
}

static void *opening_thread(void *argument)
{
    struct opening *opening = argument;
    bool is_given_up;

    opening->result = lull_devices_open(&opening->devices, &opening->err);
    pthread_mutex_lock(&opening->lock);
    opening->is_over = true;
    is_given_up = opening->is_given_up;
    pthread_cond_broadcast(&opening->changed);
    pthread_mutex_unlock(&opening->lock);
    /* Devices that come too late stay open: closing them could hang as well. */
    if (is_given_up)
        opening_finish(opening);
    return NULL;
}

static int opening_start(struct opening **opening_out, pthread_t *thread_out,
                         struct lull_error *err)
{
    struct opening *opening = calloc(1, sizeof(*opening));
    int result;

    if (opening == NULL)
        return lull_error_set(err, -ENOMEM, "no memory to open the GPUs");
    pthread_mutex_init(&opening->lock, NULL);
    lull_thread_init_condition(&opening->changed);
    result = pthread_create(thread_out, NULL, opening_thread, opening);
    if (result != 0) {
        opening_finish(opening);
        return lull_error_set(err, -result, "cannot start the thread that opens the GPUs: %s",
                              strerror(result));
    }
    *opening_out = opening;
    return 0;
}

int lull_devices_open_until(int64_t until_ns, struct lull_devices **devices_out,
                            struct lull_error *err)
{
    const struct timespec until = lull_timespec_from_ns(until_ns);
    struct opening *opening = NULL;
    pthread_t thread;
    bool is_over;
    int result = opening_start(&opening, &thread, err);

    if (result < 0)
        return result;
    pthread_mutex_lock(&opening->lock);
    while (!opening->is_over)
        if (pthread_cond_timedwait(&opening->changed, &opening->lock, &until) == ETIMEDOUT)
            break;
    is_over = opening->is_over;
    opening->is_given_up = !is_over;
    pthread_mutex_unlock(&opening->lock);
    if (!is_over) {
        pthread_detach(thread);
        return lull_error_set(err, -ETIMEDOUT, "the driver does not respond; see its log (dmesg)");
    }
    pthread_join(thread, NULL);
    result = opening->result;
    if (result == 0)
        *devices_out = opening->devices;
    else
        lull_error_set(err, result, "%s", opening->err.text);
    opening_finish(opening);
    return result;
}
