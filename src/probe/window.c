/*
 * Energy windows of liblull. They are reported to Lull, if it runs, and measured here as well. The
 * energy at which a window began is worked out at the first reading after its start, so readings
 * may be rare.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lull/lull.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/client.h"
#include "probe/window_gpus.h"
#include "probe/window_reader.h"

/* A window's number consists of its place and how often the place was taken, so that an old number
 * is recognised. */
enum { MAX_WINDOWS = LULL_JOB_MAX_WINDOWS, MAX_TURNS = INT32_MAX / MAX_WINDOWS };

struct probe_window {
    bool is_open;
    pid_t pid; /* the process that opened it: a child does not inherit windows */
    int turn;
    uint32_t name; /* index of the name in the process' slot */
    int64_t begin_ns;
    struct lull_window_gpus gpus;
    bool has_begun[LULL_WINDOW_MAX_GPUS]; /* the energy at its start is known */
    struct lull_energy_edge begin[LULL_WINDOW_MAX_GPUS];
};

static struct probe_window windows[MAX_WINDOWS]; /* guarded by the lock of the readings */

static bool is_own(const struct probe_window *window)
{
    return window->is_open && window->pid == getpid();
}

static int probe_window_number_of(const struct probe_window *window)
{
    return window->turn * MAX_WINDOWS + (int)(window - windows);
}

static struct probe_window *find_free(void)
{
    for (struct probe_window *window = windows; window < windows + MAX_WINDOWS; window++)
        if (!is_own(window))
            return window;
    return NULL;
}

static struct probe_window *find_open(int number)
{
    struct probe_window *window = number < 0 ? NULL : &windows[number % MAX_WINDOWS];

    if (window != NULL && is_own(window) && window->turn == number / MAX_WINDOWS)
        return window;
    return NULL;
}

/* ---- measuring --------------------------------------------------------------------------- */

static void probe_window_find_begin(struct probe_window *window)
{
    for (uint32_t i = 0; i < window->gpus.count; i++)
        if (!window->has_begun[i])
            window->has_begun[i] =
                lull_energy_account_at(lull_window_gpus_account(window->gpus.numbers[i]),
                                       window->begin_ns, &window->begin[i]);
}

/* Windows that waited for a reading after their begin have it now. */
static void probe_window_take_reading(void)
{
    for (struct probe_window *window = windows; window < windows + MAX_WINDOWS; window++)
        if (is_own(window))
            probe_window_find_begin(window);
}

__attribute__((constructor)) static void probe_window_prepare(void)
{
    lull_window_reader_init(probe_window_take_reading);
}

static void probe_window_measure(struct probe_window *window, int64_t end_ns,
                                 struct lull_window *out)
{
    double variance_j2 = 0.0;
    bool is_estimate = false;

    *out = (struct lull_window){.seconds = (double)(end_ns - window->begin_ns) * 1e-9,
                                .gpus = window->gpus.count};
    probe_window_find_begin(window);
    for (uint32_t i = 0; i < window->gpus.count; i++) {
        const struct lull_energy_account *account =
            lull_window_gpus_account(window->gpus.numbers[i]);
        struct lull_energy_figure figure;
        struct lull_energy_edge end;

        if (!window->has_begun[i] || !lull_energy_account_at(account, end_ns, &end)) {
            out->joules = 0.0;
            return;
        }
        figure = lull_energy_between(account, &window->begin[i], &end);
        out->joules += figure.joules;
        is_estimate |= figure.is_estimate;
        variance_j2 += figure.uncertainty_j * figure.uncertainty_j;
    }
    out->uncertainty_j = sqrt(variance_j2);
    out->flags = window->gpus.count > 0 ? LULL_WINDOW_JOULES_VALID : 0;
    if (is_estimate)
        out->flags |= LULL_WINDOW_JOULES_ESTIMATED;
}

/* ---- telling ----------------------------------------------------------------------------- */

static void probe_window_send(enum lull_event_kind kind, const struct probe_window *window,
                              int64_t time_ns)
{
    const struct lull_event event = {
        .time_ns = time_ns,
        .bytes = (uint64_t)probe_window_number_of(window),
        .communicator = LULL_EVENT_NO_COMMUNICATOR,
        .peer = -1,
        .kind = (uint16_t)kind,
        .name = window->name,
    };

    if (lull_client_is_on())
        lull_client_push(&event);
}

/* ---- the interface ----------------------------------------------------------------------- */

static void probe_window_begin(struct probe_window *window, const char *name)
{
    *window = (struct probe_window){.turn = (window->turn + 1) % MAX_TURNS, .pid = getpid()};
    if (lull_client_join())
        window->name = lull_event_segment_intern(lull_client.job, lull_client.slot, name);
    lull_window_gpus_own(&window->gpus);
    window->is_open = true;
    window->begin_ns = lull_now_ns();
    probe_window_send(LULL_EVENT_WINDOW_BEGIN, window, window->begin_ns);
}

int lull_window_begin(const char *name)
{
    const int saved_errno = errno;
    struct probe_window *window;
    int number = -ENOSPC;

    if (name == NULL)
        return -EINVAL;
    lull_window_reader_lock();
    lull_window_reader_refresh();
    window = find_free();
    if (window != NULL) {
        probe_window_begin(window, name);
        number = probe_window_number_of(window);
    }
    lull_window_reader_unlock();
    errno = saved_errno;
    return number;
}

int lull_window_end(int number, struct lull_window *out)
{
    const int64_t now_ns = lull_now_ns();
    const int saved_errno = errno;
    struct probe_window *window;

    lull_window_reader_lock();
    window = find_open(number);
    if (window != NULL) {
        struct probe_window ended = *window;
        const int64_t end_ns = now_ns > ended.begin_ns ? now_ns : ended.begin_ns;

        probe_window_send(LULL_EVENT_WINDOW_END, window, end_ns);
        window->is_open = false; /* others may use its place while a reading is waited for */
        lull_window_reader_refresh();
        if (out != NULL)
            probe_window_measure(&ended, end_ns, out);
    }
    lull_window_reader_unlock();
    errno = saved_errno;
    if (window != NULL)
        return 0;
    return -ENOENT;
}
