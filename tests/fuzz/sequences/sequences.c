/*
 * Drives the whole of lulld but its main function with random sequences: clients that do what they
 * like, a driver that fails, hangs and lies, a journal that cannot be written, time that leaps.
 *
 * While a sequence runs, every change of a GPU is held against I2 (a record comes first) and I3
 * (nothing outside what the administrator and the leases allow); after it, when the clients are
 * dead and the driver is well again, the GPUs are as before (I1), no record is left, and neither
 * descriptors nor threads nor memory have grown (I5). I4 is of `lull run`, which has no part here.
 *
 * A sequence follows from its number, but for what threads and processes do in their own time.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../folder.h"
#include "base/clock.h"
#include "base/log.h"
#include "client_process.h"
#include "daemon/foreign.h"
#include "daemon/server.h"
#include "device/restore.h"
#include "passing_time.h"
#include "scripted_driver.h"
#include "wire/client.h"

enum {
    CLIENTS = 3,
    LEAST_STEPS = 10,
    MAX_STEPS = 60,
    MOST_PATH = 160,
    SETTLE_S = 30,           /* really; a busy host needs some, a quiet one some milliseconds */
    SEQUENCES_PER_LIFE = 50, /* then the server stops and starts again */
    WARM_UP = 100,           /* sequences, before memory is compared */
    MEMORY_SLACK = 256 * 1024,
};

/* ---- numbers, and what was done -------------------------------------------------------------- */

static uint64_t state;
static uint64_t sequence; /* its number */
static char trace[MAX_STEPS * 64];
static size_t trace_used;
static int speak_fd; /* standard error; the server's log goes elsewhere */

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next(void)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t below(uint32_t count)
{
    return (uint32_t)(next() % count);
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(trace + trace_used, sizeof(trace) - trace_used, format, args);
    va_end(args);
    if (length > 0 && trace_used + (size_t)length < sizeof(trace))
        trace_used += (size_t)length;
}

_Noreturn static void violate(const char *what, uint32_t gpu, uint64_t value)
{
    dprintf(speak_fd, "sequence %llu: %s (GPU %u, %llu)\n%s\n", (unsigned long long)sequence, what,
            gpu, (unsigned long long)value, trace);
    driver_tell(speak_fd);
    folder_remove();
    abort();
}

static void on_violation(const char *what, uint32_t gpu, uint64_t value)
{
    violate(what, gpu, value);
}

/* ---- the server --------------------------------------------------------------------------------
 */

static struct {
    struct lull_devices *devices;
    struct lull_journal *journal;
    struct lull_server_options options;
    pthread_t thread;
    int result;
} server;

static char saved[MOST_PATH];
static char hidden[MOST_PATH];

static void *serve(void *unused)
{
    struct lull_error err;

    (void)unused;
    server.result = lull_server_run(server.devices, server.journal, &server.options, &err);
    return NULL;
}

static void start_server(void)
{
    struct lull_restore_report report;
    struct lull_error err = {0};
    int fds[2];
    char byte;

    if (lull_journal_open(folder(), &server.journal, &err) < 0 ||
        lull_devices_open(&server.devices, &err) < 0 ||
        lull_restore_all(server.devices, server.journal, &report, &err) < 0)
        violate(err.text, 0, 0);
    require(pipe2(fds, O_CLOEXEC) == 0);
    server.options = (struct lull_server_options){.runtime_dir = folder(),
                                                  .socket_mode = 0600,
                                                  .socket_group = (gid_t)-1,
                                                  .ready_fd = fds[1]};
    require(pthread_create(&server.thread, NULL, serve, NULL) == 0);
    require(read(fds[0], &byte, 1) == 1);
    close(fds[0]);
}

static int stop_server(void)
{
    kill(getpid(), SIGTERM);
    pthread_join(server.thread, NULL);
    lull_devices_close(server.devices);
    lull_journal_close(server.journal);
    return server.result;
}

