/*
 * The links between emulated GPUs as a fabric: its state, the errors of links and the place of a
 * GPU in its rack. SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/nvml/nvml_library.h"

enum { ARCHITECTURE_HOPPER = 9, ARCHITECTURE_BLACKWELL = 10 };

/* ---- errors of links ---- */

NVML_EXPORT(nvmlDeviceGetNvLinkErrorCounter, nvmlDevice_t device, unsigned link, int counter,
            unsigned long long *count_out)
{
    enum { COUNTERS = 5 };

    LULL_DRIVER_CHECK(nvml_enter_link(device, link, count_out));
    if (counter < 0 || counter >= COUNTERS)
        return NVML_INVALID_ARGUMENT;
    *count_out = 0;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceResetNvLinkErrorCounters, nvmlDevice_t device, unsigned link)
{
    return nvml_enter_link(device, link, device);
}

/* ---- the fabric of the node: complete and healthy; its cluster has no name ---- */

enum {
    FABRIC_COMPLETED = 3,
    /* No reduced bandwidth, route recovery, unhealthy route, timeout or wrong configuration. */
    FABRIC_HEALTH_MASK = 2 | 2 << 2 | 2 << 4 | 2 << 6 | 1 << 8,
    FABRIC_HEALTHY = 1,
    FABRIC_VERSION_2 = 2,
    FABRIC_VERSION_3 = 3,
};

static bool has_fabric(const struct lull_nvml_gpu *gpu)
{
    return gpu->model.architecture >= ARCHITECTURE_HOPPER && gpu->model.nvlink_count > 0;
}

NVML_EXPORT(nvmlDeviceGetGpuFabricInfo, nvmlDevice_t device, struct nvml_fabric *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (!has_fabric(gpu))
        return NVML_NOT_SUPPORTED;
    *out = (struct nvml_fabric){.state = FABRIC_COMPLETED};
    return NVML_SUCCESS;
}

/* Version 3 has one member more than version 2. */
NVML_EXPORT(nvmlDeviceGetGpuFabricInfoV, nvmlDevice_t device, struct nvml_fabric_v3 *out)
{
    const uint32_t newer = NVML_VERSION_WORD(struct nvml_fabric_v3, (uint32_t)FABRIC_VERSION_3);
    const uint32_t older =
        offsetof(struct nvml_fabric_v3, health_summary) | (uint32_t)FABRIC_VERSION_2 << 24;

    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (out->version != newer && out->version != older)
        return NVML_VERSION_MISMATCH;
    if (!has_fabric(gpu))
        return NVML_NOT_SUPPORTED;
    out->fabric = (struct nvml_fabric){.state = FABRIC_COMPLETED};
    out->health_mask = FABRIC_HEALTH_MASK;
    if (out->version == newer)
        out->health_summary = FABRIC_HEALTHY;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetGpuFabricInfo_v4, nvmlDevice_t device, struct nvml_fabric_v4 *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (!has_fabric(gpu))
        return NVML_NOT_SUPPORTED;
    *out = (struct nvml_fabric_v4){.clique_count = 1,
                                   .state = FABRIC_COMPLETED,
                                   .health_mask = FABRIC_HEALTH_MASK,
                                   .health_summary = FABRIC_HEALTHY};
    return NVML_SUCCESS;
}

/* ---- since Blackwell ---- */

NVML_EXPORT(nvmlDeviceGetNvLinkInfo, nvmlDevice_t device, struct nvml_link_info *out)
{
    const uint32_t newer = NVML_VERSION_WORD(struct nvml_link_info, 2u);
    const uint32_t older = offsetof(struct nvml_link_info, firmware) | 1u << 24;

    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (out->version != newer && out->version != older)
        return NVML_VERSION_MISMATCH;
    if (gpu->model.architecture < ARCHITECTURE_BLACKWELL || gpu->model.nvlink_count == 0)
        return NVML_NOT_SUPPORTED;
    out->is_encrypted = 0;
    if (out->version == newer)
        out->firmware_count = 0;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetPlatformInfo, nvmlDevice_t device, struct nvml_platform *out)
{
    enum { PEER_SWITCH = 1 };

    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (out->version != NVML_VERSION_WORD(struct nvml_platform, 1u) &&
        out->version != NVML_VERSION_WORD(struct nvml_platform, 2u))
        return NVML_VERSION_MISMATCH;
    if (gpu->model.architecture < ARCHITECTURE_BLACKWELL || gpu->model.nvlink_count == 0)
        return NVML_NOT_SUPPORTED;
    *out = (struct nvml_platform){.version = out->version,
                                  .peer = PEER_SWITCH,
                                  .module = (uint8_t)gpu->topology->places[gpu->index].slot.module};
    return NVML_SUCCESS;
}
