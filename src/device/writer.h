/*
 * The one device writer of a node: a thread that makes every driver call that changes a GPU.
 *
 * Requests wait in one slot per GPU, owned by a source (one per client); the latest wins. Raisings
 * go first, in the order of their arrival, and are never delayed or dropped; lowerings follow by
 * deadline, as often as the budget of the GPU's lowerings allows (base/switch_budget.h), and are
 * dropped when late. A point that is already set is not written. Every request is clamped to the
 * band of the lease and to the clocks of the device, here, in the privileged process. The journal
 * is written before a GPU is changed; a GPU whose journal fails is left unchanged. After a write
 * the clock is read back until it obeys, without delaying other writes. At valid_until_ns, at the
 * end of a lease and at stop the GPU is raised. Power limits (limit_control.h) come last: a call
 * takes some 10 ms, and no clock should wait for it.
 *
 * A GPU may be capped. Its reference point is then the cap's clock instead of no lock. This applies
 * to the holder of its lease. Without a lease the writer holds the GPU itself, with the same
 * journal, until a client takes it over. A lease keeps the lowest clock of its band, whatever the
 * cap.
 *
 * A GPU whose driver call does not return is left unchanged with the thread inside it, while
 * another thread continues with the others (turn.h); it is restored when the call returns.
 *
 * Threads: one owner calls these functions, none of which waits for the driver (but stop does).
 * No lock is held across a driver call. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_WRITER_H
#define LULL_DEVICE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/switch.h"
#include "device/device.h"
#include "device/journal.h"
#include "device/keeper.h"

struct lull_writer;

/* A client, or this process itself. */
struct lull_writer_source {
    int doorbell_fd; /* an eventfd: each write wakes the writer, which never reads it */
    struct lull_switch_channel channel;
    /* Called on the writer's thread when it will not touch the source again. May be NULL. */
    void (*released)(void *context);
    void *context;
    struct lull_writer_source *next_removed; /* the writer's */
};

/* Why the writer requests the end of a lease. */
enum lull_writer_revocation {
    LULL_WRITER_GPU_LOST,
    LULL_WRITER_REPARTITIONED, /* MIG was switched, or its partitions were changed */
    LULL_WRITER_REVOCATIONS,
};

struct lull_writer_options {
    int64_t lowering_gap_ns;    /* a GPU is not lowered sooner than this after it was raised */
    int64_t lowering_refill_ns; /* after each such time one more lowering need not wait; INT64_MAX:
                                 * all have to wait */
    int64_t validity_cap_ns;    /* a lowering that is not renewed ends after this time */
    int64_t check_ns;  /* every GPU is looked at this often, for what happens to it without Lull's
                        * doing; 0: it is not */
    bool reads_power;  /* each GPU's power is read as well when it is looked at */
    int64_t hung_ns;   /* a call that lasts this long counts as hung */
    bool is_resetting; /* GPUs that appear later are reset whichever program has set them, as by
                        * lull_restore_forced() */
    struct lull_keeper *keeper; /* gets heartbeats; NULL: none runs */
    void *context;
    /* Called on a thread of the writer when the GPU of an ended lease was raised and read back and
     * its record was removed (0), or, where it is capped, when it is as its cap says (0), or when
     * that has failed, and the writer continues trying; -ETIMEDOUT: its driver call does not
     * return. May be NULL. */
    void (*ended)(void *context, uint32_t gpu, int result);
    /* Called on a thread of the writer: a leased GPU can no longer be driven, so its lease is to be
     * ended. May be NULL: then it stays, and its requests are refused meanwhile. */
    void (*revoke)(void *context, uint32_t gpu, enum lull_writer_revocation why);
    /* Called on a thread of the writer after each check of a GPU (check_ns) that found which
     * processes compute on it. May be NULL. */
    void (*processes)(void *context, uint32_t gpu, const pid_t *pids, uint32_t count);
};

/* lowering_gap_ns 20 ms, lowering_refill_ns 50 ms, validity_cap_ns 5 s, check_ns 0, hung_ns 30 s,
 * no callback. */
extern const struct lull_writer_options lull_writer_defaults;

/* Health of a GPU's driver. */
enum lull_writer_health {
    LULL_WRITER_UP,
    LULL_WRITER_SUSPECT,    /* a call has not returned for a second */
    LULL_WRITER_HUNG,       /* nor for half a minute */
    LULL_WRITER_LOST,       /* it is not there, or its driver is not */
    LULL_WRITER_FOREIGN,    /* another program has locked its clock, which is left unchanged */
    LULL_WRITER_QUIESCED,   /* set free for the administrator: nothing of it is open */
    LULL_WRITER_UNRESTORED, /* the settings of an earlier process are not undone yet */
    LULL_WRITER_HEALTHS,
};

