/*
 * The CUDA driver API: the part of its ABI that the kernel suite uses, declared from its
 * documentation, opened at run time. Threads: as CUDA says; a context is current in one thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_SUITE_CUDA_H
#define LULL_LAB_SWEEP_SUITE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "device/library.h"

enum {
    CUDA_OK = 0,
    CUDA_MAJOR = 75, /* attributes of a device: compute capability */
    CUDA_MINOR = 76,
    CUDA_DYNAMIC_SHARED = 8, /* attribute of a function: bytes that a launch may request */
    CUDA_EVENT_BLOCKING = 1, /* waits do not spin */
    CUDA_EVENT_UNTIMED = 2,
    CUDA_UUID_BYTES = 16,
};

struct lull_cuda_uuid {
    unsigned char bytes[CUDA_UUID_BYTES];
};

typedef uint64_t cuda_address; /* of memory of the GPU */

/* All return a code. Devices are numbers; contexts, modules, functions, streams and events opaque.
 */
typedef int cuda_init(unsigned flags);
typedef int cuda_text(int code, const char **text);
typedef int cuda_device_count(int *count);
typedef int cuda_device_get(int *device, int ordinal);
typedef int cuda_device_uuid(struct lull_cuda_uuid *uuid, int device);
typedef int cuda_device_attribute(int *value, int attribute, int device);
typedef int cuda_context_retain(void **context, int device);
typedef int cuda_context_release(int device);
typedef int cuda_context_use(void *context);
typedef int cuda_memory_info(size_t *free, size_t *total);
typedef int cuda_memory_allocate(cuda_address *address, size_t bytes);
typedef int cuda_memory_free(cuda_address address);
typedef int cuda_memory_set(cuda_address address, unsigned char value, size_t bytes);
typedef int cuda_memory_read(void *to, cuda_address from, size_t bytes);
typedef int cuda_memory_copy_peer(cuda_address to, void *to_context, cuda_address from,
                                  void *from_context, size_t bytes);
typedef int cuda_module_load(void **module, const void *image);
typedef int cuda_module_unload(void *module);
typedef int cuda_module_function(void **function, void *module, const char *name);
typedef int cuda_function_set(void *function, int attribute, int value);
/* The arguments end with NULL, which only the tests' driver needs. */
typedef int cuda_launch(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        void *stream, void **arguments, void **extra);
typedef int cuda_context_wait(void);
typedef int cuda_event_create(void **event, unsigned flags);
typedef int cuda_event_destroy(void *event);
typedef int cuda_event_record(void *event, void *stream);
typedef int cuda_event_wait(void *event);

#define CUDA_CALLS(CALL)                                                                           \
    CALL(cuda_init, init, "cuInit", NULL)                                                          \
    CALL(cuda_text, error_text, "cuGetErrorString", NULL)                                          \
    CALL(cuda_device_count, device_count, "cuDeviceGetCount", NULL)                                \
    CALL(cuda_device_get, device_get, "cuDeviceGet", NULL)                                         \
    CALL(cuda_device_uuid, device_uuid, "cuDeviceGetUuid", NULL)                                   \
    CALL(cuda_device_attribute, device_attribute, "cuDeviceGetAttribute", NULL)                    \
    CALL(cuda_context_retain, context_retain, "cuDevicePrimaryCtxRetain", NULL)                    \
    CALL(cuda_context_release, context_release, "cuDevicePrimaryCtxRelease_v2",                    \
         "cuDevicePrimaryCtxRelease")                                                              \
    CALL(cuda_context_use, context_use, "cuCtxSetCurrent", NULL)                                   \
    CALL(cuda_memory_info, memory_info, "cuMemGetInfo_v2", NULL)                                   \
    CALL(cuda_memory_allocate, memory_allocate, "cuMemAlloc_v2", NULL)                             \
    CALL(cuda_memory_free, memory_free, "cuMemFree_v2", NULL)                                      \
    CALL(cuda_memory_set, memory_set, "cuMemsetD8_v2", NULL)                                       \
    CALL(cuda_memory_read, memory_read, "cuMemcpyDtoH_v2", NULL)                                   \
    CALL(cuda_memory_copy_peer, memory_copy_peer, "cuMemcpyPeer", NULL)                            \
    CALL(cuda_module_load, module_load, "cuModuleLoadData", NULL)                                  \
    CALL(cuda_module_unload, module_unload, "cuModuleUnload", NULL)                                \
    CALL(cuda_module_function, module_function, "cuModuleGetFunction", NULL)                       \
    CALL(cuda_function_set, function_set, "cuFuncSetAttribute", NULL)                              \
    CALL(cuda_launch, launch, "cuLaunchKernel", NULL)                                              \
    CALL(cuda_context_wait, context_wait, "cuCtxSynchronize", NULL)                                \
    CALL(cuda_event_create, event_create, "cuEventCreate", NULL)                                   \
    CALL(cuda_event_destroy, event_destroy, "cuEventDestroy_v2", NULL)                             \
    CALL(cuda_event_record, event_record, "cuEventRecord", NULL)                                   \
    CALL(cuda_event_wait, event_wait, "cuEventSynchronize", NULL)

/* A GPU that is open, with its primary context current in the thread that opened it. */
struct lull_cuda {
    void *library;
    char library_name[256];
    CUDA_CALLS(LULL_LIBRARY_MEMBER)
    int ordinal; /* of the GPU among those that CUDA shows */
    int device;
    uint32_t capability; /* 90 for 9.0 */
    void *context;
};

/*
 * Opens libcuda (LULL_CUDA names another file) and the GPU with this UUID, "GPU-..." as NVML writes
 * it; NULL: the first. Errors: LULL_E_UNSUPPORTED there is no CUDA driver, it is too old, or CUDA
 * does not show this GPU; the driver's.
 */
int lull_cuda_open(struct lull_cuda *cuda, const char *uuid, struct lull_error *err);
/* The library stays loaded: it has threads of its own. */
void lull_cuda_close(struct lull_cuda *cuda);

/* Returns 0; LULL_E_UNSUPPORTED if the GPU has too little memory;
 * otherwise -EIO, with the failed action and the driver's message. */
int lull_cuda_result(const struct lull_cuda *cuda, int code, const char *what,
                     struct lull_error *err);

#endif
