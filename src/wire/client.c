/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

/* Timeout of waiting for the greeting, and for room in the queue of a daemon that accepts no
 * connections. */
enum { GREETING_MS = 2000 };

struct lull_client {
    int fd;
    uint32_t sequence;
    uint16_t version; /* of its messages; 0: this program's */
};

static const char same_release[] =
    "install the same release of both, then restart lulld (systemctl restart lulld)";

static const char *client_advice(int result)
{
    if (result == -EACCES)
        return "ask the administrator for access: lulld --socket-group with one of your groups, or "
               "a rule in /etc/lull/policy.conf";
    return "is it running on this node? Root can start it (systemctl start lulld), or do without "
           "(lull run --no-daemon)";
}

/* Connects. If no process accepts, it waits for GREETING_MS, or with SOCK_NONBLOCK in flags not at
 * all. */
static int client_connect_to(const char *runtime_dir, const char *name, int flags,
                             struct lull_error *err)
{
    const struct timeval patience = {.tv_sec = GREETING_MS / 1000};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd;

    if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", runtime_dir, name) >=
        sizeof(address.sun_path))
        return lull_error_set(err, -ENAMETOOLONG, "%s: too long for a socket's path", runtime_dir);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
    if (fd < 0)
        return lull_error_set(err, -errno, "cannot make a socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        int result = -errno;

        close(fd);
        return lull_error_set(err, result, "%s: cannot reach lulld: %s; %s", address.sun_path,
                              strerror(-result), client_advice(result));
    }
    return fd;
}

static int open_with(const char *runtime_dir, int flags, uint16_t version,
                     struct lull_client **client_out, struct lull_error *err)
{
    struct lull_message message = {.type = LULL_MESSAGE_HELLO};
    struct lull_client *client = calloc(1, sizeof(*client));
    int result;

    if (client == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for a connection");
    client->fd = -1;
    /* Root has a socket of its own, so it does not wait behind other users. */
    if (geteuid() == 0)
        client->fd = client_connect_to(runtime_dir, LULL_CLIENT_ROOT_SOCKET, flags, NULL);
    if (client->fd < 0)
        client->fd = client_connect_to(runtime_dir, LULL_CLIENT_SOCKET, flags, err);
    result = client->fd;
    client->version = version;
    message.body.hello.process_id = (uint32_t)getpid();
    if (result >= 0)
        result = lull_client_send(client, &message, err);
    /* If the daemon refused and closed the connection, its answer is still readable. */
    if (result < 0 && result != -EPIPE) {
        lull_client_close(client);
        return result;
    }
    *client_out = client;
    return 0;
}

int lull_client_connect(const char *runtime_dir, struct lull_client **client_out,
                        struct lull_error *err)
{
    return open_with(runtime_dir, SOCK_NONBLOCK, 0, client_out, err);
}

int lull_client_open(const char *runtime_dir, struct lull_client **client_out,
                     struct lull_message_welcome *welcome_out, struct lull_error *err)
{
    struct lull_client *client;
    int result = open_with(runtime_dir, 0, 0, &client, err);

    if (result < 0)
        return result;
    result = lull_client_greet(client, GREETING_MS, welcome_out, err);
    if (result < 0) {
        lull_client_close(client);
        return result;
    }
    *client_out = client;
    return 0;
}

void lull_client_close(struct lull_client *client)
{
    if (client == NULL)
        return;
    if (client->fd >= 0)
        close(client->fd);
    free(client);
}

static int describe_failure(int result, struct lull_error *err)
{
    if (result == -ECONNRESET || result == -EPIPE || result == -ENOTCONN)
        return lull_error_set(err, -EPIPE, "lulld is gone; its next start restores the clocks");
    return lull_error_set(err, result, "connection to lulld: %s", strerror(-result));
}

int lull_client_send(struct lull_client *client, struct lull_message *message,
                     struct lull_error *err)
{
    uint8_t buffer[LULL_MESSAGE_MAX_BYTES];
    int size;

