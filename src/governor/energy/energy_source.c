/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/energy/energy_source.h"

/* NVML's numbers of architectures. */
enum { VOLTA = 5, AMPERE = 7 };

/* Power may briefly overshoot the highest limit by this ratio. Where there is no limit,
 * highest_known_w is the bound. Chosen, not measured. */
static const double overshoot_ratio = 1.2;
static const double highest_known_w = 1500.0;
/* No processor, with the memory beside it, draws more. Chosen, not measured. */
static const double highest_zone_w = 1500.0;

struct lull_energy_source lull_energy_source_of_gpu(const struct lull_device_info *info)
{
    const bool is_instant = (info->capabilities & LULL_CAPABILITY_INSTANT_POWER) != 0;
    struct lull_energy_source source = {
        .counter_refresh_s = 0.1,
        .power_refresh_s = 0.1,
        .power_window_s = 0.1,
        .highest_w = info->power_limit_max_mw > 0
                         ? overshoot_ratio * 1e-3 * (double)info->power_limit_max_mw
                         : highest_known_w,
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
