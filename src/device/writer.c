/*
 * The owner's side of the device writer: it starts and stops the thread and leaves in the mailbox
 * what the thread is to do. SPDX-License-Identifier: Apache-2.0
 */
#include "device/writer.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "device/writer_internal.h"

const struct lull_writer_options lull_writer_defaults = {
    .lowering_gap_ns = 20 * LULL_NS_PER_MS,
    .lowering_refill_ns = 50 * LULL_NS_PER_MS,
    .validity_cap_ns = 5 * LULL_NS_PER_S,
    .hung_ns = 30 * LULL_NS_PER_S,
};

void lull_writer_wake(struct lull_writer *writer)
{
    atomic_store(&writer->has_mail, true);
    eventfd_write(writer->mail_fd, 1);
}

static int writer_listen_to(struct lull_writer *writer, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};

    return epoll_ctl(writer->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void free_writer(struct lull_writer *writer)
{
    const int fds[] = {writer->epoll_fd, writer->timer_fd, writer->mail_fd};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    for (uint32_t i = 0; i < LULL_DEVICE_MAX_GPUS; i++)
        lull_journal_forget_file(&writer->gpus[i].journal.file);
    lull_driver_owner_fini(&writer->owner);
    pthread_cond_destroy(&writer->finished);
    pthread_mutex_destroy(&writer->mailbox_lock);
    free(writer);
}

static int writer_open_fds(struct lull_writer *writer)
{
    int result;

    writer->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    writer->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    writer->mail_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (writer->epoll_fd < 0 || writer->timer_fd < 0 || writer->mail_fd < 0)
        return -errno;
    result = writer_listen_to(writer, writer->timer_fd);
    return result < 0 ? result : writer_listen_to(writer, writer->mail_fd);
}

static void init_locks(struct lull_writer *writer)
{
    lull_thread_init_condition(&writer->finished);
    pthread_mutex_init(&writer->mailbox_lock, NULL);
}

/* Devices without a GPU have no driver yet (lull_devices_open_later()). */
static void begin_without_driver(struct lull_writer *writer)
{
    writer->is_driver_open = writer->gpu_count > 0;
    if (!writer->is_driver_open)
        lull_error_set(&writer->driver_error, LULL_E_NO_DRIVER,
                       "the driver was not found yet; lulld searches at least every minute and "
                       "logs the paths");
}

int lull_writer_start(struct lull_devices *devices, struct lull_journal *journal,
                      const struct lull_writer_options *options, struct lull_writer **writer_out,
                      struct lull_error *err)
{
    struct lull_writer *writer;
    pthread_t thread;
    int result = lull_journal_claim(journal, devices, err);

    if (result < 0)
        return result;
    writer = calloc(1, sizeof(*writer));
    if (writer == NULL)
        return lull_error_set(err, -ENOMEM, "writer: no memory");
    writer->devices = devices;
    writer->journal = journal;
    writer->options = *options;
    writer->gpu_count = writer->shown_gpus = lull_devices_count(devices);
    writer->timer_ns = LULL_WRITER_NEVER_NS;
    init_locks(writer);
    lull_driver_owner_init(&writer->owner);
    for (uint32_t i = 0; i < LULL_DEVICE_MAX_GPUS; i++) {
        writer->gpus[i].journal.file = -1;
        writer->gpus[i].clock.raise_ns = LULL_WRITER_NEVER_NS;
        writer->gpus[i].watch.next_ns = LULL_WRITER_NEVER_NS;
        writer->gpus[i].power.seek_ns = LULL_WRITER_NEVER_NS;
        writer->gpus[i].alive.check_ns = options->check_ns != 0 ? 0 : LULL_WRITER_NEVER_NS;
        lull_switch_budget_init(&writer->gpus[i].clock.budget, options->lowering_gap_ns,
                                options->lowering_refill_ns);
    }
    begin_without_driver(writer);
    lull_writer_take_over(writer);
    result = writer_open_fds(writer);
    if (result == 0)
        result = lull_thread_start(&thread, lull_writer_wait_and_run, writer);
    if (result < 0) {
        free_writer(writer);
        return lull_error_set(err, result, "writer: cannot start: %s", strerror(-result));
    }
    *writer_out = writer;
    return 0;
}

/* Waits for the thread to end. A thread inside a driver call may never end. */
static bool wait_for_end(struct lull_writer *writer, int64_t until_ns)
{
    const struct timespec patience = lull_timespec_from_ns(until_ns);
    int result = 0;
    bool has_finished;

    pthread_mutex_lock(&writer->mailbox_lock);
    while (!writer->has_finished && result == 0)
        result = pthread_cond_timedwait(&writer->finished, &writer->mailbox_lock, &patience);
    has_finished = writer->has_finished;
    pthread_mutex_unlock(&writer->mailbox_lock);
    if (!has_finished)
        return false;
    pthread_join(writer->thread, NULL);
    lull_driver_owner_end(&writer->owner);
    if (writer->has_spare)
        pthread_join(writer->spare, NULL);
    return true;
}

static bool has_stuck_thread(struct lull_writer *writer)
{
    bool is_any_away = false;

    pthread_mutex_lock(&writer->mailbox_lock);
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        is_any_away = is_any_away || lull_writer_is_away(writer, i);
    pthread_mutex_unlock(&writer->mailbox_lock);
    return is_any_away;
}

int lull_writer_stop(struct lull_writer *writer, int64_t timeout_ns)
{
    const int64_t stop_ns = lull_now_ns() + timeout_ns;
    bool is_clean = true;

    pthread_mutex_lock(&writer->mailbox_lock);
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        writer->desired[i].source = NULL;
        writer->desired[i].cap = (struct lull_cap){0};
    }
    writer->stop_ns = stop_ns;
    pthread_mutex_unlock(&writer->mailbox_lock);
    lull_writer_wake(writer);

    /* The margin lets the thread see the limit itself. */
    if (!wait_for_end(writer, stop_ns + LULL_NS_PER_S / 2))
        return -EINPROGRESS;
    if (has_stuck_thread(writer))
        return -EINPROGRESS;
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        is_clean = is_clean && writer->gpus[i].clock.raise_ns == LULL_WRITER_NEVER_NS &&
                   writer->gpus[i].states.lease == LULL_LEASE_FREE &&
                   writer->gpus[i].states.record != LULL_RECORD_KEPT;
    free_writer(writer);
    return is_clean ? 0 : -ETIMEDOUT;
}

