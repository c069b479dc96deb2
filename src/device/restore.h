/*
 * Putting GPUs back to what the journal says: at the start of lulld, by `lulld --restore`, by
 * `lull restore`, and for `lull run --no-daemon`.
 *
 * Each control of each GPU is put back even if another one fails, and doing it again does no harm:
 * a record goes away only when the device agrees. Threads: one, and nobody else may write the GPUs
 * meanwhile.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_RESTORE_H
#define LULL_DEVICE_RESTORE_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "device/journal.h"

struct lull_restore_report {
    uint32_t restored; /* GPUs that were put back and read back, and whose record was removed */
    uint32_t dropped;  /* records of an earlier boot, which the reboot has undone */
    uint32_t
        failed; /* GPUs whose record stays, for the next start or `lull restore` to try again */
};

/*
 * Restores every GPU with a record; logs one line per GPU that was restored or failed. Blocks up
 * to 500 ms for the read-back. Errors: the first failure's code and text; the others are tried.
 */
int lull_restore_all(struct lull_devices *devices, struct lull_journal *journal,
                     struct lull_restore_report *report_out, struct lull_error *err);

/*
 * Whether, by this reading, no lock is left on the clock. Locks have no reason bit of their own, so
 * a busy GPU under its highest clock must name something else that holds it, or have moved from
 * before_mhz (0: unknown).
 */
bool lull_restore_is_free(const struct lull_device_info *info,
                          const struct lull_device_reading *reading, uint32_t before_mhz);

#endif
