/*
 * Event sets: XIDs and changes of partitions, which faults cause. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "emulator/nvml/nvml_library.h"

/* A wait polls this often for events, because other processes may cause them. */
#define LOOK_PERIOD_NS (10 * LULL_NS_PER_MS)

enum { KNOWN_EVENTS = 0x1f };

struct nvml_event_set {
    uint64_t types[LULL_NODE_MAX_GPUS]; /* 0: the GPU is not registered */
    uint32_t seen[LULL_NODE_MAX_GPUS];
    struct nvml_event_set *next;
};

/* The sets of the process, so that any other pointer is refused. */
static pthread_mutex_t sets_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvml_event_set *sets;

static struct nvml_event_set **nvml_event_find_set(const struct nvml_event_set *set)
{
    struct nvml_event_set **at = &sets;

    while (*at != NULL && *at != set)
        at = &(*at)->next;
    return at;
}

bool nvml_is_event_set(const void *set)
{
    bool is_known;

    pthread_mutex_lock(&sets_lock);
    is_known = set != NULL && *nvml_event_find_set(set) != NULL;
    pthread_mutex_unlock(&sets_lock);
    return is_known;
}

NVML_EXPORT(nvmlEventSetCreate, struct nvml_event_set **set_out)
{
    struct nvml_event_set *set;

    LULL_DRIVER_CHECK(nvml_ready());
    if (set_out == NULL)
        return NVML_INVALID_ARGUMENT;
    set = calloc(1, sizeof(*set));
    if (set == NULL)
        return NVML_MEMORY;
    pthread_mutex_lock(&sets_lock);
    set->next = sets;
    sets = set;
    pthread_mutex_unlock(&sets_lock);
    *set_out = set;
    return NVML_SUCCESS;
}

NVML_EXPORT(nvmlEventSetFree, struct nvml_event_set *set)
{
    struct nvml_event_set **at;
    struct nvml_event_set *found;

    LULL_DRIVER_CHECK(nvml_ready());
    pthread_mutex_lock(&sets_lock);
    at = nvml_event_find_set(set);
    found = *at;
    if (found != NULL)
        *at = found->next;
    pthread_mutex_unlock(&sets_lock);
    if (found == NULL)
        return NVML_INVALID_ARGUMENT;
    free(found);
    return NVML_SUCCESS;
}

static unsigned long long supported_types(const struct lull_nvml_gpu *gpu)
{
    if (nvml_has_partitions(gpu))
        return KNOWN_EVENTS | NVML_EVENT_MIG;
    return KNOWN_EVENTS;
}

NVML_GET_FACT(nvmlDeviceGetSupportedEventTypes, unsigned long long, supported_types(gpu))

NVML_EXPORT(nvmlDeviceRegisterEvents, nvmlDevice_t device, unsigned long long types,
            struct nvml_event_set *set)
{
    int code = NVML_INVALID_ARGUMENT;

    NVML_ENTER(nvml_enter(device, set, &gpu));
    if ((types & ~supported_types(gpu)) != 0)
        return NVML_NOT_SUPPORTED;
    pthread_mutex_lock(&sets_lock);
    if (*nvml_event_find_set(set) != NULL) {
        if (set->types[gpu->position] == 0)
            set->seen[gpu->position] = lull_node_event_count(gpu->node, gpu->index);
        set->types[gpu->position] |= types;
        code = NVML_SUCCESS;
    }
    pthread_mutex_unlock(&sets_lock);
    return code;
}

static uint64_t nvml_event_type_of(const struct lull_node_event *event)
{
    if (event->kind == LULL_NODE_EVENT_XID)
        return NVML_EVENT_XID;
    return NVML_EVENT_MIG;
}

/* Takes the next event of a GPU that the set wants. */
static bool nvml_event_take(struct nvml_event_set *set, nvmlDevice_t gpu,
                            struct nvml_event *event_out)
{
    struct lull_node_event event;

    while (lull_node_next_event(gpu->node, gpu->index, &set->seen[gpu->position], &event)) {
        if ((set->types[gpu->position] & nvml_event_type_of(&event)) == 0)
            continue;
        *event_out = (struct nvml_event){.device = gpu,
                                         .type = nvml_event_type_of(&event),
                                         .data = event.data,
                                         .gpu_instance = UINT32_MAX,
                                         .compute_instance = UINT32_MAX};
        return true;
    }
    return false;
}

/* Checks every registered GPU. An event of a GPU that is lost comes before the loss. */
static int nvml_event_poll(struct nvml_event_set *set, struct nvml_event *event_out)
{
    int code = NVML_TIMEOUT;

    if (*nvml_event_find_set(set) == NULL)
        return NVML_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < nvml_gpu_count(); i++) {
        const nvmlDevice_t gpu = nvml_gpu_at(i);
        int visit;

        if (set->types[i] == 0)
            continue;
        visit = nvml_visit(gpu);
        if (nvml_event_take(set, gpu, event_out))
            return NVML_SUCCESS;
        if (visit != NVML_SUCCESS)
            code = visit;
    }
    return code;
}

NVML_EXPORT(nvmlEventSetWait_v2, struct nvml_event_set *set, struct nvml_event *event_out,
            unsigned timeout_ms)
{
    const int64_t until_ns = lull_now_ns() + timeout_ms * LULL_NS_PER_MS;

    LULL_DRIVER_CHECK(nvml_ready());
    if (event_out == NULL)
        return NVML_INVALID_ARGUMENT;
    for (;;) {
        int code;

        LULL_DRIVER_CHECK(nvml_ready());
        pthread_mutex_lock(&sets_lock);
        code = nvml_event_poll(set, event_out);
        pthread_mutex_unlock(&sets_lock);
        if (code != NVML_TIMEOUT || lull_now_ns() >= until_ns)
            return code;
        lull_sleep_until_ns(lull_earlier_ns(until_ns, lull_now_ns() + LOOK_PERIOD_NS));
    }
}

NVML_ALIAS(nvmlEventSetWait, nvmlEventSetWait_v2);
