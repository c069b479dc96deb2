/*
 * The tables of a run (CSV): the outcome of each job, and the power of the cluster over time. Each
 * is written atomically. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_SIMULATE_TABLES_H
#define LULL_CLUSTER_CLI_SIMULATE_TABLES_H

#include "cluster/cli/simulate/scenario.h"

/*
 * Writes one line per job, in the order of arrival:
 * job_id,vc,gpus,fate,submit_s,start_s,end_s,placement,shared_s,reason; a placement is node:GPUs in
 * the order of choice. Errors: -ENOMEM; those of lull_file_write_atomic.
 */
int lull_tables_write_jobs(const char *path, const struct lull_scenario_model *model,
                           const struct lull_cluster_run *run, struct lull_error *err);

/*
 * Writes one line per event, in the order of time, as Batsim's energy trace has it: time (s);
 * on the clock of the table of jobs; energy (J) since the first submission; wattmin (W), the power
 * of all nodes if no GPU had a job; epower (W), the mean since the line above, NA if no time has
 * passed; event_type, s: a job starts, e: it ends or is preempted, p: it changes its clock, or
 * a node is turned on or off, fails or works again. The run kept its power. Errors: -ENOMEM; those
 * of lull_file_write_atomic.
 */
int lull_tables_write_power(const char *path, const struct lull_scenario_model *model,
                            const struct lull_cluster_run *run, struct lull_error *err);

#endif
