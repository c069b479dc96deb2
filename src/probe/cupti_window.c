/*
 * On request, the CUPTI window reports to the governor when compute kernels ran, so that exposed
 * communication can be distinguished from overlapped communication. The CUDA driver loads it
 * (CUDA_INJECTION64_PATH).
 *
 * One thread of low priority reports on which devices the process has contexts. It looks every 20
 * ms whether LULL_ASK_COMPUTE is set, and only then subscribes to CUPTI. CUPTI allows one
 * subscriber. If another library has subscribed first, the window reports this once (COMPLETE with
 * -errno) and stays inactive permanently. Nothing here runs on a thread of the application, except
 * handing CUPTI one of a few buffers that are reserved at the beginning.
 *
 * CUPTI delivers records late, and those of different streams out of order. The time up to which
 * the window calls its runs complete therefore lags behind the newest record by twice the longest
 * kernel seen, and by SLACK_NS at least: a kernel that begins before that time has then been
 * delivered, unless it is longer than any before it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "probe/client.h"
#include "probe/compute_runs.h"
#include "probe/cupti_abi.h"
#include "probe/own_gpu.h"

#define EXPORT __attribute__((visibility("default")))

#define LOOK_EVERY_NS (20 * LULL_NS_PER_MS)
#define FLUSH_EVERY_NS (60 * LULL_NS_PER_MS)
#define SLACK_NS (20 * LULL_NS_PER_MS)

/* Intervals at which the thread looks for contexts: until there is one, and then for others. */
#define CONTEXTS_SOON_NS (100 * LULL_NS_PER_MS)
#define CONTEXTS_LATER_NS (2 * LULL_NS_PER_S)

enum {
    BUFFERS = 4,
    BUFFER_BYTES = 1 << 20,
    CLOCK_PAIRS = 16,
    LOWEST_PRIORITY = 19,
};

/* The functions of CUPTI: member, symbol by which it is found, parameters. All return a code. */
#define CUPTI_FUNCTIONS(FUNCTION)                                                                  \
    FUNCTION(get_version, "cuptiGetVersion", (uint32_t * version))                                 \
    FUNCTION(get_timestamp, "cuptiGetTimestamp", (uint64_t * timestamp))                           \
    FUNCTION(subscribe, "cuptiSubscribe",                                                          \
             (void **subscriber, cupti_callback callback, void *user_data))                        \
    FUNCTION(unsubscribe, "cuptiUnsubscribe", (void *subscriber))                                  \
    FUNCTION(register_callbacks, "cuptiActivityRegisterCallbacks",                                 \
             (cupti_buffer_request request, cupti_buffer_complete complete))                       \
    FUNCTION(enable, "cuptiActivityEnable", (int kind))                                            \
    FUNCTION(disable, "cuptiActivityDisable", (int kind))                                          \
    FUNCTION(flush_all, "cuptiActivityFlushAll", (uint32_t flag))                                  \
    FUNCTION(get_next_record, "cuptiActivityGetNextRecord",                                        \
             (uint8_t * buffer, size_t valid_size, void **record))                                 \
    FUNCTION(get_dropped, "cuptiActivityGetNumDroppedRecords",                                     \
             (void *context, uint32_t stream, size_t *dropped))

#define MEMBER(member, symbol, parameters) int(*member) parameters;
#define ROW(member, symbol, parameters) {(void **)&cupti.member, symbol},

static struct {
    CUPTI_FUNCTIONS(MEMBER)
} cupti;

static const struct {
    void **function;
    const char *name;
} functions[] = {CUPTI_FUNCTIONS(ROW)};

/* A process has one CUPTI, hence one window. */
static struct {
    void *subscriber;
    uint8_t *buffers; /* BUFFERS times BUFFER_BYTES */
    _Atomic int in_use[BUFFERS];

    pthread_mutex_t
        mutex; /* guards the members below, because buffers arrive on CUPTI's thread or on ours */
    int64_t offset_ns;   /* CLOCK_MONOTONIC minus CUPTI's time */
    int64_t newest_ns;   /* when the newest kernel ended */
    int64_t longest_ns;  /* length of the longest kernel */
    int64_t reported_ns; /* time of the last COMPLETE */
    uint64_t dropped;    /* number of kernels that were lost since then */
    struct lull_compute_runs runs;
} window = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- telling ---- */

static void cupti_window_push(enum lull_event_kind kind, int64_t time_ns, uint64_t bytes,
                              int32_t peer)
{
    const struct lull_event event = {.time_ns = time_ns,
                                     .bytes = bytes,
                                     .communicator = LULL_EVENT_NO_COMMUNICATOR,
                                     .peer = peer,
                                     .kind = (uint16_t)kind};

    if (lull_client_is_on())
        lull_client_push(&event);
}

/* Reports all runs that began before a time, and that no more of them will follow. The mutex is
 * held. */
