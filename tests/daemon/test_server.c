/*
 * What lulld answers, message by message: leases, heartbeats, expiry, restore and their answers,
 * with a clock, devices, a writer and connections of the test's own. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>
#include <uv.h>

#include "../device/fake_devices.h"

enum { TIMER_OFF = -1 };

static int64_t timer_ms; /* what the timer of the leases was last set to */
static uint32_t wakes;

#define uv_timer_start(timer, callback, timeout_ms, repeat_ms)                                     \
    ((void)(callback), timer_ms = (int64_t)(timeout_ms))
#define uv_timer_stop(timer) ((void)(timer), timer_ms = TIMER_OFF)
#define uv_update_time(loop) ((void)(loop))
#define uv_async_send(async) ((void)(async), wakes++)

#include "daemon/server.c"

#define MS LULL_NS_PER_MS
#define T0 LULL_NS_PER_S

static struct server server;
static struct lull_connection clients[3];
static struct lull_message sent[16];
static struct lull_connection *sent_to[16];
static bool sent_with_table[16];
static uint32_t sent_count;
static uint64_t granted, ended; /* by the writer, a bit per GPU */
static struct lull_band granted_band;
static uint32_t closed;

/* --- what stands for the writer and the connections --- */

const struct lull_writer_options lull_writer_defaults = {.validity_cap_ns = 1};

int lull_device_fit_band(const struct lull_device_info *info, struct lull_band *band,
                         struct lull_error *err)
{
    (void)info;
    if (band->min_mhz > band->max_mhz)
        return lull_error_set(err, -EINVAL, "an empty band");
    if (band->max_mhz > 1400)
        band->max_mhz = 1400;
    return 0;
}

int lull_writer_start(struct lull_devices *devices, struct lull_journal *journal,
                      const struct lull_writer_options *options, struct lull_writer **writer_out,
                      struct lull_error *err)
{
    (void)devices;
    (void)journal;
    (void)options;
    (void)writer_out;
    return lull_error_set(err, -EIO, "no writer in this test");
}

int lull_writer_stop(struct lull_writer *writer, int64_t timeout_ns)
{
    (void)writer;
    (void)timeout_ns;
    return 0;
}

void lull_writer_grant(struct lull_writer *writer, uint32_t gpu, struct lull_writer_source *source,
                       const struct lull_band *band)
{
    (void)writer;
    (void)source;
    granted |= UINT64_C(1) << gpu;
    granted_band = *band;
}

void lull_writer_end(struct lull_writer *writer, uint32_t gpu)
{
    (void)writer;
    ended |= UINT64_C(1) << gpu;
}

void lull_writer_state(struct lull_writer *writer, uint32_t gpu,
                       struct lull_writer_state *state_out)
{
    (void)writer;
    *state_out =
        (struct lull_writer_state){true, gpu + 900, 2, -3, 4, 5, 6, 7, 8, 9, LULL_WRITER_LOST};
}

bool lull_writer_answers(struct lull_writer *writer)
{
    (void)writer;
    return true;
}

void lull_connection_send(struct lull_connection *connection, const struct lull_message *message,
                          bool is_passing_table)
{
    assert_true(sent_count < 16);
    sent_to[sent_count] = connection;
    sent_with_table[sent_count] = is_passing_table;
    sent[sent_count++] = *message;
}

struct lull_connection *lull_connection_create(struct server *of, uint64_t id, int fd,
                                               const struct lull_peer *peer)
{
    (void)of;
    (void)id;
    (void)fd;
    (void)peer;
    return NULL;
}

void lull_connection_close(struct lull_connection *connection)
{
    connection->is_closing = true;
    closed++;
}

bool lull_connection_reap(struct lull_connection *connection)
{
    return connection->is_closing;
}

int lull_connection_open_table(struct lull_connection *connection, struct lull_writer *writer,
                               struct lull_error *err)
{
    (void)connection;
    (void)writer;
    (void)err;
    return 0;
}

/* --- asking --- */

