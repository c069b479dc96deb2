/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json_string.h"
#include "lab/sweep/files.h"
#include "lab/sweep/output.h"
#include "trace/string_set.h"

struct merging {
    struct lull_sweep_table *tables;
    uint32_t count;
    struct lull_string_set *lines; /* the ones that are written already */
    uint64_t rows;
    struct lull_error *err;
};

/* Writes the rows of all tables, each once: two rows are one if they are the same in every cell. */
static int sweep_merge_write_rows(const void *context, FILE *file)
{
    struct merging *const merging = *(struct merging *const *)context;

    fprintf(file, "%s\n", lull_sweep_table_header());
    for (uint32_t t = 0; t < merging->count; t++)
        for (size_t i = 0; i < merging->tables[t].count; i++) {
            char line[LULL_SWEEP_LINE];
            uint32_t number;

            lull_sweep_row_write(&merging->tables[t].rows[i], line);
            if (lull_string_set_add(merging->lines, line, &number, "merge", merging->err) < 0)
                return -ENOMEM;
            if (number < merging->rows)
                continue;
            merging->rows++;
            fputs(line, file);
        }
    return 0;
}

/* Adds the metadata of a dataset: its sidecar, or the sidecars from which it was merged. */
static void add_sidecar(json_t *sources, const char *path)
{
    char sidecar_path[PATH_MAX];
    char name[PATH_MAX];
    json_t *sidecar = NULL;
    struct lull_error err = {0};

    snprintf(name, sizeof(name), "%s", path);
    if (lull_sweep_sidecar_path(path, sidecar_path, &err) < 0 ||
        lull_sweep_sidecar_read(sidecar_path, &sidecar, &err) < 0)
        fprintf(stderr, "lull sweep: %s is merged without a sidecar: %s\n", path, err.text);
    if (json_object_get(sidecar, "merged") != NULL)
        json_array_extend(sources, json_object_get(sidecar, "merged"));
    else
        json_array_append_new(
            sources,
            json_pack("{s:o, s:O?}", "file", lull_json_string(basename(name)), "sidecar", sidecar));
    json_decref(sidecar);
}

static int sweep_merge_write_sidecar(const char *out, char *const *paths,
                                     const struct merging *merging, struct lull_error *err)
{
    char sidecar_path[PATH_MAX];
    json_t *const sources = json_array();
    json_t *sidecar;
    int result = lull_sweep_sidecar_path(out, sidecar_path, err);

    for (uint32_t i = 0; i < merging->count; i++)
        add_sidecar(sources, paths[i]);
    sidecar = json_pack("{s:s, s:s, s:I, s:o}", "schema", LULL_SWEEP_SCHEMA, "lull_version",
                        LULL_VERSION, "rows", (json_int_t)merging->rows, "merged", sources);
    if (result == 0)
        result = lull_sweep_sidecar_write(sidecar_path, sidecar, err);
    json_decref(sidecar);
    return result;
}

int lull_sweep_merge(const char *out, char *const *paths, uint32_t count, uint64_t *rows_out,
                     struct lull_error *err)
{
    struct merging merging = {.tables = calloc(count, sizeof(*merging.tables)),
                              .lines = lull_string_set_create(),
                              .err = err};
    const struct merging *const context = &merging;
    int result = 0;

    if (merging.tables == NULL || merging.lines == NULL)
        result = lull_error_set(err, -ENOMEM, "%s: not enough memory to merge", out);
    for (; merging.count < count && result == 0; merging.count++)
        result = lull_sweep_table_read(paths[merging.count], &merging.tables[merging.count], err);
    if (result == 0)
        result = lull_file_write_with(out, sweep_merge_write_rows, &context, err);
    if (result == 0)
        result = sweep_merge_write_sidecar(out, paths, &merging, err);
    *rows_out = merging.rows;
    for (uint32_t i = 0; i < merging.count; i++)
        lull_sweep_table_fini(&merging.tables[i]);
    lull_string_set_destroy(merging.lines);
    free(merging.tables);
    return result;
}