static void cupti_window_flush(int64_t before_ns)
{
    uint32_t count;

    if (before_ns <= window.reported_ns)
        return;
    count = lull_compute_runs_before(&window.runs, before_ns);
    for (uint32_t i = 0; i < count; i++) {
        const struct lull_compute_run *run = &window.runs.runs[i];

        if (lull_client_is_on() &&
            lull_event_segment_is_half_free(lull_client.job, lull_client.slot))
            cupti_window_push(LULL_EVENT_COMPUTE, run->begin_ns,
                              (uint64_t)(run->end_ns - run->begin_ns), -1);
        else
            window.dropped += run->kernels;
    }
    lull_compute_runs_forget(&window.runs, count);
    cupti_window_push(LULL_EVENT_COMPLETE, before_ns, window.dropped + window.runs.dropped, -1);
    window.reported_ns = before_ns;
    window.dropped = 0;
    window.runs.dropped = 0;
}

/* ---- buffers ---- */

static void give_buffer(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *buffer = NULL;
    *size = 0;
    *max_records = 0; /* 0: as many as fit */
    for (size_t i = 0; i < BUFFERS; i++) {
        int free_now = 0;

        if (atomic_compare_exchange_strong(&window.in_use[i], &free_now, 1)) {
            *buffer = window.buffers + i * BUFFER_BYTES;
            *size = BUFFER_BYTES;
            return;
        }
    }
}

static int is_communication(const char *name)
{
    return name != NULL && strcasestr(name, "nccl") != NULL;
}

static int64_t complete_until_ns(void)
{
    const int64_t lag_ns = 2 * window.longest_ns;

    return window.newest_ns - (lag_ns > SLACK_NS ? lag_ns : SLACK_NS);
}

/* Takes the record of one kernel. The mutex is held. */
static void cupti_window_take_kernel(const struct cupti_kernel *kernel)
{
    const int64_t begin_ns = (int64_t)kernel->start + window.offset_ns;
    const int64_t end_ns = (int64_t)kernel->end + window.offset_ns;

    if (kernel->start == 0 || kernel->end < kernel->start)
        return;
    if (end_ns > window.newest_ns)
        window.newest_ns = end_ns;
    if (is_communication(kernel->name))
        return;
    if (end_ns - begin_ns > window.longest_ns)
        window.longest_ns = end_ns - begin_ns;
    if (window.runs.count == LULL_COMPUTE_RUNS) /* report early instead of dropping the kernel */
        cupti_window_flush(complete_until_ns());
    lull_compute_runs_add(&window.runs, begin_ns, end_ns);
}

static void take_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                        size_t valid_size)
{
    const size_t index = (size_t)(buffer - window.buffers) / BUFFER_BYTES;
    void *record = NULL;
    size_t dropped = 0;

    (void)size;
    pthread_mutex_lock(&window.mutex);
    while (valid_size > 0 && cupti.get_next_record(buffer, valid_size, &record) == CUPTI_SUCCESS) {
        const struct cupti_kernel *kernel = record;

        if (kernel->kind == CUPTI_KIND_CONCURRENT_KERNEL || kernel->kind == CUPTI_KIND_KERNEL)
            cupti_window_take_kernel(kernel);
    }
    if (cupti.get_dropped(context, stream, &dropped) == CUPTI_SUCCESS)
        window.dropped += dropped;
    cupti_window_flush(complete_until_ns());
    pthread_mutex_unlock(&window.mutex);
    if (index < BUFFERS)
        atomic_store(&window.in_use[index], 0);
}

/* ---- opening and closing the window ---- */

static void ignore_callback(void *user_data, int domain, uint32_t id, const void *data)
{
    (void)user_data, (void)domain, (void)id, (void)data;
}

/* Opens CUPTI; the library that the program uses comes first, if it has loaded one. */
static void *cupti_window_open_library(void)
{
    static const char *const names[] = {"libcupti.so.12", "libcupti.so.13", "libcupti.so"};
    void *library = NULL;

    for (size_t i = 0; library == NULL && i < sizeof(names) / sizeof(names[0]); i++)
        library = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
    for (size_t i = 0; library == NULL && i < sizeof(names) / sizeof(names[0]); i++)
        library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
    return library;
}

static int cupti_window_find_functions(void)
{
    void *library = cupti_window_open_library();
    uint32_t version = 0;

    if (library == NULL)
        return -ENOENT;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        *functions[i].function = dlsym(library, functions[i].name);
        if (*functions[i].function == NULL)
            return -ENOSYS;
    }
    if (cupti.get_version(&version) != CUPTI_SUCCESS || version < CUPTI_OLDEST_VERSION)
        return -ENOTSUP;
    return 0;
}

