/*
 * Describes a GPU: names, addresses, memory, board and bus. Structures are those of version 26;
 * earlier versions get the first field alone. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "emulator/amdsmi/amdsmi_library.h"

enum { TEXT = 256, VENDOR_ID = 0x1002, SLOT_OAM = 1, BAREMETAL = 1, HBM2E = 3, HBM3 = 4 };

static const char vendor_name[] = "Advanced Micro Devices Inc. [AMD/ATI]";

uint64_t amdsmi_bdf(const struct lull_driver_gpu *gpu)
{
    return (uint64_t)((7 + 3 * (amdsmi_gpu_count() - 1 - gpu->position)) & 0xff) << 8;
}

static int write_text(char *to, size_t size, const char *text)
{
    if (size <= strlen(text))
        return AMDSMI_SMALL;
    snprintf(to, size, "%s", text);
    return AMDSMI_OK;
}

/* ---- names and numbers ---- */

struct asic {
    char market_name[TEXT];
    uint32_t vendor_id;
    char vendor[TEXT];
    uint32_t subvendor_id;
    uint64_t device_id;
    uint32_t revision;
    char serial[TEXT];
    uint32_t oam_id, compute_units;
    uint64_t graphics_version;
    uint32_t subsystem_id;
    uint32_t reserved[21];
};

_Static_assert(sizeof(struct asic) == 896, "amdsmi_asic_info_t");

AMDSMI_EXPORT(amdsmi_get_gpu_asic_info, void *handle, void *info)
{
    struct asic asic = {.vendor_id = VENDOR_ID, .subvendor_id = VENDOR_ID};

    AMDSMI_ENTER(amdsmi_enter(handle, info, &gpu));
    snprintf(asic.market_name, TEXT, "%s", gpu->model.product);
    snprintf(asic.vendor, TEXT, "%s", vendor_name);
    snprintf(asic.serial, TEXT, "0x%016llX", (unsigned long long)gpu->identity[0]);
    asic.device_id = asic.subsystem_id = gpu->model.pci_device;
    asic.oam_id = gpu->position;
    asic.compute_units = gpu->model.sm_count;
    asic.graphics_version = gpu->model.dies_per_module == 2 ? 0x90a : 0x942;
    memcpy(info, &asic, amdsmi_abi() < 26 ? sizeof(gpu->model.product) : sizeof(asic));
    return AMDSMI_OK;
}

struct driver_text {
    char version[TEXT], date[TEXT], name[TEXT];
};

AMDSMI_EXPORT(amdsmi_get_gpu_driver_info, void *handle, void *info)
{
    static const struct driver_text text = {"6.12.12-emulated", "2025/04/01 00:00", "amdgpu"};

    AMDSMI_ENTER(amdsmi_enter(handle, info, &gpu));
    memcpy(info, &text, amdsmi_abi() < 26 ? strlen(text.version) + 1 : sizeof(text));
    return AMDSMI_OK;
}

struct board {
    char model_number[TEXT], serial[TEXT], fru_id[TEXT], product_name[TEXT], manufacturer[TEXT];
    uint64_t reserved[64];
};

_Static_assert(sizeof(struct board) == 1792, "amdsmi_board_info_t");

AMDSMI_EXPORT(amdsmi_get_gpu_board_info, void *handle, struct board *board)
{
    AMDSMI_ENTER(amdsmi_enter(handle, board, &gpu));
    *board = (struct board){.manufacturer = "AMD"};
    snprintf(board->model_number, TEXT, "emulated-%04x", gpu->model.pci_device);
    snprintf(board->serial, TEXT, "%012llu",
             (unsigned long long)(gpu->identity[1] % 1000000000000));
    snprintf(board->product_name, TEXT, "%s", gpu->model.product);
    return AMDSMI_OK;
}

struct vbios {
    char name[TEXT], build_date[TEXT], part_number[TEXT], version[TEXT];
    uint64_t reserved[68];
};

_Static_assert(sizeof(struct vbios) == 1568, "amdsmi_vbios_info_t");

