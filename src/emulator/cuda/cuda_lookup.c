/*
 * The lookup of the emulated driver's functions by name, through which CUDA's Python bindings and
 * runtime find them. Numbers of codes and the versions of names: the public header of CUDA 13.0.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { CUDA_SUCCESS = 0, CUDA_INVALID_VALUE = 1, CUDA_NOT_FOUND = 500 };
enum { SYMBOL_FOUND = 0, SYMBOL_NOT_FOUND = 1 };

int cuGetProcAddress_v2(const char *symbol, void **function_out, int cuda_version, uint64_t flags,
                        int *status_out);

/* This library. dlsym(RTLD_DEFAULT) would find functions of others first. */
static void *own_library(void)
{
    Dl_info own;

    if (dladdr((void *)(uintptr_t)cuGetProcAddress_v2, &own) == 0)
        return NULL;
    return dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

/* The newest version of a function. No function here differs between versions of CUDA. */
static void *find_function(const char *symbol)
{
    static const char *const suffixes[] = {"_v3", "_v2", ""};
    void *library = own_library();
    void *function = NULL;
    char name[128];

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]) && function == NULL; i++) {
        snprintf(name, sizeof(name), "%.100s%s", symbol, suffixes[i]);
        function = library != NULL ? dlsym(library, name) : NULL;
    }
    if (library != NULL)
        dlclose(library);
    return function;
}

int cuGetProcAddress_v2(const char *symbol, void **function_out, int cuda_version, uint64_t flags,
                        int *status_out)
{
    (void)cuda_version;
    (void)flags; /* the default stream of a thread is that of the process */
    if (symbol == NULL || function_out == NULL)
        return CUDA_INVALID_VALUE;
    *function_out = find_function(symbol);
    if (status_out != NULL)
        *status_out = *function_out != NULL ? SYMBOL_FOUND : SYMBOL_NOT_FOUND;
    return *function_out != NULL ? CUDA_SUCCESS : CUDA_NOT_FOUND;
}
