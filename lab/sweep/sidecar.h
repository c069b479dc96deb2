/*
 * The contents of a sweep's sidecar (docs/research/dataset.md) that are known when the sweep
 * begins. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_SIDECAR_H
#define LULL_LAB_SWEEP_SIDECAR_H

#include <jansson.h>

#include "lab/sweep/load.h"
#include "lab/sweep/run.h"
#include "lab/trace/sweep_table.h"

/* The hash of a GPU's UUID, so that rows of one unit can be
 * recognised without publishing the UUID. */
void lull_sweep_hash_unit(const char *uuid, char hash_out[LULL_SWEEP_HASH]);

/* Makes the sidecar of a sweep that begins. NULL: out of memory. */
json_t *lull_sweep_sidecar_make(const struct lull_sweep_requests *requests,
                                const struct lull_sweep_rig *rig,
                                const struct lull_sweep_load *load,
                                const struct lull_sweep_points *points, bool is_emulated);

/* Returns whether two sidecars are of the same sweep. Errors: -EINVAL, with the part that differs.
 */
int lull_sweep_sidecar_compare(const json_t *before, const json_t *now, const char *path,
                               struct lull_error *err);

/* A number, or null where it is NAN. */
json_t *lull_sweep_number(double number);

#endif