AMDSMI_EXPORT(amdsmi_get_gpu_vbios_info, void *handle, struct vbios *vbios)
{
    AMDSMI_ENTER(amdsmi_enter(handle, vbios, &gpu));
    *vbios = (struct vbios){.name = "emulated",
                            .build_date = "2025/01/01 00:00",
                            .part_number = "emulated",
                            .version = "022.040.003.emulated"};
    return AMDSMI_OK;
}

#define AMDSMI_TEXT(name, text)                                                                    \
    AMDSMI_EXPORT(name, void *handle, char *to, size_t size)                                       \
    {                                                                                              \
        AMDSMI_ENTER(amdsmi_enter(handle, to, &gpu));                                              \
        return write_text(to, size, text);                                                         \
    }

AMDSMI_TEXT(amdsmi_get_gpu_vendor_name, vendor_name)
AMDSMI_TEXT(amdsmi_get_gpu_subsystem_name, gpu->model.product)

AMDSMI_EXPORT(amdsmi_get_gpu_vram_vendor, void *handle, char *to, uint32_t size)
{
    AMDSMI_ENTER(amdsmi_enter(handle, to, &gpu));
    return write_text(to, size, "emulated");
}

#define AMDSMI_NUMBER(name, type, number)                                                          \
    AMDSMI_EXPORT(name, void *handle, type *out)                                                   \
    {                                                                                              \
        AMDSMI_ENTER(amdsmi_enter(handle, out, &gpu));                                             \
        *out = (type)(number);                                                                     \
        return AMDSMI_OK;                                                                          \
    }

/* The first half of the GPUs belongs to the first of two processors. */
static uint32_t numa_node(const struct lull_driver_gpu *gpu)
{
    return 2 * gpu->position / amdsmi_gpu_count();
}

AMDSMI_NUMBER(amdsmi_get_gpu_id, uint16_t, gpu->model.pci_device)
AMDSMI_NUMBER(amdsmi_get_gpu_revision, uint16_t, 0)
AMDSMI_NUMBER(amdsmi_get_gpu_subsystem_id, uint16_t, gpu->model.pci_device)
AMDSMI_NUMBER(amdsmi_get_gpu_device_bdf, uint64_t, amdsmi_bdf(gpu))
AMDSMI_NUMBER(amdsmi_get_gpu_bdf_id, uint64_t, amdsmi_bdf(gpu))
AMDSMI_NUMBER(amdsmi_get_gpu_virtualization_mode, int, BAREMETAL)
AMDSMI_NUMBER(amdsmi_is_gpu_power_management_enabled, bool, true)
AMDSMI_NUMBER(amdsmi_get_gpu_topo_numa_affinity, int32_t, numa_node(gpu))
AMDSMI_NUMBER(amdsmi_topo_get_numa_node_number, uint32_t, numa_node(gpu))
AMDSMI_NUMBER(amdsmi_get_gpu_xcd_counter, uint16_t, gpu->model.dies_per_module == 2 ? 1 : 8)

AMDSMI_EXPORT(amdsmi_get_gpu_device_uuid, void *handle, unsigned *size, char *uuid)
{
    const unsigned least = 38;

    AMDSMI_ENTER(amdsmi_enter(handle, uuid, &gpu));
    if (size == NULL || *size < least)
        return AMDSMI_INVAL;
    snprintf(uuid, *size, "%02x%s-0000-1000-%04x-%012llx", (unsigned)gpu->identity[0] & 0xff,
             "ff74a1", (unsigned)gpu->identity[1] & 0xffff,
             (unsigned long long)(gpu->identity[0] >> 16));
    return AMDSMI_OK;
}

/* Version 25 adds a UUID in a larger structure. */
AMDSMI_EXPORT(amdsmi_get_gpu_enumeration_info, void *handle, struct amdsmi_enumeration *info)
{
    AMDSMI_ENTER(amdsmi_enter(handle, info, &gpu));
    *info = (struct amdsmi_enumeration){128 + gpu->position, gpu->position, gpu->position + 1,
                                        gpu->position};
    if (amdsmi_abi() >= 26)
        snprintf((char *)(info + 1), TEXT, "GPU-%016llx", (unsigned long long)gpu->identity[0]);
    return AMDSMI_OK;
}

