/*
 * The part of NCCL's profiler plugin ABI that Lull uses: own declarations of the documented layouts
 * of versions 1 to 7 (NCCL 2.23 to 2.31), x86-64 and other LP64. Nothing here is NVIDIA's text.
 *
 * A plugin exports one struct lull_nccl_profiler per version, as data, by the name ncclProfiler_vN.
 * All functions return an int, 0 for success. Strings are literals of libnccl.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_NCCL_ABI_H
#define LULL_PROBE_NCCL_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LULL_NCCL_VERSIONS = 7 };

/* Kinds of events, which are the bits of a mask and the values of a descriptor's type. */
enum {
    LULL_NCCL_GROUP = 1 << 0,
    LULL_NCCL_COLL = 1 << 1,
    LULL_NCCL_P2P = 1 << 2,
    LULL_NCCL_PROXY_OP = 1 << 3,
    LULL_NCCL_PROXY_STEP = 1 << 4,
    LULL_NCCL_PROXY_CTRL = 1 << 5,
    LULL_NCCL_KERNEL_CH = 1 << 6,  /* from version 3 */
    LULL_NCCL_NET_PLUGIN = 1 << 7, /* from version 3 */
    LULL_NCCL_GROUP_API = 1 << 8,  /* from version 5 */
    LULL_NCCL_COLL_API = 1 << 9,
    LULL_NCCL_P2P_API = 1 << 10,
    LULL_NCCL_KERNEL_LAUNCH = 1 << 11,
    LULL_NCCL_CE_COLL = 1 << 12, /* from version 6 */
    LULL_NCCL_CE_SYNC = 1 << 13,
    LULL_NCCL_CE_BATCH = 1 << 14,
    LULL_NCCL_KERNEL_PHASE = 1 << 15, /* version 7 */
};

enum { LULL_NCCL_KERNEL_CH_STOP = 22 }; /* the only state that matters here */

/* Level and subsystem for the logger; NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=PROFILE shows them. */
enum { LULL_NCCL_LOG_INFO = 3, LULL_NCCL_LOG_PROFILE = 0x4000 };

typedef void (*lull_nccl_logger)(int level, unsigned long flags, const char *file, int line,
                                 const char *format, ...);

typedef int (*lull_nccl_init_v1)(void **context, int *mask); /* of 2 and 3, too */
typedef int (*lull_nccl_init_v4)(void **context, int *mask, const char *name, uint64_t hash,
                                 int nodes, int ranks, int rank, lull_nccl_logger logger);
typedef int (*lull_nccl_init_v5)(void **context, uint64_t id, int *mask, const char *name,
                                 int nodes, int ranks, int rank,
                                 lull_nccl_logger logger); /* of 6 and 7, too */

struct lull_nccl_profiler {
    const char *name;
    void (*init)(void); /* one of the types above */
    int (*start)(void *context, void **handle, void *descriptor);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, void *arguments); /* arguments may be NULL */
    int (*finalize)(void *context);
};

/* ---- descriptors: the members that Lull reads, and those before them ---- */

struct lull_nccl_proxy_op {
    int pid;
    uint8_t channel;
    int peer;
    int steps;
    int chunk_bytes;
    int is_send;
};

struct lull_nccl_kernel_ch {
    uint8_t channel;
    uint64_t gpu_ns; /* from version 4 */
};

struct lull_nccl_descriptor_v1 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t hash;
            uint64_t sequence;
            uint8_t function;
            const void *send_buffer;
            void *receive_buffer;
            size_t count;
            int root;
            uint8_t datatype;
        } coll;
        struct {
            const char *name;
            uint64_t hash;
            uint8_t function;
            void *buffer;
            uint8_t datatype;
            size_t count;
            int peer;
        } p2p;
        struct lull_nccl_proxy_op proxy_op;
    };
};

