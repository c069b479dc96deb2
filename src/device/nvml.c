/* NVIDIA GPUs behind the vendor table. Only the functions of NVML that Lull needs are bound; a call
 * that the installed driver lacks fails as unsupported. SPDX-License-Identifier: Apache-2.0 */
#include "device/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    NVML_SCOPE_GPU = 0,
    NVML_SCOPE_MODULE = 1,
    NVML_FIELD_MEMORY_CLOCK_SWITCH = 298,
    NVML_VALUE_UNSIGNED_LONG_LONG = 3,
    NVML_ARCHITECTURE_VOLTA = 5,
    NVML_ARCHITECTURE_AMPERE = 7,
    NVML_ARCHITECTURE_UNKNOWN = -1,
    NVML_VIRTUALIZATION_VGPU = 2,
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
    CALL(nvml_call_device_set, set_power_limit, "nvmlDeviceSetPowerManagementLimit", NULL)

struct nvml {
    void *library;
    NVML_CALLS(LULL_LIBRARY_MEMBER)
    char library_name[256];
    char version[96];
    bool has_instant_power[LULL_DEVICE_MAX_GPUS];  /* field 186 works on this GPU */
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

#define SYMBOL(type, member, name, older_name) {offsetof(struct nvml, member), name, older_name},
static const struct lull_library_symbol symbols[] = {NVML_CALLS(SYMBOL)};

static const struct lull_library_meaning meanings[] = {
    {0, 0, "success"},
    {1, LULL_E_NO_DRIVER, "the driver library is not initialised"},
    {2, -EINVAL, "invalid argument"},
    {3, LULL_E_UNSUPPORTED, "not supported by this GPU"},
    {4, -EPERM, "not permitted: needs root or CAP_SYS_ADMIN"},
    {5, -EINVAL, "already initialised"},
    {6, LULL_E_NO_DEVICE, "not found"},
    {7, -EINVAL, "the buffer is too small"},
    {8, -EIO, "external power is missing: check the power cables"},
    {9, LULL_E_NO_DRIVER, "the kernel driver is not loaded"},
    {10, -EAGAIN, "timeout"},
    {11, -EAGAIN, "interrupt problem"},
    {12, LULL_E_NO_DRIVER, "the driver library was not found"},
    {13, LULL_E_UNSUPPORTED, "not in this driver; a newer one may do it"},
    {14, -EIO, "the infoROM is corrupted"},
    {15, LULL_E_NO_DEVICE, "the GPU is lost; the node may need a restart"},
    {16, LULL_E_NO_DEVICE, "the GPU needs a reset"},
    {17, -EAGAIN, "blocked by the operating system"},
    {18, LULL_E_NO_DRIVER, "driver and library versions differ; reload the driver"},
    {19, -EAGAIN, "in use by another client"},
    {20, -EAGAIN, "the driver has no memory"},
    {21, -EAGAIN, "no data"},
    {22, LULL_E_UNSUPPORTED, "not possible with vGPU and ECC"},
    {23, -EAGAIN, "the driver has no resources left"},
    {24, LULL_E_UNSUPPORTED, "this clock is not supported"},
    {25, LULL_E_UNSUPPORTED, "this driver expects another structure"},
    {26, LULL_E_UNSUPPORTED, "removed from this driver"},
    {27, -EAGAIN, "not ready"},
    {28, LULL_E_NO_DEVICE, "there is no such GPU"},
    {29, -EAGAIN, "not possible in the present state"},
    {30, LULL_E_UNSUPPORTED, "this kind of reset is not supported"},
    {999, LULL_E_DRIVER, "unknown error of the driver"},
};

const struct lull_library_meaning *lull_nvml_meaning(int code)
{
    return lull_library_meaning(meanings, sizeof(meanings) / sizeof(meanings[0]), code);
}

/* Calls a function of the library, which the installed driver may lack. */
#define INVOKE(nvml, function, ...)                                                                \
    ((nvml)->function == NULL ? NVML_FUNCTION_NOT_FOUND : (nvml)->function(__VA_ARGS__))

/* Turns the code of one call into Lull's, and sets a message for the user. */
static int nvml_check_call(int nvml_code, uint32_t gpu, const char *what, struct lull_error *err)
{
    const struct lull_library_meaning *meaning = lull_nvml_meaning(nvml_code);

    if (meaning->error == 0)
        return 0;
    return lull_error_set(err, meaning->error, "GPU %u: cannot %s: %s (NVML %d)", gpu, what,
                          meaning->text, nvml_code);
}

static int nvml_load_library(struct nvml *nvml, struct lull_error *err)
{
    static const char *const names[] = {"libnvidia-ml.so.1", NULL};
    int result = lull_library_open_driver("LULL_NVML", names, "NVIDIA", &nvml->library,
                                          nvml->library_name, sizeof(nvml->library_name), err);

    if (result < 0)
        return result;
    lull_library_bind(nvml->library, nvml, symbols, sizeof(symbols) / sizeof(symbols[0]));
    if (nvml->init == NULL || nvml->shutdown == NULL || nvml->count == NULL ||
        nvml->handle == NULL || nvml->uuid == NULL || nvml->clock == NULL)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "%s: lacks the basic NVML functions; is it the driver's library?",
                              nvml->library_name);
    return 0;
}

