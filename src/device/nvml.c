/* Reads and sets NVIDIA GPUs, behind the vendor table. SPDX-License-Identifier: Apache-2.0 */
#include "device/nvml.h"

#include <stdio.h>
#include <string.h>

#include "device/nvml_library.h"

/* Turns the code of one call into Lull's, and sets a message for the user. */
static int nvml_check_call(int nvml_code, uint32_t gpu, const char *what, struct lull_error *err)
{
    const struct lull_library_meaning *meaning = lull_nvml_meaning(nvml_code);

    if (meaning->error == 0)
        return 0;
    return lull_error_set(err, meaning->error, "GPU %u: cannot %s: %s (NVML %d)", gpu, what,
                          meaning->text, nvml_code);
}

static const char *nvml_driver_version(const void *state)
{
    return ((const struct lull_nvml *)state)->version;
}

static bool nvml_read_power(struct lull_nvml *nvml, uint32_t gpu, uint32_t *power_mw_out)
{
    uint64_t instant_mw;

    /* The plain call returns a 1 s average on many GPUs; the field has the power of this moment. */
    if (nvml->has_instant_power[gpu] &&
        lull_nvml_read_field(nvml, nvml->devices[gpu], NVML_FIELD_POWER_INSTANT, NVML_SCOPE_GPU,
                             &instant_mw) == NVML_SUCCESS) {
        *power_mw_out = instant_mw < UINT32_MAX ? (uint32_t)instant_mw : UINT32_MAX;
        return true;
    }
    if (nvml->has_module_power[gpu])
        return false;
    return NVML_INVOKE(nvml, power_usage, nvml->devices[gpu], power_mw_out) == NVML_SUCCESS;
}

static bool read_long(nvml_call_device_long *call, void *device, uint64_t *value_out)
{
    unsigned long long value;

    if (call == NULL || call(device, &value) != NVML_SUCCESS)
        return false;
    *value_out = value;
    return true;
}

static bool read_utilization(struct lull_nvml *nvml, void *device, uint32_t *percent_out)
{
    struct lull_nvml_utilization utilization;

    if (NVML_INVOKE(nvml, utilization, device, &utilization) != NVML_SUCCESS)
        return false;
    *percent_out = utilization.gpu_percent;
    return true;
}

/* Requests events of a GPU: those of the wanted types that it supports. */
static void open_events(struct lull_nvml *nvml, uint32_t gpu, unsigned long long wanted,
                        void **events)
{
    unsigned long long types = 0;
    void *set;

    if (*events != NULL || nvml->events_free == NULL || nvml->events_wait == NULL ||
        NVML_INVOKE(nvml, event_types, nvml->devices[gpu], &types) != NVML_SUCCESS ||
        NVML_INVOKE(nvml, events_create, &set) != NVML_SUCCESS)
        return;
    if (NVML_INVOKE(nvml, events_register, nvml->devices[gpu], types & wanted, set) == NVML_SUCCESS)
        *events = set;
    else
        nvml->events_free(set);
}

/* Counts the XIDs that have come, without waiting for any. Its event set is not the writer's, which
 * looks for MIG as well and from another thread. */
static bool read_xids(struct lull_nvml *nvml, uint32_t gpu, struct lull_device_reading *out)
{
    struct nvml_event event;

    open_events(nvml, gpu, NVML_EVENT_XID, &nvml->errors[gpu]);
    if (nvml->errors[gpu] == NULL)
        return false;
    for (uint32_t i = 0; i < LULL_DEVICE_MAX_EVENTS &&
                         nvml->events_wait(nvml->errors[gpu], &event, 0) == NVML_SUCCESS;
         i++) {
        nvml->xid_count[gpu]++;
        nvml->last_xid[gpu] = (uint32_t)event.data;
    }
    out->xid_count = nvml->xid_count[gpu];
    out->last_xid = nvml->last_xid[gpu];
    return true;
}

