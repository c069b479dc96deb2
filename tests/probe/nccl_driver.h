/*
 * Acts as NCCL for a profiler plugin, through the ABI of any version.
 *
 * Descriptors are written by the documented offsets, so that no
 * declarations are shared with the plugin. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_PROBE_NCCL_DRIVER_H
#define LULL_TESTS_PROBE_NCCL_DRIVER_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { NCCL_VERSIONS = 7, NCCL_DESCRIPTOR_BYTES = 136 };

enum {
    NCCL_GROUP = 1 << 0,
    NCCL_COLL = 1 << 1,
    NCCL_P2P = 1 << 2,
    NCCL_PROXY_OP = 1 << 3,
    NCCL_KERNEL_CH = 1 << 6,
    NCCL_GROUP_API = 1 << 8,
    NCCL_COLL_API = 1 << 9,
    NCCL_P2P_API = 1 << 10,
};

enum { NCCL_KERNEL_CH_STOP = 22, NCCL_GROUP_START_API_STOP = 23 };

/* The words of one call, in both spellings. */
struct nccl_word {
    const char *text;
    uint8_t number; /* version 1 */
};

static const struct nccl_word nccl_all_reduce = {"AllReduce", 4};
static const struct nccl_word nccl_all_gather = {"AllGather", 2};
static const struct nccl_word nccl_broadcast = {"Broadcast", 0};
static const struct nccl_word nccl_send = {"Send", 6};
static const struct nccl_word nccl_float32 = {"ncclFloat32", 7};
static const struct nccl_word nccl_bfloat16 = {"ncclBfloat16", 9};

struct nccl_table {
    const char *name;
    void *init;
    int (*start)(void *context, void **handle, void *descriptor);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, void *arguments);
    int (*finalize)(void *context);
};

struct nccl_driver {
    int version;
    void *library;
    const struct nccl_table *table;
    void *group; /* of the tasks to come; from version 5 */
};

/* Offsets in a descriptor; 0 does not exist. */
struct nccl_task_layout {
    size_t function, count, peer, datatype, channels;
};

static const struct nccl_task_layout nccl_coll_layouts[NCCL_VERSIONS + 1] = {
    {0},
    {48, 72, 80, 84, 0},
    {48, 72, 80, 88, 0},
    {48, 72, 80, 88, 0},
    {32, 56, 64, 72, 80},
    {32, 56, 64, 72, 80},
    {32, 56, 64, 72, 80},
    {32, 56, 64, 72, 80},
};

static const struct nccl_task_layout nccl_p2p_layouts[NCCL_VERSIONS + 1] = {
    {0},
    {40, 64, 72, 56, 0},
    {40, 64, 72, 56, 0},
    {40, 64, 72, 56, 0},
    {24, 48, 56, 40, 60},
    {24, 48, 56, 40, 60},
    {24, 48, 56, 40, 60},
    {24, 48, 56, 40, 60},
};

static inline int nccl_open(struct nccl_driver *driver, const char *path, int version)
{
    char symbol[32];

    snprintf(symbol, sizeof(symbol), "ncclProfiler_v%d", version);
    driver->version = version;
    driver->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    driver->table = driver->library == NULL ? NULL : dlsym(driver->library, symbol);
    return driver->table == NULL ? -1 : 0;
}

static inline int nccl_init_as(const struct nccl_driver *driver, void **context, int *mask,
                               const char *name, int nodes, int ranks, int rank)
{
    typedef int (*init_v1)(void **, int *);
    typedef int (*init_v4)(void **, int *, const char *, uint64_t, int, int, int, void *);
    typedef int (*init_v5)(void **, uint64_t, int *, const char *, int, int, int, void *);

    if (driver->version < 4)
        return ((init_v1)driver->table->init)(context, mask);
    if (driver->version == 4)
        return ((init_v4)driver->table->init)(context, mask, name, 77, nodes, ranks, rank, NULL);
    return ((init_v5)driver->table->init)(context, 77, mask, name, nodes, ranks, rank, NULL);
}

static inline void nccl_put(char *descriptor, size_t offset, const void *value, size_t size)
{
    if (offset != 0)
        memcpy(descriptor + offset, value, size);
}

/* Garbage first: what a version does not define may hold anything. */
static inline void nccl_describe(const struct nccl_driver *driver, char *descriptor, uint64_t type,
                                 void *parent)
{
    memset(descriptor, 0x5a, NCCL_DESCRIPTOR_BYTES);
    memcpy(descriptor, &type, driver->version < 5 ? 1 : 8);
    nccl_put(descriptor, 8, &parent, sizeof(parent));
}

