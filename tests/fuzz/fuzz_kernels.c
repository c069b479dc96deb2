/*
 * Tables of measured kernels: refused with a message, or rows in range that a grid is made of.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "../text_file.h"
#include "fuzz.h"
#include "lab/trace/kernel_table.h"

static void check_row(const struct lull_grid_row *row)
{
    require(row->sm_mhz >= 1.0 && row->sm_mhz <= 1e6);
    require(row->mem_mhz >= 1.0 && row->mem_mhz <= 1e6);
    require(row->time_ms > 0.0 && row->time_ms <= 1e9);
    require(isnan(row->power_w) || (row->power_w > 0.0 && row->power_w <= 1e6));
}

static void check_grid(const struct lull_kernel_set *set)
{
    uint32_t probes[LULL_GRID_PROBES];
    struct lull_grid grid;
    uint32_t count;

    if (lull_grid_make(set->rows, set->row_count, 0.0, 0.0, &grid) != LULL_GRID_MADE) {
        require(grid.points == NULL && grid.kernel_count == 0);
        return;
    }
    require(grid.point_count >= 2 && grid.base < grid.point_count);
    require(grid.kernel_count > 0 && grid.powered_count <= grid.kernel_count);
    count = lull_grid_probe_middle(&grid, probes);
    require(count >= 1 && count <= LULL_GRID_PROBES);
    for (uint32_t i = 0; i < count; i++)
        require(probes[i] < grid.point_count && (i == 0 || probes[i] > probes[i - 1]));
    lull_grid_fini(&grid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_kernel_table table;
    struct lull_error err = {0};

    if (lull_kernel_table_read(text_file(data, size), &table, &err) < 0) {
        require(err.text[0] != '\0' && table.sets == NULL);
        return 0;
    }
    require(table.count > 0);
    for (size_t i = 0; i < table.count; i++) {
        require(table.sets[i].row_count > 0 && table.sets[i].gpu[0] != '\0');
        for (size_t r = 0; r < table.sets[i].row_count; r++)
            check_row(&table.sets[i].rows[r]);
        check_grid(&table.sets[i]);
    }
    lull_kernel_table_fini(&table);
    return 0;
}
