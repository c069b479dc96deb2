/*
 * Drives the whole of lulld but its main function with random sequences: clients of several users
 * that take random steps, a driver that fails, hangs and reports wrong values, a
 * journal that cannot be written, time that jumps.
 *
 * While a sequence runs, every change of a GPU is checked against I2 (a record comes first) and I3
 * (nothing outside what the policy, the user's lease and the operator's caps allow), and every
 * answer against the rights of its user. After the sequence, when the clients are dead and the
 * driver works again, the caps hold. Once they are lifted the GPUs are as before (I1), no record is
 * left, and neither descriptors nor threads nor memory have grown (I5). I4 concerns `lull run`,
 * which is not part of this test.
 *
 * A sequence is determined by its number, except for the timing of threads and processes.
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
#include "users.h"
#include "wire/client.h"

enum {
    FAVOURITES = 3, /* users that take most of a sequence's steps */
    LEAST_STEPS = 10,
    MAX_STEPS = 60,
    MOST_PATH = 160,
    SETTLE_S = 30,           /* really; a busy host needs some, a quiet one some milliseconds */
    SEQUENCES_PER_LIFE = 50, /* then the server stops and starts again */
    WARM_UP = 100,           /* sequences, before memory is compared */
    MEMORY_SLACK = 256 * 1024,
    CLIMB = 8, /* steps of CLIMB_MHZ */
    CLIMB_MHZ = 30,
    CLIMB_END_MS = 250, /* then the power limit may be set again */
    /* Connections of a user who is not root: at the same time, in a row, and one more in this time
     * (daemon/accept.c, daemon/quota.h). */
    MOST_AT_ONCE = 64,
    MOST_IN_A_ROW = 200,
    CONNECT_MS = 10,
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

static char policy_path[MOST_PATH];
static char saved[MOST_PATH];
static char hidden[MOST_PATH];

static void *serve(void *unused)
{
    struct lull_error err;

    (void)unused;
    server.result = lull_server_run(server.devices, server.journal, &server.options, &err);
    return NULL;
}

static int find_no_name(const char *name, uint32_t *id_out)
{
    (void)name;
    (void)id_out;
    return -ENOENT;
}

static void read_policy(struct lull_policy *policy_out)
{
    static const struct lull_policy_names names = {find_no_name, find_no_name};
    struct lull_error err = {0};

    if (lull_policy_read("policy", users_policy, strlen(users_policy), &names, NULL, policy_out,
                         &err) < 0)
        violate(err.text, 0, 0);
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
                                                  .policy_path = policy_path,
                                                  .ready_fd = fds[1]};
    read_policy(&server.options.policy);
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

static struct client clients[USERS]; /* one for each */
static struct lull_band bands[DRIVER_GPUS];
static struct driver_faults faults[DRIVER_GPUS];
static uint32_t asked[USERS]; /* the GPU that a client has requested last */
static bool was_capped;

/* Mostly a GPU that the client may hold. */
static uint32_t some_gpu(const struct client *client)
{
    return below(8) == 0 ? below(DRIVER_GPUS) : asked[client - clients];
}

static enum users_user user_of(const struct client *client)
{
    return (enum users_user)(client - clients);
}

/* Checks that a client has received no information that its user may not have. */
static void check_answer(const struct client *client)
{
    static const uint32_t types_of_operators =
        UINT32_C(1) << LULL_MESSAGE_RESTORE | UINT32_C(1) << LULL_MESSAGE_RELOAD |
        UINT32_C(1) << LULL_MESSAGE_REVOKE | UINT32_C(1) << LULL_MESSAGE_CAP;
    const enum users_user user = user_of(client);

    for (uint32_t gpu = 0; gpu < DRIVER_GPUS; gpu++)
        if ((client->answer.granted >> gpu & 1) != 0 && !users_may_control(user, gpu))
            violate("P: a client has a GPU that its user may not control", gpu, user);
    if ((client->answer.obeyed & types_of_operators) != 0 && !users_may_administer(user))
        violate("P: a client did what only operators may", 0, user);
    if ((client->answer.refused & types_of_operators) != 0 && users_may_administer(user))
        violate("P: an operator may not do what operators may", 0, user);
}

