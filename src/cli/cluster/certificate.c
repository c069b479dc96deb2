/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/certificate.h"

#include <errno.h>
#include <stdlib.h>

#include "core/cluster/dual_search.h"
#include "core/cluster/slotted.h"

enum {
    SLOTS = 2048,
    STEPS = 60,
    /* Deadlines and long jobs reach beyond the run: looked at in slots so many times as far. */
    MOST_RUNS = 4,
    MOST_SLOTS = 8 * SLOTS,
};

static double cost_of(const struct lull_cluster_jobs *jobs, const struct lull_cluster_run *run,
                      double second_j)
{
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(run);
    double cost_j;
    double idle_j;

    lull_cluster_run_energy(run, &cost_j, &idle_j);
    for (size_t i = 0; i < jobs->count; i++) {
        const struct lull_cluster_job *job = &jobs->all[i];

        if (outcomes[i].fate != LULL_CLUSTER_DONE)
            continue;
        cost_j += second_j * job->weight * (double)(outcomes[i].end_ns - job->arrival_ns) * 1e-9;
        if (outcomes[i].end_ns <= job->deadline_ns)
            cost_j -= job->value_j;
    }
    return cost_j;
}

/* ---- the problem -------------------------------------------------------------------------- */

static int64_t longer(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* Jobs with a value may be run or left out, whatever this run did; all_out has room for all. How
 * many; the last end or arrival of theirs. */
static size_t take(const struct lull_cluster_jobs *jobs, const struct lull_cluster_run *run,
                   struct lull_cluster_job *all_out, int64_t *last_ns_out)
{
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(run);
    size_t count = 0;

    *last_ns_out = 1;
    for (size_t i = 0; i < jobs->count; i++) {
        const bool is_done = outcomes[i].fate == LULL_CLUSTER_DONE;
        struct lull_cluster_job *job = &all_out[count];

        if (!is_done && jobs->all[i].value_j <= 0.0)
            continue;
        *job = jobs->all[i];
        if (job->value_j <= 0.0 && outcomes[i].end_ns > job->deadline_ns)
            job->deadline_ns = LULL_CLUSTER_NEVER;
        *last_ns_out = longer(*last_ns_out, is_done ? outcomes[i].end_ns : jobs->all[i].arrival_ns);
        count++;
    }
    return count;
}

/* Slots reach as far as deadlines do, within limits. */
static void choose_slots(const struct lull_cluster_jobs *jobs, int64_t last_ns,
                         struct lull_slotting *slotting)
{
    const int64_t limit_ns = INT64_MAX / 2 / MOST_RUNS;
    const int64_t run_ns = last_ns < limit_ns ? last_ns : limit_ns;
    int64_t horizon_ns = run_ns;
    int64_t longest_ns = 0;

    for (size_t i = 0; i < jobs->count; i++) {
        const struct lull_cluster_job *job = &jobs->all[i];

        if (job->value_j > 0.0 && job->deadline_ns != LULL_CLUSTER_NEVER)
            horizon_ns = longer(horizon_ns, job->deadline_ns);
        for (uint32_t m = 0; m < job->mode_count; m++)
            longest_ns = longer(longest_ns, job->modes[m].time_ns);
    }
    slotting->horizon_ns = horizon_ns < MOST_RUNS * run_ns ? horizon_ns : MOST_RUNS * run_ns;
    slotting->slot_ns =
        longer(longer(run_ns / SLOTS, (slotting->horizon_ns + longest_ns) / MOST_SLOTS), 1);
}

/* ---- its bound ---------------------------------------------------------------------------- */

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
    struct lull_slotting slotting = {
        .completion_w = second_j, .cap_w = LULL_SLOTS_UNCAPPED, .is_open = true};
    struct lull_cluster_jobs taken = {.all = all};
    struct lull_slotted slotted;
    int64_t last_ns;
    int result;

    if (all == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu jobs", jobs->count);
    *certificate_out = (struct lull_cluster_certificate){.cost_j = cost_of(jobs, run, second_j)};
    taken.count = take(jobs, run, all, &last_ns);
    choose_slots(&taken, last_ns, &slotting);
    result = lull_slotted_create(cluster, &taken, &slotting, &slotted, err);
    if (result == 0) {
        result = search(&slotted.problem, certificate_out->cost_j, &certificate_out->bound_j);
        if (result < 0)
            lull_error_set(err, result, "no memory for prices of %u slots", slotted.problem.slots);
        lull_slotted_fini(&slotted);
    }
    free(all);
    return result;
}
