/* SPDX-License-Identifier: Apache-2.0 */
#include "device/lock_state.h"

bool lull_lock_state_is_idle(const struct lull_device_reading *reading)
{
    return (reading->valid & LULL_READING_REASONS) != 0 &&
           (reading->reasons & LULL_CLOCK_REASON_IDLE) != 0;
}

bool lull_lock_state_seems_idle(const struct lull_device_reading *reading)
{
    if ((reading->valid & LULL_READING_REASONS) != 0)
        return lull_lock_state_is_idle(reading);
    return (reading->valid & LULL_READING_UTILIZATION) != 0 && reading->utilization_percent == 0;
}

uint32_t lull_lock_state_step_above(const struct lull_device_info *info, uint32_t sm_mhz)
{
    uint32_t above_mhz = sm_mhz;

    for (uint32_t i = 0; i < info->sm_clock_count && info->sm_clocks_mhz[i] > sm_mhz; i++)
        above_mhz = info->sm_clocks_mhz[i];
    return above_mhz;
}

bool lull_lock_state_is_high(const struct lull_device_info *info, uint32_t sm_mhz)
{
    return info->sm_clock_count > 0 &&
           lull_lock_state_step_above(info, sm_mhz) >= info->sm_clocks_mhz[0];
}

static bool is_near(const struct lull_device_info *info, uint32_t sm_mhz, uint32_t locked_mhz)
{
    return locked_mhz != 0 && sm_mhz <= lull_lock_state_step_above(info, locked_mhz) &&
           locked_mhz <= lull_lock_state_step_above(info, sm_mhz);
}

enum lull_lock_state lull_lock_state_of_clock(const struct lull_device_info *info,
                                              const struct lull_device_reading *reading,
                                              const struct lull_journal_written *written)
{
    const uint32_t ours_mhz =
        written->sm_mhz[0] > written->sm_mhz[1] ? written->sm_mhz[0] : written->sm_mhz[1];

    if ((reading->valid & LULL_READING_SM_CLOCK) == 0 || info->sm_clock_count == 0)
        return LULL_LOCK_UNKNOWN;
    if (reading->sm_mhz >= info->sm_clocks_mhz[0])
        return LULL_LOCK_FREE;
    if (lull_lock_state_is_idle(reading))
        return LULL_LOCK_UNKNOWN;
    if ((reading->valid & LULL_READING_REASONS) == 0 || reading->reasons != 0)
        return ours_mhz != 0 && reading->sm_mhz > lull_lock_state_step_above(info, ours_mhz)
                   ? LULL_LOCK_FREE
                   : LULL_LOCK_UNKNOWN;
    if (is_near(info, reading->sm_mhz, written->sm_mhz[0]) ||
        is_near(info, reading->sm_mhz, written->sm_mhz[1]))
        return LULL_LOCK_OURS;
    return lull_lock_state_is_high(info, reading->sm_mhz) ? LULL_LOCK_FREE : LULL_LOCK_FOREIGN;
}