static bool read_profiles(struct lull_nvml *nvml, void *device, struct lull_device_reading *out)
{
    struct nvml_profile_state profiles;

    if (lull_nvml_read_profiles(nvml, device, &profiles) != NVML_SUCCESS)
        return false;
    out->requested_profiles = profiles.requested.words[0];
    out->enforced_profiles = profiles.enforced.words[0];
    return true;
}

static bool read_smoothing(struct lull_nvml *nvml, void *device, struct lull_device_reading *out)
{
    uint64_t is_on;
    uint64_t floor_w;

    if (lull_nvml_read_field(nvml, device, NVML_FIELD_SMOOTHING, 0, &is_on) != NVML_SUCCESS ||
        lull_nvml_read_field(nvml, device, NVML_FIELD_SMOOTHING_FLOOR, 0, &floor_w) != NVML_SUCCESS)
        return false;
    out->is_smoothing = is_on != 0;
    out->smoothing_floor_w = (uint32_t)floor_w;
    return true;
}

static bool nvml_read(void *state, uint32_t gpu, enum lull_reading_field field,
                      struct lull_device_reading *out)
{
    struct lull_nvml *nvml = state;
    void *device = nvml->devices[gpu];

    switch (field) {
    case LULL_READING_SM_CLOCK:
        return nvml->clock(device, NVML_CLOCK_SM, &out->sm_mhz) == NVML_SUCCESS;
    case LULL_READING_MEMORY_CLOCK:
        return nvml->clock(device, NVML_CLOCK_MEMORY, &out->memory_mhz) == NVML_SUCCESS;
    case LULL_READING_POWER:
        return nvml_read_power(nvml, gpu, &out->power_mw);
    case LULL_READING_ENERGY:
        return read_long(nvml->energy, device, &out->energy_mj);
    case LULL_READING_TEMPERATURE:
        return NVML_INVOKE(nvml, temperature, device, NVML_TEMPERATURE_GPU, &out->temperature_c) ==
               NVML_SUCCESS;
    case LULL_READING_REASONS:
        return read_long(nvml->reasons, device, &out->reasons);
    case LULL_READING_POWER_LIMIT:
        return NVML_INVOKE(nvml, power_limit, device, &out->power_limit_mw) == NVML_SUCCESS ||
               NVML_INVOKE(nvml, enforced_limit, device, &out->power_limit_mw) == NVML_SUCCESS;
    case LULL_READING_UTILIZATION:
        return read_utilization(nvml, device, &out->utilization_percent);
    case LULL_READING_XIDS:
        return read_xids(nvml, gpu, out);
    case LULL_READING_PROFILES:
        return read_profiles(nvml, device, out);
    case LULL_READING_SMOOTHING:
        return read_smoothing(nvml, device, out);
    case LULL_READING_ALL:
        break;
    }
    return false;
}

/* Finds a GPU that was gone by its UUID: once it is back its number may be another one, and its old
 * handle is void. If it is still gone, the call that follows says so. */
static void find_again(struct lull_nvml *nvml, uint32_t gpu)
{
    void *device;

    if (nvml->is_gone[gpu] && nvml->uuids[gpu][0] != '\0' &&
        NVML_INVOKE(nvml, find, nvml->uuids[gpu], &device) == NVML_SUCCESS)
        nvml->devices[gpu] = device;
}

/* As nvml_check_call(), for calls that set something. */
static int check_set(struct lull_nvml *nvml, int nvml_code, uint32_t gpu, const char *what,
                     struct lull_error *err)
{
    const int result = nvml_check_call(nvml_code, gpu, what, err);

    nvml->is_gone[gpu] = result == LULL_E_NO_DEVICE;
    return result;
}

static int nvml_lock_sm(void *state, uint32_t gpu, uint32_t min_mhz, uint32_t max_mhz,
                        struct lull_error *err)
{
    struct lull_nvml *nvml = state;

