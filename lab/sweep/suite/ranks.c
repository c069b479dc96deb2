/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/suite/ranks.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ABI of nccl.h (2.4 and newer): codes, 0 for success; communicators are opaque; streams are
 * CUDA's. */
enum { NCCL_SUM = 0, BUFFERS = 2 };

typedef const char *nccl_text(int code);
typedef int nccl_init(void **communicators, int count, const int *devices);
typedef int nccl_destroy(void *communicator);
typedef int nccl_group(void);
typedef int nccl_reduction(const void *send, void *receive, size_t count, int type, int operation,
                           void *communicator, void *stream);
typedef int nccl_gather(const void *send, void *receive, size_t count, int type, void *communicator,
                        void *stream);
typedef int nccl_broadcast(const void *send, void *receive, size_t count, int type, int root,
                           void *communicator, void *stream);

#define NCCL_CALLS(CALL)                                                                           \
    CALL(nccl_text, error_text, "ncclGetErrorString", NULL)                                        \
    CALL(nccl_init, init, "ncclCommInitAll", NULL)                                                 \
    CALL(nccl_destroy, destroy, "ncclCommDestroy", NULL)                                           \
    CALL(nccl_group, group_begin, "ncclGroupStart", NULL)                                          \
    CALL(nccl_group, group_end, "ncclGroupEnd", NULL)                                              \
    CALL(nccl_reduction, all_reduce, "ncclAllReduce", NULL)                                        \
    CALL(nccl_reduction, reduce_scatter, "ncclReduceScatter", NULL)                                \
    CALL(nccl_gather, all_gather, "ncclAllGather", NULL)                                           \
    CALL(nccl_broadcast, broadcast, "ncclBroadcast", NULL)

struct nccl {
    NCCL_CALLS(LULL_LIBRARY_MEMBER)
};

#define SYMBOL(type, member, name, older_name) {offsetof(struct nccl, member), name, older_name},
static const struct lull_library_symbol symbols[] = {NCCL_CALLS(SYMBOL)};
enum { SYMBOLS = sizeof(symbols) / sizeof(symbols[0]) };

struct rank {
    int device;
    void *context;
    void *communicator;
    cuda_address buffers[BUFFERS];
};

struct lull_suite_ranks {
    const struct lull_cuda *cuda;
    struct nccl nccl;
    struct rank ranks[LULL_SUITE_MAX_RANKS];
    uint32_t count;
};

static int nccl_result(const struct lull_suite_ranks *ranks, int code, const char *what,
                       struct lull_error *err)
{
    if (code == 0)
        return 0;
    return lull_error_set(err, -EIO, "NCCL cannot %s: %s (code %d)", what,
                          ranks->nccl.error_text(code), code);
}

/* ---- opening ---- */

/* NCCL, like CUDA, stays loaded. */
static int suite_rank_load(struct lull_suite_ranks *ranks, struct lull_error *err)
{
    static const char *const names[] = {"libnccl.so.2", NULL};
    void *library;
    char name[256];

    if (lull_library_open("LULL_NCCL", names, "NCCL", &library, name, sizeof(name), NULL) < 0)
        return lull_error_set(
            err, LULL_E_UNSUPPORTED,
            "NCCL was not found: install libnccl2, or set LULL_NCCL to a libnccl.so.2");
    lull_library_bind(library, &ranks->nccl, symbols, SYMBOLS);
    for (size_t i = 0; i < SYMBOLS; i++) {
        void *address;

        memcpy(&address, (const char *)&ranks->nccl + symbols[i].offset, sizeof(address));
        if (address != NULL)
            continue;
        dlclose(library);
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "%.100s has no %s: install NCCL 2.4 or newer", name, symbols[i].name);
    }
    return 0;
}

static int suite_rank_use_device(const struct lull_suite_ranks *ranks, uint32_t rank)
{
    return ranks->cuda->context_use(ranks->ranks[rank].context);
}

/* The GPU that is measured comes first, then the others in CUDA's order. */
static int suite_rank_find_gpus(struct lull_suite_ranks *ranks, struct lull_error *err)
{
    const struct lull_cuda *const cuda = ranks->cuda;
    int count = 0;
    int code = cuda->device_count(&count);

    if (code == CUDA_OK && count < 2)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "a collective needs two GPUs, and CUDA shows one");
    ranks->ranks[0] = (struct rank){.device = cuda->device, .context = cuda->context};
    ranks->count = 1;
    for (int ordinal = 0; code == CUDA_OK && ordinal < count; ordinal++) {
        struct rank rank = {0};

        if (ordinal == cuda->ordinal || ranks->count == LULL_SUITE_MAX_RANKS)
            continue;
        code = cuda->device_get(&rank.device, ordinal);
        if (code == CUDA_OK)
            code = cuda->context_retain(&rank.context, rank.device);
        if (code == CUDA_OK)
            ranks->ranks[ranks->count++] = rank;
    }
    return lull_cuda_result(cuda, code, "use all GPUs", err);
}

static int connect_gpus(struct lull_suite_ranks *ranks, struct lull_error *err)
{
    void *communicators[LULL_SUITE_MAX_RANKS];
    int devices[LULL_SUITE_MAX_RANKS];
    int next = 0;
    int code;

    devices[0] = ranks->cuda->ordinal;
    for (uint32_t i = 1; i < ranks->count; i++, next++) {
        if (next == ranks->cuda->ordinal)
            next++;
        devices[i] = next;
    }
    code = ranks->nccl.init(communicators, (int)ranks->count, devices);
    if (code != 0)
        return nccl_result(ranks, code, "connect the GPUs", err);
    for (uint32_t i = 0; i < ranks->count; i++)
        ranks->ranks[i].communicator = communicators[i];
    return 0;
}

