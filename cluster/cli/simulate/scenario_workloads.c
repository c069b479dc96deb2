/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/scenario_workloads.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prefixes the error with the line of the table that names the workload. */
static int scenario_workload_prefix_error(const char *path, const struct lull_job_table_row *row,
                                          const struct lull_error *why, struct lull_error *err)
{
    return lull_error_set(err, why->code, "%s: line %zu, workload: %s", path, row->line, why->text);
}

/* The path of a file whose name begins in the folder of the table. null: out of memory. */
static char *scenario_workload_locate(const char *path, const char *name)
{
    const char *slash = name[0] == '/' ? NULL : strrchr(path, '/');
    const size_t folder = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    const size_t size = folder + strlen(name) + 1;
    char *const located = malloc(size);

    if (located != NULL)
        snprintf(located, size, "%.*s%s", (int)folder, path, name);
    return located;
}

static int scenario_workload_read_file(const char *path, const char *name,
                                       struct lull_job_workload **read_out, struct lull_error *err)
{
    char *located;
    int rc;

    if (strcmp(name, "-") == 0)
        return lull_error_set(err, -EINVAL, "it must be a file, not standard input");
    located = scenario_workload_locate(path, name);
    if (located == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the path of a workload");
    rc = lull_job_workload_read(located, read_out, err);
    free(located);
    return rc;
}

/* Returns the number of the file of this name, which it reads when it is new. */
static int64_t find_file(struct lull_scenario_workloads *workloads, const char *path,
                         const struct lull_job_table *table, uint32_t name, struct lull_error *err)
{
    struct lull_scenario_workload *files;
    size_t i = 0;
    int rc;

    while (i < workloads->file_count && workloads->files[i].name != name)
        i++;
    if (i < workloads->file_count)
        return (int64_t)i;
    files = realloc(workloads->files, (i + 1) * sizeof(*files));
    if (files == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu workloads", i + 1);
    workloads->files = files;
    files[i].name = name;
    rc = scenario_workload_read_file(path, lull_job_table_name(table, name), &files[i].read, err);
    if (rc < 0)
        return rc;
    workloads->file_count++;
    return (int64_t)i;
}

/* Returns the number of the file as jobs of the setting run it, which it makes when it is new. */
static int64_t find_recorded(struct lull_scenario_workloads *workloads, uint32_t file,
                             const struct lull_job_setting *setting, struct lull_error *err)
{
    const struct lull_job_workload *read = workloads->files[file].read;
    const uint32_t gpus = lull_job_workload_needs_gpus(read) ? setting->gpus : 0;
    struct lull_scenario_recorded *recorded;
    size_t i = 0;
    int rc;

    for (; i < workloads->recorded_count; i++)
        if (workloads->recorded[i].file == file && workloads->recorded[i].gpus == gpus &&
            workloads->recorded[i].job_class == setting->job_class)
            return (int64_t)i;
    recorded = realloc(workloads->recorded, (i + 1) * sizeof(*recorded));
    if (recorded == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu workloads", i + 1);
    workloads->recorded = recorded;
    recorded[i] = (struct lull_scenario_recorded){file, setting->job_class, gpus, {0}};
    rc = lull_job_workload_make(read, setting, &recorded[i].made, err);
    if (rc < 0)
        return rc;
    workloads->recorded_count++;
    return (int64_t)i;
}

int lull_scenario_workloads_add(struct lull_scenario_workloads *workloads, const char *path,
                                const struct lull_job_table *table, size_t row,
                                const struct lull_job_setting *setting, struct lull_error *err)
{
    struct lull_error why = {0};
    int64_t found = find_file(workloads, path, table, table->rows[row].workload, &why);

    if (found >= 0)
        found = find_recorded(workloads, (uint32_t)found, setting, &why);
    if (found < 0)
        return scenario_workload_prefix_error(path, &table->rows[row], &why, err);
    workloads->of_job[row] = (uint32_t)found;
    workloads->jobs++;
    return 0;
}

void lull_scenario_workloads_fini(struct lull_scenario_workloads *workloads)
{
    for (size_t i = 0; i < workloads->file_count; i++)
        lull_job_workload_destroy(workloads->files[i].read);
    free(workloads->files);
    free(workloads->recorded);
    free(workloads->of_job);
    *workloads = (struct lull_scenario_workloads){0};
}

int lull_scenario_workloads_refuse(const char *path, const struct lull_job_table *table,
                                   struct lull_error *err)
{
    struct lull_error why = {0};

    (void)lull_error_set(&why, -EINVAL, "missing --gpu-types MODEL: the GPUs on which it runs");
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].workload != UINT32_MAX)
            return scenario_workload_prefix_error(path, &table->rows[i], &why, err);
    return 0;
}

const struct lull_scenario_recorded *
lull_scenario_workloads_of(const struct lull_scenario_workloads *all, size_t row)
{
    if (all->of_job[row] == UINT32_MAX)
        return NULL;
    return &all->recorded[all->of_job[row]];
}