/* Version 2, and 3, which adds kernels. */
struct lull_nccl_descriptor_v2 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t hash;
            uint64_t sequence;
            const char *function;
            const void *send_buffer;
            void *receive_buffer;
            size_t count;
            int root;
            const char *datatype;
        } coll;
        struct {
            const char *name;
            uint64_t hash;
            const char *function;
            void *buffer;
            const char *datatype;
            size_t count;
            int peer;
        } p2p;
        struct lull_nccl_proxy_op proxy_op;
        struct lull_nccl_kernel_ch kernel_ch; /* without gpu_ns */
    };
};

struct lull_nccl_coll_v4 {
    uint64_t sequence;
    const char *function;
    const void *send_buffer;
    void *receive_buffer;
    size_t count;
    int root;
    const char *datatype;
    uint8_t channels;
    uint8_t warps;
    const char *algorithm;
    const char *protocol;
    void *group; /* from version 5 */
};

struct lull_nccl_p2p_v4 {
    const char *function;
    void *buffer;
    const char *datatype;
    size_t count;
    int peer;
    uint8_t channels; /* not filled in for version 4 by later versions of NCCL */
    void *group;      /* from version 5 */
};

struct lull_nccl_descriptor_v4 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct lull_nccl_coll_v4 coll;
        struct lull_nccl_p2p_v4 p2p;
        struct lull_nccl_proxy_op proxy_op;
        struct lull_nccl_kernel_ch kernel_ch;
    };
};

/* Versions 5 to 7: what Lull reads lies at the same place in all of them. */
struct lull_nccl_descriptor_v5 {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct lull_nccl_coll_v4 coll;
        struct lull_nccl_p2p_v4 p2p;
        struct lull_nccl_proxy_op proxy_op;
        struct lull_nccl_kernel_ch kernel_ch;
        struct {
            bool is_captured;
        } group_api;
        struct {
            const char *function;
            size_t count;
            const char *datatype;
            int root;
            void *stream;
            bool is_captured;
        } coll_api;
        struct {
            const char *function;
            size_t count;
            const char *datatype;
            void *stream;
            bool is_captured;
        } p2p_api;
    };
};

/* The arguments of a state, from version 4 on. */
union lull_nccl_arguments {
    size_t transferred_bytes;
    int appended;
    void *data;
    uint64_t gpu_ns; /* of LULL_NCCL_KERNEL_CH_STOP */
};

/* ---- the documented offsets ---- */

#define LULL_AT(version, member, offset)                                                           \
    _Static_assert(offsetof(struct lull_nccl_descriptor_v##version, member) == (offset), #member)

LULL_AT(1, parent, 8);
LULL_AT(1, rank, 16);
LULL_AT(1, coll, 24);
LULL_AT(1, coll.count, 72);
LULL_AT(1, coll.datatype, 84);
LULL_AT(1, p2p.peer, 72);
LULL_AT(2, coll.count, 72);
LULL_AT(2, coll.datatype, 88);
LULL_AT(2, p2p.peer, 72);
LULL_AT(4, parent, 8);
LULL_AT(4, rank, 16);
LULL_AT(4, coll.count, 56);
LULL_AT(4, coll.channels, 80);
LULL_AT(4, p2p.peer, 56);
LULL_AT(4, p2p.channels, 60);
LULL_AT(4, kernel_ch.gpu_ns, 32);
LULL_AT(5, parent, 8);
LULL_AT(5, rank, 16);
LULL_AT(5, coll, 24);
LULL_AT(5, coll.count, 56);
LULL_AT(5, coll.channels, 80);
LULL_AT(5, coll.group, 104);
LULL_AT(5, p2p.peer, 56);
LULL_AT(5, p2p.channels, 60);
LULL_AT(5, p2p.group, 64);
LULL_AT(5, kernel_ch.gpu_ns, 32);
LULL_AT(5, coll_api.stream, 56);
LULL_AT(5, coll_api.is_captured, 64);
LULL_AT(5, p2p_api.stream, 48);
LULL_AT(5, p2p_api.is_captured, 56);
_Static_assert(sizeof(struct lull_nccl_profiler) == 48, "table");
_Static_assert(sizeof(union lull_nccl_arguments) == 8, "arguments");

#undef LULL_AT

#endif
