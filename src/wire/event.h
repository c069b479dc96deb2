/*
 * Events: what the probes in a job's processes report to the governor, through shared memory.
 *
 * One segment per job and node: a file in /dev/shm that `lull run` creates (mode 0600), keeps
 * locked (wire/job_file.h) and names in LULL_JOB. A process claims one slot, which holds its
 * identity, its names of user sections and a ring of fixed-size events with many producers (its
 * threads) and one consumer (the governor).
 * All probes of one process share its slot. A full ring drops the event and counts it; a producer
 * never blocks, allocates or logs. Producers ring one doorbell (a futex word) only when the
 * governor sleeps on it.
 *
 * The reader trusts nothing that a process wrote: indices are masked, counts bounded, text cut.
 * If the file is cut off, the reader continues with an empty segment; a producer ends by SIGBUS.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_WIRE_EVENT_H
#define LULL_WIRE_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define LULL_JOB_ENV "LULL_JOB" /* path of the segment */

/* The user's NCCL profiler plugin, in whose place NCCL loads Lull's; see probe/nccl_chain.h. */
#define LULL_NCCL_CHAIN_ENV "LULL_NCCL_CHAIN"
#define LULL_NVTX_CHAIN_ENV "LULL_NVTX_CHAIN"

enum {
    LULL_JOB_MAX_PROCESSES = 256,
    LULL_JOB_RING_EVENTS = 4096, /* per process; a power of two */
    LULL_JOB_MAX_NAMES = 64,     /* names of user sections per process */
    LULL_JOB_NAME_BYTES = 48,    /* NUL included */
    LULL_JOB_MAX_THREADS = 64,   /* numbered threads per process; the last number is shared */
    LULL_JOB_MAX_WINDOWS = 64,   /* energy windows that a process may have open */
    LULL_JOB_MAX_GPUS = 16,      /* GPUs that a process reports */
};

#define LULL_EVENT_NO_COMMUNICATOR UINT32_MAX

enum lull_event_kind {
    LULL_EVENT_BEGIN = 1, /* the calling thread enters a section */
    LULL_EVENT_END,       /* the same thread leaves it */
    LULL_EVENT_POST,      /* a non-blocking operation was started; its wait is a section */
    LULL_EVENT_STEP,      /* lull_step(): the program's own iteration boundary */
    LULL_EVENT_EXIT,      /* the process leaves the job normally (MPI_Finalize, exit) */
    LULL_EVENT_ENTER,     /* the process has entered the job (MPI_Init returned) */

    /* These come from jobs whose communication runs on the GPU. The host runs ahead of the GPU. */
    LULL_EVENT_ENQUEUE,      /* a communication operation was enqueued (host) */
    LULL_EVENT_KERNEL_BEGIN, /* its kernel started on the GPU; it may still wait for its peers */
    LULL_EVENT_KERNEL_END,   /* its kernel ended on the GPU */
    LULL_EVENT_COMPUTE,      /* compute kernels ran from time_ns for bytes ns; reported late */
    LULL_EVENT_COMPLETE, /* every compute run that began before time_ns is reported; bytes: how many
                            kernels were dropped; peer: -errno, recording kernels has failed and
                            ends here */
    LULL_EVENT_COMMUNICATOR, /* announces a communicator: ranks; bytes: its nodes; peer: own rank
                              * in it; name: its name, LULL_JOB_MAX_NAMES without one; thread: an
                              * id that is equal in all of its ranks, 0 without one */

    /* These mark energy windows, from any thread; bytes: the window's number in the process. No
     * other window that is open has the same remainder by LULL_JOB_MAX_WINDOWS. */
    LULL_EVENT_WINDOW_BEGIN, /* name: its name */
    LULL_EVENT_WINDOW_END,
};

/* Optional work that the governor may request from a process's probes. The rest costs almost
 * nothing. */
enum lull_ask {
    LULL_ASK_TIMES = 1,   /* KERNEL_BEGIN and KERNEL_END */
    LULL_ASK_COMPUTE = 2, /* COMPUTE and COMPLETE */
};

