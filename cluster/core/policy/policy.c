/*
 * The table of all policies, and the rules of those that are one comparison or one sum on top of a
 * family of policies. SPDX-License-Identifier: Apache-2.0
 */
#include "cluster/core/policy/policy.h"

#include <errno.h>
#include <string.h>

#include "cluster/core/policy/ordered.h"
#include "cluster/core/policy/planned.h"
#include "cluster/core/policy/ranked.h"
#include "cluster/core/policy/single.h"

/* ---- in an order: the first job that does not fit holds up its pool ------------------------ */

static int64_t by_arrival(const struct lull_cluster_job *job)
{
    return job->arrival_ns;
}

/* Jobs without a deadline come last. */
static int64_t policy_by_deadline(const struct lull_cluster_job *job)
{
    return job->deadline_ns;
}

static int64_t by_run_time(const struct lull_cluster_job *job)
{
    return job->points[0].time_ns;
}

static int64_t by_run_time_down(const struct lull_cluster_job *job)
{
    return -job->points[0].time_ns;
}

/* ---- planned on arrival -------------------------------------------------------------------- */

static double completion_s(const struct lull_cluster_choice *choice, double setting)
{
    (void)setting;
    return choice->wait_s + choice->run_s;
}

/* The idle power that its GPUs would have drawn meanwhile is not added. The parameter prices
 * completion times, so that jobs without deadlines need not wait for the last joule. */
static double added_energy_j(const struct lull_cluster_choice *choice, double setting)
{
    return choice->energy_j - choice->type->idle_w * choice->point->gpus * choice->run_s +
           setting * choice->job->weight * (choice->wait_s + choice->run_s);
}

/* ---- ranked, and preemptive where jobs are ------------------------------------------------- */

static double time_left(const struct lull_cluster_job *job, uint32_t gpus, int64_t full_ns,
                        int64_t need_ns)
{
    (void)job;
    (void)gpus;
    (void)full_ns;
    return (double)need_ns;
}

static double service_left(const struct lull_cluster_job *job, uint32_t gpus, int64_t full_ns,
                           int64_t need_ns)
{
    (void)job;
    (void)full_ns;
    return (double)need_ns * gpus;
}

/* ---- the table ----------------------------------------------------------------------------- */

#define ROW(...) (&(const struct lull_cluster_policy_ops){__VA_ARGS__})

/* The typical settings of parameters are chosen from the sweeps of
 * cluster/bench/bench_cluster_policies.py, whose tables are in
 * docs/research/measurements/cluster.md. */
static const struct lull_cluster_policy_ops *const table[] = {
    ROW(.name = "fifo",
        .summary = "first come, first served; the first that does not fit holds up its pool",
        .calls = &lull_ordered_calls,
        .rule = &(const struct lull_cluster_ordering){by_arrival, "came first"}),
    ROW(.name = "edf",
        .summary = "earliest deadline first; the first that does not fit holds up its pool",
        .calls = &lull_ordered_calls,
        .rule =
            &(const struct lull_cluster_ordering){policy_by_deadline, "had the earliest deadline"}),
    ROW(.name = "sjf",
        .summary = "shortest job first; the first that does not fit holds up its pool",
        .calls = &lull_ordered_calls,
        .rule = &(const struct lull_cluster_ordering){by_run_time, "was the shortest"}),
    ROW(.name = "lpt",
        .summary = "longest job first; the first that does not fit holds up its pool",
        .calls = &lull_ordered_calls,
        .rule = &(const struct lull_cluster_ordering){by_run_time_down, "was the longest"}),
    ROW(.name = "backfill",
        .summary = "first come, first served; others run ahead if they do not delay the first "
                   "(EASY)",
        .calls = &lull_backfill_calls),
    /* Mu'alem and Feitelson, TPDS 2001. Jobs run in the first operating point of each type. */
    ROW(.name = "backfill-conservative",
        .summary = "each job at the earliest time and place that delays no earlier job",
        .calls = &lull_planned_calls,
        .rule = &(const struct lull_cluster_planning){.reason = "delays no earlier job",
                                                      .cost = completion_s,
                                                      .is_first_point_only = true,
                                                      .ignores_deadlines = true}),
    /* After Thang, "Online primal-dual algorithms with configuration linear programs", ISAAC'20,
       arXiv 1408.0965: the least marginal energy. */
    ROW(.name = "greedy-energy",
        .summary =
            "each job where, when and at the clock that adds least energy and meets its deadline",
        .calls = &lull_planned_calls,
        .rule = &(const struct lull_cluster_planning){.reason = "adds least energy in time",
                                                      .cost = added_energy_j},
        .parameter =
            &(const struct lull_policy_parameter){
                "J that a second of completion time of a job of weight 1 is worth; 0: energy alone",
                0.0, 1e9, 400.0}),
    /* SRPT over gangs, with the preemption costs of Helios (Hu et al., SC'21). */
    ROW(.name = "srtf", .summary = "shortest remaining time first; preempts jobs that may be",
        .calls = &lull_ranked_calls,
        .rule = &(const struct lull_cluster_ranking){.reason = "had the least time left",
                                                     .rank = time_left}),
    /* Tiresias, NSDI'19, with known durations. */
    ROW(.name = "srsf",
        .summary = "shortest remaining service (time x GPUs) first; preempts jobs that may be",
        .calls = &lull_ranked_calls,
        .rule = &(const struct lull_cluster_ranking){.reason = "had the least service left",
                                                     .rank = service_left}),
    ROW(.name = "hdf",
        .summary = "most weight for its GPU time first; clocks by the weight that waits",
        .calls = &lull_ranked_calls, .rule = &lull_hdf_ranking,
        .parameter =
            &(const struct lull_policy_parameter){
                "W per GPU that a waiting job of weight 1 per GPU is worth", 0.0, 1e9, 100.0}),
    ROW(.name = "powerflow",
        .summary = "best completion time at an energy budget; GPUs and clocks by time gained per "
                   "joule",
        .calls = &lull_ranked_calls, .rule = &lull_powerflow_ranking,
        .parameter =
            &(const struct lull_policy_parameter){
                "the energy budget, a share of what all jobs take in their first modes", 0.0, 10.0,
                0.85}),
    ROW(.name = "pd-rats",
        .summary =
            "least energy and time at posted prices; reservations, or preemption and resizing",
        .calls = &lull_pd_rats_calls,
        .parameter =
            &(const struct lull_policy_parameter){
                "what a second of a job's completion time is worth, J", 0.0, 1e9, 500.0}),
    NULL,
};

