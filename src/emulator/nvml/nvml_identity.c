/*
 * Identity of the emulated GPUs: the system, handles, names and numbers.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "emulator/nvml/nvml_library.h"

const char *nvmlErrorString(int code);

const char *nvmlErrorString(int code)
{
    static const char *const texts[] = {
        "Success",
        "Uninitialized",
        "Invalid Argument",
        "Not Supported",
        "Insufficient Permissions",
        "Already Initialized",
        "Not Found",
        "Insufficient Size",
        "Insufficient External Power",
        "Driver Not Loaded",
        "Timeout",
        "Interrupt Request Issue",
        "NVML Shared Library Not Found",
        "Function Not Found",
        "Corrupted infoROM",
        "GPU is lost",
        "GPU requires reset",
        "GPU access blocked by the operating system",
        "Driver/library version mismatch",
        "In use by another client",
        "Insufficient Memory",
        "No data",
        "VGPU ECC not supported",
        "Insufficient Resources",
        "Frequency not supported",
        "Argument version mismatch",
        "Deprecated",
        "System is not ready",
        "No GPUs were found",
        "Invalid state",
        "Reset type not supported",
    };

    if (code >= 0 && (size_t)code < sizeof(texts) / sizeof(texts[0]))
        return texts[code];
    return "Unknown Error";
}

/* ---- system ---- */

NVML_EXPORT(nvmlSystemGetProcessName, unsigned pid, char *name, unsigned size)
{
    char path[48];
    char text[256] = "";
    FILE *file;

    LULL_DRIVER_CHECK(nvml_ready());
    if (name == NULL || size == 0)
        return NVML_INVALID_ARGUMENT;
    snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
    file = fopen(path, "re");
    if (file == NULL)
        return NVML_NOT_FOUND;
    if (fread(text, 1, sizeof(text) - 1, file) == 0)
        text[0] = '\0';
    fclose(file);
    snprintf(name, size, "%s", text); /* NVML cuts off names that are too long */
    return NVML_SUCCESS;
}

/* ---- handles ---- */

NVML_EXPORT(nvmlDeviceGetCount_v2, unsigned *count_out)
{
    LULL_DRIVER_CHECK(nvml_ready());
    if (count_out == NULL)
        return NVML_INVALID_ARGUMENT;
    *count_out = nvml_gpu_count();
    return NVML_SUCCESS;
}

NVML_ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2);

NVML_EXPORT(nvmlDeviceGetHandleByIndex_v2, unsigned index, nvmlDevice_t *device_out)
{
    LULL_DRIVER_CHECK(nvml_ready());
    if (device_out == NULL || index >= nvml_gpu_count())
        return NVML_INVALID_ARGUMENT;
    *device_out = nvml_gpu_at(index);
    return nvml_visit(*device_out);
}

NVML_ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2);

typedef int (*is_wanted)(const struct lull_nvml_gpu *gpu, const char *text);

static int nvml_identity_find_gpu(const char *text, is_wanted wanted, nvmlDevice_t *device_out)
{
    LULL_DRIVER_CHECK(nvml_ready());
    if (text == NULL || device_out == NULL)
        return NVML_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < nvml_gpu_count(); i++) {
        if (wanted(nvml_gpu_at(i), text)) {
            *device_out = nvml_gpu_at(i);
            return nvml_visit(*device_out);
        }
    }
    return NVML_NOT_FOUND;
}

static int has_uuid(const struct lull_nvml_gpu *gpu, const char *text)
{
    return strcmp(gpu->uuid, text) == 0;
}

static int has_serial(const struct lull_nvml_gpu *gpu, const char *text)
{
    return *text != '\0' && strcmp(gpu->serial, text) == 0;
}

static int has_bus_id(const struct lull_nvml_gpu *gpu, const char *text)
{
    unsigned domain = 0;
    unsigned bus;
    unsigned device;
    unsigned function = 0;

    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3) {
        domain = 0;
        if (sscanf(text, "%x:%x.%x", &bus, &device, &function) < 2)
            return 0;
    }
    return domain == gpu->pci.domain && bus == gpu->pci.bus && device == gpu->pci.device &&
           function == 0;
}

NVML_EXPORT(nvmlDeviceGetHandleByUUID, const char *uuid, nvmlDevice_t *device_out)
{
    return nvml_identity_find_gpu(uuid, has_uuid, device_out);
}

NVML_EXPORT(nvmlDeviceGetHandleByUUIDV, const struct nvml_uuid *uuid, nvmlDevice_t *device_out)
{
    LULL_DRIVER_CHECK(nvml_ready());
    if (uuid == NULL)
        return NVML_INVALID_ARGUMENT;
    if (uuid->version != NVML_VERSION_WORD(struct nvml_uuid, 1u))
        return NVML_VERSION_MISMATCH;
    if (uuid->type != 1 || memchr(uuid->text, '\0', sizeof(uuid->text)) == NULL)
        return NVML_INVALID_ARGUMENT;
    return nvml_identity_find_gpu(uuid->text, has_uuid, device_out);
}

NVML_EXPORT(nvmlDeviceGetHandleBySerial, const char *serial, nvmlDevice_t *device_out)
{
    return nvml_identity_find_gpu(serial, has_serial, device_out);
}

