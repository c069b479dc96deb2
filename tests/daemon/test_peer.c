/*
 * The identity of a peer, its messages, and the end of a connection.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <cmocka.h>

enum { PEERPIDFD = 77 }; /* SO_PEERPIDFD of Linux 6.5 */

static int refusal;    /* error of a kernel that gives no pidfd of a peer; 0: this one answers */
static bool is_hidden; /* the peer's PID namespace cannot be seen from here */

static int fake_getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
    if (is_hidden && name == SO_PEERCRED) {
        *(struct ucred *)value = (struct ucred){.pid = 0, .uid = 7};
        return 0;
    }
    if (name != PEERPIDFD || refusal == 0)
        return getsockopt(fd, level, name, value, size);
    errno = refusal;
    return -1;
}

#include "base/clock.h"
#include "base/process.h"

static bool is_reused; /* each look at a number finds a later process */

static int64_t fake_start_ticks(pid_t pid)
{
    static int64_t later;

    later += is_reused;
    return lull_process_start_ticks(pid) + later;
}

#define getsockopt fake_getsockopt
#define lull_process_start_ticks fake_start_ticks
#include "daemon/peer.c"
#undef lull_process_start_ticks
#include "daemon/connection.c"

/* --- what represents the server --- */

static uint32_t forgotten;
static uint32_t wakes;
static uint32_t pauses;
static uint32_t served;

void lull_server_serve(struct lull_server *server, struct lull_connection *connection,
                       const uint8_t *packet, size_t size, pid_t sender)
{
    (void)server;
    (void)connection;
    (void)packet;
    (void)size;
    (void)sender;
    served++;
}

void lull_server_forget(struct lull_server *server, struct lull_connection *connection)
{
    (void)server;
    (void)connection;
    forgotten++;
}

void lull_server_wake(struct lull_server *server)
{
    (void)server;
    wakes++;
}

void lull_server_pause(struct lull_server *server, struct lull_connection *connection)
{
    (void)server;
    connection->is_paused = true;
    pauses++;
}

void lull_server_unpause(struct lull_server *server, struct lull_connection *connection)
{
    (void)server;
    connection->is_paused = false;
}

void lull_server_note_flood(struct lull_server *server)
{
    (void)server;
}

bool lull_server_prepare_proof(const struct lull_server *server, struct lull_proof *proof)
{
    (void)server;
    (void)proof;
    return false;
}

struct lull_foreign *lull_server_foreign(struct lull_server *server)
{
    return server->foreign;
}

uv_loop_t *lull_server_loop(struct lull_server *server)
{
    return &server->loop;
}

struct lull_writer *lull_server_writer(struct lull_server *server)
{
    (void)server;
    return NULL;
}

/* --- peers --- */

static int fds[2];

