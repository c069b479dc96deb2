/*
 * The GPU that a sweep measures: its operating point, which is set through lulld or in this
 * process, and the driver's readings. Even if this process crashes, the lease ends and everything
 * is restored.
 *
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_RIG_H
#define LULL_LAB_SWEEP_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "lab/sweep/time.h"
#include "lab/core/sweep_point.h"
#include "device/device.h"

struct lull_sweep_setting {
    uint32_t sm_mhz;    /* the highest of the GPU's clocks: it is not held down */
    uint32_t mem_mhz;   /* the one in force: memory clocks are not set */
    uint32_t limit_mw;  /* 0: the GPU has no power limit */
    bool has_own_limit; /* the limit is below the initial one */
};

struct lull_sweep_rig; /* opaque */

/*
 * Finds GPU `gpu`, without a lease; borrows time until the close. Errors: LULL_E_NO_DEVICE;
 * LULL_E_UNSUPPORTED it has no clocks to choose from; those of lull_devices_open.
 */
int lull_sweep_rig_open(uint32_t gpu, const struct lull_sweep_time *time,
                        struct lull_sweep_rig **rig_out, struct lull_error *err);

/* Restores what was set and frees. NULL is allowed. */
void lull_sweep_rig_close(struct lull_sweep_rig *rig);

const struct lull_device_info *lull_sweep_rig_info(const struct lull_sweep_rig *rig);
const char *lull_sweep_rig_driver(const struct lull_sweep_rig *rig);

/* The initial memory clock and power limit; 0: unknown. */
uint32_t lull_sweep_rig_mem_mhz(const struct lull_sweep_rig *rig);
uint32_t lull_sweep_rig_limit_mw(const struct lull_sweep_rig *rig);

/* Returns whether a process computes on the GPU, with one of these processes (0: none is known). */
bool lull_sweep_rig_is_busy(struct lull_sweep_rig *rig, pid_t *process_out);

/*
 * Takes the lease, with power limits down to the least of the GPU where has_limits. Errors: -EBUSY
 * another program has it, or has locked the clocks; those of the actuator.
 */
int lull_sweep_rig_lease(struct lull_sweep_rig *rig, const char *runtime_dir, bool no_daemon,
                         bool has_limits, struct lull_error *err);

/* Keeps the lease and the setting alive; call it many times a second. Errors: those of
 * lull_actuator_poll. */
int lull_sweep_rig_poll(struct lull_sweep_rig *rig, struct lull_error *err);

/* Requests a setting. Returns when the driver has accepted it and,
 * on a busy GPU, its clock has settled or is known never to settle. Errors: -ETIMEDOUT; the
 * driver's; those of poll. */
int lull_sweep_rig_set(struct lull_sweep_rig *rig, const struct lull_sweep_setting *setting,
                       bool is_busy, struct lull_error *err);

/* Reads the GPU. With with_processes its processes are listed, and
 * count as others unless they are this process or its descendants. */
void lull_sweep_rig_look(struct lull_sweep_rig *rig, bool with_processes,
                         struct lull_sweep_look *look_out);

/* Reads the energy counter, J; NAN: it has none. */
double lull_sweep_rig_count(struct lull_sweep_rig *rig);

/* Polls the counter until it is refreshed while this process is on time, patience_s at most; else
 * the refresh that was seen with the least delay counts. */
void lull_sweep_rig_find_edge(struct lull_sweep_rig *rig, double patience_s,
                              struct lull_sweep_edge *edge_out);

#endif