    find_again(nvml, gpu);
    return check_set(nvml, NVML_INVOKE(nvml, lock_sm, nvml->devices[gpu], min_mhz, max_mhz), gpu,
                     "lock the SM clock", err);
}

static int nvml_reset_sm(void *state, uint32_t gpu, struct lull_error *err)
{
    struct lull_nvml *nvml = state;

    find_again(nvml, gpu);
    return check_set(nvml, NVML_INVOKE(nvml, reset_sm, nvml->devices[gpu]), gpu,
                     "reset the SM clock", err);
}

static int nvml_reset_memory(void *state, uint32_t gpu, struct lull_error *err)
{
    struct lull_nvml *nvml = state;

    find_again(nvml, gpu);
    return check_set(nvml, NVML_INVOKE(nvml, reset_memory, nvml->devices[gpu]), gpu,
                     "reset the memory clock", err);
}

static int nvml_set_power_limit(void *state, uint32_t gpu, uint32_t limit_mw,
                                struct lull_error *err)
{
    struct lull_nvml *nvml = state;

    find_again(nvml, gpu);
    return check_set(nvml, NVML_INVOKE(nvml, set_power_limit, nvml->devices[gpu], limit_mw), gpu,
                     "set the power limit", err);
}

/* Newer drivers replace the two calls of older ones by one. */
static int nvml_change_profiles(void *state, uint32_t gpu, uint32_t profiles, bool is_added,
                                struct lull_error *err)
{
    struct lull_nvml *nvml = state;
    struct nvml_profile_update update = {is_added ? NVML_PROFILES_ADD : NVML_PROFILES_REMOVE,
                                         {{profiles}}};
    struct nvml_profile_request request = {NVML_PROFILE_REQUEST_VERSION, {{profiles}}};
    int code;

    find_again(nvml, gpu);
    if (nvml->update_profiles != NULL)
        code = nvml->update_profiles(nvml->devices[gpu], &update);
    else if (is_added)
        code = NVML_INVOKE(nvml, add_profiles, nvml->devices[gpu], &request);
    else
        code = NVML_INVOKE(nvml, remove_profiles, nvml->devices[gpu], &request);
    return check_set(nvml, code, gpu, "change the power profiles", err);
}

/* ---- power smoothing ---- */

static int read_smoothing_item(struct lull_nvml *nvml, uint32_t gpu, unsigned int field,
                               unsigned int scope, uint32_t *value_out)
{
    uint64_t value;
    const int code = lull_nvml_read_field(nvml, nvml->devices[gpu], field, scope, &value);

    if (code == NVML_SUCCESS)
        *value_out = (uint32_t)value;
    return code;
}

/* Reads the values that an administrator has fixed; all ones: none. */
static int read_override(struct lull_nvml *nvml, uint32_t gpu, bool *is_overridden_out)
{
    int code = NVML_SUCCESS;

    for (unsigned int i = 0; i < NVML_SMOOTHING_PARAMETERS && code == NVML_SUCCESS; i++) {
        uint32_t value = 0;

        code = read_smoothing_item(nvml, gpu, NVML_FIELD_SMOOTHING_OVERRIDE + i, 0, &value);
        *is_overridden_out = *is_overridden_out || value != UINT32_MAX;
    }
    return code;
}

static int nvml_read_smoothing(void *state, uint32_t gpu,
                               struct lull_smoothing_settings *settings_out, struct lull_error *err)
{
    struct lull_nvml *nvml = state;
    struct lull_smoothing_settings settings = {0};
    uint32_t *const items = settings.items;
    int code = NVML_SUCCESS;

