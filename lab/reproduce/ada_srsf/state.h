/*
 * The state of a simulation of shared GPUs, private to this folder. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_ADA_SRSF_STATE_H
#define LULL_LAB_REPRODUCE_ADA_SRSF_STATE_H

#include "core/stats/random.h"
#include "lab/reproduce/ada_srsf/shared_gpus.h"

/* A list of jobs by number, in order. */
struct lull_shared_list {
    uint32_t *jobs;
    uint32_t count;
};

enum lull_shared_part { LULL_SHARED_FORWARD, LULL_SHARED_BACKWARD, LULL_SHARED_TRANSFER };

struct lull_shared_worker {
    uint32_t gpu;
    enum lull_shared_part next; /* the present or next part */
};

struct lull_shared_job_state {
    const struct lull_shared_job *asked;
    struct lull_shared_worker *workers;
    uint32_t waiting; /* this many workers have done forward and backward */
    uint32_t iterations_left;
    double service_ms; /* the compute time that remains, summed over all workers */
    uint32_t *nodes;   /* each node that it is on once, in the order of its workers */
    uint32_t node_count;
    bool is_transferring;
    double moved_mb;
    double speed_mb; /* moved per ms */
    int64_t moved_at_ms;
    double transfer_end_ms;
    bool is_done;
    int64_t placed_at_ms; /* -1: it is not placed yet */
};

/* One worker of a job on a GPU. */
struct lull_shared_placed {
    uint32_t job;
    uint32_t worker;
};

struct lull_shared_gpu {
    double free_mb;
    double load_ms;                    /* the work that is placed on it and not done */
    struct lull_shared_placed *placed; /* in the order in which they were placed */
    uint32_t placed_count;
    struct lull_shared_placed running; /* its job is UINT32_MAX if nothing runs */
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
    uint32_t *node_order;            /* the nodes, sorted by load when a gang was placed last */
    struct lull_shared_list queue;   /* the jobs that have arrived and are not placed */
    struct lull_shared_list running; /* the jobs that are placed and hold memory */
    uint32_t *scratch;               /* room for all GPUs */
    struct lull_random random;
    uint32_t *candidates;   /* room for all jobs */
    size_t left;            /* this many jobs can run and are not done */
    int64_t *completion_ms; /* borrowed from the result */
    int64_t busy_ms;        /* summed over all GPUs */
    /* The time of the next event other than the progress of transfers, which every slot handles. */
    bool has_changed; /* there was an event in the last slot, so that this one may have more */
    int64_t next_ms;  /* end of the next part, or arrival of the next job */
    double transfer_end_ms; /* end of the first transfer; INFINITY: there is none */
};

/* jobs.c. These three are steps of a slot; gpus is room for the GPUs of one job. */
void lull_shared_remove_done(struct lull_shared_cluster *shared);
void lull_shared_queue_arrivals(struct lull_shared_cluster *shared, int64_t now_ms);
void lull_shared_place_queued(struct lull_shared_cluster *shared, uint32_t *gpus, int64_t now_ms);

/* The time that placement counts for the transfer of one iteration. */
double lull_shared_placed_transfer_ms(const struct lull_shared_cluster *shared,
                                      const struct lull_shared_job_state *job);

/* transfer.c. These two are steps of a slot: which transfers start, and how far they get. */
void lull_shared_start_transfers(struct lull_shared_cluster *shared, int64_t now_ms);
void lull_shared_move_transfers(struct lull_shared_cluster *shared, int64_t now_ms);

/* Advances the transfers in a slot without other events. */
void lull_shared_keep_moving(struct lull_shared_cluster *shared, int64_t now_ms);

/* shared_gpus.c. The sort key of jobs, in ms: the service of all workers that remains, or under
 * LULL_SHARED_SRTF the time that one worker and the transfers, alone on the network, still take. */
double lull_shared_left(const struct lull_shared_cluster *shared,
                        const struct lull_shared_job_state *job);

/* Ends an iteration: all workers continue with the next one, or the job is done. */
void lull_shared_synchronise(struct lull_shared_cluster *shared, uint32_t job, int64_t now_ms);

#endif