static int set_up(void **state)
{
    (void)state;
    fake_reset(3);
    memset(&server, 0, sizeof(server));
    server.expiry.data = &server;
    server.wake.data = &server;
    server.leases = lull_lease_table_create(3);
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        atomic_init(&server.ended[gpu], NO_RESULT);
    for (uint32_t i = 0; i < 3; i++) {
        clients[i] =
            (struct lull_connection){.id = 11 + i,
                                     .peer = {.pid = 100 + (pid_t)i, .uid = i, .pid_fd = -1},
                                     .is_greeted = true,
                                     .next = i < 2 ? &clients[i + 1] : NULL};
    }
    server.connections = clients;
    sent_count = closed = wakes = 0;
    granted = ended = 0;
    timer_ms = TIMER_OFF;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lull_lease_table_destroy(server.leases);
    return 0;
}

static void serve_from(uint32_t client, const struct lull_message *message, pid_t sender)
{
    uint8_t packet[LULL_MESSAGE_MAX_BYTES];
    const int size = lull_message_encode(message, packet, sizeof(packet));

    assert_true(size > 0);
    sent_count = 0;
    lull_server_serve(&server, &clients[client], packet, (size_t)size, sender);
}

static void ask(uint32_t client, const struct lull_message *message)
{
    serve_from(client, message, clients[client].peer.pid);
}

static void ask_plain(uint32_t client, uint16_t type)
{
    ask(client, &(struct lull_message){.type = type, .sequence = 77});
}

static void ask_lease(uint32_t client, uint32_t gpu)
{
    struct lull_message message = {.type = LULL_MESSAGE_LEASE, .sequence = 5};

    message.body.lease = (struct lull_message_lease){
        .min_mhz = 600, .max_mhz = 5000, .min_limit_mw = 1, .max_limit_mw = 2};
    snprintf(message.body.lease.uuid, sizeof(message.body.lease.uuid), "GPU-%u", gpu);
    ask(client, &message);
}

static void ask_release(uint32_t client, uint32_t slot)
{
    struct lull_message message = {.type = LULL_MESSAGE_RELEASE, .sequence = 6};

    message.body.release.slot = slot;
    ask(client, &message);
}

static void check_reply(uint32_t at, uint32_t client, uint32_t sequence, int code)
{
    assert_true(at < sent_count);
    assert_ptr_equal(sent_to[at], &clients[client]);
    assert_int_equal(sent[at].type, LULL_MESSAGE_REPLY);
    assert_int_equal(sent[at].sequence, sequence);
    assert_int_equal(sent[at].body.reply.code, code);
}

/* The writer reports the end of a GPU's lease. */
static void end_gpu(uint32_t gpu, int result)
{
    sent_count = 0;
    on_lease_ended(&server, gpu, result);
    on_wake(&server.wake);
}

static void hello_is_answered_and_comes_first(void **state)
{
    (void)state;
    clients[0].is_greeted = false;
    ask_plain(0, LULL_MESSAGE_RENEW);
    assert_int_equal(closed, 1);
    assert_int_equal(sent_count, 0);
    ask_plain(0, LULL_MESSAGE_HELLO);
    assert_int_equal(sent[0].type, LULL_MESSAGE_WELCOME);
    assert_int_equal(sent[0].sequence, 77);
    assert_int_equal(sent[0].body.welcome.gpu_count, 3);
    assert_int_equal(sent[0].body.welcome.lease_ttl_ms, 3000);
    assert_int_equal(sent[0].body.welcome.heartbeat_ms, 500);
    ask_plain(0, LULL_MESSAGE_RENEW);
    check_reply(0, 0, 77, 0);
    assert_int_equal(closed, 1);
    ask_plain(1, LULL_MESSAGE_STATE); /* nothing that a client may say */
    assert_int_equal(closed, 2);
    lull_server_serve(&server, &clients[2], (const uint8_t *)"nonsense", 8, 102);
    assert_int_equal(closed, 3);
}

