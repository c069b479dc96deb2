/*
 * Identifies the process at the other end of a socket, by what the kernel reports, never by what
 * the peer says. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_PEER_H
#define LULL_DAEMON_PEER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct lull_foreign;

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

enum {
    LULL_PEER_MAX_GROUPS = 256, /* of a user who is in more, only the first one is known */
    LULL_PEER_CGROUP_BYTES = 4096,
    LULL_PEER_POD_BYTES = 80,
};

/* Lists the groups of the process that connected fd, its primary group first. Returns how many; 0:
 * the kernel does not report them. */
uint32_t lull_peer_groups(int fd, gid_t groups_out[LULL_PEER_MAX_GROUPS]);

/* Reads the control groups of a peer, as /proc/PID/cgroup says, while it lives. Errors, after which
 * the text is empty: -ESRCH it has ended, or cannot be seen; -errno. */
int lull_peer_cgroups(const struct lull_peer *peer, char text_out[LULL_PEER_CGROUP_BYTES]);

/* Names the pod and the container of a peer for a line of the log: " pod=UID container=ID", the ID
 * cut to 12 digits as the tools of the runtimes show it; "" where neither is known. */
void lull_peer_describe_pod(const struct lull_peer *peer, char text_out[LULL_PEER_POD_BYTES]);

/*
 * Makes the kernel refuse descriptors that clients send to the sockets accepted from listen_fd,
 * where it can (Linux 6.16). Elsewhere the two functions below keep them away.
 */
void lull_peer_refuse_descriptors(int listen_fd);

/* Lets them in again on one socket. */
void lull_peer_accept_descriptors(int fd);

/*
 * Receives one packet and the process that sent it. Returns its size, 0 at the end. A packet with
 * descriptors stays in the queue, because a process that closes the last copy of a lingering TCP
 * socket sleeps. Errors: -EAGAIN nothing there; -EACCES descriptors came along; -EMSGSIZE longer
 * than size; -EPERM the packet does not say who sent it; -errno.
 */
ssize_t lull_peer_receive(int fd, void *buffer, size_t size, pid_t *sender_out);

/* Returns the user of the process that connected fd, also after its end; (uid_t)-1: the kernel does
 * not report it. */
uid_t lull_peer_uid(int fd);

/*
 * Closes a client's socket without sleeping in descriptors that wait in its queue: where there are
 * some, a thread of the pool does it, and done(context) follows from there; else done is called
 * from here. done may be NULL; then the pool counts the socket as a stray.
 */
void lull_peer_close(struct lull_foreign *foreign, int fd, void (*done)(void *context),
                     void *context);

#endif
