/*
 * NVML opened: the functions that Lull needs, and the GPUs of the node. A call that the installed
 * driver lacks fails as unsupported. For nvml*.c alone. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_NVML_LIBRARY_H
#define LULL_DEVICE_NVML_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "device/library.h"
#include "device/nvml_abi.h"

enum {
    NVML_SUCCESS = 0,
    NVML_FUNCTION_NOT_FOUND = 13,
    NVML_NO_DATA = 21,
    NVML_EVENT_XID = 0x8,
    NVML_EVENT_MIG = 0x100,
    NVML_CLOCK_SM = 1,
    NVML_CLOCK_MEMORY = 2,
    NVML_TEMPERATURE_GPU = 0,
    NVML_FIELD_POWER_INSTANT = 186,
    NVML_FIELD_SMOOTHING = 251,
    NVML_FIELD_SMOOTHING_FLOOR = 255,
    NVML_FIELD_SMOOTHING_MAX_FLOOR = 256, /* % */
    NVML_FIELD_SMOOTHING_PRESETS = 259,
    NVML_FIELD_SMOOTHING_PRESET = 260, /* and the next three: %, mW/s, mW/s, ms of a preset */
    NVML_FIELD_SMOOTHING_ACTIVE = 264,
    NVML_FIELD_SMOOTHING_OVERRIDE = 265, /* and the next three: an administrator's values */
    NVML_SCOPE_GPU = 0,
    NVML_SCOPE_MODULE = 1,
    NVML_FIELD_MEMORY_CLOCK_SWITCH = 298,
    NVML_VALUE_UNSIGNED_LONG_LONG = 3,
    NVML_ARCHITECTURE_VOLTA = 5,
    NVML_ARCHITECTURE_AMPERE = 7,
    NVML_ARCHITECTURE_UNKNOWN = -1,
    NVML_VIRTUALIZATION_VGPU = 2,
    NVML_PROFILES_REMOVE = 0,
    NVML_PROFILES_ADD = 1,
    NVML_PROFILE_STATE_VERSION = 0x1000064,
    NVML_PROFILE_REQUEST_VERSION = 0x1000024,
    NVML_SMOOTHING_PRESET_VERSION = 0x1000018,
    NVML_SMOOTHING_STATE_VERSION = 0x1000008,
    NVML_SMOOTHING_PARAMETERS = 4,
};

/* The functions that are bound: type, member, name in the library, and the name in older ones.
 * They are listed once, for the members of the table and for the names that fill them. */
#define NVML_CALLS(CALL)                                                                           \
    CALL(nvml_call_init, init, "nvmlInit_v2", "nvmlInit")                                          \
    CALL(nvml_call_init, shutdown, "nvmlShutdown", NULL)                                           \
    CALL(nvml_call_text, driver_version, "nvmlSystemGetDriverVersion", NULL)                       \
    CALL(nvml_call_count, count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")                    \
    CALL(nvml_call_handle, handle, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")  \
    CALL(nvml_call_find, find, "nvmlDeviceGetHandleByUUID", NULL)                                  \
    CALL(nvml_call_device_text, name, "nvmlDeviceGetName", NULL)                                   \
    CALL(nvml_call_device_text, uuid, "nvmlDeviceGetUUID", NULL)                                   \
    CALL(nvml_call_device_pci, pci_info, "nvmlDeviceGetPciInfo_v3", NULL)                          \
    CALL(nvml_call_device_value, architecture, "nvmlDeviceGetArchitecture", NULL)                  \
    CALL(nvml_call_device_list, memory_clocks, "nvmlDeviceGetSupportedMemoryClocks", NULL)         \
    CALL(nvml_call_device_list_of, graphics_clocks, "nvmlDeviceGetSupportedGraphicsClocks", NULL)  \
    CALL(nvml_call_device_select, clock, "nvmlDeviceGetClockInfo", NULL)                           \
    CALL(nvml_call_device_value, power_usage, "nvmlDeviceGetPowerUsage", NULL)                     \
    CALL(nvml_call_device_value, power_limit, "nvmlDeviceGetPowerManagementLimit", NULL)           \
    CALL(nvml_call_device_value, enforced_limit, "nvmlDeviceGetEnforcedPowerLimit", NULL)          \
    CALL(nvml_call_device_value, power_limit_default, "nvmlDeviceGetPowerManagementDefaultLimit",  \
         NULL)                                                                                     \
    CALL(nvml_call_device_pair, power_limit_range, "nvmlDeviceGetPowerManagementLimitConstraints", \
         NULL)                                                                                     \
    CALL(nvml_call_device_long, energy, "nvmlDeviceGetTotalEnergyConsumption", NULL)               \
    CALL(nvml_call_device_select, temperature, "nvmlDeviceGetTemperature", NULL)                   \
    CALL(nvml_call_device_long, reasons, "nvmlDeviceGetCurrentClocksEventReasons",                 \
         "nvmlDeviceGetCurrentClocksThrottleReasons")                                              \
    CALL(nvml_call_device_utilization, utilization, "nvmlDeviceGetUtilizationRates", NULL)         \
    CALL(nvml_call_device_fields, fields, "nvmlDeviceGetFieldValues", NULL)                        \
    CALL(nvml_call_device_value, virtualization, "nvmlDeviceGetVirtualizationMode", NULL)          \
    CALL(nvml_call_device_pair, mig_mode, "nvmlDeviceGetMigMode", NULL)                            \
    CALL(nvml_call_device_processes, processes, "nvmlDeviceGetComputeRunningProcesses_v3",         \
         "nvmlDeviceGetComputeRunningProcesses_v2")                                                \
    CALL(nvml_call_device_processes, mps_processes, "nvmlDeviceGetMPSComputeRunningProcesses_v3",  \
         "nvmlDeviceGetMPSComputeRunningProcesses_v2")                                             \
    CALL(nvml_call_device_long, event_types, "nvmlDeviceGetSupportedEventTypes", NULL)             \
    CALL(nvml_call_events_create, events_create, "nvmlEventSetCreate", NULL)                       \
    CALL(nvml_call_events_free, events_free, "nvmlEventSetFree", NULL)                             \
    CALL(nvml_call_events_register, events_register, "nvmlDeviceRegisterEvents", NULL)             \
    CALL(nvml_call_events_wait, events_wait, "nvmlEventSetWait_v2", "nvmlEventSetWait")            \
    CALL(nvml_call_device_set_pair, lock_sm, "nvmlDeviceSetGpuLockedClocks", NULL)                 \
    CALL(nvml_call_device_do, reset_sm, "nvmlDeviceResetGpuLockedClocks", NULL)                    \
    CALL(nvml_call_device_set_pair, lock_memory, "nvmlDeviceSetMemoryLockedClocks", NULL)          \
    CALL(nvml_call_device_do, reset_memory, "nvmlDeviceResetMemoryLockedClocks", NULL)             \
    CALL(nvml_call_device_set, set_power_limit, "nvmlDeviceSetPowerManagementLimit", NULL)         \
    CALL(nvml_call_profile_state, profile_state,                                                   \
         "nvmlDeviceWorkloadPowerProfileGetCurrentProfiles", NULL)                                 \
    CALL(nvml_call_profile_update, update_profiles,                                                \
         "nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1", NULL)                                  \
    CALL(nvml_call_profile_request, add_profiles,                                                  \
         "nvmlDeviceWorkloadPowerProfileSetRequestedProfiles", NULL)                               \
    CALL(nvml_call_profile_request, remove_profiles,                                               \
         "nvmlDeviceWorkloadPowerProfileClearRequestedProfiles", NULL)                             \
    CALL(nvml_call_smoothing_preset, set_smoothing_preset,                                         \
         "nvmlDevicePowerSmoothingUpdatePresetProfileParam", NULL)                                 \
    CALL(nvml_call_smoothing_preset, activate_smoothing_preset,                                    \
         "nvmlDevicePowerSmoothingActivatePresetProfile", NULL)                                    \
    CALL(nvml_call_smoothing_state, set_smoothing_state, "nvmlDevicePowerSmoothingSetState", NULL)

