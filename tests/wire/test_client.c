/*
 * The client's side of a connection to lulld, against the other end of a pair of sockets, with a
 * simulated clock. SPDX-License-Identifier: Apache-2.0
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"

static int64_t now_ns;
static int polled_ms[16];
static uint32_t poll_count;
static int poll_errno; /* the next poll fails with it */

static int64_t fake_now_ns(void)
{
    return now_ns;
}

struct pollfd;
static int fake_poll(struct pollfd *fds, int timeout_ms);

#define lull_now_ns fake_now_ns

#include <poll.h>
#define poll(fds, count, timeout_ms) fake_poll(fds, timeout_ms)

#include "wire/client.c"
#undef poll

/* Every look costs one and a half milliseconds; no caller waits. */
static int fake_poll(struct pollfd *fds, int timeout_ms)
{
    assert_true(poll_count < 16);
    polled_ms[poll_count++] = timeout_ms;
    now_ns += 3 * LULL_NS_PER_MS / 2;
    if (poll_errno != 0) {
        errno = poll_errno;
        poll_errno = 0;
        return -1;
    }
    return poll(fds, 1, 0);
}

static struct lull_client client;
static int server_fd;
static struct lull_error error;

static int set_up(void **state)
{
    int fds[2];

    (void)state;
    now_ns = LULL_NS_PER_S;
    poll_count = 0;
    poll_errno = 0;
    error = (struct lull_error){0};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) < 0)
        return -1;
    client = (struct lull_client){.fd = fds[0]};
    server_fd = fds[1];
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(client.fd);
    if (server_fd >= 0)
        close(server_fd);
    return 0;
}

/* Sends an answer with this many descriptors. */
static void answer_with(struct lull_message message, const int *fds, size_t count)
{
    uint8_t packet[LULL_MESSAGE_MAX_BYTES];
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {0};
    const int size = lull_message_encode(&message, packet, sizeof(packet));
    struct iovec part = {.iov_base = packet, .iov_len = (size_t)size};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};

    if (count > 0) {
        struct cmsghdr *head = (struct cmsghdr *)control;

        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(head), fds, count * sizeof(int));
    }
    assert_int_equal(sendmsg(server_fd, &header, 0), size);
}

static void answer(uint16_t type, uint32_t sequence, int code)
{
    struct lull_message message = {.type = type, .sequence = sequence};

    if (type == LULL_MESSAGE_REPLY) {
        message.body.reply.code = code;
        snprintf(message.body.reply.text, sizeof(message.body.reply.text), "the daemon says so");
    }
    answer_with(message, NULL, 0);
}

static int call(uint16_t type, enum lull_message_type expected, int timeout_ms,
                struct lull_message *answer_out)
{
    struct lull_message message = {.type = type};

    return lull_client_call(&client, &message, expected, timeout_ms, answer_out, NULL, &error);
}

static void the_answer_to_a_question_is_found_among_others(void **state)
{
    struct lull_message out = {0};

    (void)state;
    answer(LULL_MESSAGE_REVOKED, 0, 0);
    answer(LULL_MESSAGE_REPLY, 77, -EIO);
    answer(LULL_MESSAGE_REPLY, 1, 3);
    assert_int_equal(call(LULL_MESSAGE_RENEW, LULL_MESSAGE_REPLY, 100, &out), 0);
    assert_int_equal(out.sequence, 1);
    assert_int_equal(out.body.reply.code, 3);
    assert_int_equal(poll_count, 3);
    assert_int_equal(polled_ms[0], 100); /* remaining time, in whole ms */
    assert_int_equal(polled_ms[1], 98);
    assert_int_equal(polled_ms[2], 97);
    answer(LULL_MESSAGE_REPLY, 2, 0);
    assert_int_equal(call(LULL_MESSAGE_RENEW, LULL_MESSAGE_REPLY, 100, &out), 0);
    assert_int_equal(out.sequence, 2);
}

static void answers_of_another_kind(void **state)
{
    struct lull_message out;

    (void)state;
    answer(LULL_MESSAGE_REPLY, 1, -EBUSY);
    assert_int_equal(call(LULL_MESSAGE_LEASE, LULL_MESSAGE_GRANT, 100, &out), -EBUSY);
    assert_string_equal(error.text, "the daemon says so");
    answer(LULL_MESSAGE_REPLY, 2, -EPERM);
    assert_int_equal(call(LULL_MESSAGE_RENEW, LULL_MESSAGE_REPLY, 100, &out), -EPERM);
    answer(LULL_MESSAGE_REPLY, 3, 0);
    assert_int_equal(call(LULL_MESSAGE_LEASE, LULL_MESSAGE_GRANT, 100, &out), LULL_E_FORMAT);
    answer(LULL_MESSAGE_WELCOME, 4, 0);
    assert_int_equal(call(LULL_MESSAGE_RENEW, LULL_MESSAGE_REPLY, 100, &out), LULL_E_FORMAT);
    assert_int_equal(call(0, LULL_MESSAGE_REPLY, 100, &out), -EINVAL); /* no such message */
}

