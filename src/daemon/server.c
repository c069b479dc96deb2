/*
 * Starts and stops the server, and what it answers signals with.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "daemon/server.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/enforcer.h"
#include "daemon/internal.h"
#include "daemon/listener.h"
#include "daemon/notify.h"

enum {
    PATIENCE_MS = 1000, /* with this loop, before overdue leases end although it reads nothing */
    CHECK_MS = 1000,    /* a GPU is looked at this often, for XIDs, MIG and its loss; */
    /* a service without a driver ends after this time: a device group, which its manager may look
     * up only when it starts the service, may be missing; */
    DRIVERLESS_MS = 60000,
    STOP_LIMIT_S = 5,
};

/* Every signal that would end a process and can be caught. Each stops the daemon in order, because
 * a GPU must not stay low whatever was meant by the signal. */
static const int stop_signals[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,   SIGUSR1,
                                   SIGUSR2, SIGALRM, SIGPROF, SIGVTALRM, SIGSTKFLT,
                                   SIGIO,   SIGPWR,  SIGXCPU};

enum { STOP_SIGNALS = sizeof(stop_signals) / sizeof(stop_signals[0]) };

static_assert(STOP_SIGNALS <= NSIG, "there is a handle for each");

uv_loop_t *lull_server_loop(struct lull_server *server)
{
    return &server->loop;
}

struct lull_writer *lull_server_writer(struct lull_server *server)
{
    return server->writer;
}

struct lull_foreign *lull_server_foreign(struct lull_server *server)
{
    return server->foreign;
}

static void wake_up(void *context)
{
    lull_server_wake(context);
}

static void on_lease_ended(void *context, uint32_t gpu, int result)
{
    struct lull_server *server = context;

    atomic_store(&server->ended[gpu], result);
    lull_server_wake(server);
}

static void on_undrivable(void *context, uint32_t gpu, enum lull_writer_revocation why)
{
    lull_server_note_undrivable(context, gpu, why);
}

static void on_processes(void *context, uint32_t gpu, const pid_t *pids, uint32_t count)
{
    lull_server_note_processes(context, gpu, pids, count);
}

static int start_enforcer(struct lull_server *server, struct lull_error *err)
{
    const struct lull_enforcer_options options = {
        .gpu_count = LULL_DEVICE_MAX_GPUS, /* some may come later */
        .ttl_ns = LULL_SERVER_LEASE_TTL_MS * LULL_NS_PER_MS,
        .patience_ns = PATIENCE_MS * LULL_NS_PER_MS,
        .wake = wake_up,
        .context = server,
    };

    return lull_enforcer_start(server->writer, &options, &server->enforcer, err);
}

static void server_announce(const struct lull_server *server,
                            const struct lull_server_options *options)
{
    lull_log(LULL_LOG_INFO, "lulld", "serving %u GPUs (socket=%s)",
             lull_devices_count(server->devices), server->everybody.path);
    lull_server_report_absent_gpus(server);
    lull_notify_manager("READY=1");
    if (options->ready_fd < 0)
        return;
    if (write(options->ready_fd, "\n", 1) < 0)
        lull_log(LULL_LOG_WARNING, "lulld", "--ready-fd: %s", strerror(errno));
    close(options->ready_fd);
}

static void server_on_signal(uv_signal_t *handle, int number)
{
    struct lull_server *server = handle->data;

    if (server->is_stopping)
        return;
    server->is_stopping = true;
    lull_log(LULL_LOG_INFO, "lulld", "stopping: raising and restoring every GPU (signal=%d)",
             number);
    /* New clients fail at once from here on, instead of waiting for a daemon that ends. */
    lull_listener_hide(&server->everybody);
    lull_listener_hide(&server->root);
    uv_stop(&server->loop);
}