static void only_the_process_that_connected_may_ask(void **state)
{
    (void)state;
    for (int i = 1; i <= 2; i++) {
        serve_from(0, &(struct lull_message){.type = LULL_MESSAGE_RENEW, .sequence = 8}, 101);
        check_reply(0, 0, 8, -EPERM);
        assert_int_equal(server.refused_senders, i);
    }
    assert_int_equal(closed, 0);
}

static void a_lease_is_granted_to_one_client(void **state)
{
    (void)state;
    ask_lease(0, 1);
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].type, LULL_MESSAGE_GRANT);
    assert_int_equal(sent[0].sequence, 5);
    assert_int_equal(sent[0].body.grant.slot, 1);
    assert_int_equal(sent[0].body.grant.min_mhz, 600);
    assert_int_equal(sent[0].body.grant.max_mhz, 1400);
    assert_true(sent[0].body.grant.lease_id != 0);
    assert_true(sent_with_table[0]);
    assert_int_equal(granted, 1 << 1);
    assert_int_equal(granted_band.min_limit_mw, 1);
    assert_int_equal(granted_band.max_limit_mw, 2);
    assert_int_equal(timer_ms, 3001); /* when it expires, and not before */
    ask_lease(0, 2);
    assert_int_equal(sent[0].type, LULL_MESSAGE_GRANT);
    assert_false(sent_with_table[0]); /* the table is passed once */
    ask_lease(1, 1);
    check_reply(0, 1, 5, -EBUSY);
    ask_lease(1, 7);
    check_reply(0, 1, 5, -ENODEV);
    assert_false(clients[1].is_table_passed);
    ask_lease(1, 0);
    assert_true(sent_with_table[0]);
}

static void heartbeats_keep_leases(void **state)
{
    (void)state;
    ask_lease(0, 0);
    ask_lease(0, 2);
    ask_lease(1, 1);
    fake_time_ns = T0 + 2500 * MS;
    ask_plain(0, LULL_MESSAGE_RENEW);
    check_reply(0, 0, 77, 2);
    assert_int_equal(timer_ms, 501); /* the other client's */
    fake_time_ns = T0 + 3000 * MS - 1;
    sent_count = 0;
    on_expiry(&server.expiry);
    assert_int_equal(sent_count, 0);
    assert_int_equal(timer_ms, 1);
    fake_time_ns = T0 + 3000 * MS;
    on_expiry(&server.expiry);
    assert_int_equal(sent_count, 1);
    assert_ptr_equal(sent_to[0], &clients[1]);
    assert_int_equal(sent[0].type, LULL_MESSAGE_REVOKED);
    assert_int_equal(sent[0].body.revoked.slot, 1);
    assert_int_equal(sent[0].body.revoked.code, LULL_E_STALE);
    assert_int_equal(ended, 1 << 1);
    assert_int_equal(timer_ms, 2501);
    ask_plain(1, LULL_MESSAGE_RENEW);
    check_reply(0, 1, 77, 0); /* it has none left */
    fake_time_ns = T0 + 9000 * MS;
    plan_expiry(&server);
    assert_int_equal(timer_ms, 0);
    on_expiry(&server.expiry);
    assert_int_equal(ended, 7);
    assert_int_equal(timer_ms, TIMER_OFF);
}

