/*
 * How far a run was from the optimum at most, by prices found after it
 * (core/cluster/dual_search.h). SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_CERTIFICATE_H
#define LULL_CLI_CLUSTER_CERTIFICATE_H

#include "base/error.h"
#include "simulator/cluster/engine.h"

struct lull_cluster_certificate {
    double cost_j;  /* of the jobs that were done: energy, and second_j for each second until its
                       end, times its weight */
    double bound_j; /* no schedule of theirs costs less (core/cluster/slotted.h says which) */
};

/* Times become a 2048th of the whole, at most. -ENOMEM; -EINVAL and -ERANGE of slotted.h. */
int lull_cluster_certify(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                         const struct lull_cluster_run *run, double second_j,
                         struct lull_cluster_certificate *certificate_out, struct lull_error *err);

#endif
