/*
 * Sockets that lulld listens on: their modes, and refused connections. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <cmocka.h>
#include <uv.h>

static uint64_t paused_ms;

#define uv_poll_stop(poll) ((void)(poll))
#define uv_timer_start(timer, callback, timeout_ms, repeat_ms)                                     \
    ((void)(callback), paused_ms = (timeout_ms))

#include "daemon/listener.c"

static struct lull_listener listener;
static char directory[] = "/tmp/lull-listener-XXXXXX";
static char path[64];
static uint32_t admitted, exhausted;

static bool is_full_now;

static bool is_full(void *context)
{
    (void)context;
    return is_full_now;
}

static void count_client(void *context, int fd)
{
    (void)context;
    admitted++;
    close(fd);
}

static void count_exhaustion(void *context, int fd)
{
    (void)context;
    exhausted++;
    close(fd);
}

static struct lull_listener_options options = {.path = path,
                                               .mode = 0640,
                                               .group = (gid_t)-1,
                                               .is_bounded = true,
                                               .admit = count_client,
                                               .is_full = is_full,
                                               .exhausted = count_exhaustion};

static int set_up(void **state)
{
    (void)state;
    memcpy(directory + sizeof(directory) - 7, "XXXXXX", 7);
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/socket", directory);
    listener = (struct lull_listener){.fd = -1, .spare_fd = -1};
    listener.input.data = &listener;
    admitted = exhausted = 0;
    paused_ms = 0;
    options.path = path;
    options.is_bounded = true;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lull_listener_hide(&listener);
    lull_listener_close(&listener);
    lull_listener_close(&listener);
    return rmdir(directory);
}

static int connect_client(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, path, sizeof(path));
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
    return client;
}

/* F24, F48: without a free descriptor a client is refused, so that it does not wake the loop for
 * ever, and the loop has a pause. */
static void f48_a_client_is_refused_when_descriptors_run_out(void **state)
{
    struct rlimit before, none;
    int client;
    char byte;

    (void)state;
    assert_int_equal(lull_listener_open(&listener, &options, NULL), 0);
    client = connect_client();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)listener.fd + 1; /* the highest one that is open */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    on_connect(&listener.input, 0, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(recv(client, &byte, 1, MSG_DONTWAIT), 0);
    assert_true(fcntl(listener.spare_fd, F_GETFD) >= 0);
    assert_int_equal(exhausted, 1);
    assert_int_equal(paused_ms, EXHAUSTED_MS);
    on_connect(&listener.input, 0, 0); /* no client waits */
    assert_int_equal(admitted, 0);
    close(client);
}

/* F61: clients that wait are taken many at a time, so that a crowd does not keep others waiting,
 * and no more of them than leave the loop its turn. */
static void f61_a_crowd_is_taken_in_few_turns(void **state)
{
    int clients[2 * ACCEPTS_PER_TURN];
    int turns = 0;

    (void)state;
    assert_int_equal(lull_listener_open(&listener, &options, NULL), 0);
    for (int i = 0; i < 2 * ACCEPTS_PER_TURN; i++)
        clients[i] = connect_client();
    is_full_now = true; /* no client is accepted */
    on_connect(&listener.input, 0, 0);
    assert_int_equal(admitted, 0);
    assert_int_equal(paused_ms, PAUSE_MS);
    is_full_now = false;
    for (; admitted < 2 * ACCEPTS_PER_TURN && turns < 100; turns++)
        on_connect(&listener.input, 0, 0);
    assert_int_equal(turns, 2);
    for (int i = 0; i < 2 * ACCEPTS_PER_TURN; i++)
        close(clients[i]);
}

/* F48: a flood of connections is served at a bounded rate, but root's never waits. */
static void f48_accepting_pauses_in_a_flood(void **state)
{
    (void)state;
    for (int is_bounded = 0; is_bounded < 2; is_bounded++) {
        options.is_bounded = is_bounded;
        admitted = 0;
        assert_int_equal(lull_listener_open(&listener, &options, NULL), 0);
        listener.accepts.interval_ns = LULL_NS_PER_S * 3600; /* however slow this host is */
        paused_ms = 0;
        for (int i = 0; i < ACCEPTS_IN_A_ROW + 5; i++)
            close(connect_client());
        for (int i = 0; i < ACCEPTS_IN_A_ROW && paused_ms == 0; i++)
            on_connect(&listener.input, 0, 0);
        assert_int_equal(admitted, is_bounded ? ACCEPTS_IN_A_ROW : ACCEPTS_IN_A_ROW + 5);
        assert_int_equal(paused_ms, is_bounded ? PAUSE_MS : 0);
        lull_listener_close(&listener);
    }
}

static void the_socket_has_its_mode(void **state)
{
    char long_path[160];
    struct stat status;
    const mode_t mask = umask(022);
    int on = 0;
    socklen_t size = sizeof(on);

    (void)state;
    for (int i = 0; i < 2; i++) { /* the second finds a dead daemon's socket */
        assert_int_equal(lull_listener_open(&listener, &options, NULL), 0);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0640);
        assert_int_equal(status.st_uid, geteuid());
        assert_int_equal(getsockopt(listener.fd, SOL_SOCKET, SO_PASSCRED, &on, &size), 0);
        assert_int_equal(on, 1);
        assert_int_equal(umask(022), 022);
        assert_true(listener.spare_fd >= 0);
        lull_listener_close(&listener);
    }
    assert_int_equal(unlink(path), 0);
    memset(long_path, 'x', sizeof(long_path));
    long_path[sizeof(listener.path) - 1] = '\0'; /* the longest */
    long_path[3] = '/';
    options.path = long_path;
    assert_int_equal(lull_listener_open(&listener, &options, NULL), -ENOENT);
    lull_listener_close(&listener);
    long_path[sizeof(listener.path) - 1] = 'x';
    long_path[sizeof(listener.path)] = '\0';
    assert_int_equal(lull_listener_open(&listener, &options, NULL), -ENAMETOOLONG);
    umask(mask);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(f48_a_client_is_refused_when_descriptors_run_out),
        TEST(f48_accepting_pauses_in_a_flood),
        TEST(f61_a_crowd_is_taken_in_few_turns),
        TEST(the_socket_has_its_mode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
