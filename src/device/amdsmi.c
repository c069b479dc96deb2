/* AMD GPUs behind the vendor table: this file describes, reads and sets them through the functions
 * of AMD SMI that amdsmi_library.c has bound. SPDX-License-Identifier: Apache-2.0 */
#include "device/amdsmi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/amdsmi_library.h"

static int amdsmi_check_call(int code, uint32_t gpu, const char *what, struct lull_error *err)
{
    const struct lull_library_meaning *meaning = lull_amdsmi_meaning(code);

    if (meaning->error == 0)
        return 0;
    return lull_error_set(err, meaning->error, "GPU %u: cannot %s: %s (AMD SMI %d)", gpu, what,
                          meaning->text, code);
}

/* Requests a structure from the library. Its length differs between versions, so it goes into a
 * buffer that holds any of them. Returns false if the library lacks the function or does not know
 * the values. */
static bool amdsmi_fetch(amdsmi_call_info *call, const struct amdsmi_die *die,
                         union amdsmi_room *room_out)
{
    *room_out = (union amdsmi_room){.bytes = {0}};
    return call != NULL && call(die->handle, room_out) == AMDSMI_SUCCESS;
}

static const char *amdsmi_driver_version(const void *state)
{
    return ((const struct lull_amdsmi *)state)->driver_version;
}

/* ---- describing ---- */

/* Returns the library's code. */
static int amdsmi_read_clock(struct lull_amdsmi *amdsmi, const struct amdsmi_die *die,
                             uint32_t which, struct amdsmi_clock_info *info_out)
{
    union amdsmi_room room = {.bytes = {0}};
    const int code = amdsmi->clock_info(die->handle, which, &room);

    if (code == AMDSMI_SUCCESS)
        *info_out = room.clock;
    return code;
}

/* Returns whether a value is known: the library writes 16 or 32 bits of ones, or 0, for one that is
 * not. */
static bool is_reported(uint32_t value)
{
    return value != 0 && value != UINT16_MAX && value != UINT32_MAX;
}

/* Some versions of the library return Hz here and others MHz, without saying which. */
static uint32_t as_mhz(uint64_t value)
{
    if (value == UINT64_MAX)
        return 0;
    return (uint32_t)(value >= 1000000 ? value / 1000000 : value);
}

static void amdsmi_widen(struct amdsmi_die *die, uint32_t low_mhz, uint32_t high_mhz)
{
    if (is_reported(low_mhz) && (die->lowest_mhz == 0 || low_mhz < die->lowest_mhz))
        die->lowest_mhz = low_mhz;
    if (is_reported(high_mhz) && high_mhz > die->highest_mhz)
        die->highest_mhz = high_mhz;
}

/* Finds the range in which the clock can be set. The minimum and maximum of the clock itself are
 * those that are allowed at present, and another program may have narrowed them; the overdrive
 * table, where there is one, has the range of the hardware. The widest bounds of both are used.
 * Returns the library's code for the clock. */
static int amdsmi_find_range(struct lull_amdsmi *amdsmi, struct amdsmi_die *die)
{
    struct amdsmi_clock_info clock;
    union amdsmi_room room;
    const int code = amdsmi_read_clock(amdsmi, die, AMDSMI_CLOCK_GFX, &clock);

    if (code == AMDSMI_SUCCESS)
        amdsmi_widen(die, clock.min_mhz, clock.max_mhz);
    if (!amdsmi_fetch(amdsmi->od_info, die, &room))
        return code;
    amdsmi_widen(die, as_mhz(room.od.ranges[0].low), as_mhz(room.od.ranges[0].high));
    if (amdsmi->od_limits != 0)
        amdsmi_widen(die, as_mhz(room.od.ranges[amdsmi->od_limits].low),
                     as_mhz(room.od.ranges[amdsmi->od_limits].high));
    return code;
}

/* Lists the clocks that Lull tries. The driver accepts every MHz of the range, while its own list
 * holds only two or three clocks, so the list is made in equal steps. */
static void amdsmi_list_clocks(const struct amdsmi_die *die, struct lull_device_info *info)
{
    uint32_t mhz = die->highest_mhz;

    if (die->lowest_mhz == 0 || die->lowest_mhz >= die->highest_mhz)
        return;
    while (mhz > die->lowest_mhz && info->sm_clock_count < LULL_DEVICE_MAX_CLOCKS - 1) {
        info->sm_clocks_mhz[info->sm_clock_count++] = mhz;
        mhz = mhz > CLOCK_STEP_MHZ ? mhz - CLOCK_STEP_MHZ : 0;
    }
    info->sm_clocks_mhz[info->sm_clock_count++] = die->lowest_mhz;
}

