/*
 * The plugin's side of the emulated NCCL: it loads the plugin, keeps its mask and fills in the
 * descriptors as the emulated version of NCCL fills them in for a plugin of the loaded version. If
 * NCCL's behaviour depends on both versions, the emulation follows it, because a plugin must handle
 * it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/nccl/nccl_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* NCCL loads one plugin per process, hence this global. */
static struct {
    pthread_mutex_t mutex;
    int references;
    bool has_failed; /* loading has failed; NCCL does not try again in this process */
    void *library;
    int version; /* version of the table, 1..7 */
    const struct nccl_plugin_table *table;
    _Atomic int mask;
} plugin = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- emulated versions ---- */

static struct {
    pthread_once_t once;
    int version;
    unsigned faults;
} emulated = {.once = PTHREAD_ONCE_INIT};

static void read_environment(void)
{
    static const char *const names[] = {"stale_stop", "stop_before_start", "lost_records",
                                        "foreign_pid"};
    const char *version_text = getenv("LULL_EMULATED_NCCL_VERSION");
    const char *faults_text = getenv("LULL_EMULATED_NCCL_FAULTS");
    int64_t version = 22809;

    if (version_text != NULL)
        lull_text_parse_int(version_text, 20000, 99999, &version);
    emulated.version = (int)version;
    for (unsigned i = 0; faults_text != NULL && i < sizeof(names) / sizeof(names[0]); i++)
        if (strstr(faults_text, names[i]) != NULL)
            emulated.faults |= 1u << i;
}

int nccl_version(void)
{
    pthread_once(&emulated.once, read_environment);
    return emulated.version;
}

unsigned nccl_faults(void)
{
    pthread_once(&emulated.once, read_environment);
    return emulated.faults;
}

/* The newest version of the plugin's table that this version of NCCL looks for; 0: none. */
static int newest_plugin_version(void)
{
    static const int since[NCCL_PROFILER_VERSIONS] = {22304, 22403, 22602, 22703,
                                                      22803, 22902, 23100};
    int version = 0;

    while (version < NCCL_PROFILER_VERSIONS && nccl_version() >= since[version])
        version++;
    return version;
}

/* ---- loading ---- */

static void *nccl_plugin_open_library(const char *name)
{
    char path[4096];
    const size_t length = strlen(name);
    const bool is_file_name =
        strncmp(name, "lib", 3) == 0 && length > 3 && strcmp(name + length - 3, ".so") == 0;
    void *library;

    if (strcmp(name, "STATIC_PLUGIN") == 0)
        return dlopen(NULL, RTLD_NOW | RTLD_LOCAL);
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL || strchr(name, '/') != NULL || is_file_name)
        return library;
    snprintf(path, sizeof(path), "libnccl-profiler-%s.so", name);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static const struct nccl_plugin_table *nccl_plugin_find_table(void *library, int *version_out)
{
    for (int version = newest_plugin_version(); version > 0; version--) {
        char symbol[32];
        const struct nccl_plugin_table *table;

        snprintf(symbol, sizeof(symbol), "ncclProfiler_v%d", version);
        table = dlsym(library, symbol);
        if (table != NULL) {
            *version_out = version;
            return table;
        }
    }
    return NULL;
}

static void load_locked(void)
{
    const char *name = getenv("NCCL_PROFILER_PLUGIN");

    if (plugin.table != NULL || plugin.has_failed)
        return;
    plugin.has_failed = true;
    if (name != NULL && strcmp(name, "none") == 0)
        return;
    plugin.library = nccl_plugin_open_library(name != NULL ? name : "libnccl-profiler.so");
    if (plugin.library == NULL)
        return;
    plugin.table = nccl_plugin_find_table(plugin.library, &plugin.version);
    if (plugin.table == NULL) {
        dlclose(plugin.library);
        return;
    }
    plugin.has_failed = false;
}

static bool take_reference(void)
{
    bool is_loaded;

    pthread_mutex_lock(&plugin.mutex);
    load_locked();
    is_loaded = plugin.table != NULL;
    if (is_loaded)
        plugin.references++;
    pthread_mutex_unlock(&plugin.mutex);
    return is_loaded;
}