int lull_writer_add_source(struct lull_writer *writer, struct lull_writer_source *source,
                           struct lull_error *err)
{
    int result = writer_listen_to(writer, source->doorbell_fd);

    if (result < 0)
        return lull_error_set(err, result, "writer: cannot listen to a client: %s",
                              strerror(-result));
    return 0;
}

void lull_writer_remove_source(struct lull_writer *writer, struct lull_writer_source *source)
{
    pthread_mutex_lock(&writer->mailbox_lock);
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        if (writer->desired[i].source == source)
            writer->desired[i].source = NULL;
    source->next_removed = writer->removed;
    writer->removed = source;
    pthread_mutex_unlock(&writer->mailbox_lock);
    lull_writer_wake(writer);
}

void lull_writer_grant(struct lull_writer *writer, uint32_t gpu, struct lull_writer_source *source,
                       const struct lull_band *band)
{
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->desired[gpu].source = source;
    writer->desired[gpu].band = *band;
    writer->desired[gpu].epoch++;
    pthread_mutex_unlock(&writer->mailbox_lock);
    lull_writer_wake(writer);
}

void lull_writer_cap(struct lull_writer *writer, uint32_t gpu, const struct lull_cap *cap)
{
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->desired[gpu].cap = *cap;
    pthread_mutex_unlock(&writer->mailbox_lock);
    lull_writer_wake(writer);
}

void lull_writer_retry_caps(struct lull_writer *writer)
{
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->is_retry_due = true;
    pthread_mutex_unlock(&writer->mailbox_lock);
    lull_writer_wake(writer);
}

