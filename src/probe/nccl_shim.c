/*
 * The marker shim is preloaded and brackets NCCL's collectives with stream memory writes, so that
 * their begin and end on the GPU are known without NCCL's help: of symmetric, copy-engine and
 * custom kernels, too, and with any NCCL.
 *
 * Each ncclX passes its arguments and result on to pncclX unchanged. Beside it, on the application
 * thread, ENQUEUE is pushed; and while the governor requests times (LULL_ASK_TIMES), the GPU front
 * end writes one word of pinned host memory when all earlier work of the stream is done, and one
 * when the collective is. A watcher thread sees the words change and pushes KERNEL_BEGIN and
 * KERNEL_END with the host time. In a group the kernels are launched by the outermost ncclGroupEnd,
 * so that is bracketed, on each stream involved.
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
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/thread.h"
#include "probe/client.h"
#include "probe/own_gpu.h"

#define EXPORT __attribute__((visibility("default")))

#define POLL_NS (20 * LULL_NS_PER_US) /* while markers are outstanding; all of these are chosen */
#define POLL_LONG_NS (200 * LULL_NS_PER_US) /* after QUIET_NS without a marker that has changed */
#define QUIET_NS (20 * LULL_NS_PER_MS)
#define IDLE_NS (2 * LULL_NS_PER_MS) /* while no markers are outstanding */

enum {
    COMMUNICATORS = 256, /* a power of two */
    QUEUES = 16,         /* the most streams with markers */
    MARKERS = 512,       /* the most that are outstanding per stream; a power of two */
    GROUP_STREAMS = 16,
};

enum {
    NCCL_SUCCESS = 0,
    NCCL_INTERNAL_ERROR = 3,
    CUDA_SUCCESS = 0,
    HOST_REGISTER_PORTABLE = 1,
    HOST_REGISTER_DEVICE_MAP = 2,
    CAPTURE_MODE_RELAXED = 2,
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

/* The functions of the CUDA driver; all of them are found or none. */
static struct {
    int (*write)(void *stream, uint64_t address, uint32_t value, unsigned flags);
    int (*is_capturing)(void *stream, int *status);
    int (*host_register)(void *memory, size_t bytes, unsigned flags);
    int (*device_pointer)(uint64_t *pointer, void *memory, unsigned flags);
    int (*exchange_mode)(int *mode);
} cuda;

static int find_cuda(void)
{
    static const struct {
        void **function;
        const char *name;
    } rows[] = {
        {(void **)&cuda.write, "cuStreamWriteValue32_v2"},
        {(void **)&cuda.is_capturing, "cuStreamIsCapturing"},
        {(void **)&cuda.host_register, "cuMemHostRegister_v2"},
        {(void **)&cuda.device_pointer, "cuMemHostGetDevicePointer_v2"},
        {(void **)&cuda.exchange_mode, "cuThreadExchangeStreamCaptureMode"},
    };
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

    if (library == NULL)
        return -ENOENT;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        *rows[i].function = dlsym(library, rows[i].name);
        if (*rows[i].function == NULL)
            return -ENOSYS;
    }
    return 0;
}

/* ---- markers ---- */

/* Two words of pinned host memory, into which the GPU writes the marker's number. */
struct words {
    _Atomic uint32_t begin;
    _Atomic uint32_t end;
};

enum { FREE, READY, BROKEN };

struct marker {
    _Atomic uint32_t state;  /* READY after the write of the begin word has been enqueued */
    _Atomic uint32_t is_cut; /* the end word will never be written */
    uint32_t has_begun;      /* its begin has been reported; only the watcher uses it */
    struct lull_event event;
};

/* The outstanding markers of one stream, the oldest first. The slot of a marker is its number
 * modulo MARKERS. */
struct nccl_shim_queue {
    _Atomic uintptr_t key; /* the stream plus one; 0: free */
    _Atomic uint32_t head; /* where application threads reserve */
    _Atomic uint32_t tail; /* where the watcher frees */
    struct marker markers[MARKERS];
};

enum { NOT_TRIED, TRYING, WORKING, FAILED };

static struct nccl_shim_queue queues[QUEUES];
static struct words *words; /* QUEUES times MARKERS */
static uint64_t words_address;
static _Atomic int markers_state;
static _Atomic uint32_t next_order; /* the order in which calls are enqueued, over all queues */

static struct words *nccl_shim_words_of(const struct nccl_shim_queue *queue, uint32_t number)
{
    return &words[(size_t)(queue - queues) * MARKERS + number % MARKERS];
}

static uint64_t address_of(const void *word)
{
    return words_address + (uint64_t)((const char *)word - (const char *)words);
}

/* A word that the GPU has not yet written holds an older number; numbers start at 1. */
static int is_written(_Atomic uint32_t *word, uint32_t number)
{
    return atomic_load_explicit(word, memory_order_acquire) == number + 1;
}

