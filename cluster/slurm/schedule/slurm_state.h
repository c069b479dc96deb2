/*
 * Slurm's queue as it was read last, shared by slurm_queue.c and slurm_release.c alone. One thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SLURM_SCHEDULE_SLURM_STATE_H
#define LULL_CLUSTER_SLURM_SCHEDULE_SLURM_STATE_H

#include <stdint.h>
/* Slurm's headers need it first. */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include "base/array.h"
#include "cluster/slurm/schedule/slurm_queue.h"

#define LULL_SLURM_MINUTE_S INT64_C(60)

struct lull_slurm {
    const char *wanted;   /* partition; NULL: the default one */
    bool is_operator;     /* may write AdminComments */
    job_info_msg_t *jobs; /* the last answers */
    node_info_msg_t *nodes;
    partition_info_msg_t *partitions;
    const partition_info_t *partition; /* among them */

    struct lull_queue queue;
    struct lull_queue_node *queue_nodes; /* as slurmctld numbers them */
    struct lull_queue_job *queue_jobs;
    const slurm_job_info_t **job_of; /* [queue's job] */
    struct lull_memory memory;       /* of the queue's texts and shares */
    uint32_t *refused;               /* jobs that Slurm does not permit this process to release */
    size_t refused_count;
};

/* Sets the error of a request that failed. What Slurm has decided has numbers of its own. */
int lull_slurm_fail(struct lull_error *err, const char *what);

#endif
