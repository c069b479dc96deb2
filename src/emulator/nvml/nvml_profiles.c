/*
 * Workload power profiles: which exist, which are requested, and which of those hold. The rule
 * between them and their effect are in physics.c. SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "emulator/nvml/nvml_library.h"

enum { OPERATION_REMOVE = 0, OPERATION_ADD = 1, OPERATION_REPLACE = 2 };

static struct nvml_mask mask_of(uint32_t profiles)
{
    return (struct nvml_mask){.words = {profiles}};
}

/* Returns NVML_SUCCESS if the GPU has all profiles of the mask. */
static int check_mask(const struct lull_nvml_gpu *gpu, const struct nvml_mask *mask)
{
    uint32_t unknown = mask->words[0] & ~gpu->model.workload_profiles;

    for (uint32_t i = 1; i < sizeof(mask->words) / sizeof(mask->words[0]); i++)
        unknown |= mask->words[i];
    return unknown == 0 ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
}

/* Checks the version word of a struct and whether the GPU has profiles. */
static int check_support(const struct lull_nvml_gpu *gpu, uint32_t version, uint32_t wanted)
{
    if (version != wanted)
        return NVML_VERSION_MISMATCH;
    return gpu->model.workload_profiles != 0 ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
}

NVML_EXPORT(nvmlDeviceWorkloadPowerProfileGetProfilesInfo, nvmlDevice_t device,
            struct nvml_workload_profiles *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    LULL_DRIVER_CHECK(check_support(gpu, out->version, NVML_VERSION_WORD(*out, 1u)));
    out->supported = mask_of(gpu->model.workload_profiles);
    memset(out->profiles, 0, sizeof(out->profiles));
    for (uint32_t rest = gpu->model.workload_profiles; rest != 0; rest &= rest - 1) {
        const uint32_t number = (uint32_t)__builtin_ctz(rest);

        out->profiles[number] = (struct nvml_workload_profile){
            .version = NVML_VERSION_WORD(struct nvml_workload_profile, 1u),
            .number = number,
            .priority = number,
            .excludes = mask_of(lull_physics_excluded_profiles(&gpu->model, number)),
        };
    }
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceWorkloadPowerProfileGetCurrentProfiles, nvmlDevice_t device,
            struct nvml_workload_state *out)
{
    const struct lull_physics *physics;

    NVML_ENTER(nvml_enter_reading(device, out, &gpu));
    LULL_DRIVER_CHECK(check_support(gpu, out->version, NVML_VERSION_WORD(*out, 1u)));
    physics = lull_node_begin(gpu->node, gpu->index);
    out->supported = mask_of(gpu->model.workload_profiles);
    out->requested = mask_of(physics->profiles_requested);
    out->enforced = mask_of(physics->profiles_enforced);
    lull_node_end(gpu->node, gpu->index, false);
    return NVML_SUCCESS;
}

/* Changes the requests of a GPU that has been checked. */
static int change(const struct lull_nvml_gpu *gpu, int operation, const struct nvml_mask *mask)
{
    const uint32_t profiles = mask->words[0];

    LULL_DRIVER_CHECK(check_mask(gpu, mask));
    switch (operation) {
    case OPERATION_REMOVE:
        return lull_driver_change_profiles(gpu->driver, profiles, 0);
    case OPERATION_ADD:
        return lull_driver_change_profiles(gpu->driver, 0, profiles);
    case OPERATION_REPLACE:
        return lull_driver_change_profiles(gpu->driver, UINT32_MAX, profiles);
    default:
        return NVML_INVALID_ARGUMENT;
    }
}

static int change_requested(nvmlDevice_t device, int operation,
                            const struct nvml_workload_request *request)
{
    NVML_ENTER(nvml_enter(device, request, &gpu));
    LULL_DRIVER_CHECK(check_support(gpu, request->version, NVML_VERSION_WORD(*request, 1u)));
    LULL_DRIVER_CHECK(nvml_enter_root(device, &gpu));
    return change(gpu, operation, &request->profiles);
}

NVML_EXPORT(nvmlDeviceWorkloadPowerProfileSetRequestedProfiles, nvmlDevice_t device,
            const struct nvml_workload_request *request)
{
    return change_requested(device, OPERATION_ADD, request);
}

NVML_EXPORT(nvmlDeviceWorkloadPowerProfileClearRequestedProfiles, nvmlDevice_t device,
            const struct nvml_workload_request *request)
{
    return change_requested(device, OPERATION_REMOVE, request);
}

/* The only one of the three calls that the WPPS capability opens to users. */
NVML_EXPORT(nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1, nvmlDevice_t device,
            const struct nvml_workload_update *update)
{
    NVML_ENTER(nvml_enter(device, update, &gpu));
    if (gpu->model.workload_profiles == 0)
        return NVML_NOT_SUPPORTED;
    if (!lull_driver_opens_profiles(gpu->driver))
        LULL_DRIVER_CHECK(nvml_enter_root(device, &gpu));
    return change(gpu, update->operation, &update->profiles);
}
