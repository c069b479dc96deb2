/*
 * The emulated libcupti.so.12 has CUPTI's kernel activity records and nothing else.
 *
 * The player reports each kernel that has ended (lull_emulated_kernel); the records reach the
 * client in buffers that it provides, late, from a thread of this library or from a flush. Only one
 * subscriber is accepted, as before CUPTI 13. Signatures, result codes, and sizes and offsets of
 * kernel records were checked against the public headers of CUDA 13.0 (record versions 3 to 10);
 * which CUPTI version delivers which record is from memory.
 *
 * LULL_EMULATED_CUPTI_VERSION (26) is the result of cuptiGetVersion, and so determines the size of
 * the records. LULL_EMULATED_CUPTI_DELAY_MS (200) is how late records are delivered. Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "emulator/stream.h"

enum {
    CUPTI_SUCCESS = 0,
    CUPTI_INVALID_PARAMETER = 1,
    CUPTI_MAX_LIMIT_REACHED = 12,
    CUPTI_INVALID_KIND = 21,
    CUPTI_MULTIPLE_SUBSCRIBERS = 39,
};

enum {
    KIND_KERNEL = 3,
    KIND_CONCURRENT_KERNEL = 10,
    KINDS = 64,
    RECORD_ALIGNMENT = 8,
    MAX_PENDING = 65536,
    MAX_NAMES = 4096,
};

#define CUPTI_EXPORT(name, ...)                                                                    \
    int name(__VA_ARGS__);                                                                         \
    int name(__VA_ARGS__)

struct kernel_record {
    uint32_t kind;
    uint8_t cache_config;
    uint8_t shared_memory_config;
    uint16_t registers;
    uint32_t cache_requested;
    uint32_t cache_executed;
    uint64_t start;
    uint64_t end;
    uint64_t completed;
    uint32_t device;
    uint32_t context;
    uint32_t stream;
    int32_t grid[3];
    int32_t block[3];
    int32_t static_shared;
    int32_t dynamic_shared;
    uint32_t local_per_thread;
    uint32_t local_total;
    uint32_t correlation;
    int64_t grid_id;
    const char *name;
    void *reserved;
};
_Static_assert(offsetof(struct kernel_record, start) == 16, "public layout");
_Static_assert(offsetof(struct kernel_record, stream) == 48, "public layout");
_Static_assert(offsetof(struct kernel_record, name) == 104, "public layout");

typedef void (*buffer_request)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*buffer_complete)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                                size_t valid_size);

/* The CUPTI of the process, of which there is one, as in reality. */
static struct {
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    bool is_subscribed;
    bool is_enabled[KINDS];
    bool has_thread;
    int64_t delay_ms;
    buffer_request request;
    buffer_complete complete;
    struct kernel_record *pending;
    uint32_t pending_count;
    size_t dropped;
    char *names[MAX_NAMES]; /* never freed, because records point to them */
    uint32_t name_count;

    pthread_mutex_t delivery; /* allows one delivery at a time; to be taken before mutex */
} cupti = {.mutex = PTHREAD_MUTEX_INITIALIZER,
           .changed = PTHREAD_COND_INITIALIZER,
           .delay_ms = -1,
           .delivery = PTHREAD_MUTEX_INITIALIZER};

static int64_t number_from(const char *variable, int64_t otherwise)
{
    const char *text = getenv(variable);

    if (text != NULL)
        lull_text_parse_int(text, 0, 1000000, &otherwise);
    return otherwise;
}

static uint32_t cupti_activity_version(void)
{
    return (uint32_t)number_from("LULL_EMULATED_CUPTI_VERSION", 26);
}

static size_t record_bytes(void)
{
    static const struct {
        uint32_t since;
        size_t bytes;
    } sizes[] = {{130300, 248}, {130000, 216}, {18, 208}, {17, 200},
                 {16, 176},     {14, 168},     {13, 160}, {0, 144}};
    size_t i = 0;

    while (cupti_activity_version() < sizes[i].since)
        i++;
    return sizes[i].bytes;
}

/* ---- delivery ---- */

/* Moves records into a buffer and returns how many bytes they take. The mutex is held. */
static size_t cupti_activity_fill(uint8_t *buffer, size_t size, size_t max_records)
{
    const size_t bytes = record_bytes();
    uint32_t count = 0;

    while (count < cupti.pending_count && (count + 1) * bytes <= size &&
           (max_records == 0 || count < max_records)) {
        memset(buffer + count * bytes, 0, bytes);
        memcpy(buffer + count * bytes, &cupti.pending[count], sizeof(struct kernel_record));
        count++;
    }
    cupti.pending_count -= count;
    memmove(cupti.pending, cupti.pending + count,
            cupti.pending_count * sizeof(struct kernel_record));
    return count * bytes;
}

/* Delivers one buffer. False: nothing is left, or the client has no buffer for it. The mutex is not
 * held while the client is called, since it may call CUPTI. */
