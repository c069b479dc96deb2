/*
 * Private to shared_gpus*.c. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_REPRODUCE_ADA_SRSF_STATE_H
#define LULL_REPRODUCE_ADA_SRSF_STATE_H

#include "core/stats/random.h"
#include "reproduce/ada_srsf/shared_gpus.h"

/* A list of jobs by number, in order. */
struct lull_shared_list {
    uint32_t *jobs;
    uint32_t count;
};

enum lull_shared_part { LULL_SHARED_FORWARD, LULL_SHARED_BACKWARD, LULL_SHARED_TRANSFER };

struct lull_shared_worker {
    uint32_t gpu;
    enum lull_shared_part next; /* what it has to do, or does */
};

struct lull_shared_job_state {
    const struct lull_shared_job *asked;
    struct lull_shared_worker *workers;
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
struct lull_shared_placed {
    uint32_t job;
    uint32_t worker;
};

struct lull_shared_gpu {
    double free_mb;
    double load_ms;                    /* what is placed on it and not done */
    struct lull_shared_placed *placed; /* in the order of placing */
    uint32_t placed_count;
    struct lull_shared_placed running; /* job UINT32_MAX: none */
    int64_t end_ms;
};

struct lull_shared_node {
    struct lull_shared_list transfers;
};

struct lull_shared_cluster {
    const struct lull_shared_setup *setup;
    struct lull_shared_job_state *jobs;
    uint32_t job_count;
    struct lull_shared_gpu *gpus; /* [node][gpu] */
    uint32_t gpu_count;
    struct lull_shared_node *nodes;
    uint32_t *node_order;
    struct lull_shared_list queue;   /* arrived, not placed */
    struct lull_shared_list running; /* placed, memory held */
    uint32_t *scratch;               /* GPUs */
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
int lull_shared_create(struct lull_shared_cluster *shared, const struct lull_shared_job *jobs,
                       uint32_t count);
void lull_shared_fini(struct lull_shared_cluster *shared);

/* shared_gpus_jobs.c. Step by step of a slot; gpus is room for those of one job. */
void lull_shared_remove_done(struct lull_shared_cluster *shared);
void lull_shared_queue_arrivals(struct lull_shared_cluster *shared, int64_t now_ms);
void lull_shared_place_queued(struct lull_shared_cluster *shared, uint32_t *gpus, int64_t now_ms);

/* What placement takes for an iteration's transfer. */
double lull_shared_placed_transfer_ms(const struct lull_shared_cluster *shared,
                                      const struct lull_shared_job_state *job);

/* shared_gpus_placement.c. GPUs for a gang into gpus_out (its workers); false: no room. */
bool lull_shared_place(struct lull_shared_cluster *shared, const struct lull_shared_job *job,
                       uint32_t *gpus_out);

/* shared_gpus_transfer.c. Step by step of a slot: which transfers start, and how far they get. */
void lull_shared_start_transfers(struct lull_shared_cluster *shared, int64_t now_ms);
void lull_shared_move_transfers(struct lull_shared_cluster *shared, int64_t now_ms);

/* For a slot in which nothing else happens: what there is moves on. */
void lull_shared_keep_moving(struct lull_shared_cluster *shared, int64_t now_ms);

/* What jobs are ordered by: the service of all workers that remains, or, by our rule, the time:
 * of one worker, and of transfers alone on the network. ms. */
double lull_shared_left(const struct lull_shared_cluster *shared,
                        const struct lull_shared_job_state *job);

/* All workers go on with the next iteration, or the job is done. */
void lull_shared_synchronise(struct lull_shared_cluster *shared, uint32_t job, int64_t now_ms);

#endif