static int find_devices(struct nvml *nvml, uint32_t *count_out, struct lull_error *err)
{
    unsigned int listed = 0;
    uint32_t usable = 0;
    int status = nvml->count(&listed);
    int last_failure = NVML_SUCCESS;

    if (listed > LULL_DEVICE_MAX_GPUS)
        listed = LULL_DEVICE_MAX_GPUS;
    /* A GPU that fails keeps its number, and must not hide the others. */
    for (unsigned int i = 0; status == NVML_SUCCESS && i < listed; i++) {
        void *device = NULL;

        const int failure = nvml->handle(i, &device);

        if (failure == NVML_SUCCESS)
            nvml->devices[i] = device;
        else
            last_failure = failure;
        usable += failure == NVML_SUCCESS;
    }
    if (status == NVML_SUCCESS && usable == 0)
        status = last_failure;
    if (status != NVML_SUCCESS)
        return lull_error_set(err, lull_nvml_meaning(status)->error,
                              "%s: no usable GPU: %s (NVML %d)", nvml->library_name,
                              lull_nvml_meaning(status)->text, status);
    if (usable == 0)
        return lull_error_set(err, LULL_E_NO_DEVICE, "%s: this node has no NVIDIA GPU",
                              nvml->library_name);
    *count_out = nvml->device_count = listed;
    return 0;
}

static void close_library(void *state)
{
    struct nvml *nvml = state;

    if (nvml->library != NULL)
        dlclose(nvml->library);
    free(nvml);
}

static void close_events(struct nvml *nvml, void **events)
{
    if (*events != NULL)
        nvml->events_free(*events);
    *events = NULL;
}

static void nvml_close(void *state)
{
    struct nvml *nvml = state;

    for (uint32_t gpu = 0; gpu < nvml->device_count; gpu++) {
        close_events(nvml, &nvml->events[gpu]);
        close_events(nvml, &nvml->errors[gpu]);
    }
    nvml->shutdown();
    close_library(nvml);
}

