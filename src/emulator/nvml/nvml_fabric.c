/*
 * The links between emulated GPUs as a fabric: its state, the errors of links and the place of a
 * GPU in its rack. SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

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

/* ---- the fabric: complete and healthy; only a rack has a name ---- */

enum {
    FABRIC_COMPLETED = 3,
    FABRIC_HEALTHY = 1,
    FABRIC_VERSION_2 = 2,
    FABRIC_VERSION_3 = 3,
    RACK_CLIQUE = 2, /* as on a captured GB200; so are the numbers of its place */
    RACK_SLOT = 14,
    RACK_TRAY = 4,
    RACK_HOST = 1,
};

static bool has_fabric(const struct lull_nvml_gpu *gpu)
{
    return gpu->model.architecture >= ARCHITECTURE_HOPPER && gpu->model.nvlink_count > 0;
}

static struct nvml_fabric read_fabric(const struct lull_nvml_gpu *gpu)
{
    struct nvml_fabric fabric = {.state = FABRIC_COMPLETED};
    uint64_t identity[2];

    if (!nvml_has_memory_node(gpu))
        return fabric;
    lull_driver_identify(gpu->node, gpu->topology->first, identity);
    memcpy(fabric.cluster, identity, sizeof(fabric.cluster));
    fabric.clique = RACK_CLIQUE;
    return fabric;
}

/* What drivers report as captured: nothing before Blackwell, and all of it in a rack. */
static uint32_t read_health(const struct lull_nvml_gpu *gpu)
{
    enum { FULL_BANDWIDTH = 2, NO_RECOVERY = 2 << 2, ROUTES_HEALTHY = 2 << 4, NO_TIMEOUT = 2 << 6 };

    if (gpu->model.architecture < ARCHITECTURE_BLACKWELL)
        return 0;
    if (!nvml_has_memory_node(gpu))
        return NO_TIMEOUT;
    return FULL_BANDWIDTH | NO_RECOVERY | ROUTES_HEALTHY | NO_TIMEOUT;
}

static uint8_t read_health_summary(const struct lull_nvml_gpu *gpu)
{
    return gpu->model.architecture < ARCHITECTURE_BLACKWELL ? 0 : FABRIC_HEALTHY;
}

NVML_EXPORT(nvmlDeviceGetGpuFabricInfo, nvmlDevice_t device, struct nvml_fabric *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (!has_fabric(gpu))
        return NVML_NOT_SUPPORTED;
    *out = read_fabric(gpu);
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
    out->fabric = read_fabric(gpu);
    out->health_mask = read_health(gpu);
    if (out->version == newer)
        out->health_summary = read_health_summary(gpu);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetGpuFabricInfo_v4, nvmlDevice_t device, struct nvml_fabric_v4 *out)
{
    struct nvml_fabric fabric;

    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (!has_fabric(gpu))
        return NVML_NOT_SUPPORTED;
    fabric = read_fabric(gpu);
    *out = (struct nvml_fabric_v4){.cliques[0].id = fabric.clique,
                                   .clique_count = 1,
                                   .state = fabric.state,
                                   .health_mask = read_health(gpu),
                                   .health_summary = read_health_summary(gpu)};
    memcpy(out->cluster, fabric.cluster, sizeof(out->cluster));
    return NVML_SUCCESS;
}

/* The link between Grace and its GPUs. */
NVML_EXPORT(nvmlDeviceGetC2cModeInfoV, nvmlDevice_t device, unsigned *is_on_out)
{
    NVML_ENTER(nvml_enter(device, is_on_out, &gpu));
    if (!has_fabric(gpu) && !nvml_has_memory_node(gpu))
        return NVML_NOT_SUPPORTED;
    *is_on_out = nvml_has_memory_node(gpu);
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
                                  .host = RACK_HOST,
                                  .peer = PEER_SWITCH,
                                  .slot = UINT8_MAX,
                                  .tray = UINT8_MAX,
                                  .module = (uint8_t)gpu->topology->places[gpu->index].slot.module};
    memcpy(out->guid, &gpu->driver->identity[1], sizeof(gpu->driver->identity[1]));
    if (nvml_has_memory_node(gpu)) {
        snprintf((char *)out->chassis, sizeof(out->chassis), "18%011u",
                 (unsigned)(lull_node_seed(gpu->node) & 0x7fffffff));
        out->slot = RACK_SLOT;
        out->tray = RACK_TRAY;
    }
    return NVML_SUCCESS;
}
