/*
 * A libnccl of one process for mock_cuda.c: operations requested within a group are executed at its
 * end, and only if every rank has requested the same. Numbers are f32 (7) or bf16 (9). Threads:
 * one. SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, MAX = 16 };
enum kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST };

struct call {
    enum kind kind;
    const void *send;
    void *receive;
    size_t count;
    int type;
    int root;
};

static struct {
    int count; /* of ranks */
    int devices[MAX];
    int is_open;
    struct call calls[MAX];
    int called;
} group;

#define EXPORT(name, ...)                                                                          \
    int name(__VA_ARGS__);                                                                         \
    int name(__VA_ARGS__)

const char *ncclGetErrorString(int code);
const char *ncclGetErrorString(int code)
{
    return code == INVALID_USAGE ? "invalid usage" : "invalid argument";
}

EXPORT(ncclCommInitAll, void **communicators, int count, const int *devices)
{
    if (count < 2 || count > MAX)
        return INVALID_ARGUMENT;
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < i; j++)
            if (devices[i] == devices[j] || devices[i] >= count)
                return INVALID_ARGUMENT;
        group.devices[i] = devices[i];
        communicators[i] = &group.devices[i];
    }
    group.count = count;
    return OK;
}

EXPORT(ncclCommDestroy, void *communicator)
{
    return communicator != NULL ? OK : INVALID_ARGUMENT;
}

EXPORT(ncclGroupStart, void)
{
    group.called = 0;
    group.is_open++;
    return group.is_open == 1 ? OK : INVALID_USAGE;
}

static float get(const void *data, size_t i, int type)
{
    uint32_t bits;
    float value;

    if (type == 7)
        return ((const float *)data)[i];
    bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void put(void *data, size_t i, int type, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    if (type == 7)
        ((float *)data)[i] = value;
    else
        ((uint16_t *)data)[i] = (uint16_t)((bits + 0x8000) >> 16);
}

static void compute(int rank)
{
    const struct call *const call = &group.calls[rank];

    for (size_t i = 0; i < call->count; i++) {
        const size_t at = call->kind == REDUCE_SCATTER ? (size_t)rank * call->count + i : i;
        float sum = 0;

        for (int other = 0; other < group.count; other++) {
            const float value = get(group.calls[other].send, at, call->type);

            sum += value;
            if (call->kind == ALL_GATHER)
                put(call->receive, (size_t)other * call->count + i, call->type, value);
            if (call->kind == BROADCAST && other == call->root)
                put(call->receive, i, call->type, value);
        }
        if (call->kind == ALL_REDUCE || call->kind == REDUCE_SCATTER)
            put(call->receive, i, call->type, sum);
    }
}

EXPORT(ncclGroupEnd, void)
{
    group.is_open--;
    if (group.is_open != 0 || group.called != group.count)
        return INVALID_USAGE;
    for (int i = 1; i < group.count; i++)
        if (group.calls[i].kind != group.calls[0].kind ||
            group.calls[i].count != group.calls[0].count)
            return INVALID_USAGE;
    for (int i = 0; i < group.count; i++)
        compute(i);
    return OK;
}

static int add(enum kind kind, const void *send, void *receive, size_t count, int type, int root,
               const void *communicator, const void *stream)
{
    if (group.is_open != 1 || communicator != &group.devices[group.called] || stream != NULL ||
        (type != 7 && type != 9))
        return INVALID_ARGUMENT;
    group.calls[group.called++] = (struct call){kind, send, receive, count, type, root};
    return OK;
}

EXPORT(ncclAllReduce, const void *send, void *receive, size_t count, int type, int operation,
       void *communicator, void *stream)
{
    return operation == 0 ? add(ALL_REDUCE, send, receive, count, type, 0, communicator, stream)
                          : INVALID_ARGUMENT;
}

EXPORT(ncclReduceScatter, const void *send, void *receive, size_t count, int type, int operation,
       void *communicator, void *stream)
{
    return operation == 0 ? add(REDUCE_SCATTER, send, receive, count, type, 0, communicator, stream)
                          : INVALID_ARGUMENT;
}

EXPORT(ncclAllGather, const void *send, void *receive, size_t count, int type, void *communicator,
       void *stream)
{
    return add(ALL_GATHER, send, receive, count, type, 0, communicator, stream);
}

EXPORT(ncclBroadcast, const void *send, void *receive, size_t count, int type, int root,
       void *communicator, void *stream)
{
    return root >= 0 && root < group.count
               ? add(BROADCAST, send, receive, count, type, root, communicator, stream)
               : INVALID_ARGUMENT;
}
