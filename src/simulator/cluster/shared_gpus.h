/*
 * Data-parallel jobs that share GPUs in time and a network by contention, slot by slot of 1 ms
 * (Wang, Shi, Wang, Chu: "Communication contention aware scheduling of multiple deep learning
 * training jobs", arXiv 2002.10105): LWF-kappa placement, SRSF(n) and AdaDUAL transfers. Carries
 * out the rules of the authors' released simulator in every slot, its errors behind switches.
 *
 * A job's iteration: every worker runs forward, then backward; when all have, the model is reduced
 * over the network, unless all workers are on one node. With k transfers on the busiest of a job's
 * nodes, a transfer takes k beta + (k - 1) eta ms for each MB.
 *
 * Pure; one thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_CLUSTER_SHARED_GPUS_H
#define LULL_SIMULATOR_CLUSTER_SHARED_GPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct lull_shared_job {
    int64_t arrival_ms;   /* >= 0 */
    uint32_t workers;     /* > 0, one GPU each */
    uint32_t iterations;  /* > 0 */
    uint32_t forward_ms;  /* > 0 */
    uint32_t backward_ms; /* > 0 */
    double model_mb;      /* >= 0, moved in each iteration */
    double memory_mb;     /* of each GPU, >= 0 */
};

enum lull_shared_rule {
    LULL_SHARED_SRSF,    /* a transfer starts while fewer than n are on each of its nodes */
    LULL_SHARED_ADADUAL, /* a second one starts if it is short beside the rest of the first */
    LULL_SHARED_SRTF,    /* ours: shortest remaining time first, on GPUs and on links: one transfer
                            at a time on each node, which gives way to that of a shorter job and
                            keeps what it has moved */
};

enum { LULL_SHARED_FIRST_FIT = 0 };

struct lull_shared_setup {
    uint32_t nodes;
    uint32_t gpus_per_node;
    double memory_mb; /* of one GPU */
    double beta_ms;   /* of a MB alone */
    double eta_ms;    /* more for each transfer beside it */
    double placed_ms; /* of a MB, for the load that placement sees */
    uint32_t kappa;   /* LWF: gangs up to this may spread; LULL_SHARED_FIRST_FIT */
    enum lull_shared_rule rule;
    uint32_t at_once; /* SRSF: n */
    /* The released simulator's errors. */
    bool asking_moves_transfers; /* AdaDUAL's test credits the running transfer with a slot more */
    bool skips_after_removal;    /* a list's next entry is passed over when one is taken out */
};

/* The published cluster: 16 nodes of 4 GPUs with 32 GiB, 10 GbE; LWF-1 and SRSF(1). */
extern const struct lull_shared_setup lull_shared_published;

struct lull_shared_result {
    int64_t *completion_ms; /* per job: arrival to end; -1: could never run */
    int64_t makespan_ms;    /* slots until the last end */
    double busy_ratio;      /* mean over GPUs and slots */
};

/*
 * Runs jobs, in any order of arrival, to their ends. completion_ms of the result is the caller's
 * room for count. O(slots * GPUs). -ENOMEM.
 */
int lull_shared_simulate(const struct lull_shared_setup *setup, const struct lull_shared_job *jobs,
                         size_t count, struct lull_shared_result *result);

#endif
