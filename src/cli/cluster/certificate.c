/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/certificate.h"

#include <errno.h>
#include <stdlib.h>

#include "cli/cluster/bound.h"
#include "core/cluster/dual_search.h"
#include "core/cluster/slotted.h"

enum { SLOTS = 2048, STEPS = 60 };

static double cost_of(const struct lull_cluster_jobs *jobs, const struct lull_cluster_run *run,
                      double second_j)
{
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(run);
    double sum_j = 0.0;

    for (size_t i = 0; i < jobs->count; i++) {
        const struct lull_cluster_job *job = &jobs->all[i];

        if (outcomes[i].fate == LULL_CLUSTER_DONE)
            sum_j += job->modes[outcomes[i].mode].energy_j - job->value_j +
                     second_j * job->weight * (double)(outcomes[i].end_ns - job->arrival_ns) * 1e-9;
    }
    return sum_j;
}

static int search(const struct lull_slot_problem *problem, double cost_j, double *bound_j_out)
{
    double *prices_j = calloc((size_t)problem->type_count * problem->slots, sizeof(*prices_j));
    const int result = prices_j != NULL
                           ? lull_dual_search(problem, cost_j, STEPS, prices_j, bound_j_out)
                           : -ENOMEM;

    free(prices_j);
    return result;
}

int lull_cluster_certify(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                         const struct lull_cluster_run *run, double second_j,
                         struct lull_cluster_certificate *certificate_out, struct lull_error *err)
{
    struct lull_cluster_job *all = calloc(jobs->count + 1, sizeof(*all));
    struct lull_slotting slotting = {.completion_w = second_j, .cap_w = LULL_SLOTS_UNCAPPED};
    struct lull_cluster_jobs done = {.all = all};
    struct lull_slotted slotted;
    int result;

    if (all == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu jobs", jobs->count);
    *certificate_out = (struct lull_cluster_certificate){.cost_j = cost_of(jobs, run, second_j)};
    done.count = lull_cluster_take_done(jobs, run, all, &slotting.horizon_ns);
    slotting.slot_ns = slotting.horizon_ns / SLOTS > 0 ? slotting.horizon_ns / SLOTS : 1;
    result = lull_slotted_create(cluster, &done, &slotting, &slotted, err);
    if (result == 0) {
        result = search(&slotted.problem, certificate_out->cost_j, &certificate_out->bound_j);
        if (result < 0)
            lull_error_set(err, result, "no memory for prices of %u slots", slotted.problem.slots);
        lull_slotted_fini(&slotted);
    }
    free(all);
    return result;
}