/* ---- steps -------------------------------------------------------------------------------------
 */

static struct client clients[CLIENTS];
static struct lull_band bands[DRIVER_GPUS];
static struct driver_faults faults[DRIVER_GPUS];
static uint32_t asked[CLIENTS]; /* the GPU that a client has requested last */

/* Mostly a GPU that the client may hold. */
static uint32_t some_gpu(const struct client *client)
{
    return below(8) == 0 ? below(DRIVER_GPUS) : asked[client - clients];
}

static void send_message(struct client *client, struct lull_message *message,
                         enum client_order order)
{
    struct client_task task = {.order = order};

    message->sequence = (uint32_t)next();
    task.size = (uint32_t)lull_message_encode(message, task.packet, LULL_MESSAGE_MAX_BYTES);
    client_do(client, &task);
}

static void receive(struct client *client)
{
    const struct client_task task = {.order = CLIENT_RECEIVE};

    client_do(client, &task);
}

static void step_connect(struct client *client)
{
    struct client_task task = {.order = CLIENT_CONNECT};
    struct lull_message hello = {.type = LULL_MESSAGE_HELLO};

    if (client->pid != 0 && client->fd < 0)
        client_end(client);
    if (client->pid == 0)
        client_start(client);
    snprintf((char *)task.packet, sizeof(task.packet), "%.100s/%s", folder(), LULL_CLIENT_SOCKET);
    client_do(client, &task);
    if (below(16) != 0)
        send_message(client, &hello, CLIENT_SEND);
}

static void step_lease(struct client *client)
{
    const uint32_t gpu = below(DRIVER_GPUS);
    struct lull_message message = {.type = LULL_MESSAGE_LEASE};
    struct lull_message_lease *const lease = &message.body.lease;

    snprintf(lease->uuid, sizeof(lease->uuid), "GPU-%u", gpu);
    lease->min_mhz = bands[gpu].min_mhz;
    lease->max_mhz = bands[gpu].max_mhz;
    if (below(2) == 0) {
        lease->min_limit_mw = bands[gpu].min_limit_mw;
        lease->max_limit_mw = bands[gpu].max_limit_mw;
    }
    send_message(client, &message, CLIENT_SEND);
    receive(client);
    asked[client - clients] = gpu;
    note("(%u) ", gpu);
}

static uint32_t any_clock(uint32_t gpu)
{
    const uint32_t clocks[] = {0,
                               bands[gpu].min_mhz,
                               bands[gpu].max_mhz,
                               bands[gpu].min_mhz + below(200),
                               below(2000),
                               UINT32_MAX,
                               1};

    return clocks[below(sizeof(clocks) / sizeof(clocks[0]))];
}

static int64_t any_time(void)
{
    const int64_t now_ns = lull_now_ns();
    const int64_t times[] = {now_ns + LULL_NS_PER_S,
                             now_ns + 3 * LULL_NS_PER_S,
                             now_ns + LULL_NS_PER_S / 100,
                             now_ns + 60 * LULL_NS_PER_S,
                             now_ns - LULL_NS_PER_S,
                             INT64_MAX,
                             INT64_MIN,
                             -1};

    return times[below(sizeof(times) / sizeof(times[0]))];
}

/* Half of the requests are such as honest clients post. */
static void step_post(struct client *client)
{
    const uint32_t gpu = some_gpu(client);
    const bool is_honest = below(2) == 0;
    struct client_task task = {.order = CLIENT_POST, .slot = gpu};

    task.request.sm_mhz = is_honest ? bands[gpu].min_mhz : any_clock(gpu);
    task.request.deadline_ns = is_honest ? lull_now_ns() + LULL_NS_PER_S : any_time();
    task.request.valid_until_ns = is_honest ? lull_now_ns() + 4 * LULL_NS_PER_S : any_time();
    client_do(client, &task);
    note("(%u %u) ", gpu, task.request.sm_mhz);
}