static void silence_is_told_when_the_time_is_over(void **state)
{
    struct lull_message out;

    (void)state;
    assert_int_equal(call(LULL_MESSAGE_RENEW, LULL_MESSAGE_REPLY, 5, &out), -ETIMEDOUT);
    assert_int_equal(poll_count, 1);
    answer(LULL_MESSAGE_REVOKED, 0, 0);
    answer(LULL_MESSAGE_REVOKED, 0, 0);
    assert_int_equal(call(LULL_MESSAGE_RENEW, LULL_MESSAGE_REPLY, 2, &out), -ETIMEDOUT);
    assert_int_equal(polled_ms[1], 2);
    assert_int_equal(polled_ms[2], 0);
    assert_int_equal(polled_ms[3], 0); /* never below 0, which would be for ever */
    poll_errno = EINTR;
    assert_int_equal(lull_client_receive(&client, 5, &out, NULL, &error), -ETIMEDOUT);
    poll_errno = EBADF;
    assert_int_equal(lull_client_receive(&client, 5, &out, NULL, &error), -EBADF);
}

static void a_daemon_that_is_gone(void **state)
{
    struct lull_message out;

    (void)state;
    close(server_fd);
    server_fd = -1;
    assert_int_equal(lull_client_receive(&client, 5, &out, NULL, &error), -EPIPE);
    assert_non_null(strstr(error.text, "gone"));
    assert_int_equal(call(LULL_MESSAGE_RENEW, LULL_MESSAGE_REPLY, 5, &out), -EPIPE);
    assert_int_equal(describe_failure(-ECONNRESET, &error), -EPIPE);
    assert_int_equal(describe_failure(-ENOTCONN, &error), -EPIPE);
    assert_int_equal(describe_failure(-EIO, &error), -EIO);
}

static void what_cannot_be_read_is_refused(void **state)
{
    struct lull_message out;

    (void)state;
    for (size_t size = 1; size <= 8; size += 7) {
        assert_int_equal(send(server_fd, "nonsense", size, 0), size);
        assert_int_equal(lull_client_receive(&client, 5, &out, NULL, &error), LULL_E_FORMAT);
    }
}

static int count_fds(void)
{
    int count = 0;

    for (int fd = 0; fd < 64; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Two descriptors may come along; what is not requested, or is too many, is closed. */
static void passed_descriptors_are_taken_over(void **state)
{
    const struct lull_message message = {.type = LULL_MESSAGE_REPLY};
    const int before = count_fds();
    struct lull_message out;
    int sent[4];
    int got[2] = {-7, -7};

    (void)state;
    for (int i = 0; i < 4; i++)
        sent[i] = eventfd((unsigned)i + 10, EFD_CLOEXEC);
    for (size_t count = 0; count <= 4; count++) {
        answer_with(message, sent, count);
        assert_int_equal(lull_client_receive(&client, 5, &out, got, &error), 0);
        for (size_t i = 0; i < 2; i++) {
            eventfd_t value;

            if (i >= count) {
                assert_int_equal(got[i], -1);
                continue;
            }
            assert_int_equal(eventfd_read(got[i], &value), 0);
            assert_int_equal(value, 10 + i);
            assert_int_equal(fcntl(got[i], F_GETFD), FD_CLOEXEC);
            eventfd_write(sent[i], value);
            close(got[i]);
        }
        assert_int_equal(count_fds(), before + 4);
        answer_with(message, sent, count);
        assert_int_equal(lull_client_receive(&client, 5, &out, NULL, &error), 0);
        assert_int_equal(count_fds(), before + 4);
    }
    for (int i = 0; i < 4; i++)
        close(sent[i]);
}

static void where_no_daemon_listens(void **state)
{
    struct lull_message_welcome welcome;
    struct lull_client *other = NULL;
    char path[128];
    size_t room = sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof("/" LULL_CLIENT_SOCKET);

    (void)state;
    assert_int_equal(lull_client_open("/nonexistent", &other, &welcome, &error), -ENOENT);
    assert_non_null(strstr(error.text, "is it running"));
    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[room] = '\0'; /* the longest that fits */
    assert_int_equal(lull_client_open(path, &other, &welcome, &error), -ENOENT);
    path[room] = 'x';
    path[room + 1] = '\0';
    assert_int_equal(lull_client_open(path, &other, &welcome, &error), -ENAMETOOLONG);
    assert_null(other);
    lull_client_close(NULL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_answer_to_a_question_is_found_among_others),
        TEST(answers_of_another_kind),
        TEST(silence_is_told_when_the_time_is_over),
        TEST(a_daemon_that_is_gone),
        TEST(what_cannot_be_read_is_refused),
        TEST(passed_descriptors_are_taken_over),
        TEST(where_no_daemon_listens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
