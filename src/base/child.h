/*
 * Starts the user's command as it would have been started without Lull, and says how it ended.
 * Threads: one thread owns a struct lull_child. SPDX-License-Identifier: Apache-2.0
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

/* What a process that has changed it inherited of signals itself. */
struct lull_child_signals {
    sigset_t mask;
    bool ignores_children; /* SIGCHLD was ignored */
};

/* How a child differs from one that simply shares everything with Lull. */
struct lull_child_setup {
    int stdout_fd; /* becomes its standard output; -1: Lull's own */
    int stderr_fd;
    const struct lull_child_signals
        *signals;       /* it gets these; NULL: nothing blocked, INT and PIPE at their defaults */
    bool has_own_group; /* leads a process group, and is terminated should Lull die before it */
};

/*
 * Starts argv (NULL-terminated, found by PATH) with the given additions to the environment:
 * "NAME=value" replaces, "+NAME=value" puts the value before an existing list with ':'.
 * Errors: -ENOENT and others of exec with the command's name; the child never ran then.
 */
int lull_child_start(char *const argv[], const char *const *environment,
                     struct lull_child *child_out, struct lull_error *err);

/* Starts argv likewise, with a setup whose descriptors stay the caller's. */
int lull_child_start_as(char *const argv[], const char *const *environment,
                        const struct lull_child_setup *setup, struct lull_child *child_out,
                        struct lull_error *err);

/*
 * Takes on a job that another program starts: a launcher, which holds the other end of a socket of
 * type SOCK_SEQPACKET. It is sent one packet, the variables that the job needs, each NAME=VALUE
 * with a NUL behind it, complete (what stands in this process' environment behind a list's new head
 * is in it); one NUL alone: none. It answers with one packet, the job's exit status in decimals,
 * when the job has ended; a socket that is closed without one means that launcher and job were
 * killed. The socket stays open, so that the launcher sees by its end that the run is over. Signals
 * are not passed on to such a child. Errors: -EPIPE, -errno the launcher is gone; -ENOMEM.
 */
int lull_child_adopt(int launcher_fd, const char *const *environment, struct lull_child *child_out,
                     struct lull_error *err);

/* Passes a signal on; a child that has ended is no error. */
void lull_child_signal(const struct lull_child *child, int signal_number);

/* Passes a signal on to the whole group of a child that has its own; to be called before the child
 * is reaped. */
void lull_child_signal_group(const struct lull_child *child, int signal_number);

/*
 * Reaps the child. True when it has ended: *status_out is then its exit status, 128 + N for a
 * signal. With block it waits for the end, otherwise it only looks.
 */
bool lull_child_reap(struct lull_child *child, bool block, int *status_out);

#endif
