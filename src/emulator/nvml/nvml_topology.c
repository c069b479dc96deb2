/*
 * Links, topology and partitions.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "base/clock.h"
#include "emulator/nvml/nvml_library.h"

/* ---- PCIe ---- */

NVML_GET_FACT(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, gpu->model.pcie_generation)
NVML_ALIAS(nvmlDeviceGetGpuMaxPcieLinkGeneration, nvmlDeviceGetMaxPcieLinkGeneration);
NVML_ALIAS(nvmlDeviceGetCurrPcieLinkGeneration, nvmlDeviceGetMaxPcieLinkGeneration);
NVML_GET_FACT(nvmlDeviceGetMaxPcieLinkWidth, unsigned, gpu->model.pcie_lanes)
NVML_ALIAS(nvmlDeviceGetCurrPcieLinkWidth, nvmlDeviceGetMaxPcieLinkWidth);
NVML_GET_FACT(nvmlDeviceGetPcieSpeed, unsigned, 1000u << gpu->model.pcie_generation)
NVML_GET_FACT(nvmlDeviceGetPcieLinkMaxSpeed, unsigned, gpu->model.pcie_generation) /* an enum */
NVML_GET_FACT(nvmlDeviceGetPcieReplayCounter, unsigned, 0)

/* ---- NVLink ---- */

int nvml_enter_link(nvmlDevice_t device, unsigned link, const void *output)
{
    NVML_ENTER(nvml_enter(device, output, &gpu));
    if (gpu->model.nvlink_count == 0)
        return NVML_NOT_SUPPORTED;
    if (link < gpu->model.nvlink_count)
        return NVML_SUCCESS;
    return NVML_INVALID_ARGUMENT;
}

int nvml_enter_link_up(nvmlDevice_t device, unsigned link, const void *output,
                       struct lull_link_end *end_out)
{
    LULL_DRIVER_CHECK(nvml_enter_link(device, link, output));
    *end_out = lull_topology_link(device->topology, device->index, link);
    return end_out->kind == LULL_LINK_DOWN ? NVML_NOT_SUPPORTED : NVML_SUCCESS;
}

#define NVML_GET_LINK(name, type, expression)                                                      \
    NVML_EXPORT(name, nvmlDevice_t device, unsigned link, type *value_out)                         \
    {                                                                                              \
        LULL_DRIVER_CHECK(nvml_enter_link(device, link, value_out));                               \
        *value_out = (expression);                                                                 \
        return NVML_SUCCESS;                                                                       \
    }

NVML_GET_LINK(nvmlDeviceGetNvLinkState, int,
              lull_topology_link(device->topology, device->index, link).kind != LULL_LINK_DOWN)

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

NVML_EXPORT(nvmlDeviceGetNvLinkRemoteDeviceType, nvmlDevice_t device, unsigned link,
            unsigned *type_out)
{
    enum { REMOTE_GPU = 0, REMOTE_SWITCH = 2 };
    struct lull_link_end end;

    LULL_DRIVER_CHECK(nvml_enter_link_up(device, link, type_out, &end));
    *type_out = end.kind == LULL_LINK_GPU ? REMOTE_GPU : REMOTE_SWITCH;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetNvLinkCapability, nvmlDevice_t device, unsigned link, int capability,
            unsigned *value_out)
{
    LULL_DRIVER_CHECK(nvml_enter_link(device, link, value_out));
    *value_out = capability != 4; /* every capability but SLI */
    return NVML_SUCCESS;
}

/* What NVML reports for a switch that is no PCI device (known from NCCL, which compares it). */
static const struct nvml_pci_info hidden_switch = {.legacy_bus_id = "FFFFFFF:FFFF:FF",
                                                   .domain = 0xfffffff,
                                                   .bus = 0xffff,
                                                   .device = 0xff,
                                                   .bus_id = "FFFFFFF:FFFF:FF.0"};

/* The PCI device of the NVSwitches beside a model. */
static uint32_t switch_device(const struct lull_gpu_model *model)
{
    enum { ARCHITECTURE_HOPPER = 9 };

    return model->architecture < ARCHITECTURE_HOPPER ? 0x1af110de : 0x22a310de;
}

NVML_EXPORT(nvmlDeviceGetNvLinkRemotePciInfo_v2, nvmlDevice_t device, unsigned link,
            struct nvml_pci_info *out)
{
    struct lull_link_end end;

    LULL_DRIVER_CHECK(nvml_enter_link_up(device, link, out, &end));
    if (end.bus == 0) {
        *out = hidden_switch;
        return NVML_SUCCESS;
    }
    *out = (struct nvml_pci_info){.domain = end.domain, .bus = end.bus};
    if (end.kind == LULL_LINK_SWITCH)
        out->device_id = switch_device(&device->model);
    else
        out->device_id = device->pci.device_id; /* NVLinks connect GPUs of one model */
    nvml_write_bus(out);
    return NVML_SUCCESS;
}

NVML_ALIAS(nvmlDeviceGetNvLinkRemotePciInfo, nvmlDeviceGetNvLinkRemotePciInfo_v2);

/* ---- topology ---- */

static int enter_pair(nvmlDevice_t one, nvmlDevice_t other, const void *output)
{
    NVML_ENTER(nvml_enter(one, output, &gpu));
    return nvml_enter(other, output, &gpu);
}

