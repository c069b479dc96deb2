/*
 * A profiler plugin that is chained after Lull's. It checks that every callback has its own context
 * and its own handles as parents, and that each stop comes once. Its observations are in
 * chained_state. SPDX-License-Identifier: Apache-2.0
 */
#include "nccl_chained.h"

#include <stdlib.h>

#define MAGIC UINT64_C(0x1122334455667788)

struct chained_event {
    uint64_t magic;
    int stops;
};

struct chained_state chained_state;

static struct chained_event *check_event(void *handle)
{
    struct chained_event *event = handle;

    if (((uintptr_t)handle & 7) == 0 && event->magic == MAGIC)
        return event;
    chained_state.errors++;
    return NULL;
}

static void check_parent(void *parent)
{
    if (parent != NULL && check_event(parent) != NULL)
        chained_state.parents++;
}

static int init(void **context, int *mask)
{
    const char *wanted = getenv("CHAINED_MASK");

    chained_state.inits++;
    *mask = wanted == NULL ? 0 : atoi(wanted);
    *context = &chained_state;
    return 0;
}

static int init_v4(void **context, int *mask, const char *name, uint64_t id, int nodes, int ranks,
                   int rank, void *logger)
{
    (void)name;
    (void)id;
    (void)nodes;
    (void)ranks;
    (void)rank;
    (void)logger;
    return init(context, mask);
}

static int init_v5(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks,
                   int rank, void *logger)
{
    return init_v4(context, mask, name, id, nodes, ranks, rank, logger);
}

static int start(void *context, void **handle, uint64_t type, char *descriptor)
{
    struct chained_event *event = calloc(1, sizeof(*event));

    if (context != &chained_state || event == NULL)
        chained_state.errors++;
    check_parent(*(void **)(void *)(descriptor + 8));
    chained_state.types |= type;
    chained_state.starts++;
    event->magic = MAGIC;
    *handle = event;
    return 0;
}

static int start_narrow(void *context, void **handle, void *descriptor)
{
    return start(context, handle, *(uint8_t *)descriptor, descriptor);
}

static int start_wide(void *context, void **handle, void *descriptor)
{
    const uint64_t type = *(uint64_t *)descriptor;

    if (type == 1 << 1) /* Coll: its group */
        check_parent(*(void **)(void *)((char *)descriptor + 104));
    if (type == 1 << 2) /* P2p */
        check_parent(*(void **)(void *)((char *)descriptor + 64));
    return start(context, handle, type, descriptor);
}

static int stop(void *handle)
{
    struct chained_event *event = check_event(handle);

    chained_state.stops++;
    if (event != NULL && event->stops++ > 0)
        chained_state.errors++;
    return 0;
}

static int record(void *handle, int state, void *arguments)
{
    struct chained_event *event = check_event(handle);

    (void)state;
    (void)arguments;
    chained_state.records++;
    if (event != NULL && event->stops > 0)
        chained_state.errors++;
    return 0;
}

static int finalize(void *context)
{
    if (context != &chained_state)
        chained_state.errors++;
    chained_state.finalizes++;
    return 0;
}

struct table {
    const char *name;
    void (*init)(void);
    int (*start)(void *context, void **handle, void *descriptor);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, void *arguments);
    int (*finalize)(void *context);
};

#define TABLE(n, init_function, start_function)                                                    \
    extern const struct table ncclProfiler_v##n;                                                   \
    const struct table ncclProfiler_v##n = {                                                       \
        "chained", (void (*)(void))init_function, start_function, stop, record, finalize};

TABLE(1, init, start_narrow)
TABLE(2, init, start_narrow)
TABLE(3, init, start_narrow)
TABLE(4, init_v4, start_narrow)
TABLE(5, init_v5, start_wide)
TABLE(6, init_v5, start_wide)
TABLE(7, init_v5, start_wide)