static int nvml_open(void **state_out, uint32_t *count_out, struct lull_error *err)
{
    struct nvml *nvml = calloc(1, sizeof(*nvml));
    int result;

    if (nvml == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the driver's table");
    result = nvml_load_library(nvml, err);
    if (result == 0) {
        int status = nvml->init();

        if (status != NVML_SUCCESS)
            result = lull_error_set(err, lull_nvml_meaning(status)->error,
                                    "%s: cannot start NVML: %s (NVML %d)", nvml->library_name,
                                    lull_nvml_meaning(status)->text, status);
    }
    /* NVML is shut down only where it was started. */
    if (result < 0) {
        close_library(nvml);
        return result;
    }
    result = find_devices(nvml, count_out, err);
    if (result < 0) {
        nvml_close(nvml);
        return result;
    }
    if (INVOKE(nvml, driver_version, nvml->version, sizeof(nvml->version)) != NVML_SUCCESS)
        nvml->version[0] = '\0';
    *state_out = nvml;
    return 0;
}

static const char *nvml_driver_version(const void *state)
{
    return ((const struct nvml *)state)->version;
}

/* Returns whether a call that describes a GPU has succeeded; remembers the code of one that may
 * succeed later. */
static bool has_described(int status, int *passing)
{
    if (lull_library_may_pass(lull_nvml_meaning(status)))
        *passing = status;
    return status == NVML_SUCCESS;
}

static void describe_clocks(struct nvml *nvml, void *device, struct lull_device_info *info,
                            int *passing)
{
    unsigned int count = sizeof(info->memory_clocks_mhz) / sizeof(info->memory_clocks_mhz[0]);

    if (!has_described(INVOKE(nvml, memory_clocks, device, &count, info->memory_clocks_mhz),
                       passing))
        return;
    info->memory_clock_count = count;
    lull_library_sort_clocks(info->memory_clocks_mhz, count);

    count = LULL_DEVICE_MAX_CLOCKS;
    if (info->memory_clock_count == 0 ||
        !has_described(INVOKE(nvml, graphics_clocks, device, info->memory_clocks_mhz[0], &count,
                              info->sm_clocks_mhz),
                       passing))
        return;
    info->sm_clock_count = count;
    lull_library_sort_clocks(info->sm_clocks_mhz, count);
}

/* Reads one field value. Returns NVML's code, 0 for success. */
static int nvml_read_field(struct nvml *nvml, void *device, unsigned int field, unsigned int scope,
                           uint64_t *value_out)
{
    struct nvml_field_value value = {.field = field, .scope = scope};
    int status = INVOKE(nvml, fields, device, 1, &value);

    if (status == NVML_SUCCESS)
        status = value.status;
    if (status == NVML_SUCCESS)
        *value_out =
            value.value_type == NVML_VALUE_UNSIGNED_LONG_LONG ? value.value.u64 : value.value.u32;
    return status;
}

/* Returns whether the memory clock can be locked. The A100 has the function but not the ability, so
 * only the field of newer drivers shows it. */
static bool can_lock_memory(struct nvml *nvml, void *device, uint32_t architecture)
{
    uint64_t mode;

    if (nvml->lock_memory == NULL || nvml->reset_memory == NULL ||
        architecture < NVML_ARCHITECTURE_AMPERE)
        return false;
    return nvml_read_field(nvml, device, NVML_FIELD_MEMORY_CLOCK_SWITCH, NVML_SCOPE_GPU, &mode) ==
               NVML_SUCCESS &&
           mode != 0;
}

/* Finds out whose power is reported. On modules of a GPU and a CPU, as GH200, many drivers do not
 * know the GPU's alone, and nvmlDeviceGetPowerUsage() may be the module's. */
static bool describe_power(struct nvml *nvml, uint32_t gpu, struct lull_device_info *info,
                           int *passing)
{
    void *device = nvml->devices[gpu];
    uint64_t power;
    const int status =
        nvml_read_field(nvml, device, NVML_FIELD_POWER_INSTANT, NVML_SCOPE_GPU, &power);

    /* Drivers that do not know the field may say so by other codes than that of a busy one. */
    if (lull_nvml_meaning(status)->error == -EAGAIN && status != NVML_NO_DATA)
        *passing = status;
    nvml->has_instant_power[gpu] = status == NVML_SUCCESS;
    nvml->has_module_power[gpu] = nvml_read_field(nvml, device, NVML_FIELD_POWER_INSTANT,
                                                  NVML_SCOPE_MODULE, &power) == NVML_SUCCESS;
    info->has_only_module_power = nvml->has_module_power[gpu] && !nvml->has_instant_power[gpu];
    return nvml->has_instant_power[gpu];
}

static uint32_t nvml_describe_capabilities(struct nvml *nvml, uint32_t gpu,
                                           struct lull_device_info *info, int *passing)
{
    void *device = nvml->devices[gpu];
    uint32_t capabilities = 0;
    unsigned long long energy;

    if (nvml->lock_sm != NULL && nvml->reset_sm != NULL && info->sm_clock_count > 0 &&
        info->architecture >= NVML_ARCHITECTURE_VOLTA)
        capabilities |= LULL_CAPABILITY_SM_LOCK;
    if (can_lock_memory(nvml, device, info->architecture))
        capabilities |= LULL_CAPABILITY_MEMORY_LOCK;
    if (describe_power(nvml, gpu, info, passing))
        capabilities |= LULL_CAPABILITY_INSTANT_POWER;
    if (nvml->set_power_limit != NULL &&
        has_described(INVOKE(nvml, power_limit_range, device, &info->power_limit_min_mw,
                             &info->power_limit_max_mw),
                      passing) &&
        !info->has_only_module_power)
        capabilities |= LULL_CAPABILITY_POWER_LIMIT;
    if (nvml->power_limit_default != NULL &&
        nvml->power_limit_default(device, &info->power_limit_default_mw) != NVML_SUCCESS)
        info->power_limit_default_mw = 0;
    if (has_described(INVOKE(nvml, energy, device, &energy), passing))
        capabilities |= LULL_CAPABILITY_ENERGY_COUNTER;
    return capabilities;
}

static int nvml_fail_description(int status, struct lull_error *err)
{
    return lull_error_set(err, lull_nvml_meaning(status)->error, "%s (NVML %d)",
                          lull_nvml_meaning(status)->text, status);
}

static int nvml_describe(void *state, uint32_t gpu, struct lull_device_info *info,
                         struct lull_error *err)
{
    struct nvml *nvml = state;
    void *device = nvml->devices[gpu];
    struct lull_nvml_pci_info pci = {0};
    unsigned int architecture;
    unsigned int mode;
    int status = device == NULL ? nvml->handle(gpu, &device) : NVML_SUCCESS;

    if (status != NVML_SUCCESS)
        return nvml_fail_description(status, err);
    nvml->devices[gpu] = device;
    status = nvml->uuid(device, info->uuid, sizeof(info->uuid));
    if (status != NVML_SUCCESS)
        info->uuid[0] = '\0';
    if (lull_library_may_pass(lull_nvml_meaning(status)))
        return nvml_fail_description(status, err);
    if (INVOKE(nvml, name, device, info->name, sizeof(info->name)) != NVML_SUCCESS)
        info->name[0] = '\0';
    memcpy(nvml->uuids[gpu], info->uuid, sizeof(nvml->uuids[gpu]));
    if (INVOKE(nvml, pci_info, device, &pci) == NVML_SUCCESS)
        snprintf(info->pci_bus_id, sizeof(info->pci_bus_id), "%.*s", (int)sizeof(pci.bus_id) - 1,
                 pci.bus_id);
    if (INVOKE(nvml, architecture, device, &architecture) == NVML_SUCCESS &&
        (int)architecture != NVML_ARCHITECTURE_UNKNOWN)
        info->architecture = architecture;
    info->is_virtual = INVOKE(nvml, virtualization, device, &mode) == NVML_SUCCESS &&
                       mode == NVML_VIRTUALIZATION_VGPU;
    status = NVML_SUCCESS;
    describe_clocks(nvml, device, info, &status);
    info->capabilities = nvml_describe_capabilities(nvml, gpu, info, &status);
    return status != NVML_SUCCESS ? nvml_fail_description(status, err) : 0;
}

static bool nvml_read_power(struct nvml *nvml, uint32_t gpu, uint32_t *power_mw_out)
{
    uint64_t instant_mw;

    /* The plain call returns a 1 s average on many GPUs; the field has the power of this moment. */
    if (nvml->has_instant_power[gpu] &&
        nvml_read_field(nvml, nvml->devices[gpu], NVML_FIELD_POWER_INSTANT, NVML_SCOPE_GPU,
                        &instant_mw) == NVML_SUCCESS) {
        *power_mw_out = instant_mw < UINT32_MAX ? (uint32_t)instant_mw : UINT32_MAX;
        return true;
    }
    if (nvml->has_module_power[gpu])
        return false;
    return INVOKE(nvml, power_usage, nvml->devices[gpu], power_mw_out) == NVML_SUCCESS;
}

static bool read_long(nvml_call_device_long *call, void *device, uint64_t *value_out)
{
    unsigned long long value;

    if (call == NULL || call(device, &value) != NVML_SUCCESS)
        return false;
    *value_out = value;
    return true;
}

static bool read_utilization(struct nvml *nvml, void *device, uint32_t *percent_out)
{
    struct lull_nvml_utilization utilization;

    if (INVOKE(nvml, utilization, device, &utilization) != NVML_SUCCESS)
        return false;
    *percent_out = utilization.gpu_percent;
    return true;
}

/* Requests events of a GPU: those of the wanted types that it supports. */
static void open_events(struct nvml *nvml, uint32_t gpu, unsigned long long wanted, void **events)
{
    unsigned long long types = 0;
    void *set;

    if (*events != NULL || nvml->events_free == NULL || nvml->events_wait == NULL ||
        INVOKE(nvml, event_types, nvml->devices[gpu], &types) != NVML_SUCCESS ||
        INVOKE(nvml, events_create, &set) != NVML_SUCCESS)
        return;
    if (INVOKE(nvml, events_register, nvml->devices[gpu], types & wanted, set) == NVML_SUCCESS)
        *events = set;
    else
        nvml->events_free(set);
}

/* Counts the XIDs that have come, without waiting for any. Its event set is not the writer's, which
 * looks for MIG as well and from another thread. */
static bool read_xids(struct nvml *nvml, uint32_t gpu, struct lull_device_reading *out)
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

static bool nvml_read(void *state, uint32_t gpu, enum lull_reading_field field,
                      struct lull_device_reading *out)
{
    struct nvml *nvml = state;
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
        return INVOKE(nvml, temperature, device, NVML_TEMPERATURE_GPU, &out->temperature_c) ==
               NVML_SUCCESS;
    case LULL_READING_REASONS:
        return read_long(nvml->reasons, device, &out->reasons);
    case LULL_READING_POWER_LIMIT:
        return INVOKE(nvml, power_limit, device, &out->power_limit_mw) == NVML_SUCCESS ||
               INVOKE(nvml, enforced_limit, device, &out->power_limit_mw) == NVML_SUCCESS;
    case LULL_READING_UTILIZATION:
        return read_utilization(nvml, device, &out->utilization_percent);
    case LULL_READING_XIDS:
        return read_xids(nvml, gpu, out);
    case LULL_READING_ALL:
        break;
    }
    return false;
}

