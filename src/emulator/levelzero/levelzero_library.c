/*
 * Opens the library, lists its devices and names them. SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/levelzero/levelzero_library.h"

#include <stdio.h>
#include <string.h>

/* Sysman's interface has one state per process, hence these globals. */
static struct lull_driver driver = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static struct zes_handle handles[LULL_NODE_MAX_GPUS][ZES_PARTS];

static void levelzero_table_describe(uint32_t position)
{
    for (uint32_t part = 0; part < ZES_PARTS; part++)
        handles[position][part] =
            (struct zes_handle){(enum zes_part)part, lull_driver_gpu_at(&driver, position)};
}

/* No call undoes zesInit, so the process counts as one user until it changes to another node. */
ZES_EXPORT(zesInit, uint32_t flags)
{
    if (flags != 0)
        return ZE_INVALID_ARGUMENT;
    if (lull_driver_is_open(&driver) && lull_driver_is_current(&driver))
        return ZE_SUCCESS;
    lull_driver_close(&driver);
    if (lull_driver_open(&driver, LULL_GPU_INTEL, levelzero_table_describe))
        return ZE_SUCCESS;
    return ZE_UNINITIALIZED;
}

/* ---- entry ---- */

static const struct zes_handle *find_handle(const void *handle)
{
    for (uint32_t i = 0; i < driver.gpu_count; i++)
        for (uint32_t part = 0; part < ZES_PARTS; part++)
            if (handle == &handles[i][part])
                return handle;
    return NULL;
}

static int levelzero_table_find(const void *handle, enum zes_part first, enum zes_part last,
                                const struct zes_handle **handle_out)
{
    if (!lull_driver_is_open(&driver))
        return ZE_UNINITIALIZED;
    if (handle == NULL)
        return ZE_INVALID_NULL_HANDLE;
    *handle_out = find_handle(handle);
    if (*handle_out == NULL || (*handle_out)->part < first || (*handle_out)->part > last)
        return ZE_INVALID_ARGUMENT;
    if (!lull_node_visit((*handle_out)->gpu->node, (*handle_out)->gpu->index))
        return ZE_DEVICE_LOST;
    return ZE_SUCCESS;
}

int zes_enter(const void *handle, enum zes_part first, enum zes_part last, const void *output,
              const struct zes_handle **handle_out)
{
    int code = levelzero_table_find(handle, first, last, handle_out);

    if (code == ZE_SUCCESS && output == NULL)
        return ZE_INVALID_NULL_POINTER;
    if (code == ZE_SUCCESS)
        lull_driver_has_get_fault((*handle_out)->gpu, &code);
    return code;
}

int zes_enter_struct(const void *handle, enum zes_part first, enum zes_part last,
                     const void *output, uint32_t stype, const struct zes_handle **handle_out)
{
    const struct ze_base *const base = output;
    const int code = zes_enter(handle, first, last, output, handle_out);

    if (code == ZE_SUCCESS && (base->stype != stype || base->next != NULL))
        return ZE_INVALID_ARGUMENT;
    return code;
}

int zes_enter_root(const void *handle, enum zes_part first, enum zes_part last, const void *input,
                   const struct zes_handle **handle_out)
{
    const int code = levelzero_table_find(handle, first, last, handle_out);

    if (code == ZE_SUCCESS && input == NULL)
        return ZE_INVALID_NULL_POINTER;
    if (code == ZE_SUCCESS && !lull_driver_may_set((*handle_out)->gpu))
        return ZE_INSUFFICIENT_PERMISSIONS;
    return code;
}

/* ---- lists ---- */

void zes_give_count(uint32_t *count, uint32_t there)
{
    if (*count == 0 || *count > there)
        *count = there;
}

ZES_EXPORT(zesDriverGet, uint32_t *count, void **drivers)
{
    if (!lull_driver_is_open(&driver))
        return ZE_UNINITIALIZED;
    if (count == NULL)
        return ZE_INVALID_NULL_POINTER;
    if (*count > 0 && drivers != NULL)
        drivers[0] = &driver;
    zes_give_count(count, 1);
    return ZE_SUCCESS;
}

int zes_enter_driver(const void *of)
{
    if (!lull_driver_is_open(&driver))
        return ZE_UNINITIALIZED;
    if (of == NULL)
        return ZE_INVALID_NULL_HANDLE;
    return of == &driver ? ZE_SUCCESS : ZE_INVALID_ARGUMENT;
}

ZES_EXPORT(zesDeviceGet, const void *of, uint32_t *count, const void **devices)
{
    LULL_DRIVER_CHECK(zes_enter_driver(of));
    if (count == NULL)
        return ZE_INVALID_ARGUMENT;
    for (uint32_t i = 0; devices != NULL && i < *count && i < driver.gpu_count; i++)
        devices[i] = &handles[i][ZES_DEVICE];
    zes_give_count(count, driver.gpu_count);
    return ZE_SUCCESS;
}

int zes_list_parts(const void *device, enum zes_part first, enum zes_part last, uint32_t *count,
                   const void **parts)
{
    const uint32_t there = (uint32_t)last - (uint32_t)first + 1;

    ZES_ENTER(levelzero_table_find(device, ZES_DEVICE, ZES_DEVICE, &handle));
    if (count == NULL)
        return ZE_INVALID_NULL_POINTER;
    for (uint32_t i = 0; parts != NULL && i < *count && i < there; i++)
        parts[i] = &handles[handle->gpu->position][(uint32_t)first + i];
    zes_give_count(count, there);
    return ZE_SUCCESS;
}

/* ---- names ---- */

ZES_EXPORT(zesDeviceGetProperties, const void *device, struct zes_device_facts *out)
{
    const uint32_t type_device = 1;
    const uint32_t type_core = 3;

    ZES_ENTER(zes_enter_struct(device, ZES_DEVICE, ZES_DEVICE, out, type_device, &handle));
    if (out->core.base.stype != type_core)
        return ZE_INVALID_ARGUMENT;
    out->core.type = 1; /* the type of a GPU */
    out->core.vendor = 0x8086;
    out->core.device = handle->gpu->model.pci_device;
    out->core.flags = 0;
    out->subdevices = handle->gpu->model.dies_per_module;
    memcpy(out->core.uuid, handle->gpu->identity, sizeof(out->core.uuid));
    snprintf(out->core.name, sizeof(out->core.name), "%s", handle->gpu->model.product);
    snprintf(out->texts[3], sizeof(out->texts[3]), "%s", handle->gpu->model.product);
    snprintf(out->texts[5], sizeof(out->texts[5]), "1.3.emulated");
    return ZE_SUCCESS;
}

ZES_EXPORT(zesDevicePciGetProperties, const void *device, struct zes_pci_facts *out)
{
    const uint32_t type_pci = 2;

    ZES_ENTER(zes_enter_struct(device, ZES_DEVICE, ZES_DEVICE, out, type_pci, &handle));
    out->domain = 0;
    out->bus = (7 + 3 * handle->gpu->position) & 0xff;
    out->device = 0;
    out->function = 0;
    out->gen = (int32_t)handle->gpu->model.pcie_generation;
    out->width = 16;
    return ZE_SUCCESS;
}