static void push_edge(struct marker *marker, enum lull_event_kind kind)
{
    marker->event.kind = (uint16_t)kind;
    marker->event.time_ns = lull_now_ns();
    if (lull_client_is_on())
        lull_client_push(&marker->event);
}

/* Returns what has happened to the oldest marker of a queue; 1: something has happened. */
static int nccl_shim_poll_queue(struct nccl_shim_queue *queue)
{
    const uint32_t number = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    struct marker *marker = &queue->markers[number % MARKERS];
    struct words *word = nccl_shim_words_of(queue, number);
    const uint32_t state = atomic_load_explicit(&marker->state, memory_order_acquire);
    int has_update = 0;

    if (number == atomic_load_explicit(&queue->head, memory_order_acquire) || state == FREE)
        return 0;
    if (state == READY && !marker->has_begun && is_written(&word->begin, number)) {
        push_edge(marker, LULL_EVENT_KERNEL_BEGIN);
        marker->has_begun = 1;
        has_update = 1;
    }
    if (state == READY &&
        !(marker->has_begun && (is_written(&word->end, number) || atomic_load(&marker->is_cut))))
        return has_update;
    if (marker->has_begun)
        push_edge(marker, LULL_EVENT_KERNEL_END);
    marker->has_begun = 0;
    atomic_store(&marker->is_cut, 0);
    atomic_store_explicit(&marker->state, FREE, memory_order_relaxed);
    atomic_store_explicit(&queue->tail, number + 1, memory_order_release);
    return 1;
}

static int nccl_shim_poll_all(int *is_outstanding_out)
{
    int has_update = 0;

    *is_outstanding_out = 0;
    for (size_t i = 0; i < QUEUES; i++) {
        if (atomic_load_explicit(&queues[i].key, memory_order_acquire) == 0)
            break; /* queues are claimed in order, so the rest is free */
        while (nccl_shim_poll_queue(&queues[i]))
            has_update = 1;
        if (atomic_load(&queues[i].head) != atomic_load(&queues[i].tail))
            *is_outstanding_out = 1;
    }
    return has_update;
}

static void *nccl_shim_thread(void *unused)
{
    int64_t update_ns = lull_now_ns();

    (void)unused;
    prctl(PR_SET_TIMERSLACK, 1000UL); /* in ns; the default would add 50 us to every sleep */
    for (;;) {
        int is_outstanding;
        const int has_update = nccl_shim_poll_all(&is_outstanding);
        const int64_t now_ns = lull_now_ns();

        if (has_update)
            update_ns = now_ns;
        if (!is_outstanding)
            lull_sleep_until_ns(now_ns + IDLE_NS);
        else
            lull_sleep_until_ns(now_ns + (now_ns - update_ns < QUIET_NS ? POLL_NS : POLL_LONG_NS));
    }
    return NULL;
}

static int start_watcher(void)
{
    pthread_t thread;
    const int result = lull_thread_start(&thread, nccl_shim_thread, NULL);

    if (result < 0)
        return result;
    pthread_setname_np(thread, "lull-markers");
    pthread_detach(thread);
    return 0;
}

/*
 * Pinned memory. It is ours, so that it stays readable when the driver shuts down before the
 * watcher does. Pinning is allowed while another stream is captured, thanks to the relaxed mode.
 */
static int reserve_words(void)
{
    const size_t bytes = sizeof(struct words) * QUEUES * MARKERS;
    int mode = CAPTURE_MODE_RELAXED;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    int code;

    if (memory == MAP_FAILED)
        return -errno;
    if (cuda.exchange_mode(&mode) != CUDA_SUCCESS)
        return -EIO;
    code = cuda.host_register(memory, bytes, HOST_REGISTER_PORTABLE | HOST_REGISTER_DEVICE_MAP);
    if (code == CUDA_SUCCESS)
        code = cuda.device_pointer(&words_address, memory, 0);
    cuda.exchange_mode(&mode);
    words = memory;
    return code == CUDA_SUCCESS ? 0 : -EIO;
}

/* A forked child has neither the watcher nor a usable CUDA. */
static void nccl_shim_stop_in_child(void)
{
    atomic_store(&markers_state, FAILED);
}

/* Returns whether markers can be set. The first caller prepares them, once. */
static int are_markers_ready(void)
{
    int state = atomic_load_explicit(&markers_state, memory_order_acquire);

    if (state != NOT_TRIED)
        return state == WORKING;
    if (!atomic_compare_exchange_strong(&markers_state, &state, TRYING))
        return 0;
    state = find_cuda() == 0 && reserve_words() == 0 &&
                    pthread_atfork(NULL, NULL, nccl_shim_stop_in_child) == 0 && start_watcher() == 0
                ? WORKING
                : FAILED;
    atomic_store_explicit(&markers_state, state, memory_order_release);
    return state == WORKING;
}