struct kfd {
    uint64_t id;
    uint32_t node, partition;
    uint32_t reserved[12];
};

AMDSMI_EXPORT(amdsmi_get_gpu_kfd_info, void *handle, struct kfd *kfd)
{
    AMDSMI_ENTER(amdsmi_enter(handle, kfd, &gpu));
    *kfd = (struct kfd){.id = gpu->identity[0] & 0xffff, .node = gpu->position + 2};
    return AMDSMI_OK;
}

/* ---- memory ---- */

enum { MEMORY_TYPES = 2 }; /* all of the memory, and the part that the processor can address */

static uint64_t total_bytes(const struct lull_driver_gpu *gpu)
{
    return (uint64_t)gpu->model.memory_mib << 20;
}

AMDSMI_EXPORT(amdsmi_get_gpu_memory_total, void *handle, uint32_t type, uint64_t *bytes_out)
{
    AMDSMI_ENTER(amdsmi_enter(handle, bytes_out, &gpu));
    if (type >= MEMORY_TYPES)
        return AMDSMI_UNSUPPORTED;
    *bytes_out = total_bytes(gpu);
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_get_gpu_memory_usage, void *handle, uint32_t type, uint64_t *bytes_out)
{
    AMDSMI_ENTER(amdsmi_enter(handle, bytes_out, &gpu));
    if (type >= MEMORY_TYPES)
        return AMDSMI_UNSUPPORTED;
    *bytes_out = amdsmi_used_bytes(gpu);
    return AMDSMI_OK;
}

AMDSMI_EXPORT(amdsmi_get_gpu_vram_usage, void *handle, uint32_t usage[4])
{
    AMDSMI_ENTER(amdsmi_enter(handle, usage, &gpu));
    usage[0] = gpu->model.memory_mib;
    usage[1] = (uint32_t)(amdsmi_used_bytes(gpu) >> 20);
    return AMDSMI_OK;
}

struct vram {
    int type;
    char vendor[TEXT];
    uint64_t mib;
    uint32_t bus_bits;
    uint64_t bandwidth_gbs;
    uint64_t reserved[37];
};

_Static_assert(sizeof(struct vram) == 584, "amdsmi_vram_info_t");

AMDSMI_EXPORT(amdsmi_get_gpu_vram_info, void *handle, struct vram *vram)
{
    AMDSMI_ENTER(amdsmi_enter(handle, vram, &gpu));
    *vram = (struct vram){.type = gpu->model.dies_per_module == 2 ? HBM2E : HBM3,
                          .vendor = "emulated",
                          .mib = gpu->model.memory_mib,
                          .bus_bits = gpu->model.bus_bits,
                          .bandwidth_gbs = (uint64_t)llround(gpu->model.bandwidth_gbs)};
    return AMDSMI_OK;
}

/* ---- bus ---- */

struct pcie {
    struct {
        uint16_t width;
        uint32_t mts, version;
        int slot;
        uint32_t highest_version;
        uint64_t reserved[9];
    } board;
    struct {
        uint16_t width;
        uint32_t mts, bandwidth;
        uint64_t counts[5];
        uint32_t recoveries;
        uint64_t reserved[12];
    } now;
    uint64_t reserved[32];
};

_Static_assert(sizeof(struct pcie) == 512, "amdsmi_pcie_info_t");

/* Values that the emulation does not model read as all ones. */
AMDSMI_EXPORT(amdsmi_get_pcie_info, void *handle, struct pcie *pcie)
{
    const uint16_t lanes = 16;
    uint32_t mts;

    AMDSMI_ENTER(amdsmi_enter(handle, pcie, &gpu));
    mts = UINT32_C(1000) << gpu->model.pcie_generation; /* 32 GT/s in generation 5 */
    memset(pcie, 0xff, sizeof(*pcie));
    pcie->board.width = pcie->now.width = lanes;
    pcie->board.mts = pcie->now.mts = mts;
    pcie->board.version = pcie->board.highest_version = gpu->model.pcie_generation;
    pcie->board.slot = SLOT_OAM;
    return AMDSMI_OK;
}
