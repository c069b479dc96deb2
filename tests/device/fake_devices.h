/*
 * Simulated GPUs and a simulated clock: the functions of device.h for a program that links no
 * driver, in virtual time. Include it in one file of the program, before the source that is tested.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TEST_FAKE_DEVICES_H
#define LULL_TEST_FAKE_DEVICES_H

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "device/device.h"

#define FAKE_CALL_NS (100 * LULL_NS_PER_US) /* every call that sets something takes this long */

static int64_t fake_time_ns;

static inline int64_t fake_now_ns(void)
{
    return fake_time_ns;
}

static inline void fake_sleep_until_ns(int64_t until_ns)
{
    fake_time_ns = until_ns > fake_time_ns ? until_ns : fake_time_ns;
}

/* The source that follows sees this clock alone. */
#define lull_now_ns fake_now_ns
#define lull_sleep_until_ns fake_sleep_until_ns

struct fake_gpu {
    struct lull_device_info info;
    uint32_t free_mhz;   /* the clock without a lock; a lock above it has no effect */
    uint32_t locked_mhz; /* 0: not locked */
    uint32_t old_mhz;    /* the clock until the last call takes effect */
    int64_t effect_ns;   /* time of that */
    int64_t settling_ns; /* from a call's end until it takes effect */
    uint32_t limit_mw;
    uint32_t least_limit_mw; /* a lower limit is accepted and becomes this one */
    uint64_t reasons;
    uint32_t unreadable;  /* readings that the device does not give */
    int status;           /* of the calls that set something... */
    uint32_t failures;    /* ...for this many of them */
    uint32_t ineffective; /* this many calls that set a clock succeed and change nothing */
    bool loses_driver;    /* its next reading takes so long that the thread loses the driver */
    uint32_t memory_resets;
    uint32_t requested_profiles; /* by all programs */
    bool ignores_profiles;       /* changes of them succeed and have no effect */
    struct lull_smoothing_settings smoothing;
    bool ignores_smoothing; /* changes of it succeed and have no effect */
    uint32_t limit_calls;
    struct lull_device_update update; /* result of the next look */
    uint32_t checks;
    bool is_open; /* it was looked at since it was let go */
    /* Its counter of energy is brought up to date at each multiple of so many ms; 0: it has none.
     */
    uint32_t step_ms;
    int64_t taken_ns; /* until when it is known what was taken */
    double taken_mj;
    uint64_t shown_mj;
};

enum { FAKE_MOST_GPUS = 4, FAKE_MOST_CALLS = 256 };

/* One call that locks or resets a clock. */
struct fake_call {
    uint32_t gpu;
    uint32_t sm_mhz; /* 0: a reset */
    int64_t begin_ns;
};

static struct {
    uint32_t count;
    bool is_closed;           /* the driver was released */
    bool is_lost;             /* the thread has lost it in a reading */
    uint32_t attempts;        /* to open it again... */
    uint32_t attach_failures; /* ...of which this many fail */
    struct fake_gpu gpus[FAKE_MOST_GPUS];
    uint32_t call_count;
    struct fake_call calls[FAKE_MOST_CALLS];
} fake;

/* Starts again with this many equal GPUs at one second. */
static void fake_reset(uint32_t count)
{
    memset(&fake, 0, sizeof(fake));
    fake_time_ns = LULL_NS_PER_S;
    fake.count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct fake_gpu *gpu = &fake.gpus[i];

        *gpu = (struct fake_gpu){
            .info = {.capabilities = LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_POWER_LIMIT,
                     .sm_clock_count = 5,
                     .sm_clocks_mhz = {1400, 1200, 900, 600, 200},
                     .power_limit_min_mw = 100000,
                     .power_limit_max_mw = 400000,
                     .power_limit_default_mw = 400000},
            .free_mhz = 1400,
            .old_mhz = 1400,
            .settling_ns = 4 * LULL_NS_PER_MS,
            .limit_mw = 350000,
            .taken_ns = fake_time_ns,
        };
        snprintf(gpu->info.uuid, sizeof(gpu->info.uuid), "GPU-%u", i);
    }
}