static void step_limit(struct client *client)
{
    const uint32_t gpu = some_gpu(client);
    const uint32_t limits[] = {0,
                               bands[gpu].min_limit_mw,
                               bands[gpu].max_limit_mw,
                               bands[gpu].min_limit_mw + below(100000),
                               UINT32_MAX,
                               1};
    const struct client_task task = {.order = CLIENT_LIMIT,
                                     .slot = gpu,
                                     .limit_mw = limits[below(sizeof(limits) / sizeof(limits[0]))]};

    client_do(client, &task);
    note("(%u %u) ", gpu, task.limit_mw);
}

static void step_scribble(struct client *client)
{
    const struct client_task task = {.order = CLIENT_SCRIBBLE, .seed = next()};

    client_do(client, &task);
}

static void step_ring(struct client *client)
{
    const struct client_task task = {.order = CLIENT_RING, .count = 1 + below(100)};

    client_do(client, &task);
}

static void step_renew(struct client *client)
{
    struct lull_message message = {.type = LULL_MESSAGE_RENEW};

    send_message(client, &message, CLIENT_SEND);
}

static void step_release(struct client *client)
{
    struct lull_message message = {.type = LULL_MESSAGE_RELEASE};

    message.body.release.slot = below(2) == 0 ? LULL_MESSAGE_ALL_SLOTS : below(DRIVER_GPUS + 1);
    send_message(client, &message, CLIENT_SEND);
}

static void step_status(struct client *client)
{
    struct lull_message message = {.type = LULL_MESSAGE_STATUS};

    message.body.status.gpu = below(DRIVER_GPUS + 1);
    send_message(client, &message, CLIENT_SEND);
    receive(client);
}

static void step_restore(struct client *client)
{
    struct lull_message message = {.type = LULL_MESSAGE_RESTORE};

    send_message(client, &message, CLIENT_SEND);
}

static void step_garbage(struct client *client)
{
    struct client_task task = {.order = below(4) == 0 ? CLIENT_SEND_FD : CLIENT_SEND};

    task.size = below(sizeof(task.packet));
    for (uint32_t i = 0; i < task.size; i++)
        task.packet[i] = (uint8_t)next();
    client_do(client, &task);
}

static void step_fork(struct client *client)
{
    struct client_task task = {.order = CLIENT_FORK};
    const struct lull_message message = {.type = LULL_MESSAGE_RENEW};

    task.size = (uint32_t)lull_message_encode(&message, task.packet, LULL_MESSAGE_MAX_BYTES);
    client_do(client, &task);
}

static void step_close(struct client *client)
{
    const struct client_task task = {.order = CLIENT_CLOSE};

    client_do(client, &task);
}

static void step_time(struct client *client)
{
    static const int64_t leaps_ms[] = {1, 20, 50, 300, 1100, 3100, 6000, 31000};
    const int64_t leap_ms = leaps_ms[below(sizeof(leaps_ms) / sizeof(leaps_ms[0]))];

    (void)client;
    time_leap(leap_ms * LULL_NS_PER_MS);
    note("(%lld ms) ", (long long)leap_ms);
}

static void step_rest(struct client *client)
{
    (void)client;
    time_rest_ms(1 + below(3));
}

static void step_fault(struct client *client)
{
    static const int codes[] = {-EAGAIN, -EPERM, -EINVAL, LULL_E_UNSUPPORTED, LULL_E_NO_DEVICE};
    const uint32_t gpu = below(DRIVER_GPUS);
    struct driver_faults *const fault = &faults[gpu];
    const uint32_t kind = below(7);

    (void)client;
    fault->hangs_in_sets = kind == 0;
    fault->hangs_in_reads = kind == 1;
    fault->is_idle = kind == 2;
    fault->is_slow = kind == 3;
    fault->deaf_calls = kind == 4 ? 1 + below(4) : 0;
    fault->fails = kind == 5 ? 1 + below(8) : 0;
    fault->status = codes[below(sizeof(codes) / sizeof(codes[0]))];
    /* A refusal has no effect; a failure may have one. */
    fault->takes_effect =
        below(2) == 0 && (fault->status == -EAGAIN || fault->status == LULL_E_NO_DEVICE);
    driver_set_faults(gpu, fault);
    note("(%u kind %u %d) ", gpu, kind, kind == 5 ? fault->status : 0);
}

