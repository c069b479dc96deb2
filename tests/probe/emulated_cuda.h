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

/* Returns whether this process has a context on that GPU now; false without an emulated node. */
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
    return init(0) == 0 && retain(&context, gpu) == 0;
}

#endif
