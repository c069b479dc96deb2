/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/bound.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cli/cluster/bound_process.h"
#include "core/cluster/dual_bound.h"
#include "core/cluster/rest.h"
#include "core/cluster/slotted.h"

enum { USUAL_SLOTS = 288 };

/* What a bound is made of. */
struct bounding {
    const struct lull_cluster *cluster;
    const struct lull_cluster_conditions *conditions;
    struct lull_cluster_job *all;
    struct lull_cluster_jobs done;
    double *rest_w; /* [type] */
    struct lull_slotting slotting;
};

/* ---- the jobs ----------------------------------------------------------------------------- */

/* Those that were done, and have to be; what was late has no deadline. The last end. */
static int64_t take_done(struct bounding *bounding, const struct lull_cluster_jobs *jobs,
                         const struct lull_cluster_run *run)
{
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(run);
    int64_t last_end_ns = 0;
    size_t count = 0;

    for (size_t i = 0; i < jobs->count; i++) {
        struct lull_cluster_job *job = &bounding->all[count];

        if (outcomes[i].fate != LULL_CLUSTER_DONE)
            continue;
        *job = jobs->all[i];
        job->value_j = 0.0;
        job->is_preemptible = lull_cluster_may_pause(job, bounding->conditions);
        if (outcomes[i].end_ns > job->deadline_ns)
            job->deadline_ns = LULL_CLUSTER_NEVER;
        if (outcomes[i].end_ns > last_end_ns)
            last_end_ns = outcomes[i].end_ns;
        count++;
    }
    bounding->done = (struct lull_cluster_jobs){bounding->all, count};
    return last_end_ns;
}

static int64_t choose_slot_ns(double slot_s, int64_t last_end_ns)
{
    const int64_t slot_ns = slot_s > 0.0 ? (int64_t)fmin(slot_s * 1e9, (double)LULL_CLUSTER_MOST_NS)
                                         : last_end_ns / USUAL_SLOTS;

    return slot_ns > 0 ? slot_ns : 1;
}

/* What the caps leave for jobs above what all GPUs draw at rest; of nodes only the sum counts. */
static int64_t choose_cap_w(const struct bounding *bounding)
{
    const struct lull_power_cap *cap = &bounding->conditions->cap;
    double most_w = INFINITY;

    if (cap->cluster_w > 0.0)
        most_w = cap->cluster_w;
    if (cap->node_w > 0.0)
        most_w = fmin(most_w, cap->node_w * bounding->cluster->node_count);
    most_w -= lull_rest_total_w(bounding->cluster, bounding->rest_w);
    return most_w <= (double)LULL_SLOTS_MOST_CAP_W ? (int64_t)ceil(fmax(most_w, 0.0))
                                                   : LULL_SLOTS_UNCAPPED;
}