    for (unsigned int i = 0; i < NVML_SMOOTHING_PARAMETERS && code == NVML_SUCCESS; i++)
        code = read_smoothing_item(nvml, gpu, NVML_FIELD_SMOOTHING_PRESET + i,
                                   nvml->smoothing_presets[gpu], &items[i]);
    if (code == NVML_SUCCESS)
        code = read_smoothing_item(nvml, gpu, NVML_FIELD_SMOOTHING_ACTIVE, 0,
                                   &items[LULL_SMOOTHING_ACTIVE]);
    if (code == NVML_SUCCESS)
        code =
            read_smoothing_item(nvml, gpu, NVML_FIELD_SMOOTHING, 0, &items[LULL_SMOOTHING_STATE]);
    if (code == NVML_SUCCESS)
        code = read_smoothing_item(nvml, gpu, NVML_FIELD_SMOOTHING_FLOOR, 0, &settings.floor_w);
    if (code == NVML_SUCCESS)
        code = read_override(nvml, gpu, &settings.is_overridden);
    if (code != NVML_SUCCESS)
        return check_set(nvml, code, gpu, "read power smoothing", err);
    *settings_out = settings;
    return 0;
}

/* The driver takes rates in W/s and reports them in mW/s. */
static double smoothing_value(enum lull_smoothing_item item, uint32_t value)
{
    const bool is_rate = item == LULL_SMOOTHING_RAMP_UP || item == LULL_SMOOTHING_RAMP_DOWN;

    return is_rate ? value * 1e-3 : value;
}

static int nvml_set_smoothing(void *state, uint32_t gpu, enum lull_smoothing_item item,
                              uint32_t value, struct lull_error *err)
{
    struct lull_nvml *nvml = state;
    struct nvml_smoothing_state enabled = {NVML_SMOOTHING_STATE_VERSION, (int)value};
    struct nvml_smoothing_preset preset = {NVML_SMOOTHING_PRESET_VERSION,
                                           nvml->smoothing_presets[gpu], (unsigned int)item,
                                           smoothing_value(item, value)};
    int code;

    find_again(nvml, gpu);
    if (item == LULL_SMOOTHING_STATE) {
        code = NVML_INVOKE(nvml, set_smoothing_state, nvml->devices[gpu], &enabled);
    } else if (item == LULL_SMOOTHING_ACTIVE) {
        preset = (struct nvml_smoothing_preset){NVML_SMOOTHING_PRESET_VERSION, value, 0, 0};
        code = NVML_INVOKE(nvml, activate_smoothing_preset, nvml->devices[gpu], &preset);
    } else {
        code = NVML_INVOKE(nvml, set_smoothing_preset, nvml->devices[gpu], &preset);
    }
    return check_set(nvml, code, gpu, "set power smoothing", err);
}

/* --- what happens to a GPU without Lull's doing --- */

/* Takes the events that have come, without waiting for any. */
static void take_events(struct lull_nvml *nvml, uint32_t gpu, struct lull_device_update *update)
{
    struct nvml_event event;

    open_events(nvml, gpu, NVML_EVENT_XID | NVML_EVENT_MIG, &nvml->events[gpu]);
    while (nvml->events[gpu] != NULL && update->event_count < LULL_DEVICE_MAX_EVENTS &&
           nvml->events_wait(nvml->events[gpu], &event, 0) == NVML_SUCCESS) {
        update->event_count++;
        update->is_repartitioned = update->is_repartitioned || event.type == NVML_EVENT_MIG;
        if (event.type == NVML_EVENT_XID) {
            update->xid_count++;
            update->last_xid = (uint32_t)event.data;
        }
    }
}

/* A GPU that cannot be partitioned has no mode. */
static void take_mode(struct lull_nvml *nvml, uint32_t gpu, struct lull_device_update *update)
{
    unsigned int current = 0;
    unsigned int pending;

    if (NVML_INVOKE(nvml, mig_mode, nvml->devices[gpu], &current, &pending) != NVML_SUCCESS)
        current = 0;
    update->is_partitioned = current != 0;
    update->is_repartitioned =
        update->is_repartitioned || update->is_partitioned != nvml->is_partitioned[gpu];
    nvml->is_partitioned[gpu] = update->is_partitioned;
}

