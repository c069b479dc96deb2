/*
 * What can be made to go wrong on one emulated GPU. Textual form, for the environment and the
 * command line: [GPU:]NAME[=VALUE[xCOUNT][@AFTER]][,...], e.g. `set_code=10x1,0:hang_ms=3000@50`;
 * without GPU it means every GPU, without COUNT for ever, without AFTER from the beginning.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_FAULT_H
#define LULL_EMULATOR_FAULT_H

#include <stdint.h>

#include "base/error.h"

enum lull_fault_kind {
    LULL_FAULT_SET_CODE,  /* set_code: set calls return this code of the vendor's and do nothing */
    LULL_FAULT_HANG_MS,   /* hang_ms: set calls take so much longer */
    LULL_FAULT_NO_EFFECT, /* no_effect: set calls succeed and do nothing */
    LULL_FAULT_SETTLE_FACTOR, /* settle_factor: clocks settle so many times later */
    LULL_FAULT_NO_PERMISSION, /* no_permission: set calls are refused, even to root */
    LULL_FAULT_NO_ENERGY,     /* no_energy: the energy counter is not supported */
    LULL_FAULT_GET_CODE,      /* get_code: readings return this code */
    LULL_FAULT_ANY_USER,      /* any_user: set calls are allowed without root */
    LULL_FAULT_KINDS,
};

enum { LULL_FAULT_ALWAYS = -1 };

struct lull_fault {
    double value;
    int32_t remaining; /* how often it still happens; LULL_FAULT_ALWAYS */
    int32_t spared;    /* so often it does not happen before */
};

/* One entry of the textual form. gpu -1: every GPU. */
struct lull_fault_entry {
    int32_t gpu;
    enum lull_fault_kind kind;
    struct lull_fault fault;
};

/*
 * Parses the entry at *text and moves *text behind it and its comma; at the end **text is 0.
 * Errors: -EINVAL with the entry in the text of err.
 */
int lull_fault_parse_next(const char **text, struct lull_fault_entry *entry_out,
                          struct lull_error *err);

#endif
