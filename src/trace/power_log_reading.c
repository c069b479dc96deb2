/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/power_log_reading.h"

#include <errno.h>
#include <string.h>

/* The limit of a board without a known one: the largest boards in 2026 have 1400 W. A power may
 * exceed a limit by this ratio for a moment. */
static const double highest_known_w = 1800.0;
static const double overshoot_ratio = 1.5;

/* ---- boards ------------------------------------------------------------------------------- */

/* The highest power limit of boards, by a part of the names
 * that drivers report; more specific names come first. From the makers' data sheets. */
static const struct {
    const char *part;
    double limit_w;
} boards[] = {
    {"GB300", 1400.0},   {"GB200", 1200.0},   {"B300", 1400.0}, {"B200", 1000.0},
    {"GH200", 1000.0},   {"H200 NVL", 600.0}, {"H200", 700.0},  {"H100 PCIe", 350.0},
    {"H100 NVL", 400.0}, {"H100", 700.0},     {"H800", 700.0},  {"H20", 500.0},
    {"A100-SXM", 500.0}, {"A100", 400.0},     {"A800", 400.0},  {"A40", 300.0},
    {"A30", 165.0},      {"A10", 150.0},      {"A16", 250.0},   {"A2", 60.0},
    {"L40S", 350.0},     {"L40", 300.0},      {"L4", 72.0},     {"T4", 70.0},
    {"V100", 350.0},     {"P100", 300.0},     {"P40", 250.0},   {"K80", 300.0},
    {"5090", 600.0},     {"4090", 600.0},     {"3090", 500.0},  {"MI355", 1400.0},
    {"MI325", 1000.0},   {"MI300", 760.0},    {"MI250", 560.0}, {"MI210", 300.0},
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
    const double lowest_limit_w = 10.0; /* of a module that has a GPU; */

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
    struct lull_power_log_window window = {.seconds = seconds, .energy_j = energy_j, .gpus = gpus};

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
