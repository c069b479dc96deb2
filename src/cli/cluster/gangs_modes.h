/*
 * Types of GPU in the cluster, and the modes that jobs have on them: options of their own beside
 * those of gangs_options.h. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_GANGS_MODES_H
#define LULL_CLI_CLUSTER_GANGS_MODES_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "cli/cluster/gangs_workloads.h"
#include "core/cluster/job.h"
#include "simulator/cluster/job_classes.h"
#include "simulator/cluster/job_pipelines.h"
#include "trace/cluster_jobs.h"
#include "trace/job_rates.h"

enum { LULL_GANGS_MOST_TYPES = 4, LULL_GANGS_MOST_ELASTIC = 16 };

struct lull_gangs_modes_options {
    struct lull_job_type types[LULL_GANGS_MOST_TYPES]; /* the first: durations are told on it */
    int64_t nodes[LULL_GANGS_MOST_TYPES];              /* 0: as --nodes or --pools have it */
    uint32_t type_count; /* 0: nothing is known of the GPUs but what they draw */
    bool has_clocks;
    bool has_pipelines; /* large compute jobs are pipelines, with plans among their modes */
    uint32_t job_class; /* LULL_JOB_CLASSES: by the trace's model, else drawn */
    int64_t seed;
    int64_t elastic; /* GPUs by so much fewer or more, in powers of two; 1: as asked */
    enum lull_job_network network;
    const char *rates; /* a table; NULL: none */
};

/* For argp_child; its input is a struct lull_gangs_modes_options. */
extern const struct argp lull_gangs_modes_argp;
void lull_gangs_modes_options_default(struct lull_gangs_modes_options *options_out);

/* What jobs are made of, and their modes. */
struct lull_gangs_modes {
    const struct lull_gangs_modes_options *wish;
    const char *path;                  /* of the table of jobs */
    struct lull_job_rates_table rates; /* no rows: none */
    struct lull_job_tempo *tempo;      /* [type * LULL_JOB_CLASSES + class][clock] */
    uint32_t clocks[LULL_GANGS_MOST_TYPES];
    double sync_ratio[LULL_JOB_CLASSES];
    uint8_t *classes; /* by job */
    size_t of_class[LULL_JOB_CLASSES];
    size_t drawn;                         /* of all, whose class the trace does not tell */
    struct lull_job_pipelined *pipelined; /* one for each number of GPUs that was met */
    size_t pipelined_count;
    size_t pipelines; /* jobs */
    struct lull_gangs_workloads workloads;
    struct lull_cluster_mode *all;
    size_t count;
    size_t room;
};

/*
 * Gives the jobs their modes, which stay this one's; wish->type_count > 0, jobs by row of the
 * table, which was read from path. gpus_per_node: rates within a node are those of consolidated
 * GPUs. Errors: those of lull_job_rates_read and lull_gangs_workloads_add; -EINVAL a type that the
 * table lacks; -ENOMEM.
 */
int lull_gangs_modes_make(struct lull_gangs_modes *modes,
                          const struct lull_gangs_modes_options *wish, const char *path,
                          const struct lull_cluster_jobs_table *table, uint32_t gpus_per_node,
                          struct lull_cluster_job *jobs, struct lull_error *err);
void lull_gangs_modes_fini(struct lull_gangs_modes *modes);

/* For the summary: what was assumed. NULL: no memory. */
json_t *lull_gangs_modes_json(const struct lull_gangs_modes *modes, size_t jobs);
void lull_gangs_modes_print(const struct lull_gangs_modes *modes, size_t jobs);

#endif
