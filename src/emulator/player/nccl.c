/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/player/nccl.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "emulator/nccl/nccl_abi.h"

enum { CONFIG_VERSION = 22809, UNDEFINED = INT_MIN };
enum { BFLOAT16 = 9, BYTES_PER_ELEMENT = 2, SUM = 0 };

#define BUFFERS const void *send, void *receive, size_t count, int type
#define PLACE ncclComm_t comm, void *stream

/* NCCL's functions: member, symbol, parameters. All return a code. */
#define NCCL_FUNCTIONS(FUNCTION)                                                                   \
    FUNCTION(get_unique_id, "ncclGetUniqueId", (struct lull_play_nccl_id * id))                    \
    FUNCTION(comm_init_rank_config, "ncclCommInitRankConfig",                                      \
             (ncclComm_t * comm, int ranks, struct lull_play_nccl_id id, int rank,                 \
              ncclConfig_t *config))                                                               \
    FUNCTION(comm_destroy, "ncclCommDestroy", (ncclComm_t comm))                                   \
    FUNCTION(group_start, "ncclGroupStart", (void))                                                \
    FUNCTION(group_end, "ncclGroupEnd", (void))                                                    \
    FUNCTION(all_reduce, "ncclAllReduce", (BUFFERS, int op, PLACE))                                \
    FUNCTION(reduce_scatter, "ncclReduceScatter", (BUFFERS, int op, PLACE))                        \
    FUNCTION(all_gather, "ncclAllGather", (BUFFERS, PLACE))                                        \
    FUNCTION(all_to_all, "ncclAlltoAll", (BUFFERS, PLACE))                                         \
    FUNCTION(broadcast, "ncclBroadcast", (BUFFERS, int root, PLACE))                               \
    FUNCTION(send, "ncclSend", (const void *data, size_t count, int type, int peer, PLACE))        \
    FUNCTION(receive, "ncclRecv", (void *data, size_t count, int type, int peer, PLACE))

#define MEMBER(member, symbol, parameters) int(*member) parameters;
#define ROW(member, symbol, parameters) {symbol, &call->member},

struct functions {
    NCCL_FUNCTIONS(MEMBER)
};

struct lull_play_nccl {
    struct functions call;
    ncclComm_t comms[LULL_PLAY_COMMUNICATORS];
};

/* ---- loading ---- */

/* Loads one of Lull's emulated libraries. It is loaded globally, so that a shim that was preloaded
 * finds the functions that it wraps. */
static void *load_own(const char *name)
{
    char build_path[64];
    char installed_path[64];
    char path[PATH_MAX];

    snprintf(build_path, sizeof(build_path), "emulator/lib/%s", name);
    snprintf(installed_path, sizeof(installed_path), "emulated/%s", name);
    if (lull_file_find_own(build_path, installed_path, path, sizeof(path), NULL) < 0)
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

/* Finds a function as a program would: the shim's, if one is loaded before the library. */
static int play_nccl_find(const char *name, void *function_out, struct lull_error *err)
{
    void *function = dlsym(RTLD_DEFAULT, name);

    if (function == NULL)
        return lull_error_set(err, LULL_E_FORMAT, "the emulated libnccl.so.2 lacks %s", name);
    *(void **)function_out = function;
    return 0;
}

static int find_all(struct functions *call, struct lull_error *err)
{
    const struct {
        const char *name;
        void *function;
    } table[] = {NCCL_FUNCTIONS(ROW)};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const int result = play_nccl_find(table[i].name, table[i].function, err);

        if (result < 0)
            return result;
    }
    return 0;
}

static void init_cuda(void)
{
    void *library = load_own("libcuda.so.1");
    int (*init)(unsigned flags);

    if (library == NULL)
        return;
    *(void **)&init = dlsym(library, "cuInit");
    if (init != NULL)
        init(0);
}

int lull_play_nccl_open(struct lull_play_nccl **nccl_out, struct lull_error *err)
{
    struct lull_play_nccl *nccl;
    int result;

    *nccl_out = NULL;
    if (load_own("libnccl.so.2") == NULL)
        return 0;
    init_cuda();
    nccl = calloc(1, sizeof(*nccl));
    if (nccl == NULL)
        return lull_error_set(err, -ENOMEM, "play: no memory");
    result = find_all(&nccl->call, err);
    if (result < 0) {
        free(nccl);
        return result;
    }
    *nccl_out = nccl;
    return 0;
}

