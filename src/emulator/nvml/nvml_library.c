/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/nvml/nvml_library.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

/* NVML's interface has one state per process, hence this global. */
static struct {
    struct lull_driver driver;
    struct lull_nvml_gpu gpus[LULL_NODE_MAX_GPUS];
} library = {.driver = {.mutex = PTHREAD_MUTEX_INITIALIZER}};

/* ---- identity of the emulated boards ---- */

static void name_unit(struct lull_nvml_gpu *gpu)
{
    lull_driver_write_uuid(gpu->driver->identity, gpu->uuid);
    if (gpu->model.has_serial)
        snprintf(gpu->serial, sizeof(gpu->serial), "15%011u",
                 (unsigned)(gpu->driver->board & 0x7fffffff));
}

void nvml_write_bus(struct nvml_pci_info *pci)
{
    snprintf(pci->bus_id, sizeof(pci->bus_id), "%08X:%02X:%02X.0", pci->domain, pci->bus,
             pci->device);
    snprintf(pci->legacy_bus_id, sizeof(pci->legacy_bus_id), "%04X:%02X:%02X.0",
             pci->domain & 0xffff, pci->bus & 0xff, pci->device & 0xff);
}

static void name_bus(struct lull_nvml_gpu *gpu)
{
    struct nvml_pci_info *pci = &gpu->pci;

    pci->domain = gpu->topology->places[gpu->index].slot.domain;
    pci->bus = gpu->topology->places[gpu->index].slot.bus;
    pci->device_id = gpu->model.pci_device << 16 | 0x10de;
    pci->subsystem_id = gpu->model.pci_subsystem;
    nvml_write_bus(pci);
}

static void nvml_handle_describe(uint32_t position)
{
    struct lull_nvml_gpu *gpu = &library.gpus[position];

    gpu->driver = lull_driver_gpu_at(&library.driver, position);
    gpu->position = position;
    gpu->index = gpu->driver->index;
    gpu->node = gpu->driver->node;
    gpu->topology = lull_node_topology(gpu->node);
    gpu->model = gpu->driver->model;
    name_unit(gpu);
    name_bus(gpu);
}

/* ---- entry ---- */

NVML_EXPORT(nvmlInitWithFlags, unsigned flags)
{
    (void)flags;
    if (!lull_driver_open(&library.driver, LULL_GPU_NVIDIA, nvml_handle_describe))
        return NVML_DRIVER_NOT_LOADED;
    if (lull_driver_state(&library.driver) != LULL_DRIVER_AWAY) {
        lull_node_join(library.driver.node);
        return NVML_SUCCESS;
    }
    lull_driver_close(&library.driver);
    return NVML_LIBRARY_MISMATCH;
}

NVML_EXPORT(nvmlInit_v2, void)
{
    return nvmlInitWithFlags(0);
}

NVML_ALIAS(nvmlInit, nvmlInit_v2);

NVML_EXPORT(nvmlShutdown, void)
{
    if (!library.driver.was_opened)
        return NVML_UNINITIALIZED;
    lull_driver_close(&library.driver);
    if (lull_driver_state(&library.driver) == LULL_DRIVER_CLOSED)
        lull_node_leave(library.driver.node);
    return NVML_SUCCESS;
}

int nvml_ready(void)
{
    switch (lull_driver_state(&library.driver)) {
    case LULL_DRIVER_OPEN:
        return NVML_SUCCESS;
    case LULL_DRIVER_AWAY:
        return NVML_LIBRARY_MISMATCH;
    default:
        return NVML_UNINITIALIZED;
    }
}

bool nvml_is_geforce(const struct lull_nvml_gpu *gpu)
{
    enum { BRAND_GEFORCE = 5 };

    return gpu->model.brand == BRAND_GEFORCE;
}

bool nvml_has_memory_node(const struct lull_nvml_gpu *gpu)
{
    return lull_platforms[gpu->topology->platform].has_memory_nodes &&
           lull_platforms[gpu->model.platform].has_memory_nodes;
}

int nvml_has_partitions(const struct lull_nvml_gpu *gpu)
{
    return gpu->model.compute_major >= 8 && gpu->model.compute_minor == 0;
}

int nvml_is_partitioned(const struct lull_nvml_gpu *gpu)
{
    return lull_node_setting(gpu->node, gpu->index, LULL_NODE_PARTITIONS) > 0;
}

uint32_t nvml_gpu_count(void)
{
    return library.driver.gpu_count;
}

nvmlDevice_t nvml_gpu_at(uint32_t position)
{
    if (position < library.driver.gpu_count)
        return &library.gpus[position];
    return NULL;
}

