/*
 * Contents of the shared memory of an emulated node; private to node.c, node_client.c and
 * node_fault.c. Threads:
 * any, under the locks named here. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_NODE_SHARED_H
#define LULL_EMULATOR_NODE_SHARED_H

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "emulator/node.h"
#include "emulator/topology.h"

#define NODE_MAGIC UINT64_C(0x65646f6e6c6c756d)

enum { NODE_CALL_FAULTS = 16 };

struct lull_node_shared_gpu {
    pthread_mutex_t mutex;
    _Atomic uint32_t generation; /* counts changes; sleepers wait for it by futex */
    _Atomic uint32_t active;     /* the slot that is the state; the other one is a work copy */
    int64_t reaped_ns;
    _Atomic uint64_t armed; /* a bit for each kind of fault that may still happen */
    struct lull_fault faults[LULL_FAULT_KINDS];
    struct lull_fault_entry calls[NODE_CALL_FAULTS]; /* faults of one call; remaining 0: free */
    _Atomic uint32_t settings[LULL_NODE_SETTINGS];
    _Atomic int64_t lost_until_ns; /* virtual time; the GPU is lost until then */
    uint32_t
        event_count; /* since the node's creation; the latest are kept; protected by the mutex */
    struct lull_node_event events[LULL_NODE_EVENTS];
    struct lull_physics slots[2];
};

enum { NODE_CLIENTS = 256 };

struct lull_node_client { /* a process that has opened NVIDIA's library */
    int64_t pid;          /* 0: none */
    int64_t start_ticks;  /* when it began, in case another process gets its number */
};

struct lull_node_shared {
    uint64_t magic;
    uint64_t size;
    uint64_t seed;
    double time_scale;
    int64_t origin_ns;
    uint64_t pid_space; /* the PID namespace of the creator (base/process.h) */
    uint32_t gpu_count;
    struct lull_release release;    /* NVIDIA's driver; does not change */
    struct lull_topology topology;  /* does not change */
    _Atomic uint32_t driver_loads;  /* number of reloads of the driver */
    _Atomic int64_t driver_back_ns; /* virtual time; the driver is away until then */
    pthread_mutex_t clients_mutex;
    struct lull_node_client clients[NODE_CLIENTS];
    pthread_mutex_t driver; /* serialises the set calls of all GPUs, as the real driver does */
    struct lull_node_shared_gpu gpus[];
};

struct lull_node {
    struct lull_node_shared *shared;
    size_t size;
    char path[PATH_MAX];
};

/* Locks a mutex that may outlive its owner. */
static inline void lull_node_lock(pthread_mutex_t *mutex)
{
    if (pthread_mutex_lock(mutex) == EOWNERDEAD)
        pthread_mutex_consistent(mutex); /* the state is consistent: see lull_node_end() */
}

#endif
