/*
 * The NCCL profiler plugin behind its seven tables: communicators, handles, and what is pushed.
 *
 * nccl_profiler_versions.c turns each version's descriptors into struct lull_nccl_event;
 * nccl_chain.h passes the callbacks on to another plugin.
 *
 * A context is the address of an entry of a static table that is never freed, checked by its range:
 * NCCL may hand over those of another process. A handle is a number, never a pointer:
 *
 *   ticket << 10 | channel << 4 | kind << 1 | 1
 *
 * A ticket identifies the operation permanently. The place with its state is reused after
 * LULL_NCCL_OPERATIONS later operations; calls with the old handle then do nothing.
 *
 * Threads: any. Callbacks take no lock, allocate nothing and make no system call, except the first
 * event of each thread and the wake-up of a sleeping governor.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_NCCL_PROFILER_H
#define LULL_PROBE_NCCL_PROFILER_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/nccl_abi.h"

enum {
    LULL_NCCL_COMMUNICATORS =
        1024, /* the most that are alive at once in a process; more are not observed */
    LULL_NCCL_OPERATIONS = 8192, /* the most that are enqueued and not yet ended; a power of two */
    LULL_NCCL_CHANNELS = 64,     /* the most of a communicator */
};

/* Object that a handle represents. */
enum lull_nccl_kind {
    LULL_NCCL_KIND_CALL = 1, /* a call or group, which has no ticket */
    LULL_NCCL_KIND_CAPTURED, /* a call that was captured into a graph and has no ticket */
    LULL_NCCL_KIND_OPERATION,
    LULL_NCCL_KIND_KERNEL, /* an operation's kernel on one channel */
    LULL_NCCL_KIND_PAIR,   /* a handle of ours and one of the chained plugin (nccl_chain.c) */
};

static inline void *lull_nccl_handle(enum lull_nccl_kind kind, uint64_t ticket, uint32_t channel)
{
    return (void *)(uintptr_t)(ticket << 10 | (uint64_t)channel << 4 | (uint64_t)kind << 1 | 1);
}

/* Returns the kind of a handle, which may be any value; 0: it is none of ours. */
static inline uint32_t lull_nccl_handle_kind(const void *handle)
{
    const uint64_t bits = (uintptr_t)handle;

    return bits & 1 ? (uint32_t)(bits >> 1 & 7) : 0;
}

static inline uint32_t lull_nccl_handle_channel(const void *handle)
{
    return (uint32_t)((uintptr_t)handle >> 4 & (LULL_NCCL_CHANNELS - 1));
}

static inline uint64_t lull_nccl_handle_ticket(const void *handle)
{
    return (uint64_t)((uintptr_t)handle >> 10);
}

/* Properties of a communicator that init reports. Unknown members are NULL, 0 or -1. */
struct lull_nccl_identity {
    uint32_t version;
    const struct lull_nccl_profiler *table; /* the table of ours that NCCL uses */
    const char *name;
    uint64_t id;
    int nodes;
    int ranks;
    int rank;
    lull_nccl_logger logger;
    const void *caller; /* an address within libnccl */
};

/* The contents of a descriptor of any version. Members that do not apply are 0. */
struct lull_nccl_event {
    uint64_t type;
    void *parent;
    uint64_t bytes;
    uint64_t gpu_ns;    /* of KernelCh: its start; 0: unknown */
    int32_t peer;       /* root or peer; -1: none */
    int32_t pid;        /* of ProxyOp: the process to which its context and parent belong */
    uint16_t operation; /* enum lull_operation */
    uint8_t channels; /* of Coll and P2p: how many channels will report their kernel; 0: unknown */
    uint8_t channel;  /* of KernelCh */
    bool is_captured;
};

/* Begins a communicator. It never fails, and *context is never NULL afterwards. */
int lull_nccl_init(const struct lull_nccl_identity *identity, void **context, int *mask);

/*
 * descriptor: as NCCL passed it, for the chained plugin; NULL is refused. event: its contents; the
 * parent is replaced by our part of it. *handle is always written.
 */
int lull_nccl_start(void *context, void **handle, const void *descriptor,
                    struct lull_nccl_event *event);
int lull_nccl_stop(void *handle);

/* Takes a state; gpu_ns is the time of LULL_NCCL_KERNEL_CH_STOP, 0: unknown. */
int lull_nccl_record(void *handle, int state, void *arguments, uint64_t gpu_ns);
int lull_nccl_finalize(void *context);

#endif
