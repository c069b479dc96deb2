/*
 * Ends leases on a thread of its own, which touches no client's socket: at the death of a client's
 * process (pidfd), and when no heartbeat came for the time that a lease lives. Whatever holds up
 * the thread that reads the sockets (a log pipe that is not read, a kernel that sleeps in a
 * client's descriptor), a dead client's clocks and power limits are restored in time.
 *
 * A heartbeat that waits in a socket is not missing: an overdue lease ends only after the reader
 * has read everything once more, or after the patience with a reader that is stuck, which is
 * counted while this process runs (a stopped daemon, a suspended host).
 *
 * Threads: one owner, the reader, calls these functions, none of which blocks; the thread inside is
 * the other that uses the leases and the writer. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_ENFORCER_H
#define LULL_DAEMON_ENFORCER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "daemon/lease.h"
#include "device/writer.h"

struct lull_enforcer; /* opaque; enforcer.c */

struct lull_enforcer_options {
    uint32_t gpu_count;
    int64_t ttl_ns;      /* a lease lives this long after its last renewal */
    int64_t patience_ns; /* a stuck reader is waited for this long */
    /* Called on any thread: something ended a lease, or the reader is to read everything. */
    void (*wake)(void *context);
    void *context;
};

enum lull_ending { LULL_ENDING_DEAD, LULL_ENDING_OVERDUE };

/* A lease that the enforcer has ended. */
struct lull_ended_lease {
    uint32_t gpu;
    uint64_t client;
    enum lull_ending why;
};

/* Starts the thread; borrows the writer until stop. Errors: -ENOMEM; -errno. */
int lull_enforcer_start(struct lull_writer *writer, const struct lull_enforcer_options *options,
                        struct lull_enforcer **enforcer_out, struct lull_error *err);

/* Ends the thread and frees the enforcer; the leases remain, to be ended when the writer is
 * stopped. NULL is allowed. */
void lull_enforcer_stop(struct lull_enforcer *enforcer);

/* Ends the leases of client when pid_fd becomes readable; borrows pid_fd until unwatch. Errors:
 * -errno. */
int lull_enforcer_watch(struct lull_enforcer *enforcer, uint64_t client, int pid_fd);
void lull_enforcer_unwatch(struct lull_enforcer *enforcer, int pid_fd);

/* Returns whether a GPU may be leased, as lull_lease_check() does. Once it may, only a grant
 * changes that. */
int lull_enforcer_check(struct lull_enforcer *enforcer, uint32_t gpu, struct lull_error *err);

/* Grants a lease as lull_lease_grant() does, and passes it to the writer. */
int lull_enforcer_grant(struct lull_enforcer *enforcer, uint32_t gpu, uint64_t client,
                        const struct lull_band *band, struct lull_writer_source *source,
                        uint64_t *id_out, struct lull_error *err);

/* Prolongs all leases of a client that have not been ended; returns how many. */
uint32_t lull_enforcer_renew(struct lull_enforcer *enforcer, uint64_t client);

/* Ends the lease of a GPU; false: there was none. */
bool lull_enforcer_end(struct lull_enforcer *enforcer, uint32_t gpu);

/* Permits new leases of the GPU of an ended lease, because it is back at the reference. */
void lull_enforcer_settle(struct lull_enforcer *enforcer, uint32_t gpu);

/* Copies the lease of a GPU. False: there is none. */
bool lull_enforcer_find(struct lull_enforcer *enforcer, uint32_t gpu, struct lull_lease *lease_out);

/* Returns the leased GPUs and those that are being restored after a lease, a bit for each. */
uint64_t lull_enforcer_leases_of(struct lull_enforcer *enforcer, uint64_t client);
uint64_t lull_enforcer_settling(struct lull_enforcer *enforcer);

/* Takes the next lease that the thread has ended. False: there is none left. */
bool lull_enforcer_take(struct lull_enforcer *enforcer, struct lull_ended_lease *ended_out);

/*
 * Since when overdue leases wait for the reader; 0: none does. It is then to read everything that
 * waits in the sockets, and to call lull_enforcer_has_read() with that time.
 */
int64_t lull_enforcer_waits_since_ns(struct lull_enforcer *enforcer);
void lull_enforcer_has_read(struct lull_enforcer *enforcer, int64_t since_ns);

#endif