static inline uint32_t fake_sm_mhz_at(const struct fake_gpu *gpu, int64_t at_ns)
{
    if (at_ns < gpu->effect_ns)
        return gpu->old_mhz;
    if (gpu->locked_mhz == 0 || gpu->locked_mhz > gpu->free_mhz)
        return gpu->free_mhz;
    return gpu->locked_mhz;
}

static inline uint32_t fake_sm_mhz(const struct fake_gpu *gpu)
{
    return fake_sm_mhz_at(gpu, fake_time_ns);
}

/* Returns the power of a fake GPU at a clock, mW. */
static inline double fake_power_mw(uint32_t sm_mhz)
{
    return 50e3 + 2e-4 * sm_mhz * (double)sm_mhz * 1e3;
}

/* Brings the counter of energy up to date, in steps of a millisecond. */
static void fake_run_meter(struct fake_gpu *gpu)
{
    for (; gpu->step_ms != 0 && gpu->taken_ns + LULL_NS_PER_MS <= fake_time_ns;
         gpu->taken_ns += LULL_NS_PER_MS) {
        gpu->taken_mj += fake_power_mw(fake_sm_mhz_at(gpu, gpu->taken_ns)) * 1e-3;
        if ((gpu->taken_ns / LULL_NS_PER_MS + 1) % gpu->step_ms == 0)
            gpu->shown_mj = (uint64_t)gpu->taken_mj;
    }
}

/* A call that sets something: its time passes, and it may fail. */
static int fake_set(uint32_t index, struct lull_error *err)
{
    struct fake_gpu *gpu = &fake.gpus[index];

    fake_time_ns += FAKE_CALL_NS;
    if (gpu->failures == 0)
        return 0;
    gpu->failures--;
    return lull_error_set(err, gpu->status, "GPU %u: fails as it was told", index);
}

static int fake_set_clock(uint32_t index, uint32_t sm_mhz, struct lull_error *err)
{
    struct fake_gpu *gpu = &fake.gpus[index];
    int result;

    assert(fake.call_count < FAKE_MOST_CALLS);
    fake.calls[fake.call_count++] = (struct fake_call){index, sm_mhz, fake_time_ns};
    result = fake_set(index, err);
    if (result < 0)
        return result;
    if (gpu->ineffective > 0) {
        gpu->ineffective--;
        return 0;
    }
    fake_run_meter(gpu);
    gpu->old_mhz = fake_sm_mhz(gpu);
    gpu->locked_mhz = sm_mhz;
    gpu->effect_ns = fake_time_ns + gpu->settling_ns;
    return 0;
}

uint32_t lull_devices_count(const struct lull_devices *devices)
{
    (void)devices;
    return fake.count;
}

const char *lull_devices_driver_version(const struct lull_devices *devices)
{
    (void)devices;
    return "550.54.15";
}

const struct lull_device_info *lull_device_info(const struct lull_devices *devices, uint32_t gpu)
{
    (void)devices;
    return &fake.gpus[gpu].info;
}

int lull_device_find(const struct lull_devices *devices, const char *uuid)
{
    (void)devices;
    for (uint32_t i = 0; i < fake.count; i++)
        if (strcmp(fake.gpus[i].info.uuid, uuid) == 0)
            return (int)i;
    return -ENODEV;
}

void lull_device_read(struct lull_devices *devices, uint32_t index, uint32_t wanted,
                      struct lull_device_reading *reading_out)
{
    struct fake_gpu *gpu = &fake.gpus[index];
    const uint32_t valid = wanted & ~gpu->unreadable;

    (void)devices;
    fake.is_lost = fake.is_lost || gpu->loses_driver;
    fake_run_meter(gpu);
    *reading_out = (struct lull_device_reading){.valid = valid};
    if ((valid & LULL_READING_SM_CLOCK) != 0)
        reading_out->sm_mhz = fake_sm_mhz(gpu);
    if ((valid & LULL_READING_REASONS) != 0)
        reading_out->reasons = gpu->reasons;
    if ((valid & LULL_READING_POWER_LIMIT) != 0)
        reading_out->power_limit_mw = gpu->limit_mw;
    if ((valid & LULL_READING_ENERGY) != 0)
        reading_out->energy_mj = gpu->shown_mj;
    if ((valid & LULL_READING_PROFILES) != 0)
        reading_out->requested_profiles = reading_out->enforced_profiles = gpu->requested_profiles;
    if ((valid & LULL_READING_SMOOTHING) != 0)
        reading_out->is_smoothing = gpu->smoothing.items[LULL_SMOOTHING_STATE] != 0;
}

