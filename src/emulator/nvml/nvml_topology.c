/*
 * Links, topology and partitions of a node with one socket for every four GPUs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "emulator/nvml/nvml_library.h"

enum {
    GPUS_PER_SOCKET = 4,
    TOPOLOGY_INTERNAL = 0,
    TOPOLOGY_NODE = 40,
    TOPOLOGY_SYSTEM = 50,
    LINK_REMOTE_SWITCH = 2,
};

/* ---- PCIe ---- */

NVML_GET_FACT(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, gpu->model.pcie_generation)
NVML_ALIAS(nvmlDeviceGetGpuMaxPcieLinkGeneration, nvmlDeviceGetMaxPcieLinkGeneration);
NVML_ALIAS(nvmlDeviceGetCurrPcieLinkGeneration, nvmlDeviceGetMaxPcieLinkGeneration);
NVML_GET_FACT(nvmlDeviceGetMaxPcieLinkWidth, unsigned, 16)
NVML_ALIAS(nvmlDeviceGetCurrPcieLinkWidth, nvmlDeviceGetMaxPcieLinkWidth);
NVML_GET_FACT(nvmlDeviceGetPcieSpeed, unsigned, 1000u << gpu->model.pcie_generation)
NVML_GET_FACT(nvmlDeviceGetPcieLinkMaxSpeed, unsigned, gpu->model.pcie_generation) /* an enum */
NVML_GET_FACT(nvmlDeviceGetPcieReplayCounter, unsigned, 0)

/* ---- NVLink ---- */

static int enter_link(nvmlDevice_t device, unsigned link, const void *output)
{
    NVML_ENTER(nvml_enter(device, output, &gpu));
    if (gpu->model.nvlink_count == 0)
        return NVML_NOT_SUPPORTED;
    if (link < gpu->model.nvlink_count)
        return NVML_SUCCESS;
    return NVML_INVALID_ARGUMENT;
}

#define NVML_GET_LINK(name, type, expression)                                                      \
    NVML_EXPORT(name, nvmlDevice_t device, unsigned link, type *value_out)                         \
    {                                                                                              \
        LULL_DRIVER_CHECK(enter_link(device, link, value_out));                                    \
        *value_out = (expression);                                                                 \
        return NVML_SUCCESS;                                                                       \
    }

NVML_GET_LINK(nvmlDeviceGetNvLinkState, int, 1)

/* The enum of NVML for 2.0, 2.2, 3.1, 4.0 and 5.0, which follow the architecture. */
static unsigned link_version(const struct lull_gpu_model *model)
{
    switch (model->architecture) {
    case 5:
        return 2;
    case 6:
        return 3;
    case 7:
        return 5;
    case 9:
        return 6;
    default:
        return 7;
    }
}

NVML_GET_LINK(nvmlDeviceGetNvLinkVersion, unsigned, link_version(&device->model))
NVML_GET_LINK(nvmlDeviceGetNvLinkRemoteDeviceType, unsigned, LINK_REMOTE_SWITCH)

NVML_EXPORT(nvmlDeviceGetNvLinkCapability, nvmlDevice_t device, unsigned link, int capability,
            unsigned *value_out)
{
    LULL_DRIVER_CHECK(enter_link(device, link, value_out));
    *value_out = capability != 4; /* every capability but SLI */
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetNvLinkRemotePciInfo_v2, nvmlDevice_t device, unsigned link,
            struct nvml_pci_info *out)
{
    LULL_DRIVER_CHECK(enter_link(device, link, out));
    *out = (struct nvml_pci_info){.legacy_bus_id = "0000:F5:00.0",
                                  .bus = 0xf5,
                                  .device_id = 0x1af110de,
                                  .bus_id = "00000000:F5:00.0"};
    return NVML_SUCCESS;
}

NVML_ALIAS(nvmlDeviceGetNvLinkRemotePciInfo, nvmlDeviceGetNvLinkRemotePciInfo_v2);

/* ---- topology ---- */

static int enter_pair(nvmlDevice_t one, nvmlDevice_t other, const void *output)
{
    NVML_ENTER(nvml_enter(one, output, &gpu));
    return nvml_enter(other, output, &gpu);
}