static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static int watch_signals(struct lull_server *server)
{
    int result = 0;

    for (size_t i = 0; i < STOP_SIGNALS && result == 0; i++)
        /* Under nohup the daemon is to outlive its terminal. */
        if (stop_signals[i] != SIGHUP || !is_ignored(SIGHUP))
            result = uv_signal_start(&server->signals[i], server_on_signal, stop_signals[i]);
    return result;
}

static int start_handles(struct lull_server *server)
{
    int result = lull_listener_start(&server->root, &server->loop);

    if (result == 0)
        result = lull_listener_start(&server->everybody, &server->loop);
    if (result == 0)
        result = uv_prepare_start(&server->before_poll, lull_server_on_before_poll);
    if (result == 0)
        result = uv_check_start(&server->after_poll, lull_server_on_after_poll);
    return result == 0 ? watch_signals(server) : result;
}

static int init_loop(struct lull_server *server)
{
    int result = uv_loop_init(&server->loop);

    if (result < 0)
        return result;
    uv_prepare_init(&server->loop, &server->before_poll);
    uv_check_init(&server->loop, &server->after_poll);
    uv_timer_init(&server->loop, &server->housekeeping);
    uv_timer_init(&server->loop, &server->resume);
    uv_timer_init(&server->loop, &server->driverless);
    server->driverless.data = server;
    uv_timer_init(&server->loop, &server->caps_end);
    server->caps_end.data = server;
    for (size_t i = 0; i < STOP_SIGNALS; i++) {
        uv_signal_init(&server->loop, &server->signals[i]);
        server->signals[i].data = server;
    }
    result = uv_async_init(&server->loop, &server->wake, lull_server_on_wake);
    server->before_poll.data = server;
    server->after_poll.data = server;
    server->housekeeping.data = server;
    server->resume.data = server;
    server->wake.data = server;
    return result;
}

static void server_close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/*
 * After the writer has stopped nothing holds a connection, which stop_serving() has closed, but its
 * own handles, and a thread that closes a lingering descriptor of its client. Returns false where
 * such a thread takes longer, and still uses the server.
 */
static bool fini_loop(struct lull_server *server)
{
    const int64_t until_ns = lull_now_ns() + LULL_NS_PER_S / 2;

    while (server->connections != NULL || atomic_load(&server->ringer.users) > 0) {
        if (lull_now_ns() > until_ns)
            return false;
        uv_run(&server->loop, UV_RUN_NOWAIT);
        lull_server_reap(server);
    }
    uv_walk(&server->loop, server_close_handle, NULL);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    uv_loop_close(&server->loop);
    return true;
}

/* Blocks the stop signals: after the first one, they have no effect. The handlers are removed
 * before the process ends. */
static void server_block_signals(void)
{
    sigset_t stopping;

    sigemptyset(&stopping);
    for (size_t i = 0; i < STOP_SIGNALS; i++)
        sigaddset(&stopping, stop_signals[i]);
    pthread_sigmask(SIG_BLOCK, &stopping, NULL);
}

/* Restores all GPUs and stops the writer. What a writer that is stuck in the driver uses is never
 * freed. */
static int stop_serving(struct lull_server *server, struct lull_error *err)
{
    int result;

    server_block_signals();
    lull_watchdog_stop(&server->watchdog);
    for (struct lull_connection *c = server->connections; c != NULL; c = c->next)
        lull_connection_close(c);
    uv_prepare_stop(&server->before_poll);
    uv_check_stop(&server->after_poll);
    lull_enforcer_stop(server->enforcer);
    server->enforcer = NULL;
    result = lull_writer_stop(server->writer, STOP_LIMIT_S * LULL_NS_PER_S);
    if (result < 0)
        lull_error_set(err, result,
                       "not every GPU could be restored; the next start of lulld or `lull restore` "
                       "tries again");
    return result;
}

static void on_driverless(uv_timer_t *timer)
{
    struct lull_server *const server = timer->data;

    if (lull_devices_count(server->devices) > 0)
        return;
    server->is_driverless = true;
    uv_stop(&server->loop);
}

