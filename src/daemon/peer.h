/*
 * Tells who is at the other end of a socket: what the kernel says, never what the peer says.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_PEER_H
#define LULL_DAEMON_PEER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct lull_peer {
    pid_t pid; /* 0: in a PID namespace that this process cannot see */
    uid_t uid;
    int pid_fd; /* readable when the process has ended; -1 if pid is 0 */
};

/*
 * Identifies the process that connected fd; the caller closes pid_fd.
 * Errors: -ESRCH it has ended already; -errno.
 */
int lull_peer_identify(int fd, struct lull_peer *peer_out, struct lull_error *err);

/*
 * Receives one packet and the process that sent it. Returns its size, 0 at the end; descriptors
 * that came along are closed. Errors: -EAGAIN nothing there; -EMSGSIZE longer than size; -EPERM
 * the packet does not say who sent it; -errno.
 */
ssize_t lull_peer_receive(int fd, void *buffer, size_t size, pid_t *sender_out);

#endif
