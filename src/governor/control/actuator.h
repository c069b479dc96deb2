/*
 * Sets clocks for the governor. The calls are the same whether lulld drives the devices (leases
 * over its socket) or this process does, as root (`lull run --no-daemon`).
 *
 * A request goes into one slot per GPU in shared memory, the latest wins, and an eventfd wakes the
 * device writer: posting never blocks and never calls a driver. Results come back in the slot.
 *
 * Threads: open, lease, poll and close belong to one thread; set and result may be called by one
 * other thread (the control loop).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_CONTROL_ACTUATOR_H
#define LULL_GOVERNOR_CONTROL_ACTUATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/switch.h"
#include "device/device.h"

struct lull_actuator;

/* Connects to lulld at its socket under runtime_dir. Errors: -ENOENT/-ECONNREFUSED no daemon. */
int lull_actuator_open_daemon(const char *runtime_dir, struct lull_actuator **actuator_out,
                              struct lull_error *err);

/* Connects likewise without waiting for the greeting, because a hanging daemon may never send it.
 * Only greet and close may follow. */
int lull_actuator_connect(const char *runtime_dir, struct lull_actuator **actuator_out,
                          struct lull_error *err);

/* Checks whether the daemon has sent its greeting. After that the actuator is open. Errors: -EAGAIN
 * not yet; others: it never will; close the actuator. */
int lull_actuator_greet(struct lull_actuator *actuator, struct lull_error *err);

/*
 * Drives the devices of this process: journal, one writer thread, read-back and restore as in the
 * daemon. Devices must live until close. Without root, where the driver permits users to request
 * power profiles, it does no more than that. Errors: -EPERM not permitted; -EBUSY a daemon or
 * another job does.
 */
int lull_actuator_open_local(struct lull_devices *devices, const char *runtime_dir,
                             struct lull_actuator **actuator_out, struct lull_error *err);

/* Raises and restores every leased GPU, then frees. NULL is allowed. Error: -EINPROGRESS the driver
 * has not returned in time; do not close the devices in this process. */
int lull_actuator_close(struct lull_actuator *actuator);

/*
 * Leases one GPU by UUID; *slot_out numbers it for the calls below. The lease is renewed by
 * lull_actuator_poll. Errors: -ENODEV; -EBUSY leased by another client; -EACCES not permitted for
 * this user; -EINVAL band; LULL_E_UNSUPPORTED MIG is on.
 */
int lull_actuator_lease(struct lull_actuator *actuator, const char *uuid,
                        const struct lull_band *band, uint32_t *slot_out, struct lull_error *err);

/*
 * Requests an SM clock: sm_mhz 0 is the reference point (raising; never delayed, never dropped).
 * A lowering still unserved at deadline_ns is dropped; one that has been applied is undone by the
 * writer at valid_until_ns unless renewed. Returns the request's sequence number (> 0).
 */
uint64_t lull_actuator_set(struct lull_actuator *actuator, uint32_t slot, uint32_t sm_mhz,
                           int64_t deadline_ns, int64_t valid_until_ns);

/*
 * Requests a power limit until the lease ends, never above the one from before the lease; 0: that
 * one. The lease must have a range of limits. One thread calls this, not necessarily the one that
 * sets clocks.
 */
uint64_t lull_actuator_set_limit(struct lull_actuator *actuator, uint32_t slot, uint32_t limit_mw);

/* Returns the profiles that the lease of this slot may request; 0: none. */
uint32_t lull_actuator_profiles(const struct lull_actuator *actuator, uint32_t slot);

/*
 * Requests power profiles (enum lull_power_profile) until the lease ends, besides those that other
 * programs request; 0: none. What the GPU lacks or the policy refuses is answered by -EACCES. An
 * older lulld never answers. The thread that requests limits calls this.
 */
uint64_t lull_actuator_set_profiles(struct lull_actuator *actuator, uint32_t slot,
                                    uint32_t profiles);

/*
 * Requests power smoothing until the lease ends; a floor of 0: none. What the GPU lacks or the
 * policy refuses is answered by -EACCES, smoothing of another program by -EBUSY. An older lulld
 * never answers. The thread that requests limits calls this.
 */
uint64_t lull_actuator_set_smoothing(struct lull_actuator *actuator, uint32_t slot,
                                     const struct lull_smoothing *smoothing);

/* Copies the result of the latest request for a power limit. Only the thread that requests limits
 * calls it. */
void lull_actuator_limit_result(const struct lull_actuator *actuator, uint32_t slot,
                                struct lull_limit_result *result_out);

/* Copies the result of the latest clock request of a GPU. */
void lull_actuator_result(const struct lull_actuator *actuator, uint32_t slot,
                          struct lull_switch_result *result_out);

/*
 * Keeps the leases alive; call it many times a second. It checks that the daemon is alive and has
 * revoked no lease. It renews the leases at the interval that lulld requested when the connection
 * was opened. Errors: -EPIPE the daemon is gone (the job continues at whatever it restores);
 * LULL_E_STALE a lease was revoked.
 */
int lull_actuator_poll(struct lull_actuator *actuator, struct lull_error *err);

#endif
