/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/energy/report.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json_string.h"
#include "cli/shared/command.h"
#include "base/printable.h"
#include "governor/energy/energy_meter.h"

/* ---- rows --------------------------------------------------------------------------------- */

/* A log does not say how its sensor works. The slowest one is assumed: a mean over 1 s. */
static struct lull_energy_source energy_table_source_of(const struct lull_power_log_gpu *gpu)
{
    const struct lull_device_info unknown = {.architecture = 0};
    struct lull_energy_source source = lull_energy_source_of_gpu(&unknown);

    source.power_window_s = 1.0;
    source.highest_w = gpu->highest_w;
    return source;
}

static int energy_table_add_row(struct lull_energy_file *file, const struct lull_energy_row *row)
{
    if (lull_array_grow(&file->rows, file->count, sizeof(*file->rows)) < 0)
        return -ENOMEM;
    file->rows[file->count++] = *row;
    return 0;
}

/* Counters are read at both edges, each up to a refresh old, so that an edge is off by a uniform
 * share of it: a variance of T^2 / 12 times the square of the power. */
static double window_uncertainty_j(const struct lull_power_log_window *window)
{
    const double refresh_s = 0.1; /* core/energy/account.h */
    const double power_w = window->energy_j / window->seconds;

    return 2.0 * power_w * refresh_s * sqrt(2.0 / 12.0);
}

static struct lull_energy_row *energy_table_find_row(struct lull_energy_file *file, size_t gpu,
                                                     const char *name)
{
    for (size_t i = file->count; i-- > 0 && file->rows[i].gpu == gpu;)
        if (strcmp(file->rows[i].name, name) == 0)
            return &file->rows[i];
    return NULL;
}

/* Adds a window to the row of its name. Errors of windows are not in common: they add as squares.
 */
static int add_window(struct lull_energy_file *file, size_t gpu,
                      const struct lull_power_log_window *window)
{
    const struct lull_energy_row first = {.gpu = gpu, .name = window->name};
    struct lull_energy_row *row = energy_table_find_row(file, gpu, window->name);

    if (row == NULL) {
        if (energy_table_add_row(file, &first) < 0)
            return -ENOMEM;
        row = &file->rows[file->count - 1];
        row->energy.has_counter = true;
    }
    row->count++;
    row->energy.joules += window->energy_j;
    row->energy.covered_s += window->seconds;
    row->energy.uncertainty_j = hypot(row->energy.uncertainty_j, window_uncertainty_j(window));
    return 0;
}

static int integrate_gpu(struct lull_energy_file *file, size_t gpu, int64_t from_ns, int64_t to_ns)
{
    const struct lull_power_log_gpu *const logged = &file->log.gpus[gpu];
    const struct lull_energy_source source = energy_table_source_of(logged);
    struct lull_energy_row row = {.gpu = gpu};
    const int rc =
        lull_log_energy(&source, logged->readings, logged->count, from_ns, to_ns, &row.energy);

    return rc < 0 ? rc : energy_table_add_row(file, &row);
}

int lull_energy_file_integrate(struct lull_energy_file *file, int64_t from_ns, int64_t to_ns)
{
    for (size_t gpu = 0; gpu < file->log.gpu_count; gpu++) {
        const struct lull_power_log_gpu *const logged = &file->log.gpus[gpu];
        int rc = 0;

        for (size_t i = 0; i < logged->window_count && rc == 0; i++)
            rc = add_window(file, gpu, &logged->windows[i]);
        if (rc == 0 && !file->log.is_windows)
            rc = integrate_gpu(file, gpu, from_ns, to_ns);
        if (rc < 0)
            return rc;
    }
    return 0;
}

void lull_energy_file_fini(struct lull_energy_file *file)
{
    lull_power_log_fini(&file->log);
    free(file->rows);
    *file = (struct lull_energy_file){.path = NULL};
}

bool lull_energy_is_known(const struct lull_energy_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < files[i].count; k++)
            if (files[i].rows[k].energy.reason == NULL)
                return true;
    return false;
}

/* Names the source of a row's energy. */
static const char *energy_table_origin(const struct lull_energy_file *file,
                                       const struct lull_energy_row *row)
{
    if (file->log.is_windows)
        return "told";
    return row->energy.has_counter ? "counter" : "power";
}

/* ---- for people --------------------------------------------------------------------------- */

static void energy_table_print_row(const struct lull_energy_file *file,
                                   const struct lull_energy_row *row)
{
    const struct lull_power_log_gpu *const gpu = &file->log.gpus[row->gpu];
    const struct lull_log_energy *const energy = &row->energy;

    printf("%-20s %-16s", lull_printable(gpu->name[0] != '\0' ? gpu->name : "-").text,
           lull_printable(row->name != NULL ? row->name : "-").text);
    if (energy->reason != NULL) {
        printf(" not known: %s\n", energy->reason);
        return;
    }
    printf(" %11.1f %9.1f %14.1f %12.1f  %s", energy->covered_s, energy->joules / energy->covered_s,
           energy->joules, energy->uncertainty_j, energy_table_origin(file, row));
    if (row->count > 1)
        printf(", %llu windows", (unsigned long long)row->count);
    if (energy->gaps > 0)
        printf(", without %u gap%s of %.1f s", energy->gaps, energy->gaps == 1 ? "" : "s",
               energy->gap_s);
    if (energy->resets > 0)
        printf(", %u reset%s of the counter", energy->resets, energy->resets == 1 ? "" : "s");
    if (energy->estimated_s > 0.0)
        printf(", %.1f s of it by power, as the counter stood still or went back",
               energy->estimated_s);
    putchar('\n');
}