/* The folder of the records goes and comes back, as one on a file system that is full or gone. */
static void step_journal(struct client *client)
{
    (void)client;
    if (rename(hidden, saved) < 0)
        (void)rename(saved, hidden);
}

static const struct step {
    const char *name;
    uint32_t weight;
    void (*take)(struct client *client);
} steps[] = {
    {"connect", 4, step_connect},     {"lease", 24, step_lease},      {"post", 24, step_post},
    {"limit", 10, step_limit},        {"scribble", 2, step_scribble}, {"ring", 2, step_ring},
    {"renew", 6, step_renew},         {"release", 6, step_release},   {"status", 2, step_status},
    {"restore", 1, step_restore},     {"garbage", 1, step_garbage},   {"fork", 2, step_fork},
    {"close", 2, step_close},         {"die", 3, client_kill},        {"stop", 2, client_stop},
    {"continue", 2, client_continue}, {"time", 10, step_time},        {"rest", 10, step_rest},
    {"fault", 6, step_fault},         {"journal", 2, step_journal},
};

static const struct step *choose(void)
{
    uint32_t total = 0;
    uint32_t chosen;
    const struct step *step = steps;

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        total += steps[i].weight;
    for (chosen = below(total); chosen >= step->weight; step++)
        chosen -= step->weight;
    return step;
}

/* ---- a sequence --------------------------------------------------------------------------------
 */

static uint32_t entries_of(const char *path)
{
    DIR *const directory = opendir(path);
    uint32_t count = 0;

    while (directory != NULL && readdir(directory) != NULL)
        count++;
    if (directory != NULL)
        closedir(directory);
    return count;
}

static uint32_t records_in(const char *path)
{
    DIR *const directory = opendir(path);
    const struct dirent *entry;
    uint32_t count = 0;

    /* Half of a file that was being written when its folder went has a dot in its name. */
    while (directory != NULL && (entry = readdir(directory)) != NULL)
        count += strchr(entry->d_name, '.') == NULL;
    if (directory != NULL)
        closedir(directory);
    return count;
}

static uint32_t records(void)
{
    char unconfirmed[MOST_PATH];

    snprintf(unconfirmed, sizeof(unconfirmed), "%.100s/unconfirmed", folder());
    return records_in(saved) + records_in(unconfirmed);
}

static void set_bands(void)
{
    for (uint32_t gpu = 0; gpu < DRIVER_GPUS; gpu++) {
        struct lull_band *const band = &bands[gpu];

        band->min_mhz = DRIVER_LOWEST_MHZ + below(1000);
        band->max_mhz = band->min_mhz + 200 + below(1000);
        band->min_limit_mw = DRIVER_LEAST_LIMIT_MW + below(200000);
        band->max_limit_mw = band->min_limit_mw + below(100000);
        if (band->max_mhz > DRIVER_HIGHEST_MHZ)
            band->max_mhz = DRIVER_HIGHEST_MHZ;
        driver_allow(gpu, band);
    }
}

static void heal(void)
{
    memset(faults, 0, sizeof(faults));
    for (uint32_t gpu = 0; gpu < DRIVER_GPUS; gpu++)
        driver_set_faults(gpu, &faults[gpu]);
    (void)rename(hidden, saved);
    for (int i = 0; i < CLIENTS; i++)
        client_end(&clients[i]);
}

static uint32_t descriptors;

