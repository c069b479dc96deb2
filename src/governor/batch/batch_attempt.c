/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/batch/batch_attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/child.h"

enum { TICK_NS = 200 * 1000 * 1000, READ_BYTES = 65536, MAX_READS = 16 };
enum { OUTPUT, ERRORS, STREAMS };
enum { POLL_CHILD = STREAMS, POLL_SIGNALS, POLLS };

/* ---- the pulse ----------------------------------------------------------------------------- */

/*
 * Reports the run's progress to the store every second. It uses a thread of its own, because a slow
 * store must not delay the job's output.
 */
struct pulse {
    struct lull_batch_jobs *jobs;
    const char *name;
    uint64_t run;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t over;
    struct lull_batch_progress progress;
    bool is_over;
};

static void *batch_attempt_thread(void *argument)
{
    struct pulse *pulse = argument;
    int64_t next_ns = lull_now_ns();

    pthread_mutex_lock(&pulse->lock);
    while (!pulse->is_over) {
        struct timespec until;
        struct lull_batch_progress progress;

        next_ns += LULL_NS_PER_S;
        until = lull_timespec_from_ns(next_ns);
        while (!pulse->is_over &&
               pthread_cond_timedwait(&pulse->over, &pulse->lock, &until) != ETIMEDOUT)
            continue;
        if (pulse->is_over)
            break;
        progress = pulse->progress;
        pthread_mutex_unlock(&pulse->lock);
        /* A failed heartbeat is not an error: the next one has the same information. */
        lull_batch_jobs_heartbeat(pulse->jobs, pulse->name, pulse->run, &progress, NULL);
        pthread_mutex_lock(&pulse->lock);
    }
    pthread_mutex_unlock(&pulse->lock);
    return NULL;
}

/* Begins. Borrows jobs, which no other process uses meanwhile, and name until the end. NULL: no
 * thread could be created, and the run continues without. */
static struct pulse *begin_pulse(struct lull_batch_jobs *jobs, const char *name, uint64_t run)
{
    struct pulse *pulse = calloc(1, sizeof(*pulse));

    if (pulse == NULL)
        return NULL;
    pulse->jobs = jobs;
    pulse->name = name;
    pulse->run = run;
    pulse->progress = (struct lull_batch_progress){.energy_j = NAN, .metric = NAN};
    pthread_mutex_init(&pulse->lock, NULL);
    lull_thread_init_condition(&pulse->over);
    if (lull_thread_start(&pulse->thread, batch_attempt_thread, pulse) == 0)
        return pulse;
    pthread_cond_destroy(&pulse->over);
    pthread_mutex_destroy(&pulse->lock);
    free(pulse);
    return NULL;
}

/* Sets what is reported next; returns at once. NULL is allowed. */
static void set_pulse(struct pulse *pulse, const struct lull_batch_progress *progress)
{
    if (pulse == NULL)
        return;
    pthread_mutex_lock(&pulse->lock);
    pulse->progress = *progress;
    pthread_mutex_unlock(&pulse->lock);
}

/* Ends it and returns jobs to the caller. NULL is allowed. */
static void end_pulse(struct pulse *pulse)
{
    if (pulse == NULL)
        return;
    pthread_mutex_lock(&pulse->lock);
    pulse->is_over = true;
    pthread_cond_signal(&pulse->over);
    pthread_mutex_unlock(&pulse->lock);
    pthread_join(pulse->thread, NULL);
    pthread_cond_destroy(&pulse->over);
    pthread_mutex_destroy(&pulse->lock);
    free(pulse);
}

/* ---- the attempt --------------------------------------------------------------------------- */

/* One of the command's outputs. */
struct relay {
    int from; /* the pipe's end; -1: closed */
    int to;
    struct lull_metric_stream stream;
};

