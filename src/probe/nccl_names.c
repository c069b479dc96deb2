/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/nccl_names.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

enum { REMEMBERED = 64 /* a power of two */ };

struct nccl_names_word {
    const char *text;
    uint8_t value;
};

static const struct nccl_names_word functions[] = {
    {"AllGather", LULL_OPERATION_ALLGATHER}, {"AllReduce", LULL_OPERATION_ALLREDUCE},
    {"AlltoAll", LULL_OPERATION_ALLTOALL},   {"Broadcast", LULL_OPERATION_BROADCAST},
    {"Gather", LULL_OPERATION_GATHER},       {"Recv", LULL_OPERATION_RECEIVE},
    {"Reduce", LULL_OPERATION_REDUCE},       {"ReduceScatter", LULL_OPERATION_REDUCE_SCATTER},
    {"Scatter", LULL_OPERATION_SCATTER},     {"SendRecv", LULL_OPERATION_SENDRECV},
    {"Send", LULL_OPERATION_SEND},           {"PutSignal", LULL_OPERATION_SIGNAL},
    {"Signal", LULL_OPERATION_SIGNAL},       {"WaitSignal", LULL_OPERATION_SIGNAL},
};

static const struct nccl_names_word datatypes[] = {
    {"ncclInt8", 1},    {"ncclUint8", 1},    {"ncclInt32", 4},      {"ncclUint32", 4},
    {"ncclInt64", 8},   {"ncclUint64", 8},   {"ncclFloat16", 2},    {"ncclFloat32", 4},
    {"ncclFloat64", 8}, {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1},
};

/* An entry is pointer << 8 | value, since user addresses have at most 56 bits; 0: the place is
 * free. */
static _Atomic uint64_t remembered[2][REMEMBERED];

static uint8_t nccl_names_lookup(_Atomic uint64_t *memory, const struct nccl_names_word *words,
                                 size_t count, const char *text)
{
    const uint64_t key = (uint64_t)(uintptr_t)text;
    _Atomic uint64_t *place = &memory[(key * UINT64_C(0x9e3779b97f4a7c15) >> 58) % REMEMBERED];
    const uint64_t present = atomic_load_explicit(place, memory_order_relaxed);
    uint8_t value = 0;

    if (text == NULL)
        return 0;
    if (present >> 8 == key)
        return (uint8_t)present;
    for (size_t i = 0; i < count; i++)
        if (strcmp(words[i].text, text) == 0)
            value = words[i].value;
    atomic_store_explicit(place, key << 8 | value, memory_order_relaxed);
    return value;
}

enum lull_operation lull_nccl_operation(const char *function)
{
    return (enum lull_operation)nccl_names_lookup(remembered[0], functions,
                                                  sizeof(functions) / sizeof(*functions), function);
}

uint32_t lull_nccl_element_bytes(const char *datatype)
{
    return nccl_names_lookup(remembered[1], datatypes, sizeof(datatypes) / sizeof(*datatypes),
                             datatype);
}

enum lull_operation lull_nccl_operation_v1(uint8_t function)
{
    static const uint8_t operations[] = {
        LULL_OPERATION_BROADCAST,      LULL_OPERATION_REDUCE,    LULL_OPERATION_ALLGATHER,
        LULL_OPERATION_REDUCE_SCATTER, LULL_OPERATION_ALLREDUCE, LULL_OPERATION_SENDRECV,
        LULL_OPERATION_SEND,           LULL_OPERATION_RECEIVE,
    };

    if (function >= sizeof(operations))
        return LULL_OPERATION_NONE;
    return (enum lull_operation)operations[function];
}

uint32_t lull_nccl_element_bytes_v1(uint8_t datatype)
{
    static const uint8_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

    return datatype < sizeof(bytes) ? bytes[datatype] : 0;
}

int lull_nccl_is_rooted(enum lull_operation operation)
{
    return operation == LULL_OPERATION_BROADCAST || operation == LULL_OPERATION_REDUCE ||
           operation == LULL_OPERATION_GATHER || operation == LULL_OPERATION_SCATTER;
}
