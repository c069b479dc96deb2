/* The GPUs of this node, behind the functions of the vendor that made them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "device/device_state.h"
#include "device/driver_owner.h"

/* No GPU has drawn more since its driver was loaded: 1500 W for 20 years. */
#define MAX_ENERGY_MJ UINT64_C(1000000000000000)

/* --- calls of the driver --- */

/* Begins a call; LULL_DEVICE_ABSENT: it cannot be made. */
static uint32_t begin_check(struct lull_devices *devices, uint32_t gpu)
{
    uint32_t slot = LULL_DEVICE_ABSENT;

    atomic_fetch_add(&devices->inside, 1);
    if (atomic_load(&devices->is_open))
        slot = atomic_load(&devices->slots[gpu]);
    if (slot == LULL_DEVICE_ABSENT)
        atomic_fetch_sub(&devices->inside, 1);
    else
        lull_driver_owner_call_begin(gpu);
    return slot;
}

/* Returns whether the driver has opened a GPU, so that it can be called. */
static bool is_described(const struct lull_device_info *info)
{
    return info->status == 0 || info->uuid[0] != '\0';
}

/* Begins a call of a GPU. LULL_DEVICE_ABSENT: the driver has not opened it, or it is gone. */
static uint32_t device_begin_call(struct lull_devices *devices, uint32_t gpu)
{
    return is_described(lull_device_info(devices, gpu)) ? begin_check(devices, gpu)
                                                        : LULL_DEVICE_ABSENT;
}

/* Ends it. False: the driver was given up meanwhile, so what the call says is void. */
static bool device_end_call(struct lull_devices *devices)
{
    lull_driver_owner_call_end();
    atomic_fetch_sub(&devices->inside, 1);
    return atomic_load(&devices->is_open);
}

static int fail_absent(struct lull_devices *devices, uint32_t gpu, struct lull_error *err)
{
    if (!atomic_load(&devices->is_open))
        return lull_error_set(err, LULL_E_NO_DRIVER, "GPU %u: its driver is away", gpu);
    if (!is_described(lull_device_info(devices, gpu)))
        return lull_error_set(err, LULL_E_NO_DEVICE, "GPU %u: %s", gpu,
                              lull_device_info(devices, gpu)->name);
    return lull_error_set(err, LULL_E_NO_DEVICE, "GPU %u: the driver does not have it any more",
                          gpu);
}

/* Returns whether a field that was read can be true of the GPU. */
static bool is_plausible(const struct lull_device_info *info, uint32_t field,
                         const struct lull_device_reading *reading)
{
    const struct lull_power_range range = lull_device_power_range(info);

    if (field == LULL_READING_POWER)
        return lull_power_is_plausible(&range, reading->power_mw * 1e-3);
    return field != LULL_READING_ENERGY || reading->energy_mj < MAX_ENERGY_MJ;
}

/* Reads one field, or refuses what is read. */
static void device_read_field(struct lull_devices *devices, uint32_t gpu, uint32_t slot,
                              uint32_t field, struct lull_device_reading *reading)
{
    const struct lull_device_info *info = lull_device_info(devices, gpu);

    if (field == LULL_READING_ENERGY && (info->capabilities & LULL_CAPABILITY_ENERGY_COUNTER) == 0)
        return;
    if (!devices->vendor->read(devices->state, slot, (enum lull_reading_field)field, reading))
        return;
    if (is_plausible(info, field, reading))
        reading->valid |= field;
    else
        reading->refused |= field;
}

void lull_device_read(struct lull_devices *devices, uint32_t gpu, uint32_t wanted,
                      struct lull_device_reading *reading_out)
{
    const uint32_t slot = device_begin_call(devices, gpu);

    *reading_out = (struct lull_device_reading){0};
    if (slot == LULL_DEVICE_ABSENT)
        return;
    for (uint32_t field = 1; field <= LULL_READING_SMOOTHING; field <<= 1)
        if ((wanted & field) != 0)
            device_read_field(devices, gpu, slot, field, reading_out);
    if (!device_end_call(devices))
        *reading_out = (struct lull_device_reading){0};
}

