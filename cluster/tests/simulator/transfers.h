/*
 * Transfers over shared links in virtual time (fair_share.h): each waits for its latency, then
 * moves at the speed that the links allow. Speeds change whenever a transfer begins or ends. The
 * simulation is event by event: only transfers whose speed changes are
 * updated.
 *
 * One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TESTS_SIMULATOR_TRANSFERS_H
#define LULL_CLUSTER_TESTS_SIMULATOR_TRANSFERS_H

#include <stdbool.h>
#include <stdint.h>

#include "fair_share.h"

struct lull_network_transfer {
    const struct lull_share_use *uses; /* the links on its way */
    uint32_t use_count;
    double size_mb;   /* > 0 */
    double latency_s; /* >= 0, before it takes part */
    double most_mb_s; /* > 0; INFINITY: as fast as it gets */
};

struct lull_transfers; /* opaque; its time begins at 0 s */

/* Links are copied. NULL: out of memory. */
struct lull_transfers *lull_transfers_create(const struct lull_share_link *links, uint32_t count,
                                             enum lull_share_rule rule);
void lull_transfers_destroy(struct lull_transfers *transfers);

/* Begins now; its number may be one of a transfer that has been taken. Errors: -EINVAL a number out
 * of its range, and as lull_share_add; -ENOMEM. */
int lull_transfers_start(struct lull_transfers *transfers,
                         const struct lull_network_transfer *transfer, uint32_t *number_out);

/* Returns the time of the next event (the end of a transfer, or of its latency); INFINITY: there is
 * none. O(log n). */
double lull_transfers_next_s(struct lull_transfers *transfers);

/* Goes on to a time that is not before now, nor behind lull_transfers_next_s. -ENOMEM, after which
 * there is nothing to do but to destroy them. */
int lull_transfers_advance(struct lull_transfers *transfers, double to_s);

/* Takes out a transfer that has ended by now, the lowest number first; false: there is none. */
bool lull_transfers_take(struct lull_transfers *transfers, uint32_t *number_out);

double lull_transfers_now_s(const struct lull_transfers *transfers);

#endif
