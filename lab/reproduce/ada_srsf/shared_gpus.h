/*
 * Data-parallel jobs that share GPUs in time and a network by contention, slot by slot of 1 ms
 * (Wang, Shi, Wang, Chu: "Communication contention aware scheduling of multiple deep learning
 * training jobs", arXiv 2002.10105): LWF-kappa placement, SRSF(n) and AdaDUAL transfers. This
 * executes the rules of the authors' released simulator in every slot; its errors are switches.
 *
 * A job's iteration: every worker runs forward, then backward; when all have, the model is reduced
 * over the network, unless all workers are on one node. With k transfers on the busiest of a job's
 * nodes, a transfer takes k beta + (k - 1) eta ms for each MB.
 *
 * Pure; one thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_ADA_SRSF_SHARED_GPUS_H
#define LULL_LAB_REPRODUCE_ADA_SRSF_SHARED_GPUS_H

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
    double memory_mb;     /* needed of each GPU, >= 0 */
};

enum lull_shared_rule {
    LULL_SHARED_SRSF,    /* a transfer starts while fewer than n are on each of its nodes */
    LULL_SHARED_ADADUAL, /* a second one starts if it is short beside the rest of the first */
    LULL_SHARED_SRTF,    /* Lull's rule: shortest remaining time first, on GPUs and on
                            links. One transfer at a time on each node, which yields to
                            that of a shorter job and keeps its progress */
};

/* Values of kappa that represent other rules: the first GPUs with room by number, or random ones.
 */
#define LULL_SHARED_FIRST_FIT 0U
#define LULL_SHARED_RANDOM UINT32_MAX

#define LULL_SHARED_NOWHERE UINT32_MAX /* represents no GPU */

/* A simulation gives up after this many slots with events: 18 hours of transfers. */
#define LULL_SHARED_MAX_SLOTS (INT64_C(1) << 26)

struct lull_shared_setup {
    uint32_t nodes;
    uint32_t gpus_per_node;
    double memory_mb; /* of one GPU */
    double beta_ms;   /* time of a MB alone on the network */
    double eta_ms;    /* additional time for each concurrent transfer */
    double placed_ms; /* load per MB that placement uses */
    uint32_t kappa;   /* LWF: gangs up to this may spread; LULL_SHARED_FIRST_FIT or _RANDOM */
    uint64_t seed;    /* for LULL_SHARED_RANDOM */
    enum lull_shared_rule rule;
    uint32_t at_once; /* SRSF: n */
    /* The errors of the released simulator. */
    bool asking_moves_transfers; /* AdaDUAL's test credits the running transfer with a slot more */
    bool skips_after_removal;    /* a list's next entry is skipped when one is removed */
};

/* The published cluster: 16 nodes of 4 GPUs with 32 GiB, 10 GbE; LWF-1 and SRSF(1). */
extern const struct lull_shared_setup lull_shared_published;

struct lull_shared_result {
    int64_t *completion_ms; /* per job from arrival to end; -1: it could never run */
    int64_t *placed_ms;     /* per job when it got its GPUs, -1: never; may be NULL */
    uint32_t *gpus;         /* of workers, ordered by job; [node] [gpu] in one number;
                               LULL_SHARED_NOWHERE. NULL: not requested */
    int64_t makespan_ms;    /* slots until the last end */
    double busy_ratio;      /* mean over GPUs and slots */
};

/* Returns whether the empty cluster could hold the job. */
bool lull_shared_is_possible(const struct lull_shared_setup *setup,
                             const struct lull_shared_job *job);

/*
 * Runs jobs, in any order of arrival, to their ends. The arrays of the result are the caller's,
 * with room for count jobs, and for all workers in gpus. O(slots in which something happens * GPUs
 * + slots with transfers * jobs). Errors: -EOVERFLOW it takes more than LULL_SHARED_MAX_SLOTS;
 * -ENOMEM.
 */
int lull_shared_simulate(const struct lull_shared_setup *setup, const struct lull_shared_job *jobs,
                         size_t count, struct lull_shared_result *result);

#endif