struct attempt {
    const struct lull_batch_attempt_options *options;
    struct lull_energy_meter *meter;
    struct pulse *pulse;
    struct lull_child child;
    struct relay relays[STREAMS];
    int signals;
    bool has_reached;
    bool is_interrupted;
    bool is_stopping;
    enum lull_batch_end why; /* while is_stopping */
    int64_t begin_ns;
    int64_t kill_ns; /* while is_stopping */
    struct lull_batch_progress progress;
};

/* ---- stopping ------------------------------------------------------------------------------ */

static void batch_attempt_stop(struct attempt *attempt, enum lull_batch_end why)
{
    if (attempt->is_stopping)
        return;
    attempt->is_stopping = true;
    attempt->why = why;
    attempt->kill_ns = lull_now_ns() + attempt->options->grace_ns;
    lull_child_signal_group(&attempt->child, SIGTERM);
}

/* A value that is not finite has diverged: it counts as an epoch, and reaches no target. */
static bool is_reached(const struct lull_batch_attempt_options *options, double value)
{
    if (!isfinite(value))
        return false;
    return options->is_lower_better ? value <= options->target : value >= options->target;
}

static void batch_attempt_take_value(void *context, struct lull_metric_value read)
{
    struct attempt *attempt = context;
    const struct lull_batch_attempt_options *options = attempt->options;
    const bool is_ratio = read.is_percent && options->target <= 1.0;
    const double value = is_ratio ? read.number / 100.0 : read.number;

    /* Epochs beyond the limit do not count. Output of a run that is
     * being stopped because of its cost does count. */
    if (attempt->has_reached || (attempt->is_stopping && attempt->why == LULL_BATCH_END_EPOCHS))
        return;
    attempt->progress.metric = value;
    attempt->progress.epochs++;
    attempt->has_reached = is_reached(options, value);
    if (attempt->has_reached)
        batch_attempt_stop(attempt, LULL_BATCH_END_TARGET);
    else if (options->max_epochs != 0 && attempt->progress.epochs >= options->max_epochs)
        batch_attempt_stop(attempt, LULL_BATCH_END_EPOCHS);
}

/* ---- output -------------------------------------------------------------------------------- */