enum { P2P_OK = 0, P2P_NO_CHIPSET = 1, P2P_NOT_SUPPORTED = 5 };

static int read_peer_status(const struct lull_nvml_gpu *one, const struct lull_nvml_gpu *other)
{
    switch (lull_driver_peers(one->node, one->index, other->index)) {
    case LULL_PEERS_OK:
        return P2P_OK;
    case LULL_PEERS_NO_CHIPSET:
        return P2P_NO_CHIPSET;
    default:
        return P2P_NOT_SUPPORTED;
    }
}

NVML_EXPORT(nvmlDeviceGetP2PStatus, nvmlDevice_t one, nvmlDevice_t other, int index,
            int *status_out)
{
    enum { P2P_NVLINK = 2, P2P_ATOMICS = 3, P2P_INDICES = 5 };
    bool has_links;

    LULL_DRIVER_CHECK(enter_pair(one, other, status_out));
    if (index < 0 || index >= P2P_INDICES || one == other)
        return NVML_INVALID_ARGUMENT;
    has_links = lull_topology_links_between(one->topology, one->index, other->index) > 0;
    *status_out = has_links ? P2P_OK : P2P_NOT_SUPPORTED;
    if (index != P2P_NVLINK && index != P2P_ATOMICS)
        *status_out = read_peer_status(one, other);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetTopologyCommonAncestor, nvmlDevice_t one, nvmlDevice_t other,
            int *level_out)
{
    LULL_DRIVER_CHECK(enter_pair(one, other, level_out));
    *level_out = (int)lull_topology_level(one->topology, one->index, other->index);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetTopologyNearestGpus, nvmlDevice_t device, int level, unsigned *count,
            nvmlDevice_t *devices)
{
    nvmlDevice_t found[LULL_NODE_MAX_GPUS];
    uint32_t length = 0;

    NVML_ENTER(nvml_enter(device, count, &gpu));
    for (uint32_t i = 0; i < nvml_gpu_count(); i++)
        if (nvml_gpu_at(i) != device &&
            (int)lull_topology_level(gpu->topology, gpu->index, nvml_gpu_at(i)->index) == level)
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

/* ---- processors and memory nodes ---- */

enum { SCOPE_NODE = 0, SCOPE_SOCKET = 1 };

struct node_range {
    uint32_t first;
    uint32_t end; /* the one behind the last */
};

/* The memory nodes of a GPU: its own, or all of its socket. */
static struct node_range find_nodes(const struct lull_nvml_gpu *gpu, unsigned scope)
{
    const struct lull_topology *const topology = gpu->topology;
    const uint32_t own = topology->places[gpu->index].slot.numa_node;
    const uint32_t per_socket = topology->numa_nodes / topology->sockets;
    const uint32_t first = lull_topology_socket(topology, gpu->index) * per_socket;

    if (scope == SCOPE_NODE)
        return (struct node_range){own, own + 1};
    return (struct node_range){first, first + per_socket};
}

static void set_bits(unsigned long *mask, unsigned length, uint64_t first, uint64_t end)
{
    const uint64_t bits = 8 * sizeof(mask[0]);

    for (uint64_t i = first; i < end && i < bits * length; i++)
        mask[i / bits] |= 1UL << (i % bits);
}

static int read_cpus(nvmlDevice_t device, unsigned length, unsigned long *mask, unsigned scope)
{
    struct node_range nodes;

    NVML_ENTER(nvml_enter(device, mask, &gpu));
    if (length == 0)
        return NVML_INVALID_ARGUMENT;
    nodes = find_nodes(gpu, scope);
    memset(mask, 0, length * sizeof(mask[0]));
    for (uint32_t node = nodes.first; node < nodes.end; node++) {
        const struct lull_cpu_range cpus = lull_topology_cpus(gpu->topology, node);

        set_bits(mask, length, cpus.first, cpus.end);
    }
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetCpuAffinity, nvmlDevice_t device, unsigned length, unsigned long *mask)
{
    return read_cpus(device, length, mask, SCOPE_NODE);
}

NVML_EXPORT(nvmlDeviceGetCpuAffinityWithinScope, nvmlDevice_t device, unsigned length,
            unsigned long *mask, unsigned scope)
{
    LULL_DRIVER_CHECK(nvml_ready());
    if (scope > SCOPE_SOCKET)
        return NVML_INVALID_ARGUMENT;
    return read_cpus(device, length, mask, scope);
}

NVML_EXPORT(nvmlDeviceGetMemoryAffinity, nvmlDevice_t device, unsigned length, unsigned long *mask,
            unsigned scope)
{
    struct node_range nodes;

    NVML_ENTER(nvml_enter(device, mask, &gpu));
    if (length == 0 || scope > SCOPE_SOCKET)
        return NVML_INVALID_ARGUMENT;
    nodes = find_nodes(gpu, scope);
    memset(mask, 0, length * sizeof(mask[0]));
    set_bits(mask, length, nodes.first, nodes.end);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceGetNumaNodeId, nvmlDevice_t device, unsigned *node_out)
{
    NVML_ENTER(nvml_enter(device, node_out, &gpu));
    if (!nvml_has_memory_node(gpu))
        return NVML_NOT_SUPPORTED;
    *node_out = gpu->topology->places[gpu->index].slot.memory_node;
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
