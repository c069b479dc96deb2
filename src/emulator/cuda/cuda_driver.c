/*
 * The emulated libcuda.so.1: as much of the driver API as a probe of a GPU job uses.
 *
 * Devices are those of the emulated node that the environment shows (cuda_devices.h), and all
 * memory is host memory. Only cuStreamWriteValue32 runs in stream order. cuInit loads the library
 * named by CUDA_INJECTION64_PATH and calls its InitializeInjection, as the real driver does [from
 * memory]. Numbers of result codes and attributes were checked against the public header of
 * CUDA 13.0.
 *
 * LULL_EMULATED_CUDA_FAULTS=write_value makes every stream write fail. Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pci.h"
#include "emulator/cuda/cuda_devices.h"
#include "emulator/driver.h"
#include "emulator/node.h"
#include "emulator/stream.h"

enum {
    CUDA_SUCCESS = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_NOT_SUPPORTED = 801,
};

enum {
    ATTRIBUTE_CLOCK_KHZ = 13,
    ATTRIBUTE_MULTIPROCESSORS = 16,
    ATTRIBUTE_ECC = 32,
    ATTRIBUTE_PCI_BUS = 33,
    ATTRIBUTE_PCI_DEVICE = 34,
    ATTRIBUTE_MEMORY_CLOCK_KHZ = 36,
    ATTRIBUTE_MEMORY_BUS_BITS = 37,
    ATTRIBUTE_PCI_DOMAIN = 50,
    ATTRIBUTE_COMPUTE_MAJOR = 75,
    ATTRIBUTE_COMPUTE_MINOR = 76,
};

enum { PAGE_BYTES = 4096, LARGEST_RESERVED_STREAM = 4096 };

#define CUDA_EXPORT(name, ...)                                                                     \
    int name(__VA_ARGS__);                                                                         \
    int name(__VA_ARGS__)
#define CUDA_ALIAS(name, target) extern __typeof__(target) name __attribute__((alias(#target)))

/* The driver of the process, of which there is one, as in reality. */
static struct {
    pthread_mutex_t mutex;
    struct lull_node *node;
    struct lull_cuda_devices devices; /* fixed when is_ready is set */
    _Atomic int is_ready;
    int context; /* its address represents the only context */
    void *_Atomic capturing;
    _Atomic int64_t allocated_bytes;
} driver = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- start ---- */

static int open_node(void)
{
    const char *path = getenv(LULL_EMULATED_NODE_VARIABLE);

    if (path == NULL || *path == '\0' ||
        (driver.node == NULL && lull_node_open(path, &driver.node, NULL) < 0))
        return CUDA_NO_DEVICE;
    lull_cuda_devices_find(driver.node, &driver.devices);
    return driver.devices.count > 0 ? CUDA_SUCCESS : CUDA_NO_DEVICE;
}

static void cuda_driver_load_injection(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path != NULL && *path != '\0' ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*initialize)(void) = NULL;

    if (library != NULL)
        *(void **)&initialize = dlsym(library, "InitializeInjection");
    if (initialize != NULL)
        initialize();
}

CUDA_EXPORT(cuInit, unsigned flags)
{
    int code = CUDA_SUCCESS;
    bool is_first;

    if (flags != 0)
        return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&driver.mutex);
    is_first = !atomic_load(&driver.is_ready);
    if (is_first)
        code = open_node();
    if (code == CUDA_SUCCESS)
        atomic_store(&driver.is_ready, 1);
    pthread_mutex_unlock(&driver.mutex);
    if (is_first && code == CUDA_SUCCESS)
        cuda_driver_load_injection();
    return code;
}

CUDA_EXPORT(cuDriverGetVersion, int *version)
{
    if (version == NULL)
        return CUDA_INVALID_VALUE;
    *version = (int)lull_driver_release().cuda;
    return CUDA_SUCCESS;
}

/* ---- devices ---- */

