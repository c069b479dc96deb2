/*
 * Starts the user's command as it would have been started without Lull, and reports its exit
 * status. Threads: one thread owns a struct lull_child. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_CHILD_H
#define LULL_BASE_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct lull_child {
    pid_t pid;
    int pidfd;       /* readable once the child has ended */
    bool is_adopted; /* pidfd is the launcher's socket, and stays open */
};

/* The signal state that this process had inherited before it changed it. */
struct lull_child_signals {
    sigset_t mask;
    bool ignores_children; /* SIGCHLD was ignored */
};

/* Differences of a child from one that inherits everything from Lull. */
struct lull_child_setup {
    int stdout_fd; /* becomes its standard output; -1: Lull's own */
    int stderr_fd;
    const struct lull_child_signals
        *signals;       /* it gets these; NULL: nothing blocked, INT and PIPE at their defaults */
    bool has_own_group; /* leads a process group, and is terminated if Lull dies first */
};

/*
 * Starts argv (NULL-terminated, found by PATH) with the given additions to the environment:
 * "NAME=value" replaces, "+NAME=value" puts the value before an existing list with ':'.
 * Errors: -ENOENT and others of exec with the command's name; the child never ran then.
 */
int lull_child_start(char *const argv[], const char *const *environment,
                     struct lull_child *child_out, struct lull_error *err);

/* Starts argv likewise, with a setup. The caller keeps ownership of the setup's descriptors. */
int lull_child_start_as(char *const argv[], const char *const *environment,
                        const struct lull_child_setup *setup, struct lull_child *child_out,
                        struct lull_error *err);

/*
 * Adopts a job that another program starts: a launcher, which holds the other end of a socket of
 * type SOCK_SEQPACKET. It receives one packet with the variables that the job needs, each
 * NAME=VALUE followed by a NUL. Values are complete: a list with a new head includes the rest from
 * this process's environment. A single NUL means no variables. When the job has ended, the launcher
 * answers with one packet, the job's exit status in decimal. A socket that closes without it means
 * that launcher and job were killed. The socket stays open until the run is over, so that the
 * launcher notices the end. Signals are not passed on to such a child. Errors: -EPIPE, -errno the
 * launcher is gone; -ENOMEM.
 */
int lull_child_adopt(int launcher_fd, const char *const *environment, struct lull_child *child_out,
                     struct lull_error *err);

/* Passes a signal on; a child that has ended is not an error. */
void lull_child_signal(const struct lull_child *child, int signal_number);

/* Passes a signal on to the whole group of a child that leads one. Call it before the child is
 * reaped. */
void lull_child_signal_group(const struct lull_child *child, int signal_number);

/*
 * Reaps the child. True when it has ended: *status_out is then its exit status, 128 + N for a
 * signal. With block it waits for the end; otherwise it returns at once.
 */
bool lull_child_reap(struct lull_child *child, bool block, int *status_out);

#endif
