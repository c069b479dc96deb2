/*
 * The keeper: a second, tiny process (src/keeper/) that restores the GPUs when its supervised
 * process, the process that drives them, is killed, crashes or hangs. lulld and `lull run
 * --no-daemon` each have one.
 *
 * Supervised process and keeper share one page. The supervised process's device writer stores its
 * heartbeats there. The keeper notes there that it has restored the GPUs of a hung process, so that
 * this process, once it runs again, knows that its settings were undone. The journal records what
 * to restore, so the keeper needs only the page, a pidfd of its supervised process and the runtime
 * directory.
 *
 * Threads: start and stop belong to one thread; beat to one other, the device writer.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_KEEPER_H
#define LULL_DEVICE_KEEPER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/error.h"

/* The supervised process sends a heartbeat at least this often while one of its GPUs may be
 * lowered. */
#define LULL_KEEPER_HEARTBEAT_NS LULL_NS_PER_S

/* A supervised process without a heartbeat for this long counts as hung. It is five heartbeats
 * long, because a busy host may delay some. */
#define LULL_KEEPER_STALL_NS (5 * LULL_NS_PER_S)

/* The descriptors that the keeper starts with. */
enum { LULL_KEEPER_PAGE_FD = 3, LULL_KEEPER_SUPERVISED_FD = 4 };

/* The page that the supervised process and the keeper share. */
struct lull_keeper_page {
    _Atomic int64_t heartbeat_ns; /* when the supervised process was last seen alive */
    _Atomic uint32_t is_engaged;  /* 1: a GPU may be lowered */
    /* Incremented when the keeper starts to restore the GPUs of a hung process, and again when it
     * has finished. The keeper is at work while it is odd. */
    _Atomic uint32_t takeovers;
    /* The supervised process, and a real-time thread of it (lull_keeper_watch), which is the first
     * one to end when the process is killed. 0: it has not started, or it ends as planned. */
    _Atomic pid_t pid;
    _Atomic pid_t thread;
};

struct lull_keeper; /* the supervised process's side */

/*
 * Starts the keeper of this process. The keeper runs in its own session and inherits no descriptor
 * but standard error. Errors: -ENOENT the program lull-keeper is not beside this one; -errno. Then
 * no keeper runs, and only the next start restores the GPUs of a killed process.
 */
int lull_keeper_start(const char *runtime_dir, struct lull_keeper **keeper_out,
                      struct lull_error *err);

/*
 * Starts a thread that starts another keeper when this one dies, after increasing pauses if keepers
 * die at once. The thread keeps the caller's present privileges, so lulld calls this from its
 * sandbox. NULL is allowed. Errors: -errno; then a keeper that dies is not replaced.
 */
int lull_keeper_watch(struct lull_keeper *keeper, struct lull_error *err);

/*
 * Ends the keeper and the thread, and frees the object. is_restored: nothing is left to restore.
 * Otherwise the keeper stays, and tries when this process has ended. NULL is allowed.
 */
void lull_keeper_stop(struct lull_keeper *keeper, bool is_restored);

/* Reports to the keeper that this process is alive, and returns the page's takeovers. Makes no
 * system call. */
uint32_t lull_keeper_heartbeat(struct lull_keeper *keeper, int64_t now_ns, bool is_engaged);

#endif
