/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/peer.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pod.h"
#include "base/process.h"
#include "daemon/foreign.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

/* Before Linux 6.5: the same process number must mean the same process before and after. */
static int open_by_number(pid_t pid)
{
    const int64_t before = lull_process_start_ticks(pid);
    int fd = lull_process_open_fd(pid);

    if (fd < 0)
        return -errno;
    if (before < 0 || lull_process_start_ticks(pid) != before) {
        close(fd);
        return -ESRCH;
    }
    return fd;
}

static int open_peer(int fd, pid_t pid)
{
    int pid_fd;
    socklen_t size = sizeof(pid_fd);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pid_fd, &size) == 0)
        return pid_fd;
    if (errno != ENOPROTOOPT && errno != EINVAL)
        return -errno;
    return open_by_number(pid);
}

int lull_peer_identify(int fd, struct lull_peer *peer_out, struct lull_error *err)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    int pid_fd = -1;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
        return lull_error_set(err, -errno, "client: its process is unknown to the kernel: %s",
                              strerror(errno));
    if (credentials.pid > 0) {
        pid_fd = open_peer(fd, credentials.pid);
        if (pid_fd < 0)
            return lull_error_set(err, pid_fd, "client: process %ld cannot be watched: %s",
                                  (long)credentials.pid, strerror(-pid_fd));
    }
    *peer_out =
        (struct lull_peer){.pid = credentials.pid, .uid = credentials.uid, .pid_fd = pid_fd};
    return 0;
}

uint32_t lull_peer_groups(int fd, gid_t groups_out[LULL_PEER_MAX_GROUPS])
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
        return 0;
    groups_out[0] = credentials.gid;
    size = (LULL_PEER_MAX_GROUPS - 1) * sizeof(groups_out[0]);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, &groups_out[1], &size) < 0)
        return 1;
    return 1 + (uint32_t)(size / sizeof(groups_out[0]));
}

/* Another process that has the number now is not the peer, so the peer must be alive afterwards. */
int lull_peer_cgroups(const struct lull_peer *peer, char text_out[LULL_PEER_CGROUP_BYTES])
{
    struct pollfd death = {.fd = peer->pid_fd, .events = POLLIN};
    char path[64];
    char *text = NULL;
    size_t size;
    int result;

    text_out[0] = '\0';
    if (peer->pid_fd < 0)
        return -ESRCH;
    snprintf(path, sizeof(path), "/proc/%ld/cgroup", (long)peer->pid);
    result = lull_file_read(path, LULL_PEER_CGROUP_BYTES - 1, &text, &size, NULL);
    if (result == 0 && poll(&death, 1, 0) != 0)
        result = -ESRCH;
    if (result == 0)
        memcpy(text_out, text, size + 1);
    free(text);
    return result;
}

void lull_peer_describe_pod(const struct lull_peer *peer, char text_out[LULL_PEER_POD_BYTES])
{
    char cgroups[LULL_PEER_CGROUP_BYTES];
    struct lull_pod pod;

    lull_peer_cgroups(peer, cgroups); /* empty after an error */
    lull_pod_find(cgroups, &pod);
    snprintf(text_out, LULL_PEER_POD_BYTES, "%s%s%s%.12s", pod.uid[0] != '\0' ? " pod=" : "",
             pod.uid, pod.container[0] != '\0' ? " container=" : "", pod.container);
}

void lull_peer_refuse_descriptors(int listen_fd)
{
    const int off = 0;

    /* A kernel that does not know the option leaves them in the queue, where peer_look_ahead()
     * finds them. */
    setsockopt(listen_fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}

void lull_peer_accept_descriptors(int fd)
{
    const int on = 1;

    setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &on, sizeof(on));
}

enum next { NEXT_END, NEXT_PACKET, NEXT_DESCRIPTORS };

