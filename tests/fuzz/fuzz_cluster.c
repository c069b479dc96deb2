/*
 * Job traces of clusters, and their pools: refused with a message, or rows in order and in their
 * ranges.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "../text_file.h"
#include "fuzz.h"

#include "cluster/trace/job_table.h"
#include "cluster/trace/cluster_tables.h"

static void check_table(const struct lull_job_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct lull_job_table_row *row = &table->rows[i];

        require(row->gpus > 0 && row->submit_ns >= 0 && row->duration_ns > 0);
        require(row->deadline_ns >= row->submit_ns);
        require(i == 0 || row->submit_ns >= table->rows[i - 1].submit_ns);
        require(lull_job_table_name(table, row->vc) != NULL);
        require(row->workload == UINT32_MAX ||
                lull_job_table_name(table, row->workload)[0] != '\0');
        require(row->value_j >= 0.0 && row->value_j <= LULL_JOB_TABLE_MAX_VALUE_J);
        require(row->weight > 0.0 && row->preemptible >= -1 && row->preemptible <= 1);
        require((row->min_gpus == 0) == (row->max_gpus == 0));
        require(row->max_gpus == 0 || (row->min_gpus <= row->gpus && row->max_gpus >= row->gpus));
        require(row->gpu_milli > 0 && row->gpu_milli <= 1000);
        require((size_t)row->first_step + row->step_count <= table->step_count);
        for (uint32_t k = 0; k < row->step_count; k++)
            require(table->steps[row->first_step + k].deadline_ns >= row->deadline_ns);
    }
}

static void read_jobs(const char *path)
{
    struct lull_job_table table;
    struct lull_error err = {0};

    if (lull_job_table_read(path, &table, &err) < 0) {
        require(err.text[0] != '\0' && table.rows == NULL && table.steps == NULL);
        return;
    }
    check_table(&table);
    lull_job_table_fini(&table);
}

static void read_pools(const char *path)
{
    struct lull_cluster_pools_table table;
    struct lull_error err = {0};

    if (lull_cluster_pools_read(path, &table, &err) < 0) {
        require(err.text[0] != '\0' && table.rows == NULL);
        return;
    }
    require(table.count > 0 && table.nodes >= table.count);
    lull_cluster_pools_fini(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const char *) = {read_jobs, read_pools};

    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
        readers[i](text_file(data, size));
    }
    return 0;
}
