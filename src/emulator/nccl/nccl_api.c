/*
 * The public functions of the emulated libnccl.so.2. As in NCCL, each ncclX is a weak alias of a
 * strong pncclX, so that a preloaded library can put itself in front.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/nccl/nccl_library.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"
#include "emulator/noise.h"

#define NCCL_EXPORT(type, name, ...)                                                               \
    type pnccl##name(__VA_ARGS__);                                                                 \
    extern type nccl##name(__VA_ARGS__) __attribute__((weak, alias("pnccl" #name)));               \
    type pnccl##name(__VA_ARGS__)

/* ---- the library ---- */

NCCL_EXPORT(int, GetVersion, int *version)
{
    if (version == NULL)
        return NCCL_INVALID_ARGUMENT;
    *version = nccl_version();
    return NCCL_SUCCESS;
}

NCCL_EXPORT(int, GetUniqueId, ncclUniqueId *id)
{
    if (id == NULL)
        return NCCL_INVALID_ARGUMENT;
    if (getrandom(id, sizeof(*id), 0) == (ssize_t)sizeof(*id))
        return NCCL_SUCCESS;
    return NCCL_SYSTEM_ERROR;
}

NCCL_EXPORT(const char *, GetErrorString, int result)
{
    static const char *const texts[NCCL_RESULTS] = {
        "no error",
        "unhandled cuda error",
        "unhandled system error",
        "internal error",
        "invalid argument",
        "invalid usage",
        "remote process exited or there was a network error",
        "NCCL operation in progress",
        "operation timed out"};

    return result >= 0 && result < NCCL_RESULTS ? texts[result] : "unknown result code";
}

/* ---- communicators ---- */

static uint64_t hash_id(const ncclUniqueId *id)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < sizeof(id->internal); i++)
        hash = lull_noise_mix(hash ^ (uint8_t)id->internal[i]);
    return hash;
}

static int ranks_per_node(int ranks)
{
    const char *text = getenv("LULL_EMULATED_NCCL_RANKS_PER_NODE");
    int64_t count = ranks;

    if (text != NULL)
        lull_text_parse_int(text, 1, 1024, &count);
    return (int)count;
}

static const char *nccl_api_name_in(const ncclConfig_t *config)
{
    const bool has_name = config != NULL && config->magic == NCCL_CONFIG_MAGIC &&
                          config->size >= sizeof(*config) && config->version >= 22703;

    if (has_name && nccl_version() >= 22703)
        return config->comm_name;
    return NULL;
}

static int new_comm(int ranks, int rank, uint64_t hash, const ncclConfig_t *config,
                    ncclComm_t *comm_out)
{
    const int per_node = ranks_per_node(ranks);
    struct lull_nccl_comm *comm;

    if (comm_out == NULL || ranks < 1 || rank < 0 || rank >= ranks)
        return NCCL_INVALID_ARGUMENT;
    comm = calloc(1, sizeof(*comm));
    if (comm == NULL)
        return NCCL_SYSTEM_ERROR;
    comm->references = 1;
    comm->rank = rank;
    comm->ranks = ranks;
    comm->nodes = (ranks + per_node - 1) / per_node;
    comm->device = rank % per_node;
    comm->hash = hash;
    comm->name = nccl_api_name_in(config);
    comm->posted_end = &comm->posted;
    pthread_mutex_init(&comm->mutex, NULL);
    pthread_cond_init(&comm->changed, NULL);
    *comm_out = comm;
    return nccl_group_init(comm);
}

NCCL_EXPORT(int, CommInitRankConfig, ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
            ncclConfig_t *config)
{
    return new_comm(ranks, rank, hash_id(&id), config, comm);
}

NCCL_EXPORT(int, CommInitRank, ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    return new_comm(ranks, rank, hash_id(&id), NULL, comm);
}

NCCL_EXPORT(int, CommInitRankScalable, ncclComm_t *comm, int ranks, int rank, int id_count,
            ncclUniqueId *ids, ncclConfig_t *config)
{
    if (id_count < 1 || ids == NULL)
        return NCCL_INVALID_ARGUMENT;
    return new_comm(ranks, rank, hash_id(&ids[0]), config, comm);
}

NCCL_EXPORT(int, CommInitAll, ncclComm_t *comms, int count, const int *devices)
{
    ncclUniqueId id;
    int result = pncclGetUniqueId(&id);
    int ended;

    nccl_group_begin();
    for (int i = 0; result == NCCL_SUCCESS && i < count; i++) {
        result = new_comm(count, i, hash_id(&id), NULL, &comms[i]);
        if (result == NCCL_SUCCESS && devices != NULL)
            comms[i]->device = devices[i];
    }
    ended = nccl_group_end(true);
    if (result != NCCL_SUCCESS)
        return result;
    return ended;
}

/* Ranks exchange no data here, so a child communicator is assumed to have its parent's ranks in
 * their order. */
NCCL_EXPORT(int, CommSplit, ncclComm_t comm, int color, int key, ncclComm_t *child,
            ncclConfig_t *config)
{
    (void)key;
    if (comm == NULL || child == NULL)
        return NCCL_INVALID_ARGUMENT;
    if (color == NCCL_SPLIT_NOCOLOR) {
        *child = NULL;
        return NCCL_SUCCESS;
    }
    return new_comm(comm->ranks, comm->rank,
                    lull_noise_mix(comm->hash ^ lull_noise_mix((uint64_t)color + 1)), config,
                    child);
}

NCCL_EXPORT(int, CommShrink, ncclComm_t comm, int *excluded, int excluded_count, ncclComm_t *child,
            ncclConfig_t *config, int flags)
{
    int below = 0;

    (void)flags;
    if (comm == NULL || excluded == NULL || excluded_count < 0)
        return NCCL_INVALID_ARGUMENT;
    for (int i = 0; i < excluded_count; i++)
        below += excluded[i] < comm->rank;
    return new_comm(comm->ranks - excluded_count, comm->rank - below, lull_noise_mix(comm->hash),
                    config, child);
}