/* Waits until all is as before; says what is not. */
static void settle(void)
{
    const int64_t until_ns = time_real_ns() + SETTLE_S * LULL_NS_PER_S;

    for (uint32_t round = 1;; round++) {
        const int touched = driver_find_touched();

        if (touched < 0 && records() == 0 &&
            (descriptors == 0 || entries_of("/proc/self/fd") <= descriptors))
            return;
        if (time_real_ns() > until_ns && touched >= 0)
            violate("I1: a GPU is not as it was", (uint32_t)touched, records());
        if (time_real_ns() > until_ns && records() != 0)
            violate("I1: a record is left", 0, records());
        if (time_real_ns() > until_ns)
            violate("I5: descriptors are left", 0, entries_of("/proc/self/fd"));
        time_rest_ms(1);
        if (round % 4 == 0)
            time_leap(100 * LULL_NS_PER_MS);
    }
}

static void run_sequence(uint64_t seed)
{
    uint32_t count;

    sequence = seed;
    state = seed;
    trace_used = 0;
    set_bands();
    for (int i = 0; i < CLIENTS; i++)
        step_connect(&clients[i]);
    count = LEAST_STEPS + below(MAX_STEPS - LEAST_STEPS);
    for (uint32_t i = 0; i < count; i++) {
        const struct step *const step = choose();
        const uint32_t client = below(CLIENTS);

        note("%u:%s ", client, step->name);
        step->take(&clients[client]);
    }
    note("; healed ");
    heal();
    settle();
}

/* ---- growth ------------------------------------------------------------------------------------
 */

static size_t memory_used(void)
{
    return mallinfo2().uordblks;
}

/* The main thread, the server's three and a spare, those for descriptors of clients and one for the
 * server's own, and one for each GPU. */
enum { MAX_THREADS = 6 + LULL_FOREIGN_THREADS + DRIVER_GPUS };

static void check_growth(uint64_t done)
{
    static size_t memory;
    const uint32_t threads = entries_of("/proc/self/task") - 2;

    if (threads > MAX_THREADS)
        violate("I5: threads are left", 0, threads);
    if (done == WARM_UP)
        memory = memory_used();
    if (done > WARM_UP && memory_used() > memory + MEMORY_SLACK)
        violate("I5: memory has grown", 0, memory_used() - memory);
}

/* A server that stops leaves nothing low, whatever it was doing. */
static void live_again(void)
{
    const int result = stop_server();

    if (result < 0 || driver_find_touched() >= 0 || records() != 0)
        violate("I1: the server has stopped and left something", 0, (uint64_t)-result);
    start_server();
}

static void init(struct lull_journal **looked_into)
{
    require(setenv("LULL_VENDOR", "nvidia", 1) == 0);
    lull_log_init(LULL_LOG_INFO);
    client_helper_start();
    speak_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (getenv("LULL_SEQUENCES_SHOW") == NULL)
        require(freopen("/dev/null", "w", stderr) != NULL);
    snprintf(saved, sizeof(saved), "%.100s/saved", folder());
    snprintf(hidden, sizeof(hidden), "%.100s/hidden", folder());
    require(lull_journal_open_unlocked(folder(), looked_into, NULL) == 0);
    driver_init(*looked_into, on_violation);
}

int main(int argc, char **argv)
{
    const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct lull_journal *looked_into;

    init(&looked_into);
    start_server();
    settle();
    for (uint64_t i = 0; i < count; i++) {
        run_sequence(first + i);
        if (descriptors == 0)
            descriptors = entries_of("/proc/self/fd");
        check_growth(i);
        if (i % SEQUENCES_PER_LIFE == SEQUENCES_PER_LIFE - 1)
            live_again();
    }
    require(stop_server() == 0);
    lull_journal_close(looked_into);
    client_helper_stop();
    dprintf(speak_fd, "%llu sequences, %llu calls that change a GPU, no finding\n",
            (unsigned long long)count, (unsigned long long)driver_calls());
    return 0;
}
