/*
 * The seven tables for which NCCL looks, the newest first. Each turns the descriptors of its
 * version into struct lull_nccl_event; everything else is in nccl_profiler.c.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/nccl_names.h"
#include "probe/nccl_profiler.h"

#define EXPORT __attribute__((visibility("default")))

static uint64_t profiler_api_bytes_of(size_t count, const char *datatype)
{
    return (uint64_t)count * lull_nccl_element_bytes(datatype);
}

static void set_what(struct lull_nccl_event *event, enum lull_operation operation, uint64_t bytes,
                     int peer)
{
    event->operation = (uint16_t)operation;
    event->bytes = bytes;
    event->peer = peer < 0 ? -1 : peer;
}

static void set_collective(struct lull_nccl_event *event, enum lull_operation operation,
                           uint64_t bytes, int root)
{
    set_what(event, operation, bytes, lull_nccl_is_rooted(operation) ? root : -1);
}

/* ---- version 1: numbers instead of names ---- */

static void read_v1(struct lull_nccl_event *event, const struct lull_nccl_descriptor_v1 *from)
{
    event->type = from->type;
    event->parent = from->parent;
    if (event->type == LULL_NCCL_COLL)
        set_collective(event, lull_nccl_operation_v1(from->coll.function),
                       from->coll.count * lull_nccl_element_bytes_v1(from->coll.datatype),
                       from->coll.root);
    else if (event->type == LULL_NCCL_P2P)
        set_what(event, lull_nccl_operation_v1(from->p2p.function),
                 from->p2p.count * lull_nccl_element_bytes_v1(from->p2p.datatype), from->p2p.peer);
    else if (event->type == LULL_NCCL_PROXY_OP)
        event->pid = from->proxy_op.pid;
}

/* ---- versions 2 to 7: names; the members that they share lie at different places ---- */

#define READ_TASKS(event, from)                                                                    \
    do {                                                                                           \
        (event)->type = (from)->type;                                                              \
        (event)->parent = (from)->parent;                                                          \
        if ((event)->type == LULL_NCCL_COLL)                                                       \
            set_collective(event, lull_nccl_operation((from)->coll.function),                      \
                           profiler_api_bytes_of((from)->coll.count, (from)->coll.datatype),       \
                           (from)->coll.root);                                                     \
        else if ((event)->type == LULL_NCCL_P2P)                                                   \
            set_what(event, lull_nccl_operation((from)->p2p.function),                             \
                     profiler_api_bytes_of((from)->p2p.count, (from)->p2p.datatype),               \
                     (from)->p2p.peer);                                                            \
        else if ((event)->type == LULL_NCCL_PROXY_OP)                                              \
            (event)->pid = (from)->proxy_op.pid;                                                   \
    } while (0)

/* Version 3 adds kernels, without a time of the GPU. */
static void read_v2(struct lull_nccl_event *event, const struct lull_nccl_descriptor_v2 *from)
{
    READ_TASKS(event, from);
    if (event->type == LULL_NCCL_KERNEL_CH)
        event->channel = from->kernel_ch.channel;
}

/* Version 4 adds times of the GPU, and the number of channels, which later versions of NCCL leave
 * out for Sends and Receives. */
static void read_v4(struct lull_nccl_event *event, const struct lull_nccl_descriptor_v4 *from)
{
    READ_TASKS(event, from);
    if (event->type == LULL_NCCL_COLL) {
        event->channels = from->coll.channels;
    } else if (event->type == LULL_NCCL_KERNEL_CH) {
        event->channel = from->kernel_ch.channel;
        event->gpu_ns = from->kernel_ch.gpu_ns;
    }
}

/* Versions 5, 6 and 7 add calls. */
static void read_v5(struct lull_nccl_event *event, const struct lull_nccl_descriptor_v5 *from)
{
    READ_TASKS(event, from);
    switch (event->type) {
    case LULL_NCCL_COLL_API:
        set_collective(event, lull_nccl_operation(from->coll_api.function),
                       profiler_api_bytes_of(from->coll_api.count, from->coll_api.datatype),
                       from->coll_api.root);
        event->is_captured = from->coll_api.is_captured;
        break;
    case LULL_NCCL_P2P_API: /* it does not contain the peer */
        set_what(event, lull_nccl_operation(from->p2p_api.function),
                 profiler_api_bytes_of(from->p2p_api.count, from->p2p_api.datatype), -1);
        event->is_captured = from->p2p_api.is_captured;
        break;
    case LULL_NCCL_COLL:
        event->channels = from->coll.channels;
        break;
    case LULL_NCCL_P2P:
        event->channels = from->p2p.channels;
        break;
    case LULL_NCCL_KERNEL_CH:
        event->channel = from->kernel_ch.channel;
        event->gpu_ns = from->kernel_ch.gpu_ns;
        break;
    case LULL_NCCL_GROUP_API:
        event->is_captured = from->group_api.is_captured;
        break;
    default:
        break;
    }
}

