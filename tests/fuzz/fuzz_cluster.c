/*
 * Job traces of clusters, and their pools: refused with a message, or rows in order and in their
 * ranges.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fuzz.h"

#include "trace/cluster_jobs.h"
#include "trace/cluster_pools.h"

static void check_table(const struct lull_cluster_jobs_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct lull_cluster_jobs_row *row = &table->rows[i];

        require(row->gpus > 0 && row->submit_ns >= 0 && row->duration_ns > 0);
        require(row->deadline_ns >= row->submit_ns);
        require(i == 0 || row->submit_ns >= table->rows[i - 1].submit_ns);
        require(lull_cluster_jobs_name(table, row->vc) != NULL);
        require(row->workload == UINT32_MAX ||
                lull_cluster_jobs_name(table, row->workload)[0] != '\0');
        require(row->value_j >= 0.0 && row->value_j <= LULL_CLUSTER_JOBS_MOST_VALUE_J);
        require(row->weight > 0.0 && row->preemptible >= -1 && row->preemptible <= 1);
        require((row->least_gpus == 0) == (row->most_gpus == 0));
        require(row->most_gpus == 0 ||
                (row->least_gpus <= row->gpus && row->most_gpus >= row->gpus));
        require(row->gpu_milli > 0 && row->gpu_milli <= 1000);
        require((size_t)row->first_step + row->step_count <= table->step_count);
        for (uint32_t k = 0; k < row->step_count; k++)
            require(table->steps[row->first_step + k].deadline_ns >= row->deadline_ns);
    }
}

static void read_jobs(struct lull_lines *lines)
{
    struct lull_cluster_jobs_table table;
    struct lull_error err = {0};

    if (lull_cluster_jobs_read_lines(lines, &table, &err) < 0) {
        require(err.text[0] != '\0' && table.rows == NULL && table.steps == NULL);
        return;
    }
    check_table(&table);
    lull_cluster_jobs_fini(&table);
}

static void read_pools(struct lull_lines *lines)
{
    struct lull_cluster_pools_table table;
    struct lull_error err = {0};

    if (lull_cluster_pools_read_lines(lines, &table, &err) < 0) {
        require(err.text[0] != '\0' && table.rows == NULL);
        return;
    }
    require(table.count > 0 && table.nodes >= table.count);
    lull_cluster_pools_fini(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(struct lull_lines *) = {read_jobs, read_pools};

    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
        struct lull_lines *lines = NULL;

        require(lull_lines_open_memory("fuzz", (const char *)data, size, &lines, NULL) == 0);
        readers[i](lines);
        lull_lines_close(lines);
    }
    return 0;
}
