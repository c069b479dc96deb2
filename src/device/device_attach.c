/* Opens and closes the driver of the vendor that has GPUs, and learns their facts.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "device/amdsmi.h"
#include "device/device_state.h"
#include "device/fault.h"
#include "device/levelzero.h"
#include "device/nvml.h"

/* A counter that says 0 is read again after this time, which is several refreshes, and counts as
 * none if it still says 0. */
#define ZERO_COUNTER_NS (300 * LULL_NS_PER_MS)

/* The vendors in the order in which they are tried. */
static const struct lull_vendor *const vendors[] = {&lull_nvml_vendor, &lull_amdsmi_vendor,
                                                    &lull_levelzero_vendor};

enum { VENDOR_COUNT = sizeof(vendors) / sizeof(vendors[0]) };

/* --- what is attached --- */

uint32_t lull_devices_count(const struct lull_devices *devices)
{
    return atomic_load(&devices->count);
}

const char *lull_devices_vendor(const struct lull_devices *devices)
{
    return devices->vendor != NULL ? devices->vendor->name : "";
}

const char *lull_devices_driver_version(const struct lull_devices *devices)
{
    return devices->driver_version;
}

const struct lull_device_info *lull_device_info(const struct lull_devices *devices, uint32_t gpu)
{
    const struct lull_device_info *late = atomic_load(&devices->late_infos[gpu]);

    return late != NULL ? late : &devices->infos[gpu];
}

int lull_device_find(const struct lull_devices *devices, const char *uuid)
{
    for (uint32_t gpu = 0; gpu < atomic_load(&devices->count); gpu++)
        if (uuid[0] != '\0' && strcmp(lull_device_info(devices, gpu)->uuid, uuid) == 0)
            return (int)gpu;
    return -ENODEV;
}

/* --- the vendor --- */

/* Chooses the vendors that are tried, as the range [*first, *end) of the table: the one that
 * LULL_VENDOR names, or all of them. */
static int choose_vendors(uint32_t *first, uint32_t *end, struct lull_error *err)
{
    const char *name = getenv("LULL_VENDOR");

    *first = 0;
    *end = VENDOR_COUNT;
    /* Without the variable every vendor is tried. */
    if (name == NULL || name[0] == '\0')
        return 0;
    while (*first < VENDOR_COUNT && strcmp(vendors[*first]->name, name) != 0)
        (*first)++;
    *end = *first + 1;
    if (*first == VENDOR_COUNT)
        return lull_error_set(err, -EINVAL, "LULL_VENDOR=%.40s: expected nvidia, amd or intel",
                              name);
    return 0;
}

/* Passes the error on. If no driver is installed or loaded there is no device either. */
static int fail_open(const struct lull_error *error, struct lull_error *err)
{
    if (error->code != -ENOENT && error->code != LULL_E_NO_DRIVER)
        return lull_error_set(err, error->code, "%s", error->text);
    return lull_error_set(err, LULL_E_NO_DEVICE, "%s", error->text);
}

/* Opens the first vendor that has a GPU. If a driver is installed and fails for another reason than
 * having no GPU, the search ends: the GPUs of another vendor must not take the place of one that is
 * broken. */
static int open_vendor(const struct lull_vendor **vendor_out, void **state_out, uint32_t *count_out,
                       struct lull_error *err)
{
    struct lull_error kept = {0};
    uint32_t first;
    uint32_t end;
    int result = choose_vendors(&first, &end, err);

    if (result < 0)
        return result;
    for (uint32_t i = first; i < end; i++) {
        struct lull_error error = {0};

        result = vendors[i]->open(state_out, count_out, &error);
        if (result == 0) {
            *vendor_out = vendors[i];
            return 0;
        }
        if (result != -ENOENT && result != LULL_E_NO_DEVICE && result != LULL_E_NO_DRIVER)
            return fail_open(&error, err);
        if (i == first || (kept.code == -ENOENT && result != -ENOENT))
            kept = error;
    }
    return fail_open(&kept, err);
}

/* Opens the vendor that these GPUs are of, or, where there are none yet, the first that has one. */
static int attach_library(struct lull_devices *devices, uint32_t *count_out, struct lull_error *err)
{
    struct lull_error error;
    int result;

    if (devices->vendor == NULL)
        return open_vendor(&devices->vendor, &devices->state, count_out, err);
    result = devices->vendor->open(&devices->state, count_out, &error);
    return result < 0 ? fail_open(&error, err) : 0;
}

/* Returns whether the driver says of a counter that nothing was ever drawn. */
static bool is_counter_zero(struct lull_devices *devices, uint32_t gpu)
{
    struct lull_device_reading reading = {0};

    return (devices->infos[gpu].capabilities & LULL_CAPABILITY_ENERGY_COUNTER) != 0 &&
           devices->vendor->read(devices->state, gpu, LULL_READING_ENERGY, &reading) &&
           reading.energy_mj == 0;
}

/* A counter that stays at 0 is no counter. */
static void drop_zero_counters(struct lull_devices *devices, uint32_t listed)
{
    uint64_t zero = 0;

    for (uint32_t gpu = 0; gpu < listed; gpu++)
        zero |= (uint64_t)is_counter_zero(devices, gpu) << gpu;
    if (zero == 0)
        return;
    lull_sleep_until_ns(lull_now_ns() + ZERO_COUNTER_NS);
    for (uint32_t gpu = 0; gpu < listed; gpu++)
        if ((zero >> gpu & 1) != 0 && is_counter_zero(devices, gpu))
            devices->infos[gpu].capabilities &= ~(uint32_t)LULL_CAPABILITY_ENERGY_COUNTER;
}

