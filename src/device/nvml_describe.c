/* Describes NVIDIA GPUs: what they are, and what can be read and set. SPDX-License-Identifier:
 * Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "device/nvml_library.h"

/* Returns whether a call that describes a GPU has succeeded; remembers the code of one that may
 * succeed later. */
static bool has_described(int status, int *passing)
{
    if (lull_library_may_pass(lull_nvml_meaning(status)))
        *passing = status;
    return status == NVML_SUCCESS;
}

static void describe_clocks(struct lull_nvml *nvml, void *device, struct lull_device_info *info,
                            int *passing)
{
    unsigned int count = sizeof(info->memory_clocks_mhz) / sizeof(info->memory_clocks_mhz[0]);

    if (!has_described(NVML_INVOKE(nvml, memory_clocks, device, &count, info->memory_clocks_mhz),
                       passing))
        return;
    info->memory_clock_count = count;
    lull_library_sort_clocks(info->memory_clocks_mhz, count);

    count = LULL_DEVICE_MAX_CLOCKS;
    if (info->memory_clock_count == 0 ||
        !has_described(NVML_INVOKE(nvml, graphics_clocks, device, info->memory_clocks_mhz[0],
                                   &count, info->sm_clocks_mhz),
                       passing))
        return;
    info->sm_clock_count = count;
    lull_library_sort_clocks(info->sm_clocks_mhz, count);
}

/* Returns whether the memory clock can be locked. The A100 has the function but not the ability, so
 * only the field of newer drivers shows it. */
static bool can_lock_memory(struct lull_nvml *nvml, void *device, uint32_t architecture)
{
    uint64_t mode;

    if (nvml->lock_memory == NULL || nvml->reset_memory == NULL ||
        architecture < NVML_ARCHITECTURE_AMPERE)
        return false;
    return lull_nvml_read_field(nvml, device, NVML_FIELD_MEMORY_CLOCK_SWITCH, NVML_SCOPE_GPU,
                                &mode) == NVML_SUCCESS &&
           mode != 0;
}

/* Finds out whose power is reported. On modules of a GPU and a CPU, as GH200, many drivers do not
 * know the GPU's alone, and nvmlDeviceGetPowerUsage() may be the module's. */
static bool describe_power(struct lull_nvml *nvml, uint32_t gpu, struct lull_device_info *info,
                           int *passing)
{
    void *device = nvml->devices[gpu];
    uint64_t power;
    const int status =
        lull_nvml_read_field(nvml, device, NVML_FIELD_POWER_INSTANT, NVML_SCOPE_GPU, &power);

    /* Drivers that do not know the field may say so by other codes than that of a busy one. */
    if (lull_nvml_meaning(status)->error == -EAGAIN && status != NVML_NO_DATA)
        *passing = status;
    nvml->has_instant_power[gpu] = status == NVML_SUCCESS;
    nvml->has_module_power[gpu] = lull_nvml_read_field(nvml, device, NVML_FIELD_POWER_INSTANT,
                                                       NVML_SCOPE_MODULE, &power) == NVML_SUCCESS;
    info->has_only_module_power = nvml->has_module_power[gpu] && !nvml->has_instant_power[gpu];
    return nvml->has_instant_power[gpu];
}

static uint32_t nvml_describe_capabilities(struct lull_nvml *nvml, uint32_t gpu,
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
        has_described(NVML_INVOKE(nvml, power_limit_range, device, &info->power_limit_min_mw,
                                  &info->power_limit_max_mw),
                      passing) &&
        !info->has_only_module_power)
        capabilities |= LULL_CAPABILITY_POWER_LIMIT;
    if (nvml->power_limit_default != NULL &&
        nvml->power_limit_default(device, &info->power_limit_default_mw) != NVML_SUCCESS)
        info->power_limit_default_mw = 0;
    if (has_described(NVML_INVOKE(nvml, energy, device, &energy), passing))
        capabilities |= LULL_CAPABILITY_ENERGY_COUNTER;
    return capabilities;
}

/* Profiles that cannot be removed again are not requested. */
static uint32_t describe_profiles(struct lull_nvml *nvml, void *device, int *passing)
{
    const bool can_change = nvml->update_profiles != NULL ||
                            (nvml->add_profiles != NULL && nvml->remove_profiles != NULL);
    struct nvml_profile_state profiles;

    if (!can_change || !has_described(lull_nvml_read_profiles(nvml, device, &profiles), passing))
        return 0;
    return profiles.supported.words[0] & LULL_POWER_PROFILE_ALL;
}

/* Smoothing that cannot be switched off again is not switched on. */
static bool describe_smoothing(struct lull_nvml *nvml, uint32_t gpu, struct lull_device_info *info,
                               int *passing)
{
    void *device = nvml->devices[gpu];
    uint64_t floor_percent;
    uint64_t presets;

    if (nvml->set_smoothing_preset == NULL || nvml->activate_smoothing_preset == NULL ||
        nvml->set_smoothing_state == NULL || info->power_limit_max_mw == 0 ||
        !has_described(
            lull_nvml_read_field(nvml, device, NVML_FIELD_SMOOTHING_MAX_FLOOR, 0, &floor_percent),
            passing) ||
        !has_described(
            lull_nvml_read_field(nvml, device, NVML_FIELD_SMOOTHING_PRESETS, 0, &presets),
            passing) ||
        presets == 0 || presets > 64 || floor_percent == 0 || floor_percent > 100)
        return false;
    info->smoothing_floor_percent = (uint32_t)floor_percent;
    info->smoothing_preset = nvml->smoothing_presets[gpu] = (uint32_t)presets - 1;
    return true;
}

static int nvml_fail_description(int status, struct lull_error *err)
{
    return lull_error_set(err, lull_nvml_meaning(status)->error, "%s (NVML %d)",
                          lull_nvml_meaning(status)->text, status);
}

int lull_nvml_describe(void *state, uint32_t gpu, struct lull_device_info *info,
                       struct lull_error *err)
{
    struct lull_nvml *nvml = state;
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
    if (NVML_INVOKE(nvml, name, device, info->name, sizeof(info->name)) != NVML_SUCCESS)
        info->name[0] = '\0';
    memcpy(nvml->uuids[gpu], info->uuid, sizeof(nvml->uuids[gpu]));
    if (NVML_INVOKE(nvml, pci_info, device, &pci) == NVML_SUCCESS)
        snprintf(info->pci_bus_id, sizeof(info->pci_bus_id), "%.*s", (int)sizeof(pci.bus_id) - 1,
                 pci.bus_id);
    if (NVML_INVOKE(nvml, architecture, device, &architecture) == NVML_SUCCESS &&
        (int)architecture != NVML_ARCHITECTURE_UNKNOWN)
        info->architecture = architecture;
    info->is_virtual = NVML_INVOKE(nvml, virtualization, device, &mode) == NVML_SUCCESS &&
                       mode == NVML_VIRTUALIZATION_VGPU;
    status = NVML_SUCCESS;
    describe_clocks(nvml, device, info, &status);
    info->capabilities = nvml_describe_capabilities(nvml, gpu, info, &status);
    info->power_profiles = describe_profiles(nvml, device, &status);
    if (info->power_profiles != 0)
        info->capabilities |= LULL_CAPABILITY_POWER_PROFILES;
    if (describe_smoothing(nvml, gpu, info, &status))
        info->capabilities |= LULL_CAPABILITY_POWER_SMOOTHING;
    return status != NVML_SUCCESS ? nvml_fail_description(status, err) : 0;
}
