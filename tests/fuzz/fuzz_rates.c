/*
 * Rates of kinds of jobs: refused with a message, or rows in order and found again.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "../text_file.h"
#include "fuzz.h"

#include <string.h>

#include "cluster/trace/job_rates.h"

static void check_row(const struct lull_job_rates_table *table,
                      const struct lull_job_rates_row *row)
{
    struct lull_job_rates rates;

    require(row->gpus > 0 && row->rate >= 0.0);
    lull_job_rates_of(table, row->gpu, row->job_type, row->is_consolidated, &rates);
    require(rates.count <= LULL_JOB_MAX_RATES);
    for (uint32_t i = 0; i < rates.count; i++) {
        require(rates.rows[i].rate > 0.0);
        require(i == 0 || rates.rows[i].gpus > rates.rows[i - 1].gpus);
    }
    /* A lookup ignores the part of a requested name behind a '-', so it does not find a name of the
     * table that has one. */
    if (strchr(row->gpu, '-') == NULL) {
        require(lull_job_rates_has_gpu(table, row->gpu));
        require(rates.count > 0 || row->rate <= 0.0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_job_rates_table table;
    struct lull_error err = {0};

    if (lull_job_rates_read(text_file(data, size), &table, &err) < 0) {
        require(err.text[0] != '\0' && table.rows == NULL);
    } else {
        for (size_t i = 0; i < table.count; i++)
            check_row(&table, &table.rows[i]);
        lull_job_rates_fini(&table);
    }
    return 0;
}