static int prepare(struct bounding *bounding, const struct lull_cluster_jobs *jobs,
                   const struct lull_cluster_run *run, double slot_s, struct lull_error *err)
{
    int64_t last_end_ns;

    bounding->all = calloc(jobs->count + 1, sizeof(*bounding->all));
    bounding->rest_w = calloc(bounding->cluster->type_count, sizeof(*bounding->rest_w));
    if (bounding->all == NULL || bounding->rest_w == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu jobs", jobs->count);
    last_end_ns = take_done(bounding, jobs, run);
    lull_rest_power(bounding->cluster, &bounding->done, bounding->conditions->turns_nodes_off,
                    bounding->rest_w);
    bounding->slotting = (struct lull_slotting){
        .slot_ns = choose_slot_ns(slot_s, last_end_ns),
        .horizon_ns = last_end_ns,
        .cap_w = choose_cap_w(bounding),
        .peak_ratio = bounding->conditions->cap.peak_ratio,
        .rest_w = bounding->rest_w,
    };
    return 0;
}

/* ---- one bound ---------------------------------------------------------------------------- */

/* What the jobs need if nothing stands in the way of any: each its cheapest mode. */
static int bound_alone(const struct lull_slot_problem *problem, double *bound_j_out)
{
    double *none = calloc((size_t)problem->type_count * problem->slots, sizeof(*none));
    const struct lull_dual_prices prices = {none, NULL};
    const int result =
        none != NULL ? lull_dual_bound(problem, &prices, bound_j_out, NULL) : -ENOMEM;

    free(none);
    return result;
}

/* Of what jobs need, above rest or not. Where the run itself needed no more than its jobs do alone,
 * nothing is left to be found out. */
static int bound_jobs(const struct bounding *bounding, bool is_above_rest, double run_j,
                      double *bound_j_out, struct lull_error *err)
{
    struct lull_slotting slotting = bounding->slotting;
    struct lull_slotted slotted;
    int result;

    slotting.is_above_rest = is_above_rest;
    result = lull_slotted_create(bounding->cluster, &bounding->done, &slotting, &slotted, err);
    if (result < 0)
        return result;
    result = bound_alone(&slotted.problem, bound_j_out);
    if (result < 0)
        lull_error_set(err, result, "no memory for a bound of %u slots", slotted.problem.slots);
    else if (*bound_j_out < run_j * (1.0 - 1e-12))
        result =
            lull_bound_process(&slotted.problem, (double)slotting.slot_ns * 1e-9, bound_j_out, err);
    lull_slotted_fini(&slotted);
    return result;
}

/* With GPUs that have no job. total_j: of the run. */
static int bound_all(const struct bounding *bounding, double total_j, double *bound_j_out,
                     struct lull_error *err)
{
    const struct lull_cluster_conditions *conditions = bounding->conditions;
    int64_t end_ns;
    double rest_j;
    int result = lull_rest_least_end(bounding->cluster, &bounding->done, &end_ns);

    if (result < 0)
        return lull_error_set(err, result, "no memory for %zu jobs", bounding->done.count);
    rest_j = lull_rest_energy_j(bounding->cluster, bounding->rest_w, conditions->failures,
                                conditions->failure_count, end_ns);
    if (rest_j <= 0.0)
        return 0;
    result = bound_jobs(bounding, true, total_j - rest_j, bound_j_out, err);
    *bound_j_out += rest_j;
    return result;
}

int lull_cluster_bound(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                       const struct lull_cluster_run *run,
                       const struct lull_cluster_conditions *conditions, double slot_s,
                       struct lull_cluster_bound *bound_out, struct lull_error *err)
{
    struct bounding bounding = {.cluster = cluster, .conditions = conditions};
    struct lull_cluster_bound bound = {0};
    double run_j, idle_j;
    int result = prepare(&bounding, jobs, run, slot_s, err);

    lull_cluster_run_energy(run, &run_j, &idle_j);
    if (result == 0 && bounding.done.count > 0) {
        result = bound_jobs(&bounding, false, run_j, &bound.run_j, err);
        if (result == 0)
            result = bound_all(&bounding, run_j + idle_j + lull_cluster_run_turn_on_j(run),
                               &bound.all_j, err);
        bound.all_j = fmax(bound.all_j, bound.run_j);
    }
    free(bounding.all);
    free(bounding.rest_w);
    if (result == 0)
        *bound_out = bound;
    return result;
}

/* ---- what it does not count --------------------------------------------------------------- */

size_t lull_cluster_bound_notes(const struct lull_cluster_jobs *jobs,
                                const struct lull_cluster_conditions *conditions,
                                const char **notes_out)
{
    size_t count = 0;
    size_t preemptible = 0;

    for (size_t i = 0; i < jobs->count; i++)
        preemptible += lull_cluster_may_pause(&jobs->all[i], conditions);
    if (preemptible > 0)
        notes_out[count++] = "jobs that may run in pieces count with their least energy, and take "
                             "no room";
    if (conditions->cap.node_w > 0.0)
        notes_out[count++] = "of the caps of nodes only the sum counts: where GPUs are, it does "
                             "not know";
    if (conditions->turns_nodes_off)
        notes_out[count++] = "GPUs without a job count as if off, and turning on nothing: which "
                             "nodes are on, it does not know";
    if (conditions->failure_count > 0)
        notes_out[count++] = "what failures undo counts nothing";
    return count;
}
