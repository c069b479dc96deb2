/*
 * The part of NVTX 3 that nvtx_client.c calls, for hosts without NVIDIA's headers: their protocol
 * with an injection library, declared from their documentation. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_NVTX_STUB_H
#define LULL_TESTS_NVTX_STUB_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#define NVTX_VERSION 3
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE sizeof(nvtxEventAttributes_t)
#define NVTX_MESSAGE_TYPE_ASCII 1
#define NVTX_MESSAGE_TYPE_REGISTERED 3

typedef void *nvtxDomainHandle_t;
typedef void *nvtxStringHandle_t;
typedef uint64_t nvtxRangeId_t;
typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t colorType;
    uint32_t color;
    int32_t payloadType, reserved0;
    uint64_t payload;
    int32_t messageType;
    union {
        const char *ascii;
        nvtxStringHandle_t registered;
    } message;
} nvtxEventAttributes_t;

static void *stub_core[16], *stub_core2[16];
static void **stub_core_table[16], **stub_core2_table[16];

static int stub_functions(int module, void ****table_out, unsigned *size_out)
{
    *table_out = module == 1 ? stub_core_table : module == 5 ? stub_core2_table : NULL;
    *size_out = *table_out != NULL ? 16 : 0;
    return *table_out != NULL;
}

static const void *stub_table(uint32_t id)
{
    static const struct {
        size_t size;
        int (*functions)(int, void ****, unsigned *);
    } callbacks = {sizeof(callbacks), stub_functions};

    return id == 1 ? &callbacks : NULL;
}

static void *stub(void **functions, int number)
{
    static int is_done;
    const char *path = getenv("NVTX_INJECTION64_PATH");

    if (!is_done) {
        int (*initialize)(const void *(*)(uint32_t)) = NULL;

        is_done = 1;
        for (int i = 1; i < 16; i++) {
            stub_core_table[i] = &stub_core[i];
            stub_core2_table[i] = &stub_core2[i];
        }
        if (path != NULL)
            *(void **)&initialize = dlsym(dlopen(path, RTLD_LAZY), "InitializeInjectionNvtx2");
        if (initialize != NULL)
            initialize(stub_table);
    }
    return functions[number];
}

#define STUB(result, none, name, functions, number, parameters, arguments)                         \
    static inline result name parameters                                                           \
    {                                                                                              \
        result(*const function) parameters = (result(*) parameters)stub(functions, number);        \
        return function == NULL ? none : function arguments;                                       \
    }
#define STUB_VOID(name, functions, number, parameters, arguments)                                  \
    static inline void name parameters                                                             \
    {                                                                                              \
        void(*const function) parameters = (void(*) parameters)stub(functions, number);            \
        if (function != NULL)                                                                      \
            function arguments;                                                                    \
    }

STUB(int, -2, nvtxRangePushA, stub_core, 9, (const char *name), (name))
STUB(int, -2, nvtxRangePushEx, stub_core, 8, (const nvtxEventAttributes_t *what), (what))
STUB(int, -2, nvtxRangePop, stub_core, 11, (void), ())
STUB(nvtxRangeId_t, 0, nvtxRangeStartA, stub_core, 5, (const char *name), (name))
STUB_VOID(nvtxRangeEnd, stub_core, 7, (nvtxRangeId_t number), (number))
STUB(nvtxDomainHandle_t, NULL, nvtxDomainCreateA, stub_core2, 12, (const char *name), (name))
STUB(nvtxStringHandle_t, NULL, nvtxDomainRegisterStringA, stub_core2, 10,
     (nvtxDomainHandle_t domain, const char *text), (domain, text))
STUB(int, -2, nvtxDomainRangePushEx, stub_core2, 4,
     (nvtxDomainHandle_t domain, const nvtxEventAttributes_t *what), (domain, what))
STUB(int, -2, nvtxDomainRangePop, stub_core2, 5, (nvtxDomainHandle_t domain), (domain))
STUB(nvtxRangeId_t, 0, nvtxDomainRangeStartEx, stub_core2, 2,
     (nvtxDomainHandle_t domain, const nvtxEventAttributes_t *what), (domain, what))
STUB_VOID(nvtxDomainRangeEnd, stub_core2, 3, (nvtxDomainHandle_t domain, nvtxRangeId_t number),
          (domain, number))

#endif
