/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/bound.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "cluster/core/bound/dual_bound.h"
#include "cluster/core/bound/dual_search.h"
#include "cluster/core/power/baseline_power.h"
#include "cluster/core/bound/slot_relaxation.h"

/* Slots of a run if no length of a slot is given. */
enum { DEFAULT_SLOTS = 288 };

/* The search of prices ends after this processor time or this many steps, or when its goal is this
 * near the best bound. 3000 jobs in 864 slots take about as many steps. */
enum { SEARCH_S = 60, SEARCH_STEPS = 3400 };
static const double search_fine_ratio = 1e-6;

/* The jobs that a bound is of, and how their time and power become slots. */
struct bounding {
    const struct lull_cluster *cluster;
    const struct lull_cluster_conditions *conditions;
    struct lull_cluster_job *all;
    struct lull_cluster_jobs done;
    double *rest_w; /* [type] */
    struct lull_slotting slotting;
};

/* ---- the jobs ----------------------------------------------------------------------------- */

/* Takes the jobs that were done, since the bound is of schedules that run them; a job that was late
 * has no deadline there. Returns the last end. */
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
    int64_t slot_ns = last_end_ns / DEFAULT_SLOTS;

    if (slot_s > 0.0)
        slot_ns = (int64_t)fmin(slot_s * 1e9, (double)LULL_CLUSTER_MAX_NS);
    return slot_ns > 0 ? slot_ns : 1;
}

/* The power under the caps for jobs above the idle power of all GPUs. The caps
 * of nodes count as their sum, because slots do not contain the places of jobs. */
static int64_t choose_cap_w(const struct bounding *bounding)
{
    const struct lull_power_cap *cap = &bounding->conditions->cap;
    double most_w = INFINITY;

    if (cap->cluster_w > 0.0)
        most_w = cap->cluster_w;
    if (cap->node_w > 0.0)
        most_w = fmin(most_w, cap->node_w * bounding->cluster->node_count);
    most_w -= lull_baseline_power_total_w(bounding->cluster, bounding->rest_w);
    if (most_w > (double)LULL_SLOTS_MOST_CAP_W)
        return LULL_SLOTS_UNCAPPED;
    return (int64_t)ceil(fmax(most_w, 0.0));
}

static int cluster_bound_prepare(struct bounding *bounding, const struct lull_cluster_jobs *jobs,
                                 const struct lull_cluster_run *run, double slot_s,
                                 struct lull_error *err)
{
    int64_t last_end_ns;

    bounding->all = calloc(jobs->count + 1, sizeof(*bounding->all));
    bounding->rest_w = calloc(bounding->cluster->type_count, sizeof(*bounding->rest_w));
    if (bounding->all == NULL || bounding->rest_w == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu jobs", jobs->count);
    last_end_ns = take_done(bounding, jobs, run);
    lull_baseline_power_of_types(bounding->cluster, &bounding->done,
                                 bounding->conditions->turns_nodes_off, bounding->rest_w);
    bounding->slotting = (struct lull_slotting){
        .slot_ns = choose_slot_ns(slot_s, last_end_ns),
        .horizon_ns = last_end_ns,
        .cap_w = choose_cap_w(bounding),
        .peak_ratio = bounding->conditions->cap.peak_ratio,
        .rest_w = bounding->rest_w,
        .may_reclock = true,
    };
    return 0;
}

/* ---- the search of prices ------------------------------------------------------------------ */

/* Returns whether the search has used up its processor time. */
static bool bound_is_time_over(void *user)
{
    const clock_t *until = user;

    return clock() > *until;
}

/* Searches prices that prove a higher bound; overwrites prices_j. */
static int bound_search(const struct lull_slot_problem *problem, double *prices_j,
                        double *bound_j_out)
{
    clock_t until = clock() + (clock_t)SEARCH_S * CLOCKS_PER_SEC;
    const struct lull_price_ascent ascent = {
        .achieved = (double)INFINITY,
        .fine_ratio = search_fine_ratio,
        .steps = SEARCH_STEPS,
        .is_over = bound_is_time_over,
        .user = &until,
    };

    return lull_dual_search(problem, &ascent, prices_j, bound_j_out);
}

/* ---- one bound ---------------------------------------------------------------------------- */

/* The most that prices prove the jobs need. Without prices it is their energy if none blocks
 * another, each in its cheapest operating point. A run that needs no more has the best bound. */
static int bound_by_prices(const struct lull_slot_problem *problem, double run_j,
                           double *bound_j_out)
{
    double *prices_j = calloc(lull_dual_cells(problem), sizeof(*prices_j));
    const struct lull_dual_prices none = {prices_j, NULL};
    int rc = -ENOMEM;

    if (prices_j != NULL)
        rc = lull_dual_bound(problem, &none, bound_j_out, NULL);
    if (rc == 0 && *bound_j_out < run_j * (1.0 - 1e-12))
        rc = bound_search(problem, prices_j, bound_j_out);
    free(prices_j);
    return rc;
}

/* Bounds the energy of the jobs, in total or only above the idle power of their GPUs. */
static int bound_jobs(const struct bounding *bounding, bool is_above_rest, double run_j,
                      double *bound_j_out, struct lull_error *err)
{
    struct lull_slotting slotting = bounding->slotting;
    struct lull_slot_relaxation slotted;
    int rc;

    slotting.is_above_rest = is_above_rest;
    rc = lull_slot_relaxation_create(bounding->cluster, &bounding->done, &slotting, &slotted, err);
    if (rc < 0)
        return rc;
    rc = bound_by_prices(&slotted.problem, run_j, bound_j_out);
    if (rc < 0)
        lull_error_set(err, rc, "no memory for a bound of %u slots", slotted.problem.slots);
    lull_slot_relaxation_fini(&slotted);
    return rc;
}

/* Bounds the energy of all GPUs, also those without a job; total_j is the energy of the run.
 * Leaves *bound_j_out unchanged where idle GPUs draw nothing. */
static int bound_all(const struct bounding *bounding, double total_j, double *bound_j_out,
                     struct lull_error *err)
{
    const struct lull_cluster_conditions *conditions = bounding->conditions;
    int64_t end_ns;
    double rest_j;
    int rc = lull_baseline_power_min_end(bounding->cluster, &bounding->done, &end_ns);

