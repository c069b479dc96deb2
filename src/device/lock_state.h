/*
 * Infers from a reading whether a GPU's clock is locked. No driver reports the locked range, so a
 * lock is seen only by its effect: a busy GPU runs below its highest clock and names no other
 * reason for it. An idle GPU shows nothing.
 *
 * Threads: any; nothing here is kept. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_LOCK_STATE_H
#define LULL_DEVICE_LOCK_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "device/journal.h"

enum lull_lock_state {
    LULL_LOCK_UNKNOWN, /* idle, limited by another cause (power, heat, application clocks), or no
                          readings */
    LULL_LOCK_FREE,    /* no lock of Lull's is in force */
    LULL_LOCK_OURS,    /* at a clock that Lull has locked */
    LULL_LOCK_FOREIGN, /* below the highest, at no clock of Lull's, without a reported reason */
};

/* The time after a write in which readings are not judged: a clock needs time to follow, and a
 * reading is up to 20 ms old. Twice the slowest published settling (48 ms). */
#define LULL_LOCK_STATE_SETTLING_NS INT64_C(100000000)

/* The fields that lull_lock_state_of_clock() needs, and those of lull_lock_state_seems_idle(). */
enum {
    LULL_LOCK_STATE_READINGS = LULL_READING_SM_CLOCK | LULL_READING_REASONS,
    LULL_LOCK_STATE_IDLE_READINGS = LULL_READING_REASONS | LULL_READING_UTILIZATION,
};

/* Judges a reading. A single FOREIGN may be a clock that is rising from idle; require several. */
enum lull_lock_state lull_lock_state_of_clock(const struct lull_device_info *info,
                                              const struct lull_device_reading *reading,
                                              const struct lull_journal_written *written);

/* Returns whether the reading says that the GPU is idle. */
bool lull_lock_state_is_idle(const struct lull_device_reading *reading);

/* The same for drivers that report no reasons: a GPU without utilization is idle. This suffices for
 * a message, not for a decision, because utilization is a mean over the past. */
bool lull_lock_state_seems_idle(const struct lull_device_reading *reading);

/* Returns whether a clock is the highest, within the accuracy of a reading. */
bool lull_lock_state_is_high(const struct lull_device_info *info, uint32_t sm_mhz);

/* Returns the clock one step above; readings may be off by that much. */
uint32_t lull_lock_state_step_above(const struct lull_device_info *info, uint32_t sm_mhz);

#endif