/* The operation of a section. Values are part of the segment's format: append only. */
enum lull_operation {
    LULL_OPERATION_NONE = 0,
    LULL_OPERATION_USER, /* named by the program; see struct lull_event.name */
    LULL_OPERATION_ALLREDUCE,
    LULL_OPERATION_REDUCE,
    LULL_OPERATION_REDUCE_SCATTER,
    LULL_OPERATION_ALLGATHER,
    LULL_OPERATION_GATHER,
    LULL_OPERATION_SCATTER,
    LULL_OPERATION_BROADCAST,
    LULL_OPERATION_ALLTOALL,
    LULL_OPERATION_BARRIER,
    LULL_OPERATION_SCAN,
    LULL_OPERATION_NEIGHBOR, /* neighbourhood collectives */
    LULL_OPERATION_SEND,
    LULL_OPERATION_RECEIVE,
    LULL_OPERATION_SENDRECV,
    LULL_OPERATION_WAIT, /* completion of non-blocking operations */
    LULL_OPERATION_PROBE,
    LULL_OPERATION_POLL,   /* a run of calls that return at once (Test, Iprobe); pushed when over */
    LULL_OPERATION_SIGNAL, /* one-sided: put with signal, signal, wait for one */
    LULL_OPERATION_COUNT
};

/* Returns the name of an operation for reports, such as "allreduce"; "?": the value is out of
 * range. */
const char *lull_operation_name(enum lull_operation operation);

/*
 * Events of one thread arrive in the order of their pushes, except that other threads overtake a
 * thread that is stopped in the middle of a push. Times may lie in the past (a section of polling
 * calls is pushed when it is over).
 */
struct lull_event {
    int64_t time_ns;       /* CLOCK_MONOTONIC */
    uint64_t bytes;        /* payload of this rank; 0: none, or unknown */
    uint32_t communicator; /* its number in this process, from 0; LULL_EVENT_NO_COMMUNICATOR */
    uint32_t ranks;        /* its size; 0 unknown */
    int32_t peer;          /* root or peer rank; -1 none */
    uint32_t thread;       /* number of the thread in this process, from 0; KERNEL_BEGIN and
                            * KERNEL_END: of the kernel, the same for both of its edges, ascending
                            * in the order in which the host enqueued them; it may wrap */
    uint16_t kind;         /* enum lull_event_kind */
    uint16_t operation;    /* enum lull_operation */
    uint32_t name;         /* LULL_OPERATION_USER: index of its name */
};

/* The owner of a slot. Missing values are -1. */
struct lull_process_info {
    pid_t pid;
    int32_t world_rank;
    int32_t world_size;
    int32_t local_rank; /* on this node */
    char program[32];
};

/* A GPU that a process uses, as reported by its probes. */
struct lull_process_gpu {
    uint64_t pci;          /* its address (base/pci.h) */
    bool is_communicating; /* a communicator of the process runs on it; false: only a context */
};

struct lull_event_segment; /* one open segment */

/*
 * Governor: creates the segment at path (must not exist), locks and maps it. The caller owns it.
 * Errors: -errno with the path.
 */
int lull_event_segment_create(const char *path, struct lull_event_segment **job_out,
                              struct lull_error *err);

/* Unmaps; a created segment's file is removed. NULL is allowed. */
void lull_event_segment_destroy(struct lull_event_segment *job);

/* Returns how many processes could not join, because /dev/shm was full or all slots were taken. */
uint32_t lull_event_segment_turned_away(const struct lull_event_segment *job);

/* Returns whether a process has truncated the file of a created segment. Its contents are lost
 * then, and no more events come. */
bool lull_event_segment_is_cut(const struct lull_event_segment *job);

/* Returns how many slots are claimed: slots 0..count-1 are valid, and stay so after their process
 * has ended. Only a released slot is given to another process. */
uint32_t lull_event_segment_process_count(const struct lull_event_segment *job);

/* Copies the identity of a slot. Errors: -EAGAIN its process is still writing it. */
int lull_event_segment_process(const struct lull_event_segment *job, uint32_t slot,
                               struct lull_process_info *info_out);

/*
 * Reader: releases the slot of a process that has ended and whose events have all been read.
 * Processes that find no free slot reuse it. Its names do not change. Errors: -EBUSY the process
 * lives, or that cannot be determined, or the slot is released already; -EAGAIN events are left to
 * read, or the process died while it wrote one; such a slot is never released.
 */
int lull_event_segment_release(struct lull_event_segment *job, uint32_t slot);

/* 1: a process, which may have ended, owns the slot; 0: the slot is released and has no process
 * yet. */
int lull_event_segment_is_held(const struct lull_event_segment *job, uint32_t slot);

/* Copies the GPUs that the probes of a slot's process report; returns how many, at most
 * LULL_JOB_MAX_GPUS. Any thread. */
uint32_t lull_event_segment_gpus(const struct lull_event_segment *job, uint32_t slot,
                                 struct lull_process_gpu *gpus_out);

/* Returns the PID namespace of the process id in the slot (base/process.h); 0: unknown. Any thread.
 */
