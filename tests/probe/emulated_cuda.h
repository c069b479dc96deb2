/*
 * On an emulated node, a GPU for a program that computes on the processor only:
 * the program holds a context on it, as a program that computes on the GPU does.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_PROBE_EMULATED_CUDA_H
#define LULL_TESTS_PROBE_EMULATED_CUDA_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Starts CUDA with all GPUs of the node in its order, whichever ones the environment shows. */
static inline bool emulated_cuda_start(int (*init)(unsigned flags))
{
    static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"};
    char *values[2];
    bool is_started;

    for (int i = 0; i < 2; i++) {
        values[i] = getenv(names[i]) != NULL ? strdup(getenv(names[i])) : NULL;
        unsetenv(names[i]);
    }
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    is_started = init(0) == 0;
    unsetenv("CUDA_DEVICE_ORDER");
    for (int i = 0; i < 2; i++) {
        if (values[i] != NULL)
            setenv(names[i], values[i], 1);
        free(values[i]);
    }
    return is_started;
}

/* Returns whether this process has a context on that GPU of the node now; false without an emulated
 * node. */
static inline bool emulated_cuda_take(int gpu)
{
    void *const library =
        getenv("LULL_EMULATED_NODE") != NULL ? dlopen("libcuda.so.1", RTLD_NOW) : NULL;
    int (*init)(unsigned flags);
    int (*retain)(void **context, int device);
    void *context;

    if (library == NULL)
        return false;
    *(void **)&init = dlsym(library, "cuInit");
    *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    return emulated_cuda_start(init) && retain(&context, gpu) == 0;
}

#endif
