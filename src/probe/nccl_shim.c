/*
 * The marker shim is preloaded and brackets NCCL's collectives with stream memory writes, so that
 * their begin and end on the GPU are known without NCCL's help: of symmetric, copy-engine and
 * custom kernels, too, and with any NCCL.
 *
 * Each ncclX passes its arguments and result on to pncclX unchanged. Beside it, on the application
 * thread, ENQUEUE is pushed; and while the governor requests times (LULL_ASK_TIMES), it is
 * bracketed by markers (nccl_markers.h). In a group the kernels are launched by the outermost
 * ncclGroupEnd, so that is bracketed, on each stream involved.
 *
 * Whatever fails here, the call passes through. Streams that are being captured into a graph and
 * non-blocking communicators (which launch later, on another thread) get no markers. Not wrapped:
 * ncclPutSignal, ncclSignal, ncclWaitSignal, whose arguments differ between releases, and the
 * nccl*Config calls of 2.31. Arguments and ncclConfig_t were checked against the public header of
 * NCCL 2.28.9, numbers of the driver against CUDA 13.0's.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/clock.h"
#include "probe/client.h"
#include "probe/nccl_markers.h"
#include "probe/own_gpu.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    COMMUNICATORS = 256, /* a power of two */
    GROUP_STREAMS = 16,
};

enum {
    NCCL_SUCCESS = 0,
    NCCL_INTERNAL_ERROR = 3,
};

typedef struct ncclComm *ncclComm_t;
typedef void *cudaStream_t;
typedef struct {
    char internal[128];
} ncclUniqueId;

struct nccl_shim_config { /* the layout of ncclConfig_t */
    size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
    int numbers_1[3];
    const char *net_name;
    int numbers_2[2];
    const char *comm_name;
};
_Static_assert(offsetof(struct nccl_shim_config, comm_name) == 48, "public layout");

/* ---- the wrapped functions ---- */

/* Finds a function of NCCL. A program that calls ncclX has libnccl, but perhaps only for itself:
 * Python loads it locally. */
static void *find_nccl(const char *name)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    void *library;

    if (symbol != NULL)
        return symbol;
    library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return NULL;
    symbol = dlsym(library, name);
    dlclose(library); /* the program's own reference keeps it loaded */
    return symbol;
}

/* Finds pncclX, or ncclX of the next library where NCCL was built without pncclX. */
static void *nccl_shim_find_behind(const char *strong_name)
{
    void *symbol = find_nccl(strong_name);

    return symbol != NULL ? symbol : dlsym(RTLD_NEXT, strong_name + 1);
}