static int cuda_driver_enter(const void *output)
{
    if (!atomic_load(&driver.is_ready))
        return CUDA_NOT_INITIALIZED;
    if (output != NULL)
        return CUDA_SUCCESS;
    return CUDA_INVALID_VALUE;
}

static int cuda_driver_enter_device(int device, const void *output)
{
    LULL_DRIVER_CHECK(cuda_driver_enter(output));
    if (device >= 0 && (uint32_t)device < driver.devices.count)
        return CUDA_SUCCESS;
    return CUDA_INVALID_DEVICE;
}

/* The index in the node of a valid device. */
static uint32_t gpu_of(int device)
{
    return driver.devices.gpus[device];
}

static struct lull_gpu_model model_of(int device)
{
    const uint32_t gpu = gpu_of(device);
    const struct lull_gpu_model model = lull_node_begin(driver.node, gpu)->model;

    lull_node_end(driver.node, gpu, false);
    return model;
}

CUDA_EXPORT(cuDeviceGetCount, int *count)
{
    LULL_DRIVER_CHECK(cuda_driver_enter(count));
    *count = (int)driver.devices.count;
    return CUDA_SUCCESS;
}

CUDA_EXPORT(cuDeviceGet, int *device, int ordinal)
{
    LULL_DRIVER_CHECK(cuda_driver_enter_device(ordinal, device));
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUDA_EXPORT(cuDeviceGetName, char *name, int size, int device)
{
    const int code = cuda_driver_enter_device(device, name);

    if (code == CUDA_SUCCESS && size > 0)
        snprintf(name, (size_t)size, "%s", model_of(device).product);
    return code;
}

static const struct lull_platform_slot *slot_of(int device)
{
    return &lull_node_topology(driver.node)->places[gpu_of(device)].slot;
}

CUDA_EXPORT(cuDeviceGetAttribute, int *value, int attribute, int device)
{
    struct lull_gpu_model model;

    LULL_DRIVER_CHECK(cuda_driver_enter_device(device, value));
    model = model_of(device);
    switch (attribute) {
    case ATTRIBUTE_CLOCK_KHZ:
        *value = (int)(model.sm_max_mhz * 1e3);
        return CUDA_SUCCESS;
    case ATTRIBUTE_MULTIPROCESSORS:
        *value = (int)model.sm_count;
        return CUDA_SUCCESS;
    case ATTRIBUTE_ECC:
        *value = model.has_ecc;
        return CUDA_SUCCESS;
    case ATTRIBUTE_PCI_BUS:
        *value = (int)slot_of(device)->bus;
        return CUDA_SUCCESS;
    case ATTRIBUTE_PCI_DEVICE:
        *value = 0;
        return CUDA_SUCCESS;
    case ATTRIBUTE_MEMORY_CLOCK_KHZ:
        *value = (int)model.memory_clocks_mhz[0] * 1000;
        return CUDA_SUCCESS;
    case ATTRIBUTE_MEMORY_BUS_BITS:
        *value = (int)model.bus_bits;
        return CUDA_SUCCESS;
    case ATTRIBUTE_PCI_DOMAIN:
        *value = (int)slot_of(device)->domain;
        return CUDA_SUCCESS;
    case ATTRIBUTE_COMPUTE_MAJOR:
        *value = (int)model.compute_major;
        return CUDA_SUCCESS;
    case ATTRIBUTE_COMPUTE_MINOR:
        *value = (int)model.compute_minor;
        return CUDA_SUCCESS;
    default:
        return CUDA_INVALID_VALUE;
    }
}

/* The bytes are those of the text that NVML reports. */
CUDA_EXPORT(cuDeviceGetUuid_v2, unsigned char uuid_out[16], int device)
{
    uint64_t identity[2];

    LULL_DRIVER_CHECK(cuda_driver_enter_device(device, uuid_out));
    lull_driver_identify(driver.node, gpu_of(device), identity);
    for (int i = 0; i < 16; i++)
        uuid_out[i] = (unsigned char)(identity[i / 8] >> (56 - 8 * (i % 8)));
    return CUDA_SUCCESS;
}

CUDA_ALIAS(cuDeviceGetUuid, cuDeviceGetUuid_v2);

CUDA_EXPORT(cuDeviceTotalMem_v2, size_t *bytes_out, int device)
{
    struct lull_driver_memory memory;

    LULL_DRIVER_CHECK(cuda_driver_enter_device(device, bytes_out));
    memory = lull_driver_read_memory(driver.node, gpu_of(device));
    *bytes_out = memory.total_bytes - memory.reserved_bytes;
    return CUDA_SUCCESS;
}

/* ---- contexts ---- */

CUDA_EXPORT(cuCtxGetCurrent, void **context)
{
    LULL_DRIVER_CHECK(cuda_driver_enter(context));
    *context = &driver.context;
    return CUDA_SUCCESS;
}

CUDA_EXPORT(cuCtxSetCurrent, void *context)
{
    return cuda_driver_enter(context);
}

/* Returns whether this process has a context on a GPU, which is what its workload opens. */
static bool has_context(int device)
{
    struct lull_driver_process processes[LULL_PHYSICS_CONTEXTS];
    const uint32_t count = lull_driver_processes(driver.node, gpu_of(device), processes);

    for (uint32_t i = 0; i < count; i++)
        if (processes[i].pid == getpid())
            return true;
    return false;
}

/* Opens a context on the emulated GPU unless this process has one. It is never closed. */
CUDA_EXPORT(cuDevicePrimaryCtxRetain, void **context, int device)
{
    LULL_DRIVER_CHECK(cuda_driver_enter_device(device, context));
    if (!has_context(device) && lull_node_open_context(driver.node, gpu_of(device)) < 0)
        return CUDA_OUT_OF_MEMORY;
    *context = &driver.context;
    return CUDA_SUCCESS;
}

CUDA_EXPORT(cuDevicePrimaryCtxGetState, int device, unsigned *flags, int *is_active)
{
    LULL_DRIVER_CHECK(cuda_driver_enter_device(device, is_active));
    if (flags == NULL)
        return CUDA_INVALID_VALUE;
    *flags = 0;
    *is_active = has_context(device);
    return CUDA_SUCCESS;
}

/* A process of the emulated node computes on one GPU. */
CUDA_EXPORT(cuCtxGetDevice, int *device)
{
    LULL_DRIVER_CHECK(cuda_driver_enter(device));
    for (uint32_t i = 0; i < driver.devices.count; i++)
        if (has_context((int)i))
            return cuDeviceGet(device, (int)i);
    return CUDA_INVALID_CONTEXT;
}

/* ---- addresses and peers ---- */

CUDA_EXPORT(cuDeviceGetPCIBusId, char *address, int size, int device)
{
    LULL_DRIVER_CHECK(cuda_driver_enter_device(device, address));
    if (size < 13)
        return CUDA_INVALID_VALUE;
    snprintf(address, (size_t)size, "%04x:%02x:00.0", slot_of(device)->domain,
             slot_of(device)->bus);
    return CUDA_SUCCESS;
}

CUDA_EXPORT(cuDeviceGetByPCIBusId, int *device_out, const char *address)
{
    uint64_t wanted;

    LULL_DRIVER_CHECK(cuda_driver_enter(device_out));
    if (address == NULL || !lull_pci_parse(address, &wanted))
        return CUDA_INVALID_VALUE;
    for (uint32_t i = 0; i < driver.devices.count; i++) {
        char own[16];
        uint64_t known = 0;

        LULL_DRIVER_CHECK(cuDeviceGetPCIBusId(own, sizeof(own), (int)i));
        if (lull_pci_parse(own, &known) && known == wanted) {
            *device_out = (int)i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_INVALID_DEVICE;
}

/* As NVML reports it: over NVLink, or over PCIe between boards of one model that allow it. */
CUDA_EXPORT(cuDeviceCanAccessPeer, int *can_out, int device, int peer)
{
    LULL_DRIVER_CHECK(cuda_driver_enter_device(device, can_out));
    LULL_DRIVER_CHECK(cuda_driver_enter_device(peer, can_out));
    *can_out = lull_driver_peers(driver.node, gpu_of(device), gpu_of(peer)) == LULL_PEERS_OK;
    return CUDA_SUCCESS;
}

/* ---- memory ---- */

CUDA_EXPORT(cuMemHostAlloc, void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    LULL_DRIVER_CHECK(cuda_driver_enter(memory));
    if (posix_memalign(memory, PAGE_BYTES, bytes) == 0)
        return CUDA_SUCCESS;
    return CUDA_OUT_OF_MEMORY;
}

CUDA_EXPORT(cuMemFreeHost, void *memory)
{
    free(memory);
    return CUDA_SUCCESS;
}

CUDA_EXPORT(cuMemGetInfo_v2, size_t *free_out, size_t *total_out)
{
    struct lull_driver_memory memory;
    int device = 0;

    LULL_DRIVER_CHECK(cuda_driver_enter(free_out));
    if (total_out == NULL)
        return CUDA_INVALID_VALUE;
    LULL_DRIVER_CHECK(cuCtxGetDevice(&device));
    memory = lull_driver_read_memory(driver.node, gpu_of(device));
    *free_out = memory.free_bytes;
    *total_out = memory.total_bytes - memory.reserved_bytes;
    return CUDA_SUCCESS;
}

/* Counts device memory of this process in whole MiB, as part of its first context on the GPU. */
static void count_memory(int64_t bytes)
{
    struct lull_physics *physics;
    int64_t before;
    int device = 0;

    if (cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return;
    before = atomic_fetch_add(&driver.allocated_bytes, bytes);
    physics = lull_node_begin(driver.node, gpu_of(device));
    for (uint32_t i = 0; i < LULL_PHYSICS_CONTEXTS; i++)
        if (physics->contexts[i].is_live && physics->contexts[i].owner == getpid()) {
            physics->contexts[i].memory_mib +=
                (uint32_t)(((before + bytes) >> 20) - (before >> 20));
            break;
        }
    lull_node_end(driver.node, gpu_of(device), false);
}

/* Device memory is host memory as well. */
CUDA_EXPORT(cuMemAlloc_v2, uint64_t *address, size_t bytes)
{
    size_t free_bytes = SIZE_MAX;
    size_t total_bytes;
    void *memory = NULL;

    LULL_DRIVER_CHECK(cuda_driver_enter(address));
    if (cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS && bytes > free_bytes)
        return CUDA_OUT_OF_MEMORY;
    LULL_DRIVER_CHECK(cuMemHostAlloc(&memory, bytes, 0));
    count_memory((int64_t)malloc_usable_size(memory));
    *address = (uintptr_t)memory;
    return CUDA_SUCCESS;
}

CUDA_EXPORT(cuMemFree_v2, uint64_t address)
{
    void *const memory = (void *)(uintptr_t)address;

    LULL_DRIVER_CHECK(cuda_driver_enter(&driver));
    count_memory(-(int64_t)malloc_usable_size(memory));
    return cuMemFreeHost(memory);
}

CUDA_EXPORT(cuMemHostRegister_v2, void *memory, size_t bytes, unsigned flags)
{
    (void)flags;
    LULL_DRIVER_CHECK(cuda_driver_enter(memory));
    if (bytes > 0)
        return CUDA_SUCCESS;
    return CUDA_INVALID_VALUE;
}

CUDA_ALIAS(cuMemHostRegister, cuMemHostRegister_v2);

CUDA_EXPORT(cuMemHostUnregister, void *memory)
{
    return cuda_driver_enter(memory);
}

CUDA_EXPORT(cuMemHostGetDevicePointer_v2, uint64_t *pointer, void *memory, unsigned flags)
{
    LULL_DRIVER_CHECK(cuda_driver_enter(pointer));
    if (flags != 0 || memory == NULL)
        return CUDA_INVALID_VALUE;
    *pointer = (uintptr_t)memory;
    return CUDA_SUCCESS;
}

CUDA_ALIAS(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2);

/* ---- streams ---- */

/* A stream that a program creates has no player, so its work ends as soon as it is enqueued. */
CUDA_EXPORT(cuStreamCreate, void **stream, unsigned flags)
{
    (void)flags;
    LULL_DRIVER_CHECK(cuda_driver_enter(stream));
    *stream = calloc(1, sizeof(struct lull_stream));
    if (*stream != NULL)
        return CUDA_SUCCESS;
    return CUDA_OUT_OF_MEMORY;
}

CUDA_EXPORT(cuStreamSynchronize, void *stream)
{
    (void)stream;
    return cuda_driver_enter(&driver);
}

CUDA_EXPORT(cuStreamDestroy_v2, void *stream)
{
    free(stream);
    return CUDA_SUCCESS;
}

struct pending_write {
    _Atomic uint32_t *word;
    uint32_t value;
};

static void begin_write(void *context, int64_t gpu_ns)
{
    (void)context;
    (void)gpu_ns;
}

static void end_write(void *context, int64_t gpu_ns)
{
    struct pending_write *write = context;

    (void)gpu_ns;
    atomic_store_explicit(write->word, write->value, memory_order_release);
    free(write);
}

static bool has_fault(const char *name)
{
    const char *faults = getenv("LULL_EMULATED_CUDA_FAULTS");

    return faults != NULL && strstr(faults, name) != NULL;
}

CUDA_EXPORT(cuStreamWriteValue32_v2, void *stream, uint64_t address, uint32_t value, unsigned flags)
{
    struct lull_stream *player_stream = stream;
    struct pending_write *write;
    struct lull_stream_work work = {.function = "WriteValue",
                                    .bytes = sizeof(value),
                                    .peer = -1,
                                    .began = begin_write,
                                    .ended = end_write};

    LULL_DRIVER_CHECK(cuda_driver_enter(&work));
    if (address == 0 || address % sizeof(value) != 0 || flags > 1)
        return CUDA_INVALID_VALUE;
    if (has_fault("write_value"))
        return CUDA_NOT_SUPPORTED;
    write = malloc(sizeof(*write));
    if (write == NULL)
        return CUDA_OUT_OF_MEMORY;
    *write = (struct pending_write){(_Atomic uint32_t *)(uintptr_t)address, value};
    work.context = write;
    if ((uintptr_t)stream < LARGEST_RESERVED_STREAM || player_stream->magic != LULL_STREAM_MAGIC) {
        end_write(write, 0);
        return CUDA_SUCCESS;
    }
    if (player_stream->enqueue(player_stream, &work) == 0)
        return CUDA_SUCCESS;
    free(write);
    return CUDA_OUT_OF_MEMORY;
}

CUDA_ALIAS(cuStreamWriteValue32, cuStreamWriteValue32_v2);

CUDA_EXPORT(cuStreamIsCapturing, void *stream, int *status)
{
    LULL_DRIVER_CHECK(cuda_driver_enter(status));
    *status = stream != NULL && stream == atomic_load(&driver.capturing);
    return CUDA_SUCCESS;
}

CUDA_EXPORT(cuThreadExchangeStreamCaptureMode, int *mode)
{
    static _Thread_local int current;
    const int before = current;

    if (mode == NULL)
        return CUDA_INVALID_VALUE;
    current = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

void lull_emulated_set_capturing(void *stream);

/* For tests: sets the stream that is being captured from now on; NULL: none. */
void lull_emulated_set_capturing(void *stream)
{
    atomic_store(&driver.capturing, stream);
}