/* Drivers number processes as the host does; emulated ones as the process that opened the GPU. */
static uint64_t pid_space(void)
{
    return getenv(LULL_EMULATED_NODE_VARIABLE) != NULL ? lull_process_pid_space()
                                                       : LULL_PROCESS_HOST_SPACE;
}

void lull_device_list_processes(struct lull_devices *devices, uint32_t gpu,
                                struct lull_device_processes *processes_out)
{
    uint32_t slot;

    processes_out->is_known = false;
    if (devices->vendor == NULL || devices->vendor->list_processes == NULL)
        return;
    slot = device_begin_call(devices, gpu);
    if (slot == LULL_DEVICE_ABSENT)
        return;
    processes_out->pid_space = pid_space();
    devices->vendor->list_processes(devices->state, slot, processes_out);
    if (!device_end_call(devices))
        processes_out->is_known = false;
}

void lull_device_keep_reading(struct lull_device_reading *kept, uint32_t wanted,
                              const struct lull_device_reading *reading)
{
    const uint32_t valid = reading->valid & wanted;

    if ((valid & LULL_READING_SM_CLOCK) != 0)
        kept->sm_mhz = reading->sm_mhz;
    if ((valid & LULL_READING_MEMORY_CLOCK) != 0)
        kept->memory_mhz = reading->memory_mhz;
    if ((valid & LULL_READING_POWER) != 0)
        kept->power_mw = reading->power_mw;
    if ((valid & LULL_READING_ENERGY) != 0)
        kept->energy_mj = reading->energy_mj;
    if ((valid & LULL_READING_TEMPERATURE) != 0)
        kept->temperature_c = reading->temperature_c;
    if ((valid & LULL_READING_REASONS) != 0)
        kept->reasons = reading->reasons;
    if ((valid & LULL_READING_POWER_LIMIT) != 0)
        kept->power_limit_mw = reading->power_limit_mw;
    if ((valid & LULL_READING_UTILIZATION) != 0)
        kept->utilization_percent = reading->utilization_percent;
    if ((valid & LULL_READING_XIDS) != 0) {
        kept->xid_count = reading->xid_count;
        kept->last_xid = reading->last_xid;
    }
    if ((valid & LULL_READING_PROFILES) != 0) {
        kept->requested_profiles = reading->requested_profiles;
        kept->enforced_profiles = reading->enforced_profiles;
    }
    if ((valid & LULL_READING_SMOOTHING) != 0) {
        kept->is_smoothing = reading->is_smoothing;
        kept->smoothing_floor_w = reading->smoothing_floor_w;
    }
    kept->valid = (kept->valid & ~wanted) | valid;
    kept->refused = (kept->refused & ~wanted) | (reading->refused & wanted);
}

/* Ends a call that has a result. */
static int leave_with(struct lull_devices *devices, uint32_t gpu, int result,
                      struct lull_error *err)
{
    return device_end_call(devices) ? result : fail_absent(devices, gpu, err);
}

int lull_device_lock_sm(struct lull_devices *devices, uint32_t gpu, uint32_t min_mhz,
                        uint32_t max_mhz, struct lull_error *err)
{
    const uint32_t slot = device_begin_call(devices, gpu);

    if (slot == LULL_DEVICE_ABSENT)
        return fail_absent(devices, gpu, err);
    return leave_with(devices, gpu,
                      devices->vendor->lock_sm(devices->state, slot, min_mhz, max_mhz, err), err);
}

/* Frees the clock. Some drivers lock clocks and refuse to reset them; a lock from the lowest clock
 * to the highest is as good. */
static int free_clock(struct lull_devices *devices, uint32_t gpu, uint32_t slot,
                      struct lull_error *err)
{
    const struct lull_device_info *info = lull_device_info(devices, gpu);
    const int result = devices->vendor->reset_sm(devices->state, slot, err);

    if ((result != LULL_E_UNSUPPORTED && result != -EINVAL) || info->sm_clock_count == 0 ||
        devices->vendor->lock_sm(devices->state, slot,
                                 info->sm_clocks_mhz[info->sm_clock_count - 1],
                                 info->sm_clocks_mhz[0], NULL) < 0)
        return result;
    return 0;
}

