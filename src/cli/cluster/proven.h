/*
 * What is proven of a policy beforehand, beside what its run is certified to have reached
 * (certificate.h): the ratio of docs/competitive.md for the jobs at hand, and what it does not
 * speak of. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_PROVEN_H
#define LULL_CLI_CLUSTER_PROVEN_H

#include <stdio.h>

#include <jansson.h>

#include "cli/cluster/conditions.h"
#include "core/cluster/menu.h"

struct lull_cluster_proven {
    const struct lull_cluster_policy_ops *policy;
    const struct lull_conditions_options *conditions;
    struct lull_menu_theorem theorem; /* of pd-rats-safe; else all 0 */
};

/* -ENOMEM. */
int lull_cluster_prove(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                       const struct lull_cluster_policy_ops *policy,
                       const struct lull_conditions_options *conditions,
                       struct lull_cluster_proven *proven_out);

/* In lines for people. */
void lull_cluster_proven_print(const struct lull_cluster_proven *proven, FILE *out);

/* As fields: proven_ratio, null where there is none, and not_proven, what it does not speak of.
 * -ENOMEM. */
int lull_cluster_proven_json(const struct lull_cluster_proven *proven, json_t *into);

#endif