static void a_release_is_answered_when_the_gpus_are_restored(void **state)
{
    (void)state;
    ask_lease(0, 0);
    ask_lease(0, 2);
    ask_lease(1, 1);
    ask_release(0, 1); /* another's */
    check_reply(0, 0, 6, 0);
    assert_int_equal(ended, 0);
    ask_release(0, LULL_MESSAGE_ALL_SLOTS);
    assert_int_equal(sent_count, 0);
    assert_int_equal(ended, 5);
    ask_release(0, 2); /* nothing is left to release, but an answer waits */
    check_reply(0, 0, 6, -EALREADY);
    end_gpu(1, 0);
    end_gpu(0, -EIO);
    assert_int_equal(sent_count, 0);
    end_gpu(2, 0);
    assert_int_equal(sent_count, 1);
    check_reply(0, 0, 6, -EIO); /* the failure of any of them */
    assert_non_null(strstr(sent[0].body.reply.text, "not every GPU"));
    end_gpu(2, 0);
    assert_int_equal(sent_count, 0); /* once */
    ask_lease(2, 0);                 /* it may be leased again */
    assert_int_equal(sent[0].type, LULL_MESSAGE_GRANT);
    ask_release(2, 0);
    assert_int_equal(sent_count, 0);
    ask_lease(1, 0); /* not while it is being restored */
    check_reply(0, 1, 5, -EBUSY);
    end_gpu(0, 0);
    check_reply(0, 2, 6, 0);
    assert_string_equal(sent[0].body.reply.text, "");
    assert_int_equal(wakes, 5);
}

static void only_root_may_take_the_gpus_back(void **state)
{
    (void)state;
    ask_lease(1, 0);
    ask_lease(2, 2);
    ask_plain(1, LULL_MESSAGE_RESTORE);
    check_reply(0, 1, 77, -EPERM);
    assert_int_equal(ended, 0);
    ask_plain(0, LULL_MESSAGE_RESTORE); /* whose user is 0 */
    assert_int_equal(sent_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ptr_equal(sent_to[i], &clients[1 + i]);
        assert_int_equal(sent[i].type, LULL_MESSAGE_REVOKED);
        assert_int_equal(sent[i].body.revoked.slot, 2 * i);
        assert_int_equal(sent[i].body.revoked.code, LULL_E_STALE);
    }
    assert_int_equal(ended, 5);
    assert_int_equal(timer_ms, TIMER_OFF);
    end_gpu(2, 0);
    assert_int_equal(sent_count, 0);
    end_gpu(0, 0);
    check_reply(0, 0, 77, 0);
    ask_plain(0, LULL_MESSAGE_RESTORE); /* nothing to do: at once */
    check_reply(0, 0, 77, 0);
}

static void a_client_that_goes_leaves_its_leases(void **state)
{
    (void)state;
    ask_lease(0, 0);
    ask_lease(0, 2);
    ask_lease(1, 1);
    lull_server_forget(&server, &clients[0]);
    assert_int_equal(ended, 5);
    assert_int_equal(server.settling, 5);
    assert_int_equal(timer_ms, 3001);
    lull_server_forget(&server, &clients[2]);
    assert_int_equal(ended, 5);
    clients[0].is_closing = true;
    clients[2].is_closing = true;
    end_gpu(0, 0);
    assert_int_equal(server.settling, 4);
    assert_ptr_equal(server.connections, &clients[1]); /* the others are gone */
    assert_null(clients[1].next);
    ask_lease(1, 0);
    server.connections = NULL; /* an owner that nobody knows any more */
    fake_time_ns = T0 + 5000 * MS;
    sent_count = 0;
    on_expiry(&server.expiry);
    assert_int_equal(sent_count, 0);
    assert_int_equal(ended, 7);
}

static void the_state_of_a_gpu_is_told(void **state)
{
    struct lull_message question = {.type = LULL_MESSAGE_STATUS, .sequence = 9};
    const struct lull_message_state *told = &sent[0].body.state;

    (void)state;
    ask_lease(2, 1);
    fake_time_ns += 1000 * MS + 1;
    question.body.status.gpu = 1;
    ask(1, &question);
    assert_int_equal(sent[0].type, LULL_MESSAGE_STATE);
    assert_int_equal(sent[0].sequence, 9);
    assert_int_equal(told->gpu, 1);
    assert_int_equal(told->gpu_count, 3);
    assert_string_equal(told->uuid, "GPU-1");
    assert_int_equal(told->is_leased, 1);
    assert_int_equal(told->owner_uid, 2);
    assert_int_equal(told->owner_pid, 102);
    assert_int_equal(told->min_mhz, 600);
    assert_int_equal(told->max_mhz, 1400);
    assert_int_equal(told->lease_left_ms, 1999);
    assert_int_equal(told->applied_mhz, 901);
    assert_int_equal(told->observed_mhz, 2);
    assert_int_equal(told->status, -3);
    assert_int_equal(told->writes, 4);
    assert_int_equal(told->disobeyed, 8);
    assert_int_equal(told->limit_mw, 9);
    assert_int_equal(told->health, LULL_WRITER_LOST);
    fake_time_ns = T0 + 4000 * MS; /* it is over, and not ended yet */
    ask(1, &question);
    assert_int_equal(told->lease_left_ms, 0);
    question.body.status.gpu = 2;
    ask(1, &question);
    assert_int_equal(told->is_leased, 0);
    assert_int_equal(told->owner_pid, 0);
    question.body.status.gpu = 3;
    ask(1, &question);
    check_reply(0, 1, 9, -ENODEV);
}

