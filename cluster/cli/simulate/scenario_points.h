/*
 * The operating points of a scenario's jobs: on which types and numbers of GPUs and at which clocks
 * they may run, and the time and energy that takes. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_SIMULATE_SCENARIO_POINTS_H
#define LULL_CLUSTER_CLI_SIMULATE_SCENARIO_POINTS_H

#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "cluster/cli/simulate/scenario_models.h"
#include "cluster/cli/simulate/scenario_options.h"
#include "cluster/cli/simulate/scenario_workloads.h"
#include "cluster/core/model/job.h"
#include "cluster/simulator/job_classes.h"
#include "cluster/simulator/job_pipelines.h"
#include "cluster/trace/job_table.h"
#include "cluster/trace/job_rates.h"
#include "cluster/trace/point_table.h"

/* Operating points, those of one job after those of the other. */
struct lull_scenario_point_list {
    struct lull_cluster_point *all;
    size_t count;
    size_t room;
};

struct lull_scenario_points {
    const struct lull_scenario_model_options *options;
    const struct lull_point_table *reported; /* null: none */
    struct lull_job_rates_table rates;       /* without rows where no table was named */
    struct lull_job_tempo *tempo;            /* [type * LULL_JOB_CLASSES + class][clock] */
    uint32_t clocks[LULL_SCENARIO_MAX_TYPES];
    double sync_ratio[LULL_JOB_CLASSES];
    uint8_t *classes;                     /* [job] */
    size_t of_class[LULL_JOB_CLASSES];    /* number of jobs of each class */
    size_t drawn;                         /* jobs whose class was drawn */
    struct lull_job_pipelined *pipelined; /* one for each number of GPUs that occurs */
    size_t pipelined_count;
    size_t pipelines; /* jobs that are pipelines */
    struct lull_scenario_workloads workloads;
    struct lull_scenario_models models;
    size_t modelled; /* jobs that a model was fitted of */
    struct lull_scenario_point_list chosen;
    struct lull_scenario_point_list relaxed; /* for bounds; empty unless is_relaxed */
    bool is_relaxed;
    size_t relaxed_of_job;                 /* number of points of the last job */
    struct lull_cluster_job *relaxed_jobs; /* [job] with only these points; null: none */
};

/*
 * Gives jobs, one per row of the table, their operating points, which *points owns, and borrows the
 * options and reported. If no type of GPU is named, reported has the operating points, by the rows'
 * models, of the one type that it covers; null: each job has one, from its row. is_bounded: makes
 * the points that bounds need as well (operating_points.h, relaxed). Rates within a node are those
 * of consolidated GPUs. Errors: those of lull_job_rates_read, lull_scenario_models_read and _find,
 * and lull_scenario_workloads_add; -EINVAL the rates lack a type, or a job has a recorded workload
 * and no type is named; -ENOMEM. lull_scenario_points_fini() must follow, also after an error.
 */
int lull_scenario_points_make(struct lull_scenario_points *points,
                              const struct lull_scenario_model_options *options,
                              const struct lull_point_table *reported,
                              const struct lull_job_table *table, bool is_bounded,
                              struct lull_cluster_job *jobs, struct lull_error *err);
void lull_scenario_points_fini(struct lull_scenario_points *points);

/* Returns the assumptions about the jobs, if types of GPU are named. null: out of memory. */
json_t *lull_scenario_points_json(const struct lull_scenario_points *points, size_t jobs);
void lull_scenario_points_print(const struct lull_scenario_points *points, size_t jobs);

#endif
