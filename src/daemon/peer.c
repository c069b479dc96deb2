/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/peer.h"

#include <errno.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/process.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* Before Linux 6.5: the same process number must mean the same process before and after. */
static int open_by_number(pid_t pid)
{
    const int64_t before = lull_process_start_ticks(pid);
    int fd = pidfd_open(pid, 0);

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
        return lull_error_set(err, -errno,
                              "client: the kernel does not say which process it is: %s",
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

static void close_fds(const struct cmsghdr *control)
{
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= control->cmsg_len; at += sizeof(int)) {
        int fd;

        memcpy(&fd, (const char *)control + at, sizeof(fd));
        close(fd);
    }
}

ssize_t lull_peer_receive(int fd, void *buffer, size_t size, pid_t *sender_out)
{
    _Alignas(struct cmsghdr) char control_bytes[CMSG_SPACE(sizeof(struct ucred)) + 64];
    struct iovec part = {.iov_base = buffer, .iov_len = size};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control_bytes,
                            .msg_controllen = sizeof(control_bytes)};
    ssize_t received = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int is_identified = 0;

    if (received < 0)
        return -errno;
    for (struct cmsghdr *control = CMSG_FIRSTHDR(&header); control != NULL;
         control = CMSG_NXTHDR(&header, control)) {
        struct ucred credentials;

        if (control->cmsg_level != SOL_SOCKET)
            continue;
        if (control->cmsg_type == SCM_RIGHTS)
            close_fds(control);
        if (control->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&credentials, CMSG_DATA(control), sizeof(credentials));
            *sender_out = credentials.pid;
            is_identified = 1;
        }
    }
    if (received == 0)
        return 0;
    if ((header.msg_flags & MSG_TRUNC) != 0)
        return -EMSGSIZE;
    return is_identified ? received : -EPERM;
}