NVML_EXPORT(nvmlDeviceGetP2PStatus, nvmlDevice_t one, nvmlDevice_t other, int index,
            int *status_out)
{
    enum { P2P_NVLINK = 2, P2P_ATOMICS = 3, P2P_INDICES = 5, P2P_NOT_SUPPORTED = 5 };

    LULL_DRIVER_CHECK(enter_pair(one, other, status_out));
    if (index < 0 || index >= P2P_INDICES || one == other)
        return NVML_INVALID_ARGUMENT;
    *status_out = 0;
    if ((index == P2P_NVLINK || index == P2P_ATOMICS) &&
        (one->model.nvlink_count == 0 || other->model.nvlink_count == 0))
        *status_out = P2P_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

static int common_level(const struct lull_nvml_gpu *one, const struct lull_nvml_gpu *other)
{
    if (one == other)
        return TOPOLOGY_INTERNAL;
    if (one->position / GPUS_PER_SOCKET == other->position / GPUS_PER_SOCKET)
        return TOPOLOGY_NODE;
    return TOPOLOGY_SYSTEM;
}

NVML_EXPORT(nvmlDeviceGetTopologyCommonAncestor, nvmlDevice_t one, nvmlDevice_t other,
            int *level_out)
{
    LULL_DRIVER_CHECK(enter_pair(one, other, level_out));
    *level_out = common_level(one, other);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetTopologyNearestGpus, nvmlDevice_t device, int level, unsigned *count,
            nvmlDevice_t *devices)
{
    nvmlDevice_t found[LULL_NODE_MAX_GPUS];
    uint32_t length = 0;

    NVML_ENTER(nvml_enter(device, count, &gpu));
    for (uint32_t i = 0; i < nvml_gpu_count(); i++)
        if (nvml_gpu_at(i) != device && common_level(gpu, nvml_gpu_at(i)) == level)
            found[length++] = nvml_gpu_at(i);
    if (*count == 0) { /* unlike the other lists, this one returns success with its size */
        *count = length;
        return NVML_SUCCESS;
    }
    return nvml_copy_list(found, length, sizeof(found[0]), count, devices);
}

NVML_EXPORT(nvmlDeviceOnSameBoard, nvmlDevice_t one, nvmlDevice_t other, int *same_out)
{
    LULL_DRIVER_CHECK(enter_pair(one, other, same_out));
    *same_out = one == other;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetCpuAffinity, nvmlDevice_t device, unsigned length, unsigned long *mask)
{
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    const long bits = 8 * (long)sizeof(mask[0]);
    const long sockets = (nvml_gpu_count() + GPUS_PER_SOCKET - 1) / GPUS_PER_SOCKET;
    long socket;

    NVML_ENTER(nvml_enter(device, mask, &gpu));
    if (length == 0)
        return NVML_INVALID_ARGUMENT;
    socket = gpu->position / GPUS_PER_SOCKET;
    memset(mask, 0, length * sizeof(mask[0]));
    for (long i = cpus * socket / sockets;
         i < cpus * (socket + 1) / sockets && i < bits * (long)length; i++)
        mask[i / bits] |= 1UL << (i % bits);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetCpuAffinityWithinScope, nvmlDevice_t device, unsigned length,
            unsigned long *mask, unsigned scope)
{
    LULL_DRIVER_CHECK(nvml_ready());
    if (scope <= 1)
        return nvmlDeviceGetCpuAffinity(device, length, mask);
    return NVML_INVALID_ARGUMENT;
}

NVML_EXPORT(nvmlDeviceGetMemoryAffinity, nvmlDevice_t device, unsigned length, unsigned long *mask,
            unsigned scope)
{
    NVML_ENTER(nvml_enter(device, mask, &gpu));
    if (length == 0 || scope > 1)
        return NVML_INVALID_ARGUMENT;
    memset(mask, 0, length * sizeof(mask[0]));
    mask[0] = 1UL << (gpu->position / GPUS_PER_SOCKET);
    return NVML_SUCCESS;
}

/* ---- partitions: supported by some models, switched on by a fault alone ---- */

NVML_GET_PAIR(nvmlDeviceGetMigMode, unsigned, nvml_has_partitions(gpu), nvml_is_partitioned(gpu),
              nvml_is_partitioned(gpu))
NVML_GET_FACT(nvmlDeviceGetMaxMigDeviceCount, unsigned, nvml_is_partitioned(gpu) ? 7 : 0)

NVML_EXPORT(nvmlDeviceGetMigDeviceHandleByIndex, nvmlDevice_t device, unsigned index,
            nvmlDevice_t *device_out)
{
    (void)index;
    NVML_ENTER(nvml_enter(device, device_out, &gpu));
    if (nvml_has_partitions(gpu))
        return NVML_NOT_FOUND;
    return NVML_NOT_SUPPORTED;
}

NVML_GET_FACT(nvmlDeviceIsMigDeviceHandle, unsigned, 0)

/* ---- virtual machines: only a fault makes a GPU a vGPU ---- */

enum { NVML_VIRTUALIZATION_NONE = 0, NVML_VIRTUALIZATION_VGPU = 2 };

static int virtualization_of(const struct lull_nvml_gpu *gpu)
{
    double is_virtual;

    if (lull_node_take_fault(gpu->node, gpu->index, LULL_FAULT_VGPU, &is_virtual) &&
        is_virtual != 0.0)
        return NVML_VIRTUALIZATION_VGPU;
    return NVML_VIRTUALIZATION_NONE;
}

NVML_GET_FACT(nvmlDeviceGetVirtualizationMode, int, virtualization_of(gpu))
