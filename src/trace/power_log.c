/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/power_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/power_log_reading.h"

/* A board without a limit of its own draws no more than this: that of the largest boards in 2026 is
 * 1400 W. A power may exceed a limit by this ratio for a moment. Chosen, not measured. */
static const double highest_known_w = 1800.0;
static const double overshoot_ratio = 1.5;

/* ---- boards ------------------------------------------------------------------------------- */

/* The highest power limit of boards, by a part of the names that drivers have for them; more special
 * ones come first. From the makers' data sheets. */
static const struct {
    const char *part;
    double limit_w;
} boards[] = {
    {"GB300", 1400.0},  {"GB200", 1200.0},    {"B300", 1400.0},     {"B200", 1000.0},
    {"GH200", 1000.0},  {"H200 NVL", 600.0},  {"H200", 700.0},      {"H100 PCIe", 350.0},
    {"H100 NVL", 400.0}, {"H100", 700.0},     {"H800", 700.0},      {"H20", 500.0},
    {"A100-SXM", 500.0}, {"A100", 400.0},     {"A800", 400.0},      {"A40", 300.0},
    {"A30", 165.0},     {"A10", 150.0},       {"A16", 250.0},       {"A2", 60.0},
    {"L40S", 350.0},    {"L40", 300.0},       {"L4", 72.0},         {"T4", 70.0},
    {"V100", 350.0},    {"P100", 300.0},      {"P40", 250.0},       {"K80", 300.0},
    {"5090", 600.0},    {"4090", 600.0},      {"3090", 500.0},      {"MI355", 1400.0},
    {"MI325", 1000.0},  {"MI300", 760.0},     {"MI250", 560.0},     {"MI210", 300.0},
};

static double highest_of_model(const char *model)
{
    for (size_t i = 0; i < sizeof(boards) / sizeof(boards[0]); i++)
        if (strstr(model, boards[i].part) != NULL)
            return overshoot_ratio * boards[i].limit_w;
    return highest_known_w;
}

/* ---- GPUs and readings -------------------------------------------------------------------- */

static void copy_name(char *name_out, const char *name)
{
    const size_t length = strnlen(name, LULL_POWER_LOG_NAME - 1);

    memcpy(name_out, name, length);
    name_out[length] = '\0';
}

int lull_power_log_find_gpu(struct lull_power_log_state *state, const char *name, const char *model,
                            size_t *gpu_out, struct lull_error *err)
{
    struct lull_power_log *const log = state->log;
    struct lull_power_log_gpu gpu = {.count = 0};
    uint32_t number;
    int rc = lull_string_set_add(state->names, name, &number, state->path, err);

    if (rc < 0)
        return rc;
    *gpu_out = number;
    if (number < log->gpu_count)
        return 0;
    if (log->gpu_count == LULL_POWER_LOG_GPUS)
        return lull_error_set(err, LULL_E_FORMAT, "%s: there are more than %d GPUs", state->path,
                              LULL_POWER_LOG_GPUS);
    copy_name(gpu.name, name);
    copy_name(gpu.model, model);
    gpu.highest_w = highest_of_model(model);
    return lull_trace_append(&log->gpus, &log->gpu_count, &gpu, sizeof(gpu), state->path, err);
}

void lull_power_log_note_limit(struct lull_power_log_gpu *gpu, double limit_w)
{
    const double lowest_limit_w = 10.0; /* of a module that has a GPU; chosen, not measured */

    if (!(limit_w >= lowest_limit_w && limit_w <= highest_known_w))
        return;
    if (!gpu->has_limit || overshoot_ratio * limit_w > gpu->highest_w)
        gpu->highest_w = overshoot_ratio * limit_w;
    gpu->has_limit = true;
}

void lull_power_log_note_broken(struct lull_power_log_state *state, size_t line)
{
    if (state->log->broken++ == 0)
        state->log->broken_line = line;
}

bool lull_power_log_can_be(struct lull_power_log_state *state, double power_w, double highest_w)
{
    if (power_w > 0.0 && power_w <= highest_w)
        return true;
    if (state->log->impossible++ == 0)
        state->log->impossible_w = power_w;
    return false;
}

int lull_power_log_add(struct lull_power_log_state *state, size_t gpu,
                       const struct lull_energy_reading *reading, struct lull_error *err)
{
    struct lull_power_log_gpu *const to = &state->log->gpus[gpu];

    if (!reading->has_power && !reading->has_counter)
        return 0;
    if (to->count > 0 && reading->time_ns < to->readings[to->count - 1].time_ns)
        state->log->unordered++;
    return lull_trace_append(&to->readings, &to->count, reading, sizeof(*reading), state->path,
                             err);
}