/* Finds a GPU that was gone by its UUID: once it is back its number may be another one, and its old
 * handle is void. If it is still gone, the call that follows says so. */
static void find_again(struct nvml *nvml, uint32_t gpu)
{
    void *device;

    if (nvml->is_gone[gpu] && nvml->uuids[gpu][0] != '\0' &&
        INVOKE(nvml, find, nvml->uuids[gpu], &device) == NVML_SUCCESS)
        nvml->devices[gpu] = device;
}

/* As nvml_check_call(), for calls that set something. */
static int check_set(struct nvml *nvml, int nvml_code, uint32_t gpu, const char *what,
                     struct lull_error *err)
{
    const int result = nvml_check_call(nvml_code, gpu, what, err);

    nvml->is_gone[gpu] = result == LULL_E_NO_DEVICE;
    return result;
}

static int nvml_lock_sm(void *state, uint32_t gpu, uint32_t min_mhz, uint32_t max_mhz,
                        struct lull_error *err)
{
    struct nvml *nvml = state;

    find_again(nvml, gpu);
    return check_set(nvml, INVOKE(nvml, lock_sm, nvml->devices[gpu], min_mhz, max_mhz), gpu,
                     "lock the SM clock", err);
}

static int nvml_reset_sm(void *state, uint32_t gpu, struct lull_error *err)
{
    struct nvml *nvml = state;

    find_again(nvml, gpu);
    return check_set(nvml, INVOKE(nvml, reset_sm, nvml->devices[gpu]), gpu, "reset the SM clock",
                     err);
}