/* The state of one GPU as the writer knows it. */
struct lull_writer_state {
    bool is_leased;
    uint32_t applied_mhz;  /* the clock that is locked; 0: none is, the reference point holds */
    uint32_t observed_mhz; /* the clock that was read back last; 0: none was */
    int32_t status;        /* return value of the last write */
    uint64_t writes;
    uint64_t dropped;        /* lowerings that came too late */
    uint64_t expired;        /* lowerings that were not renewed in time */
    uint64_t failed;         /* writes that the driver refused */
    uint64_t disobeyed;      /* writes that the clock did not follow */
    uint32_t limit_mw;       /* the power limit that is set; 0: the one from before the lease */
    uint32_t power_profiles; /* enum lull_power_profile; those that Lull requests */
    struct lull_cap cap;
    uint32_t power_mw;    /* mean since the look before (check_ns), or since its cap; 0: unknown */
    uint32_t power_looks; /* number of times that it was found for a period under one cap... */
    uint32_t power_cap_mhz; /* ...namely this one; 0: none */
    enum lull_writer_health health;
    uint64_t xids;       /* errors that the driver has reported of it */
    uint32_t last_xid;   /* 0: none */
    bool is_partitioned; /* MIG is on */
    int64_t seen_ns;     /* when a call for it returned last, on CLOCK_MONOTONIC; 0: never */
    bool is_unrestored;  /* it has no lease, and what was set is not undone yet */
    char trouble[192];   /* the driver's message when it last refused; "": it never has */
};

/* Starts the thread; borrows devices and journal until stop. Errors: -errno. */
int lull_writer_start(struct lull_devices *devices, struct lull_journal *journal,
                      const struct lull_writer_options *options, struct lull_writer **writer_out,
                      struct lull_error *err);

/*
 * Ends every lease, waits until all GPUs are restored, at most timeout_ns, and frees the writer.
 * Errors: -ETIMEDOUT not all of them; the journal keeps what is missing. -EINPROGRESS a thread is
 * stuck in the driver: it is left unchanged, and the writer and what it borrows must never be
 * freed. A GPU that has not answered for a second is not waited for.
 */
int lull_writer_stop(struct lull_writer *writer, int64_t timeout_ns);

/* Listens to a source; borrows it until its released(). Errors: -errno. */
int lull_writer_add_source(struct lull_writer *writer, struct lull_writer_source *source,
                           struct lull_error *err);

/* Ends the leases of a source and forgets it; released() follows. */
void lull_writer_remove_source(struct lull_writer *writer, struct lull_writer_source *source);

/* Serves requests of source for a GPU within band, once the GPU's former lease has ended(). */
void lull_writer_grant(struct lull_writer *writer, uint32_t gpu, struct lull_writer_source *source,
                       const struct lull_band *band);

/* Caps a GPU from now on; a cap of zeros lifts it. What the driver refuses, or accepts without
 * effect, is tried again after pauses that grow to a minute. */
void lull_writer_cap(struct lull_writer *writer, uint32_t gpu, const struct lull_cap *cap);

/* Tries caps that could not be set again at once. */
void lull_writer_retry_caps(struct lull_writer *writer);

/* Ends a lease: the GPU is raised and restored, and ended() follows. Without a lease nothing
 * happens. */
void lull_writer_end(struct lull_writer *writer, uint32_t gpu);

/*
 * Sets GPUs free (a bit for each) for a reset, or for a change of their partitions or of the
 * driver: once their leases have ended and they are restored, what is open of them is closed, and
 * with the last GPU the driver library. lull_writer_resume() opens it and finds them again.
 */
void lull_writer_quiesce(struct lull_writer *writer, uint64_t gpus);
void lull_writer_resume(struct lull_writer *writer, uint64_t gpus);

/*
 * Returns whether a GPU can be driven at present. Errors, with a text for users: LULL_E_NO_DEVICE
 * it is lost; LULL_E_NO_DRIVER; -ETIMEDOUT it hangs; -EBUSY it is quiesced, or not restored yet;
 * LULL_E_UNSUPPORTED MIG is on.
 */
int lull_writer_check(struct lull_writer *writer, uint32_t gpu, struct lull_error *err);

/* Why the driver is away. 0: it is not. Errors: LULL_E_NO_DRIVER; -EBUSY it is quiesced. */
int lull_writer_check_driver(struct lull_writer *writer, struct lull_error *err);

/* The name of a state, as users read it. */
const char *lull_writer_health_name(enum lull_writer_health health);

/* Returns whether the thread has completed a loop since the last call, and requests another loop: a
 * thread that is stuck in the driver, or waits for ever, does not. True at the first call. */
bool lull_writer_answers(struct lull_writer *writer);

/* Copies the state of a GPU. */
void lull_writer_state(struct lull_writer *writer, uint32_t gpu,
                       struct lull_writer_state *state_out);

#endif