/*
 * Looks at the next packet without taking it. There is no room for its descriptors, so the kernel
 * makes no copies of them and reports that something was truncated. Every packet carries
 * credentials, which distinguish an empty packet from the end. Errors: -errno.
 */
static int peer_look_ahead(int fd)
{
    char byte;
    _Alignas(struct cmsghdr) char control_bytes[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec part = {.iov_base = &byte, .iov_len = sizeof(byte)};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control_bytes,
                            .msg_controllen = sizeof(control_bytes)};

    if (recvmsg(fd, &header, MSG_DONTWAIT | MSG_PEEK | MSG_CMSG_CLOEXEC) < 0)
        return -errno;
    if ((header.msg_flags & MSG_CTRUNC) != 0)
        return NEXT_DESCRIPTORS;
    return header.msg_controllen > 0 ? NEXT_PACKET : NEXT_END;
}

static ssize_t peer_take_packet(int fd, void *buffer, size_t size, pid_t *sender_out)
{
    _Alignas(struct cmsghdr) char control_bytes[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec part = {.iov_base = buffer, .iov_len = size};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control_bytes,
                            .msg_controllen = sizeof(control_bytes)};
    const ssize_t received = recvmsg(fd, &header, MSG_DONTWAIT);
    const struct cmsghdr *const control = CMSG_FIRSTHDR(&header);
    struct ucred credentials;

    if (received < 0)
        return -errno;
    if (received == 0)
        return 0;
    if ((header.msg_flags & MSG_TRUNC) != 0)
        return -EMSGSIZE;
    if (control == NULL || control->cmsg_level != SOL_SOCKET ||
        control->cmsg_type != SCM_CREDENTIALS)
        return -EPERM;
    memcpy(&credentials, CMSG_DATA(control), sizeof(credentials));
    *sender_out = credentials.pid;
    return received;
}

ssize_t lull_peer_receive(int fd, void *buffer, size_t size, pid_t *sender_out)
{
    const int next = peer_look_ahead(fd);

    if (next < 0)
        return next;
    return next == NEXT_DESCRIPTORS ? -EACCES : peer_take_packet(fd, buffer, size, sender_out);
}

/* --- closing --- */

uid_t lull_peer_uid(int fd)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
        return (uid_t)-1;
    return credentials.uid;
}

struct closing {
    struct lull_foreign_job job; /* the first member */
    int fd;
    void (*done)(void *context);
    void *context;
};

static void finish_closing(int fd, void (*done)(void *context), void *context)
{
    close(fd);
    if (done != NULL)
        done(context);
}

static void close_patiently(struct lull_foreign_job *job)
{
    struct closing *const closing = (struct closing *)job;

    finish_closing(closing->fd, closing->done, closing->context);
    free(closing);
}

/* Empties the queue as far as nothing in it can make this thread sleep. */
static bool is_harmless(int fd)
{
    char byte;
    int next;

    shutdown(fd, SHUT_RDWR); /* nothing more can come */
    do {
        next = peer_look_ahead(fd);
        if (next == NEXT_PACKET)
            recv(fd, &byte, sizeof(byte), MSG_DONTWAIT);
        /* A peer that has closed with answers unread is reported once, before what it has sent. */
    } while (next == NEXT_PACKET || next == -ECONNRESET);
    return next != NEXT_DESCRIPTORS;
}

void lull_peer_close(struct lull_foreign *foreign, int fd, void (*done)(void *context),
                     void *context)
{
    struct closing *later;

    if (is_harmless(fd)) {
        finish_closing(fd, done, context);
        return;
    }
    later = malloc(sizeof(*later));
    if (later == NULL)
        return; /* a descriptor that stays open is better than a daemon that sleeps */
    *later = (struct closing){
        .job = {.uid = lull_peer_uid(fd), .is_stray = done == NULL, .work = close_patiently},
        .fd = fd,
        .done = done,
        .context = context,
    };
    lull_foreign_add(foreign, &later->job);
}