int lull_suite_ranks_open(const struct lull_cuda *cuda, struct lull_suite_ranks **ranks_out,
                          struct lull_error *err)
{
    struct lull_suite_ranks *const ranks = calloc(1, sizeof(*ranks));
    int result;

    if (ranks == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for a collective");
    ranks->cuda = cuda;
    result = suite_rank_find_gpus(ranks, err);
    if (result == 0)
        result = suite_rank_load(ranks, err);
    if (result == 0)
        result = connect_gpus(ranks, err);
    suite_rank_use_device(ranks, 0); /* NCCL may have left another one current */
    if (result < 0) {
        lull_suite_ranks_close(ranks);
        return result;
    }
    *ranks_out = ranks;
    return 0;
}

void lull_suite_ranks_close(struct lull_suite_ranks *ranks)
{
    if (ranks == NULL)
        return;
    for (uint32_t i = 0; i < ranks->count; i++)
        if (ranks->ranks[i].communicator != NULL)
            ranks->nccl.destroy(ranks->ranks[i].communicator);
    for (uint32_t i = 1; i < ranks->count; i++)
        ranks->cuda->context_release(ranks->ranks[i].device);
    free(ranks);
}

uint32_t lull_suite_ranks_count(const struct lull_suite_ranks *ranks)
{
    return ranks->count;
}

/* ---- buffers ---- */

static int begin_rank(struct lull_suite_ranks *ranks, uint32_t number,
                      const struct lull_suite_kernel *kernel)
{
    const struct lull_cuda *const cuda = ranks->cuda;
    struct rank *const first = &ranks->ranks[0];
    struct rank *const rank = &ranks->ranks[number];
    int code = suite_rank_use_device(ranks, number);

    for (uint32_t i = 0; i < BUFFERS && code == CUDA_OK; i++) {
        code = cuda->memory_allocate(&rank->buffers[i], kernel->buffers[i].bytes);
        if (code == CUDA_OK)
            code = cuda->memory_copy_peer(rank->buffers[i], rank->context, first->buffers[i],
                                          first->context, kernel->buffers[i].bytes);
    }
    return code;
}

int lull_suite_ranks_begin(struct lull_suite_ranks *ranks, const struct lull_suite_kernel *kernel,
                           const cuda_address buffers[BUFFERS], struct lull_error *err)
{
    int code = CUDA_OK;

    memcpy(ranks->ranks[0].buffers, buffers, sizeof(ranks->ranks[0].buffers));
    for (uint32_t i = 1; i < ranks->count && code == CUDA_OK; i++)
        code = begin_rank(ranks, i, kernel);
    suite_rank_use_device(ranks, 0);
    if (code == CUDA_OK)
        return 0;
    lull_suite_ranks_end(ranks);
    return lull_cuda_result(ranks->cuda, code, "share the buffers of a collective", err);
}

void lull_suite_ranks_end(struct lull_suite_ranks *ranks)
{
    for (uint32_t i = 1; i < ranks->count; i++) {
        suite_rank_use_device(ranks, i);
        for (uint32_t b = 0; b < BUFFERS; b++) {
            if (ranks->ranks[i].buffers[b] != 0)
                ranks->cuda->memory_free(ranks->ranks[i].buffers[b]);
            ranks->ranks[i].buffers[b] = 0;
        }
    }
    suite_rank_use_device(ranks, 0);
}

/* ---- launching ---- */

/* NCCL's numbers of types. e4m3 is newer than the library may be. */
static int suite_rank_type_of(const char *name)
{
    static const struct {
        const char *name;
        int type;
    } types[] = {{"s8", 0}, {"u32", 3}, {"f16", 6}, {"f32", 7}, {"f64", 8}, {"bf16", 9}};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].type;
    return -1;
}

static int launch_rank(const struct lull_suite_ranks *ranks, const struct rank *rank,
                       const struct lull_suite_kernel *kernel, int type)
{
    const struct nccl *const nccl = &ranks->nccl;
    const void *const send = (const void *)(uintptr_t)rank->buffers[0];
    void *const receive = (void *)(uintptr_t)rank->buffers[1];
    const size_t count = kernel->buffers[0].count;
    const size_t share = count / ranks->count;

    switch (kernel->collective) {
    case LULL_SUITE_ALL_GATHER:
        return nccl->all_gather(send, receive, share, type, rank->communicator, NULL);
    case LULL_SUITE_REDUCE_SCATTER:
        return nccl->reduce_scatter(send, receive, share, type, NCCL_SUM, rank->communicator, NULL);
    case LULL_SUITE_BROADCAST: /* from the last rank, so that rank 0 receives */
        return nccl->broadcast(send, receive, count, type, (int)ranks->count - 1,
                               rank->communicator, NULL);
    default:
        return nccl->all_reduce(send, receive, count, type, NCCL_SUM, rank->communicator, NULL);
    }
}

int lull_suite_ranks_launch(const struct lull_suite_ranks *ranks,
                            const struct lull_suite_kernel *kernel, struct lull_error *err)
{
    const int type = suite_rank_type_of(kernel->buffers[0].type);
    int code, end_code;

    if (type < 0)
        return lull_error_set(err, LULL_E_UNSUPPORTED, "collectives of %s are not known",
                              kernel->buffers[0].type);
    code = ranks->nccl.group_begin();
    if (code != 0)
        return nccl_result(ranks, code, "begin a collective", err);
    for (uint32_t i = 0; i < ranks->count && code == 0; i++)
        code = launch_rank(ranks, &ranks->ranks[i], kernel, type);
    end_code = ranks->nccl.group_end();
    suite_rank_use_device(ranks, 0);
    if (code == 0)
        code = end_code;
    return nccl_result(ranks, code, "run a collective", err);
}
