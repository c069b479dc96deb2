/*
 * Table of energy windows: open windows, windows that wait for readings after their edges, and one
 * row per name with the totals of the others.
 *
 * Bounded: if more than 4096 closed windows of one process wait, the oldest counts as unmeasured.
 *
 * Pure but for its memory; one thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_ENERGY_ENERGY_WINDOWS_H
#define LULL_GOVERNOR_ENERGY_ENERGY_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/energy/account.h"
#include "governor/energy/accounting.h"

struct lull_energy_windows; /* opaque */

/* A window that was opened. */
struct lull_energy_window {
    uint32_t slot;   /* of its process, below LULL_JOB_MAX_PROCESSES */
    uint64_t number; /* in its process */
    const char *name;
    int64_t begin_ns;
    uint32_t first_gpu; /* the window counts for gpu_count GPUs of the job from this one on; its
                           energy is unknown if there are none */
    uint32_t gpu_count;
};

/* Creates an empty table. NULL: out of memory. */
struct lull_energy_windows *lull_energy_windows_create(uint32_t gpu_count);
void lull_energy_windows_destroy(struct lull_energy_windows *windows);

/* Opens a window. A window that is still open in the same place of its process is lost. */
void lull_energy_windows_open(struct lull_energy_windows *windows,
                              const struct lull_energy_window *entry);

/* Closes the window of that slot and number. From now on it counts only for the GPUs that are also
 * among the entry's, because a process may have got its GPU after it opened the window. A window
 * that is not open counts as lost. */
void lull_energy_windows_close(struct lull_energy_windows *windows,
                               const struct lull_energy_window *entry, int64_t end_ns);

/* Looks up the window edges that the GPU's account has settled. With is_final it looks up those of
 * all closed windows, because no more readings will come. */
void lull_energy_windows_settle(struct lull_energy_windows *windows, uint32_t gpu,
                                const struct lull_energy_account *account, bool is_final);

/* Counts the windows that are still unknown as unmeasured, once every account has been settled
 * permanently. */
void lull_energy_windows_end(struct lull_energy_windows *windows);

uint32_t lull_energy_windows_row_count(const struct lull_energy_windows *windows);
const struct lull_accounting_row *lull_energy_windows_row(const struct lull_energy_windows *windows,
                                                          uint32_t row);
uint64_t lull_energy_windows_open_windows(const struct lull_energy_windows *windows);
uint64_t lull_energy_windows_lost(const struct lull_energy_windows *windows);

#endif
