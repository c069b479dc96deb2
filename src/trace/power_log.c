/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/power_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/power_log_reading.h"

/* ---- the end ------------------------------------------------------------------------------ */

static int power_log_by_time(const void *a, const void *b)
{
    const struct lull_energy_reading *left = a;
    const struct lull_energy_reading *right = b;

    return (left->time_ns > right->time_ns) - (left->time_ns < right->time_ns);
}

/* Merges readings of one time: the mean of their powers and the largest of their counters. */
static void merge_times(struct lull_power_log *log, struct lull_power_log_gpu *gpu)
{
    size_t kept = 0;

    for (size_t i = 0; i < gpu->count;) {
        struct lull_energy_reading merged = {.time_ns = gpu->readings[i].time_ns};
        double sum_w = 0.0;
        uint32_t powers = 0;
        size_t end = i;

        for (; end < gpu->count && gpu->readings[end].time_ns == merged.time_ns; end++) {
            const struct lull_energy_reading *const reading = &gpu->readings[end];

            if (reading->has_power) {
                sum_w += reading->power_w;
                powers++;
            }
            if (reading->has_counter &&
                (!merged.has_counter || reading->counter_j > merged.counter_j)) {
                merged.has_counter = true;
                merged.counter_j = reading->counter_j;
            }
        }
        merged.has_power = powers > 0;
        if (powers > 0)
            merged.power_w = sum_w / powers;
        log->same_time += end - i - 1;
        gpu->readings[kept++] = merged;
        i = end;
    }
    gpu->count = kept;
}

/* Reports why no readings are left of a log. */
static int refuse_empty(const struct lull_power_log_state *state, struct lull_error *err)
{
    const struct lull_power_log *const log = state->log;

    if (log->impossible > 0 && log->impossible_w > 0.0)
        return lull_error_set(
            err, LULL_E_FORMAT,
            "%s: no reading is left: %zu are above what a board can draw, the first "
            "%.9g W; is that in mW? Then name the column power_mw",
            state->path, log->impossible, log->impossible_w);
    if (log->impossible > 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: no usable reading: %zu are zero or negative",
                              state->path, log->impossible);
    if (log->missing > 0)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: no usable reading: %zu are missing values such as [N/A]; this "
                              "GPU or driver does not report its power",
                              state->path, log->missing);
    if (log->broken > 0)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: no reading is left: %zu rows cannot be read, the first in line "
                              "%zu; do decimal commas look like separators? Then log with LC_ALL=C",
                              state->path, log->broken, log->broken_line);
    return lull_error_set(err, LULL_E_FORMAT, "%s: there are no rows after the header",
                          state->path);
}

static int power_log_finish(struct lull_power_log_state *state, struct lull_error *err)
{
    struct lull_power_log *const log = state->log;
    size_t kept = 0;

    for (size_t i = 0; i < log->gpu_count; i++) {
        struct lull_power_log_gpu *const gpu = &log->gpus[i];

        if (gpu->count > 0)
            qsort(gpu->readings, gpu->count, sizeof(*gpu->readings), power_log_by_time);
        merge_times(log, gpu);
        kept += gpu->count + gpu->window_count;
    }
    return kept > 0 ? 0 : refuse_empty(state, err);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Returns what stands ahead of a header: a separator for spreadsheets, a message of a tool, a
 * comment. */
static bool power_log_is_preamble(const char *line)
{
    return *line == '\0' || strncmp(line, "sep=", 4) == 0 || strncmp(line, "==", 2) == 0 ||
           (*line == '#' && strpbrk(line, ",;\t|") == NULL && !lull_power_log_is_monitor(line));
}

static int power_log_read_lines(struct lull_power_log_state *state, struct lull_lines *lines,
                                struct lull_error *err)
{
    char *line = NULL;
    int rc;

    do {
        rc = lull_lines_next(lines, &line, err);
    } while (rc > 0 && power_log_is_preamble(line + strspn(line, LULL_TEXT_BLANKS)));
    if (rc < 0)
        return rc;
    if (rc == 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: the file is empty", state->path);
    line += strspn(line, LULL_TEXT_BLANKS);
    if (line[0] == '{' || line[0] == '[')
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: JSON is not read as a power log; write a table with the columns "
                              "time, gpu and power_w",
                              state->path);
    if (lull_power_log_is_monitor(line))
        return lull_power_log_read_monitor(state, lines, line, err);
    return lull_power_log_read_table(state, lines, line, err);
}

int lull_power_log_read(const char *path, int64_t interval_ns, struct lull_power_log *log_out,
                        struct lull_error *err)
{
    struct lull_power_log_state state = {.path = path,
                                         .log = log_out,
                                         .interval_ns = interval_ns,
                                         .names = lull_string_set_create()};
    struct lull_lines *lines = NULL;
    int rc;

    *log_out = (struct lull_power_log){.format = "table"};
    if (state.names == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", path);
    rc = lull_lines_open(path, &lines, err);
    if (rc == 0)
        rc = power_log_read_lines(&state, lines, err);
    if (rc == 0)
        rc = power_log_finish(&state, err);
    lull_lines_close(lines);
    lull_string_set_destroy(state.names);
    if (rc < 0)
        lull_power_log_fini(log_out);
    return rc;
}

void lull_power_log_fini(struct lull_power_log *log)
{
    for (size_t i = 0; i < log->gpu_count; i++) {
        free(log->gpus[i].readings);
        free(log->gpus[i].windows);
    }
    free(log->gpus);
    *log = (struct lull_power_log){.format = ""};
}