static inline void *nccl_start(const struct nccl_driver *driver, void *context, void *descriptor)
{
    void *handle = (void *)(uintptr_t)0x77; /* must be overwritten */

    driver->table->start(context, &handle, descriptor);
    return handle;
}

static inline void nccl_put_word(const struct nccl_driver *driver, char *descriptor, size_t offset,
                                 const struct nccl_word *word)
{
    if (driver->version == 1)
        nccl_put(descriptor, offset, &word->number, 1);
    else
        nccl_put(descriptor, offset, &word->text, sizeof(word->text));
}

static inline void *nccl_start_task(const struct nccl_driver *driver, void *context, uint64_t type,
                                    void *parent, const struct nccl_word *function, size_t count,
                                    const struct nccl_word *datatype, int peer, uint8_t channels)
{
    const struct nccl_task_layout *layout = type == NCCL_COLL ? &nccl_coll_layouts[driver->version]
                                                              : &nccl_p2p_layouts[driver->version];
    char descriptor[NCCL_DESCRIPTOR_BYTES];

    nccl_describe(driver, descriptor, type, parent);
    nccl_put_word(driver, descriptor, layout->function, function);
    nccl_put(descriptor, layout->count, &count, sizeof(count));
    nccl_put(descriptor, layout->peer, &peer, sizeof(peer));
    nccl_put_word(driver, descriptor, layout->datatype, datatype);
    if (type == NCCL_COLL || driver->version > 4)
        nccl_put(descriptor, layout->channels, &channels, sizeof(channels));
    if (driver->version > 4)
        nccl_put(descriptor, type == NCCL_COLL ? 104 : 64, &driver->group, sizeof(driver->group));
    return nccl_start(driver, context, descriptor);
}

/* CollApi and P2pApi; from version 5. */
static inline void *nccl_start_call(const struct nccl_driver *driver, void *context, uint64_t type,
                                    void *parent, const struct nccl_word *function, size_t count,
                                    const struct nccl_word *datatype, int root, uint8_t is_captured)
{
    char descriptor[NCCL_DESCRIPTOR_BYTES];

    nccl_describe(driver, descriptor, type, parent);
    nccl_put(descriptor, 24, &function->text, sizeof(function->text));
    nccl_put(descriptor, 32, &count, sizeof(count));
    nccl_put(descriptor, 40, &datatype->text, sizeof(datatype->text));
    if (type == NCCL_COLL_API)
        nccl_put(descriptor, 48, &root, sizeof(root));
    nccl_put(descriptor, type == NCCL_COLL_API ? 64 : 56, &is_captured, 1);
    return nccl_start(driver, context, descriptor);
}

static inline void *nccl_start_group_api(const struct nccl_driver *driver, void *context)
{
    char descriptor[NCCL_DESCRIPTOR_BYTES];
    const uint8_t is_captured = 0;

    nccl_describe(driver, descriptor, NCCL_GROUP_API, NULL);
    nccl_put(descriptor, 24, &is_captured, 1);
    return nccl_start(driver, context, descriptor);
}

static inline void *nccl_start_kernel(const struct nccl_driver *driver, void *context, void *parent,
                                      uint8_t channel, uint64_t gpu_ns)
{
    char descriptor[NCCL_DESCRIPTOR_BYTES];

    nccl_describe(driver, descriptor, NCCL_KERNEL_CH, parent);
    nccl_put(descriptor, 24, &channel, 1);
    if (driver->version > 3)
        nccl_put(descriptor, 32, &gpu_ns, sizeof(gpu_ns));
    return nccl_start(driver, context, descriptor);
}

/* The state, from version 4, and the stop, as NCCL does. */
static inline void nccl_stop_kernel(const struct nccl_driver *driver, void *handle, uint64_t gpu_ns)
{
    uint64_t arguments = gpu_ns;

    if (handle == NULL)
        return;
    if (driver->version > 3)
        driver->table->record(handle, NCCL_KERNEL_CH_STOP, &arguments);
    driver->table->stop(handle);
}

static inline void *nccl_start_proxy_op(const struct nccl_driver *driver, void *context,
                                        void *parent, int pid)
{
    char descriptor[NCCL_DESCRIPTOR_BYTES];

    nccl_describe(driver, descriptor, NCCL_PROXY_OP, parent);
    nccl_put(descriptor, 24, &pid, sizeof(pid));
    return nccl_start(driver, context, descriptor);
}

#endif
