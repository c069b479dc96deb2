/*
 * NCCL's public types and the profiler plugin's ABI, v1 to v7, as far as the emulated libnccl.so.2
 * needs them: layouts of x86-64 LP64, own declarations from the project's description of the ABI.
 * It shares nothing with the plugin's declarations in probe/, so that each checks the other.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_NCCL_ABI_H
#define LULL_EMULATOR_NCCL_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the public API ---- */

enum {
    NCCL_SUCCESS = 0,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_INVALID_ARGUMENT = 4,
    NCCL_INVALID_USAGE = 5,
    NCCL_RESULTS = 9,
};

enum { NCCL_ID_BYTES = 128, NCCL_SPLIT_NOCOLOR = -1, NCCL_CONFIG_MAGIC = 0xcafebeef };

typedef struct lull_nccl_comm *ncclComm_t;
typedef void *cudaStream_t;
typedef struct {
    char internal[NCCL_ID_BYTES];
} ncclUniqueId;

/* The first members of ncclConfig_t. commName exists from size 56 on, that is, NCCL 2.27. */
typedef struct {
    size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
    int cga_cluster_size;
    int min_ctas;
    int max_ctas;
    const char *net_name;
    int split_share;
    int traffic_class;
    const char *comm_name;
} ncclConfig_t;
_Static_assert(offsetof(ncclConfig_t, blocking) == 16, "public layout");
_Static_assert(offsetof(ncclConfig_t, comm_name) == 48, "public layout");

/* ---- the profiler plugin ---- */

enum { NCCL_PROFILER_VERSIONS = 7 };

enum {
    NCCL_EVENT_GROUP = 1 << 0,
    NCCL_EVENT_COLL = 1 << 1,
    NCCL_EVENT_P2P = 1 << 2,
    NCCL_EVENT_PROXY_OP = 1 << 3,
    NCCL_EVENT_PROXY_STEP = 1 << 4,
    NCCL_EVENT_PROXY_CTRL = 1 << 5,
    NCCL_EVENT_KERNEL_CH = 1 << 6,
    NCCL_EVENT_NET_PLUGIN = 1 << 7,
    NCCL_EVENT_GROUP_API = 1 << 8,
    NCCL_EVENT_COLL_API = 1 << 9,
    NCCL_EVENT_P2P_API = 1 << 10,
    NCCL_EVENT_KERNEL_LAUNCH = 1 << 11,
    NCCL_EVENT_CE_COLL = 1 << 12,
    NCCL_EVENT_CE_SYNC = 1 << 13,
    NCCL_EVENT_CE_BATCH = 1 << 14,
    NCCL_EVENT_KERNEL_PHASE = 1 << 15,
};

enum {
    NCCL_STATE_PROXY_SLEEP = 15,
    NCCL_STATE_PROXY_WAKEUP = 16,
    NCCL_STATE_PROXY_APPEND = 17,
    NCCL_STATE_PROXY_APPEND_END = 18,
    NCCL_STATE_KERNEL_CH_STOP = 22,
    NCCL_STATE_GROUP_START_STOP = 23,
    NCCL_STATE_GROUP_END_START = 24,
};

typedef void (*nccl_logger)(int level, unsigned long flags, const char *file, int line,
                            const char *format, ...);

/* The table of the plugin. The type of init differs from version to version. */
struct nccl_plugin_table {
    const char *name;
    void (*init)(void);
    int (*start_event)(void *context, void **handle, void *descriptor);
    int (*stop_event)(void *handle);
    int (*record_state)(void *handle, int state, void *arguments);
    int (*finalize)(void *context);
};
_Static_assert(sizeof(struct nccl_plugin_table) == 48, "public layout");

typedef int (*nccl_init_v1)(void **context, int *mask);
typedef int (*nccl_init_v4)(void **context, int *mask, const char *name, uint64_t hash, int nodes,
                            int ranks, int rank, nccl_logger logger);
typedef int (*nccl_init_v5)(void **context, uint64_t id, int *mask, const char *name, int nodes,
                            int ranks, int rank, nccl_logger logger);

struct nccl_proxy_op {
    int pid;
    uint8_t channel;
    int peer;
    int steps;
    int chunk_bytes;
    int is_send;
};

struct nccl_kernel_ch {
    uint8_t channel;
    uint64_t timer; /* v4 on */
};

struct nccl_descriptor_v1 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t hash;
            uint64_t sequence;
            uint8_t function;
            const void *send;
            void *receive;
            size_t count;
            int root;
            uint8_t datatype;
            uint32_t op;
            size_t traffic_bytes;
            uint8_t max_channels;
            uint8_t warps;
            uint8_t algorithm;
            uint8_t protocol;
            int is_collnet;
            int is_nvls;
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
        struct nccl_proxy_op proxy_op;
        struct {
            int step;
        } proxy_step;
    };
};