int lull_device_lock_sm(struct lull_devices *devices, uint32_t gpu, uint32_t min_mhz,
                        uint32_t max_mhz, struct lull_error *err)
{
    (void)devices;
    assert(min_mhz == max_mhz);
    return fake_set_clock(gpu, max_mhz, err);
}

int lull_device_reset_sm(struct lull_devices *devices, uint32_t gpu, struct lull_error *err)
{
    (void)devices;
    return fake_set_clock(gpu, 0, err);
}

int lull_device_reset_memory(struct lull_devices *devices, uint32_t gpu, struct lull_error *err)
{
    (void)devices;
    fake.gpus[gpu].memory_resets++;
    return fake_set(gpu, err);
}

int lull_device_set_power_limit(struct lull_devices *devices, uint32_t index, uint32_t limit_mw,
                                struct lull_error *err)
{
    struct fake_gpu *gpu = &fake.gpus[index];
    int result = fake_set(index, err);

    (void)devices;
    gpu->limit_calls++;
    if (result < 0)
        return result;
    gpu->limit_mw = limit_mw < gpu->least_limit_mw ? gpu->least_limit_mw : limit_mw;
    return 0;
}

int lull_device_add_profiles(struct lull_devices *devices, uint32_t index, uint32_t profiles,
                             struct lull_error *err)
{
    const int result = fake_set(index, err);

    (void)devices;
    if (result == 0 && !fake.gpus[index].ignores_profiles)
        fake.gpus[index].requested_profiles |= profiles;
    return result;
}

int lull_device_remove_profiles(struct lull_devices *devices, uint32_t index, uint32_t profiles,
                                struct lull_error *err)
{
    const int result = fake_set(index, err);

    (void)devices;
    if (result == 0 && !fake.gpus[index].ignores_profiles)
        fake.gpus[index].requested_profiles &= ~profiles;
    return result;
}

int lull_device_read_smoothing(struct lull_devices *devices, uint32_t index,
                               struct lull_smoothing_settings *settings_out, struct lull_error *err)
{
    (void)devices;
    (void)err;
    *settings_out = fake.gpus[index].smoothing;
    return 0;
}

int lull_device_set_smoothing(struct lull_devices *devices, uint32_t index,
                              enum lull_smoothing_item item, uint32_t value, struct lull_error *err)
{
    const int result = fake_set(index, err);

    (void)devices;
    if (result == 0 && !fake.gpus[index].ignores_smoothing)
        fake.gpus[index].smoothing.items[item] = value;
    return result;
}

int lull_devices_release(struct lull_devices *devices)
{
    (void)devices;
    fake.is_closed = true;
    return 0;
}

int lull_devices_attach(struct lull_devices *devices, struct lull_error *err)
{
    (void)devices;
    fake.attempts++;
    if (fake.attach_failures > 0) {
        fake.attach_failures--;
        return lull_error_set(err, LULL_E_NO_DEVICE, "no driver, as it was told");
    }
    fake.is_closed = false;
    return 0;
}

int lull_device_check(struct lull_devices *devices, uint32_t index,
                      struct lull_device_update *update_out, struct lull_error *err)
{
    struct fake_gpu *gpu = &fake.gpus[index];

    (void)devices;
    *update_out = gpu->update;
    gpu->update = (struct lull_device_update){.is_partitioned = gpu->update.is_partitioned};
    update_out->sm_mhz = fake_sm_mhz(gpu);
    gpu->is_open = true;
    gpu->checks++;
    return fake_set(index, err);
}

void lull_device_release(struct lull_devices *devices, uint32_t gpu)
{
    (void)devices;
    fake.gpus[gpu].is_open = false;
}

#endif
