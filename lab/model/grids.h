/*
 * From the sets of a table of measured kernels to grids, for the commands of models.
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_MODEL_GRIDS_H
#define LULL_LAB_MODEL_GRIDS_H

#include "lab/trace/kernel_table.h"

/* Makes the grid of a set. A set in which kernels share no points has none, which is not an error:
 * then *has_grid_out is false. Errors: LULL_E_FORMAT too many points or kernels; -ENOMEM. */
int lull_model_make_grid(const char *path, const struct lull_kernel_set *set, bool *has_grid_out,
                         struct lull_grid *grid_out, struct lull_error *err);

/* Prints on standard error how many rows of the table had no clocks, if any. */
void lull_model_report_unclocked(const char *path, const struct lull_kernel_table *table);

#endif
