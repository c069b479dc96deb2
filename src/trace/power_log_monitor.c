/*
 * Logs of nvidia-smi dmon and dcgmi dmon: columns between blanks, whose names and units stand under
 * a # again and again. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "trace/power_log_reading.h"

enum { MAX_COLUMNS = 64, DAY_S = 86400 };

enum monitor_column { OTHER, ENTITY, GPU, DATE, TIME, POWER, COUNTER };

/* A log while it is read. */
struct monitor {
    struct lull_power_log_state *state;
    const struct lull_lines *lines;
    enum monitor_column columns[MAX_COLUMNS];
    uint32_t count;                     /* 0: no header yet */
    uint64_t rows[LULL_POWER_LOG_GPUS]; /* of each GPU, which is its time where there are none */
    int64_t day_ns;                     /* added to times of day */
    int64_t last_ns;                    /* the last time of day with it */
};

static bool has_column(const struct monitor *monitor, enum monitor_column column)
{
    for (uint32_t i = 0; i < monitor->count; i++)
        if (monitor->columns[i] == column)
            return true;
    return false;
}

static enum monitor_column column_of(const char *name)
{
    static const struct {
        const char *name;
        enum monitor_column column;
    } names[] = {
        {"Entity", ENTITY}, {"gpu", GPU},     {"Date", DATE},     {"Time", TIME},
        {"pwr", POWER},     {"POWER", POWER}, {"PWR", POWER},     {"POWINST", POWER},
        {"TOTEC", COUNTER}, {"PINST", POWER}, {"TENGY", COUNTER},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcasecmp(name, names[i].name) == 0)
            return names[i].column;
    return OTHER;
}

bool lull_power_log_is_monitor(const char *line)
{
    char first[16] = "";
    size_t length;

    if (*line != '#' || strchr(line, ',') != NULL)
        return false;
    line += 1 + strspn(line + 1, LULL_TEXT_BLANKS);
    length = strcspn(line, LULL_TEXT_BLANKS);
    if (length >= sizeof(first))
        return false;
    memcpy(first, line, length);
    return column_of(first) != OTHER;
}

static void monitor_log_read_names(struct monitor *monitor, char *line)
{
    char *rest = line + 1 + strspn(line + 1, "# \t");

    monitor->count = 0;
    while (rest != NULL && monitor->count < MAX_COLUMNS)
        monitor->columns[monitor->count++] = column_of(lull_lines_cell_of(&rest, ' '));
}

/* Returns whether it is the line of units, with # (nvidia-smi) or without (dcgmi). */
static bool is_units(const char *line)
{
    static const char *const words[] = {"Idx", "Id", "YYYYMMDD", "HH:MM:SS"};
    size_t length;

    line += strspn(line, "# \t");
    length = strcspn(line, LULL_TEXT_BLANKS);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i]) == length && strncasecmp(line, words[i], length) == 0)
            return true;
    return false;
}

/* The cells of a row that count. */
struct monitor_row {
    const char *gpu;
    const char *date;
    const char *time;
    const char *power;
    const char *counter;
};

/* Splits a row; the row of an entity names it with two words.
 * Returns false if the row is incomplete or not that of a GPU. */
static bool split_row(struct monitor *monitor, char *line, struct monitor_row *row)
{
    char *rest = line;

    *row = (struct monitor_row){.gpu = ""};
    for (uint32_t i = 0; i < monitor->count; i++) {
        const char *cell = rest != NULL ? lull_lines_cell_of(&rest, ' ') : NULL;

        if (cell != NULL && monitor->columns[i] == ENTITY) {
            if (strcasecmp(cell, "GPU") != 0 || rest == NULL)
                return false;
            row->gpu = lull_lines_cell_of(&rest, ' ');
            continue;
        }
        if (cell == NULL)
            return false;
        if (monitor->columns[i] == GPU)
            row->gpu = cell;
        else if (monitor->columns[i] == DATE)
            row->date = cell;
        else if (monitor->columns[i] == TIME)
            row->time = cell;
        else if (monitor->columns[i] == POWER && row->power == NULL)
            row->power = cell;
        else if (monitor->columns[i] == COUNTER && row->counter == NULL)
            row->counter = cell;
    }
    return rest == NULL;
}

/* Finds the time of a row: its date and time of day; its time of day
 * alone, where a falling time means midnight; or the number of the GPU's
 * row. False: it has no valid time. */