#define NEXT(name)                                                                                 \
    static __typeof__(&nccl##name) next_##name(void)                                               \
    {                                                                                              \
        static void *_Atomic found;                                                                \
        void *symbol = atomic_load_explicit(&found, memory_order_relaxed);                         \
        __typeof__(&nccl##name) function;                                                          \
                                                                                                   \
        if (symbol == NULL) {                                                                      \
            symbol = nccl_shim_find_behind("pnccl" #name);                                         \
            atomic_store_explicit(&found, symbol, memory_order_relaxed);                           \
        }                                                                                          \
        *(void **)&function = symbol;                                                              \
        return function;                                                                           \
    }

/* ---- communicators ---- */

struct nccl_shim_communicator {
    _Atomic uintptr_t key; /* the handle, or NO_KEY */
    uint32_t number;
    uint32_t ranks;
    uint32_t is_non_blocking;
};

enum { NO_KEY = 0, WRITING = 1, REMOVED = 2, CONFIG_MAGIC = 0xcafebeef, NAMED_SINCE = 22703 };

static struct nccl_shim_communicator communicators[COMMUNICATORS];

int ncclCommCount(const ncclComm_t comm, int *count); /* it is only called here and not wrapped */
int ncclCommUserRank(const ncclComm_t comm, int *rank);
int ncclCommCuDevice(const ncclComm_t comm, int *device);
NEXT(CommCount)
NEXT(CommUserRank)
NEXT(CommCuDevice)

static struct nccl_shim_communicator *find_communicator(ncclComm_t comm)
{
    for (size_t i = 0; i < COMMUNICATORS; i++) {
        const uintptr_t key = atomic_load_explicit(&communicators[i].key, memory_order_acquire);

        if (key == (uintptr_t)comm)
            return &communicators[i];
        if (key == NO_KEY)
            return NULL;
    }
    return NULL;
}

static struct nccl_shim_communicator *nccl_shim_claim_communicator(void)
{
    for (size_t i = 0; i < COMMUNICATORS; i++) {
        uintptr_t key = atomic_load(&communicators[i].key);

        if ((key == NO_KEY || key == REMOVED) &&
            atomic_compare_exchange_strong(&communicators[i].key, &key, WRITING))
            return &communicators[i];
    }
    return NULL;
}

static const char *nccl_shim_name_in(const struct nccl_shim_config *config)
{
    if (config == NULL || config->magic != CONFIG_MAGIC || config->size < sizeof(*config) ||
        config->version < NAMED_SINCE)
        return NULL;
    return config->comm_name;
}

static void nccl_shim_announce(const struct nccl_shim_communicator *entry, int rank,
                               const char *name)
{
    const struct lull_event event = {
        .time_ns = lull_now_ns(),
        .communicator = entry->number,
        .ranks = entry->ranks,
        .peer = rank,
        .kind = LULL_EVENT_COMMUNICATOR,
        .name = name != NULL ? lull_event_segment_intern(lull_client.job, lull_client.slot, name)
                             : LULL_JOB_MAX_NAMES,
    };

    lull_client_push(&event);
}

/* Assigns a number to a new communicator. Two threads that use it at the same time may assign two
 * numbers. */
static struct nccl_shim_communicator *
nccl_shim_add_communicator(ncclComm_t comm, const struct nccl_shim_config *config)
{
    struct nccl_shim_communicator *entry = comm != NULL ? nccl_shim_claim_communicator() : NULL;
    int ranks = 0;
    int rank = -1;
    int device;

    if (entry == NULL)
        return NULL;
    if (next_CommCount() == NULL || next_CommCount()(comm, &ranks) != NCCL_SUCCESS || ranks < 0)
        ranks = 0;
    if (next_CommUserRank() == NULL || next_CommUserRank()(comm, &rank) != NCCL_SUCCESS)
        rank = -1;
    entry->number = lull_event_segment_new_communicator(lull_client.job, lull_client.slot);
    entry->ranks = (uint32_t)ranks;
    entry->is_non_blocking =
        config != NULL && config->magic == CONFIG_MAGIC && config->blocking == 0;
    nccl_shim_announce(entry, rank, nccl_shim_name_in(config));
    if (next_CommCuDevice() != NULL && next_CommCuDevice()(comm, &device) == NCCL_SUCCESS)
        lull_own_gpu_report(device);
    atomic_store_explicit(&entry->key, (uintptr_t)comm, memory_order_release);
    return entry;
}

/* Forgets a communicator that ends, because its handle may soon represent another one. */
static void nccl_shim_forget_communicator(ncclComm_t comm)
{
    struct nccl_shim_communicator *entry;

    while (comm != NULL && (entry = find_communicator(comm)) != NULL)
        atomic_store_explicit(&entry->key, REMOVED, memory_order_release);
}

/* ---- recording ---- */

/* A stream on which the open group has enqueued, and everything that the group will run there. */
struct group_stream {
    void *stream;
    struct lull_event event;
};

static _Thread_local struct {
    int depth;
    uint32_t count;
    struct group_stream streams[GROUP_STREAMS];
} group __attribute__((tls_model("initial-exec")));

static uint64_t nccl_shim_bytes_of(size_t count, int datatype)
{
    static const uint8_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

    return datatype >= 0 && (size_t)datatype < sizeof(sizes) ? count * sizes[datatype] : 0;
}

static void add_to_group(void *stream, const struct lull_event *event)
{
    for (uint32_t i = 0; i < group.count; i++) {
        struct group_stream *present = &group.streams[i];

        if (present->stream != stream)
            continue;
        present->event.bytes += event->bytes;
        if (present->event.operation != event->operation)
            present->event.operation = LULL_OPERATION_SENDRECV;
        if (present->event.peer != event->peer)
            present->event.peer = -1;
        return;
    }
    if (group.count < GROUP_STREAMS)
        group.streams[group.count++] = (struct group_stream){stream, *event};
}

/* Reports a call as enqueued before it is made, and begins to bracket it unless the group's end
 * will do so. */
static struct lull_nccl_bracket nccl_shim_begin_call(enum lull_operation operation, uint64_t bytes,
                                                     int peer, ncclComm_t comm, void *stream)
{
    struct lull_event event = {.bytes = bytes,
                               .communicator = LULL_EVENT_NO_COMMUNICATOR,
                               .peer = peer,
                               .kind = LULL_EVENT_ENQUEUE,
                               .operation = (uint16_t)operation};
    const struct nccl_shim_communicator *entry;

    if (!lull_client_is_on() && !lull_client_join())
        return (struct lull_nccl_bracket){0};
    entry = find_communicator(comm);
    if (entry == NULL)
        entry = nccl_shim_add_communicator(comm, NULL);
    if (entry != NULL) {
        event.communicator = entry->number;
        event.ranks = entry->ranks;
    }
    event.thread = lull_client_thread()->number;
    event.time_ns = lull_now_ns();
    lull_client_push(&event);
    if (entry != NULL && entry->is_non_blocking)
        return (struct lull_nccl_bracket){0};
    if (group.depth == 0)
        return lull_nccl_bracket_begin(stream, &event);
    add_to_group(stream, &event);
    return (struct lull_nccl_bracket){0};
}

/* ---- the wrappers ---- */

#define BUFFERS const void *send, void *receive, size_t count, int datatype
#define PLACE ncclComm_t comm, cudaStream_t stream

#define WRAP(name, operation, peer, parameters, arguments)                                         \
    EXPORT int nccl##name parameters;                                                              \
    NEXT(name)                                                                                     \
    EXPORT int nccl##name parameters                                                               \
    {                                                                                              \
        struct lull_nccl_bracket bracket;                                                          \
        int result;                                                                                \
                                                                                                   \
        if (next_##name() == NULL)                                                                 \
            return NCCL_INTERNAL_ERROR;                                                            \
        bracket = nccl_shim_begin_call(LULL_OPERATION_##operation,                                 \
                                       nccl_shim_bytes_of(count, datatype), peer, comm, stream);   \
        result = next_##name() arguments;                                                          \
        lull_nccl_bracket_end(&bracket);                                                           \
        return result;                                                                             \
    }

WRAP(AllReduce, ALLREDUCE, -1, (BUFFERS, int op, PLACE),
     (send, receive, count, datatype, op, comm, stream))
WRAP(Reduce, REDUCE, root, (BUFFERS, int op, int root, PLACE),
     (send, receive, count, datatype, op, root, comm, stream))
WRAP(Broadcast, BROADCAST, root, (BUFFERS, int root, PLACE),
     (send, receive, count, datatype, root, comm, stream))
WRAP(Bcast, BROADCAST, root, (void *buffer, size_t count, int datatype, int root, PLACE),
     (buffer, count, datatype, root, comm, stream))
WRAP(AllGather, ALLGATHER, -1, (BUFFERS, PLACE), (send, receive, count, datatype, comm, stream))
WRAP(ReduceScatter, REDUCE_SCATTER, -1, (BUFFERS, int op, PLACE),
     (send, receive, count, datatype, op, comm, stream))
WRAP(AlltoAll, ALLTOALL, -1, (BUFFERS, PLACE), (send, receive, count, datatype, comm, stream))
WRAP(Gather, GATHER, root, (BUFFERS, int root, PLACE),
     (send, receive, count, datatype, root, comm, stream))
WRAP(Scatter, SCATTER, root, (BUFFERS, int root, PLACE),
     (send, receive, count, datatype, root, comm, stream))
WRAP(Send, SEND, peer, (const void *send, size_t count, int datatype, int peer, PLACE),
     (send, count, datatype, peer, comm, stream))
WRAP(Recv, RECEIVE, peer, (void *receive, size_t count, int datatype, int peer, PLACE),
     (receive, count, datatype, peer, comm, stream))

/* ---- groups ---- */

EXPORT int ncclGroupStart(void);
EXPORT int ncclGroupEnd(void);
EXPORT int ncclGroupSimulateEnd(void *information);
NEXT(GroupStart)
NEXT(GroupEnd)
NEXT(GroupSimulateEnd)

EXPORT int ncclGroupStart(void)
{
    int result;

    if (next_GroupStart() == NULL)
        return NCCL_INTERNAL_ERROR;
    result = next_GroupStart()();
    if (result == NCCL_SUCCESS)
        group.depth++;
    return result;
}

EXPORT int ncclGroupEnd(void)
{
    struct lull_nccl_bracket brackets[GROUP_STREAMS];
    const uint32_t count = group.depth == 1 ? group.count : 0;
    int result;

    if (next_GroupEnd() == NULL)
        return NCCL_INTERNAL_ERROR;
    for (uint32_t i = 0; i < count; i++)
        brackets[i] = lull_nccl_bracket_begin(group.streams[i].stream, &group.streams[i].event);
    result = next_GroupEnd()();
    for (uint32_t i = 0; i < count; i++)
        lull_nccl_bracket_end(&brackets[i]);
    if (group.depth <= 1)
        group.count = 0;
    if (group.depth > 0)
        group.depth--;
    return result;
}

/* NCCL ends the group here without launching anything, so nothing is bracketed. */
EXPORT int ncclGroupSimulateEnd(void *information)
{
    if (group.depth <= 1)
        group.count = 0;
    if (group.depth > 0)
        group.depth--;
    return next_GroupSimulateEnd() != NULL ? next_GroupSimulateEnd()(information)
                                           : NCCL_INTERNAL_ERROR;
}

/* ---- life of communicators ---- */

/* Notes a new communicator. In a group its handle is not usable yet; it is then met at its first
 * call, without its name. */
static void note_new(int result, const ncclComm_t *comm, const void *config)
{
    if (result == NCCL_SUCCESS && group.depth == 0 && comm != NULL &&
        (lull_client_is_on() || lull_client_join()))
        nccl_shim_add_communicator(*comm, config);
}

#define WRAP_CREATION(name, parameters, arguments)                                                 \
    EXPORT int nccl##name parameters;                                                              \
    NEXT(name)                                                                                     \
    EXPORT int nccl##name parameters                                                               \
    {                                                                                              \
        int result;                                                                                \
                                                                                                   \
        if (next_##name() == NULL)                                                                 \
            return NCCL_INTERNAL_ERROR;                                                            \
        result = next_##name() arguments;                                                          \
        note_new(result, comm, config);                                                            \
        return result;                                                                             \
    }

#define WRAP_END(name)                                                                             \
    EXPORT int nccl##name(ncclComm_t comm);                                                        \
    NEXT(name)                                                                                     \
    EXPORT int nccl##name(ncclComm_t comm)                                                         \
    {                                                                                              \
        nccl_shim_forget_communicator(comm);                                                       \
        return next_##name() != NULL ? next_##name()(comm) : NCCL_INTERNAL_ERROR;                  \
    }

WRAP_CREATION(CommInitRankConfig,
              (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, void *config),
              (comm, ranks, id, rank, config))
WRAP_CREATION(CommSplit, (ncclComm_t parent, int color, int key, ncclComm_t *comm, void *config),
              (parent, color, key, comm, config))
WRAP_END(CommDestroy)
WRAP_END(CommAbort)