static int nvml_reset_memory(void *state, uint32_t gpu, struct lull_error *err)
{
    struct nvml *nvml = state;

    find_again(nvml, gpu);
    return check_set(nvml, INVOKE(nvml, reset_memory, nvml->devices[gpu]), gpu,
                     "reset the memory clock", err);
}

static int nvml_set_power_limit(void *state, uint32_t gpu, uint32_t limit_mw,
                                struct lull_error *err)
{
    struct nvml *nvml = state;

    find_again(nvml, gpu);
    return check_set(nvml, INVOKE(nvml, set_power_limit, nvml->devices[gpu], limit_mw), gpu,
                     "set the power limit", err);
}

/* --- what happens to a GPU without Lull's doing --- */

/* Takes the events that have come, without waiting for any. */
static void take_events(struct nvml *nvml, uint32_t gpu, struct lull_device_update *update)
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
static void take_mode(struct nvml *nvml, uint32_t gpu, struct lull_device_update *update)
{
    unsigned int current = 0;
    unsigned int pending;

    if (INVOKE(nvml, mig_mode, nvml->devices[gpu], &current, &pending) != NVML_SUCCESS)
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
    struct nvml *nvml = state;
    struct nvml_process list[LULL_DEVICE_MAX_PROCESSES];
    unsigned int computing = LULL_DEVICE_MAX_PROCESSES;
    unsigned int of_mps;

    if (INVOKE(nvml, processes, nvml->devices[gpu], &computing, list) != NVML_SUCCESS)
        return;
    of_mps = LULL_DEVICE_MAX_PROCESSES - computing;
    if (INVOKE(nvml, mps_processes, nvml->devices[gpu], &of_mps, list + computing) != NVML_SUCCESS)
        of_mps = 0;
    processes_out->is_known = true;
    processes_out->count = computing + of_mps;
    for (uint32_t i = 0; i < processes_out->count; i++)
        processes_out->pids[i] = (pid_t)list[i].pid;
}

