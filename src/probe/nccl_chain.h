/*
 * Passes NCCL's callbacks on to another profiler plugin, because NCCL loads only one: the library
 * that LULL_NCCL_CHAIN names, found as NCCL would find it, by the table of the version that NCCL
 * uses of ours. It gets the events that its own mask requests and their parents, its own context
 * and its own handles. Without such a library or table, nothing happens.
 *
 * A pair keeps our handle and its handle together; what NCCL holds is the pair's number. A pair
 * whose event has not been stopped, or is the parent of a captured graph's operations, stays until
 * the communicator ends; if no place is left, an event is not passed on.
 *
 * Threads: any; lock-free but for the first init.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_NCCL_CHAIN_H
#define LULL_PROBE_NCCL_CHAIN_H

#include "probe/nccl_profiler.h"

enum { LULL_NCCL_PAIRS = 16384 /* a power of two */ };

/* State that one communicator keeps for the other plugin. */
struct lull_nccl_chain {
    const struct lull_nccl_profiler *table; /* NULL: there is no other plugin */
    void *context;
    uint32_t version;
};

/* Passes a new communicator to the other plugin. */
void lull_nccl_chain_init(struct lull_nccl_chain *chain, const struct lull_nccl_identity *identity);

/* The events that the other plugin requests at this moment; 0: there is no plugin. */
int lull_nccl_chain_mask(void);

/*
 * Passes a start on; own is our handle. Returns what NCCL is to get: a pair, or own where the other
 * plugin does not want the event.
 */
void *lull_nccl_chain_start(const struct lull_nccl_chain *chain, void *own, const void *descriptor,
                            const struct lull_nccl_event *event);

/* Our handle in a pair; NULL: the pair is gone. */
void *lull_nccl_chain_own(void *pair);

/* Pass on a stop and a state of a pair. A second stop is not passed on. */
void lull_nccl_chain_stop(void *pair);
void lull_nccl_chain_record(void *pair, int state, void *arguments);

/* The communicator ends, and with it its pairs. */
void lull_nccl_chain_finalize(const struct lull_nccl_chain *chain);

#endif