static int set_up(void **state)
{
    const int on = 1;

    (void)state;
    forgotten = wakes = pauses = served = 0;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0 ||
                   setsockopt(fds[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0
               ? -1
               : 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(fds[0]);
    close(fds[1]);
    return 0;
}

static int count_fds(void)
{
    int count = 0;

    for (int fd = 0; fd < 64; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void a_peer_is_known_by_the_kernels_word(void **state)
{
    struct lull_peer peer;
    struct lull_error error;
    int pipe_fds[2];

    (void)state;
    assert_int_equal(lull_peer_identify(fds[0], &peer, &error), 0);
    assert_int_equal(peer.pid, getpid());
    assert_int_equal(peer.uid, geteuid());
    assert_true(peer.pid_fd >= 0);
    assert_int_equal(fcntl(peer.pid_fd, F_GETFD), FD_CLOEXEC);
    close(peer.pid_fd);
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(lull_peer_identify(pipe_fds[0], &peer, &error), -ENOTSOCK);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

/* Kernels before 6.5 do not know the option; then the process is found by its number. */
static void an_older_kernel_is_asked_by_number(void **state)
{
    static const int unknown[] = {ENOPROTOOPT, EINVAL};
    struct lull_peer peer;
    struct lull_error error;

    (void)state;
    assert_int_equal(SO_PEERPIDFD, PEERPIDFD);
    for (size_t i = 0; i < 2; i++) {
        refusal = unknown[i];
        assert_int_equal(lull_peer_identify(fds[0], &peer, &error), 0);
        assert_true(peer.pid_fd >= 0);
        close(peer.pid_fd);
    }
    refusal = ENODATA;
    assert_int_equal(lull_peer_identify(fds[0], &peer, &error), -ENODATA);
    refusal = 0;
}

static void a_peer_that_cannot_be_seen_has_no_number(void **state)
{
    struct lull_peer peer;
    struct lull_error error;

    (void)state;
    is_hidden = true;
    refusal = EINVAL;
    assert_int_equal(lull_peer_identify(fds[0], &peer, &error), 0);
    is_hidden = false;
    refusal = 0;
    assert_int_equal(peer.pid, 0);
    assert_int_equal(peer.uid, 7);
    assert_int_equal(peer.pid_fd, -1);
}

/* A start time represents a process: the same for all who ask, none for none. */
static void a_process_of_a_number_is_told_from_a_later_one(void **state)
{
    const int64_t own = lull_process_start_ticks(getpid());
    const int before = count_fds();
    struct pollfd watched = {.events = POLLIN};
    pid_t child;
    int fd;

    (void)state;
    assert_true(own > 0);
    assert_true(lull_process_start_ticks(getppid()) <= own);
    child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    assert_true(lull_process_start_ticks(child) >= own);
    fd = open_by_number(child);
    assert_true(fd >= 0);
    watched.fd = fd;
    assert_int_equal(poll(&watched, 1, 0), 0);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(poll(&watched, 1, 0), 1); /* it says that the process has ended */
    close(fd);
    assert_int_equal(lull_process_start_ticks(child), -1);
    assert_int_equal(open_by_number(child), -ESRCH);
    assert_int_equal(count_fds(), before);
}

/* A process id that another process has got meanwhile identifies no peer, and the kernel's own
 * pidfd does not go by numbers. */
static void test_f26_a_reused_number_is_nobodys(void **state)
{
    const int before = count_fds();
    struct lull_peer peer;
    struct lull_error error;

    (void)state;
    is_reused = true;
    refusal = EINVAL;
    assert_int_equal(lull_peer_identify(fds[0], &peer, &error), -ESRCH);
    assert_int_equal(count_fds(), before);
    refusal = 0;
    if (lull_peer_identify(fds[0], &peer, &error) == 0) /* Linux 6.5 or later */
        close(peer.pid_fd);
    else
        assert_int_equal(error.code, -ESRCH);
    is_reused = false;
}

/* Control groups read by a process number are used only if the process with that number is still
 * the peer. */
static void test_f26_control_groups_of_the_dead_are_unknown(void **state)
{
    char text[LULL_PEER_CGROUP_BYTES] = "x";
    struct lull_peer peer = {.pid_fd = -1};
    const int before = count_fds();

    (void)state;
    assert_int_equal(lull_peer_cgroups(&peer, text), -ESRCH);
    assert_string_equal(text, "");
    peer.pid = fork();
    if (peer.pid == 0) {
        pause();
        _exit(0);
    }
    peer.pid_fd = lull_process_open_fd(peer.pid);
    assert_int_equal(lull_peer_cgroups(&peer, text), 0);
    assert_non_null(strchr(text, ':'));
    kill(peer.pid, SIGKILL);
    assert_int_equal(waitpid(peer.pid, NULL, 0), peer.pid);
    peer.pid = getpid(); /* a living process has the number now */
    assert_int_equal(lull_peer_cgroups(&peer, text), -ESRCH);
    assert_string_equal(text, "");
    close(peer.pid_fd);
    assert_int_equal(count_fds(), before);
}

static void the_first_group_comes_first(void **state)
{
    gid_t groups[LULL_PEER_MAX_GROUPS];
    gid_t own[LULL_PEER_MAX_GROUPS];
    const int others = getgroups(LULL_PEER_MAX_GROUPS, own);

    (void)state;
    assert_int_equal(lull_peer_groups(fds[0], groups), 1 + others);
    assert_int_equal(groups[0], getegid());
    assert_int_equal(lull_peer_groups(-1, groups), 0);
}

static void packets_come_whole_with_their_sender(void **state)
{
    char buffer[8];
    pid_t sender = 0;
    const int off = 0;

    (void)state;
    assert_int_equal(lull_peer_receive(fds[0], buffer, sizeof(buffer), &sender), -EAGAIN);
    assert_int_equal(send(fds[1], "12345678", 8, 0), 8);
    assert_int_equal(lull_peer_receive(fds[0], buffer, sizeof(buffer), &sender), 8);
    assert_int_equal(sender, getpid());
    assert_int_equal(send(fds[1], "123456789", 9, 0), 9);
    assert_int_equal(lull_peer_receive(fds[0], buffer, sizeof(buffer), &sender), -EMSGSIZE);
    assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_PASSCRED, &off, sizeof(off)), 0);
    assert_int_equal(send(fds[1], "1", 1, 0), 1);
    assert_int_equal(lull_peer_receive(fds[0], buffer, sizeof(buffer), &sender), -EPERM);
    shutdown(fds[1], SHUT_RDWR);
    assert_int_equal(lull_peer_receive(fds[0], buffer, sizeof(buffer), &sender), 0);
}

/* Sends a packet with count copies of a descriptor. */
static void send_descriptors(int fd, const char *text, int passed, size_t count)
{
    _Alignas(struct cmsghdr) char control_bytes[CMSG_SPACE(3 * sizeof(int))] = {0};
    const int copies[] = {passed, passed, passed};
    struct iovec part = {.iov_base = (char *)(uintptr_t)text, .iov_len = strlen(text)};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control_bytes,
                            .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *control = (struct cmsghdr *)control_bytes;

    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(control), copies, count * sizeof(int));
    assert_int_equal(sendmsg(fd, &header, 0), (ssize_t)strlen(text));
}

static void descriptors_that_come_along_are_never_taken(void **state)
{
    const int before = count_fds();
    char buffer[8];
    pid_t sender = 0;

    (void)state;
    assert_int_equal(send(fds[1], "a", 1, 0), 1);
    for (size_t count = 1; count <= 3; count++)
        send_descriptors(fds[1], "x", 1, count);
    assert_int_equal(lull_peer_receive(fds[0], buffer, sizeof(buffer), &sender), 1);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(lull_peer_receive(fds[0], buffer, sizeof(buffer), &sender), -EACCES);
    assert_int_equal(count_fds(), before);
}

/* Linux 6.16 refuses them at the sender; an older one does not know the option. */
static void descriptors_are_refused_where_the_kernel_can(void **state)
{
    int on = 1;
    socklen_t size = sizeof(on);

    (void)state;
    lull_peer_refuse_descriptors(fds[0]);
    if (getsockopt(fds[0], SOL_SOCKET, SO_PASSRIGHTS, &on, &size) < 0) {
        assert_int_equal(errno, ENOPROTOOPT);
        skip();
    }
    assert_int_equal(on, 0);
}

static void note_closing(void *context)
{
    atomic_store((atomic_int *)context, 1);
}

/* A TCP socket whose close sleeps for a minute: data waits for a peer that does not read. */
static int open_lingering(int *reader_out)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = 60};
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int writer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    static const char data[65536];

    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(connect(writer, (struct sockaddr *)&address, size), 0);
    *reader_out = accept(listener, NULL, NULL);
    close(listener);
    assert_int_equal(setsockopt(writer, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    while (send(writer, data, sizeof(data), MSG_DONTWAIT) > 0)
        continue;
    return writer;
}

/* F42, F60: the last copy of a lingering socket waits in the queue, behind an empty packet, and its
 * sender has gone with an answer unread. The one who closes must not sleep, and the thread of the
 * pool that sleeps is interrupted long before the minute of the socket is over. */
static void f42_f60_closing_does_not_wait_for_a_lingering_socket(void **state)
{
    struct lull_foreign *foreign;
    atomic_int is_closed;
    const int64_t begin_ns = lull_now_ns();
    int reader;

    (void)state;
    assert_int_equal(lull_foreign_start(&foreign, NULL), 0);
    for (int attempt = 0; attempt < 2; attempt++) {
        int pair[2];
        const int on = 1;
        const int lingering = open_lingering(&reader);

        atomic_init(&is_closed, 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
        if (attempt == 1) {
            assert_int_equal(send(pair[0], "answer", 6, 0), 6);
            assert_int_equal(send(pair[1], "", 0, 0), 0);
        }
        send_descriptors(pair[1], "x", lingering, 1);
        close(lingering);
        close(pair[1]);
        lull_peer_close(foreign, pair[0], note_closing, &is_closed);
        while (atomic_load(&is_closed) == 0)
            lull_sleep_until_ns(lull_now_ns() + LULL_NS_PER_MS);
        assert_true(lull_now_ns() - begin_ns < 30 * LULL_NS_PER_S);
        assert_int_equal(fcntl(pair[0], F_GETFD), -1);
        close(reader);
    }
    {
        const int harmless = dup(fds[0]);

        assert_int_equal(send(fds[1], "x", 1, 0), 1);
        atomic_store(&is_closed, 0);
        lull_peer_close(foreign, harmless, note_closing, &is_closed);
        assert_int_equal(atomic_load(&is_closed), 1);
        assert_int_equal(fcntl(harmless, F_GETFD), -1);
    }
    lull_foreign_stop(foreign);
}

/* --- connections --- */

static void a_connection_is_freed_when_nothing_holds_it(void **state)
{
    struct lull_server server = {.closing_count = 0};
    struct lull_peer peer = {.pid = getpid(), .pid_fd = -1};
    struct lull_connection *connection;
    struct lull_error error;

    (void)state;
    assert_int_equal(uv_loop_init(&server.loop), 0);
    for (int has_pid = 0; has_pid < 2; has_pid++) {
        const int loop_fds = count_fds();

        peer.pid_fd = has_pid ? lull_process_open_fd(getpid()) : -1;
        connection = lull_connection_create(&server, 5, dup(fds[0]), &peer);
        assert_non_null(connection);
        assert_int_equal(connection->open_handles, 1 + has_pid);
        assert_int_equal(connection->id, 5);
        assert_false(lull_connection_reap(connection)); /* it serves */
        assert_int_equal(lull_command_table_create(&connection->table, &error), 0);
        connection->doorbell_fd = eventfd(0, EFD_CLOEXEC);
        lull_connection_close(connection);
        lull_connection_close(connection);
        assert_int_equal(forgotten, 1 + has_pid);
        assert_false(lull_connection_reap(connection)); /* its handles are open */
        uv_run(&server.loop, UV_RUN_NOWAIT);
        assert_int_equal(connection->open_handles, 0);
        connection->source_state = LULL_SOURCE_LEAVING;
        assert_false(lull_connection_reap(connection)); /* the writer has it */
        connection_on_release(connection);
        assert_true(lull_connection_reap(connection));
        assert_true(has_pid == 0 || count_fds() == loop_fds); /* the loop opens some at first */
    }
    assert_true(wakes >= 3);
    assert_int_equal(uv_loop_close(&server.loop), 0);
}

static void a_client_that_does_not_read_is_closed(void **state)
{
    const struct lull_message message = {.type = LULL_MESSAGE_REPLY};
    const struct lull_message nothing = {.type = 0};
    struct lull_server server = {.closing_count = 0};
    struct lull_connection connection = {
        .server = &server, .fd = fds[0], .peer = {.pid_fd = -1}, .doorbell_fd = -1};
    char buffer[LULL_MESSAGE_MAX_BYTES];
    int count = 0;

    (void)state;
    lull_connection_send(&connection, &nothing, false); /* no such message: nothing is sent */
    assert_int_equal(recv(fds[1], buffer, sizeof(buffer), MSG_DONTWAIT), -1);
    lull_connection_send(&connection, &message, false);
    assert_true(recv(fds[1], buffer, sizeof(buffer), MSG_DONTWAIT) > 16);
    assert_false(connection.is_closing);
    while (!connection.is_closing && count++ < 100000)
        lull_connection_send(&connection, &message, false);
    assert_true(connection.is_closing);
    assert_int_equal(fcntl(fds[0], F_GETFD), -1); /* it had no handles */
}

/* Sends packets and lets the connection read as long as it does; returns how many it has read. */
static uint32_t serve_packets(struct lull_connection *connection, uint32_t count)
{
    const uint32_t before = served;

    for (uint32_t i = 0; i < count && !connection->is_paused; i++) {
        assert_int_equal(send(fds[1], "x", 1, 0), 1);
        on_input(&connection->input, 0, 0);
    }
    return served - before;
}

/* F48: a client has its packets in a row; then each waits for its turn, until the client is silent
 * for a moment. */
static void f48_a_client_that_exceeds_its_share_waits_for_each_packet(void **state)
{
    struct lull_server server = {.closing_count = 0};
    const struct lull_peer peer = {.pid = getpid(), .pid_fd = -1};
    struct lull_connection *connection;

    (void)state;
    assert_int_equal(uv_loop_init(&server.loop), 0);
    connection = lull_connection_create(&server, 5, dup(fds[0]), &peer);
    assert_non_null(connection);
    connection->asking.interval_ns = 3600 * LULL_NS_PER_S; /* however slow this host is */
    assert_int_equal(serve_packets(connection, 2 * LULL_QUOTA_PACKETS_IN_A_ROW),
                     LULL_QUOTA_PACKETS_IN_A_ROW + 1);
    assert_int_equal(pauses, 1);
    for (uint32_t i = 0; i < 3; i++) {
        connection->is_paused = false;
        lull_connection_resume(connection);
        connection->resumed_ns = INT64_MAX; /* however slow this host is */
        connection->asking.empty_ns = 0;    /* what it may send again meanwhile changes nothing */
        assert_int_equal(serve_packets(connection, 5), 1);
    }
    connection->is_paused = false;
    lull_connection_resume(connection);
    connection->resumed_ns -= CALM_NS;
    assert_int_equal(serve_packets(connection, 5), 5);
    assert_int_equal(pauses, 4);
    lull_connection_close(connection);
    assert_int_equal(server.closing_count, 1);
    uv_run(&server.loop, UV_RUN_NOWAIT);
    assert_true(lull_connection_reap(connection));
    assert_int_equal(uv_loop_close(&server.loop), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_peer_is_known_by_the_kernels_word),
        TEST(an_older_kernel_is_asked_by_number),
        TEST(a_peer_that_cannot_be_seen_has_no_number),
        TEST(a_process_of_a_number_is_told_from_a_later_one),
        TEST(test_f26_a_reused_number_is_nobodys),
        TEST(test_f26_control_groups_of_the_dead_are_unknown),
        TEST(the_first_group_comes_first),
        TEST(packets_come_whole_with_their_sender),
        TEST(descriptors_that_come_along_are_never_taken),
        TEST(descriptors_are_refused_where_the_kernel_can),
        TEST(f42_f60_closing_does_not_wait_for_a_lingering_socket),
        TEST(a_connection_is_freed_when_nothing_holds_it),
        TEST(a_client_that_does_not_read_is_closed),
        TEST(f48_a_client_that_exceeds_its_share_waits_for_each_packet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
