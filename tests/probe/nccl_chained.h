/*
 * The observations of the chained test plugin; one per process. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_PROBE_NCCL_CHAINED_H
#define LULL_TESTS_PROBE_NCCL_CHAINED_H

#include <stdint.h>

struct chained_state {
    uint32_t inits;
    uint32_t starts;
    uint32_t stops;
    uint32_t records;
    uint32_t finalizes;
    uint32_t parents; /* that were its own */
    uint32_t errors;
    uint64_t types; /* bits of all types it was started for */
};

extern struct chained_state chained_state;

#endif
