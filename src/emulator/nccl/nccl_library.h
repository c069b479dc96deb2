/*
 * The emulated libnccl.so.2, inside: communicators, work, the profiler plugin.
 *
 * It moves no data and talks to no other rank. A call becomes work on the caller's stream
 * (emulator/stream.h), and the profiler plugin is told of it as NCCL tells it: which callback on
 * which thread, with which parents, in which order.
 *
 * Threads: application threads call the public functions; the GPU thread of the player calls
 * nccl_work's began and ended; one progress thread per communicator reports the kernels.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_NCCL_LIBRARY_H
#define LULL_EMULATOR_NCCL_LIBRARY_H

#include <pthread.h>
#include <stdatomic.h>

#include "emulator/nccl/nccl_abi.h"

enum { NCCL_MAX_CHANNELS = 16 };

/* The first eight have the numbers of plugin v1. */
enum nccl_function {
    NCCL_BROADCAST,
    NCCL_REDUCE,
    NCCL_ALL_GATHER,
    NCCL_REDUCE_SCATTER,
    NCCL_ALL_REDUCE,
    NCCL_SEND_RECV,
    NCCL_SEND,
    NCCL_RECV,
    NCCL_ALL_TO_ALL,
    NCCL_GATHER,
    NCCL_SCATTER,
    NCCL_PUT_SIGNAL,
    NCCL_SIGNAL,
    NCCL_WAIT_SIGNAL,
    NCCL_FUNCTIONS
};

/* Documented bugs that LULL_EMULATED_NCCL_FAULTS switches on, a comma list of their names. */
enum nccl_fault {
    NCCL_FAULT_STALE_STOP = 1,        /* CollApi switched off: calls stop the last handle again */
    NCCL_FAULT_STOP_BEFORE_START = 2, /* a channel's stop comes first, its time is earlier */
    NCCL_FAULT_LOST_RECORDS = 4,      /* some channels are never told, others never stop */
    NCCL_FAULT_FOREIGN_PID = 8,       /* proxy operations with another process' pointers */
};

/* A communicator; its address is ncclComm_t. */
struct nccl_comm {
    _Atomic int references; /* the handle, and each work that has not ended */
    int rank;
    int ranks;
    int nodes;
    int device;
    uint64_t hash;
    const char *name; /* borrowed for init, as NCCL does */
    void *context;    /* the plugin's; NULL: not profiled */
    uint64_t sequences[NCCL_FUNCTIONS];

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    struct nccl_work *posted; /* told to the progress thread, oldest first */
    struct nccl_work **posted_end;
    uint32_t running; /* enqueued, not ended */
    bool is_stopping;
    bool has_thread;
    pthread_t thread;
};

/* One operation as the plugin sees it: a Coll or P2p event. */
struct nccl_task {
    enum nccl_function function;
    uint64_t sequence;
    const void *send;
    void *receive;
    size_t count;
    int datatype;
    int peer; /* or root */
    uint64_t bytes;
    uint8_t channels;
    int mask;         /* when it was appended, with all ancestors */
    void *api_handle; /* its CollApi or P2pApi event */
    void *handle;     /* its Coll or P2p event */
    void *channel_handles[NCCL_MAX_CHANNELS];
};

/* One kernel on a stream: a collective, one Send or Recv, or all of an AlltoAll. */
struct nccl_work {
    _Atomic int references;   /* the stream, the progress thread, the group */
    _Atomic int64_t begin_ns; /* %globaltimer; 0 not yet */
    _Atomic int64_t end_ns;
    struct nccl_comm *comm;
    void *stream;
    const char *function;
    uint64_t bytes;
    int peer;
    uint64_t number;        /* counts the works of the process; faults go by it */
    bool has_started;       /* progress thread: its start has been told */
    struct nccl_work *next; /* in the group */
    struct nccl_work *next_posted;
    uint32_t task_count;
    struct nccl_task tasks[];
};

/* A plugin event, free of versions; only the members of its type count. */
struct nccl_event {
    uint64_t type;
    void *parent; /* of v5 on */
    void *group;  /* the Group event: the parent up to v4 */
    const struct nccl_comm *comm;
    const struct nccl_task *task;
    void *stream;
    int depth;
    uint8_t channel;
    int64_t timer_ns;
    int pid;
};

/* ---- nccl_plugin.c ---- */

/* The version that LULL_EMULATED_NCCL_VERSION names, e.g. 22809; and the faults switched on. */
int nccl_version(void);
unsigned nccl_faults(void);

/*
 * Initialises the plugin for a communicator, loading it if this is the first one. The
 * communicator's context stays NULL where there is no plugin or it refuses.
 */
void nccl_plugin_init(struct nccl_comm *comm);

/* Finalises it for the communicator; the last one unloads it. */
void nccl_plugin_finalize(struct nccl_comm *comm);

/* The process-wide activation mask with all ancestors, without what this plugin cannot get. */
int nccl_plugin_mask(void);

/* Whether the loaded plugin's version is at least this. */
bool nccl_plugin_is(int version);

/* startEvent for the communicator's context, or a foreign one; gives the handle. */
void *nccl_plugin_start(const struct nccl_event *event);
void *nccl_plugin_start_foreign(void *context, void *parent, const struct nccl_event *event);

/* stopEvent and recordEventState; a NULL handle is passed over, as NCCL does. */
void nccl_plugin_stop(void *handle);
void nccl_plugin_state(void *handle, int state, const union nccl_state_arguments *arguments);

/* ---- nccl_progress.c: the progress thread ---- */

void nccl_progress_start(struct nccl_comm *comm);

/* Waits for running kernels, a few seconds at most, unless is_abort; then ends the thread. */
void nccl_progress_stop(struct nccl_comm *comm, bool is_abort);

/* Hands a work whose Coll and P2p events have been told to the progress thread. */
void nccl_progress_post(struct nccl_work *work);

/* ---- nccl_work.c: from a call to the stream ---- */

extern const char *const nccl_function_names[NCCL_FUNCTIONS];

/* Bytes of a datatype; 0 none such. */
size_t nccl_datatype_bytes(int datatype);

struct nccl_call {
    enum nccl_function function;
    const void *send;
    void *receive;
    size_t count;
    int datatype;
    int peer; /* or root; -1 */
    struct nccl_comm *comm;
    void *stream;
};

/* A public call: appends it to the group of this thread, or launches it at once. */
int nccl_call(const struct nccl_call *call);

/* ncclGroupStart; and the end of a group, the user's or the one that every call makes. */
int nccl_group_begin(void);
int nccl_group_end(bool is_users);

/* Initialises the communicator on a job thread of its own: now, or when the group ends. */
int nccl_group_init(struct nccl_comm *comm);

void nccl_work_release(struct nccl_work *work);
void nccl_comm_release(struct nccl_comm *comm);

#endif
