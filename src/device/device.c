/* The GPUs of this node, behind the functions of the vendor that made them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/amdsmi.h"
#include "device/levelzero.h"
#include "device/nvml.h"
#include "device/turn.h"

struct lull_devices {
    const struct lull_vendor *vendor;
    void *state;
    uint32_t count;
    struct lull_device_info infos[];
};

/* The vendors in the order in which they are tried. */
static const struct lull_vendor *const vendors[] = {&lull_nvml_vendor, &lull_amdsmi_vendor,
                                                    &lull_levelzero_vendor};

enum { VENDOR_COUNT = sizeof(vendors) / sizeof(vendors[0]) };

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

/* Passes the error on. Where no driver is installed there is no device either, so -ENOENT becomes
 * LULL_E_NO_DEVICE. */
static int fail_open(const struct lull_error *error, struct lull_error *err)
{
    if (error->code != -ENOENT)
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
        if (result != -ENOENT && result != LULL_E_NO_DEVICE)
            return fail_open(&error, err);
        if (i == first || (kept.code == -ENOENT && result != -ENOENT))
            kept = error;
    }
    return fail_open(&kept, err);
}

int lull_devices_open(struct lull_devices **devices_out, struct lull_error *err)
{
    const struct lull_vendor *vendor;
    struct lull_devices *devices;
    void *state;
    uint32_t count;
    int result = open_vendor(&vendor, &state, &count, err);

    if (result < 0)
        return result;
    devices = calloc(1, sizeof(*devices) + count * sizeof(devices->infos[0]));
    if (devices == NULL) {
        vendor->close(state);
        return lull_error_set(err, -ENOMEM, "no memory for %u GPUs", count);
    }
    devices->vendor = vendor;
    devices->state = state;
    devices->count = count;
    for (uint32_t gpu = 0; gpu < count; gpu++)
        vendor->describe(state, gpu, &devices->infos[gpu]);
    *devices_out = devices;
    return 0;
}

void lull_devices_close(struct lull_devices *devices)
{
    if (devices == NULL)
        return;
    devices->vendor->close(devices->state);
    free(devices);
}

uint32_t lull_devices_count(const struct lull_devices *devices)
{
    return devices->count;
}

const char *lull_devices_vendor(const struct lull_devices *devices)
{
    return devices->vendor->name;
}

const char *lull_devices_driver_version(const struct lull_devices *devices)
{
    return devices->vendor->driver_version(devices->state);
}

const struct lull_device_info *lull_device_info(const struct lull_devices *devices, uint32_t gpu)
{
    return &devices->infos[gpu];
}

int lull_device_find(const struct lull_devices *devices, const char *uuid)
{
    for (uint32_t gpu = 0; gpu < devices->count; gpu++)
        if (uuid[0] != '\0' && strcmp(devices->infos[gpu].uuid, uuid) == 0)
            return (int)gpu;
    return -ENODEV;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

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

static int check_limits(const struct lull_device_info *info, const struct lull_band *band,
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
        result = check_limits(info, band, err);
    if (result < 0)
        return result;
    band->min_mhz = larger(band->min_mhz, info->sm_clocks_mhz[info->sm_clock_count - 1]);
    band->max_mhz = smaller(band->max_mhz, info->sm_clocks_mhz[0]);
    if (has_limits) {
        band->min_limit_mw = larger(band->min_limit_mw, info->power_limit_min_mw);
        band->max_limit_mw = smaller(band->max_limit_mw, info->power_limit_max_mw);
    }
    return 0;
}

void lull_device_read(struct lull_devices *devices, uint32_t gpu, uint32_t wanted,
                      struct lull_device_reading *reading_out)
{
    *reading_out = (struct lull_device_reading){0};
    lull_turn_call_begin(gpu);
    for (uint32_t field = 1; field <= LULL_READING_ALL; field <<= 1)
        if ((wanted & field) != 0 &&
            devices->vendor->read(devices->state, gpu, (enum lull_reading_field)field, reading_out))
            reading_out->valid |= field;
    lull_turn_call_end();
}

int lull_device_lock_sm(struct lull_devices *devices, uint32_t gpu, uint32_t min_mhz,
                        uint32_t max_mhz, struct lull_error *err)
{
    int result;

    lull_turn_call_begin(gpu);
    result = devices->vendor->lock_sm(devices->state, gpu, min_mhz, max_mhz, err);
    lull_turn_call_end();
    return result;
}

int lull_device_reset_sm(struct lull_devices *devices, uint32_t gpu, struct lull_error *err)
{
    int result;

    lull_turn_call_begin(gpu);
    result = devices->vendor->reset_sm(devices->state, gpu, err);
    lull_turn_call_end();
    return result;
}

int lull_device_reset_memory(struct lull_devices *devices, uint32_t gpu, struct lull_error *err)
{
    int result;

    if (devices->vendor->reset_memory == NULL)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "GPU %u: cannot reset the memory clock: its vendor's driver has no "
                              "such function",
                              gpu);
    lull_turn_call_begin(gpu);
    result = devices->vendor->reset_memory(devices->state, gpu, err);
    lull_turn_call_end();
    return result;
}

int lull_device_set_power_limit(struct lull_devices *devices, uint32_t gpu, uint32_t limit_mw,
                                struct lull_error *err)
{
    int result;

    lull_turn_call_begin(gpu);
    result = devices->vendor->set_power_limit(devices->state, gpu, limit_mw, err);
    lull_turn_call_end();
    return result;
}