NCCL_EXPORT(int, CommGrow, ncclComm_t comm, int ranks, const ncclUniqueId *id, int rank,
            ncclComm_t *child, ncclConfig_t *config)
{
    if (comm == NULL && (rank < 0 || id == NULL))
        return NCCL_INVALID_ARGUMENT;
    return new_comm(ranks, comm != NULL ? comm->rank : rank,
                    id != NULL ? hash_id(id) : lull_noise_mix(comm->hash + 1), config, child);
}

static int get_number(ncclComm_t comm, int value, int *value_out)
{
    if (comm == NULL || value_out == NULL)
        return NCCL_INVALID_ARGUMENT;
    *value_out = value;
    return NCCL_SUCCESS;
}

NCCL_EXPORT(int, CommCount, const ncclComm_t comm, int *count)
{
    return get_number(comm, comm != NULL ? comm->ranks : 0, count);
}

NCCL_EXPORT(int, CommUserRank, const ncclComm_t comm, int *rank)
{
    return get_number(comm, comm != NULL ? comm->rank : 0, rank);
}

NCCL_EXPORT(int, CommCuDevice, const ncclComm_t comm, int *device)
{
    return get_number(comm, comm != NULL ? comm->device : 0, device);
}

static int end_comm(ncclComm_t comm, bool is_abort)
{
    if (comm == NULL)
        return NCCL_SUCCESS;
    nccl_progress_stop(comm, is_abort);
    nccl_plugin_finalize(comm);
    nccl_comm_release(comm);
    return NCCL_SUCCESS;
}

NCCL_EXPORT(int, CommFinalize, ncclComm_t comm)
{
    if (comm != NULL)
        return NCCL_SUCCESS;
    return NCCL_INVALID_ARGUMENT;
}

NCCL_EXPORT(int, CommDestroy, ncclComm_t comm)
{
    return end_comm(comm, false);
}

NCCL_EXPORT(int, CommAbort, ncclComm_t comm)
{
    return end_comm(comm, true);
}

/* ---- groups ---- */

NCCL_EXPORT(int, GroupStart, void)
{
    return nccl_group_begin();
}

NCCL_EXPORT(int, GroupEnd, void)
{
    return nccl_group_end(true);
}

NCCL_EXPORT(int, GroupSimulateEnd, void *information)
{
    (void)information;
    return nccl_group_end(true);
}

/* ---- operations ---- */

#define BUFFERS const void *send, void *receive, size_t count, int datatype
#define PLACE ncclComm_t comm, cudaStream_t stream
#define IGNORED __attribute__((unused))

/* Defines an operation. The last argument lists its parameters; the arguments before it say how
 * they are passed on. */
#define OPERATION(name, what, from, to, how_many, type, rank, ...)                                 \
    NCCL_EXPORT(int, name, __VA_ARGS__)                                                            \
    {                                                                                              \
        return nccl_call(&(struct lull_nccl_call){.function = (what),                              \
                                                  .send = (from),                                  \
                                                  .receive = (to),                                 \
                                                  .count = (how_many),                             \
                                                  .datatype = (type),                              \
                                                  .peer = (rank),                                  \
                                                  .comm = comm,                                    \
                                                  .stream = stream});                              \
    }

OPERATION(AllReduce, NCCL_ALL_REDUCE, send, receive, count, datatype, -1, BUFFERS, IGNORED int op,
          PLACE)
OPERATION(Reduce, NCCL_REDUCE, send, receive, count, datatype, root, BUFFERS, IGNORED int op,
          int root, PLACE)
OPERATION(Broadcast, NCCL_BROADCAST, send, receive, count, datatype, root, BUFFERS, int root, PLACE)
OPERATION(Bcast, NCCL_BROADCAST, buffer, buffer, count, datatype, root, void *buffer, size_t count,
          int datatype, int root, PLACE)
OPERATION(AllGather, NCCL_ALL_GATHER, send, receive, count, datatype, -1, BUFFERS, PLACE)
OPERATION(ReduceScatter, NCCL_REDUCE_SCATTER, send, receive, count, datatype, -1, BUFFERS,
          IGNORED int op, PLACE)
OPERATION(AlltoAll, NCCL_ALL_TO_ALL, send, receive, count, datatype, -1, BUFFERS, PLACE)
OPERATION(Gather, NCCL_GATHER, send, receive, count, datatype, root, BUFFERS, int root, PLACE)
OPERATION(Scatter, NCCL_SCATTER, send, receive, count, datatype, root, BUFFERS, int root, PLACE)
OPERATION(Send, NCCL_SEND, send, (void *)(uintptr_t)send, count, datatype, peer, const void *send,
          size_t count, int datatype, int peer, PLACE)
OPERATION(Recv, NCCL_RECV, NULL, receive, count, datatype, peer, void *receive, size_t count,
          int datatype, int peer, PLACE)
OPERATION(PutSignal, NCCL_PUT_SIGNAL, send, NULL, count, datatype, peer, const void *send,
          size_t count, int datatype, int peer, IGNORED void *window, IGNORED size_t offset,
          IGNORED int signal, IGNORED int context, IGNORED unsigned flags, PLACE)
OPERATION(Signal, NCCL_SIGNAL, NULL, NULL, 0, 0, peer, int peer, IGNORED int signal,
          IGNORED int context, IGNORED unsigned flags, PLACE)
OPERATION(WaitSignal, NCCL_WAIT_SIGNAL, NULL, NULL, 0, 0, -1, IGNORED int count,
          IGNORED void *signals, PLACE)
