/*
 * The reaction to an error of a setting function in device.h: one table for all vendors, whose
 * codes library.h has already translated into these errors.
 *
 * Threads: any; nothing here is kept. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_FAULT_H
#define LULL_DEVICE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum lull_device_fault {
    LULL_FAULT_NONE,
    LULL_FAULT_GONE,        /* the driver or the GPU: tried again after 1, 2, 4 to 60 s */
    LULL_FAULT_UNSUPPORTED, /* not tried again in this lease */
    LULL_FAULT_NOT_ALLOWED, /* the same */
    LULL_FAULT_ALARM,       /* power or infoROM: the GPU is not lowered in this lease */
    LULL_FAULT_PASSING,     /* tried again at most LULL_FAULT_RETRIES times, after growing pauses */
    LULL_FAULT_OWN,         /* Lull's own mistake: refused */
};

enum { LULL_FAULT_RETRIES = 3 };

/* Returns the fault of 0 or a negative code. */
enum lull_device_fault lull_fault_of(int error);

/* Returns whether the same call may succeed later. */
bool lull_fault_may_pass(enum lull_device_fault fault);

/* Returns whether no further lowering of a lease is to be tried after this fault. */
bool lull_fault_ends_control(enum lull_device_fault fault);

/* Returns whether a call that failed with this error may have changed the device. A refused call
 * has changed nothing; a call that failed otherwise may have taken effect. */
bool lull_fault_may_have_had_effect(enum lull_device_fault fault);

/* Returns how long to wait before the next attempt, after this many failures in a row (from 1). */
int64_t lull_fault_pause_ns(enum lull_device_fault fault, uint32_t failures);

#endif
