/*
 * Datasets of sweeps: refused with a message, or rows that are written as they were read, whose
 * curves of kernels are in order. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "../text_file.h"
#include "fuzz.h"
#include "lab/trace/sweep_table.h"

static void check_row(const struct lull_sweep_row *row)
{
    char line[LULL_SWEEP_LINE];
    struct lull_sweep_row named = *row;

    require(row->sm_set_mhz >= 1.0 && row->sm_set_mhz <= 1e6);
    require(row->result.time_ms > 0.0 && row->result.launches > 0);
    require(isnan(row->result.power_w) || row->result.power_w > 0.0);
    require(row->result.marks < 1u << LULL_SWEEP_MARKS);
    lull_sweep_name(row->kernel, named.kernel);
    require(strlen(named.kernel) <= strlen(row->kernel));
    require(lull_sweep_row_write(row, line) == strlen(line));
}

/* A written table reads back as the same. */
static void check_again(const struct lull_sweep_table *table)
{
    struct lull_sweep_table again;
    char line[LULL_SWEEP_LINE], same[LULL_SWEEP_LINE];
    char text[2 * LULL_SWEEP_LINE];

    lull_sweep_row_write(&table->rows[0], line);
    const int length = snprintf(text, sizeof(text), "%s\n%s", lull_sweep_table_header(), line);
    require(lull_sweep_table_read(text_file((const uint8_t *)text, (size_t)length), &again, NULL) ==
            0);
    require(again.count == 1);
    lull_sweep_row_write(&again.rows[0], same);
    require(strcmp(line, same) == 0);
    lull_sweep_table_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_sweep_table table;
    struct lull_error err = {0};

    if (lull_sweep_table_read(text_file(data, size), &table, &err) < 0) {
        require(err.text[0] != '\0' && table.rows == NULL);
        return 0;
    }
    for (size_t i = 0; i < table.count; i++)
        check_row(&table.rows[i]);
    if (table.count > 0)
        check_again(&table);
    lull_sweep_table_fini(&table);
    return 0;
}
