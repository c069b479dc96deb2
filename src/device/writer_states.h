/*
 * The states of one GPU in the device writer, and all transitions between them. Four states change
 * independently: the lease, the journal's record, the clock and the presence of the GPU. README.md
 * has the diagram. Times, counters and clocks in MHz are in struct lull_writer_gpu.
 *
 * Threads: any; pure functions. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_WRITER_STATES_H
#define LULL_DEVICE_WRITER_STATES_H

#include <stdbool.h>

/* Holder of the right to change the GPU. */
enum lull_writer_lease {
    LULL_LEASE_FREE,
    LULL_LEASE_OWN,           /* the writer itself, for a cap */
    LULL_LEASE_CLIENT,        /* a client */
    LULL_LEASE_CAPPING,       /* the writer itself, after a client: once the GPU is as its cap says,
                                 the owner gets the report that it waits for */
    LULL_LEASE_OWN_ENDING,    /* to be restored; then it is free */
    LULL_LEASE_CLIENT_ENDING, /* the same, and the owner waits for the report */
    LULL_LEASES,
};

/* The GPU's record in the journal. */
enum lull_writer_record {
    LULL_RECORD_NONE,
    LULL_RECORD_KEPT,     /* can undo what is about to be done, or is needed for a reset */
    LULL_RECORD_DEFERRED, /* reset while idle: kept until the effect was seen */
    LULL_RECORDS,
};

/* Known state of the GPU's clock. */
enum lull_writer_clock {
    LULL_CLOCK_RESET,   /* nothing of Lull's is locked */
    LULL_CLOCK_LOCKED,  /* at clock.applied_mhz */
    LULL_CLOCK_UNSURE,  /* a failed write, or the keeper, may have changed it */
    LULL_CLOCK_FOREIGN, /* another program has locked it: it is not changed */
    LULL_CLOCKS,
};

/* Availability of the GPU to driver calls. */
enum lull_writer_presence {
    LULL_PRESENCE_UP,
    LULL_PRESENCE_LOST,     /* the driver does not have it */
    LULL_PRESENCE_QUIESCED, /* released for the administrator: nothing of it is open */
    LULL_PRESENCES,
};

struct lull_writer_states {
    enum lull_writer_lease lease;
    enum lull_writer_record record;
    enum lull_writer_clock clock;
    enum lull_writer_presence presence;
};

enum lull_writer_event {
    LULL_EVENT_CLIENT_LEASE, /* a client's lease begins */
    LULL_EVENT_OWN_LEASE,    /* the writer's own lease begins */
    LULL_EVENT_LEASE_ENDS,   /* the lease is over; the GPU is to be restored */
    LULL_EVENT_LEASE_CAPPED, /* the lease is over or ending; the GPU is capped, not restored */
    LULL_EVENT_END_REPORTED, /* it is restored or capped, or that has failed for long */

    LULL_EVENT_RECORDED,
    LULL_EVENT_RECORD_FAILED,   /* the journal could not be written */
    LULL_EVENT_RECORD_REMOVED,  /* the GPU is restored */
    LULL_EVENT_RECORD_DEFERRED, /* the GPU is reset, but too idle to show it */
    LULL_EVENT_RECORD_NEEDED,   /* a lease is over: a record that it could not extend is removed too
                                 */
    LULL_EVENT_RECORD_MOVED,    /* the keeper may have removed the record of a lease */
    LULL_EVENT_DEFERRED_FOUND,  /* by an earlier process */
    LULL_EVENT_DEFERRED_PROVEN, /* the GPU is busy and free */
    LULL_EVENT_DEFERRED_FAILED, /* the GPU is busy, and still locked */

    LULL_EVENT_LOCKED,        /* the driver has accepted a lock... */
    LULL_EVENT_RESET,         /* ...or a reset */
    LULL_EVENT_CLOCK_UNSURE,  /* a write has failed and may have had an effect */
    LULL_EVENT_CLOCK_DOUBTED, /* others may have undone what was set */
    LULL_EVENT_STILL_LOCKED,  /* read back: a reset has had no effect */
    LULL_EVENT_CLOCK_TAKEN,   /* read back: another program has locked it... */
    LULL_EVENT_CLOCK_LEFT,    /* ...and does not any more */

    LULL_EVENT_LOST,
    LULL_EVENT_FOUND, /* a call has succeeded */
    LULL_EVENT_QUIESCED,
    LULL_EVENT_RESUMED,
    LULL_EVENTS,
};

/* Returns whether an event can happen in these states. */
bool lull_writer_states_allow(struct lull_writer_states states, enum lull_writer_event event);

/* Returns the states after an event. Asserts that it can happen. */
struct lull_writer_states lull_writer_states_after(struct lull_writer_states states,
                                                   enum lull_writer_event event);

#endif
