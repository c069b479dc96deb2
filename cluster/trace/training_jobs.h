/*
 * Training jobs to predict (cluster/core/training/training.h): a JSON object whose "jobs" are
 * objects with the sizes of a model, the layout of the job on its GPUs, and where it was measured,
 * its step. lull-model-job(1) lists the keys; a job with other keys is rejected.
 *
 * Threads: a list belongs to its caller. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TRACE_TRAINING_JOBS_H
#define LULL_CLUSTER_TRACE_TRAINING_JOBS_H

#include <stddef.h>

#include "base/error.h"
#include "cluster/core/training/training.h"

enum {
    LULL_TRAINING_NAME = 64,     /* bytes of a name, the end included; all printable */
    LULL_TRAINING_JOBS = 1 << 12 /* the most jobs of a file */
};

struct lull_training_entry {
    char name[LULL_TRAINING_NAME];
    char gpu[LULL_TRAINING_NAME];      /* not empty */
    char software[LULL_TRAINING_NAME]; /* empty: job.matrix_ratio, unless step_s, is given */
    char use[LULL_TRAINING_NAME];      /* purpose of step_s ("interval"); may be empty */
    double step_s;                     /* measured; 0: it was not */
    double node_w;                     /* the same */
    char node_use[LULL_TRAINING_NAME]; /* purpose of node_w; may be empty */
    struct lull_training_setup job;    /* matrix_ratio and gap_s: 0 where not given */
};

struct lull_training_jobs {
    struct lull_training_entry *entries;
    size_t count; /* > 0 */
};

/*
 * Reads a file, plain or gzip ("-" is standard input). Errors: LULL_E_FORMAT with the job's name:
 * a word or a number that is invalid for its key, no jobs or more than LULL_TRAINING_JOBS, no
 * gpu; -ENOMEM; those of lull_json_read_document. The list is left empty then.
 */
int lull_training_jobs_read(const char *path, struct lull_training_jobs *jobs_out,
                            struct lull_error *err);
void lull_training_jobs_fini(struct lull_training_jobs *jobs);

#endif
