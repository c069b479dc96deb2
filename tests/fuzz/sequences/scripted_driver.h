/*
 * Simulated GPUs behind the vendor table (device/vendor.h), which fail, hang, report wrong values
 * and disappear as scripted. Every call that changes a GPU is checked against the invariants.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_FUZZ_SCRIPTED_DRIVER_H
#define LULL_TESTS_FUZZ_SCRIPTED_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "device/journal.h"

enum {
    DRIVER_GPUS = 3,
    DRIVER_HIGHEST_MHZ = 1400,
    DRIVER_LOWEST_MHZ = 200,
    DRIVER_LIMIT_MW = 350000, /* before another one is set */
    DRIVER_LEAST_LIMIT_MW = 100000,
    DRIVER_MOST_LIMIT_MW = 400000,
    DRIVER_PROFILES =
        LULL_POWER_PROFILE_MAX_Q | LULL_POWER_PROFILE_COMPUTE | LULL_POWER_PROFILE_NETWORK,
    DRIVER_OTHERS_PROFILE = LULL_POWER_PROFILE_NETWORK, /* requested by another program */
};

/* Faults of a GPU. */
struct driver_faults {
    bool hangs_in_sets;
    bool hangs_in_reads;
    bool is_idle;        /* its clock says nothing */
    bool is_slow;        /* each call takes 30 ms of the leaping time */
    bool takes_effect;   /* calls that fail have done it nevertheless */
    uint32_t deaf_calls; /* this many calls succeed and change nothing */
    uint32_t fails;      /* this many calls fail... */
    int32_t status;      /* ...with this */
};

/* Called with what must never have happened; does not return. */
typedef void driver_violation(const char *what, uint32_t gpu, uint64_t value);

/* The journal is looked into before each change, and must stay open. */
void driver_init(struct lull_journal *journal, driver_violation *violation);

/* The UUID of a GPU; at least 32 bytes. */
void driver_uuid(uint32_t gpu, char *uuid_out, size_t size);

/* A sequence begins: no lease and no cap is left of those before. */
void driver_begin(void);

/* A GPU is about to be leased: all that its holder may set from now on. No power limits: 0. */
void driver_lease(uint32_t gpu, const struct lull_band *allowed);

/* A GPU is about to be capped; zeros lift the cap. */
void driver_cap(uint32_t gpu, const struct lull_cap *cap);

/* Find a GPU that has a cap, and one without a lease that is not as its cap says; -1: there is
 * none. */
int driver_find_capped(void);
int driver_find_uncapped(void);

/* Returns whether a GPU that works, leased or not, is above its cap. */
bool driver_is_above_cap(uint32_t gpu);

void driver_set_faults(uint32_t gpu, const struct driver_faults *faults);

/* Finds a GPU that is not as before the first lease; -1: there is none. */
int driver_find_touched(void);

/* Prints the last calls. It takes no lock, since the caller that finds a violation may hold it. */
void driver_tell(int fd);

/* Returns the number of calls that have changed something, or were meant to. */
uint64_t driver_calls(void);

#endif
