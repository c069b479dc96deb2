/*
 * Recorded training of one job at many batch sizes and power limits, from the two tables that Zeus
 * published (NSDI'23 artefact): how many epochs each repetition took to a target, and what an epoch
 * takes at each limit. Comma-separated, one header line.
 *
 *   dataset,network,batch_size,optimizer,learning_rate,run,target_metric,target_epoch
 *   dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power
 *
 * Threads: one; a trace belongs to its caller. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_ZEUS_TRACE_H
#define LULL_LAB_REPRODUCE_ZEUS_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "trace/lines.h"

enum {
    LULL_BATCH_TRACE_SIZES = 64,
    LULL_BATCH_TRACE_LIMITS = 32,
    LULL_BATCH_TRACE_PATHS = 64,
};

/* Selection of rows: those with these three names and exactly this target. The texts are borrowed.
 */
struct lull_batch_trace_job {
    const char *dataset;
    const char *network;
    const char *optimizer;
    double target;         /* in the metric's unit */
    uint32_t max_epochs;   /* a run that needs more epochs has missed the target */
    uint32_t default_size; /* the job's default; capped at the largest size recorded */
};

/* Finds one of the six jobs of the Zeus paper by its data set. NULL: it is not one of them. */
const struct lull_batch_trace_job *lull_batch_trace_find_job(const char *dataset);

struct lull_batch_trace_limit {
    double limit_w;
    double time_s;  /* per epoch */
    double power_w; /* mean during it */
};

struct lull_batch_trace_path {
    uint32_t run;  /* the repetition's number in the file */
    double epochs; /* to the target; NAN: it was never reached */
};

struct lull_batch_trace_size {
    uint32_t size;
    uint32_t limit_count; /* > 0; the limits are sorted from the highest down */
    uint32_t path_count; /* 0: nothing is recorded for this target, which counts as never reached */
    struct lull_batch_trace_limit limits[LULL_BATCH_TRACE_LIMITS];
    struct lull_batch_trace_path paths[LULL_BATCH_TRACE_PATHS]; /* in the order of the file */
};

struct lull_batch_trace {
    struct lull_batch_trace_job job; /* with the cap applied */
    double max_power_w;              /* the highest limit of the whole power table */
    uint32_t size_count;             /* > 0; ascending, the sizes that both tables have */
    struct lull_batch_trace_size sizes[LULL_BATCH_TRACE_SIZES];
};

/*
 * Reads both files ("-": standard input). The caller destroys *trace_out. Errors: LULL_E_FORMAT
 * with file and line; -ENOENT no size of this job is in both; -ENOMEM; those of lull_lines_open.
 */
int lull_batch_trace_read(const struct lull_batch_trace_job *job, const char *train_path,
                          const char *power_path, struct lull_batch_trace **trace_out,
                          struct lull_error *err);

void lull_batch_trace_destroy(struct lull_batch_trace *trace);

#endif