int lull_device_describe(struct lull_devices *devices, uint32_t slot,
                         struct lull_device_info *info_out, struct lull_error *err)
{
    *info_out = (struct lull_device_info){0};
    info_out->status = devices->vendor->describe(devices->state, slot, info_out, err);
    if (info_out->status < 0 && info_out->uuid[0] == '\0') {
        *info_out = (struct lull_device_info){.status = info_out->status};
        snprintf(info_out->name, sizeof(info_out->name), "not opened: %.80s", err->text);
    }
    return info_out->status;
}

/* The same when the driver was just opened: one that is only busy is called again soon. */
static void attach_describe_first(struct lull_devices *devices, uint32_t gpu)
{
    struct lull_device_info *info = &devices->infos[gpu];
    struct lull_error error = {0};

    for (uint32_t failures = 1;
         lull_device_describe(devices, gpu, info, &error) < 0 &&
         lull_fault_of(info->status) == LULL_FAULT_PASSING && failures <= LULL_FAULT_RETRIES;
         failures++)
        lull_sleep_until_ns(lull_now_ns() + lull_fault_pause_ns(LULL_FAULT_PASSING, failures));
    if (info->status < 0)
        lull_log(LULL_LOG_WARNING, "device", "GPU %u: %s: %s", gpu,
                 info->uuid[0] == '\0' ? "not opened" : "not described completely", error.text);
    if (info->has_only_module_power)
        lull_log(LULL_LOG_WARNING, "device",
                 "GPU %u: the driver reports only the power of GPU and CPU together; the GPU's own "
                 "is not known, its energy is that of its own counter, and its power limit, which "
                 "is the module's, is not changed",
                 gpu);
}

/* Takes all GPUs of a driver that was just opened. */
static void attach_take_all(struct lull_devices *devices, uint32_t listed)
{
    for (uint32_t gpu = 0; gpu < listed; gpu++) {
        attach_describe_first(devices, gpu);
        atomic_store(&devices->slots[gpu], gpu);
    }
    drop_zero_counters(devices, listed);
    atomic_store(&devices->count, listed);
}

/* Finds the known GPUs among those that a driver lists, which may have other numbers than before.
 */
static int attach_match(struct lull_devices *devices, uint32_t listed, struct lull_error *err)
{
    struct lull_device_info *info = malloc(sizeof(*info));

    if (info == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %u GPUs", listed);
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        atomic_store(&devices->slots[gpu], LULL_DEVICE_ABSENT);
    for (uint32_t slot = 0; slot < listed; slot++) {
        struct lull_error error = {0};
        int gpu;

        lull_device_describe(devices, slot, info, &error);
        gpu = lull_device_find(devices, info->uuid);
        /* One that the driver does not open has no UUID, and its number is all that is known. */
        if (info->uuid[0] == '\0' && lull_device_info(devices, slot)->uuid[0] == '\0')
            gpu = (int)slot;
        if (gpu >= 0)
            atomic_store(&devices->slots[gpu], slot);
        else if (info->uuid[0] != '\0')
            lull_log(LULL_LOG_WARNING, "device",
                     "%s: a GPU that was added after this process started; it is not managed until "
                     "the next start",
                     info->uuid);
    }
    free(info);
    return 0;
}

int lull_devices_attach(struct lull_devices *devices, struct lull_error *err)
{
    uint32_t listed;
    int result = attach_library(devices, &listed, err);

    if (result < 0)
        return result;
    devices->listed = listed;
    if (atomic_load(&devices->count) == 0)
        attach_take_all(devices, listed);
    else
        result = attach_match(devices, listed, err);
    snprintf(devices->driver_version, sizeof(devices->driver_version), "%s",
             devices->vendor->driver_version(devices->state));
    atomic_store(&devices->is_open, true);
    if (result < 0)
        lull_devices_release(devices);
    return result;
}

int lull_devices_release(struct lull_devices *devices)
{
    atomic_store(&devices->is_open, false);
    if (atomic_load(&devices->inside) > 0)
        return -EBUSY;
    if (devices->state != NULL)
        devices->vendor->close(devices->state);
    devices->state = NULL;
    return 0;
}

int lull_devices_open_later(struct lull_devices **devices_out, struct lull_error *err)
{
    struct lull_devices *devices = calloc(1, sizeof(*devices));

    if (devices == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the GPUs");
    *devices_out = devices;
    return 0;
}

int lull_devices_open(struct lull_devices **devices_out, struct lull_error *err)
{
    struct lull_devices *devices = NULL;
    int result = lull_devices_open_later(&devices, err);

    if (result == 0)
        result = lull_devices_attach(devices, err);
    if (result < 0) {
        free(devices);
        return result;
    }
    *devices_out = devices;
    return 0;
}

void lull_devices_close(struct lull_devices *devices)
{
    if (devices == NULL)
        return;
    if (devices->state != NULL)
        devices->vendor->close(devices->state);
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        free(devices->late_infos[gpu]);
    free(devices);
}