/* So many connections there may be, and so many of one user; root always gets one. */
static void rooms_are_counted(void **state)
{
    static struct lull_connection many[MAX_CONNECTIONS];

    (void)state;
    for (uint32_t i = 0; i < MAX_CONNECTIONS; i++)
        many[i] = (struct lull_connection){.peer = {.uid = 1000 + i / MAX_CONNECTIONS_PER_USER},
                                           .next = i > 0 ? &many[i - 1] : NULL};
    server.connections = &many[MAX_CONNECTIONS - 2];
    assert_true(has_room(&server, 500));
    assert_true(has_room(&server, 1003)); /* its 64th */
    assert_false(has_room(&server, 1000));
    server.connections = &many[MAX_CONNECTIONS - 1];
    assert_false(has_room(&server, 500));
    assert_false(has_room(&server, 1003));
    assert_true(has_room(&server, 0));
    server.connections = NULL;
    assert_true(has_room(&server, 1000));
}

/* Without a free descriptor a client is refused, so that it does not wake the loop for ever. */
static void a_client_is_refused_when_descriptors_run_out(void **state)
{
    struct lull_server_options options = {.socket_mode = 0600, .socket_group = (gid_t)-1};
    char directory[] = "/tmp/lull-server-XXXXXX";
    uv_poll_t listener = {.data = &server};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct lull_error error;
    struct rlimit before, none;
    char byte;

    (void)state;
    assert_non_null(mkdtemp(directory));
    options.runtime_dir = directory;
    assert_int_equal(open_socket(&server, &options, &error), 0);
    memcpy(address.sun_path, server.socket_path, sizeof(address.sun_path));
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)server.listen_fd + 1; /* the highest one that is open */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    on_connect(&listener, 0, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(recv(client, &byte, 1, MSG_DONTWAIT), 0);
    assert_true(fcntl(server.spare_fd, F_GETFD) >= 0);
    on_connect(&listener, 0, 0); /* nobody waits */
    assert_int_equal(server.last_connection_id, 0);
    assert_int_equal(unlink(server.socket_path), 0);
    rmdir(directory);
    close(server.listen_fd);
    close(server.spare_fd);
    close(client);
}

/* systemd's socket is told that the daemon is ready, in the file system or not. */
static void the_manager_is_told(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[16] = "";
    const size_t most = sizeof(address.sun_path);
    char path[sizeof(address.sun_path) + 1];

    (void)state;
    unsetenv("NOTIFY_SOCKET");
    lull_notify_manager("READY=1");
    setenv("NOTIFY_SOCKET", "", 1);
    lull_notify_manager("READY=1");
    memset(path, 'x', sizeof(path));
    path[0] = '@';
    path[most] = '\0'; /* too long */
    setenv("NOTIFY_SOCKET", path, 1);
    lull_notify_manager("READY=1");
    for (size_t length = 20; length < most; length += most - 21) { /* a short and the longest */
        const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        snprintf(path, sizeof(path), "@lull-%010ld", (long)getpid());
        memset(path + 16, 'y', length - 16);
        path[length] = '\0';
        memcpy(address.sun_path, path, length);
        address.sun_path[0] = '\0';
        assert_int_equal(bind(fd, (struct sockaddr *)&address,
                              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)),
                         0);
        setenv("NOTIFY_SOCKET", path, 1);
        lull_notify_manager("READY=1");
        assert_int_equal(recv(fd, text, sizeof(text), 0), 7);
        assert_memory_equal(text, "READY=1", 7);
        close(fd);
    }
    unsetenv("NOTIFY_SOCKET");
}

