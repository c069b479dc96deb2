/* The actuator renews its leases at the interval that the daemon requests. A thread of this process
 * acts as the daemon. SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "governor/control/actuator.h"
#include "wire/client.h"
#include "wire/message.h"

struct daemon {
    char directory[32];
    char path[64];
    int listener;
    pthread_t thread;
    struct lull_message_welcome welcome;
    uint32_t renewals;
};

/* Answers until the client is gone. */
static void *serve(void *argument)
{
    struct daemon *daemon = argument;
    const int fd = accept(daemon->listener, NULL, NULL);
    uint8_t bytes[LULL_MESSAGE_MAX_BYTES];
    ssize_t size;

    while ((size = recv(fd, bytes, sizeof(bytes), 0)) > 0) {
        struct lull_message message;
        struct lull_message answer = {.type = LULL_MESSAGE_REPLY};

        if (lull_message_decode(bytes, (size_t)size, &message) < 0)
            break;
        if (message.type == LULL_MESSAGE_HELLO) {
            answer.type = LULL_MESSAGE_WELCOME;
            answer.body.welcome = daemon->welcome;
        }
        daemon->renewals += message.type == LULL_MESSAGE_RENEW;
        answer.sequence = message.sequence;
        size = lull_message_encode(&answer, bytes, sizeof(bytes));
        if (size < 0 || send(fd, bytes, (size_t)size, MSG_NOSIGNAL) < 0)
            break;
    }
    close(fd);
    return NULL;
}

static void start(struct daemon *daemon, uint32_t lease_ttl_ms, uint32_t heartbeat_ms)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    *daemon =
        (struct daemon){.directory = "/tmp/lull-actuator-XXXXXX",
                        .welcome = {.lease_ttl_ms = lease_ttl_ms, .heartbeat_ms = heartbeat_ms}};
    assert_non_null(mkdtemp(daemon->directory));
    snprintf(daemon->path, sizeof(daemon->path), "%s/" LULL_CLIENT_SOCKET, daemon->directory);
    memcpy(address.sun_path, daemon->path, sizeof(daemon->path));
    daemon->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(daemon->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(daemon->listener, 1), 0);
    assert_int_equal(pthread_create(&daemon->thread, NULL, serve, daemon), 0);
}

/* Polls every 20 ms; returns how long that took, ms. */
static int64_t poll_often(struct daemon *daemon, uint32_t times)
{
    struct lull_actuator *actuator;
    struct lull_error err = {0};
    const int64_t begin_ns = lull_now_ns();
    int64_t end_ns;

    assert_int_equal(lull_actuator_open_daemon(daemon->directory, &actuator, &err), 0);
    for (uint32_t i = 0; i < times; i++) {
        assert_int_equal(lull_actuator_poll(actuator, &err), 0);
        lull_sleep_until_ns(lull_now_ns() + 20 * LULL_NS_PER_MS);
    }
    end_ns = lull_now_ns();
    lull_actuator_close(actuator);
    pthread_join(daemon->thread, NULL);
    close(daemon->listener);
    unlink(daemon->path);
    rmdir(daemon->directory);
    return (end_ns - begin_ns) / LULL_NS_PER_MS;
}

static void test_renews_as_often_as_the_daemon_wants(void **state)
{
    struct daemon daemon;
    int64_t took_ms;

    (void)state;
    start(&daemon, 3000, 100);
    took_ms = poll_often(&daemon, 30);
    assert_true(daemon.renewals >= 3);
    assert_true(daemon.renewals <= took_ms / 100 + 1);
}

static void test_a_long_heartbeat_is_waited_for(void **state)
{
    struct daemon daemon;

    (void)state;
    start(&daemon, 300000, 100000);
    poll_often(&daemon, 30);
    assert_int_equal(daemon.renewals, 1);
}

/* Too rare to keep a lease alive, or not said: three in the life of a lease. */
static void test_leases_are_kept_alive_whatever_the_daemon_says(void **state)
{
    static const uint32_t useless_ms[] = {0, 300, 100000};

    (void)state;
    for (size_t i = 0; i < sizeof(useless_ms) / sizeof(useless_ms[0]); i++) {
        struct daemon daemon;
        int64_t took_ms;

        start(&daemon, 300, useless_ms[i]);
        took_ms = poll_often(&daemon, 30);
        assert_true(daemon.renewals >= 3);
        assert_true(daemon.renewals <= took_ms / 100 + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_renews_as_often_as_the_daemon_wants),
        cmocka_unit_test(test_a_long_heartbeat_is_waited_for),
        cmocka_unit_test(test_leases_are_kept_alive_whatever_the_daemon_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