    message->sequence = ++client->sequence;
    message->version = client->version;
    size = lull_message_encode(message, buffer, sizeof(buffer));
    if (size < 0)
        return lull_error_set(err, size, "connection to lulld: message of no known type");
    if (send(client->fd, buffer, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return describe_failure(-errno, err);
    return 0;
}

/* Takes over the descriptors of a message; those without a place are closed. */
static void take_fds(struct msghdr *header, int *fds_out)
{
    int used = 0;

    for (int i = 0; fds_out != NULL && i < LULL_CLIENT_MAX_FDS; i++)
        fds_out[i] = -1;
    for (struct cmsghdr *control = CMSG_FIRSTHDR(header); control != NULL;
         control = CMSG_NXTHDR(header, control)) {
        if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = CMSG_LEN(0); at + sizeof(int) <= control->cmsg_len; at += sizeof(int)) {
            int fd;

            memcpy(&fd, (char *)control + at, sizeof(fd));
            if (fds_out != NULL && used < LULL_CLIENT_MAX_FDS)
                fds_out[used++] = fd;
            else
                close(fd);
        }
    }
}

static int wait_for_input(struct lull_client *client, int timeout_ms, struct lull_error *err)
{
    struct pollfd poll_fd = {.fd = client->fd, .events = POLLIN};
    int result = poll(&poll_fd, 1, timeout_ms);

    if (result < 0 && errno != EINTR)
        return describe_failure(-errno, err);
    if (result <= 0)
        return lull_error_set(err, -ETIMEDOUT, "lulld does not answer; see its log");
    return 0;
}

int lull_client_receive(struct lull_client *client, int timeout_ms,
                        struct lull_message *message_out, int *fds_out, struct lull_error *err)
{
    uint8_t buffer[LULL_MESSAGE_MAX_BYTES];
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(LULL_CLIENT_MAX_FDS * sizeof(int))];
    struct iovec part = {.iov_base = buffer, .iov_len = sizeof(buffer)};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof(control)};
    int result = wait_for_input(client, timeout_ms, err);
    ssize_t size;

    if (result < 0)
        return result;
    size = recvmsg(client->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size <= 0)
        return describe_failure(size == 0 ? -EPIPE : -errno, err);
    take_fds(&header, fds_out);
    result = lull_message_decode(buffer, (size_t)size, message_out);
    if (result == -EPROTONOSUPPORT)
        return lull_error_set(err, result,
                              "lulld speaks version %u of its protocol and this program version "
                              "%d; %s",
                              message_out->version, LULL_MESSAGE_VERSION, same_release);
    if (result < 0)
        return lull_error_set(err, result, "lulld sent a message that cannot be read; %s",
                              same_release);
    return 0;
}

/* Returns whether lulld refuses the connection as a whole. */
static bool is_refusal(const struct lull_message *message)
{
    return message->type == LULL_MESSAGE_REPLY && message->sequence == 0;
}

/* Waits for the answer to the message that was sent last. */
static int client_await(struct lull_client *client, enum lull_message_type expected, int timeout_ms,
                        struct lull_message *answer_out, int *fds_out, struct lull_error *err)
{
    const int64_t until_ns = lull_now_ns() + timeout_ms * LULL_NS_PER_MS;
    int result;

    do {
        const int64_t left_ms = (until_ns - lull_now_ns()) / LULL_NS_PER_MS;

        result =
            lull_client_receive(client, left_ms > 0 ? (int)left_ms : 0, answer_out, fds_out, err);
    } while (result == 0 && answer_out->sequence != client->sequence && !is_refusal(answer_out));
    if (result < 0)
        return result;
    if (answer_out->type == LULL_MESSAGE_REPLY && answer_out->body.reply.code < 0)
        return lull_error_set(err, answer_out->body.reply.code, "%s", answer_out->body.reply.text);
    if (answer_out->type != expected)
        return lull_error_set(err, LULL_E_FORMAT, "lulld sent an answer of another type; %s",
                              same_release);
    return 0;
}

int lull_client_call(struct lull_client *client, struct lull_message *message,
                     enum lull_message_type expected, int timeout_ms,
                     struct lull_message *answer_out, int *fds_out, struct lull_error *err)
{
    const int result = lull_client_send(client, message, err);

    return result < 0 ? result
                      : client_await(client, expected, timeout_ms, answer_out, fds_out, err);
}

int lull_client_greet(struct lull_client *client, int timeout_ms,
                      struct lull_message_welcome *welcome_out, struct lull_error *err)
{
    struct lull_message answer;
    const int result = client_await(client, LULL_MESSAGE_WELCOME, timeout_ms, &answer, NULL, err);

