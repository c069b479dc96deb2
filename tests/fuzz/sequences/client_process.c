/* SPDX-License-Identifier: Apache-2.0 */
#include "client_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../fuzz.h"
#include "wire/command.h"

/* A reply is waited for this long; what comes later is received later. */
enum { REPLY_MS = 20, ORPHAN_S = 60, WORDS_SCRIBBLED = 64 };

static int helper_fd = -1;
static pid_t helper_pid;

/* ---- descriptors along with a packet --------------------------------------------------------- */

static ssize_t send_with(int fd, const void *bytes, size_t size, int passed_fd)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    struct cmsghdr *const first = (struct cmsghdr *)control;

    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(first), &passed_fd, sizeof(passed_fd));
    return sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Receives a packet and up to two descriptors, -1 where there are none. */
static ssize_t receive_with(int fd, void *bytes, size_t size, int fds[2])
{
    /* The kernel's credentials come along where they were requested. */
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int)) + 64] = {0};
    struct iovec part = {.iov_base = bytes, .iov_len = size};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof(control)};
    const ssize_t got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);

    fds[0] = fds[1] = -1;
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&header); got >= 0 && one != NULL;
         one = CMSG_NXTHDR(&header, one))
        if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SCM_RIGHTS)
            memcpy(fds, CMSG_DATA(one), one->cmsg_len - CMSG_LEN(0));
    return got;
}

/* ---- in a client's process ------------------------------------------------------------------- */

struct own {
    int fd; /* the connection; -1: none */
    struct lull_command_table *table;
    uint64_t *words; /* the same memory */
    size_t size;
    int doorbell_fd;
    struct client_answer answer;
};