void lull_play_nccl_close(struct lull_play_nccl *nccl)
{
    if (nccl == NULL)
        return;
    for (uint32_t i = 0; i < LULL_PLAY_COMMUNICATORS; i++)
        if (nccl->comms[i] != NULL)
            nccl->call.comm_destroy(nccl->comms[i]);
    free(nccl);
}

/* ---- calls ---- */

static int play_nccl_check(int code, const char *function, struct lull_error *err)
{
    if (code != 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s of the emulated NCCL failed with code %d",
                              function, code);
    return 0;
}

int lull_play_nccl_id(struct lull_play_nccl *nccl, struct lull_play_nccl_id *id_out,
                      struct lull_error *err)
{
    return play_nccl_check(nccl->call.get_unique_id(id_out), "ncclGetUniqueId", err);
}

uint32_t lull_play_rank_in(const struct lull_play_communicator *communicator, uint32_t rank)
{
    return (uint32_t)__builtin_popcount(communicator->members & ((1u << rank) - 1));
}

int lull_play_nccl_join(struct lull_play_nccl *nccl, const struct lull_play *play, uint32_t index,
                        uint32_t rank, const struct lull_play_nccl_id *id, struct lull_error *err)
{
    const struct lull_play_communicator *communicator = &play->communicators[index];
    ncclConfig_t config = {
        .size = sizeof(config),
        .magic = NCCL_CONFIG_MAGIC,
        .version = CONFIG_VERSION,
        .blocking = UNDEFINED,
        .cga_cluster_size = UNDEFINED,
        .min_ctas = UNDEFINED,
        .max_ctas = UNDEFINED,
        .split_share = UNDEFINED,
        .traffic_class = UNDEFINED,
        .comm_name = communicator->name,
    };

    return play_nccl_check(
        nccl->call.comm_init_rank_config(&nccl->comms[index], (int)communicator->world_ranks, *id,
                                         (int)lull_play_rank_in(communicator, rank), &config),
        "ncclCommInitRankConfig", err);
}

/* Makes a send to a peer and a receive from it in one group, which records show as one kernel. */
static int send_and_receive(const struct functions *call, void *data, size_t count, int peer,
                            ncclComm_t comm, void *stream)
{
    int code = call->group_start();

    if (code != 0)
        return code;
    code = call->send(data, count, BFLOAT16, peer, comm, stream);
    if (code != 0)
        return code;
    code = call->receive(data, count, BFLOAT16, peer, comm, stream);
    if (code != 0)
        return code;
    return call->group_end();
}

int lull_play_nccl_call(struct lull_play_nccl *nccl, const struct lull_play *play,
                        const struct lull_play_op *op, struct lull_stream *stream,
                        struct lull_error *err)
{
    static char buffer[16]; /* only its address counts, since no data is moved */
    const struct lull_play_communicator *communicator = &play->communicators[op->communicator];
    const struct functions *call = &nccl->call;
    const ncclComm_t comm = nccl->comms[op->communicator];
    const uint32_t ranks = communicator->world_ranks;
    const size_t count = op->bytes / BYTES_PER_ELEMENT > 0 ? op->bytes / BYTES_PER_ELEMENT : 1;
    int code;

    switch (op->function) {
    case LULL_PLAY_ALL_GATHER:
        code = call->all_gather(buffer, buffer, count, BFLOAT16, comm, stream);
        break;
    case LULL_PLAY_REDUCE_SCATTER:
        code = call->reduce_scatter(buffer, buffer, count, BFLOAT16, SUM, comm, stream);
        break;
    case LULL_PLAY_ALL_TO_ALL: /* NCCL wants the count for each peer */
        code =
            call->all_to_all(buffer, buffer, (count + ranks - 1) / ranks, BFLOAT16, comm, stream);
        break;
    case LULL_PLAY_BROADCAST:
        code = call->broadcast(buffer, buffer, count, BFLOAT16, 0, comm, stream);
        break;
    case LULL_PLAY_SEND_RECV:
        code = send_and_receive(call, buffer, count, ranks > 1 ? 1 : 0, comm, stream);
        break;
    case LULL_PLAY_SEND:
        code = call->send(buffer, count, BFLOAT16, (int)lull_play_rank_in(communicator, op->peer),
                          comm, stream);
        break;
    case LULL_PLAY_RECV:
        code = call->receive(buffer, count, BFLOAT16,
                             (int)lull_play_rank_in(communicator, op->peer), comm, stream);
        break;
    default:
        code = call->all_reduce(buffer, buffer, count, BFLOAT16, SUM, comm, stream);
    }
    return play_nccl_check(code, lull_play_function_name(op->function), err);
}