static bool read_cap(struct lull_amdsmi *amdsmi, const struct amdsmi_die *die,
                     struct amdsmi_power_cap_info *cap_out)
{
    union amdsmi_room room = {.bytes = {0}};

    if (amdsmi->power_cap_info == NULL ||
        amdsmi->power_cap_info(die->handle, 0, &room) != AMDSMI_SUCCESS)
        return false;
    *cap_out = room.cap;
    return cap_out->max_uw > 0 && cap_out->max_uw / 1000 < UINT32_MAX;
}

static bool amdsmi_read_power(struct lull_amdsmi *amdsmi, const struct amdsmi_die *die,
                              uint32_t *power_mw_out, bool *is_instant_out)
{
    const struct amdsmi_die *counter = &amdsmi->dies[die->counter];
    union amdsmi_room room;
    uint32_t watts;

    if (!amdsmi_fetch(amdsmi->power_info, counter, &room))
        return false;
    *is_instant_out = is_reported(room.words[amdsmi->power_offset]);
    watts = room.words[amdsmi->power_offset + (*is_instant_out ? 0 : 1)];
    if (!is_reported(watts))
        return false;
    *power_mw_out = watts < UINT32_MAX / 1000 ? watts * 1000 / die->sharers : UINT32_MAX;
    return true;
}

static bool amdsmi_read_energy(struct lull_amdsmi *amdsmi, const struct amdsmi_die *die,
                               uint64_t *energy_mj_out)
{
    double energy_uj;

    if (!lull_amdsmi_read_energy_uj(amdsmi, &amdsmi->dies[die->counter], &energy_uj) ||
        !(energy_uj >= 0.0 && energy_uj < 1e20))
        return false;
    *energy_mj_out = (uint64_t)(energy_uj * 1e-3 / die->sharers);
    return true;
}

static uint32_t amdsmi_describe_capabilities(struct lull_amdsmi *amdsmi, uint32_t gpu,
                                             struct lull_device_info *info)
{
    const struct amdsmi_die *die = &amdsmi->dies[gpu];
    struct amdsmi_power_cap_info cap;
    bool is_instant = false;
    uint32_t capabilities = 0;
    uint64_t energy_mj;
    uint32_t power_mw;

    if (amdsmi->set_clock_limit != NULL && amdsmi->set_level != NULL && info->sm_clock_count > 0)
        capabilities |= LULL_CAPABILITY_SM_LOCK;
    if (read_cap(amdsmi, die, &cap)) {
        info->power_limit_max_mw = (uint32_t)(cap.max_uw / 1000);
        info->power_limit_min_mw =
            lull_library_min_limit_mw(cap.min_uw / 1000, info->power_limit_max_mw);
        info->power_limit_default_mw = (uint32_t)(cap.default_uw / 1000);
        if (amdsmi->set_power_cap != NULL)
            capabilities |= LULL_CAPABILITY_POWER_LIMIT;
    }
    if (amdsmi_read_energy(amdsmi, die, &energy_mj))
        capabilities |= LULL_CAPABILITY_ENERGY_COUNTER;
    if (amdsmi_read_power(amdsmi, die, &power_mw, &is_instant) && is_instant)
        capabilities |= LULL_CAPABILITY_INSTANT_POWER;
    return capabilities;
}

static int amdsmi_fail_description(int code, struct lull_error *err)
{
    return lull_error_set(err, lull_amdsmi_meaning(code)->error, "%s (AMD SMI %d)",
                          lull_amdsmi_meaning(code)->text, code);
}

static int amdsmi_describe(void *state, uint32_t gpu, struct lull_device_info *info,
                           struct lull_error *err)
{
    struct lull_amdsmi *amdsmi = state;
    struct amdsmi_die *die = &amdsmi->dies[gpu];
    struct amdsmi_clock_info memory;
    unsigned int size = AMDSMI_UUID_SIZE;
    int code = lull_amdsmi_open_die(amdsmi, gpu);
    uint64_t bdf;