static void drop_reference(void)
{
    pthread_mutex_lock(&plugin.mutex);
    if (--plugin.references == 0) {
        dlclose(plugin.library);
        plugin.table = NULL;
        plugin.library = NULL;
    }
    pthread_mutex_unlock(&plugin.mutex);
}

/* ---- life ---- */

static void log_nothing(int level, unsigned long flags, const char *file, int line,
                        const char *format, ...)
{
    (void)level, (void)flags, (void)file, (void)line, (void)format;
}

static int nccl_plugin_call_init(struct lull_nccl_comm *comm, void **context, int *mask)
{
    void (*init)(void) = plugin.table->init;

    if (plugin.version <= 3)
        return ((nccl_init_v1)init)(context, mask);
    if (plugin.version == 4)
        return ((nccl_init_v4)init)(context, mask, comm->name, comm->hash, comm->nodes, comm->ranks,
                                    comm->rank, log_nothing);
    return ((nccl_init_v5)init)(context, comm->hash, mask, comm->name, comm->nodes, comm->ranks,
                                comm->rank, log_nothing);
}

void nccl_plugin_init(struct lull_nccl_comm *comm)
{
    void *context = NULL;

    if (!take_reference())
        return;
    /* The plugin gets the address of the one mask that all communicators share, and may keep it. */
    if (nccl_plugin_call_init(comm, &context, (int *)&plugin.mask) != NCCL_SUCCESS ||
        context == NULL) {
        drop_reference();
        return;
    }
    comm->context = context;
}

void nccl_plugin_finalize(struct lull_nccl_comm *comm)
{
    if (comm->context == NULL)
        return;
    plugin.table->finalize(comm->context);
    comm->context = NULL;
    drop_reference();
}

bool nccl_plugin_is(int version)
{
    return plugin.version >= version;
}

int nccl_plugin_mask(void)
{
    int mask = atomic_load_explicit(&plugin.mask, memory_order_relaxed);

    if (mask & NCCL_EVENT_KERNEL_PHASE)
        mask |= NCCL_EVENT_KERNEL_CH;
    if (mask & NCCL_EVENT_NET_PLUGIN)
        mask |= NCCL_EVENT_PROXY_STEP;
    if (mask & NCCL_EVENT_PROXY_STEP)
        mask |= NCCL_EVENT_PROXY_OP;
    if (plugin.version < 3 || nccl_version() < 22602)
        mask &= ~NCCL_EVENT_KERNEL_CH;
    if (mask & (NCCL_EVENT_PROXY_OP | NCCL_EVENT_KERNEL_CH))
        mask |= NCCL_EVENT_COLL | NCCL_EVENT_P2P;
    if (mask & NCCL_EVENT_COLL)
        mask |= NCCL_EVENT_GROUP | NCCL_EVENT_COLL_API;
    if (mask & NCCL_EVENT_P2P)
        mask |= NCCL_EVENT_GROUP | NCCL_EVENT_P2P_API;
    if (mask & (NCCL_EVENT_COLL_API | NCCL_EVENT_P2P_API | NCCL_EVENT_KERNEL_LAUNCH))
        mask |= NCCL_EVENT_GROUP_API;
    /* Up to version 4 the mask has eight bits. */
    return plugin.version < 5 ? mask & 0xff : mask;
}

/* ---- descriptors ---- */

const char *const nccl_function_names[NCCL_FUNCTIONS] = {
    "Broadcast", "Reduce",   "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send",
    "Recv",      "AlltoAll", "Gather",    "Scatter",       "PutSignal", "Signal",   "WaitSignal"};

size_t nccl_datatype_bytes(int datatype)
{
    static const uint8_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

    if (datatype >= 0 && (size_t)datatype < sizeof(sizes))
        return sizes[datatype];
    return 0;
}