    if (rc < 0)
        return lull_error_set(err, rc, "no memory for %zu jobs", bounding->done.count);
    rest_j = lull_baseline_power_energy_j(bounding->cluster, bounding->rest_w, conditions->failures,
                                          conditions->failure_count, end_ns);
    if (rest_j <= 0.0)
        return 0;
    rc = bound_jobs(bounding, true, total_j - rest_j, bound_j_out, err);
    *bound_j_out += rest_j;
    return rc;
}

/* No run needs less than a lower bound. If one does, the bound is wrong and is not reported. */
static int check_sound(double bound_j, double needed_j, struct lull_error *err)
{
    if (lull_dual_is_sound(bound_j, needed_j, needed_j))
        return 0;
    return lull_error_set(err, -EPROTO,
                          "internal error: the lower bound is %.9g J, but this run needs %.9g J; "
                          "please report this with the job table and the command line",
                          bound_j, needed_j);
}

int lull_cluster_bound(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                       const struct lull_cluster_run *run,
                       const struct lull_cluster_conditions *conditions, double slot_s,
                       struct lull_cluster_bound *bound_out, struct lull_error *err)
{
    struct bounding bounding = {.cluster = cluster, .conditions = conditions};
    struct lull_cluster_bound bound = {0};
    double run_j, all_j, idle_j;
    int rc = cluster_bound_prepare(&bounding, jobs, run, slot_s, err);

    if (rc < 0)
        goto end;
    if (bounding.done.count > 0) {
        lull_cluster_run_energy(run, &run_j, &idle_j);
        all_j = run_j + idle_j + lull_cluster_run_turn_on_j(run);
        rc = bound_jobs(&bounding, false, run_j, &bound.run_j, err);
        if (rc == 0)
            rc = bound_all(&bounding, all_j, &bound.all_j, err);
        if (rc == 0)
            rc = check_sound(bound.run_j, run_j, err);
        bound.all_j = fmax(bound.all_j, bound.run_j);
        if (rc == 0)
            rc = check_sound(bound.all_j, all_j, err);
        if (rc < 0)
            goto end;
    }
    *bound_out = bound;
end:
    free(bounding.all);
    free(bounding.rest_w);
    return rc;
}

/* ---- limits of the bound ------------------------------------------------------------------ */

size_t lull_cluster_bound_notes(const struct lull_cluster_jobs *jobs,
                                const struct lull_cluster_conditions *conditions,
                                const char **notes_out)
{
    size_t count = 0;
    size_t preemptible = 0;

    for (size_t i = 0; i < jobs->count; i++)
        preemptible += lull_cluster_may_pause(&jobs->all[i], conditions);
    if (preemptible > 0)
        notes_out[count++] = "jobs that may run in pieces count with their least energy, and as if "
                             "they took no GPUs";
    if (conditions->cap.node_w > 0.0)
        notes_out[count++] = "caps of nodes count only as their sum, because the bound does not "
                             "know where jobs run";
    if (conditions->turns_nodes_off)
        notes_out[count++] = "GPUs without a job count as off, and turning on nodes as free, "
                             "because the bound does not know which nodes are on";
    if (conditions->failure_count > 0)
        notes_out[count++] = "work that failures undo counts as free";
    return count;
}