/* Lists the processes that compute, followed by the clients of MPS, which older drivers do not
 * report. A list that is too long is reported as unknown. */
static void nvml_list_processes(void *state, uint32_t gpu,
                                struct lull_device_processes *processes_out)
{
    struct lull_nvml *nvml = state;
    struct nvml_process list[LULL_DEVICE_MAX_PROCESSES];
    unsigned int computing = LULL_DEVICE_MAX_PROCESSES;
    unsigned int of_mps;

    if (NVML_INVOKE(nvml, processes, nvml->devices[gpu], &computing, list) != NVML_SUCCESS)
        return;
    of_mps = LULL_DEVICE_MAX_PROCESSES - computing;
    if (NVML_INVOKE(nvml, mps_processes, nvml->devices[gpu], &of_mps, list + computing) !=
        NVML_SUCCESS)
        of_mps = 0;
    processes_out->is_known = true;
    processes_out->count = computing + of_mps;
    for (uint32_t i = 0; i < processes_out->count; i++)
        processes_out->pids[i] = (pid_t)list[i].pid;
}

static int nvml_check(void *state, uint32_t gpu, struct lull_device_update *update,
                      struct lull_error *err)
{
    struct lull_nvml *nvml = state;
    int result;

    find_again(nvml, gpu);
    take_events(nvml, gpu, update);
    result = check_set(nvml, nvml->clock(nvml->devices[gpu], NVML_CLOCK_SM, &update->sm_mhz), gpu,
                       "read the SM clock", err);
    if (result == 0) {
        take_mode(nvml, gpu, update);
        nvml_list_processes(nvml, gpu, &update->processes);
    }
    /* The handle of a GPU that has new partitions, or was lost, is looked up again. */
    nvml->is_gone[gpu] = nvml->is_gone[gpu] || update->is_repartitioned;
    if (nvml->is_gone[gpu])
        lull_nvml_close_events(nvml, &nvml->events[gpu]);
    return result;
}

static void nvml_release(void *state, uint32_t gpu)
{
    struct lull_nvml *nvml = state;

    lull_nvml_close_events(nvml, &nvml->events[gpu]);
    nvml->is_gone[gpu] = true;
}

static int nvml_find(void *state, const char *uuid, uint32_t *gpu_out, struct lull_error *err)
{
    struct lull_nvml *nvml = state;
    uint32_t gpu = 0;
    void *device;

    while (gpu < nvml->device_count && strcmp(nvml->uuids[gpu], uuid) != 0)
        gpu++;
    if (uuid[0] == '\0' || gpu == LULL_DEVICE_MAX_GPUS ||
        NVML_INVOKE(nvml, find, uuid, &device) != NVML_SUCCESS)
        return lull_error_set(err, LULL_E_NO_DEVICE, "%s: the driver does not find this GPU", uuid);
    nvml->devices[gpu] = device;
    nvml->is_gone[gpu] = false;
    snprintf(nvml->uuids[gpu], sizeof(nvml->uuids[gpu]), "%s", uuid);
    if (gpu == nvml->device_count)
        nvml->device_count++;
    *gpu_out = gpu;
    return 0;
}

const struct lull_vendor lull_nvml_vendor = {
    .name = "nvidia",
    .open = lull_nvml_open,
    .close = lull_nvml_close,
    .driver_version = nvml_driver_version,
    .describe = lull_nvml_describe,
    .read = nvml_read,
    .list_processes = nvml_list_processes,
    .lock_sm = nvml_lock_sm,
    .reset_sm = nvml_reset_sm,
    .reset_memory = nvml_reset_memory,
    .set_power_limit = nvml_set_power_limit,
    .change_profiles = nvml_change_profiles,
    .read_smoothing = nvml_read_smoothing,
    .set_smoothing = nvml_set_smoothing,
    .check = nvml_check,
    .release = nvml_release,
    .find = nvml_find,
};