NVML_EXPORT(nvmlDeviceGetHandleByPciBusId_v2, const char *bus_id, nvmlDevice_t *device_out)
{
    return nvml_identity_find_gpu(bus_id, has_bus_id, device_out);
}

NVML_ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2);

/* ---- texts and numbers ---- */

#define NVML_GET_TEXT(name, expression)                                                            \
    NVML_EXPORT(name, nvmlDevice_t device, char *text, unsigned size)                              \
    {                                                                                              \
        NVML_ENTER(nvml_enter(device, text, &gpu));                                                \
        return nvml_copy_text(expression, text, size);                                             \
    }

NVML_GET_TEXT(nvmlDeviceGetName, gpu->model.product)
NVML_GET_TEXT(nvmlDeviceGetUUID, gpu->uuid)
NVML_GET_TEXT(nvmlDeviceGetVbiosVersion, gpu->model.vbios)

/* Copies a text that not all boards have. */
static int copy_optional(const char *known, char *text, unsigned size)
{
    return *known == '\0' ? NVML_NOT_SUPPORTED : nvml_copy_text(known, text, size);
}

NVML_EXPORT(nvmlDeviceGetSerial, nvmlDevice_t device, char *text, unsigned size)
{
    NVML_ENTER(nvml_enter(device, text, &gpu));
    return copy_optional(gpu->serial, text, size);
}

NVML_EXPORT(nvmlDeviceGetBoardPartNumber, nvmlDevice_t device, char *text, unsigned size)
{
    NVML_ENTER(nvml_enter(device, text, &gpu));
    return copy_optional(gpu->model.part_number, text, size);
}

NVML_GET_FACT(nvmlDeviceGetIndex, unsigned, gpu->position)
NVML_GET_FACT(nvmlDeviceGetMinorNumber, unsigned, gpu->position)
NVML_GET_FACT(nvmlDeviceGetModuleId, unsigned, gpu->topology->places[gpu->index].slot.module)
NVML_GET_FACT(nvmlDeviceGetBoardId, unsigned,
              gpu->pci.domain << 16 | gpu->pci.bus << 8 | gpu->pci.device)
NVML_GET_FACT(nvmlDeviceGetMultiGpuBoard, unsigned, 0)
NVML_GET_FACT(nvmlDeviceGetBrand, int, gpu->model.brand)
NVML_GET_FACT(nvmlDeviceGetArchitecture, unsigned, gpu->model.architecture)
NVML_GET_FACT(nvmlDeviceGetNumGpuCores, unsigned, gpu->model.core_count)
NVML_GET_FACT(nvmlDeviceGetMemoryBusWidth, unsigned, gpu->model.bus_bits)
NVML_GET_FACT(nvmlDeviceGetBusType, unsigned, 2)
/* Captures of boards for data centres show it enabled, those of GeForce boards without a monitor
 * disabled. */
NVML_GET_FACT(nvmlDeviceGetDisplayMode, int, !nvml_is_geforce(gpu))
NVML_GET_FACT(nvmlDeviceGetDisplayActive, int, 0)

NVML_GET_PAIR(nvmlDeviceGetCudaComputeCapability, int, true, gpu->model.compute_major,
              gpu->model.compute_minor)

NVML_GET_FACT(nvmlDeviceGetPciInfo_v3, struct nvml_pci_info, gpu->pci)
NVML_ALIAS(nvmlDeviceGetPciInfo_v2, nvmlDeviceGetPciInfo_v3);
NVML_ALIAS(nvmlDeviceGetPciInfo, nvmlDeviceGetPciInfo_v3);

NVML_EXPORT(nvmlDeviceGetPciInfoExt, nvmlDevice_t device, struct nvml_pci_info_ext *out)
{
    NVML_ENTER(nvml_enter(device, out, &gpu));
    if (out->version != NVML_VERSION_WORD(struct nvml_pci_info_ext, 1u))
        return NVML_VERSION_MISMATCH;
    out->domain = gpu->pci.domain;
    out->bus = gpu->pci.bus;
    out->device = gpu->pci.device;
    out->device_id = gpu->pci.device_id;
    out->subsystem_id = gpu->pci.subsystem_id;
    out->base_class = 3;
    out->sub_class = 2;
    memcpy(out->bus_id, gpu->pci.bus_id, sizeof(out->bus_id));
    return NVML_SUCCESS;
}

/* ---- modes ---- */

NVML_GET_FACT(nvmlDeviceGetPersistenceMode, int,
              lull_node_setting(gpu->node, gpu->index, LULL_NODE_PERSISTENCE))
NVML_GET_FACT(nvmlDeviceGetComputeMode, int,
              lull_node_setting(gpu->node, gpu->index, LULL_NODE_COMPUTE_MODE))

static int change_setting(nvmlDevice_t device, enum lull_node_setting setting, int value, int max)
{
    NVML_ENTER(nvml_enter_root(device, &gpu));
    if (value < 0 || value > max)
        return NVML_INVALID_ARGUMENT;
    lull_node_set_setting(gpu->node, gpu->index, setting, (uint32_t)value);
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlDeviceSetPersistenceMode, nvmlDevice_t device, int mode)
{
    return change_setting(device, LULL_NODE_PERSISTENCE, mode, 1);
}

NVML_EXPORT(nvmlDeviceSetComputeMode, nvmlDevice_t device, int mode)
{
    return change_setting(device, LULL_NODE_COMPUTE_MODE, mode, 3);
}