static void give_task(struct client *client, const struct client_task *task)
{
    client_do(client, task);
    check_answer(client);
}

static void send_message(struct client *client, struct lull_message *message,
                         enum client_order order)
{
    struct client_task task = {.order = order};

    message->sequence = (uint32_t)message->type << CLIENT_TYPE_SHIFT |
                        (uint32_t)(next() >> (64 - CLIENT_TYPE_SHIFT));
    task.size = (uint32_t)lull_message_encode(message, task.packet, LULL_MESSAGE_MAX_BYTES);
    give_task(client, &task);
}

static void receive(struct client *client)
{
    const struct client_task task = {.order = CLIENT_RECEIVE};

    give_task(client, &task);
}

static void name_socket(struct client_task *task)
{
    snprintf((char *)task->packet, sizeof(task->packet), "%.100s/%s", folder(), LULL_CLIENT_SOCKET);
}

static void step_connect(struct client *client)
{
    struct client_task task = {.order = CLIENT_CONNECT};
    struct lull_message hello = {.type = LULL_MESSAGE_HELLO};

    if (client->pid != 0 && client->fd < 0)
        client_end(client);
    if (client->pid == 0) {
        client_start(client);
        users_note_process(client->pid, user_of(client));
    }
    name_socket(&task);
    give_task(client, &task);
    if (below(16) != 0)
        send_message(client, &hello, CLIENT_SEND);
}

static void step_lease(struct client *client)
{
    const uint32_t gpu = below(DRIVER_GPUS);
    struct lull_message message = {.type = LULL_MESSAGE_LEASE};
    struct lull_message_lease *const lease = &message.body.lease;

    driver_uuid(gpu, lease->uuid, sizeof(lease->uuid));
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
    give_task(client, &task);
    note("(%u %u) ", gpu, task.request.sm_mhz);
    if (is_honest)
        time_rest_ms(below(2)); /* else the next request may take its place */
}

/* Down, then up by one clock after the other, and to the top, which a cap may forbid. */
static void step_climb(struct client *client)
{
    const uint32_t gpu = some_gpu(client);
    struct client_task task = {.order = CLIENT_POST, .slot = gpu};

    for (uint32_t i = 0; i <= CLIMB; i++) {
        task.request.sm_mhz = i < CLIMB ? bands[gpu].min_mhz + i * CLIMB_MHZ : bands[gpu].max_mhz;
        task.request.deadline_ns = lull_now_ns() + LULL_NS_PER_S;
        task.request.valid_until_ns = lull_now_ns() + 4 * LULL_NS_PER_S;
        give_task(client, &task);
        time_rest_ms(1);
    }
    task.order = CLIENT_LIMIT;
    task.limit_mw = bands[gpu].max_limit_mw;
    time_leap(CLIMB_END_MS * LULL_NS_PER_MS);
    give_task(client, &task);
    note("(%u) ", gpu);
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
    const uint32_t profiles[] = {0, LULL_POWER_PROFILE_MAX_Q, LULL_POWER_PROFILE_COMPUTE,
                                 DRIVER_PROFILES, UINT32_MAX};
    const struct client_task task = {.order = CLIENT_LIMIT,
                                     .slot = gpu,
                                     .limit_mw = limits[below(sizeof(limits) / sizeof(limits[0]))],
                                     .profiles =
                                         profiles[below(sizeof(profiles) / sizeof(profiles[0]))]};

    give_task(client, &task);
    note("(%u %u 0x%x) ", gpu, task.limit_mw, task.profiles);
}

static void step_scribble(struct client *client)
{
    const struct client_task task = {.order = CLIENT_SCRIBBLE, .seed = next()};

    give_task(client, &task);
}