int lull_device_reset_sm(struct lull_devices *devices, uint32_t gpu, struct lull_error *err)
{
    const uint32_t slot = device_begin_call(devices, gpu);

    if (slot == LULL_DEVICE_ABSENT)
        return fail_absent(devices, gpu, err);
    return leave_with(devices, gpu, free_clock(devices, gpu, slot, err), err);
}

int lull_device_reset_memory(struct lull_devices *devices, uint32_t gpu, struct lull_error *err)
{
    uint32_t slot;

    if (devices->vendor->reset_memory == NULL)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "GPU %u: cannot reset the memory clock: its vendor's driver has no "
                              "such function",
                              gpu);
    slot = device_begin_call(devices, gpu);
    if (slot == LULL_DEVICE_ABSENT)
        return fail_absent(devices, gpu, err);
    return leave_with(devices, gpu, devices->vendor->reset_memory(devices->state, slot, err), err);
}

int lull_device_set_power_limit(struct lull_devices *devices, uint32_t gpu, uint32_t limit_mw,
                                struct lull_error *err)
{
    const uint32_t slot = device_begin_call(devices, gpu);

    if (slot == LULL_DEVICE_ABSENT)
        return fail_absent(devices, gpu, err);
    return leave_with(devices, gpu,
                      devices->vendor->set_power_limit(devices->state, slot, limit_mw, err), err);
}

static int change_profiles(struct lull_devices *devices, uint32_t gpu, uint32_t profiles,
                           bool is_added, struct lull_error *err)
{
    uint32_t slot;

    if (devices->vendor->change_profiles == NULL)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "GPU %u: cannot change power profiles: its vendor's driver has none",
                              gpu);
    slot = device_begin_call(devices, gpu);
    if (slot == LULL_DEVICE_ABSENT)
        return fail_absent(devices, gpu, err);
    return leave_with(
        devices, gpu,
        devices->vendor->change_profiles(devices->state, slot, profiles, is_added, err), err);
}

int lull_device_add_profiles(struct lull_devices *devices, uint32_t gpu, uint32_t profiles,
                             struct lull_error *err)
{
    return change_profiles(devices, gpu, profiles, true, err);
}

int lull_device_remove_profiles(struct lull_devices *devices, uint32_t gpu, uint32_t profiles,
                                struct lull_error *err)
{
    return change_profiles(devices, gpu, profiles, false, err);
}

static int fail_smoothing(uint32_t gpu, struct lull_error *err)
{
    return lull_error_set(err, LULL_E_UNSUPPORTED,
                          "GPU %u: its vendor's driver has no power smoothing", gpu);
}

int lull_device_read_smoothing(struct lull_devices *devices, uint32_t gpu,
                               struct lull_smoothing_settings *settings_out, struct lull_error *err)
{
    uint32_t slot;

    if (devices->vendor->read_smoothing == NULL)
        return fail_smoothing(gpu, err);
    slot = device_begin_call(devices, gpu);
    if (slot == LULL_DEVICE_ABSENT)
        return fail_absent(devices, gpu, err);
    return leave_with(devices, gpu,
                      devices->vendor->read_smoothing(devices->state, slot, settings_out, err),
                      err);
}

int lull_device_set_smoothing(struct lull_devices *devices, uint32_t gpu,
                              enum lull_smoothing_item item, uint32_t value, struct lull_error *err)
{
    uint32_t slot;

    if (devices->vendor->set_smoothing == NULL)
        return fail_smoothing(gpu, err);
    slot = device_begin_call(devices, gpu);
    if (slot == LULL_DEVICE_ABSENT)
        return fail_absent(devices, gpu, err);
    return leave_with(devices, gpu,
                      devices->vendor->set_smoothing(devices->state, slot, item, value, err), err);
}

/* --- what happens to GPUs --- */

