/*
 * A table of operating points: refused with a message that names it, or with every number in its
 * range and clocks that fall. SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "fuzz.h"
#include "cluster/trace/point_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_point_table *table;
    struct lull_error err = {0};
    const struct lull_table_row *row;
    const struct lull_table_gpu *gpu;

    if (lull_point_table_parse((const char *)data, size, "points.json", &table, &err) < 0) {
        require(err.code < 0 && strncmp(err.text, "points.json", 11) == 0);
        return 0;
    }
    row = lull_point_table_find(table, "resnet", "h100");
    gpu = lull_point_table_gpu(table, "h100");
    require(gpu == NULL || (gpu->idle_w >= 0.0 && gpu->full_w >= gpu->idle_w));
    for (uint32_t i = 0; row != NULL && i < row->count; i++) {
        require(row->points[i].gpu_w > 0.0 && row->points[i].time_ratio >= 1.0);
        require(i == 0 || row->points[i].sm_mhz > 0);
        require(i < 2 || row->points[i].sm_mhz < row->points[i - 1].sm_mhz);
    }
    lull_point_table_destroy(table);
    return 0;
}