/* Returns the queue of a stream; NULL: all are taken. Queues are claimed in order and kept. */
static struct nccl_shim_queue *queue_of(void *stream)
{
    const uintptr_t key = (uintptr_t)stream + 1;

    for (size_t i = 0; i < QUEUES; i++) {
        uintptr_t present = atomic_load_explicit(&queues[i].key, memory_order_acquire);

        if (present == 0 && atomic_compare_exchange_strong(&queues[i].key, &present, key))
            return &queues[i];
        if (present == key)
            return &queues[i];
    }
    return NULL;
}

static int reserve_marker(struct nccl_shim_queue *queue, uint32_t *number_out)
{
    uint32_t number = atomic_load(&queue->head);

    do {
        if (number - atomic_load_explicit(&queue->tail, memory_order_acquire) >= MARKERS)
            return -ENOSPC;
    } while (!atomic_compare_exchange_weak(&queue->head, &number, number + 1));
    *number_out = number;
    return 0;
}

/* A collective that is being bracketed; it is not if the queue is NULL. */
struct bracket {
    struct nccl_shim_queue *queue;
    void *stream;
    uint32_t number;
};

static struct bracket begin_bracket(void *stream, const struct lull_event *event)
{
    struct bracket bracket = {.stream = stream};
    struct nccl_shim_queue *queue;
    struct marker *marker;
    int capture = 0;

    if (!(lull_event_segment_asked(lull_client.job, lull_client.slot) & LULL_ASK_TIMES) ||
        !are_markers_ready())
        return bracket;
    if (cuda.is_capturing(stream, &capture) != CUDA_SUCCESS || capture != 0)
        return bracket;
    queue = queue_of(stream);
    if (queue == NULL || reserve_marker(queue, &bracket.number) < 0)
        return bracket;
    marker = &queue->markers[bracket.number % MARKERS];
    marker->event = *event;
    marker->event.thread = atomic_fetch_add_explicit(&next_order, 1, memory_order_relaxed);
    if (cuda.write(stream, address_of(&nccl_shim_words_of(queue, bracket.number)->begin),
                   bracket.number + 1, 0) != CUDA_SUCCESS) {
        atomic_store(&markers_state, FAILED);
        atomic_store_explicit(&marker->state, BROKEN, memory_order_release);
        return bracket;
    }
    atomic_store_explicit(&marker->state, READY, memory_order_release);
    bracket.queue = queue;
    return bracket;
}

static void end_bracket(const struct bracket *bracket)
{
    if (bracket->queue == NULL)
        return;
    if (cuda.write(bracket->stream,
                   address_of(&nccl_shim_words_of(bracket->queue, bracket->number)->end),
                   bracket->number + 1, 0) == CUDA_SUCCESS)
        return;
    atomic_store(&markers_state, FAILED);
    atomic_store(&bracket->queue->markers[bracket->number % MARKERS].is_cut, 1);
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
static struct bracket nccl_shim_begin_call(enum lull_operation operation, uint64_t bytes, int peer,
                                           ncclComm_t comm, void *stream)
{
    struct lull_event event = {.bytes = bytes,
                               .communicator = LULL_EVENT_NO_COMMUNICATOR,
                               .peer = peer,
                               .kind = LULL_EVENT_ENQUEUE,
                               .operation = (uint16_t)operation};
    const struct nccl_shim_communicator *entry;

    if (!lull_client_is_on() && !lull_client_join())
        return (struct bracket){0};
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
        return (struct bracket){0};
    if (group.depth == 0)
        return begin_bracket(stream, &event);
    add_to_group(stream, &event);
    return (struct bracket){0};
}

/* ---- the wrappers ---- */

#define BUFFERS const void *send, void *receive, size_t count, int datatype
#define PLACE ncclComm_t comm, cudaStream_t stream

#define WRAP(name, operation, peer, parameters, arguments)                                         \
    EXPORT int nccl##name parameters;                                                              \
    NEXT(name)                                                                                     \
    EXPORT int nccl##name parameters                                                               \
    {                                                                                              \
        struct bracket bracket;                                                                    \
        int result;                                                                                \
                                                                                                   \
        if (next_##name() == NULL)                                                                 \
            return NCCL_INTERNAL_ERROR;                                                            \
        bracket = nccl_shim_begin_call(LULL_OPERATION_##operation,                                 \
                                       nccl_shim_bytes_of(count, datatype), peer, comm, stream);   \
        result = next_##name() arguments;                                                          \
        end_bracket(&bracket);                                                                     \
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
    struct bracket brackets[GROUP_STREAMS];
    const uint32_t count = group.depth == 1 ? group.count : 0;
    int result;

    if (next_GroupEnd() == NULL)
        return NCCL_INTERNAL_ERROR;
    for (uint32_t i = 0; i < count; i++)
        brackets[i] = begin_bracket(group.streams[i].stream, &group.streams[i].event);
    result = next_GroupEnd()();
    for (uint32_t i = 0; i < count; i++)
        end_bracket(&brackets[i]);
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