static int nvml_check(void *state, uint32_t gpu, struct lull_device_update *update,
                      struct lull_error *err)
{
    struct nvml *nvml = state;
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
        close_events(nvml, &nvml->events[gpu]);
    return result;
}

static void nvml_release(void *state, uint32_t gpu)
{
    struct nvml *nvml = state;

    close_events(nvml, &nvml->events[gpu]);
    nvml->is_gone[gpu] = true;
}

static int nvml_find(void *state, const char *uuid, uint32_t *gpu_out, struct lull_error *err)
{
    struct nvml *nvml = state;
    uint32_t gpu = 0;
    void *device;

    while (gpu < nvml->device_count && strcmp(nvml->uuids[gpu], uuid) != 0)
        gpu++;
    if (uuid[0] == '\0' || gpu == LULL_DEVICE_MAX_GPUS ||
        INVOKE(nvml, find, uuid, &device) != NVML_SUCCESS)
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
    .open = nvml_open,
    .close = nvml_close,
    .driver_version = nvml_driver_version,
    .describe = nvml_describe,
    .read = nvml_read,
    .list_processes = nvml_list_processes,
    .lock_sm = nvml_lock_sm,
    .reset_sm = nvml_reset_sm,
    .reset_memory = nvml_reset_memory,
    .set_power_limit = nvml_set_power_limit,
    .check = nvml_check,
    .release = nvml_release,
    .find = nvml_find,
};