static void readiness_is_written_and_the_descriptor_closed(void **state)
{
    struct lull_server_options options = {.ready_fd = -1};
    char text[4];
    int fds[2];

    (void)state;
    announce(&server, &options);
    assert_int_equal(pipe(fds), 0);
    options.ready_fd = fds[1];
    announce(&server, &options);
    assert_int_equal(read(fds[0], text, sizeof(text)), 1);
    assert_int_equal(text[0], '\n');
    assert_int_equal(read(fds[0], text, sizeof(text)), 0);
    close(fds[0]);
    {
        const int input = dup(0);

        assert_int_equal(pipe(fds), 0);
        assert_int_equal(dup2(fds[1], 0), 0);
        close(fds[1]);
        options.ready_fd = 0;
        announce(&server, &options);
        assert_int_equal(read(fds[0], text, sizeof(text)), 1);
        assert_int_equal(dup2(input, 0), 0);
        close(input);
        close(fds[0]);
    }
}

static void the_socket_has_its_mode(void **state)
{
    struct lull_server_options options = {.socket_mode = 0640, .socket_group = (gid_t)-1};
    char directory[160] = "/tmp/lull-server-XXXXXX";
    struct lull_error error;
    struct stat status;
    const mode_t mask = umask(022);
    int on = 0;
    socklen_t size = sizeof(on);

    (void)state;
    assert_non_null(mkdtemp(directory));
    options.runtime_dir = directory;
    for (int i = 0; i < 2; i++) { /* the second finds a dead daemon's socket */
        server.listen_fd = server.spare_fd = -1;
        assert_int_equal(open_socket(&server, &options, &error), 0);
        assert_int_equal(stat(server.socket_path, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0640);
        assert_int_equal(status.st_uid, geteuid());
        assert_int_equal(getsockopt(server.listen_fd, SOL_SOCKET, SO_PASSCRED, &on, &size), 0);
        assert_int_equal(on, 1);
        assert_int_equal(umask(022), 022);
        close(server.listen_fd);
        assert_true(server.spare_fd >= 0);
        close(server.spare_fd);
    }
    assert_int_equal(unlink(server.socket_path), 0);
    rmdir(directory);
    assert_int_equal(open_socket(&server, &options, &error), -ENOENT);
    memset(directory, 'x', sizeof(directory));
    directory[sizeof(server.socket_path) - sizeof("/lulld.sock")] = '\0'; /* the longest */
    assert_int_equal(open_socket(&server, &options, &error), -ENOENT);
    directory[sizeof(server.socket_path) - sizeof("/lulld.sock")] = 'x';
    directory[sizeof(server.socket_path) - sizeof("/lulld.sock") + 1] = '\0';
    assert_int_equal(open_socket(&server, &options, &error), -ENAMETOOLONG);
    umask(mask);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hello_is_answered_and_comes_first),
        TEST(only_the_process_that_connected_may_ask),
        TEST(a_lease_is_granted_to_one_client),
        TEST(heartbeats_keep_leases),
        TEST(a_release_is_answered_when_the_gpus_are_restored),
        TEST(only_root_may_take_the_gpus_back),
        TEST(a_client_that_goes_leaves_its_leases),
        TEST(the_state_of_a_gpu_is_told),
        TEST(rooms_are_counted),
        TEST(a_client_is_refused_when_descriptors_run_out),
        TEST(the_manager_is_told),
        TEST(readiness_is_written_and_the_descriptor_closed),
        TEST(the_socket_has_its_mode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
