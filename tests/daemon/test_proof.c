/*
 * Proofs: which descriptors that a client sends are the opened device of which GPU. The devices are
 * /dev/null and /dev/zero. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon/proof.h"
#include "wire/message.h"

enum { SEQUENCE = 31, MOST_SENT = 3 };

static sem_t is_done;
static struct lull_foreign *foreign;

static void note_done(void *context)
{
    sem_post(context);
}

/* Sends a message with descriptors, which are closed here, and looks at what arrives. */
static struct lull_proof_result prove(uint16_t type, const int *fds, size_t count, pid_t sender)
{
    const struct lull_message message = {.type = type, .sequence = SEQUENCE};
    struct lull_proof_result result = {.code = 1, .gpus = 1};
    struct lull_proof proof = {.sender = sender,
                               .gpu_count = 4,
                               .devices = {"", "/dev/zero", "/dev/null", "/dev/null"},
                               .result = &result,
                               .done = note_done,
                               .context = &is_done};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(MOST_SENT * sizeof(int))] = {0};
    uint8_t packet[LULL_MESSAGE_MAX_BYTES];
    struct iovec part = {.iov_base = packet};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    const int on = 1;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
    part.iov_len = (size_t)lull_message_encode(&message, packet, sizeof(packet));
    if (count > 0) {
        struct cmsghdr *its = (struct cmsghdr *)control;

        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        *its = (struct cmsghdr){CMSG_LEN(count * sizeof(int)), .cmsg_level = SOL_SOCKET,
                                .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(its), fds, count * sizeof(int));
    }
    assert_int_equal(sendmsg(pair[0], &header, 0), (ssize_t)part.iov_len);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    assert_int_equal(lull_proof_start(foreign, pair[1], &proof), 0);
    assert_int_equal(sem_wait(&is_done), 0);
    close(pair[0]);
    close(pair[1]);
    return result;
}

/* The lowest free number, which shows what was left open. */
static int lowest_free(void)
{
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    close(fd);
    return fd;
}

static void an_opened_device_proves_its_gpus(void **state)
{
    const int before = lowest_free();
    struct lull_proof_result result;
    int fds[MOST_SENT];

    (void)state;
    for (int i = 0; i < 2; i++) {
        fds[0] = open(i == 0 ? "/dev/null" : "/dev/zero", O_RDWR | O_CLOEXEC);
        result = prove(LULL_MESSAGE_PROVE, fds, 1, getpid());
        assert_int_equal(result.code, 0);
        assert_int_equal(result.sequence, SEQUENCE);
        assert_int_equal(result.gpus, i == 0 ? 12 : 2);
    }
    fds[0] = open("/dev/full", O_RDWR | O_CLOEXEC);
    fds[1] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    fds[2] = open("/dev/zero", O_RDWR | O_CLOEXEC);
    result = prove(LULL_MESSAGE_PROVE, fds, 3, getpid());
    assert_int_equal(result.code, 0);
    assert_int_equal(result.gpus, 2);
    assert_int_equal(lowest_free(), before);
}

static void test_f27_what_is_no_opened_device_proves_nothing(void **state)
{
    const int before = lowest_free();
    struct lull_proof_result result;
    int fds[MOST_SENT];

    (void)state;
    fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    fds[1] = open("/dev/null", O_PATH | O_CLOEXEC);
    fds[2] = open("/dev/full", O_RDWR | O_CLOEXEC);
    result = prove(LULL_MESSAGE_PROVE, fds, 3, getpid());
    assert_int_equal(result.code, -EACCES);
    assert_int_equal(result.sequence, SEQUENCE);
    assert_int_equal(result.gpus, 0);
    assert_int_equal(prove(LULL_MESSAGE_PROVE, NULL, 0, getpid()).code, -EACCES);
    assert_int_equal(lowest_free(), before);
}

/* A packet of another process, or that is no proof, is answered with nothing. */
static void test_f27_only_the_clients_own_proof_counts(void **state)
{
    struct lull_proof_result result;
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)state;
    result = prove(LULL_MESSAGE_PROVE, &fd, 1, getpid() + 1);
    assert_int_equal(result.code, -EPROTO);
    assert_int_equal(result.gpus, 0);
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    result = prove(LULL_MESSAGE_RENEW, &fd, 1, getpid());
    assert_int_equal(result.code, -EPROTO);
    assert_int_equal(result.gpus, 0);
}

static void nothing_to_read_is_no_proof(void **state)
{
    struct lull_proof_result result = {.code = 1, .gpus = 1};
    const struct lull_proof proof = {
        .sender = getpid(), .result = &result, .done = note_done, .context = &is_done};
    int pair[2];

    (void)state;
    assert_int_equal(lull_proof_start(foreign, -1, &proof), -EBADF);
    assert_int_equal(result.code, 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(lull_proof_start(foreign, pair[1], &proof), 0);
    assert_int_equal(sem_wait(&is_done), 0);
    assert_int_equal(result.code, -EPROTO);
    assert_int_equal(result.gpus, 0);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_opened_device_proves_its_gpus),
        cmocka_unit_test(test_f27_what_is_no_opened_device_proves_nothing),
        cmocka_unit_test(test_f27_only_the_clients_own_proof_counts),
        cmocka_unit_test(nothing_to_read_is_no_proof),
    };

    sem_init(&is_done, 0, 0);
    if (lull_foreign_start(&foreign, NULL) < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
