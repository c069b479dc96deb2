/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/nvml/nvml_library.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "emulator/noise.h"

/* The library is one object per process by NVML's own interface, hence the only global. */
static struct {
    pthread_mutex_t mutex;
    uint32_t references;
    bool was_opened;
    uint32_t gpu_count;
    struct lull_node *node;
    struct nvml_gpu gpus[LULL_NODE_MAX_GPUS];
} library = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- identity of the emulated boards ---- */

static void name_uuid(struct nvml_gpu *gpu, uint64_t seed)
{
    const uint64_t high = lull_noise_mix(seed ^ lull_noise_mix(gpu->index));
    const uint64_t low = lull_noise_mix(high);

    snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%08x-%04x-%04x-%04x-%04x%08x",
             (unsigned)(high >> 32), (unsigned)(high >> 16) & 0xffff, (unsigned)high & 0xffff,
             (unsigned)(low >> 48), (unsigned)(low >> 32) & 0xffff, (unsigned)low);
    snprintf(gpu->serial, sizeof(gpu->serial), "15%011u", (unsigned)(high & 0x7fffffff));
}

static void name_bus(struct nvml_gpu *gpu)
{
    struct nvml_pci_info *pci = &gpu->pci;

    pci->bus = (7 + 3 * gpu->index) & 0xff;
    pci->device_id = gpu->model.pci_device << 16 | 0x10de;
    pci->subsystem_id = 0x145310de;
    snprintf(pci->bus_id, sizeof(pci->bus_id), "%08X:%02X:%02X.0", pci->domain, pci->bus,
             pci->device);
    snprintf(pci->legacy_bus_id, sizeof(pci->legacy_bus_id), "%04X:%02X:%02X.0",
             pci->domain & 0xffff, pci->bus & 0xff, pci->device & 0xff);
}

static void describe(uint32_t index)
{
    struct nvml_gpu *gpu = &library.gpus[index];

    gpu->index = index;
    gpu->node = library.node;
    gpu->model = lull_node_begin(library.node, index)->model;
    lull_node_end(library.node, index, false);
    name_uuid(gpu, lull_node_seed(library.node));
    name_bus(gpu);
}

static int open_locked(void)
{
    const char *path = getenv(LULL_NODE_VARIABLE);

    if (library.node != NULL)
        return NVML_SUCCESS;
    if (path == NULL || *path == '\0' || lull_node_open(path, &library.node, NULL) < 0)
        return NVML_DRIVER_NOT_LOADED;
    library.was_opened = true;
    library.gpu_count = lull_node_gpu_count(library.node);
    for (uint32_t i = 0; i < library.gpu_count; i++)
        describe(i);
    return NVML_SUCCESS;
}

/* ---- entry ---- */

NVML_EXPORT(nvmlInitWithFlags, unsigned flags)
{
    int code;

    (void)flags;
    pthread_mutex_lock(&library.mutex);
    code = open_locked();
    if (code == NVML_SUCCESS)
        library.references++;
    pthread_mutex_unlock(&library.mutex);
    return code;
}

NVML_EXPORT(nvmlInit_v2, void)
{
    return nvmlInitWithFlags(0);
}

NVML_ALIAS(nvmlInit, nvmlInit_v2);

NVML_EXPORT(nvmlShutdown, void)
{
    int code = NVML_SUCCESS;

    pthread_mutex_lock(&library.mutex);
    if (library.references == 0 && !library.was_opened)
        code = NVML_UNINITIALIZED;
    if (library.references > 0 && --library.references == 0) {
        lull_node_close(library.node);
        library.node = NULL;
    }
    pthread_mutex_unlock(&library.mutex);
    return code;
}

int nvml_ready(void)
{
    int code;

    pthread_mutex_lock(&library.mutex);
    code = library.references > 0 ? NVML_SUCCESS : NVML_UNINITIALIZED;
    pthread_mutex_unlock(&library.mutex);
    return code;
}

uint32_t nvml_gpu_count(void)
{
    return library.gpu_count;
}

nvmlDevice_t nvml_gpu_at(uint32_t index)
{
    return index < library.gpu_count ? &library.gpus[index] : NULL;
}

int nvml_enter(nvmlDevice_t device, const void *output, const struct nvml_gpu **gpu_out)
{
    if (nvml_ready() != NVML_SUCCESS)
        return NVML_UNINITIALIZED;
    if (output == NULL)
        return NVML_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < library.gpu_count; i++) {
        if (device == &library.gpus[i]) {
            *gpu_out = device;
            return NVML_SUCCESS;
        }
    }
    return NVML_INVALID_ARGUMENT;
}

int nvml_enter_reading(nvmlDevice_t device, const void *output, const struct nvml_gpu **gpu_out)
{
    int code = nvml_enter(device, output, gpu_out);
    double fault;

    if (code == NVML_SUCCESS &&
        lull_node_take_fault((*gpu_out)->node, (*gpu_out)->index, LULL_FAULT_GET_CODE, &fault))
        code = (int)fault;
    return code;
}

int nvml_enter_root(nvmlDevice_t device, const struct nvml_gpu **gpu_out)
{
    int code = nvml_enter(device, device, gpu_out);
    double fault;

    if (code != NVML_SUCCESS)
        return code;
    if (lull_node_take_fault((*gpu_out)->node, (*gpu_out)->index, LULL_FAULT_NO_PERMISSION, &fault))
        return NVML_NO_PERMISSION;
    if (geteuid() != 0 &&
        !lull_node_take_fault((*gpu_out)->node, (*gpu_out)->index, LULL_FAULT_ANY_USER, &fault))
        return NVML_NO_PERMISSION;
    return NVML_SUCCESS;
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
