/*
 * Processors by kind and address, the links between GPUs, power profiles and partitions.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "emulator/amdsmi/amdsmi_library.h"

enum { TYPE_AMD_GPU = 1, LINK_XGMI = 2 };

/* ---- processors ---- */

static int write_address(void *handle, size_t size, char *to)
{
    AMDSMI_ENTER(amdsmi_enter(handle, to, &gpu));
    if (size < sizeof("0000:00:00"))
        return AMDSMI_SMALL;
    snprintf(to, size, "0000:%02x:00", (unsigned)(amdsmi_bdf(gpu) >> 8) & 0xff);
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_get_socket_info, void *socket, size_t size, char *name)
{
    return write_address(socket, size, name);
}

AMDSMI_EXPORT(amdsmi_get_processor_info, void *handle, size_t size, char *name)
{
    return write_address(handle, size, name);
}

AMDSMI_EXPORT(amdsmi_get_processor_count_from_handles, void **handles, const uint32_t *count,
              uint32_t *sockets_out, uint32_t *cores_out, uint32_t *gpus_out)
{
    LULL_DRIVER_CHECK(amdsmi_enter_library());
    if (handles == NULL || count == NULL || sockets_out == NULL || cores_out == NULL ||
        gpus_out == NULL)
        return AMDSMI_INVAL;
    *sockets_out = *cores_out = *gpus_out = 0;
    for (uint32_t i = 0; i < *count; i++) {
        AMDSMI_ENTER(amdsmi_enter(handles[i], gpus_out, &gpu));
        (*gpus_out)++;
    }
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_get_processor_handles_by_type, void *socket, int type, void **handles,
              uint32_t *count)
{
    uint32_t room;

    AMDSMI_ENTER(amdsmi_enter(socket, count, &gpu));
    room = *count;
    *count = type == TYPE_AMD_GPU ? 1 : 0;
    if (handles == NULL || *count == 0)
        return AMDSMI_OK;
    if (room < *count)
        return AMDSMI_SMALL;
    handles[0] = socket;
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_get_processor_handle_from_bdf, uint64_t bdf, void **handle_out)
{
    LULL_DRIVER_CHECK(amdsmi_enter_library());
    if (handle_out == NULL)
        return AMDSMI_INVAL;
    for (uint32_t i = 0; i < amdsmi_gpu_count(); i++)
        if (amdsmi_bdf(amdsmi_gpu_at(i)) == bdf) {
            *handle_out = amdsmi_gpu_at(i);
            return AMDSMI_OK;
        }
    return AMDSMI_NOT_FOUND;
}

/* ---- links: every GPU has a link to every other ---- */

static int enter_pair(void *from, void *to, const void *output)
{
    AMDSMI_ENTER(amdsmi_enter(from, output, &gpu));
    LULL_DRIVER_CHECK(amdsmi_enter(to, output, &gpu));
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_topo_get_link_weight, void *from, void *to, uint64_t *weight_out)
{
    LULL_DRIVER_CHECK(enter_pair(from, to, weight_out));
    *weight_out = from == to ? 0 : 15;
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_topo_get_link_type, void *from, void *to, uint64_t *hops_out, int *type_out)
{
    LULL_DRIVER_CHECK(enter_pair(from, to, hops_out));
    if (type_out == NULL || from == to)
        return AMDSMI_INVAL;
    *hops_out = 1;
    *type_out = LINK_XGMI;
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_is_P2P_accessible, void *from, void *to, bool *out)
{
    LULL_DRIVER_CHECK(enter_pair(from, to, out));
    *out = true;
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_topo_get_p2p_status, void *from, void *to, int *type_out, uint8_t can_do[5])
{
    LULL_DRIVER_CHECK(enter_pair(from, to, type_out));
    if (can_do == NULL || from == to)
        return AMDSMI_INVAL;
    *type_out = LINK_XGMI;
    memset(can_do, 1, 5);
    return AMDSMI_OK;
}

/* Later versions have room for more processors, and the same beginning. */
struct nearest {
    uint32_t count;
    void *processors[32];
    uint64_t reserved[15];
};

_Static_assert(sizeof(struct nearest) == 384, "amdsmi_topology_nearest_t of 26.0");

AMDSMI_EXPORT(amdsmi_get_link_topology_nearest, void *handle, int type, struct nearest *nearest)
{
    AMDSMI_ENTER(amdsmi_enter(handle, nearest, &gpu));
    nearest->count = 0;
    for (uint32_t i = 0; type == LINK_XGMI && i < amdsmi_gpu_count() && nearest->count < 32; i++)
        if (amdsmi_gpu_at(i) != gpu)
            nearest->processors[nearest->count++] = amdsmi_gpu_at(i);
    return AMDSMI_OK;
}

struct xgmi {
    uint8_t lanes;
    uint64_t hive, node;
    uint32_t index;
    uint32_t reserved[9];
};

_Static_assert(sizeof(struct xgmi) == 64, "amdsmi_xgmi_info_t");

