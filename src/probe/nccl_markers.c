/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/nccl_markers.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/thread.h"
#include "probe/client.h"

#define POLL_NS (20 * LULL_NS_PER_US) /* while markers are outstanding; all of these are chosen */
#define POLL_LONG_NS (200 * LULL_NS_PER_US) /* after QUIET_NS without a marker that has changed */
#define QUIET_NS (20 * LULL_NS_PER_MS)
#define IDLE_NS (2 * LULL_NS_PER_MS) /* while no markers are outstanding */

enum {
    QUEUES = 16,   /* the most streams with markers */
    MARKERS = 512, /* the most that are outstanding per stream; a power of two */
};

enum {
    CUDA_SUCCESS = 0,
    HOST_REGISTER_PORTABLE = 1,
    HOST_REGISTER_DEVICE_MAP = 2,
    CAPTURE_MODE_RELAXED = 2,
};

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
struct lull_nccl_queue {
    _Atomic uintptr_t key; /* the stream plus one; 0: free */
    _Atomic uint32_t head; /* position at which application threads reserve */
    _Atomic uint32_t tail; /* position at which the watcher frees */
    struct marker markers[MARKERS];
};

enum { NOT_TRIED, TRYING, WORKING, FAILED };

static struct lull_nccl_queue queues[QUEUES];
static struct words *words; /* QUEUES times MARKERS */
static uint64_t words_address;
static _Atomic int markers_state;
static _Atomic uint32_t next_order; /* the order in which calls are enqueued, over all queues */

static struct words *nccl_markers_words_of(const struct lull_nccl_queue *queue, uint32_t number)
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
static int nccl_markers_poll_queue(struct lull_nccl_queue *queue)
{
    const uint32_t number = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    struct marker *marker = &queue->markers[number % MARKERS];
    struct words *word = nccl_markers_words_of(queue, number);
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

static int nccl_markers_poll_all(int *is_outstanding_out)
{
    int has_update = 0;

    *is_outstanding_out = 0;
    for (size_t i = 0; i < QUEUES; i++) {
        if (atomic_load_explicit(&queues[i].key, memory_order_acquire) == 0)
            break; /* queues are claimed in order, so the rest is free */
        while (nccl_markers_poll_queue(&queues[i]))
            has_update = 1;
        if (atomic_load(&queues[i].head) != atomic_load(&queues[i].tail))
            *is_outstanding_out = 1;
    }
    return has_update;
}

static void *nccl_markers_thread(void *unused)
{
    int64_t update_ns = lull_now_ns();

    (void)unused;
    prctl(PR_SET_TIMERSLACK, 1000UL); /* in ns; the default would add 50 us to every sleep */
    for (;;) {
        int is_outstanding;
        const int has_update = nccl_markers_poll_all(&is_outstanding);
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
    const int result = lull_thread_start(&thread, nccl_markers_thread, NULL);

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
static void nccl_markers_stop_in_child(void)
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
                    pthread_atfork(NULL, NULL, nccl_markers_stop_in_child) == 0 &&
                    start_watcher() == 0
                ? WORKING
                : FAILED;
    atomic_store_explicit(&markers_state, state, memory_order_release);
    return state == WORKING;
}

/* Returns the queue of a stream; NULL: all are taken. Queues are claimed in order and kept. */
static struct lull_nccl_queue *queue_of(void *stream)
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

static int reserve_marker(struct lull_nccl_queue *queue, uint32_t *number_out)
{
    uint32_t number = atomic_load(&queue->head);

    do {
        if (number - atomic_load_explicit(&queue->tail, memory_order_acquire) >= MARKERS)
            return -ENOSPC;
    } while (!atomic_compare_exchange_weak(&queue->head, &number, number + 1));
    *number_out = number;
    return 0;
}

struct lull_nccl_bracket lull_nccl_bracket_begin(void *stream, const struct lull_event *event)
{
    struct lull_nccl_bracket bracket = {.stream = stream};
    struct lull_nccl_queue *queue;
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
    if (cuda.write(stream, address_of(&nccl_markers_words_of(queue, bracket.number)->begin),
                   bracket.number + 1, 0) != CUDA_SUCCESS) {
        atomic_store(&markers_state, FAILED);
        atomic_store_explicit(&marker->state, BROKEN, memory_order_release);
        return bracket;
    }
    atomic_store_explicit(&marker->state, READY, memory_order_release);
    bracket.queue = queue;
    return bracket;
}

void lull_nccl_bracket_end(const struct lull_nccl_bracket *bracket)
{
    if (bracket->queue == NULL)
        return;
    if (cuda.write(bracket->stream,
                   address_of(&nccl_markers_words_of(bracket->queue, bracket->number)->end),
                   bracket->number + 1, 0) == CUDA_SUCCESS)
        return;
    atomic_store(&markers_state, FAILED);
    atomic_store(&bracket->queue->markers[bracket->number % MARKERS].is_cut, 1);
}