int nvml_visit(const struct lull_nvml_gpu *gpu)
{
    if (!lull_node_visit(gpu->node, gpu->index))
        return NVML_GPU_IS_LOST;
    return nvml_ready(); /* this call may have started a reload of the driver */
}

/* ---- faults of one call ---- */

/* The exported function that the client has called: the outermost frame in this library. NULL: it
 * is unknown. The library is built without tail calls, so that it has a frame. */
static void *called_function(Dl_info *own_out)
{
    enum { FRAMES = 24 };
    void *frames[FRAMES];
    const int count = backtrace(frames, FRAMES);
    void *function = NULL;

    if (dladdr(&library, own_out) == 0)
        return NULL;
    for (int i = 0; i < count; i++) {
        Dl_info info;

        if (dladdr((char *)frames[i] - 1, &info) != 0 && info.dli_fbase == own_out->dli_fbase)
            function = info.dli_saddr;
        else if (function != NULL) /* a sanitizer's own backtrace() comes first */
            break;
    }
    return function;
}

struct present_call {
    void *library;
    void *function;
};

/* One function may have several names. */
static bool is_present_call(const char *name, const void *context)
{
    const struct present_call *present = context;

    return present->function != NULL && dlsym(present->library, name) == present->function;
}

static int suffer_call_faults(const struct lull_nvml_gpu *gpu)
{
    struct present_call present;
    double value;
    Dl_info own;

    if (!lull_node_has_call_faults(gpu->node, gpu->index))
        return NVML_SUCCESS;
    present.function = called_function(&own);
    present.library =
        present.function == NULL ? NULL : dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (present.library == NULL)
        return NVML_SUCCESS;
    if (lull_node_take_call_fault(gpu->node, gpu->index, LULL_FAULT_CALL_HANG_MS, is_present_call,
                                  &present, &value))
        lull_sleep_until_ns(lull_now_ns() + lull_ns_from_ms(value));
    if (!lull_node_take_call_fault(gpu->node, gpu->index, LULL_FAULT_DENY, is_present_call,
                                   &present, &value))
        value = NVML_SUCCESS;
    dlclose(present.library);
    return (int)value;
}

static int enter_gpu(const struct lull_nvml_gpu *gpu)
{
    LULL_DRIVER_CHECK(nvml_visit(gpu));
    return suffer_call_faults(gpu);
}

/* ---- entry checks ---- */

int nvml_enter(nvmlDevice_t device, const void *output, const struct lull_nvml_gpu **gpu_out)
{
    LULL_DRIVER_CHECK(nvml_ready());
    if (output == NULL)
        return NVML_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < library.driver.gpu_count; i++) {
        if (device == &library.gpus[i]) {
            *gpu_out = device;
            return enter_gpu(device);
        }
    }
    return NVML_INVALID_ARGUMENT;
}

int nvml_enter_reading(nvmlDevice_t device, const void *output,
                       const struct lull_nvml_gpu **gpu_out)
{
    int code = nvml_enter(device, output, gpu_out);

    if (code == NVML_SUCCESS)
        lull_driver_has_get_fault((*gpu_out)->driver, &code);
    return code;
}

int nvml_enter_root(nvmlDevice_t device, const struct lull_nvml_gpu **gpu_out)
{
    int code = nvml_enter(device, device, gpu_out);

    if (code == NVML_SUCCESS && !lull_driver_may_set((*gpu_out)->driver))
        code = NVML_NO_PERMISSION;
    return code;
}

/* ---- idioms ---- */

int nvml_copy_text(const char *text, char *out, uint32_t size)
{
    const size_t needed = strlen(text) + 1;

    if (out == NULL)
        return NVML_INVALID_ARGUMENT;
    if (size < needed)
        return NVML_INSUFFICIENT_SIZE;
    memcpy(out, text, needed);
    return NVML_SUCCESS;
}

int nvml_copy_list(const void *items, uint32_t item_count, size_t item_size, uint32_t *count,
                   void *out)
{
    const uint32_t room = *count;

    *count = item_count;
    if (item_count == 0)
        return NVML_SUCCESS;
    if (room < item_count)
        return NVML_INSUFFICIENT_SIZE;
    if (out == NULL)
        return NVML_INVALID_ARGUMENT;
    memcpy(out, items, item_count * item_size);
    return NVML_SUCCESS;
}

int64_t nvml_time_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

uint64_t nvml_sample_time_us(const struct lull_nvml_gpu *gpu, int64_t virtual_ns)
{
    const int64_t age_ns = lull_now_ns() - lull_node_real_ns(gpu->node, virtual_ns);

    return (uint64_t)(nvml_time_us() - age_ns / 1000);
}
