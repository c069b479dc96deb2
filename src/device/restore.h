/*
 * Restores GPUs to the settings in the journal: at the start of lulld, by `lulld --restore`, by
 * `lull restore`, and for `lull run --no-daemon`. Each setting of each GPU is restored even if
 * another one fails, and repeating it is harmless. Settings of other programs are not overwritten:
 * a power limit, or the clock of a busy GPU, that is neither the original nor the last one written
 * by Lull stays. On an idle GPU a lock of another program cannot be seen, and is lost with Lull's.
 * A record is removed only when a reading confirms the restored setting. An idle GPU shows no
 * clock, so its record is deferred (journal.h) until it is busy. The device writer (writer.h) and
 * the next restore check for that.
 *
 * Threads: one, and no other process may write the GPUs meanwhile. Nothing is kept between calls,
 * and no daemon is needed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_RESTORE_H
#define LULL_DEVICE_RESTORE_H

#include <stdint.h>

#include "device/device.h"
#include "device/journal.h"

/* Numbers of GPUs by outcome. */
struct lull_restore_report {
    uint32_t restored;    /* restored and confirmed; their record was removed */
    uint32_t unconfirmed; /* reset; will be verified when the GPU is next busy */
    uint32_t idle;        /* of these, because they are idle... */
    uint32_t untold; /* ...or for a reason that the driver does not report; another cause limits the
                        others */
    uint32_t foreign; /* a setting of another program was found, and stays */
    uint32_t dropped; /* records of an earlier boot; the reboot has reset the GPUs */
    uint32_t failed;  /* their record stays, and the next start or `lull restore` tries again */
};

/*
 * Restores every GPU with a record; logs one line per GPU. Blocks up to 500 ms for the read-back of
 * busy GPUs, and up to 150 ms for each whose clock another program seems to limit. Errors: the
 * first failure's code and text; the others are tried. -EBUSY another process drives a GPU, and
 * nothing was touched. -ENODATA a record is damaged, and the power limit is not the default.
 */
int lull_restore_all(struct lull_devices *devices, struct lull_journal *journal,
                     struct lull_restore_report *report_out, struct lull_error *err);

/*
 * As lull_restore_all, but restores the driver's clocks and the default power limit on every GPU of
 * devices, regardless of the journal and of which program has set them. For lost or damaged
 * journals.
 */
int lull_restore_forced(struct lull_devices *devices, struct lull_journal *journal,
                        struct lull_restore_report *report_out, struct lull_error *err);

#endif
