/* The GPUs of this node, behind the functions of the vendor that made them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "device/amdsmi.h"
#include "device/fault.h"
#include "device/levelzero.h"
#include "device/nvml.h"
#include "device/driver_owner.h"

/* The driver's number of a GPU that it does not have at present. */
#define ABSENT UINT32_MAX

/* No GPU has drawn more since its driver was loaded: 1500 W for 20 years. */
#define MAX_ENERGY_MJ UINT64_C(1000000000000000)

/* A counter that says 0 is read again after this time, which is several refreshes, and counts as
 * none if it still says 0. */
#define ZERO_COUNTER_NS (300 * LULL_NS_PER_MS)

struct lull_devices {
    const struct lull_vendor *vendor; /* NULL: none has been found yet */
    void *state;                      /* NULL: the library is closed */
    /* A call counts itself in before it looks whether the driver is open, and a release closes it
     * before it looks at the count: so no call is ever inside a library that is being closed. */
    atomic_bool is_open;
    atomic_uint inside;
    atomic_uint count;
    uint32_t listed;                              /* how many the driver lists */
    _Atomic uint32_t slots[LULL_DEVICE_MAX_GPUS]; /* the driver's numbers of the GPUs */
    char driver_version[96];
    struct lull_device_info infos[LULL_DEVICE_MAX_GPUS];
    /* The facts of GPUs that the driver did not describe at first and describes since; else NULL.
     * They replace those of before, which others may still be reading. */
    _Atomic(struct lull_device_info *) late_infos[LULL_DEVICE_MAX_GPUS];
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

/* Passes the error on. Where no driver is installed or loaded there is no device either. */
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
static int device_open_library(struct lull_devices *devices, uint32_t *count_out,
                               struct lull_error *err)
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

/* Describes a GPU, whether the driver opens it or not. */
static int device_describe(struct lull_devices *devices, uint32_t slot,
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
static void describe_first(struct lull_devices *devices, uint32_t gpu)
{
    struct lull_device_info *info = &devices->infos[gpu];
    struct lull_error error = {0};

    for (uint32_t failures = 1;
         device_describe(devices, gpu, info, &error) < 0 &&
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
static void device_take_all(struct lull_devices *devices, uint32_t listed)
{
    for (uint32_t gpu = 0; gpu < listed; gpu++) {
        describe_first(devices, gpu);
        atomic_store(&devices->slots[gpu], gpu);
    }
    drop_zero_counters(devices, listed);
    atomic_store(&devices->count, listed);
}

/* Finds the known GPUs among those that a driver lists, which may have other numbers than before.
 */
static int match_all(struct lull_devices *devices, uint32_t listed, struct lull_error *err)
{
    struct lull_device_info *info = malloc(sizeof(*info));

    if (info == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %u GPUs", listed);
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        atomic_store(&devices->slots[gpu], ABSENT);
    for (uint32_t slot = 0; slot < listed; slot++) {
        struct lull_error error = {0};
        int gpu;

        device_describe(devices, slot, info, &error);
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
    int result = device_open_library(devices, &listed, err);

    if (result < 0)
        return result;
    devices->listed = listed;
    if (atomic_load(&devices->count) == 0)
        device_take_all(devices, listed);
    else
        result = match_all(devices, listed, err);
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

static uint32_t device_max(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t device_min(uint32_t a, uint32_t b)
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
    band->min_mhz = device_max(band->min_mhz, info->sm_clocks_mhz[info->sm_clock_count - 1]);
    band->max_mhz = device_min(band->max_mhz, info->sm_clocks_mhz[0]);
    if (has_limits) {
        band->min_limit_mw = device_max(band->min_limit_mw, info->power_limit_min_mw);
        band->max_limit_mw = device_min(band->max_limit_mw, info->power_limit_max_mw);
    }
    return 0;
}

/* --- calls of the driver --- */

/* Begins a call; ABSENT: it cannot be made. */
static uint32_t begin_check(struct lull_devices *devices, uint32_t gpu)
{
    uint32_t slot = ABSENT;

    atomic_fetch_add(&devices->inside, 1);
    if (atomic_load(&devices->is_open))
        slot = atomic_load(&devices->slots[gpu]);
    if (slot == ABSENT)
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

/* Begins a call of a GPU. ABSENT: the driver has not opened it, or it is gone. */
static uint32_t device_begin_call(struct lull_devices *devices, uint32_t gpu)
{
    return is_described(lull_device_info(devices, gpu)) ? begin_check(devices, gpu) : ABSENT;
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
    if (slot == ABSENT)
        return;
    for (uint32_t field = 1; field <= LULL_READING_XIDS; field <<= 1)
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
    if (slot == ABSENT)
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

    if (slot == ABSENT)
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

    if (slot == ABSENT)
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
    if (slot == ABSENT)
        return fail_absent(devices, gpu, err);
    return leave_with(devices, gpu, devices->vendor->reset_memory(devices->state, slot, err), err);
}

int lull_device_set_power_limit(struct lull_devices *devices, uint32_t gpu, uint32_t limit_mw,
                                struct lull_error *err)
{
    const uint32_t slot = device_begin_call(devices, gpu);

    if (slot == ABSENT)
        return fail_absent(devices, gpu, err);
    return leave_with(devices, gpu,
                      devices->vendor->set_power_limit(devices->state, slot, limit_mw, err), err);
}

/* --- what happens to GPUs --- */

/* Finds a GPU among those that the driver lists. */
static int find_listed(struct lull_devices *devices, const char *uuid, uint32_t *slot_out)
{
    struct lull_device_info *info = malloc(sizeof(*info));
    int result = LULL_E_NO_DEVICE;

    for (uint32_t slot = 0; info != NULL && result < 0 && slot < devices->listed; slot++) {
        struct lull_error error = {0};

        device_describe(devices, slot, info, &error);
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
                          : device_describe(devices, slot, info, &error);
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
    if (atomic_load(&devices->slots[gpu]) == ABSENT)
        find_absent(devices, gpu);
    slot = begin_check(devices, gpu);
    if (slot == ABSENT)
        return fail_absent(devices, gpu, err);
    result = describe_late(devices, gpu, slot, err);
    if (result == 0)
        result = check_slot(devices, slot, update_out, err);
    return leave_with(devices, gpu, result, err);
}

void lull_device_release(struct lull_devices *devices, uint32_t gpu)
{
    const uint32_t slot = device_begin_call(devices, gpu);

    if (slot == ABSENT)
        return;
    if (devices->vendor->release != NULL) {
        devices->vendor->release(devices->state, slot);
        atomic_store(&devices->slots[gpu], ABSENT);
    }
    device_end_call(devices);
}