/* Ends a service that has found no driver, so that its manager starts it again. */
static void watch_driverless(struct lull_server *server)
{
    if (getenv("NOTIFY_SOCKET") != NULL && lull_devices_count(server->devices) == 0)
        uv_timer_start(&server->driverless, on_driverless, DRIVERLESS_MS, 0);
}

static int serve_until_stopped(struct lull_server *server, struct lull_journal *journal,
                               const struct lull_server_options *options, struct lull_error *err)
{
    struct lull_writer_options writer_options = lull_writer_defaults;
    int result;

    writer_options.keeper = options->keeper;
    writer_options.context = server;
    writer_options.ended = on_lease_ended;
    writer_options.revoke = on_undrivable;
    writer_options.processes = on_processes;
    writer_options.is_resetting = options->is_resetting;
    writer_options.check_ns = CHECK_MS * LULL_NS_PER_MS;
    writer_options.reads_power = true;
    result = lull_writer_start(server->devices, journal, &writer_options, &server->writer, err);
    if (result < 0)
        return result;
    result = start_enforcer(server, err);
    if (result < 0)
        goto stop_writer;
    result = lull_server_open_listeners(server, options, err);
    if (result < 0)
        goto stop_enforcer;
    result = start_handles(server);
    if (result < 0) {
        lull_error_set(err, result, "event loop: %s", uv_strerror(result));
        goto stop_enforcer;
    }
    lull_watchdog_start(&server->watchdog, &server->loop, server->writer);
    server_announce(server, options);
    watch_driverless(server);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    result = stop_serving(server, err);
    if (result == 0 && server->is_driverless)
        return lull_error_set(
            err, LULL_E_NO_DRIVER,
            "no driver for a minute: exiting, so that the next start searches for devices again");
    return result;
stop_enforcer:
    lull_enforcer_stop(server->enforcer);
stop_writer:
    lull_writer_stop(server->writer, LULL_NS_PER_S);
    return result;
}

/* A directory whose name is too long for this is too long for the sockets as well. */
static void server_load_jobs(struct lull_server *server, const char *runtime_dir)
{
    uint32_t failures;

    snprintf(server->jobs_directory, sizeof(server->jobs_directory), "%s/jobs", runtime_dir);
    failures = lull_jobs_load(&server->jobs, server->jobs_directory);
    if (failures > 0)
        lull_log(LULL_LOG_WARNING, "lulld",
                 "%s: %u job files cannot be read; their GPUs count as unassigned",
                 server->jobs_directory, failures);
}

int lull_server_run(struct lull_devices *devices, struct lull_journal *journal,
                    const struct lull_server_options *options, struct lull_error *err)
{
    struct lull_server *server = calloc(1, sizeof(*server));
    int result;

    if (server == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for the server");
    server->devices = devices;
    server->policy_path = options->policy_path;
    server->opens_with_policy = options->opens_with_policy;
    server->policy = options->policy;
    lull_users_init(&server->users);
    lull_server_init_pauses(server);
    server_load_jobs(server, options->runtime_dir);
    server->runtime_dir = options->runtime_dir;
    lull_server_publish_viewers(server);
    server->everybody.fd = server->everybody.spare_fd = -1;
    server->root.fd = server->root.spare_fd = -1;
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        atomic_init(&server->ended[gpu], LULL_SERVER_NO_RESULT);
    result = lull_foreign_start(&server->foreign, err);
    if (result < 0) {
        free(server);
        return result;
    }
    result = init_loop(server);
    if (result < 0) {
        lull_foreign_stop(server->foreign);
        free(server);
        return lull_error_set(err, result, "not enough memory for the event loop");
    }
    result = serve_until_stopped(server, journal, options, err);
    lull_listener_close(&server->root);
    lull_listener_close(&server->everybody);
    if (result == -EINPROGRESS)
        return result; /* the writer's thread may still use all of it */
    if (!fini_loop(server))
        return result;
    lull_foreign_stop(server->foreign);
    free(server);
    return result;
}
