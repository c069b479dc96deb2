/*
 * The process' connection to its job, shared by the code of one probe library.
 *
 * Joins the segment named by LULL_JOB, once; any failure switches it off permanently (fault F35).
 * After fork() the child starts again: it joins on its own, with its own slot (fault F40).
 * Silent, never aborts, allocates only while joining. Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_CLIENT_H
#define LULL_PROBE_CLIENT_H

#include <stdatomic.h>
#include <stdint.h>

#include "wire/event.h"

enum lull_client_state { LULL_CLIENT_NEW, LULL_CLIENT_JOINING, LULL_CLIENT_ON, LULL_CLIENT_OFF };

/* State of a thread, returned by lull_client_thread(). */
struct lull_client_thread {
    uint32_t generation;    /* the client's generation when the rest was written; 0: never */
    uint32_t number;        /* its number in struct lull_event.thread */
    uint64_t open_sections; /* one bit per open section; only liblull uses it */
};

/* The client of one library. Only client.c writes it; the rest is valid while state is ON. */
struct lull_probe_client {
    _Atomic uint32_t state;      /* enum lull_client_state */
    _Atomic uint32_t generation; /* counts from 1 and grows by one with every fork */
    _Atomic uint32_t slot;
    struct lull_event_segment *_Atomic job;
    void (*on_join)(struct lull_event_segment *job,
                    uint32_t slot); /* to be set before the first join, or NULL */
};

extern struct lull_probe_client lull_client;
extern _Thread_local struct lull_client_thread lull_client_this_thread
    __attribute__((tls_model("initial-exec")));

/*
 * Joins if that has not been tried yet. 1: events may be pushed. 0: there is no job, joining has
 * failed, or another thread is joining just now.
 */
int lull_client_join(void);

/* Gets the identity of the process from the environment: its ranks under Open MPI, MPICH, Slurm or
 * torchrun. */
void lull_client_info(struct lull_process_info *info_out);

/* Renews this thread's record; it is the slow path of lull_client_thread(). */
void lull_client_renew_thread(void);

static inline int lull_client_is_on(void)
{
    return atomic_load_explicit(&lull_client.state, memory_order_acquire) == LULL_CLIENT_ON;
}

/* Pushes an event. Call it only while the client is on. */
static inline void lull_client_push(const struct lull_event *event)
{
    lull_event_push(atomic_load_explicit(&lull_client.job, memory_order_relaxed),
                    atomic_load_explicit(&lull_client.slot, memory_order_relaxed), event);
}

/* Returns this thread's record, which is new after a fork. Call it only while the client is on. */
static inline struct lull_client_thread *lull_client_thread(void)
{
    if (lull_client_this_thread.generation !=
        atomic_load_explicit(&lull_client.generation, memory_order_relaxed))
        lull_client_renew_thread();
    return &lull_client_this_thread;
}

#endif
