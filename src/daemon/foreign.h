/*
 * Work on descriptors that clients have passed. Taking, examining or closing such a descriptor may
 * sleep for as long as its owner likes: a TCP socket lingers, a file system may be a process of the
 * client. The loop must not sleep, and no client may make lulld start a thread, because the keeper
 * and the driver's library need what the unit's TasksMax leaves. Therefore a pool of threads is
 * started with the server. At most one of them works for a user; further jobs of the user wait in a
 * queue. A timer interrupts each working thread every 2 ms, which ends the wait for a lingering
 * socket.
 *
 * Not bounded: a file system that never answers the close of its file holds one thread of the pool
 * per user. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_FOREIGN_H
#define LULL_DAEMON_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { LULL_FOREIGN_THREADS = 8 }; /* for clients; */

struct lull_foreign; /* opaque */

/* A job of the pool; it is part of a larger struct, which work() may free. */
struct lull_foreign_job {
    struct lull_foreign_job *next; /* the pool's */
    uid_t uid;                     /* the user whose descriptors these are */
    bool is_stray;                 /* no connection counts it */
    bool is_own; /* lulld's own; a further thread does these, so that no client delays them */
    void (*work)(struct lull_foreign_job *job);
};

/* Starts the threads. Errors: -ENOMEM; -errno fewer than two threads could be
 * started. */
int lull_foreign_start(struct lull_foreign **foreign_out, struct lull_error *err);

/* Appends a job to the queue; work() is called once, on a thread of the pool. */
void lull_foreign_add(struct lull_foreign *foreign, struct lull_foreign_job *job);

/* Returns how many jobs that no connection counts are not done yet. */
uint32_t lull_foreign_stray_count(struct lull_foreign *foreign);

/* Stops the threads and frees the pool. Jobs that still wait are not done. If a thread does not
 * return within 100 ms, the memory is left to the end of the process. NULL is allowed. */
void lull_foreign_stop(struct lull_foreign *foreign);

#endif