/* Prints what was dropped of a log. */
static void print_dropped(const struct lull_power_log *log, const char *path)
{
    if (log->missing > 0)
        printf("%s: %zu missing values, such as [N/A]\n", path, log->missing);
    if (log->impossible > 0)
        printf("%s: %zu readings dropped that a board cannot have, the first %.9g W\n", path,
               log->impossible, log->impossible_w);
    if (log->broken > 0)
        printf("%s: %zu rows or cells dropped that cannot be read, the first in line %zu\n", path,
               log->broken, log->broken_line);
    if (log->same_time > 0)
        printf("%s: %zu readings merged with another of the same time\n", path, log->same_time);
    if (log->unordered > 0)
        printf("%s: %zu readings put into the order of time\n", path, log->unordered);
}

void lull_energy_print(const struct lull_energy_file *files, size_t count)
{
    if (count > 0)
        printf("%-20s %-16s %11s %9s %14s %12s  %s\n", "GPU", "window", "seconds", "mean W",
               "energy J", "+- J (95 %)", "from");
    for (size_t i = 0; i < count; i++) {
        printf("%s (%s, %zu rows)\n", files[i].path, files[i].log.format, files[i].log.rows);
        for (size_t k = 0; k < files[i].count; k++)
            energy_table_print_row(&files[i], &files[i].rows[k]);
        print_dropped(&files[i].log, files[i].path);
    }
    if (count > 0)
        printf("Intervals leave out the gain of the boards' own sensors, up to %.0f %%.\n",
               100.0 * LULL_ENERGY_GAIN_RATIO);
}

/* ---- for programs ------------------------------------------------------------------------- */

static json_t *energy_table_real_or_null(double value, bool is_known)
{
    return is_known && isfinite(value) ? json_real(value) : json_null();
}

static json_t *energy_table_row_json(const struct lull_energy_file *file,
                                     const struct lull_energy_row *row)
{
    const struct lull_power_log_gpu *const gpu = &file->log.gpus[row->gpu];
    const struct lull_log_energy *const energy = &row->energy;
    const bool is_known = energy->reason == NULL;
    const bool has_times = is_known && !file->log.is_windows;

    return json_pack(
        "{s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:I, s:f, s:o}", "gpu",
        lull_json_string(gpu->name), "model",
        gpu->model[0] != '\0' ? lull_json_string(gpu->model) : json_null(), "window",
        row->name != NULL ? lull_json_string(row->name) : json_null(), "windows",
        (json_int_t)(row->count > 0 ? row->count : 1), "begin_s",
        energy_table_real_or_null((double)energy->begin_ns * 1e-9, has_times), "end_s",
        energy_table_real_or_null((double)energy->end_ns * 1e-9, has_times), "energy_j",
        energy_table_real_or_null(energy->joules, is_known), "uncertainty_j",
        energy_table_real_or_null(energy->uncertainty_j, is_known), "mean_w",
        energy_table_real_or_null(energy->joules / energy->covered_s, is_known), "covered_s",
        energy_table_real_or_null(energy->covered_s, is_known), "gaps", (json_int_t)energy->gaps,
        "gap_s", energy_table_real_or_null(energy->gap_s, is_known), "from",
        lull_json_string(energy_table_origin(file, row)), "resets", (json_int_t)energy->resets,
        "estimated_s", energy->estimated_s, "reason", lull_json_string_or_null(energy->reason));
}

static json_t *file_json(const struct lull_energy_file *file)
{
    const struct lull_power_log *const log = &file->log;
    json_t *const rows = json_array();

    for (size_t i = 0; i < file->count; i++)
        json_array_append_new(rows, energy_table_row_json(file, &file->rows[i]));
    return json_pack("{s:o, s:o, s:I, s:{s:I, s:I, s:I, s:I, s:I}, s:o}", "file",
                     lull_json_string(file->path), "format", lull_json_string(log->format), "rows",
                     (json_int_t)log->rows, "dropped", "missing", (json_int_t)log->missing,
                     "impossible", (json_int_t)log->impossible, "broken", (json_int_t)log->broken,
                     "same_time", (json_int_t)log->same_time, "unordered",
                     (json_int_t)log->unordered, "energies", rows);
}

int lull_energy_print_json(const struct lull_energy_file *files, size_t count)
{
    json_t *const array = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, file_json(&files[i]));
    return lull_cli_print_json(
        json_pack("{s:f, s:o}", "gain_ratio", LULL_ENERGY_GAIN_RATIO, "files", array),
        JSON_REAL_PRECISION(12));
}