uint64_t lull_event_segment_pid_space(const struct lull_event_segment *job, uint32_t slot);

/* Returns whether the slot's process has ended. False also if that cannot be determined. Any
 * thread.
 */
bool lull_event_segment_has_ended(const struct lull_event_segment *job, uint32_t slot);

/* Copies the name of a user section, "" if there is none. name_out: LULL_JOB_NAME_BYTES bytes. */
void lull_event_segment_name(const struct lull_event_segment *job, uint32_t slot, uint32_t name,
                             char *name_out);

/*
 * Moves up to max events of a slot to events_out, oldest first; returns how many. One consumer.
 * A record whose producer stopped before publishing it is skipped and delivered once it is
 * published. A producer that was killed there loses only its own event.
 */
uint32_t lull_event_segment_read(struct lull_event_segment *job, uint32_t slot,
                                 struct lull_event *events_out, uint32_t max);

/* Governor: requests the bits of enum lull_ask from the probes of a slot, from now on. */
void lull_event_segment_ask(struct lull_event_segment *job, uint32_t slot, uint32_t asked);

/* Probe: returns the governor's present request, with one relaxed load. Any thread. */
uint32_t lull_event_segment_asked(const struct lull_event_segment *job, uint32_t slot);

/* Returns how many events the slot's process could not push because its ring was full. */
uint64_t lull_event_segment_lost(const struct lull_event_segment *job, uint32_t slot);

/*
 * Sleeps until the doorbell rings or until_ns passes; returns at once if events are waiting. It
 * does not ring for ENQUEUE and COMMUNICATOR, which nothing waits for, until an eighth of a ring
 * is full. Producers pay for at most one wake-up per 200 us: for that long after one, the next call
 * sleeps without the doorbell. lull_event_segment_wake ends that sleep too. The call may return
 * early without a cause.
 */
void lull_event_segment_wait(struct lull_event_segment *job, int64_t until_ns);

/* Rings the doorbell from another thread of the governor. */
void lull_event_segment_wake(struct lull_event_segment *job);

/*
 * Probe: opens the existing segment at path and claims a slot for this process, or finds the one
 * that another probe of this process has claimed (info is then not used: see
 * lull_event_segment_identify). *slot_out is what lull_event_push takes. The slot's memory is
 * reserved, so that a full /dev/shm is an error here and not a SIGBUS later. Errors: -ENOSPC all
 * slots taken and none released, or no memory left; LULL_E_FORMAT not such a segment, or another
 * version; -errno.
 */
int lull_event_segment_join(const char *path, const struct lull_process_info *info,
                            struct lull_event_segment **job_out, uint32_t *slot_out,
                            struct lull_error *err);

/* Probe: updates the identity in this process's slot (MPI_Init learns the ranks only after the
 * join). */
void lull_event_segment_identify(struct lull_event_segment *job, uint32_t slot,
                                 const struct lull_process_info *info);

/* Probe: reports a GPU that this process uses, once or again. Beyond LULL_JOB_MAX_GPUS the report
 * is dropped. Any thread; lock-free. */
void lull_event_segment_report_gpu(struct lull_event_segment *job, uint32_t slot,
                                   const struct lull_process_gpu *gpu);

/*
 * Probe: returns the index for a name, adding it; LULL_JOB_MAX_NAMES - 1 ("other") once the table
 * is full. Longer names are cut.
 */
uint32_t lull_event_segment_intern(struct lull_event_segment *job, uint32_t slot, const char *name);

/* Probe: returns the number of the calling thread, the same for all probes of the process. It is
 * slow, so keep the result. */
uint32_t lull_event_segment_thread(struct lull_event_segment *job, uint32_t slot);

/*
 * Probe: returns the number of another thread of the process, by its kernel id; assigns one if it
 * has none. If another thread may be first, use this to give the main thread number 0.
 */
uint32_t lull_event_segment_thread_of(struct lull_event_segment *job, uint32_t slot, pid_t id);

/* Probe: returns a new communicator number, unique among all probes of the process. */
uint32_t lull_event_segment_new_communicator(struct lull_event_segment *job, uint32_t slot);

/*
 * Probe: 1 while at least half of the slot's ring is free. A hint for producers of optional events.
 * It may be out of date when it is returned. Any thread.
 */
int lull_event_segment_is_half_free(const struct lull_event_segment *job, uint32_t slot);

/* Probe: pushes one event. Any thread; lock-free, never blocks. */
void lull_event_push(struct lull_event_segment *job, uint32_t slot, const struct lull_event *event);

#endif
