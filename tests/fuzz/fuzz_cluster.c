/*
 * Job traces of clusters: refused with a message, or rows in order and in their ranges.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fuzz.h"

#include "trace/cluster_jobs.h"

static void check_table(const struct lull_cluster_jobs_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct lull_cluster_jobs_row *row = &table->rows[i];

        require(row->gpus > 0 && row->submit_ns >= 0 && row->duration_ns > 0);
        require(row->deadline_ns >= row->submit_ns);
        require(i == 0 || row->submit_ns >= table->rows[i - 1].submit_ns);
        require(lull_cluster_jobs_name(table, row->vc) != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_cluster_jobs_table table;
    struct lull_lines *lines;
    struct lull_error err = {0};

    if (lull_lines_open_memory("fuzz", (const char *)data, size, &lines, &err) < 0)
        return 0;
    if (lull_cluster_jobs_read_lines(lines, &table, &err) < 0) {
        require(err.text[0] != '\0' && table.rows == NULL);
    } else {
        check_table(&table);
        lull_cluster_jobs_fini(&table);
    }
    lull_lines_close(lines);
    return 0;
}
