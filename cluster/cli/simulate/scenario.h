/*
 * A scenario, made from the options: the cluster, its jobs with their operating points, and events
 * such as failures. Everything else here gets a scenario or parts of it. Threads: one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_SIMULATE_SCENARIO_H
#define LULL_CLUSTER_CLI_SIMULATE_SCENARIO_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

#include "base/error.h"
#include "cluster/cli/simulate/bound.h"
#include "cluster/cli/simulate/scenario_options.h"
#include "cluster/cli/simulate/scenario_points.h"
#include "base/printable.h"
#include "cluster/simulator/engine.h"
#include "cluster/trace/job_table.h"
#include "cluster/trace/cluster_tables.h"
#include "cluster/trace/point_table.h"

/* The simulated scenario. It holds pointers into itself, so it must not be copied. */
struct lull_scenario_model {
    const struct lull_scenario_model_options *options;
    struct lull_job_table table; /* row i is job i */
    int64_t
        origin_ns; /* the first submission on the clock of the tables: time 0 of all else here */
    struct lull_cluster_pools_table pools; /* without rows, the cluster is one pool */
    struct lull_cluster cluster; /* its last pool has no nodes: jobs of unknown pools are in it */
    struct lull_cluster_jobs jobs;
    struct lull_point_table *reported; /* operating points by job_type; null: none was named */
    struct lull_scenario_points points;
    bool has_values; /* one job or more has a value */
    struct lull_cluster_type types[LULL_SCENARIO_MAX_TYPES];
    struct lull_cluster_node *nodes;
    struct lull_cluster_job *all; /* jobs refers to them */
};

struct lull_scenario {
    struct lull_scenario_model model;
    struct lull_cluster_conditions conditions; /* power, failures and the network */
    bool has_failures;                         /* they were requested, even if none occurs */
    struct lull_cluster_failure *failures;
    struct lull_tariff_table price;
    struct lull_tariff_table carbon;
};

/*
 * Reads the files that the options name, draws random failures and builds the rest; borrows the
 * options. Time counts from the first submission, so that the start of the tables' clock does not
 * matter: times of failures and tariffs are shifted by the same amount. Prints on standard error
 * the pools of jobs that the table of pools lacks. Random failures continue until the longest job
 * could have run after the last arrival. Errors: -EINVAL there are too many nodes, or pools but no
 * job of one of them; -ENOMEM; those of the readers, of lull_scenario_points_make and of
 * lull_cluster_failures_draw. lull_scenario_fini() must follow, also after an error.
 */
int lull_scenario_init(struct lull_scenario *scenario, const struct lull_scenario_options *options,
                       struct lull_error *err);
void lull_scenario_fini(struct lull_scenario *scenario);

/* The name of a job in the table, or its number if the table has no name. */
struct lull_printable lull_scenario_job_name(const struct lull_scenario_model *model, uint32_t job);

/* "all" where there is one pool; "others" for jobs of pools that have no nodes. */
struct lull_printable lull_scenario_pool_name(const struct lull_scenario_model *model,
                                              uint32_t pool);

/* The same as JSON strings, uncut and with all characters. NULL: out of memory. */
json_t *lull_scenario_job_json(const struct lull_scenario_model *model, uint32_t job);
json_t *lull_scenario_pool_json(const struct lull_scenario_model *model, uint32_t pool);

/* The first node of a pool: in what users see, the nodes of each pool count from 0. O(nodes). */
uint32_t lull_scenario_first_node(const struct lull_cluster *cluster, uint32_t pool);

/* Writes where a job ran, "node:GPUs node:GPUs ...", with nodes counted from first on. */
void lull_scenario_write_placement(const struct lull_cluster_outcome *outcome, uint32_t first,
                                   FILE *file);

/* ---- a run of a scenario --------------------------------------------------------------------- */

struct lull_scenario_run {
    const struct lull_cluster_policy_ops *policy;
    struct lull_cluster_run *run;
    bool is_certified;                           /* the policy's objective has a bound: pd-rats */
    bool is_bounded;                             /* --bound was given */
    struct lull_cluster_certificate certificate; /* valid if is_certified */
    struct lull_cluster_bound bound;             /* valid if is_bounded */
};

/*
 * Runs all jobs under a policy, and evaluates the run as the options specify. Borrows the scenario,
 * the policy and the options. Errors: -ENOMEM; those of lull_cluster_simulate, lull_cluster_certify
 * and lull_cluster_bound. lull_scenario_run_fini() must follow, also after an error.
 */
int lull_scenario_run_init(struct lull_scenario_run *run, const struct lull_scenario *scenario,
                           const struct lull_cluster_policy_ops *policy,
                           const struct lull_scenario_policy_options *options,
                           struct lull_error *err);
void lull_scenario_run_fini(struct lull_scenario_run *run);

#endif
