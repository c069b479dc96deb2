/*
 * Leases: the time-limited right of one client to move one GPU's clock within a band.
 *
 * One lease per GPU. A lease that has ended keeps its GPU busy until the device writer has put it
 * back. All times are nanoseconds of one monotonic clock that the caller reads and passes in.
 *
 * Threads: a table belongs to one thread. Nothing here blocks, logs or calls a driver.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_LEASE_H
#define LULL_DAEMON_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/switch.h"

struct lull_lease_table; /* opaque; lease.c */

/* A held lease, as others may see it. */
struct lull_lease {
    uint64_t id;     /* > 0, never used twice */
    uint64_t client; /* the client that holds the lease */
    struct lull_band band;
    int64_t expires_ns;
};

/* Creates an empty table for gpu_count devices; the caller owns it. NULL: no memory. */
struct lull_lease_table *lull_lease_table_create(uint32_t gpu_count);

/* Frees the table; NULL is allowed. Does not touch any device. */
void lull_lease_table_destroy(struct lull_lease_table *table);

/* Returns whether a GPU may be leased now: 0, or the -ENODEV or -EBUSY of lull_lease_grant(). */
int lull_lease_check(const struct lull_lease_table *table, uint32_t gpu, struct lull_error *err);

/* A client's request. */
struct lull_lease_request {
    uint32_t gpu;
    uint64_t client;
    const struct lull_band *band;
    int64_t ttl_ns;
};

/*
 * Grants the lease of one GPU until now_ns + ttl_ns; *id_out is written on success only.
 * Errors: -ENODEV no such GPU; -EINVAL empty band or ttl_ns <= 0; -EBUSY leased, or still being
 * restored after a lease.
 */
int lull_lease_grant(struct lull_lease_table *table, const struct lull_lease_request *request,
                     int64_t now_ns, uint64_t *id_out, struct lull_error *err);

/*
 * Prolongs all leases of a client; returns how many. One that has run out and was not ended yet is
 * prolonged as well: its heartbeat may have waited in a queue.
 */
uint32_t lull_lease_renew(struct lull_lease_table *table, uint64_t client, int64_t now_ns,
                          int64_t ttl_ns);

/* Ends the lease of a GPU; the GPU stays busy until lull_lease_settle. False: there was none. */
bool lull_lease_end(struct lull_lease_table *table, uint32_t gpu);

/* Permits new leases of the GPU of an ended lease, because it is back at the reference. */
void lull_lease_settle(struct lull_lease_table *table, uint32_t gpu);

/* Returns the GPUs that wait for lull_lease_settle(), a bit for each. */
uint64_t lull_lease_settling(const struct lull_lease_table *table);

/* Returns the lease of a GPU, borrowed until the next call that changes the table; NULL: none. */
const struct lull_lease *lull_lease_find(const struct lull_lease_table *table, uint32_t gpu);

/* Returns when the next lease expires; INT64_MAX: none is held. */
int64_t lull_lease_next_expiry_ns(const struct lull_lease_table *table);

/* Returns a GPU whose lease has expired by now_ns and was not ended yet; -ENOENT: there is none. */
int lull_lease_find_expired(const struct lull_lease_table *table, int64_t now_ns);

#endif