AMDSMI_EXPORT(amdsmi_get_xgmi_info, void *handle, struct xgmi *xgmi)
{
    AMDSMI_ENTER(amdsmi_enter(handle, xgmi, &gpu));
    *xgmi = (struct xgmi){.lanes = 16,
                          .hive = amdsmi_gpu_at(0)->identity[0],
                          .node = gpu->identity[0],
                          .index = gpu->position};
    return AMDSMI_OK;
}

/* ---- power profiles: they are reported; the physics does not depend on them ---- */

enum { PROFILE_COMPUTE = 0x8, PROFILE_BOOT = 0x40 };

struct profiles {
    uint64_t available, current;
    uint32_t count;
};

_Static_assert(sizeof(struct profiles) == 24, "amdsmi_power_profile_status_t");

AMDSMI_EXPORT(amdsmi_get_gpu_power_profile_presets, void *handle, uint32_t sensor,
              struct profiles *profiles)
{
    uint32_t current;

    AMDSMI_ENTER(amdsmi_enter(handle, profiles, &gpu));
    if (sensor != 0)
        return AMDSMI_INVAL;
    current = lull_node_setting(gpu->node, gpu->index, LULL_NODE_AMD_PROFILE);
    *profiles = (struct profiles){.available = PROFILE_COMPUTE | PROFILE_BOOT,
                                  .current = current != 0 ? current : PROFILE_BOOT,
                                  .count = 2};
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_set_gpu_power_profile, void *handle, uint32_t reserved, uint64_t profile)
{
    AMDSMI_ENTER(amdsmi_enter_root(handle, &gpu));
    if (reserved != 0 || (profile != PROFILE_COMPUTE && profile != PROFILE_BOOT))
        return AMDSMI_INVAL;
    lull_node_set_setting(gpu->node, gpu->index, LULL_NODE_AMD_PROFILE, (uint32_t)profile);
    return AMDSMI_OK;
}

/* ---- partitions: a GPU is one partition with one memory domain, which cannot be changed ---- */

enum { NPS1 = 1, SPX = 1 };

static int enter_partitioned(void *handle, const void *output, const struct lull_driver_gpu **out)
{
    LULL_DRIVER_CHECK(amdsmi_enter(handle, output, out));
    return (*out)->model.dies_per_module == 2 ? AMDSMI_UNSUPPORTED : AMDSMI_OK;
}

#define AMDSMI_PARTITION(name, text)                                                               \
    AMDSMI_EXPORT(name, void *handle, char *to, uint32_t size)                                     \
    {                                                                                              \
        AMDSMI_ENTER(enter_partitioned(handle, to, &gpu));                                         \
        if (size < sizeof(text))                                                                   \
            return AMDSMI_SMALL;                                                                   \
        memcpy(to, text, sizeof(text));                                                            \
        return AMDSMI_OK;                                                                          \
    }

AMDSMI_PARTITION(amdsmi_get_gpu_compute_partition, "SPX")
AMDSMI_PARTITION(amdsmi_get_gpu_memory_partition, "NPS1")

#define AMDSMI_SET_PARTITION(name, only)                                                           \
    AMDSMI_EXPORT(name, void *handle, uint32_t mode)                                               \
    {                                                                                              \
        AMDSMI_ENTER(amdsmi_enter_root(handle, &gpu));                                             \
        return mode == (only) && gpu->model.dies_per_module != 2 ? AMDSMI_OK : AMDSMI_UNSUPPORTED; \
    }

AMDSMI_SET_PARTITION(amdsmi_set_gpu_compute_partition, SPX)
AMDSMI_SET_PARTITION(amdsmi_set_gpu_memory_partition, NPS1)
AMDSMI_SET_PARTITION(amdsmi_set_gpu_memory_partition_mode, NPS1)
AMDSMI_SET_PARTITION(amdsmi_set_gpu_accelerator_partition_profile, 0)

struct memory_partition {
    uint32_t can_do; /* a bit for each mode, as in the mode's number */
    uint32_t mode;
    uint32_t range_count;
    uint64_t ranges[32][3];
    uint64_t reserved[11];
};

_Static_assert(sizeof(struct memory_partition) == 872, "amdsmi_memory_partition_config_t");

AMDSMI_EXPORT(amdsmi_get_gpu_memory_partition_config, void *handle, struct memory_partition *out)
{
    AMDSMI_ENTER(enter_partitioned(handle, out, &gpu));
    *out = (struct memory_partition){.can_do = NPS1, .mode = NPS1};
    return AMDSMI_OK;
}

struct partition_profile {
    uint32_t type, partitions, memory_can_do, index, resource_count;
    uint32_t resources[8][32];
    uint64_t reserved[13];
};

_Static_assert(sizeof(struct partition_profile) == 1152, "amdsmi_accelerator_partition_profile_t");

AMDSMI_EXPORT(amdsmi_get_gpu_accelerator_partition_profile, void *handle,
              struct partition_profile *profile, uint32_t *partition_ids)
{
    AMDSMI_ENTER(enter_partitioned(handle, profile, &gpu));
    if (partition_ids == NULL)
        return AMDSMI_INVAL;
    *profile = (struct partition_profile){.type = SPX, .partitions = 1, .memory_can_do = NPS1};
    partition_ids[0] = 0;
    return AMDSMI_OK;
}