static void step_ring(struct client *client)
{
    const struct client_task task = {.order = CLIENT_RING, .count = 1 + below(100)};

    give_task(client, &task);
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

static void step_reload(struct client *client)
{
    struct lull_message message = {.type = LULL_MESSAGE_RELOAD};

    send_message(client, &message, CLIENT_SEND);
    receive(client);
}

static void step_revoke(struct client *client)
{
    struct lull_message message = {.type = LULL_MESSAGE_REVOKE};
    struct lull_message_revoke *const revoke = &message.body.revoke;

    revoke->target = below(2) == 0 ? LULL_MESSAGE_OF_USER : LULL_MESSAGE_OF_GPU;
    revoke->uid = users_uid((enum users_user)below(USERS));
    driver_uuid(below(DRIVER_GPUS), revoke->name, sizeof(revoke->name));
    send_message(client, &message, CLIENT_SEND);
    receive(client);
}

/* Its values name the user, for the check of who has set it. */
static uint32_t mark(uint32_t value, enum users_user user)
{
    return value - value % USERS + (uint32_t)user;
}

static void cap_gpu(struct client *actor, const struct lull_message_cap *cap)
{
    struct lull_message message = {.type = LULL_MESSAGE_CAP, .body.cap = *cap};

    if (actor->pid == 0)
        step_connect(actor);
    was_capped |= users_may_administer(user_of(actor));
    send_message(actor, &message, CLIENT_SEND);
    receive(actor);
    note("(user %u GPU %u %u %u) ", user_of(actor), cap->gpu, cap->max_mhz, cap->max_limit_mw);
}

/* Mostly the operator's. */
static void step_cap(struct client *client)
{
    static const uint32_t times_ms[] = {60000, 1000, 5, 0};
    struct client *const actor = below(4) == 0 ? client : &clients[USER_OPERATOR];
    struct lull_message_cap cap = {.gpu = below(DRIVER_GPUS)};
    const uint32_t kind = below(8);

    if (kind < 5)
        cap.max_mhz = mark(DRIVER_LOWEST_MHZ + below(1300), user_of(actor));
    if (kind > 3)
        cap.max_limit_mw = mark(DRIVER_LEAST_LIMIT_MW / 2 + below(300000), user_of(actor));
    cap.ttl_ms = kind == 7 ? times_ms[below(4)] : times_ms[0];
    cap_gpu(actor, &cap);
}

/* Waits until a GPU that works is under its cap, whether it is leased or not. */
static void wait_for_cap(uint32_t gpu)
{
    const int64_t until_ns = time_real_ns() + SETTLE_S * LULL_NS_PER_S;

    while (driver_is_above_cap(gpu) && access(saved, F_OK) == 0) {
        if (time_real_ns() > until_ns)
            violate("C: a cap is not applied", gpu, 0);
        time_rest_ms(1);
        time_leap(25 * LULL_NS_PER_MS);
    }
}

/* A client requests the highest power limit of its lease, before and after the operator's cap,
 * which is below that. */
static void step_press(struct client *client)
{
    struct lull_message lease = {.type = LULL_MESSAGE_LEASE};
    const uint32_t gpu = some_gpu(client);
    const struct client_task task = {
        .order = CLIENT_LIMIT, .slot = gpu, .limit_mw = bands[gpu].max_limit_mw};
    struct lull_message_cap cap = {.gpu = gpu, .ttl_ms = 60000};

    driver_uuid(gpu, lease.body.lease.uuid, sizeof(lease.body.lease.uuid));
    lease.body.lease.min_mhz = bands[gpu].min_mhz;
    lease.body.lease.max_mhz = bands[gpu].max_mhz;
    lease.body.lease.min_limit_mw = bands[gpu].min_limit_mw;
    lease.body.lease.max_limit_mw = bands[gpu].max_limit_mw;
    send_message(client, &lease, CLIENT_SEND);
    receive(client);
    give_task(client, &task);
    time_rest_ms(1);
    cap.max_limit_mw =
        mark(DRIVER_LEAST_LIMIT_MW + below(bands[gpu].max_limit_mw - DRIVER_LEAST_LIMIT_MW + 1),
             USER_OPERATOR);
    if (below(2) == 0)
        cap.max_mhz = mark(DRIVER_LOWEST_MHZ + below(1200), USER_OPERATOR);
    cap_gpu(&clients[USER_OPERATOR], &cap);
    wait_for_cap(gpu);
    time_leap(CLIMB_END_MS * LULL_NS_PER_MS);
    give_task(client, &task);
    time_rest_ms(1);
}

/* More connections than a user may have, at once and in a row. */
static void step_crowd(struct client *client)
{
    struct client_task task = {.order = CLIENT_CROWD, .count = 1 + below(4)};
    const int64_t begin_ns = lull_now_ns();
    uint64_t most;

    name_socket(&task);
    if (!client_do(client, &task) || user_of(client) == USER_ROOT)
        return;
    most = MOST_IN_A_ROW + 1 + (uint64_t)(lull_now_ns() - begin_ns) / (CONNECT_MS * LULL_NS_PER_MS);
    if (client->answer.at_once > MOST_AT_ONCE)
        violate("Q: more connections at once than a user may have", 0, client->answer.at_once);
    if (client->answer.welcomed > most)
        violate("Q: more connections in a row than a user may have", 0, client->answer.welcomed);
    note("(%u of %u) ", client->answer.welcomed, task.count * CLIENT_CROWD_SIZE);
}

static void step_garbage(struct client *client)
{
    struct client_task task = {.order = below(4) == 0 ? CLIENT_SEND_FD : CLIENT_SEND};

    task.size = below(sizeof(task.packet));
    for (uint32_t i = 0; i < task.size; i++)
        task.packet[i] = (uint8_t)next();
    give_task(client, &task);
}

static void step_fork(struct client *client)
{
    struct client_task task = {.order = CLIENT_FORK};
    const struct lull_message message = {.type = LULL_MESSAGE_RENEW};

    task.size = (uint32_t)lull_message_encode(&message, task.packet, LULL_MESSAGE_MAX_BYTES);
    give_task(client, &task);
}

static void step_close(struct client *client)
{
    const struct client_task task = {.order = CLIENT_CLOSE};

    give_task(client, &task);
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
    {"connect", 4, step_connect},   {"lease", 24, step_lease},
    {"post", 24, step_post},        {"limit", 10, step_limit},
    {"scribble", 2, step_scribble}, {"ring", 2, step_ring},
    {"renew", 6, step_renew},       {"release", 6, step_release},
    {"status", 2, step_status},     {"restore", 1, step_restore},
    {"garbage", 1, step_garbage},   {"fork", 2, step_fork},
    {"close", 2, step_close},       {"die", 3, client_kill},
    {"stop", 2, client_stop},       {"continue", 2, client_continue},
    {"time", 10, step_time},        {"rest", 10, step_rest},
    {"fault", 6, step_fault},       {"journal", 2, step_journal},
    {"climb", 4, step_climb},       {"cap", 6, step_cap},
    {"reload", 1, step_reload},     {"revoke", 1, step_revoke},
    {"crowd", 1, step_crowd},       {"press", 4, step_press},
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
        users_set_wanted(gpu, band);
    }
}