const struct lull_cluster_policy_ops *const *lull_cluster_policy_all(void)
{
    return table;
}

const struct lull_cluster_policy_ops *lull_cluster_policy_find(const char *name)
{
    const struct lull_cluster_policy_ops *const *row = table;

    while (*row != NULL && strcmp((*row)->name, name) != 0)
        row++;
    return *row;
}

int lull_cluster_policy_set(const struct lull_cluster_policy_ops *ops, double setting,
                            struct lull_cluster_policy_ops *set_out, struct lull_error *err)
{
    if (ops->parameter == NULL)
        return lull_error_set(err, -EINVAL, "policy %s has no knob", ops->name);
    if (!(setting >= ops->parameter->least && setting <= ops->parameter->most))
        return lull_error_set(err, -EINVAL, "policy %s: its knob, %s, goes from %g to %g",
                              ops->name, ops->parameter->what, ops->parameter->least,
                              ops->parameter->most);
    *set_out = *ops;
    set_out->setting = setting;
    set_out->is_set = true;
    return 0;
}

double lull_cluster_policy_setting(const struct lull_cluster_policy_ops *ops)
{
    if (ops->is_set)
        return ops->setting;
    return ops->parameter != NULL ? ops->parameter->default_value : 0.0;
}

int lull_cluster_policy_create(const struct lull_cluster_policy_ops *ops,
                               const struct lull_cluster *cluster,
                               const struct lull_cluster_jobs *jobs,
                               struct lull_cluster_policy **policy_out)
{
    return ops->calls->create(cluster, jobs, ops->rule, lull_cluster_policy_setting(ops),
                              policy_out);
}

bool lull_cluster_decide_start(struct lull_cluster_decision *decision, uint32_t job, uint32_t point,
                               size_t share_count, const char *reason)
{
    decision->act = LULL_CLUSTER_START;
    decision->job = job;
    decision->point = point;
    decision->share_count = share_count;
    decision->reason = reason;
    return true;
}

/* ---- deciders ------------------------------------------------------------------------------ */

static const struct lull_cluster_decider *decider_of(const struct lull_cluster_policy *around)
{
    return (const struct lull_cluster_decider *)around;
}

void lull_cluster_decider_end(struct lull_cluster_policy *around, uint32_t job, int64_t now_ns)
{
    decider_of(around)->calls->end(decider_of(around)->policy, job, now_ns);
}

void lull_cluster_decider_begin(struct lull_cluster_policy *around, uint32_t job, uint32_t point,
                                int64_t now_ns)
{
    if (decider_of(around)->calls->begin != NULL)
        decider_of(around)->calls->begin(decider_of(around)->policy, job, point, now_ns);
}

int lull_cluster_decider_adopt(struct lull_cluster_policy *around, uint32_t job,
                               const struct lull_cluster_share *shares, size_t count,
                               int64_t now_ns)
{
    if (decider_of(around)->calls->adopt == NULL)
        return 0;
    return decider_of(around)->calls->adopt(decider_of(around)->policy, job, shares, count, now_ns);
}

int lull_cluster_decider_recall(struct lull_cluster_policy *around, uint32_t job, uint32_t point)
{
    if (decider_of(around)->calls->recall == NULL)
        return 0;
    return decider_of(around)->calls->recall(decider_of(around)->policy, job, point);
}

void lull_cluster_decider_pace(struct lull_cluster_policy *around, uint32_t job, double pace,
                               int64_t end_ns, int64_t now_ns)
{
    if (decider_of(around)->calls->pace != NULL)
        decider_of(around)->calls->pace(decider_of(around)->policy, job, pace, end_ns, now_ns);
}

void lull_cluster_decider_node(struct lull_cluster_policy *around,
                               const struct lull_cluster_state *state, uint32_t node,
                               int64_t now_ns)
{
    const struct lull_cluster_policy_calls *calls = decider_of(around)->calls;

    if (calls != NULL && calls->node != NULL)
        calls->node(decider_of(around)->policy, state, node, now_ns);
}

void lull_cluster_decider_idle(struct lull_cluster_policy *around, uint32_t node, bool is_idle,
                               int64_t now_ns)
{
    if (decider_of(around)->calls->idle != NULL)
        decider_of(around)->calls->idle(decider_of(around)->policy, node, is_idle, now_ns);
}

int64_t lull_cluster_decider_wake_ns(const struct lull_cluster_policy *around, int64_t now_ns)
{
    const struct lull_cluster_policy_calls *calls = decider_of(around)->calls;

    if (calls == NULL || calls->wake_ns == NULL)
        return LULL_CLUSTER_NEVER;
    return calls->wake_ns(decider_of(around)->policy, now_ns);
}
