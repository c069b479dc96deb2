/*
 * The emulated libnccl.so.2, inside: communicators, work, the profiler plugin.
 *
 * It moves no data and talks to no other rank. A call becomes work on the caller's stream
 * (emulator/stream.h), and the profiler plugin receives the same callbacks as from NCCL: on the
 * same threads, with the same parents, in the same order.
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

/* The first eight have the numbers that version 1 of the plugin gives them. */
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

/* Documented bugs of NCCL. LULL_EMULATED_NCCL_FAULTS switches them on, as a comma list of names. */
enum nccl_fault {
    NCCL_FAULT_STALE_STOP = 1, /* when CollApi is switched off, calls stop the last handle again */
    NCCL_FAULT_STOP_BEFORE_START =
        2,                       /* a channel's stop comes before its start, at an earlier time */
    NCCL_FAULT_LOST_RECORDS = 4, /* some channels never start, others never stop */
    NCCL_FAULT_FOREIGN_PID = 8,  /* proxy operations carry pointers of another process */
};

/* A communicator; its address is the ncclComm_t. */
struct lull_nccl_comm {
    _Atomic int references; /* held by the handle and by each work that has not ended */
    int rank;
    int ranks;
    int nodes;
    int device;
    uint64_t hash;
    const char *name; /* borrowed until it is initialised, as NCCL does */
    void *context;    /* the plugin's context; NULL: the plugin does not profile it */
    uint64_t sequences[NCCL_FUNCTIONS];

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    struct lull_nccl_work *posted; /* works that the progress thread knows, oldest first */
    struct lull_nccl_work **posted_end;
    uint32_t running; /* number of works that are enqueued and have not ended */
    bool is_stopping;
    bool has_thread;
    pthread_t thread;
};

/* One operation as the plugin sees it, with its Coll or P2p event. */
struct lull_nccl_task {
    enum nccl_function function;
    uint64_t sequence;
    const void *send;
    void *receive;
    size_t count;
    int datatype;
    int peer; /* or root */
    uint64_t bytes;
    uint8_t channels;
    int mask;         /* activation mask when it was appended, with all ancestors */
    void *api_handle; /* handle of its CollApi or P2pApi event */
    void *handle;     /* handle of its Coll or P2p event */
    void *channel_handles[NCCL_MAX_CHANNELS];
};

/* One kernel on a stream: a collective, one Send or Recv, or a whole AlltoAll. */
struct lull_nccl_work {
    _Atomic int references;   /* held by the stream, the progress thread and the group */
    _Atomic int64_t begin_ns; /* the GPU's %globaltimer; 0: it has not begun */
    _Atomic int64_t end_ns;
    struct lull_nccl_comm *comm;
    void *stream;
    const char *function;
    uint64_t bytes;
    int peer;
    uint64_t number;  /* its number in the process, which selects the works that faults affect */
    bool has_started; /* its start has been reported; only the progress thread uses it */
    struct lull_nccl_work *next; /* the next work of the group */
    struct lull_nccl_work *next_posted;
    uint32_t task_count;
    struct lull_nccl_task tasks[];
};

/* A plugin event, independent of the version. Only the members of its type are used. */
struct lull_nccl_report {
    uint64_t type;
    void *parent; /* the parent from version 5 on */
    void *group;  /* the Group event, which is the parent up to version 4 */
    const struct lull_nccl_comm *comm;
    const struct lull_nccl_task *task;
    void *stream;
    int depth;
    uint8_t channel;
    int64_t timer_ns;
    int pid;
};

/* ---- nccl_plugin.c ---- */

/* The version that LULL_EMULATED_NCCL_VERSION names, 22809 by default, and the faults switched on.
 */
int nccl_version(void);
unsigned nccl_faults(void);

/*
 * Initialises the plugin for a communicator, loading it if this is the first one. The
 * communicator's context stays NULL where there is no plugin or it refuses.
 */
void nccl_plugin_init(struct lull_nccl_comm *comm);

/* Finalises the plugin for the communicator; the last one unloads it. */
void nccl_plugin_finalize(struct lull_nccl_comm *comm);

/* The activation mask of the process: with all ancestors, without events that this plugin cannot
 * get. */
int nccl_plugin_mask(void);

/* Returns whether the loaded plugin's version is at least this. */
bool nccl_plugin_is(int version);

/* Calls startEvent with the communicator's context, or with a foreign one, and returns the handle.
 */
void *nccl_plugin_start(const struct lull_nccl_report *event);
void *nccl_plugin_start_foreign(void *context, void *parent, const struct lull_nccl_report *event);

/* Call stopEvent and recordEventState, unless the handle is NULL, as NCCL does. */
void nccl_plugin_stop(void *handle);
void nccl_plugin_state(void *handle, int state, const union nccl_state_arguments *arguments);

/* NCCL's names of the functions. */
extern const char *const nccl_function_names[NCCL_FUNCTIONS];

/* The size of a datatype in bytes; 0: there is none of that number. */
size_t nccl_datatype_bytes(int datatype);

/* ---- nccl_progress.c: the progress thread, and the data that it shares with the works ---- */

void nccl_progress_start(struct lull_nccl_comm *comm);

/* Ends the thread. Unless is_abort, it first waits a few seconds at most for running kernels. */
void nccl_progress_stop(struct lull_nccl_comm *comm, bool is_abort);

/* Passes a work to the progress thread, after its Coll and P2p events have been reported. */
void nccl_progress_post(struct lull_nccl_work *work);

/* Drops one reference; the last one frees. */
void nccl_work_release(struct lull_nccl_work *work);
void nccl_comm_release(struct lull_nccl_comm *comm);

/* ---- nccl_work.c: from a call to the stream ---- */

struct lull_nccl_call {
    enum nccl_function function;
    const void *send;
    void *receive;
    size_t count;
    int datatype;
    int peer; /* or root; -1 */
    struct lull_nccl_comm *comm;
    void *stream;
};

/* Makes a public call: appends it to the open group of this thread, or launches it at once. */
int nccl_call(const struct lull_nccl_call *call);

/* Begin a group, and end one: the user's or the one that every call makes. */
int nccl_group_begin(void);
int nccl_group_end(bool is_users);

/* Initialises the communicator on a thread of its own, now or when the open group ends. */
int nccl_group_init(struct lull_nccl_comm *comm);

#endif