static bool monitor_log_find_time(struct monitor *monitor, const struct monitor_row *row,
                                  size_t gpu, int64_t *time_ns_out)
{
    char both[40];

    if (row->time == NULL) {
        *time_ns_out = (int64_t)monitor->rows[gpu] * monitor->state->interval_ns;
        return true;
    }
    if (row->date != NULL) {
        if (strlen(row->date) + strlen(row->time) + 2 > sizeof(both))
            return false;
        stpcpy(stpcpy(stpcpy(both, row->date), " "), row->time);
        return lull_timestamp_parse(both, time_ns_out) == 0;
    }
    if (lull_timestamp_elapsed(row->time, time_ns_out) < 0)
        return false;
    *time_ns_out += monitor->day_ns;
    if (*time_ns_out < monitor->last_ns - DAY_S / 2 * INT64_C(1000000000)) {
        monitor->day_ns += DAY_S * INT64_C(1000000000);
        *time_ns_out += DAY_S * INT64_C(1000000000);
    }
    monitor->last_ns = *time_ns_out;
    return true;
}

/* Parses a number of a cell. Returns false where there is none, and counts why. */
static bool find_number(struct monitor *monitor, const char *cell, double *number_out)
{
    char plain[LULL_TEXT_NUMBER_BYTES];

    if (cell == NULL)
        return false;
    if (lull_text_is_missing(cell)) {
        monitor->state->log->missing++;
        return false;
    }
    if (lull_text_plain_number(cell, LULL_TEXT_COMMA_DECIMAL, plain) == 0 &&
        lull_text_parse_number(plain, number_out) == 0)
        return true;
    lull_power_log_note_broken(monitor->state, lull_lines_number(monitor->lines));
    return false;
}

static int monitor_log_read_row(struct monitor *monitor, char *line, struct lull_error *err)
{
    struct lull_power_log_state *const state = monitor->state;
    struct lull_energy_reading reading = {.time_ns = 0};
    struct monitor_row row;
    double counter_mj = 0.0;
    size_t gpu = 0;
    int rc;

    state->log->rows++;
    if (!split_row(monitor, line, &row)) {
        lull_power_log_note_broken(state, lull_lines_number(monitor->lines));
        return 0;
    }
    rc = lull_power_log_find_gpu(state, row.gpu, "", &gpu, err);
    if (rc < 0)
        return rc;
    if (!monitor_log_find_time(monitor, &row, gpu, &reading.time_ns)) {
        lull_power_log_note_broken(state, lull_lines_number(monitor->lines));
        return 0;
    }
    monitor->rows[gpu]++;
    reading.has_power =
        find_number(monitor, row.power, &reading.power_w) &&
        lull_power_log_can_be(state, reading.power_w, state->log->gpus[gpu].highest_w);
    reading.has_counter = find_number(monitor, row.counter, &counter_mj) && counter_mj > 0.0;
    reading.counter_j = counter_mj * 1e-3;
    return lull_power_log_add(state, gpu, &reading, err);
}

static int monitor_log_check_names(const struct monitor *monitor, struct lull_error *err)
{
    const char *const path = monitor->state->path;

    if (!has_column(monitor, POWER) && !has_column(monitor, COUNTER))
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: line %zu: missing column of power or energy; log it with "
                              "nvidia-smi dmon -s p, or dcgmi dmon -e 155,156",
                              path, lull_lines_number(monitor->lines));
    if (!has_column(monitor, TIME) && monitor->state->interval_ns == 0)
        return lull_error_set(
            err, LULL_E_FORMAT,
            "%s: no times found; use --every S, the time between two rows of a GPU (dcgmi dmon -d "
            "and nvidia-smi dmon -d: 1 s without it), or log with nvidia-smi dmon -o DT",
            path);
    return 0;
}

int lull_power_log_read_monitor(struct lull_power_log_state *state, struct lull_lines *lines,
                                char *line, struct lull_error *err)
{
    struct monitor monitor = {.state = state, .lines = lines, .last_ns = INT64_MIN / 2};
    int rc = 1;

    state->log->format = "monitor";
    for (; rc > 0; rc = lull_lines_next(lines, &line, err)) {
        line += strspn(line, LULL_TEXT_BLANKS);
        if (*line == '\0' || is_units(line))
            continue;
        if (*line == '#') {
            monitor_log_read_names(&monitor, line);
            rc = monitor_log_check_names(&monitor, err);
        } else {
            rc = monitor_log_read_row(&monitor, line, err);
        }
        if (rc < 0)
            return rc;
    }
    return rc;
}