void lull_writer_end(struct lull_writer *writer, uint32_t gpu)
{
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->desired[gpu].source = NULL;
    pthread_mutex_unlock(&writer->mailbox_lock);
    lull_writer_wake(writer);
}

bool lull_writer_answers(struct lull_writer *writer)
{
    const bool is_silent = atomic_exchange(&writer->is_asked, true);

    lull_writer_wake(writer);
    return !is_silent;
}

void lull_writer_state(struct lull_writer *writer, uint32_t gpu,
                       struct lull_writer_state *state_out)
{
    pthread_mutex_lock(&writer->mailbox_lock);
    *state_out = writer->states[gpu];
    pthread_mutex_unlock(&writer->mailbox_lock);
    /* A thread that is stuck in the driver cannot show it. */
    if (lull_writer_health_of_call(writer, gpu, lull_now_ns()) != LULL_WRITER_UP)
        state_out->health = lull_writer_health_of_call(writer, gpu, lull_now_ns());
}

void lull_writer_quiesce(struct lull_writer *writer, uint64_t gpus)
{
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->to_quiesce |= gpus;
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        if ((gpus >> i & 1) != 0)
            writer->desired[i].source = NULL;
    pthread_mutex_unlock(&writer->mailbox_lock);
    lull_writer_wake(writer);
}

void lull_writer_resume(struct lull_writer *writer, uint64_t gpus)
{
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->to_quiesce &= ~gpus;
    pthread_mutex_unlock(&writer->mailbox_lock);
    lull_writer_wake(writer);
}

int lull_writer_check_driver(struct lull_writer *writer, struct lull_error *err)
{
    struct lull_error error;

    pthread_mutex_lock(&writer->mailbox_lock);
    error = writer->driver_error;
    pthread_mutex_unlock(&writer->mailbox_lock);
    return error.code < 0 ? lull_error_set(err, error.code, "%s", error.text) : 0;
}

int lull_writer_check(struct lull_writer *writer, uint32_t gpu, struct lull_error *err)
{
    struct lull_writer_state state;
    bool is_shown;
    bool is_quiesced;

    lull_writer_state(writer, gpu, &state);
    pthread_mutex_lock(&writer->mailbox_lock);
    is_shown = gpu < writer->shown_gpus;
    is_quiesced = (writer->to_quiesce >> gpu & 1) != 0;
    pthread_mutex_unlock(&writer->mailbox_lock);
    if (is_quiesced)
        return lull_error_set(err, -EBUSY,
                              "GPU %u: quiesced by the administrator; it is leased again after "
                              "`lull resume`",
                              gpu);
    if (lull_writer_check_driver(writer, err) < 0)
        return err->code;
    if (!is_shown)
        return lull_error_set(err, -EBUSY, "GPU %u: it is being restored; try again", gpu);
    if (state.health == LULL_WRITER_SUSPECT || state.health == LULL_WRITER_HUNG)
        return lull_error_set(err, -ETIMEDOUT,
                              "GPU %u: a call of its driver does not return (%s); it is leased "
                              "again when it has, or after a reset",
                              gpu, lull_writer_health_name(state.health));
    if (state.health == LULL_WRITER_UNRESTORED)
        return lull_error_set(err, -EBUSY,
                              "GPU %u: what an earlier process has set is not undone yet%s%.100s; "
                              "lulld keeps trying, and leases it then; see its log",
                              gpu, state.trouble[0] != '\0' ? ": " : "", state.trouble);
    if (state.health == LULL_WRITER_LOST)
        return lull_error_set(
            err, LULL_E_NO_DEVICE,
            "GPU %u: the driver does not find it (LOST); lulld looks for it again "
            "every minute at least",
            gpu);
    if (state.is_partitioned)
        return lull_device_refuse_partitioned(err);
    return 0;
}

const char *lull_writer_health_name(enum lull_writer_health health)
{
    static const char *const names[LULL_WRITER_HEALTHS] = {
        "UP", "SUSPECT", "HUNG", "LOST", "FOREIGN", "QUIESCED", "UNRESTORED"};

    assert(health < LULL_WRITER_HEALTHS);
    return names[health];
}