/* ---- the tables ---- */

/* Takes a state with the time of LULL_NCCL_KERNEL_CH_STOP, which there is from version 4 on. */
static int profiler_api_record(void *handle, int state, void *arguments)
{
    const union lull_nccl_arguments *reported = arguments;

    return lull_nccl_record(handle, state, arguments,
                            state == LULL_NCCL_KERNEL_CH_STOP && reported != NULL ? reported->gpu_ns
                                                                                  : 0);
}

static int record_untimed(void *handle, int state, void *arguments)
{
    return lull_nccl_record(handle, state, arguments, 0);
}

#define START(n, layout)                                                                           \
    static int start_v##n(void *context, void **handle, void *descriptor)                          \
    {                                                                                              \
        struct lull_nccl_event event = {.peer = -1};                                               \
                                                                                                   \
        if (descriptor != NULL)                                                                    \
            read_v##layout(&event, descriptor);                                                    \
        return lull_nccl_start(context, handle, descriptor, &event);                               \
    }

/* Begins a communicator; caller is an address within libnccl, for versions that lend no logger. */
static int profiler_api_init(uint32_t version, const struct lull_nccl_profiler *table,
                             void **context, int *mask, const char *name, uint64_t id, int nodes,
                             int ranks, int rank, lull_nccl_logger logger, const void *caller)
{
    const struct lull_nccl_identity identity = {
        .version = version,
        .table = table,
        .name = name,
        .id = id,
        .nodes = nodes,
        .ranks = ranks,
        .rank = rank,
        .logger = logger,
        .caller = logger != NULL ? (const void *)(uintptr_t)logger : caller,
    };

    return lull_nccl_init(&identity, context, mask);
}

#define DECLARE(n) extern EXPORT const struct lull_nccl_profiler ncclProfiler_v##n;

#define INIT_V1(n)                                                                                 \
    DECLARE(n)                                                                                     \
    static int init_v##n(void **context, int *mask)                                                \
    {                                                                                              \
        return profiler_api_init(n, &ncclProfiler_v##n, context, mask, NULL, 0, 0, 0, -1, NULL,    \
                                 __builtin_return_address(0));                                     \
    }

#define INIT_V5(n)                                                                                 \
    DECLARE(n)                                                                                     \
    static int init_v##n(void **context, uint64_t id, int *mask, const char *name, int nodes,      \
                         int ranks, int rank, lull_nccl_logger logger)                             \
    {                                                                                              \
        return profiler_api_init(n, &ncclProfiler_v##n, context, mask, name, id, nodes, ranks,     \
                                 rank, logger, __builtin_return_address(0));                       \
    }

#define TABLE(n, record_function)                                                                  \
    const struct lull_nccl_profiler ncclProfiler_v##n = {                                          \
        .name = "lull",                                                                            \
        .init = (void (*)(void))init_v##n,                                                         \
        .start = start_v##n,                                                                       \
        .stop = lull_nccl_stop,                                                                    \
        .record = record_function,                                                                 \
        .finalize = lull_nccl_finalize,                                                            \
    };

DECLARE(4)
static int init_v4(void **context, int *mask, const char *name, uint64_t id, int nodes, int ranks,
                   int rank, lull_nccl_logger logger)
{
    return profiler_api_init(4, &ncclProfiler_v4, context, mask, name, id, nodes, ranks, rank,
                             logger, __builtin_return_address(0));
}

INIT_V1(1)
INIT_V1(2)
INIT_V1(3)
INIT_V5(5)
INIT_V5(6)
INIT_V5(7)

START(1, 1)
START(2, 2)
START(3, 2)
START(4, 4)
START(5, 5)
START(6, 5)
START(7, 5)

TABLE(1, record_untimed)
TABLE(2, record_untimed)
TABLE(3, record_untimed)
TABLE(4, profiler_api_record)
TABLE(5, profiler_api_record)
TABLE(6, profiler_api_record)
TABLE(7, profiler_api_record)
