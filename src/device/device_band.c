/* Fits bands of clocks and limits into what a GPU allows. SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include <errno.h>

#include "base/minmax.h"

/* A band between two clocks of the device would be left by whatever is set. */
static bool has_clock_within(const struct lull_device_info *info, const struct lull_band *band)
{
    for (uint32_t i = 0; i < info->sm_clock_count; i++)
        if (info->sm_clocks_mhz[i] >= band->min_mhz && info->sm_clocks_mhz[i] <= band->max_mhz)
            return true;
    return false;
}

static int check_clocks(const struct lull_device_info *info, const struct lull_band *band,
                        struct lull_error *err)
{
    uint32_t highest_mhz;
    uint32_t lowest_mhz;

    if ((info->capabilities & LULL_CAPABILITY_SM_LOCK) == 0 || info->sm_clock_count == 0)
        return lull_error_set(
            err, LULL_E_UNSUPPORTED,
            "GPU %s: its SM clock cannot be locked; see lull gpus for what it can do", info->uuid);
    highest_mhz = info->sm_clocks_mhz[0];
    lowest_mhz = info->sm_clocks_mhz[info->sm_clock_count - 1];
    if (!has_clock_within(info, band))
        return lull_error_set(
            err, -EINVAL, "GPU %s: it has no clock between %u and %u MHz, but from %u to %u MHz",
            info->uuid, band->min_mhz, band->max_mhz, lowest_mhz, highest_mhz);
    return 0;
}

static int device_check_limits(const struct lull_device_info *info, const struct lull_band *band,
                               struct lull_error *err)
{
    if ((info->capabilities & LULL_CAPABILITY_POWER_LIMIT) == 0)
        return lull_error_set(
            err, LULL_E_UNSUPPORTED,
            "GPU %s: its power limit cannot be set; see lull gpus for what it can do", info->uuid);
    if (band->min_limit_mw > band->max_limit_mw || band->min_limit_mw > info->power_limit_max_mw ||
        band->max_limit_mw < info->power_limit_min_mw)
        return lull_error_set(
            err, -EINVAL,
            "GPU %s: it takes no power limit between %u and %u W, but from %u to %u W", info->uuid,
            band->min_limit_mw / 1000, band->max_limit_mw / 1000, info->power_limit_min_mw / 1000,
            info->power_limit_max_mw / 1000);
    return 0;
}

int lull_device_fit_band(const struct lull_device_info *info, struct lull_band *band,
                         struct lull_error *err)
{
    const bool has_limits = band->max_limit_mw > 0;
    int result = check_clocks(info, band, err);

    if (result < 0)
        return result;
    if (has_limits)
        result = device_check_limits(info, band, err);
    if (result < 0)
        return result;
    band->profiles &= info->power_profiles;
    band->smoothing =
        band->smoothing && (info->capabilities & LULL_CAPABILITY_POWER_SMOOTHING) != 0;
    band->min_mhz = lull_max_u32(band->min_mhz, info->sm_clocks_mhz[info->sm_clock_count - 1]);
    band->max_mhz = lull_min_u32(band->max_mhz, info->sm_clocks_mhz[0]);
    if (has_limits) {
        band->min_limit_mw = lull_max_u32(band->min_limit_mw, info->power_limit_min_mw);
        band->max_limit_mw = lull_min_u32(band->max_limit_mw, info->power_limit_max_mw);
    }
    return 0;
}