static bool deliver_one(void)
{
    buffer_request request;
    buffer_complete complete;
    uint8_t *buffer = NULL;
    size_t size = 0;
    size_t max_records = 0;
    size_t used;

    pthread_mutex_lock(&cupti.mutex);
    request = cupti.pending_count > 0 ? cupti.request : NULL;
    complete = cupti.complete;
    pthread_mutex_unlock(&cupti.mutex);
    if (request == NULL)
        return false;
    request(&buffer, &size, &max_records);
    pthread_mutex_lock(&cupti.mutex);
    if (buffer == NULL) {
        cupti.dropped += cupti.pending_count;
        cupti.pending_count = 0;
    }
    used = buffer != NULL ? cupti_activity_fill(buffer, size, max_records) : 0;
    pthread_mutex_unlock(&cupti.mutex);
    if (buffer != NULL)
        complete(NULL, 0, buffer, size, used);
    return used > 0;
}

static void cupti_activity_deliver(void)
{
    pthread_mutex_lock(&cupti.delivery);
    while (deliver_one())
        continue;
    pthread_mutex_unlock(&cupti.delivery);
}

static void *deliver_late(void *unused)
{
    (void)unused;
    for (;;) {
        struct timespec until;

        pthread_mutex_lock(&cupti.mutex);
        while (cupti.pending_count == 0)
            pthread_cond_wait(&cupti.changed, &cupti.mutex);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += cupti.delay_ms / 1000;
        until.tv_nsec += cupti.delay_ms % 1000 * 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        while (cupti.pending_count > 0 &&
               pthread_cond_timedwait(&cupti.changed, &cupti.mutex, &until) == 0)
            continue;
        pthread_mutex_unlock(&cupti.mutex);
        cupti_activity_deliver();
    }
    return NULL;
}

/* ---- the player's side ---- */

/* Returns a copy of the name that is never freed. The mutex is held. */
static const char *cupti_activity_copy_name(const char *name)
{
    for (uint32_t i = 0; i < cupti.name_count; i++)
        if (strcmp(cupti.names[i], name) == 0)
            return cupti.names[i];
    if (cupti.name_count == MAX_NAMES || (cupti.names[cupti.name_count] = strdup(name)) == NULL)
        return "other";
    return cupti.names[cupti.name_count++];
}

void lull_emulated_kernel(const char *name, uint32_t stream, int64_t begin_gpu_ns,
                          int64_t end_gpu_ns);

void lull_emulated_kernel(const char *name, uint32_t stream, int64_t begin_gpu_ns,
                          int64_t end_gpu_ns)
{
    pthread_mutex_lock(&cupti.mutex);
    if (!cupti.is_enabled[KIND_CONCURRENT_KERNEL] && !cupti.is_enabled[KIND_KERNEL]) {
        pthread_mutex_unlock(&cupti.mutex);
        return;
    }
    if (cupti.pending == NULL)
        cupti.pending = malloc(MAX_PENDING * sizeof(*cupti.pending));
    if (cupti.pending == NULL || cupti.pending_count == MAX_PENDING)
        cupti.dropped++;
    else
        cupti.pending[cupti.pending_count++] =
            (struct kernel_record){.kind = KIND_CONCURRENT_KERNEL,
                                   .start = (uint64_t)begin_gpu_ns,
                                   .end = (uint64_t)end_gpu_ns,
                                   .completed = (uint64_t)end_gpu_ns,
                                   .context = 1,
                                   .stream = stream,
                                   .name = cupti_activity_copy_name(name)};
    if (cupti.pending_count == 1)
        pthread_cond_signal(&cupti.changed);
    pthread_mutex_unlock(&cupti.mutex);
}

/* ---- the client's side ---- */

CUPTI_EXPORT(cuptiGetVersion, uint32_t *version_out)
{
    if (version_out == NULL)
        return CUPTI_INVALID_PARAMETER;
    *version_out = cupti_activity_version();
    return CUPTI_SUCCESS;
}

CUPTI_EXPORT(cuptiGetResultString, int result, const char **text)
{
    if (text == NULL)
        return CUPTI_INVALID_PARAMETER;
    switch (result) {
    case CUPTI_SUCCESS:
        *text = "CUPTI_SUCCESS";
        return CUPTI_SUCCESS;
    case CUPTI_INVALID_PARAMETER:
        *text = "CUPTI_ERROR_INVALID_PARAMETER";
        return CUPTI_SUCCESS;
    case CUPTI_MAX_LIMIT_REACHED:
        *text = "CUPTI_ERROR_MAX_LIMIT_REACHED";
        return CUPTI_SUCCESS;
    case CUPTI_INVALID_KIND:
        *text = "CUPTI_ERROR_INVALID_KIND";
        return CUPTI_SUCCESS;
    case CUPTI_MULTIPLE_SUBSCRIBERS:
        *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
        return CUPTI_SUCCESS;
    default:
        return CUPTI_INVALID_PARAMETER;
    }
}