static void heal(void)
{
    memset(faults, 0, sizeof(faults));
    for (uint32_t gpu = 0; gpu < DRIVER_GPUS; gpu++)
        driver_set_faults(gpu, &faults[gpu]);
    (void)rename(hidden, saved);
    for (int i = 0; i < USERS; i++)
        client_end(&clients[i]);
}

/* Waits until there is no GPU of a kind. */
static void wait_for_none(int (*find)(void), const char *what)
{
    const int64_t until_ns = time_real_ns() + SETTLE_S * LULL_NS_PER_S;

    for (int gpu = find(); gpu >= 0; gpu = find()) {
        if (time_real_ns() > until_ns)
            violate(what, (uint32_t)gpu, records());
        time_rest_ms(1);
        time_leap(25 * LULL_NS_PER_MS);
    }
}

/* Root is admitted whatever the other users did, and lifts all caps once they hold. */
static void uncap(void)
{
    struct client *const root = &clients[USER_ROOT];
    struct lull_message message = {.type = LULL_MESSAGE_CAP};

    wait_for_none(driver_find_uncapped, "C: a GPU is above the operator's cap");
    step_connect(root);
    send_message(root, &(struct lull_message){.type = LULL_MESSAGE_HELLO}, CLIENT_SEND);
    for (uint32_t gpu = 0; gpu < DRIVER_GPUS; gpu++) {
        message.body.cap.gpu = gpu;
        send_message(root, &message, CLIENT_SEND);
        receive(root);
    }
    wait_for_none(driver_find_capped, "C: root cannot lift a cap");
    client_end(root);
}