/* Finds a GPU among those that the driver lists. */
static int find_listed(struct lull_devices *devices, const char *uuid, uint32_t *slot_out)
{
    struct lull_device_info *info = malloc(sizeof(*info));
    int result = LULL_E_NO_DEVICE;

    for (uint32_t slot = 0; info != NULL && result < 0 && slot < devices->listed; slot++) {
        struct lull_error error = {0};

        lull_device_describe(devices, slot, info, &error);
        if (strcmp(info->uuid, uuid) != 0)
            continue;
        *slot_out = slot;
        result = 0;
    }
    free(info);
    return result;
}

/* Looks for a GPU that the driver had no number for. */
static void find_absent(struct lull_devices *devices, uint32_t gpu)
{
    const char *uuid = lull_device_info(devices, gpu)->uuid;
    int result = LULL_E_NO_DEVICE;
    uint32_t slot;

    atomic_fetch_add(&devices->inside, 1);
    lull_driver_owner_call_begin(gpu);
    if (atomic_load(&devices->is_open) && uuid[0] != '\0')
        result = devices->vendor->find != NULL
                     ? devices->vendor->find(devices->state, uuid, &slot, NULL)
                     : find_listed(devices, uuid, &slot);
    if (result == 0)
        atomic_store(&devices->slots[gpu], slot);
    device_end_call(devices);
}

/* For a vendor that reports no news, reading the GPU still shows whether it is there. */
static int check_slot(struct lull_devices *devices, uint32_t slot,
                      struct lull_device_update *update, struct lull_error *err)
{
    struct lull_device_reading reading;

    if (devices->vendor->check != NULL)
        return devices->vendor->check(devices->state, slot, update, err);
    if (!devices->vendor->read(devices->state, slot, LULL_READING_SM_CLOCK, &reading))
        return lull_error_set(err, -EAGAIN, "GPU %u: its SM clock cannot be read", slot);
    update->sm_mhz = reading.sm_mhz;
    return 0;
}

/* Learns the facts of a GPU that the driver describes only now. Errors: LULL_E_NO_DEVICE it does
 * not open it yet. */
static int describe_late(struct lull_devices *devices, uint32_t gpu, uint32_t slot,
                         struct lull_error *err)
{
    const struct lull_device_info *known = lull_device_info(devices, gpu);
    struct lull_error error = {0};
    struct lull_device_info *info;
    int result;

    if (known->status == 0)
        return 0;
    info = malloc(sizeof(*info));
    result = info == NULL ? lull_error_set(&error, -ENOMEM, "no memory for its facts")
                          : lull_device_describe(devices, slot, info, &error);
    if (result == 0) {
        atomic_store(&devices->late_infos[gpu], info);
        lull_log(LULL_LOG_INFO, "device", "GPU %u: the driver has opened it: %s (uuid=%s)", gpu,
                 info->name, info->uuid);
        return 0;
    }
    free(info);
    if (is_described(known))
        return 0;
    return lull_error_set(err, LULL_E_NO_DEVICE, "GPU %u: the driver does not open it: %s", gpu,
                          error.text);
}

int lull_device_check(struct lull_devices *devices, uint32_t gpu,
                      struct lull_device_update *update_out, struct lull_error *err)
{
    uint32_t slot;
    int result;

    *update_out = (struct lull_device_update){0};
    if (atomic_load(&devices->slots[gpu]) == LULL_DEVICE_ABSENT)
        find_absent(devices, gpu);
    slot = begin_check(devices, gpu);
    if (slot == LULL_DEVICE_ABSENT)
        return fail_absent(devices, gpu, err);
    result = describe_late(devices, gpu, slot, err);
    if (result == 0)
        result = check_slot(devices, slot, update_out, err);
    return leave_with(devices, gpu, result, err);
}

void lull_device_release(struct lull_devices *devices, uint32_t gpu)
{
    const uint32_t slot = device_begin_call(devices, gpu);

    if (slot == LULL_DEVICE_ABSENT)
        return;
    if (devices->vendor->release != NULL) {
        devices->vendor->release(devices->state, slot);
        atomic_store(&devices->slots[gpu], LULL_DEVICE_ABSENT);
    }
    device_end_call(devices);
}
