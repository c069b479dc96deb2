/*
 * A profiler plugin that records its callbacks. Descriptors are read by the offsets of the
 * public ABI, one by one; no code is shared with the library that fills them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "recording_plugin.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct recording recording;

static _Atomic uintptr_t handles = 1000;
static _Atomic uintptr_t contexts = 1;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* A record is filled between begin and end; readers see it after the end. */
static struct record *begin(enum record_kind kind, int version)
{
    static struct record surplus;
    struct record *record;

    pthread_mutex_lock(&mutex);
    record = recording.count < RECORDS ? &recording.records[recording.count] : &surplus;
    record->kind = kind;
    record->version = version;
    record->thread = (pid_t)syscall(SYS_gettid);
    return record;
}

static int end(void)
{
    atomic_fetch_add(&recording.count, 1);
    pthread_mutex_unlock(&mutex);
    return 0;
}

void forget_recording(void)
{
    pthread_mutex_lock(&mutex);
    memset(recording.records, 0, sizeof(recording.records));
    atomic_store(&recording.count, 0);
    pthread_mutex_unlock(&mutex);
}

static uint64_t word(const void *descriptor, size_t offset)
{
    uint64_t value;

    memcpy(&value, (const char *)descriptor + offset, sizeof(value));
    return value;
}

static int number(const void *descriptor, size_t offset)
{
    int value;

    memcpy(&value, (const char *)descriptor + offset, sizeof(value));
    return value;
}

static int byte(const void *descriptor, size_t offset)
{
    return ((const uint8_t *)descriptor)[offset];
}

static void text(char *out, const void *descriptor, size_t offset)
{
    snprintf(out, 16, "%s", (const char *)(uintptr_t)word(descriptor, offset));
}

static void read_coll(struct record *record, const void *d, int version)
{
    const int is_old = version <= 3;

    record->sequence = word(d, is_old ? 40 : 24);
    record->count = word(d, is_old ? 72 : 56);
    record->channels = byte(d, version <= 2 ? 104 : version == 3 ? 96 : 80);
    if (version == 1) {
        snprintf(record->function, sizeof(record->function), "%d", byte(d, 48));
        snprintf(record->datatype, sizeof(record->datatype), "%d", byte(d, 84));
    } else {
        text(record->function, d, is_old ? 48 : 32);
        text(record->datatype, d, is_old ? 88 : 72);
    }
    if (version >= 5)
        record->group = word(d, 104);
}

static void read_p2p(struct record *record, const void *d, int version)
{
    record->peer = number(d, version <= 3 ? 72 : 56);
    record->count = word(d, version <= 3 ? 64 : 48);
    if (version == 1)
        snprintf(record->function, sizeof(record->function), "%d", byte(d, 40));
    else
        text(record->function, d, version <= 3 ? 40 : 24);
    if (version >= 4)
        record->channels = byte(d, 60);
    if (version >= 5)
        record->group = word(d, 64);
}

static void read_descriptor(struct record *record, const void *d, int version)
{
    record->type = version <= 4 ? (uint64_t)byte(d, 0) : word(d, 0);
    record->parent = word(d, 8);
    record->rank = number(d, 16);
    switch (record->type) {
    case 1 << 1:
        read_coll(record, d, version);
        break;
    case 1 << 2:
        read_p2p(record, d, version);
        break;
    case 1 << 3:
        record->pid = number(d, 24);
        break;
    case 1 << 6:
        record->channel = byte(d, 24);
        record->timer = version >= 4 ? word(d, 32) : 0;
        break;
    case 1 << 8:
        record->depth = number(d, 28);
        break;
    case 1 << 9:
        text(record->function, d, 24);
        text(record->datatype, d, 40);
        record->count = word(d, 32);
        record->stream = word(d, 56);
        break;
    case 1 << 10:
        text(record->function, d, 24);
        record->stream = word(d, 48);
        break;
    case 1 << 11:
        record->stream = word(d, 24);
        break;
    default:
        break;
    }
}

static int init(int version, void **context, int *mask, int nodes, int ranks, int rank)
{
    struct record *record = begin(RECORD_INIT, version);

    record->context = atomic_fetch_add(&contexts, 1);
    record->nodes = nodes;
    record->ranks = ranks;
    record->rank = rank;
    *context = (void *)record->context;
    recording.mask_pointer = mask;
    __atomic_store_n(mask, atomic_load(&recording.mask), __ATOMIC_RELAXED);
    return end();
}

static int start(int version, void *context, void **handle, void *descriptor)
{
    struct record *record = begin(RECORD_START, version);

    record->context = (uintptr_t)context;
    record->handle = atomic_fetch_add(&handles, 1);
    read_descriptor(record, descriptor, version);
    *handle = (void *)record->handle;
    return end();
}

static int stop(int version, void *handle)
{
    begin(RECORD_STOP, version)->handle = (uintptr_t)handle;
    return end();
}

static int state(int version, void *handle, int value, void *arguments)
{
    struct record *record = begin(RECORD_STATE, version);

    record->handle = (uintptr_t)handle;
    record->state = value;
    record->has_arguments = arguments != NULL;
    if (value == 22)
        record->timer = word(arguments, 0);
    return end();
}

static int finalize(int version, void *context)
{
    begin(RECORD_FINALIZE, version)->context = (uintptr_t)context;
    return end();
}

typedef void (*logger)(int, unsigned long, const char *, int, const char *, ...);

#define INIT_OLD(v)                                                                                \
    static int init_v##v(void **context, int *mask)                                                \
    {                                                                                              \
        return init(v, context, mask, 0, 0, -1);                                                   \
    }
#define INIT_NEW(v)                                                                                \
    static int init_v##v(void **context, uint64_t id, int *mask, const char *name, int nodes,      \
                         int ranks, int rank, logger log)                                          \
    {                                                                                              \
        (void)id, (void)name, (void)log;                                                           \
        return init(v, context, mask, nodes, ranks, rank);                                         \
    }

static int init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks,
                   int rank, logger log)
{
    (void)name, (void)hash, (void)log;
    return init(4, context, mask, nodes, ranks, rank);
}

#define TABLE(v)                                                                                   \
    static int start_v##v(void *context, void **handle, void *descriptor)                          \
    {                                                                                              \
        return start(v, context, handle, descriptor);                                              \
    }                                                                                              \
    static int stop_v##v(void *handle)                                                             \
    {                                                                                              \
        return stop(v, handle);                                                                    \
    }                                                                                              \
    static int state_v##v(void *handle, int value, void *arguments)                                \
    {                                                                                              \
        return state(v, handle, value, arguments);                                                 \
    }                                                                                              \
    static int finalize_v##v(void *context)                                                        \
    {                                                                                              \
        return finalize(v, context);                                                               \
    }                                                                                              \
    const struct {                                                                                 \
        const char *name;                                                                          \
        void *init;                                                                                \
        int (*start)(void *, void **, void *);                                                     \
        int (*stop)(void *);                                                                       \
        int (*state)(void *, int, void *);                                                         \
        int (*finalize)(void *);                                                                   \
    } ncclProfiler_v##v = {"recording", (void *)init_v##v, start_v##v,                             \
                           stop_v##v,   state_v##v,        finalize_v##v};

INIT_OLD(1)
INIT_OLD(2)
INIT_OLD(3)
INIT_NEW(5)
INIT_NEW(6)
INIT_NEW(7)
TABLE(1)
TABLE(2)
TABLE(3)
TABLE(4)
TABLE(5)
TABLE(6)
TABLE(7)
