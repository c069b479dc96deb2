/* The actuator renews its leases at the interval that the daemon requests: a thread of this process
 * acts as the daemon. Without a daemon and root it sets what the driver permits.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
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
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "emulator/node.h"
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

/* ---- without a daemon and root ---- */

enum { USER = 12345, WAIT_MS = 20000 };

enum { NOT_SET_UP = 101, NOT_LEASED, NOT_IN_FORCE };

/* Requests a profile and waits for it. Returns 0, or a positive error. */
static int request_profile(struct lull_devices *devices, struct lull_actuator *actuator)
{
    const struct lull_band band = {.min_mhz = 1, .max_mhz = UINT32_MAX};
    const int64_t until_ns = lull_now_ns() + WAIT_MS * LULL_NS_PER_MS;
    struct lull_limit_result result = {0};
    uint64_t sequence;
    uint32_t slot;

    if (lull_actuator_lease(actuator, lull_device_info(devices, 0)->uuid, &band, &slot, NULL) < 0)
        return NOT_LEASED;
    sequence = lull_actuator_set_profiles(actuator, slot, LULL_POWER_PROFILE_MAX_Q);
    while (result.profile_sequence != sequence && lull_now_ns() < until_ns) {
        lull_sleep_until_ns(lull_now_ns() + LULL_NS_PER_MS);
        lull_actuator_limit_result(actuator, slot, &result);
    }
    return result.profiles == LULL_POWER_PROFILE_MAX_Q ? -result.profile_status : NOT_IN_FORCE;
}

static int use_as_user(struct lull_devices *devices)
{
    char directory[] = "/tmp/lull-actuator-XXXXXX";
    char command[64];
    struct lull_actuator *actuator = NULL;
    int result;

    if ((geteuid() == 0 && setuid(USER) < 0) || mkdtemp(directory) == NULL)
        return NOT_SET_UP;
    result = -lull_actuator_open_local(devices, directory, &actuator, NULL);
    if (result == 0)
        result = request_profile(devices, actuator);
    if (result == 0)
        result = -lull_actuator_close(actuator);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    return system(command) == 0 ? result : NOT_SET_UP;
}

static int wait_for_user(struct lull_devices *devices)
{
    int status;
    const pid_t child = fork();

    if (child == 0)
        _exit(use_as_user(devices));
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_users_set_profiles_where_the_driver_permits(void **state)
{
    struct lull_node_spec spec = {.time_scale = 1};
    struct lull_devices *devices;
    struct lull_node *node;

    (void)state;
    assert_int_equal(lull_node_spec_parse("1xB200", &spec, NULL), 0);
    assert_int_equal(lull_node_create(&spec, &node, NULL), 0);
    setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(node), 1);
    assert_int_equal(lull_devices_open(&devices, NULL), 0);
    assert_int_equal(wait_for_user(devices), EPERM);
    lull_node_set_fault(node, 0, LULL_FAULT_WPPS, &(struct lull_fault){1, LULL_FAULT_ALWAYS, 0});
    assert_int_equal(wait_for_user(devices), 0);
    assert_int_equal(lull_node_begin(node, 0)->profiles_requested, 0);
    lull_node_end(node, 0, false);
    lull_devices_close(devices);
    lull_node_remove(node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_renews_as_often_as_the_daemon_wants),
        cmocka_unit_test(test_a_long_heartbeat_is_waited_for),
        cmocka_unit_test(test_leases_are_kept_alive_whatever_the_daemon_says),
        cmocka_unit_test(test_users_set_profiles_where_the_driver_permits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
