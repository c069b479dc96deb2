/*
 * Putting GPUs back to what the journal says: at the start of lulld, by `lulld --restore`, by
 * `lull restore`, and for `lull run --no-daemon`.
 *
 * Each control of each GPU is restored even if another one fails, and doing it again does no harm.
 * Nothing is written over: a power limit, or the clock of a busy GPU, that is neither what it was
 * before nor what Lull has written last was set by another program, and stays. On an idle GPU a
 * lock of another program cannot be seen, and is lost with Lull's. A record goes away only when the
 * device is seen to agree. An idle GPU shows no clock, so its record is deferred (journal.h) until
 * it is busy: the device writer looks (writer.h), and so does the next restore.
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

/* GPUs by what has become of them. */
struct lull_restore_report {
    uint32_t restored;    /* restored and seen, and their record removed */
    uint32_t unconfirmed; /* reset; will be verified when the GPU is next busy */
    uint32_t idle;        /* of these, because they are idle... */
    uint32_t untold;      /* ...or for a reason that the driver does not give; something else holds
                           * the others */
    uint32_t foreign;     /* something that another program has set was found, and stays */
    uint32_t dropped;     /* records of an earlier boot, which the reboot has undone */
    uint32_t failed; /* their record stays, for the next start or `lull restore` to try again */
};

/*
 * Restores every GPU with a record; logs one line per GPU. Blocks up to 500 ms for the read-back of
 * busy GPUs, and up to 150 ms for each whose clock another program seems to hold. Errors: the first
 * failure's code and text; the others are tried. -EBUSY another process drives a GPU, and nothing
 * was touched. -ENODATA a record is damaged, and the power limit is not the default.
 */
int lull_restore_all(struct lull_devices *devices, struct lull_journal *journal,
                     struct lull_restore_report *report_out, struct lull_error *err);

/*
 * As lull_restore_all, but restores the driver's clocks and the default power limit on every GPU of
 * devices, whatever the journal says and whichever program has set them. For journals that are lost
 * or damaged.
 */
int lull_restore_forced(struct lull_devices *devices, struct lull_journal *journal,
                        struct lull_restore_report *report_out, struct lull_error *err);

#endif