    if (code != AMDSMI_SUCCESS)
        return amdsmi_fail_description(code, err);
    code = amdsmi->uuid(die->handle, &size, info->uuid);
    if (code != AMDSMI_SUCCESS)
        info->uuid[0] = '\0';
    if (lull_library_may_pass(lull_amdsmi_meaning(code)))
        return amdsmi_fail_description(code, err);
    lull_amdsmi_read_name(amdsmi, die, info->name, sizeof(info->name));
    if (amdsmi->bdf != NULL && amdsmi->bdf(die->handle, &bdf) == AMDSMI_SUCCESS)
        snprintf(info->pci_bus_id, sizeof(info->pci_bus_id), "%08X:%02X:%02X.%X",
                 (uint32_t)(bdf >> 16), (uint32_t)(bdf >> 8) & 0xff, (uint32_t)(bdf >> 3) & 0x1f,
                 (uint32_t)bdf & 7);
    code = amdsmi_find_range(amdsmi, die);
    amdsmi_list_clocks(die, info);
    if (amdsmi_read_clock(amdsmi, die, AMDSMI_CLOCK_MEMORY, &memory) == AMDSMI_SUCCESS &&
        is_reported(memory.max_mhz))
        info->memory_clocks_mhz[info->memory_clock_count++] = memory.max_mhz;
    info->capabilities = amdsmi_describe_capabilities(amdsmi, gpu, info);
    return lull_library_may_pass(lull_amdsmi_meaning(code)) ? amdsmi_fail_description(code, err)
                                                            : 0;
}

/* ---- reading ---- */

static bool read_clock_mhz(struct lull_amdsmi *amdsmi, const struct amdsmi_die *die, uint32_t which,
                           uint32_t *mhz_out)
{
    struct amdsmi_clock_info info;

    if (amdsmi_read_clock(amdsmi, die, which, &info) != AMDSMI_SUCCESS ||
        !is_reported(info.now_mhz))
        return false;
    *mhz_out = info.now_mhz;
    return true;
}

static bool amdsmi_read_temperature(struct lull_amdsmi *amdsmi, const struct amdsmi_die *die,
                                    uint32_t *celsius_out)
{
    int64_t celsius;

    if (amdsmi->temperature == NULL ||
        amdsmi->temperature(die->handle, AMDSMI_TEMPERATURE_HOTSPOT, AMDSMI_TEMPERATURE_CURRENT,
                            &celsius) != AMDSMI_SUCCESS ||
        celsius < 0 || celsius > 1000)
        return false;
    *celsius_out = (uint32_t)celsius;
    return true;
}

static bool amdsmi_read_limit(struct lull_amdsmi *amdsmi, const struct amdsmi_die *die,
                              uint32_t *limit_mw_out)
{
    struct amdsmi_power_cap_info cap;

    if (!read_cap(amdsmi, die, &cap))
        return false;
    *limit_mw_out = (uint32_t)(cap.cap_uw / 1000);
    return true;
}

static bool amdsmi_read_activity(struct lull_amdsmi *amdsmi, const struct amdsmi_die *die,
                                 uint32_t *percent_out)
{
    union amdsmi_room room;

    if (!amdsmi_fetch(amdsmi->activity, die, &room) || room.words[0] > 100)
        return false;
    *percent_out = room.words[0];
    return true;
}

static bool amdsmi_read(void *state, uint32_t gpu, enum lull_reading_field field,
                        struct lull_device_reading *out)
{
    struct lull_amdsmi *amdsmi = state;
    const struct amdsmi_die *die = &amdsmi->dies[gpu];
    bool is_instant;

    switch (field) {
    case LULL_READING_SM_CLOCK:
        return read_clock_mhz(amdsmi, die, AMDSMI_CLOCK_GFX, &out->sm_mhz);
    case LULL_READING_MEMORY_CLOCK:
        return read_clock_mhz(amdsmi, die, AMDSMI_CLOCK_MEMORY, &out->memory_mhz);
    case LULL_READING_POWER:
        return amdsmi_read_power(amdsmi, die, &out->power_mw, &is_instant);
    case LULL_READING_ENERGY:
        return amdsmi_read_energy(amdsmi, die, &out->energy_mj);
    case LULL_READING_TEMPERATURE:
        return amdsmi_read_temperature(amdsmi, die, &out->temperature_c);
    case LULL_READING_POWER_LIMIT:
        return amdsmi_read_limit(amdsmi, die, &out->power_limit_mw);
    case LULL_READING_UTILIZATION:
        return amdsmi_read_activity(amdsmi, die, &out->utilization_percent);
    case LULL_READING_REASONS: /* only newer boards report them, in version-specific structures */
    case LULL_READING_XIDS:
    case LULL_READING_PROFILES:
    case LULL_READING_SMOOTHING:
    case LULL_READING_ALL:
        break;
    }
    return false;
}

/* A process that has opened all GPUs it may use is listed for each of them: it uses those where it
 * has memory or has run kernels. */
static bool is_used_by(const struct amdsmi_process *process)
{
    return process->memory_bytes != 0 || process->vram_bytes != 0 || process->graphics_ns != 0;
}