/* Version 3 is version 2 without traffic_bytes, which moves what follows. */
struct nccl_tail_v2 {
    uint8_t max_channels;
    uint8_t warps;
    const char *algorithm;
    const char *protocol;
};

struct nccl_descriptor_v2 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t hash;
            uint64_t sequence;
            const char *function;
            const void *send;
            void *receive;
            size_t count;
            int root;
            const char *datatype;
            union {
                struct {
                    size_t traffic_bytes;
                    struct nccl_tail_v2 tail;
                } v2;
                struct nccl_tail_v2 v3;
            };
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
        struct nccl_proxy_op proxy_op;
        struct nccl_kernel_ch kernel_ch; /* v3 */
    };
};

/* The type is one byte wide in v4 and eight from v5 on. Each version appends to the one before. */
struct nccl_descriptor_v4 {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct {
            uint64_t sequence;
            const char *function;
            const void *send;
            void *receive;
            size_t count;
            int root;
            const char *datatype;
            uint8_t channels;
            uint8_t warps;
            const char *algorithm;
            const char *protocol;
            void *parent_group;         /* v5 */
            const char *kernel_variant; /* v7 */
            bool is_symmetric;          /* v7 */
            uint64_t user_tag;          /* v7 */
        } coll;
        struct {
            const char *function;
            void *buffer;
            const char *datatype;
            size_t count;
            int peer;
            uint8_t channels;
            void *parent_group; /* v5 */
            uint64_t user_tag;  /* v7 */
        } p2p;
        struct nccl_proxy_op proxy_op;
        struct nccl_kernel_ch kernel_ch;
        struct {
            bool is_captured;
            int depth;
        } group_api; /* v5, like all that follow */
        struct {
            const char *function;
            size_t count;
            const char *datatype;
            int root;
            void *stream;
            bool is_captured;
            uint64_t user_tag; /* v7 */
        } coll_api;
        struct {
            const char *function;
            size_t count;
            const char *datatype;
            void *stream;
            bool is_captured;
            uint64_t user_tag; /* v7 */
        } p2p_api;
        struct {
            void *stream;
        } kernel_launch;
    };
};

union nccl_descriptor {
    struct nccl_descriptor_v1 v1;
    struct nccl_descriptor_v2 v2; /* of v3, too */
    struct nccl_descriptor_v4 v4; /* of later versions, too */
};

#define NCCL_AT(version, member, offset)                                                           \
    _Static_assert(offsetof(struct nccl_descriptor_##version, member) == (offset), "public "       \
                                                                                   "layout")

_Static_assert(sizeof(struct nccl_descriptor_v1) == 120, "public layout");
_Static_assert(sizeof(struct nccl_descriptor_v2) == 128, "public layout");
_Static_assert(sizeof(struct nccl_descriptor_v4) == 136, "public layout of v7");
NCCL_AT(v1, parent, 8);
NCCL_AT(v1, rank, 16);
NCCL_AT(v1, coll.count, 72);
NCCL_AT(v1, coll.max_channels, 104);
NCCL_AT(v1, p2p.peer, 72);
NCCL_AT(v2, coll.count, 72);
NCCL_AT(v2, coll.v2.tail.max_channels, 104);
NCCL_AT(v2, coll.v3.max_channels, 96);
NCCL_AT(v2, p2p.peer, 72);
NCCL_AT(v4, coll.count, 56);
NCCL_AT(v4, coll.channels, 80);
NCCL_AT(v4, coll.parent_group, 104);
NCCL_AT(v4, coll.kernel_variant, 112);
NCCL_AT(v4, coll.is_symmetric, 120);
NCCL_AT(v4, coll.user_tag, 128);
NCCL_AT(v4, p2p.peer, 56);
NCCL_AT(v4, p2p.channels, 60);
NCCL_AT(v4, p2p.parent_group, 64);
NCCL_AT(v4, p2p.user_tag, 72);
NCCL_AT(v4, kernel_ch.timer, 32);
NCCL_AT(v4, group_api.depth, 28);
NCCL_AT(v4, coll_api.stream, 56);
NCCL_AT(v4, coll_api.is_captured, 64);
NCCL_AT(v4, coll_api.user_tag, 72);
NCCL_AT(v4, p2p_api.stream, 48);
NCCL_AT(v4, p2p_api.user_tag, 64);

/* The arguments of a state have 16 bytes up to v3 and 8 bytes from v4 on. */
union nccl_state_arguments {
    struct {
        size_t bytes;
        int steps;
    } proxy_op; /* up to v3 */
    struct {
        int appended;
    } proxy_ctrl;
    struct {
        uint64_t timer;
    } kernel_ch; /* v4 */
};
_Static_assert(sizeof(union nccl_state_arguments) == 16, "public layout");

#endif
