/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/model/grids.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lab/model/report.h"

/*
 * The clocks against which savings are counted, where these are not the highest that were measured:
 * the bases of published measurements (NV-DVFS-Benchmark).
 */
static const struct {
    const char *gpu;
    double sm_mhz;
    double mem_mhz;
} bases[] = {{"gtx1080ti", 1800.0, 5000.0}};

static int grids_refuse(const char *path, const struct lull_kernel_set *set, int most,
                        const char *what, struct lull_error *err)
{
    return lull_error_set(err, LULL_E_FORMAT,
                          "%s: %s has more than %d %s; divide it by the column set", path,
                          lull_model_set_name(set->gpu, set->set).text, most, what);
}

int lull_model_make_grid(const char *path, const struct lull_kernel_set *set, bool *has_grid_out,
                         struct lull_grid *grid_out, struct lull_error *err)
{
    double sm_mhz = 0.0, mem_mhz = 0.0;

    *has_grid_out = false;
    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++)
        if (strcmp(set->gpu, bases[i].gpu) == 0) {
            sm_mhz = bases[i].sm_mhz;
            mem_mhz = bases[i].mem_mhz;
        }
    switch (lull_grid_make(set->rows, set->row_count, sm_mhz, mem_mhz, grid_out)) {
    case LULL_GRID_MADE:
        *has_grid_out = true;
        return 0;
    case LULL_GRID_NO_POINTS:
        return 0;
    case LULL_GRID_TOO_MANY_POINTS:
        return grids_refuse(path, set, LULL_GRID_POINTS, "operating points", err);
    case LULL_GRID_TOO_MANY_KERNELS:
        return grids_refuse(path, set, LULL_GRID_KERNELS, "kernels", err);
    case LULL_GRID_NO_MEMORY:
        break;
    }
    return lull_error_set(err, -ENOMEM, "%s: not enough memory for its kernels", path);
}

void lull_model_report_unclocked(const char *path, const struct lull_kernel_table *table)
{
    if (table->unclocked > 0)
        fprintf(stderr, "%s: %zu row%s left out: a clock is blank\n", path, table->unclocked,
                table->unclocked == 1 ? " is" : "s are");
}
