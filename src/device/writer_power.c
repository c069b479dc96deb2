/*
 * Measures the power of a GPU by its energy counter. SPDX-License-Identifier: Apache-2.0
 */
#include "base/clock.h"
#include "device/driver_owner.h"
#include "device/writer_internal.h"

/* Counters of energy move in steps of 20 to 100 ms. Over a time that begins and ends somewhere
 * between two steps the power is wrong by up to a step's share of it, 10 % of a second, and by the
 * same of all GPUs of a node where those step together. So where the power matters, because the GPU
 * is capped or was within WATCHED_NS, the counter is read again every SEEK_NS after a look until it
 * moves: the time then begins and ends at a step, to SEEK_NS / 2, so that a shorter time is as
 * accurate. A step that was missed because the host was late does not count. What has not been
 * found after LONGEST_SEEK_NS counts as it is. Chosen by the published steps of 20 to 101 ms. */
#define MIN_POWER_NS (500 * LULL_NS_PER_MS)
#define MIN_STEPS_NS (250 * LULL_NS_PER_MS)
#define SEEK_NS (10 * LULL_NS_PER_MS)
#define LATE_NS (25 * LULL_NS_PER_MS)
#define LONGEST_SEEK_NS (250 * LULL_NS_PER_MS)
#define WATCHED_NS (600 * LULL_NS_PER_S)

/* Returns the mean power from the growth of a counter. If the counter was reset or misread, returns
 * the driver's power instead. */
static uint32_t mean_mw(const struct lull_power_range *range, uint64_t grown_mj, int64_t passed_ns,
                        uint32_t driver_mw)
{
    const double power_mw = (double)grown_mj * LULL_NS_PER_S / (double)passed_ns;

    return lull_power_is_plausible(range, power_mw * 1e-3) ? (uint32_t)power_mw : driver_mw;
}

/* Notes what the counter said at a time, and what was drawn since the time before. driver_mw is the
 * power that the driver reports, used where the counter is of no use; 0: unknown. */
static void writer_power_conclude(struct lull_writer *writer, uint32_t index, uint64_t energy_mj,
                                  int64_t at_ns, int64_t min_ns, uint32_t driver_mw)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const struct lull_power_range range =
        lull_device_power_range(lull_device_info(writer->devices, index));
    const int64_t passed_ns = at_ns - gpu->power.energy_ns;
    const bool is_applied =
        gpu->clock.raise_ns == LULL_WRITER_NEVER_NS && at_ns >= gpu->power.settled_ns;
    const bool is_of_cap = is_applied && gpu->power.cap_mhz == gpu->lease.cap.max_mhz;
    uint32_t power_mw = driver_mw;

    if (gpu->power.energy_ns != 0 && passed_ns < min_ns)
        power_mw = gpu->state.power_mw;
    else if (gpu->power.energy_ns != 0 && energy_mj > gpu->power.energy_mj)
        power_mw = mean_mw(&range, energy_mj - gpu->power.energy_mj, passed_ns, driver_mw);
    gpu->power.energy_mj = energy_mj;
    gpu->power.energy_ns = at_ns;
    gpu->power.seek_begin_ns = 0;
    gpu->power.seek_ns = LULL_WRITER_NEVER_NS;
    /* A new cap is to show soon what is drawn under it: the next look comes too late for that. */
    if (!is_of_cap && is_applied && gpu->power.capped_ns != 0)
        gpu->power.seek_ns = at_ns + MIN_STEPS_NS;
    gpu->state.power_mw = power_mw;
    if (power_mw != 0 && is_of_cap) {
        gpu->state.power_looks++;
        gpu->state.power_cap_mhz = gpu->lease.cap.max_mhz;
    }
    gpu->power.cap_mhz = is_applied ? gpu->lease.cap.max_mhz : LULL_WRITER_NO_CAP;
}

static bool is_watched(struct lull_writer_gpu *gpu, int64_t now_ns)
{
    if (gpu->lease.cap.max_mhz != 0 || gpu->lease.cap.max_limit_mw != 0)
        gpu->power.capped_ns = now_ns;
    return gpu->power.capped_ns != 0 && now_ns - gpu->power.capped_ns < WATCHED_NS;
}

void lull_writer_read_power(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    struct lull_device_reading reading;
    int64_t now_ns;

    lull_device_read(writer->devices, index, LULL_READING_POWER | LULL_READING_ENERGY, &reading);
    if (lull_driver_owner_is_lost())
        return;
    now_ns = lull_now_ns();
    if ((reading.valid & LULL_READING_POWER) == 0)
        reading.power_mw = 0;
    if ((reading.valid & LULL_READING_ENERGY) == 0) {
        gpu->power.energy_ns = 0;
        writer_power_conclude(writer, index, 0, 0, 0, reading.power_mw);
    } else if (is_watched(gpu, now_ns) && gpu->power.energy_ns != 0 &&
               reading.energy_mj > gpu->power.energy_mj) {
        gpu->power.sought_mj = reading.energy_mj;
        gpu->power.sought_ns = now_ns;
        gpu->power.seek_begin_ns = now_ns;
        gpu->power.seek_ns = now_ns + SEEK_NS;
    } else {
        writer_power_conclude(writer, index, reading.energy_mj, now_ns, MIN_POWER_NS,
                              reading.power_mw);
    }
}

void lull_writer_seek_step(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    struct lull_device_reading reading;
    int64_t now_ns;

    if (gpu->power.seek_begin_ns == 0) {
        lull_writer_read_power(writer, index);
        return;
    }
    lull_device_read(writer->devices, index, LULL_READING_ENERGY, &reading);
    if (lull_driver_owner_is_lost())
        return;
    now_ns = lull_now_ns();
    if ((reading.valid & LULL_READING_ENERGY) != 0 && reading.energy_mj != gpu->power.sought_mj &&
        now_ns - gpu->power.sought_ns < LATE_NS)
        writer_power_conclude(writer, index, reading.energy_mj,
                              gpu->power.sought_ns + (now_ns - gpu->power.sought_ns) / 2,
                              MIN_STEPS_NS, gpu->state.power_mw);
    else if (now_ns - gpu->power.seek_begin_ns >= LONGEST_SEEK_NS)
        writer_power_conclude(writer, index, gpu->power.sought_mj, gpu->power.sought_ns,
                              MIN_POWER_NS, gpu->state.power_mw);
    else
        gpu->power.seek_ns = now_ns + SEEK_NS;
    gpu->power.sought_ns = now_ns;
    if ((reading.valid & LULL_READING_ENERGY) != 0)
        gpu->power.sought_mj = reading.energy_mj;
    lull_writer_show_state(writer, index);
}