/* Writes all bytes. False: no process reads the output any more. */
static bool batch_attempt_write_all(int to, const char *data, size_t size)
{
    while (size > 0) {
        const ssize_t written = write(to, data, size);

        if (written > 0) {
            data += written;
            size -= (size_t)written;
        } else if (written < 0 && errno == EAGAIN) {
            struct pollfd room = {.fd = to, .events = POLLOUT};

            poll(&room, 1, -1);
        } else if (written == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* Closing the pipe notifies the command with SIGPIPE or EPIPE, as without Lull. */
static void close_relay(struct attempt *attempt, struct relay *relay)
{
    if (relay->from < 0)
        return;
    lull_metric_finish(attempt->options->metric, &relay->stream, batch_attempt_take_value, attempt);
    close(relay->from);
    relay->from = -1;
}

/* Passes on the available output. It never waits for more, and the number of reads per call is
 * limited. */
static void batch_attempt_forward(struct attempt *attempt, struct relay *relay)
{
    char data[READ_BYTES];

    for (int reads = 0; reads < MAX_READS && relay->from >= 0; reads++) {
        const ssize_t size = read(relay->from, data, sizeof(data));

        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && errno == EAGAIN)
            return;
        if (size <= 0 || !batch_attempt_write_all(relay->to, data, (size_t)size)) {
            close_relay(attempt, relay);
            return;
        }
        lull_metric_feed(attempt->options->metric, &relay->stream, data, (size_t)size,
                         batch_attempt_take_value, attempt);
    }
}

/* ---- measuring ----------------------------------------------------------------------------- */

static void batch_attempt_measure(struct attempt *attempt)
{
    struct lull_batch_progress *progress = &attempt->progress;

    progress->time_s = (double)(lull_now_ns() - attempt->begin_ns) * 1e-9;
    if (attempt->meter != NULL && isfinite(progress->energy_j))
        progress->energy_j = lull_energy_meter_read(attempt->meter);
    set_pulse(attempt->pulse, progress);
}

static void batch_attempt_tick(struct attempt *attempt)
{
    const struct lull_batch_attempt_options *options = attempt->options;

    batch_attempt_measure(attempt);
    if (attempt->is_stopping || attempt->is_interrupted || !isfinite(attempt->progress.energy_j) ||
        !(lull_job_cost(&options->price, attempt->progress.energy_j, attempt->progress.time_s) >
          options->bound))
        return;
    /* Output written so far is read first, because a reached target counts. */
    for (int i = 0; i < STREAMS; i++)
        batch_attempt_forward(attempt, &attempt->relays[i]);
    batch_attempt_stop(attempt, LULL_BATCH_END_BOUND);
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void take_signals(struct attempt *attempt)
{
    struct signalfd_siginfo info;

    while (read(attempt->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        attempt->is_interrupted = true;
        lull_child_signal_group(&attempt->child, (int)info.ssi_signo);
    }
}

static int batch_attempt_wait_ms(const struct attempt *attempt, int64_t tick_ns)
{
    const int64_t now_ns = lull_now_ns();
    int64_t until_ns = tick_ns;

    if (attempt->is_stopping && attempt->kill_ns < until_ns)
        until_ns = attempt->kill_ns;
    return until_ns <= now_ns ? 0 : (int)((until_ns - now_ns) / LULL_NS_PER_MS) + 1;
}

/* Waits until the command has ended and all its output is passed on; returns its status. */
static int batch_attempt_watch(struct attempt *attempt)
{
    int64_t tick_ns = attempt->begin_ns + TICK_NS;
    int status = 0;

    for (;;) {
        struct pollfd polls[POLLS] = {
            [POLL_CHILD] = {.fd = attempt->child.pidfd, .events = POLLIN},
            [POLL_SIGNALS] = {.fd = attempt->signals, .events = POLLIN},
        };

        for (int i = 0; i < STREAMS; i++)
            polls[i] = (struct pollfd){.fd = attempt->relays[i].from, .events = POLLIN};
        poll(polls, POLLS, batch_attempt_wait_ms(attempt, tick_ns));
        for (int i = 0; i < STREAMS; i++)
            if (polls[i].revents != 0)
                batch_attempt_forward(attempt, &attempt->relays[i]);
        take_signals(attempt);
        if (polls[POLL_CHILD].revents != 0)
            break;
        if (lull_now_ns() >= tick_ns) {
            batch_attempt_tick(attempt);
            tick_ns = lull_now_ns() + TICK_NS;
        }
        if (attempt->is_stopping && lull_now_ns() >= attempt->kill_ns) {
            lull_child_signal_group(&attempt->child, SIGKILL);
            attempt->kill_ns = INT64_MAX;
        }
    }
    batch_attempt_measure(attempt);
    /* Processes that the command left behind would continue to draw
     * power. Its process group id stays valid until the command is
     * reaped. */
    if (attempt->is_stopping)
        lull_child_signal_group(&attempt->child, SIGKILL);
    lull_child_reap(&attempt->child, true, &status);
    for (int i = 0; i < STREAMS; i++) {
        batch_attempt_forward(attempt, &attempt->relays[i]);
        close_relay(attempt, &attempt->relays[i]);
    }
    return status;
}

static int make_pipes(struct attempt *attempt, int ends[STREAMS], struct lull_error *err)
{
    for (int i = 0; i < STREAMS; i++) {
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0) {
            const int code = errno;

            for (int k = 0; k < i; k++) {
                close(attempt->relays[k].from);
                close(ends[k]);
            }
            return lull_error_set(err, -code, "no pipe for the command's output");
        }
        fcntl(fds[0], F_SETFL, O_NONBLOCK);
        attempt->relays[i].from = fds[0];
        attempt->relays[i].to = i == OUTPUT ? STDOUT_FILENO : STDERR_FILENO;
        ends[i] = fds[1];
    }
    return 0;
}

static int batch_attempt_start(struct attempt *attempt, struct lull_error *err)
{
    /* A Python program buffers its output if it is not a terminal, and thereby the metric. */
    static const char *const environment[] = {"PYTHONUNBUFFERED=1", NULL};
    struct lull_child_setup setup = {.has_own_group = true};
    int ends[STREAMS] = {-1, -1};
    int result = make_pipes(attempt, ends, err);

    if (result < 0)
        return result;
    setup.stdout_fd = ends[OUTPUT];
    setup.stderr_fd = ends[ERRORS];
    attempt->progress = (struct lull_batch_progress){.energy_j = NAN, .metric = NAN};
    if (attempt->meter != NULL && lull_energy_meter_begin(attempt->meter, NULL) == 0)
        attempt->progress.energy_j = 0.0;
    attempt->begin_ns = lull_now_ns();
    result =
        lull_child_start_as(attempt->options->command, environment, &setup, &attempt->child, err);
    for (int i = 0; i < STREAMS; i++) {
        close(ends[i]);
        if (result < 0)
            close(attempt->relays[i].from);
    }
    return result;
}

/* ---- the end ------------------------------------------------------------------------------- */

static void batch_attempt_judge_end(const struct attempt *attempt, int status,
                                    struct lull_batch_attempt *out)
{
    static const enum lull_batch_event events[] = {
        [LULL_BATCH_END_TARGET] = LULL_BATCH_REACHED,
        [LULL_BATCH_END_BOUND] = LULL_BATCH_MISSED,
        [LULL_BATCH_END_EPOCHS] = LULL_BATCH_MISSED,
        [LULL_BATCH_END_OWN] = LULL_BATCH_MISSED,
        [LULL_BATCH_END_BLIND] = LULL_BATCH_LOST,
        [LULL_BATCH_END_CRASHED] = LULL_BATCH_CRASHED,
        [LULL_BATCH_END_INTERRUPTED] = LULL_BATCH_LOST,
    };

    out->status = status;
    out->progress = attempt->progress;
    if (attempt->has_reached)
        out->end = LULL_BATCH_END_TARGET;
    else if (attempt->is_interrupted)
        out->end = LULL_BATCH_END_INTERRUPTED;
    else if (attempt->is_stopping)
        out->end = attempt->why;
    else if (status != 0)
        out->end = LULL_BATCH_END_CRASHED;
    else
        out->end = out->progress.epochs > 0 ? LULL_BATCH_END_OWN : LULL_BATCH_END_BLIND;
    out->event = events[out->end];
    if (!isfinite(out->progress.energy_j) && out->event != LULL_BATCH_CRASHED)
        out->event = LULL_BATCH_LOST;
    out->estimated_s = attempt->meter != NULL ? attempt->meter->estimated_s : 0.0;
    for (int i = 0; i < STREAMS; i++)
        if (attempt->relays[i].stream.unread[0] != '\0')
            memcpy(out->unread, attempt->relays[i].stream.unread, sizeof(out->unread));
}

int lull_batch_attempt_run(const struct lull_batch_attempt_options *options,
                           struct lull_energy_meter *meter, struct lull_batch_jobs *jobs,
                           const char *name, uint64_t run, struct lull_batch_attempt *attempt_out,
                           struct lull_error *err)
{
    static const int taken[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    struct attempt *attempt = calloc(1, sizeof(*attempt));
    sigset_t signals;
    sigset_t before;
    int result;

    if (attempt == NULL)
        return lull_error_set(err, -ENOMEM, "no memory to run the command");
    attempt->options = options;
    attempt->meter = meter;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        sigaddset(&signals, taken[i]);
    sigprocmask(SIG_BLOCK, &signals, &before);
    signal(SIGPIPE, SIG_IGN);
    attempt->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    result = batch_attempt_start(attempt, err);
    if (result == 0) {
        attempt->pulse = jobs == NULL ? NULL : begin_pulse(jobs, name, run);
        batch_attempt_judge_end(attempt, batch_attempt_watch(attempt), attempt_out);
        end_pulse(attempt->pulse);
    }
    close(attempt->signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    free(attempt);
    return result;
}
