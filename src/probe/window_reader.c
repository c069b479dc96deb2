/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/window_reader.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "probe/window_gpus.h"

/* The time between readings. At this rate a counter that suffers from polling falls short by 2 %.
 */
static const int64_t reading_period_ns = LULL_NS_PER_S;
/* Timeout of a reading: calls take some milliseconds, and the first one loads and initialises the
 * driver's library. */
static const int64_t patience_ns = 100 * LULL_NS_PER_MS;
static const int64_t first_patience_ns = LULL_NS_PER_S;

enum window_reader_state {
    NO_THREAD,
    IDLE,
    ASKED,
    READING,
    UNUSABLE, /* no thread can be had, or the driver is another process' */
};

static struct {
    pthread_mutex_t lock;   /* guards everything here, the windows and the accounts */
    pthread_cond_t changed; /* of the state; timed waits use the monotonic clock */
    enum window_reader_state state;
    int64_t asked_ns; /* when the reading under way was requested */
    int64_t read_ns;  /* when the last reading was; 0: never */
    void (*taken)(void);
} reader = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the thread -------------------------------------------------------------------------- */

static void *read_when_asked(void *unused)
{
    struct lull_window_reading reading;

    (void)unused;
    pthread_mutex_lock(&reader.lock);
    for (;;) {
        while (reader.state != ASKED)
            pthread_cond_wait(&reader.changed, &reader.lock);
        reader.state = READING;
        pthread_mutex_unlock(&reader.lock);
        lull_window_gpus_read(&reading);
        pthread_mutex_lock(&reader.lock);
        lull_window_gpus_take(&reading);
        reader.taken();
        reader.read_ns = lull_now_ns();
        reader.state = IDLE;
        pthread_cond_broadcast(&reader.changed);
    }
    return NULL;
}

/* ---- fork -------------------------------------------------------------------------------- */

static void window_reader_before_fork(void)
{
    pthread_mutex_lock(&reader.lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&reader.lock);
}

/* Threads that waited for a change do not exist here, but the condition remembers them. */
static void after_fork_in_child(void)
{
    if (reader.state == READING)
        reader.state = UNUSABLE;
    if (reader.state != UNUSABLE)
        reader.state = NO_THREAD;
    lull_thread_init_condition(&reader.changed);
    pthread_mutex_unlock(&reader.lock);
}

void lull_window_reader_init(void (*taken)(void))
{
    reader.taken = taken;
    lull_thread_init_condition(&reader.changed);
    pthread_atfork(window_reader_before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---- for the windows --------------------------------------------------------------------- */

void lull_window_reader_lock(void)
{
    pthread_mutex_lock(&reader.lock);
}

void lull_window_reader_unlock(void)
{
    pthread_mutex_unlock(&reader.lock);
}

static void begin_thread(void)
{
    pthread_t thread;

    reader.state = UNUSABLE;
    if (lull_thread_start(&thread, read_when_asked, NULL) < 0)
        return;
    pthread_detach(thread);
    reader.state = IDLE;
}

static void window_reader_request(int64_t now_ns)
{
    if (reader.state == NO_THREAD)
        begin_thread();
    if (reader.state != IDLE)
        return;
    reader.state = ASKED;
    reader.asked_ns = now_ns;
    pthread_cond_broadcast(&reader.changed);
}

void lull_window_reader_refresh(void)
{
    const int64_t now_ns = lull_now_ns();
    const int64_t longest_ns = reader.read_ns == 0 ? first_patience_ns : patience_ns;
    int64_t until_ns;
    struct timespec until;

    if (reader.read_ns == 0 || now_ns - reader.read_ns >= reading_period_ns)
        window_reader_request(now_ns);
    until_ns = reader.asked_ns + longest_ns;
    until =
        (struct timespec){.tv_sec = until_ns / LULL_NS_PER_S, .tv_nsec = until_ns % LULL_NS_PER_S};
    while ((reader.state == ASKED || reader.state == READING) && lull_now_ns() < until_ns)
        pthread_cond_timedwait(&reader.changed, &reader.lock, &until);
}