/* The time in real nanoseconds since 1970, as the player gives the times of its GPUs. */
CUPTI_EXPORT(cuptiGetTimestamp, uint64_t *timestamp)
{
    struct timespec now;

    if (timestamp == NULL)
        return CUPTI_INVALID_PARAMETER;
    clock_gettime(CLOCK_REALTIME, &now);
    *timestamp = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    return CUPTI_SUCCESS;
}

CUPTI_EXPORT(cuptiSubscribe, void **subscriber, void *callback, void *user_data)
{
    int code = CUPTI_MULTIPLE_SUBSCRIBERS;

    (void)callback;
    (void)user_data;
    if (subscriber == NULL)
        return CUPTI_INVALID_PARAMETER;
    pthread_mutex_lock(&cupti.mutex);
    if (!cupti.is_subscribed) {
        cupti.is_subscribed = true;
        *subscriber = &cupti;
        code = CUPTI_SUCCESS;
    }
    pthread_mutex_unlock(&cupti.mutex);
    return code;
}

CUPTI_EXPORT(cuptiSubscribe_v2, void **subscriber, void *callback, void *user_data,
             void *parameters)
{
    (void)parameters;
    return cuptiSubscribe(subscriber, callback, user_data);
}

CUPTI_EXPORT(cuptiUnsubscribe, void *subscriber)
{
    if (subscriber != &cupti)
        return CUPTI_INVALID_PARAMETER;
    pthread_mutex_lock(&cupti.mutex);
    cupti.is_subscribed = false;
    pthread_mutex_unlock(&cupti.mutex);
    return CUPTI_SUCCESS;
}

CUPTI_EXPORT(cuptiActivityRegisterCallbacks, buffer_request request, buffer_complete complete)
{
    if (request == NULL || complete == NULL)
        return CUPTI_INVALID_PARAMETER;
    pthread_mutex_lock(&cupti.mutex);
    cupti.request = request;
    cupti.complete = complete;
    pthread_mutex_unlock(&cupti.mutex);
    return CUPTI_SUCCESS;
}

static void start_thread_locked(void)
{
    pthread_t thread;

    if (cupti.delay_ms < 0)
        cupti.delay_ms = number_from("LULL_EMULATED_CUPTI_DELAY_MS", 200);
    if (cupti.has_thread || pthread_create(&thread, NULL, deliver_late, NULL) != 0)
        return;
    cupti.has_thread = true;
    pthread_detach(thread);
}

static int set_enabled(int kind, bool is_enabled)
{
    if (kind <= 0 || kind >= KINDS)
        return CUPTI_INVALID_KIND;
    pthread_mutex_lock(&cupti.mutex);
    cupti.is_enabled[kind] = is_enabled;
    if (is_enabled)
        start_thread_locked();
    pthread_mutex_unlock(&cupti.mutex);
    return CUPTI_SUCCESS;
}

CUPTI_EXPORT(cuptiActivityEnable, int kind)
{
    return set_enabled(kind, true);
}

CUPTI_EXPORT(cuptiActivityDisable, int kind)
{
    return set_enabled(kind, false);
}

CUPTI_EXPORT(cuptiActivityFlushAll, uint32_t flag)
{
    (void)flag;
    cupti_activity_deliver();
    return CUPTI_SUCCESS;
}

CUPTI_EXPORT(cuptiActivityFlushPeriod, uint32_t period_ms)
{
    pthread_mutex_lock(&cupti.mutex);
    cupti.delay_ms = period_ms;
    pthread_mutex_unlock(&cupti.mutex);
    return CUPTI_SUCCESS;
}

CUPTI_EXPORT(cuptiActivityGetNextRecord, uint8_t *buffer, size_t valid_size, void **record)
{
    const size_t bytes = record_bytes();
    uint8_t *next;

    if (buffer == NULL || record == NULL || (uintptr_t)buffer % RECORD_ALIGNMENT != 0)
        return CUPTI_INVALID_PARAMETER;
    next = *record == NULL ? buffer : (uint8_t *)*record + bytes;
    if (next + bytes > buffer + valid_size)
        return CUPTI_MAX_LIMIT_REACHED;
    *record = next;
    return CUPTI_SUCCESS;
}

CUPTI_EXPORT(cuptiActivityGetNumDroppedRecords, void *context, uint32_t stream, size_t *dropped)
{
    (void)context;
    (void)stream;
    if (dropped == NULL)
        return CUPTI_INVALID_PARAMETER;
    pthread_mutex_lock(&cupti.mutex);
    *dropped = cupti.dropped;
    cupti.dropped = 0;
    pthread_mutex_unlock(&cupti.mutex);
    return CUPTI_SUCCESS;
}