static void keep_table(struct own *own, const int fds[2])
{
    struct stat status;

    if (fds[0] < 0 || fds[1] < 0 || own->table != NULL)
        return;
    require(lull_command_table_open(fds[0], &own->table, NULL) == 0 && fstat(fds[0], &status) == 0);
    own->size = (size_t)status.st_size;
    own->words = mmap(NULL, own->size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    require(own->words != MAP_FAILED);
    own->doorbell_fd = fds[1];
}

static void drop(struct own *own)
{
    if (own->fd >= 0)
        close(own->fd);
    lull_command_table_close(own->table);
    if (own->words != NULL)
        munmap(own->words, own->size);
    if (own->doorbell_fd >= 0)
        close(own->doorbell_fd);
    *own = (struct own){.fd = -1, .doorbell_fd = -1, .answer = own->answer};
}

/* -1: the daemon does not take it. */
static int open_connection(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", path);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void connect_to(struct own *own, const char *path)
{
    drop(own);
    own->fd = open_connection(path);
}

static bool is_welcomed(int fd)
{
    uint8_t packet[LULL_MESSAGE_MAX_BYTES];
    struct lull_message message;
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    ssize_t got;

    if (fd < 0 || poll(&poller, 1, REPLY_MS) <= 0)
        return false;
    got = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);
    return got > 0 && lull_message_decode(packet, (size_t)got, &message) == 0 &&
           message.type == LULL_MESSAGE_WELCOME;
}

/* More connections at the same time than a user may have. */
static uint32_t crowd(const char *path)
{
    const struct lull_message hello = {.type = LULL_MESSAGE_HELLO};
    uint8_t packet[LULL_MESSAGE_MAX_BYTES];
    const int size = lull_message_encode(&hello, packet, sizeof(packet));
    int fds[CLIENT_CROWD_SIZE];
    uint32_t welcomed = 0;

    for (int i = 0; i < CLIENT_CROWD_SIZE; i++) {
        fds[i] = open_connection(path);
        if (fds[i] >= 0)
            send(fds[i], packet, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    for (int i = 0; i < CLIENT_CROWD_SIZE; i++)
        welcomed += is_welcomed(fds[i]);
    for (int i = 0; i < CLIENT_CROWD_SIZE; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return welcomed;
}

static void come_in_crowds(struct own *own, const struct client_task *task)
{
    own->answer.welcomed = own->answer.at_once = 0;
    for (uint32_t i = 0; i < task->count; i++) {
        const uint32_t welcomed = crowd((const char *)task->packet);

        own->answer.welcomed += welcomed;
        if (own->answer.at_once < welcomed)
            own->answer.at_once = welcomed;
    }
}

static void note_message(struct own *own, const uint8_t *packet, size_t size)
{
    struct lull_message message;
    uint32_t type;

    if (lull_message_decode(packet, size, &message) < 0)
        return;
    type = UINT32_C(1) << (message.sequence >> CLIENT_TYPE_SHIFT & 31);
    if (message.type == LULL_MESSAGE_GRANT)
        own->answer.granted |= UINT32_C(1) << (message.body.grant.slot & 31);
    /* A restoring that takes too long was begun. */
    if (message.type == LULL_MESSAGE_REPLY &&
        (message.body.reply.code >= 0 || message.body.reply.code == -ETIMEDOUT))
        own->answer.obeyed |= type;
    if (message.type == LULL_MESSAGE_REPLY && message.body.reply.code == -EPERM)
        own->answer.refused |= type;
}

static void receive(struct own *own)
{
    uint8_t packet[LULL_MESSAGE_MAX_BYTES];
    struct pollfd poller = {.fd = own->fd, .events = POLLIN};
    int fds[2];
    ssize_t got = 1;

    poll(&poller, 1, REPLY_MS);
    while (own->fd >= 0 && got > 0) {
        got = receive_with(own->fd, packet, sizeof(packet), fds);
        if (got > 0)
            keep_table(own, fds);
        if (got > 0)
            note_message(own, packet, (size_t)got);
    }
    if (got == 0)
        drop(own);
}

static void ring(const struct own *own, uint32_t count)
{
    for (uint32_t i = 0; i < count && own->doorbell_fd >= 0; i++)
        eventfd_write(own->doorbell_fd, 1);
}

static void scribble(struct own *own, uint64_t seed)
{
    for (int i = 0; i < WORDS_SCRIBBLED && own->words != NULL; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        /* The first slots' lines, where they are looked at, and small versions among the words. */
        own->words[(seed >> 33) % (own->size / sizeof(uint64_t))] =
            (seed & 1) != 0 ? seed : (seed >> 8) & 0xff;
        own->words[(seed >> 40) % 64] = (seed >> 16) & 0xfff;
    }
    ring(own, 1);
}

static void fork_child(struct own *own, const struct client_task *task)
{
    if (fork() != 0)
        return;
    alarm(ORPHAN_S);
    send(own->fd, task->packet, task->size, MSG_DONTWAIT | MSG_NOSIGNAL);
    for (;;)
        pause();
}

static void carry_out(struct own *own, const struct client_task *task)
{
    const struct lull_limit_request limit = {.limit_mw = task->limit_mw,
                                             .profiles = task->profiles};

    switch (task->order) {
    case CLIENT_CONNECT:
        connect_to(own, (const char *)task->packet);
        break;
    case CLIENT_SEND:
        send(own->fd, task->packet, task->size, MSG_DONTWAIT | MSG_NOSIGNAL);
        break;
    case CLIENT_SEND_FD:
        send_with(own->fd, task->packet, task->size, STDERR_FILENO);
        break;
    case CLIENT_RECEIVE:
        receive(own);
        break;
    case CLIENT_POST:
        if (own->table != NULL)
            lull_command_post(own->table, task->slot, &task->request);
        ring(own, 1);
        break;
    case CLIENT_LIMIT:
        if (own->table != NULL)
            lull_command_post_limit(own->table, task->slot, &limit);
        ring(own, 1);
        break;
    case CLIENT_SCRIBBLE:
        scribble(own, task->seed);
        break;
    case CLIENT_RING:
        ring(own, task->count);
        break;
    case CLIENT_FORK:
        fork_child(own, task);
        break;
    case CLIENT_CLOSE:
        drop(own);
        break;
    case CLIENT_CROWD:
        come_in_crowds(own, task);
        break;
    }
}

_Noreturn static void be_client(int fd)
{
    struct own own = {.fd = -1, .doorbell_fd = -1};
    struct client_task task;

    /* A group of its own, so that its children are found when it has died. */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (recv(fd, &task, sizeof(task), 0) == sizeof(task)) {
        carry_out(&own, &task);
        if (send(fd, &own.answer, sizeof(own.answer), MSG_NOSIGNAL) < 0)
            break;
    }
    _exit(0);
}

/* ---- the helper --------------------------------------------------------------------------------
 */

_Noreturn static void be_helper(int fd)
{
    int fds[2];
    char byte;

    signal(SIGCHLD, SIG_IGN); /* clients are not waited for */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (receive_with(fd, &byte, 1, fds) == 1) {
        const pid_t pid = fork();

        if (pid == 0) {
            close(fd);
            be_client(fds[0]);
        }
        close(fds[0]);
        require(send(fd, &pid, sizeof(pid), MSG_NOSIGNAL) == sizeof(pid));
    }
    _exit(0);
}

void client_helper_start(void)
{
    int fds[2];

    require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
    helper_pid = fork();
    require(helper_pid >= 0);
    if (helper_pid == 0) {
        close(fds[0]);
        be_helper(fds[1]);
    }
    close(fds[1]);
    helper_fd = fds[0];
}

void client_helper_stop(void)
{
    close(helper_fd);
    waitpid(helper_pid, NULL, 0);
}

void client_start(struct client *client)
{
    int fds[2];

    require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
    require(send_with(helper_fd, "", 1, fds[1]) == 1);
    require(recv(helper_fd, &client->pid, sizeof(client->pid), 0) == sizeof(client->pid));
    close(fds[1]);
    client->fd = fds[0];
    client->is_stopped = false;
    client->answer = (struct client_answer){0};
}

bool client_do(struct client *client, const struct client_task *task)
{
    if (client->fd < 0 || client->pid == 0 || client->is_stopped)
        return false;
    return send(client->fd, task, sizeof(*task), MSG_NOSIGNAL) == sizeof(*task) &&
           recv(client->fd, &client->answer, sizeof(client->answer), 0) == sizeof(client->answer);
}

void client_stop(struct client *client)
{
    client->is_stopped = client->pid != 0 && client->fd >= 0 && kill(client->pid, SIGSTOP) == 0;
}

void client_continue(struct client *client)
{
    if (client->pid != 0 && client->fd >= 0)
        kill(client->pid, SIGCONT);
    client->is_stopped = false;
}

void client_kill(struct client *client)
{
    if (client->pid == 0 || client->fd < 0)
        return;
    kill(client->pid, SIGKILL);
    close(client->fd);
    client->fd = -1;
}

void client_end(struct client *client)
{
    if (client->pid == 0)
        return;
    client_kill(client);
    kill(-client->pid, SIGKILL); /* the children that it has left */
    client->pid = 0;
}