static void amdsmi_list_processes(void *state, uint32_t gpu,
                                  struct lull_device_processes *processes_out)
{
    const struct lull_amdsmi *amdsmi = state;
    const size_t names = 2 * (size_t)amdsmi->name_bytes;
    const size_t tail =
        amdsmi->power_offset == 0 ? AMDSMI_PROCESS_TAIL_BYTES_24 : AMDSMI_PROCESS_TAIL_BYTES;
    const size_t row = names + sizeof(struct amdsmi_process) + tail;
    uint32_t count = LULL_DEVICE_MAX_PROCESSES;
    char *list = calloc(count, row);

    if (list == NULL)
        return;
    if (amdsmi->processes != NULL &&
        amdsmi->processes(amdsmi->dies[gpu].handle, &count, list) == AMDSMI_SUCCESS &&
        count <= LULL_DEVICE_MAX_PROCESSES) {
        processes_out->is_known = true;
        processes_out->count = 0;
        for (uint32_t i = 0; i < count; i++) {
            struct amdsmi_process process;

            memcpy(&process, list + i * row + amdsmi->name_bytes, sizeof(process));
            if (is_used_by(&process))
                processes_out->pids[processes_out->count++] = (pid_t)process.pid;
        }
    }
    free(list);
}

/* ---- setting ---- */

static int amdsmi_set_limit(struct lull_amdsmi *amdsmi, const struct amdsmi_die *die, int limit,
                            uint32_t mhz)
{
    return amdsmi->set_clock_limit == NULL
               ? AMDSMI_NOT_YET_IMPLEMENTED
               : amdsmi->set_clock_limit(die->handle, AMDSMI_CLOCK_GFX, limit, mhz);
}

/* Sets only the upper end of the range. The driver takes the two ends in two calls and refuses one
 * that crosses the other, and a high lower end would only keep an idle GPU from resting. So the
 * lower end is set to the lowest clock once and then left unchanged. */
static int amdsmi_lock_sm(void *state, uint32_t gpu, uint32_t min_mhz, uint32_t max_mhz,
                          struct lull_error *err)
{
    struct lull_amdsmi *amdsmi = state;
    struct amdsmi_die *die = &amdsmi->dies[gpu];
    int code = AMDSMI_SUCCESS;

    if (min_mhz > max_mhz)
        return lull_error_set(err, -EINVAL, "GPU %u: cannot limit the clock: %u to %u MHz", gpu,
                              min_mhz, max_mhz);
    if (max_mhz < die->lowest_mhz)
        max_mhz = die->lowest_mhz;
    if (max_mhz > die->highest_mhz)
        max_mhz = die->highest_mhz;
    if (!die->is_floor_set)
        code = amdsmi_set_limit(amdsmi, die, AMDSMI_LIMIT_MIN, die->lowest_mhz);
    die->is_floor_set = code == AMDSMI_SUCCESS;
    if (code == AMDSMI_SUCCESS)
        code = amdsmi_set_limit(amdsmi, die, AMDSMI_LIMIT_MAX, max_mhz);
    /* Another program may have raised the lower end, so the next call sets it again. */
    if (code != AMDSMI_SUCCESS)
        die->is_floor_set = false;
    return amdsmi_check_call(code, gpu, "limit the clock", err);
}

static int amdsmi_reset_sm(void *state, uint32_t gpu, struct lull_error *err)
{
    struct lull_amdsmi *amdsmi = state;
    struct amdsmi_die *die = &amdsmi->dies[gpu];
    int code = amdsmi->set_level == NULL ? AMDSMI_NOT_YET_IMPLEMENTED
                                         : amdsmi->set_level(die->handle, AMDSMI_LEVEL_AUTO);

    die->is_floor_set = false;
    return amdsmi_check_call(code, gpu, "reset the clock", err);
}

static int amdsmi_set_power_limit(void *state, uint32_t gpu, uint32_t limit_mw,
                                  struct lull_error *err)
{
    struct lull_amdsmi *amdsmi = state;
    int code = amdsmi->set_power_cap == NULL
                   ? AMDSMI_NOT_YET_IMPLEMENTED
                   : amdsmi->set_power_cap(amdsmi->dies[gpu].handle, 0, UINT64_C(1000) * limit_mw);

    return amdsmi_check_call(code, gpu, "set the power limit", err);
}

const struct lull_vendor lull_amdsmi_vendor = {
    .name = "amd",
    .open = lull_amdsmi_open,
    .close = lull_amdsmi_close,
    .driver_version = amdsmi_driver_version,
    .describe = amdsmi_describe,
    .read = amdsmi_read,
    .list_processes = amdsmi_list_processes,
    .lock_sm = amdsmi_lock_sm,
    .reset_sm = amdsmi_reset_sm,
    .set_power_limit = amdsmi_set_power_limit,
};
