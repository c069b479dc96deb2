/*
 * Data-parallel training jobs, as the simulations of communication contention at HKBU describe them
 * (Wang et al., arXiv 2002.10105): a folder with a file per job (job_set.h), one such file, or a
 * table, plain or gzip. Known names, in any order; others are ignored:
 *
 *   job_id                    whole number
 *   nworkers, iters           GPUs, one worker each; iterations
 *   fw_time, bw_time          ms of forward and backward of an iteration, whole
 *   model_size                MB that an iteration moves over the network
 *   train_mem                 MB of each GPU (0)
 *   start_time                ms, whole, when it comes (0)
 *   dnn                       the name of what it trains
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_ADA_SRSF_TRAINING_JOBS_H
#define LULL_LAB_REPRODUCE_ADA_SRSF_TRAINING_JOBS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { LULL_TRAINING_JOBS_NAME = 48 };

struct lull_training_job {
    int64_t id;
    int64_t arrival_ms;   /* >= 0 */
    uint32_t workers;     /* > 0, one GPU each */
    uint32_t iterations;  /* > 0 */
    uint32_t forward_ms;  /* > 0 */
    uint32_t backward_ms; /* > 0 */
    double model_mb;      /* >= 0 */
    double memory_mb;     /* needed of each GPU, >= 0 */
    char net[LULL_TRAINING_JOBS_NAME];
};

/*
 * Reads a folder or file ("-": a table from standard input); the caller frees *jobs_out, whose
 * order is that of the folder's numbers or the table's lines. Errors, with file, line and name:
 * LULL_E_FORMAT what is missing or out of its range; -ENODATA no job; -ENOMEM; those of
 * lull_job_set_read.
 */
int lull_training_jobs_read(const char *path, struct lull_training_job **jobs_out,
                            size_t *count_out, struct lull_error *err);

/* Reads one job from a text as config_map.h does, which it writes into. */
int lull_training_jobs_read_text(const char *name, char *text, struct lull_training_job *job_out,
                                 struct lull_error *err);

#endif
