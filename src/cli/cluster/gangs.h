/*
 * Private to gangs*.c: a trace's jobs on a cluster. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_GANGS_H
#define LULL_CLI_CLUSTER_GANGS_H

#include <stdio.h>

#include "base/error.h"
#include "cli/cluster/bound.h"
#include "cli/cluster/certificate.h"
#include "cli/cluster/gangs_options.h"
#include "cli/cluster/proven.h"
#include "cli/printable.h"
#include "simulator/cluster/engine.h"
#include "trace/cluster_jobs.h"
#include "trace/cluster_pools.h"

struct lull_gangs {
    const struct lull_gangs_options *wish;
    const struct lull_cluster_policy_ops *policy; /* NULL: to compare several */
    struct lull_cluster_jobs_table table;
    struct lull_cluster_pools_table pools; /* without rows: one pool */
    struct lull_cluster_type types[LULL_GANGS_MOST_TYPES];
    struct lull_cluster_node *nodes;
    struct lull_cluster cluster;     /* one pool more than there are, for jobs of others */
    struct lull_cluster_mode *plain; /* one per job, where no model is told */
    struct lull_gangs_modes modes;   /* else */
    struct lull_cluster_job *all;
    struct lull_cluster_jobs jobs;
    bool has_values; /* one of them, at least */
    struct lull_conditions conditions;
    struct lull_cluster_run *run;
    struct lull_cluster_certificate certificate; /* where lull_gangs_is_certified() */
    struct lull_cluster_proven proven;           /* there, too */
    struct lull_cluster_bound bound;             /* with --bound */
};

/* All jobs under a policy, with what the command line tells beside. Errors: -EINVAL no job has the
 * value that the policy needs; those of lull_cluster_simulate. */
int lull_gangs_run(const struct lull_gangs *gangs, const struct lull_cluster_policy_ops *policy,
                   struct lull_cluster_run **run_out, struct lull_error *err);

/* "all" where there is one pool; "others" for jobs of pools that have no nodes. */
struct lull_printable lull_gangs_pool_name(const struct lull_gangs *gangs, uint32_t pool);

/* Nodes of a placement count from 0 in each pool, so from its first node on. O(nodes). */
uint32_t lull_gangs_first_node(const struct lull_gangs *gangs, uint32_t pool);

/* "node:GPUs node:GPUs ..." */
void lull_gangs_write_placement(const struct lull_cluster_outcome *outcome, uint32_t first,
                                FILE *file);

/* Whether runs of the policy come with a certificate: what pd-rats and pd-rats-safe minimise has a
 * bound. */
bool lull_gangs_is_certified(const struct lull_cluster_policy_ops *policy);

/* That of a run. Errors: those of lull_cluster_certify. */
int lull_gangs_certify(const struct lull_gangs *gangs, const struct lull_cluster_policy_ops *policy,
                       const struct lull_cluster_run *run,
                       struct lull_cluster_certificate *certificate_out, struct lull_error *err);

/* The summary, or what is asked of one job. Errors: -EINVAL no such job; -ENOMEM. */
int lull_gangs_print(const struct lull_gangs *gangs, struct lull_error *err);

/* Errors: -ENOMEM; those of lull_file_write_atomic. */
int lull_gangs_write_jobs(const struct lull_gangs *gangs, struct lull_error *err);

#endif
