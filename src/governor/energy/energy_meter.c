/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/energy/energy_meter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "governor/run/visible_gpus.h"

static int energy_meter_check(struct lull_energy_meter *meter, struct lull_error *err)
{
    if (meter->gpu_count == 0)
        return lull_error_set(err, LULL_E_NO_DEVICE,
                              "the command sees no GPU; look at CUDA_VISIBLE_DEVICES, or HIP_ and "
                              "ROCR_VISIBLE_DEVICES, or ZE_AFFINITY_MASK");
    meter->name = lull_device_info(meter->devices, meter->gpus[0])->name;
    for (uint32_t i = 0; i < meter->gpu_count; i++) {
        const struct lull_device_info *info = lull_device_info(meter->devices, meter->gpus[i]);

        if ((info->capabilities & LULL_CAPABILITY_ENERGY_COUNTER) == 0 ||
            info->power_limit_max_mw == 0)
            return lull_error_set(err, LULL_E_UNSUPPORTED,
                                  "GPU %u (%.60s) has no energy counter, or no power limit",
                                  meter->gpus[i], info->name);
        meter->max_power_w = fmax(meter->max_power_w, info->power_limit_max_mw * 1e-3);
    }
    return 0;
}

int lull_energy_meter_open(struct lull_energy_meter *meter, struct lull_error *err)
{
    struct lull_visible_gpus visible;
    int result;

    *meter = (struct lull_energy_meter){0};
    result = lull_devices_open(&meter->devices, err);
    if (result < 0)
        return result;
    lull_visible_gpus(meter->devices, &visible);
    meter->gpu_count = visible.count;
    memcpy(meter->gpus, visible.gpus, sizeof(meter->gpus));
    result = energy_meter_check(meter, err);
    if (result == 0)
        meter->accounts = calloc(meter->gpu_count, sizeof(*meter->accounts));
    if (result == 0 && meter->accounts == NULL)
        result = lull_error_set(err, -ENOMEM, "not enough memory for the energy of %u GPUs",
                                meter->gpu_count);
    if (result < 0)
        lull_energy_meter_close(meter);
    return result;
}

void lull_energy_meter_close(struct lull_energy_meter *meter)
{
    if (meter->devices != NULL)
        lull_devices_close(meter->devices);
    free(meter->accounts);
    *meter = (struct lull_energy_meter){0};
}

/* Takes a reading of counter and power. Returns the energy of the account after it. NAN: not
 * known. */
static double energy_meter_take_reading(struct lull_energy_meter *meter, uint32_t i)
{
    struct lull_device_reading reading;
    struct lull_energy_reading taken = {.time_ns = lull_now_ns()};
    double energy_j = NAN;

    lull_device_read(meter->devices, meter->gpus[i], LULL_READING_ENERGY | LULL_READING_POWER,
                     &reading);
    taken.has_counter = (reading.valid & LULL_READING_ENERGY) != 0;
    taken.counter_j = (double)reading.energy_mj * 1e-3;
    taken.has_power = (reading.valid & LULL_READING_POWER) != 0;
    taken.power_w = (double)reading.power_mw * 1e-3;
    taken.is_refused = (reading.refused & LULL_READING_POWER) != 0;
    lull_energy_account_take(&meter->accounts[i], &taken);
    lull_energy_account_last(&meter->accounts[i], taken.time_ns, &energy_j);
    return energy_j;
}

int lull_energy_meter_begin(struct lull_energy_meter *meter, struct lull_error *err)
{
    for (uint32_t i = 0; i < meter->gpu_count; i++) {
        const struct lull_energy_source source =
            lull_energy_source_of_gpu(lull_device_info(meter->devices, meter->gpus[i]));

        lull_energy_account_init(&meter->accounts[i], &source);
        meter->begin_j[i] = energy_meter_take_reading(meter, i);
        if (!meter->accounts[i].has_counter || isnan(meter->begin_j[i]))
            return lull_error_set(err, -EIO, "GPU %u: its energy counter cannot be read",
                                  meter->gpus[i]);
    }
    return 0;
}

double lull_energy_meter_read(struct lull_energy_meter *meter)
{
    double energy_j = 0.0;

    meter->estimated_s = 0.0;
    for (uint32_t i = 0; i < meter->gpu_count; i++) {
        energy_j += energy_meter_take_reading(meter, i) - meter->begin_j[i];
        if (lull_energy_account_doubt(&meter->accounts[i]) != LULL_ENERGY_CREDIBLE)
            energy_j = NAN;
        meter->estimated_s = fmax(meter->estimated_s, meter->accounts[i].estimated_s);
    }
    return energy_j;
}

/* ---- plausible readings ----------------------------------------------------------------- */

/* NVML's numbers of architectures. */
enum { VOLTA = 5, AMPERE = 7 };

/* Readings above this are wrong: no processor draws more with the memory beside it. */
static const double highest_zone_w = 1500.0;

struct lull_energy_source lull_energy_source_of_gpu(const struct lull_device_info *info)
{
    const bool is_instant = (info->capabilities & LULL_CAPABILITY_INSTANT_POWER) != 0;
    const struct lull_power_range range = lull_device_power_range(info);
    struct lull_energy_source source = {
        .counter_refresh_s = 0.1,
        .power_refresh_s = 0.1,
        .power_window_s = 0.1,
        .lowest_w = range.lowest_w,
        .highest_w = range.highest_w,
    };

    if (info->architecture > 0 && info->architecture <= VOLTA) {
        source.power_refresh_s = 0.02;
        source.power_window_s = 0.01;
    } else if (info->architecture >= AMPERE) {
        source.power_window_s = is_instant ? 0.025 : 1.0;
    }
    return source;
}

struct lull_energy_source lull_energy_source_of_node(uint32_t zones)
{
    return (struct lull_energy_source){
        .counter_refresh_s = 0.001,
        .highest_w = highest_zone_w * (zones > 0 ? zones : 1),
    };
}