int lull_power_log_add_window(struct lull_power_log_state *state, size_t gpu, const char *name,
                              double seconds, double energy_j, uint32_t gpus,
                              struct lull_error *err)
{
    struct lull_power_log_gpu *const to = &state->log->gpus[gpu];
    struct lull_power_log_window window = {
        .seconds = seconds, .energy_j = energy_j, .gpus = gpus};

    if (!(seconds > 0.0)) {
        state->log->impossible++;
        return 0;
    }
    if (!lull_power_log_can_be(state, energy_j / seconds, to->highest_w * (gpus > 0 ? gpus : 1)))
        return 0;
    copy_name(window.name, name);
    return lull_trace_append(&to->windows, &to->window_count, &window, sizeof(window), state->path,
                             err);
}

/* ---- times -------------------------------------------------------------------------------- */

int lull_power_log_time_of(const char *text, int shift, int64_t *time_ns_out)
{
    enum { NANO = 9, MICRO = 3, MILLI = 6 };
    char number[LULL_TEXT_NUMBER_BYTES];
    double value;
    int64_t time_ns = 0;

    if (strpbrk(text, ":/") != NULL || strchr(text + (*text != '\0'), '-') != NULL) {
        if (lull_timestamp_parse(text, time_ns_out) == 0)
            return 0;
        if (lull_timestamp_elapsed(text, time_ns_out) == 0)
            return 0;
    }
    if (lull_text_plain_number(text, LULL_TEXT_COMMA_AMBIGUOUS, number) < 0 ||
        lull_text_parse_number(number, &value) < 0 || value < 0.0)
        return -EINVAL;
    if (shift == 0) {
        shift = NANO;
        if (value >= 1e17)
            shift = 0;
        else if (value >= 1e14)
            shift = MICRO;
        else if (value >= 1e11)
            shift = MILLI;
    }
    if (lull_decimal_parse(number, strlen(number), shift, &time_ns) < 0)
        return -EINVAL;
    *time_ns_out = time_ns;
    return 0;
}

int lull_power_log_time(const char *text, int64_t *time_ns_out)
{
    return lull_power_log_time_of(text, 0, time_ns_out);
}

/* ---- the end ------------------------------------------------------------------------------ */

static int by_time(const void *a, const void *b)
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

/* Says why nothing is left of a log. */
static int refuse_empty(const struct lull_power_log_state *state, struct lull_error *err)
{
    const struct lull_power_log *const log = state->log;

    if (log->impossible > 0 && log->impossible_w > 0.0)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: no reading is left: %zu are above what a board can draw, the first "
                              "%.9g W; is that in mW? Then name the column power_mw",
                              state->path, log->impossible, log->impossible_w);
    if (log->impossible > 0)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: no reading is left: %zu say that the GPU drew nothing or less",
                              state->path, log->impossible);
    if (log->missing > 0)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: no reading is left: %zu are missing values such as [N/A]; this "
                              "GPU or driver does not tell its power",
                              state->path, log->missing);
    if (log->broken > 0)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: no reading is left: %zu rows cannot be read, the first in line "
                              "%zu; do decimal commas look like separators? Then log with LC_ALL=C",
                              state->path, log->broken, log->broken_line);
    return lull_error_set(err, LULL_E_FORMAT, "%s: there are no rows after the header",
                          state->path);
}

static int finish(struct lull_power_log_state *state, struct lull_error *err)
{
    struct lull_power_log *const log = state->log;
    size_t kept = 0;

    for (size_t i = 0; i < log->gpu_count; i++) {
        struct lull_power_log_gpu *const gpu = &log->gpus[i];

        if (gpu->count > 0)
            qsort(gpu->readings, gpu->count, sizeof(*gpu->readings), by_time);
        merge_times(log, gpu);
        kept += gpu->count + gpu->window_count;
    }
    return kept > 0 ? 0 : refuse_empty(state, err);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Tells what stands ahead of a header: a separator for spreadsheets, what a tool says, a comment. */
static bool is_preamble(const char *line)
{
    return *line == '\0' || strncmp(line, "sep=", 4) == 0 || strncmp(line, "==", 2) == 0 ||
           (*line == '#' && strpbrk(line, ",;\t|") == NULL && !lull_power_log_is_monitor(line));
}

static int read_lines(struct lull_power_log_state *state, struct lull_lines *lines,
                      struct lull_error *err)
{
    char *line = NULL;
    int rc;

    do {
        rc = lull_lines_next(lines, &line, err);
    } while (rc > 0 && is_preamble(line + strspn(line, LULL_TEXT_BLANKS)));
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
        return lull_error_set(err, -ENOMEM, "%s: there is no memory to read it", path);
    rc = lull_lines_open(path, &lines, err);
    if (rc == 0)
        rc = read_lines(&state, lines, err);
    if (rc == 0)
        rc = finish(&state, err);
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
