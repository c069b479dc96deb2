/*
 * The theoretical guarantee of a policy before it runs: the ratio of cluster/docs/competitive.md
 * for these jobs, and the cases that the theorem does not cover. (certificate.h certifies a
 * finished run.) SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_SIMULATE_GUARANTEE_H
#define LULL_CLUSTER_CLI_SIMULATE_GUARANTEE_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

#include "cluster/core/model/schedule_set.h"
#include "cluster/simulator/engine.h"

struct lull_guarantee {
    bool is_proven; /* a theorem covers the policy; else theorem is all zeros */
    struct lull_schedule_set_theorem theorem;
    int64_t slot_ns;
    bool has_given_gang;  /* the user gave the largest gang; else it is that of the jobs */
    bool has_given_range; /* the same of gains */
    size_t preemptible;   /* jobs that may run in pieces */
    bool has_failures;    /* what breaks promises in this scenario, and with them the ratio */
    bool has_cap;
    bool turns_nodes_off;
    bool is_shared; /* links or a storage */
};

/* rules: what the policy was given. has_failures: nodes may fail, whether or not one does. Errors:
 * -ENOMEM. */
int lull_guarantee_find(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                        const struct lull_cluster_policy_ops *policy,
                        const struct lull_schedule_rules *rules,
                        const struct lull_cluster_conditions *conditions, bool has_failures,
                        struct lull_guarantee *guarantee_out);

/* Prints the guarantee, and what it does not cover, in lines for users. */
void lull_guarantee_print(const struct lull_guarantee *guarantee, FILE *out);

/* Adds the fields proven_ratio (null where there is none), not_proven (what the theorem does not
 * cover, or why there is no ratio) and assumed (null where there is no theorem). Errors: -ENOMEM.
 */
int lull_guarantee_json(const struct lull_guarantee *guarantee, json_t *into);

#endif