    if (result == 0)
        *welcome_out = answer.body.welcome;
    if (result == -EPIPE)
        return lull_error_set(err, result,
                              "lulld closed the connection instead of a greeting: it has just "
                              "ended, or it is of another release than this program (protocol "
                              "version %d); in that case %s",
                              LULL_MESSAGE_VERSION, same_release);
    return result;
}

/* --- a daemon of another version --- */

/* Greets in an older version. Daemons older than the frozen messages close connections of every
 * version but their own. */
static int open_older(const char *runtime_dir, uint16_t version, struct lull_client **client_out,
                      struct lull_error *err)
{
    struct lull_message answer;
    struct lull_client *client;
    int result = open_with(runtime_dir, 0, version, &client, err);

    if (result < 0)
        return result;
    result = lull_client_receive(client, GREETING_MS, &answer, NULL, err);
    if (result < 0 && result != -EPROTONOSUPPORT) {
        lull_client_close(client);
        return result;
    }
    *client_out = client;
    return 0;
}

int lull_client_open_any(const char *runtime_dir, struct lull_client **client_out,
                         struct lull_error *err)
{
    struct lull_message_welcome welcome;
    struct lull_client *client;
    struct lull_error older;
    int result = open_with(runtime_dir, 0, 0, &client, err);

    if (result < 0)
        return result;
    result = lull_client_greet(client, GREETING_MS, &welcome, err);
    if (result == 0 || result == -EPROTONOSUPPORT) {
        *client_out = client;
        return 0;
    }
    lull_client_close(client);
    for (uint16_t version = LULL_MESSAGE_VERSION - 1; result == -EPIPE && version > 0; version--)
        if (open_older(runtime_dir, version, client_out, &older) == 0)
            return 0;
    return result;
}

/* --- proofs --- */

enum { MAX_DEVICES = 64 };

/* Opens the devices of NVIDIA, and of AMD and Intel, that this process may use. */
static uint32_t client_open_devices(int *fds)
{
    static const struct {
        const char *path;
        int first;
    } kinds[] = {{"/dev/nvidia", 0}, {"/dev/dri/renderD", 128}};
    uint32_t count = 0;
    char path[64];

    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
        for (int i = 0; i < MAX_DEVICES && count < MAX_DEVICES; i++) {
            snprintf(path, sizeof(path), "%s%d", kinds[kind].path, kinds[kind].first + i);
            fds[count] = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
            count += fds[count] >= 0;
        }
    return count;
}

static int send_devices(struct lull_client *client, const int *fds, uint32_t count,
                        struct lull_error *err)
{
    const struct lull_message message = {.type = LULL_MESSAGE_PROVE,
                                         .sequence = ++client->sequence};
    uint8_t buffer[LULL_MESSAGE_MAX_BYTES];
    _Alignas(struct cmsghdr) char bytes[CMSG_SPACE(MAX_DEVICES * sizeof(int))] = {0};
    struct cmsghdr *const control = (struct cmsghdr *)bytes;
    const int size = lull_message_encode(&message, buffer, sizeof(buffer));
    struct iovec part = {.iov_base = buffer, .iov_len = (size_t)size};
    const struct msghdr header = {.msg_iov = &part,
                                  .msg_iovlen = 1,
                                  .msg_control = bytes,
                                  .msg_controllen = CMSG_SPACE(count * sizeof(int))};

    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(control), fds, count * sizeof(int));
    if (sendmsg(client->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return describe_failure(-errno, err);
    return 0;
}

int lull_client_prove(struct lull_client *client, int timeout_ms, struct lull_error *err)
{
    int fds[MAX_DEVICES];
    struct lull_message answer;
    const uint32_t count = client_open_devices(fds);
    int result;

    if (count == 0)
        return lull_error_set(err, -EACCES,
                              "lulld requires an opened device of the GPU as proof, and this "
                              "process cannot open one");
    result = send_devices(client, fds, count, err);
    for (uint32_t i = 0; i < count; i++)
        close(fds[i]);
    if (result < 0)
        return result;
    return client_await(client, LULL_MESSAGE_REPLY, timeout_ms, &answer, NULL, err);
}