static const char *const datatype_names[] = {"ncclInt8",     "ncclUint8",      "ncclInt32",
                                             "ncclUint32",   "ncclInt64",      "ncclUint64",
                                             "ncclFloat16",  "ncclFloat32",    "ncclFloat64",
                                             "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};

/* NCCL's numbers of the algorithm RING and the protocol SIMPLE. */
enum { RING = 1, SIMPLE = 2 };

/* The count in a Coll event. NCCL reports AllGather and Broadcast in bytes. */
static size_t nccl_plugin_event_count(const struct lull_nccl_task *task)
{
    if (task->function == NCCL_ALL_GATHER || task->function == NCCL_BROADCAST)
        return task->count * nccl_datatype_bytes(task->datatype);
    return task->count;
}

static int nccl_plugin_event_datatype(const struct lull_nccl_task *task)
{
    if (task->function == NCCL_ALL_GATHER || task->function == NCCL_BROADCAST)
        return 0;
    return task->datatype;
}

/* The rank that an event carries; only events of these types carry one. */
static int nccl_plugin_rank_of(const struct lull_nccl_report *event)
{
    const uint64_t with_rank = NCCL_EVENT_COLL | NCCL_EVENT_P2P | NCCL_EVENT_PROXY_OP;

    if (event->type & with_rank)
        return event->comm->rank;
    return 0;
}

/* The communicator's hash as old plugins get it; NCCL 2.27 and later give them none. */
static uint64_t nccl_plugin_event_hash(const struct lull_nccl_report *event)
{
    if (nccl_version() >= 22700)
        return 0;
    return event->comm->hash;
}

static struct nccl_proxy_op proxy_op_of(const struct lull_nccl_report *event)
{
    return (struct nccl_proxy_op){.pid = event->pid,
                                  .channel = event->channel,
                                  .peer = event->task->peer,
                                  .steps = 1,
                                  .chunk_bytes = 1 << 17,
                                  .is_send = event->task->function != NCCL_RECV};
}

static void fill_v1(const struct lull_nccl_report *event, struct nccl_descriptor_v1 *out)
{
    const struct lull_nccl_task *task = event->task;

    if (event->type == NCCL_EVENT_COLL) {
        out->coll.hash = nccl_plugin_event_hash(event);
        out->coll.sequence = task->sequence;
        out->coll.function = (uint8_t)task->function;
        out->coll.send = task->send;
        out->coll.receive = task->receive;
        out->coll.count = nccl_plugin_event_count(task);
        out->coll.root = task->peer;
        out->coll.datatype = (uint8_t)nccl_plugin_event_datatype(task);
        out->coll.max_channels = task->channels;
        out->coll.algorithm = RING;
        out->coll.protocol = SIMPLE;
    } else if (event->type == NCCL_EVENT_P2P) {
        out->p2p.hash = nccl_plugin_event_hash(event);
        out->p2p.function = (uint8_t)task->function;
        out->p2p.buffer = task->receive;
        out->p2p.datatype = (uint8_t)task->datatype;
        out->p2p.count = task->count;
        out->p2p.peer = task->peer;
    } else if (event->type == NCCL_EVENT_PROXY_OP) {
        out->proxy_op = proxy_op_of(event);
    }
}

static void fill_v2(const struct lull_nccl_report *event, struct nccl_descriptor_v2 *out)
{
    const struct lull_nccl_task *task = event->task;

    if (event->type == NCCL_EVENT_COLL) {
        const struct nccl_tail_v2 tail = {
            .max_channels = task->channels, .algorithm = "RING", .protocol = "SIMPLE"};

        out->coll.hash = nccl_plugin_event_hash(event);
        out->coll.sequence = task->sequence;
        out->coll.function = nccl_function_names[task->function];
        out->coll.send = task->send;
        out->coll.receive = task->receive;
        out->coll.count = nccl_plugin_event_count(task);
        out->coll.root = task->peer;
        out->coll.datatype = datatype_names[nccl_plugin_event_datatype(task)];
        if (plugin.version == 2)
            out->coll.v2.tail = tail;
        else
            out->coll.v3 = tail;
    } else if (event->type == NCCL_EVENT_P2P) {
        out->p2p.hash = nccl_plugin_event_hash(event);
        out->p2p.function = nccl_function_names[task->function];
        out->p2p.buffer = task->receive;
        out->p2p.datatype = datatype_names[task->datatype];
        out->p2p.count = task->count;
        out->p2p.peer = task->peer;
    } else if (event->type == NCCL_EVENT_PROXY_OP) {
        out->proxy_op = proxy_op_of(event);
    } else if (event->type == NCCL_EVENT_KERNEL_CH) {
        out->kernel_ch.channel = event->channel;
    }
}

static void fill_coll_v4(const struct lull_nccl_report *event, struct nccl_descriptor_v4 *out)
{
    const struct lull_nccl_task *task = event->task;

    out->coll.sequence = task->sequence;
    out->coll.function = nccl_function_names[task->function];
    out->coll.send = task->send;
    out->coll.receive = task->receive;
    out->coll.count = nccl_plugin_event_count(task);
    out->coll.root = task->peer;
    out->coll.datatype = datatype_names[nccl_plugin_event_datatype(task)];
    out->coll.channels = task->channels;
    out->coll.warps = 16;
    out->coll.algorithm = "RING";
    out->coll.protocol = "SIMPLE";
    if (plugin.version >= 5)
        out->coll.parent_group = event->group;
}

static void fill_p2p_v4(const struct lull_nccl_report *event, struct nccl_descriptor_v4 *out)
{
    const struct lull_nccl_task *task = event->task;

    out->p2p.function = nccl_function_names[task->function];
    out->p2p.buffer = task->receive;
    out->p2p.datatype = datatype_names[task->datatype];
    out->p2p.count = task->count;
    out->p2p.peer = task->peer;
    /* Newer NCCL does not write this field for old plugins, so they read an undefined value.
     */
    out->p2p.channels = plugin.version == 4 && nccl_version() >= 22800 ? 0xa5 : task->channels;
    if (plugin.version >= 5)
        out->p2p.parent_group = event->group;
}

static void fill_v4(const struct lull_nccl_report *event, struct nccl_descriptor_v4 *out)
{
    const struct lull_nccl_task *task = event->task;

    switch (event->type) {
    case NCCL_EVENT_COLL:
        fill_coll_v4(event, out);
        break;
    case NCCL_EVENT_P2P:
        fill_p2p_v4(event, out);
        break;
    case NCCL_EVENT_PROXY_OP:
        out->proxy_op = proxy_op_of(event);
        break;
    case NCCL_EVENT_KERNEL_CH:
        out->kernel_ch.channel = event->channel;
        out->kernel_ch.timer = (uint64_t)event->timer_ns;
        break;
    case NCCL_EVENT_GROUP_API:
        out->group_api.depth = event->depth;
        break;
    case NCCL_EVENT_COLL_API:
        out->coll_api.function = nccl_function_names[task->function];
        out->coll_api.count = task->count;
        out->coll_api.datatype = datatype_names[task->datatype];
        out->coll_api.root = task->peer;
        out->coll_api.stream = event->stream;
        break;
    case NCCL_EVENT_P2P_API:
        out->p2p_api.function = nccl_function_names[task->function];
        out->p2p_api.count = task->count;
        out->p2p_api.datatype = datatype_names[task->datatype];
        out->p2p_api.stream = event->stream;
        break;
    case NCCL_EVENT_KERNEL_LAUNCH:
        out->kernel_launch.stream = event->stream;
        break;
    default:
        break;
    }
}

void *nccl_plugin_start_foreign(void *context, void *parent, const struct lull_nccl_report *event)
{
    union nccl_descriptor descriptor;
    void *handle = NULL;

    memset(&descriptor, 0, sizeof(descriptor));
    descriptor.v4.type =
        event->type; /* on little endian this also sets the one byte that v1 to v4 have */
    descriptor.v4.parent = parent;
    descriptor.v4.rank = nccl_plugin_rank_of(event);
    if (plugin.version == 1)
        fill_v1(event, &descriptor.v1);
    else if (plugin.version <= 3)
        fill_v2(event, &descriptor.v2);
    else
        fill_v4(event, &descriptor.v4);
    if (plugin.table->start_event(context, &handle, &descriptor) != NCCL_SUCCESS)
        return NULL;
    return handle;
}

void *nccl_plugin_start(const struct lull_nccl_report *event)
{
    const bool has_group_parent =
        plugin.version < 5 && (event->type == NCCL_EVENT_COLL || event->type == NCCL_EVENT_P2P);

    return nccl_plugin_start_foreign(event->comm->context,
                                     has_group_parent ? event->group : event->parent, event);
}

void nccl_plugin_stop(void *handle)
{
    if (handle != NULL)
        plugin.table->stop_event(handle);
}

void nccl_plugin_state(void *handle, int state, const union nccl_state_arguments *arguments)
{
    union nccl_state_arguments copy;

    if (handle == NULL)
        return;
    if (arguments != NULL)
        copy = *arguments;
    plugin.table->record_state(handle, state, arguments != NULL ? &copy : NULL);
}
