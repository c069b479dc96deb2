/*
 * Power logs: refused with a message, or readings in order that a board can have, and an energy
 * that is possible or has a reason. The first byte says whether rows without times have an
 * interval. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "../text_file.h"
#include "fuzz.h"

#include "core/energy/log_energy.h"
#include "trace/power_log.h"

static void check_windows(const struct lull_power_log_gpu *gpu)
{
    for (size_t i = 0; i < gpu->window_count; i++) {
        const struct lull_power_log_window *window = &gpu->windows[i];
        const double gpus = window->gpus > 0 ? window->gpus : 1.0;

        require(window->seconds > 0.0 && window->energy_j > 0.0);
        require(window->energy_j <= window->seconds * gpu->highest_w * gpus * (1.0 + 1e-9));
    }
}

static void check_energy(const struct lull_power_log_gpu *gpu)
{
    const struct lull_energy_source source = {.counter_refresh_s = 0.1,
                                              .power_refresh_s = 0.1,
                                              .power_window_s = 1.0,
                                              .lowest_w = 2.0,
                                              .highest_w = gpu->highest_w};
    struct lull_log_energy energy;

    require(lull_log_energy(&source, gpu->readings, gpu->count, INT64_MIN, INT64_MAX, &energy) ==
            0);
    if (energy.reason != NULL) {
        require(isnan(energy.joules));
        return;
    }
    require(energy.joules > 0.0 && energy.uncertainty_j >= 0.0 && energy.covered_s > 0.0);
    require(energy.gap_s >= 0.0 && energy.begin_ns < energy.end_ns);
    if (!energy.has_counter)
        require(energy.joules <= gpu->highest_w * (energy.covered_s + 2.0));
}

static void check_gpu(const struct lull_power_log_gpu *gpu)
{
    require(gpu->highest_w > 0.0);
    for (size_t i = 0; i < gpu->count; i++) {
        const struct lull_energy_reading *reading = &gpu->readings[i];

        require(i == 0 || reading->time_ns > gpu->readings[i - 1].time_ns);
        require(reading->has_power || reading->has_counter);
        require(!reading->has_power || (reading->power_w > 0.0 && reading->power_w <= 1e4));
        require(!reading->has_counter || reading->counter_j > 0.0);
    }
    check_windows(gpu);
    check_energy(gpu);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t interval_ns = size > 0 && data[0] % 2 == 0 ? 0 : INT64_C(1000000000);
    struct lull_power_log log;
    struct lull_error err = {0};

    if (lull_power_log_read(text_file(data, size), interval_ns, &log, &err) < 0) {
        require(err.text[0] != '\0' && log.gpus == NULL);
        return 0;
    }
    require(log.gpu_count > 0 && log.format[0] != '\0');
    for (size_t i = 0; i < log.gpu_count; i++)
        check_gpu(&log.gpus[i]);
    lull_power_log_fini(&log);
    return 0;
}
