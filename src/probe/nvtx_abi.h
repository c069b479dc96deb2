/*
 * Interface between an injection library of NVTX 3 and the programs that load it: the first call of
 * a program loads the library that NVTX_INJECTION64_PATH names and calls its
 * InitializeInjectionNvtx2() with a way to its export tables; one of these leads to arrays of
 * pointers to the program's function pointers, by module and by number. Facts of the public headers
 * (nvtx3, Apache-2.0), declared here; only what we use. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_NVTX_ABI_H
#define LULL_PROBE_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>

#define NVTX_INJECTION_ENV "NVTX_INJECTION64_PATH"
#define NVTX_INJECTION_ENTRY "InitializeInjectionNvtx2"

enum { NVTX_TABLE_CALLBACKS = 1 }; /* the number of the export table with the callbacks */
enum { NVTX_MODULE_CORE = 1, NVTX_MODULE_CORE2 = 5 };

enum nvtx_core {
    NVTX_RANGE_START_EX = 4,
    NVTX_RANGE_START_A = 5,
    NVTX_RANGE_END = 7,
    NVTX_RANGE_PUSH_EX = 8,
    NVTX_RANGE_PUSH_A = 9,
    NVTX_RANGE_PUSH_W = 10,
    NVTX_RANGE_POP = 11
};

enum nvtx_core2 {
    NVTX_DOMAIN_RANGE_START_EX = 2,
    NVTX_DOMAIN_RANGE_END = 3,
    NVTX_DOMAIN_RANGE_PUSH_EX = 4,
    NVTX_DOMAIN_RANGE_POP = 5,
    NVTX_DOMAIN_REGISTER_STRING_A = 10,
    NVTX_DOMAIN_CREATE_A = 12
};

enum { NVTX_MESSAGE_ASCII = 1, NVTX_MESSAGE_REGISTERED = 3 };

/* The layout of nvtxEventAttributes_v2. Older ones are shorter, as `size` says. */
struct nvtx_attributes {
    uint16_t version;
    uint16_t size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type;
    int32_t reserved;
    uint64_t payload;
    int32_t message_type;
    union {
        const char *ascii;
        const void *registered;
    } message;
};

_Static_assert(offsetof(struct nvtx_attributes, message_type) == 32 &&
                   sizeof(struct nvtx_attributes) == 48,
               "the layout of programs");

typedef void (*nvtx_function)(void);
typedef const void *(*nvtx_get_table)(uint32_t table);
typedef int (*nvtx_initialize)(nvtx_get_table get_table);

struct nvtx_callbacks {
    size_t size;
    /* Gives the places of the program's function pointers by number, any of which may be NULL, and
     * returns 1. */
    int (*get_functions)(int module, nvtx_function ***table_out, unsigned *size_out);
};

#endif