static int reserve_buffers(void)
{
    void *memory = mmap(NULL, (size_t)BUFFERS * BUFFER_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return -errno;
    window.buffers = memory;
    return 0;
}

/* Aligns CUPTI's clock with ours by the reading between whose two host times the least time passed.
 */
static void align_clocks(void)
{
    int64_t best_ns = INT64_MAX;
    int64_t offset_ns = 0;

    for (int i = 0; i < CLOCK_PAIRS; i++) {
        const int64_t before_ns = lull_now_ns();
        uint64_t timestamp = 0;
        int64_t after_ns;

        if (cupti.get_timestamp(&timestamp) != CUPTI_SUCCESS)
            continue;
        after_ns = lull_now_ns();
        if (after_ns - before_ns < best_ns) {
            best_ns = after_ns - before_ns;
            offset_ns = before_ns + best_ns / 2 - (int64_t)timestamp;
        }
    }
    if (best_ns == INT64_MAX)
        return;
    pthread_mutex_lock(&window.mutex);
    window.offset_ns = offset_ns;
    pthread_mutex_unlock(&window.mutex);
}

static int cupti_window_error_of(int code)
{
    switch (code) {
    case CUPTI_SUCCESS:
        return 0;
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS:
        return -EBUSY;
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
        return -EPERM;
    default:
        return -EIO;
    }
}

static int open_window(void)
{
    int result = window.buffers == NULL ? cupti_window_find_functions() : 0;

    if (result >= 0 && window.buffers == NULL)
        result = reserve_buffers();
    if (result < 0)
        return result;
    result = cupti_window_error_of(cupti.subscribe(&window.subscriber, ignore_callback, NULL));
    if (result < 0)
        return result;
    align_clocks();
    result = cupti_window_error_of(cupti.register_callbacks(give_buffer, take_buffer));
    if (result >= 0)
        result = cupti_window_error_of(cupti.enable(CUPTI_KIND_CONCURRENT_KERNEL));
    if (result < 0)
        cupti.unsubscribe(window.subscriber);
    return result;
}

/* Kernels that run when the window closes are lost; those that began well before are complete. */
static void close_window(void)
{
    const int64_t end_ns = lull_now_ns();

    cupti.disable(CUPTI_KIND_CONCURRENT_KERNEL);
    cupti.flush_all(CUPTI_FLUSH_FORCED);
    cupti.unsubscribe(window.subscriber);
    pthread_mutex_lock(&window.mutex);
    cupti_window_flush(end_ns - window.longest_ns);
    window.runs.count = 0;
    pthread_mutex_unlock(&window.mutex);
}

/* ---- the thread ---- */

static int cupti_window_is_requested(void)
{
    return lull_client_is_on() &&
           (lull_event_segment_asked(lull_client.job, lull_client.slot) & LULL_ASK_COMPUTE) != 0;
}

/* Opens or closes the window as requested, and services an open one. Returns -errno once the window
 * is permanently inactive. */
static int tend_window(int64_t now_ns)
{
    static int64_t flushed_ns;
    static int is_open;

    if (cupti_window_is_requested() && !is_open) {
        const int result = open_window();

        if (result < 0)
            return result;
        is_open = 1;
    } else if (!cupti_window_is_requested() && is_open) {
        close_window();
        is_open = 0;
    } else if (is_open && now_ns - flushed_ns >= FLUSH_EVERY_NS) {
        align_clocks();
        cupti.flush_all(0);
        flushed_ns = now_ns;
    }
    return 0;
}

/* A process may open a context on another device at any time, so the look continues. */
static void cupti_window_find_contexts(int64_t now_ns)
{
    static int64_t next_ns;

    if (now_ns < next_ns)
        return;
    next_ns = now_ns + (lull_own_gpu_report_contexts() > 0 ? CONTEXTS_LATER_NS : CONTEXTS_SOON_NS);
}

static void *cupti_window_poll(void *unused)
{
    int result = 0;

    (void)unused;
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), LOWEST_PRIORITY);
    for (;;) {
        const int64_t now_ns = lull_now_ns();

        cupti_window_find_contexts(now_ns);
        if (result == 0) {
            result = tend_window(now_ns);
            if (result < 0)
                cupti_window_push(LULL_EVENT_COMPLETE, lull_now_ns(), 0, result);
        }
        lull_sleep_until_ns(now_ns + (result == 0 ? LOOK_EVERY_NS : CONTEXTS_SOON_NS));
    }
    return NULL;
}

static void start_thread(void)
{
    pthread_t thread;

    if (lull_thread_start(&thread, cupti_window_poll, NULL) < 0)
        return;
    pthread_setname_np(thread, "lull-cupti");
    pthread_detach(thread);
}

EXPORT int InitializeInjection(void);

/* The CUDA driver calls this in cuInit, where no CUDA call is allowed. 1 means success [from
 * memory]. */
EXPORT int InitializeInjection(void)
{
    static _Atomic int has_started;

    if (lull_client_join() && atomic_exchange(&has_started, 1) == 0)
        start_thread();
    return 1;
}