/* Sockets of this process: each connection of the server has one. */
static uint32_t count_sockets(void)
{
    DIR *const directory = opendir("/proc/self/fd");
    const struct dirent *entry;
    char target[64];
    uint32_t count = 0;

    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        const ssize_t size = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target));

        count += size > 7 && memcmp(target, "socket:", 7) == 0;
    }
    if (directory != NULL)
        closedir(directory);
    return count;
}

static uint32_t descriptors;
static uint32_t sockets; /* without a connection */

/* Waits until all is as before; says what is not. */
static void settle(void)
{
    const int64_t until_ns = time_real_ns() + SETTLE_S * LULL_NS_PER_S;

    for (uint32_t round = 1;; round++) {
        const int touched = driver_find_touched();

        if (touched < 0 && records() == 0 && count_sockets() <= sockets &&
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
    uint32_t favourites[FAVOURITES];
    uint32_t count;

    sequence = seed;
    state = seed;
    trace_used = 0;
    was_capped = false;
    driver_begin();
    set_bands();
    for (int i = 0; i < FAVOURITES; i++)
        favourites[i] = below(USERS);
    count = LEAST_STEPS + below(MAX_STEPS - LEAST_STEPS);
    for (uint32_t i = 0; i < count; i++) {
        const struct step *const step = choose();
        const uint32_t client = below(8) == 0 ? below(USERS) : favourites[below(FAVOURITES)];

        note("%u:%s ", client, step->name);
        if (clients[client].pid == 0)
            step_connect(&clients[client]);
        step->take(&clients[client]);
    }
    note("; healed ");
    heal();
    if (was_capped)
        uncap();
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

/* Writes the policy that a reload reads. */
static void write_policy(void)
{
    FILE *const file = fopen(policy_path, "we");

    require(file != NULL && fputs(users_policy, file) >= 0);
    require(fclose(file) == 0 && chmod(policy_path, 0600) == 0);
}

static void init(struct lull_journal **looked_into)
{
    require(setenv("LULL_VENDOR", "nvidia", 1) == 0);
    lull_log_init(LULL_LOG_INFO);
    client_helper_start();
    speak_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (getenv("LULL_SEQUENCES_SHOW") == NULL)
        require(freopen("/dev/null", "w", stderr) != NULL);
    snprintf(policy_path, sizeof(policy_path), "%.100s/policy.conf", folder());
    write_policy();
    snprintf(saved, sizeof(saved), "%.100s/saved", folder());
    snprintf(hidden, sizeof(hidden), "%.100s/hidden", folder());
    require(lull_journal_open_unlocked(folder(), looked_into, NULL) == 0);
    driver_init(*looked_into, on_violation);
    users_init(on_violation);
}

int main(int argc, char **argv)
{
    const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct lull_journal *looked_into;

    init(&looked_into);
    start_server();
    sockets = count_sockets();
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
