/*
 * Private to shared_gpus*.c. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_CLUSTER_SHARED_GPUS_STATE_H
#define LULL_SIMULATOR_CLUSTER_SHARED_GPUS_STATE_H

#include "core/stats/random.h"
#include "simulator/cluster/shared_gpus.h"

/* A list of jobs by number, in order. */
struct job_list {
    uint32_t *jobs;
    uint32_t count;
};

enum part { FORWARD, BACKWARD, TRANSFER };

struct worker {
    uint32_t gpu;
    enum part next; /* what it has to do, or does */
};

struct job {
    const struct lull_shared_job *asked;
    struct worker *workers;
    uint32_t waiting; /* workers that have done forward and backward */
    uint32_t iterations_left;
    double service_ms; /* remaining, of all workers */
    uint32_t *nodes;   /* that it is on, in the order of its workers */
    uint32_t node_count;
    bool is_transferring;
    double moved_mb;
    double speed_mb; /* per ms */
    int64_t moved_at_ms;
    double transfer_end_ms;
    bool is_done;
    int64_t placed_at_ms; /* -1: not yet */
};

/* One worker of a job on a GPU. */
struct placed {
    uint32_t job;
    uint32_t worker;
};

struct gpu {
    double free_mb;
    double load_ms;        /* what is placed on it and not done */
    struct placed *placed; /* in the order of placing */
    uint32_t placed_count;
    struct placed running; /* job UINT32_MAX: none */
    int64_t end_ms;
};

struct node {
    struct job_list transfers;
};

struct shared {
    const struct lull_shared_setup *setup;
    struct job *jobs;
    uint32_t job_count;
    struct gpu *gpus; /* [node][gpu] */
    uint32_t gpu_count;
    struct node *nodes;
    uint32_t *node_order;
    struct job_list queue;   /* arrived, not placed */
    struct job_list running; /* placed, memory held */
    uint32_t *scratch;       /* GPUs */
    struct lull_random random;
    uint32_t *candidates;   /* jobs */
    size_t left;            /* jobs that are not done and could run */
    int64_t *completion_ms; /* of the result */
    int64_t busy_ms;
    /* When something happens next but for transfers that go on; they are looked at in each slot. */
    bool has_changed;       /* in the slot behind, so that this one may do more */
    int64_t next_ms;        /* a part ends or a job arrives */
    double transfer_end_ms; /* of the first to end */
};

/* shared_gpus_memory.c. -ENOMEM; fini takes what is half made, too. */
int lull_shared_create(struct shared *shared, const struct lull_shared_job *jobs, uint32_t count);
void lull_shared_fini(struct shared *shared);

/* shared_gpus_jobs.c. Step by step of a slot; gpus is room for those of one job. */
void lull_shared_remove_done(struct shared *shared);
void lull_shared_queue_arrivals(struct shared *shared, int64_t now_ms);
void lull_shared_place_queued(struct shared *shared, uint32_t *gpus, int64_t now_ms);

/* What placement takes for an iteration's transfer. */
double lull_shared_placed_transfer_ms(const struct shared *shared, const struct job *job);

/* shared_gpus_placement.c. GPUs for a gang into gpus_out (its workers); false: no room. */
bool lull_shared_place(struct shared *shared, const struct lull_shared_job *job,
                       uint32_t *gpus_out);

/* shared_gpus_transfer.c. Step by step of a slot: which transfers start, and how far they get. */
void lull_shared_start_transfers(struct shared *shared, int64_t now_ms);
void lull_shared_move_transfers(struct shared *shared, int64_t now_ms);

/* For a slot in which nothing else happens: what there is moves on. */
void lull_shared_keep_moving(struct shared *shared, int64_t now_ms);

/* What jobs are ordered by: the service of all workers that remains, or, by our rule, the time:
 * of one worker, and of transfers alone on the network. ms. */
double lull_shared_left(const struct shared *shared, const struct job *job);

/* All workers go on with the next iteration, or the job is done. */
void lull_shared_synchronise(struct shared *shared, uint32_t job, int64_t now_ms);

#endif