struct lull_nvml {
    void *library;
    NVML_CALLS(LULL_LIBRARY_MEMBER)
    char library_name[256];
    char version[96];
    uint32_t smoothing_presets[LULL_DEVICE_MAX_GPUS]; /* the preset of each GPU that Lull uses */
    bool has_instant_power[LULL_DEVICE_MAX_GPUS];     /* field 186 works on this GPU */
    bool has_module_power[LULL_DEVICE_MAX_GPUS];   /* and for the module that has a CPU as well */
    _Atomic(void *) devices[LULL_DEVICE_MAX_GPUS]; /* others may read while one is found again */
    char uuids[LULL_DEVICE_MAX_GPUS][96];
    uint32_t device_count;
    /* The device writer's alone. */
    bool is_gone[LULL_DEVICE_MAX_GPUS];        /* its handle may be void */
    void *events[LULL_DEVICE_MAX_GPUS];        /* its event set; NULL: none yet */
    bool is_partitioned[LULL_DEVICE_MAX_GPUS]; /* as it was seen last */
    /* Those of the one thread that reads XIDs. */
    void *errors[LULL_DEVICE_MAX_GPUS]; /* the event set */
    uint32_t xid_count[LULL_DEVICE_MAX_GPUS];
    uint32_t last_xid[LULL_DEVICE_MAX_GPUS];
};

/* Calls a function of the library, which the installed driver may lack. */
#define NVML_INVOKE(nvml, function, ...)                                                           \
    ((nvml)->function == NULL ? NVML_FUNCTION_NOT_FOUND : (nvml)->function(__VA_ARGS__))

/* Returns the row for an nvmlReturn_t, never NULL; a code without documentation counts as 999,
 * unknown. Threads: any. */
const struct lull_library_meaning *lull_nvml_meaning(int code);

/* The vendor table's open, close and describe; the state is a struct lull_nvml. */
int lull_nvml_open(void **state_out, uint32_t *count_out, struct lull_error *err);
void lull_nvml_close(void *state);
int lull_nvml_describe(void *state, uint32_t gpu, struct lull_device_info *info,
                       struct lull_error *err);

/* Frees an event set; NULL: there is none. */
void lull_nvml_close_events(struct lull_nvml *nvml, void **events);

/* Reads which power profiles there are, and those in use. Returns NVML's code. */
int lull_nvml_read_profiles(struct lull_nvml *nvml, void *device, struct nvml_profile_state *out);

/* Reads one field value. Returns NVML's code, 0 for success. */
int lull_nvml_read_field(struct lull_nvml *nvml, void *device, unsigned int field,
                         unsigned int scope, uint64_t *value_out);

#endif
