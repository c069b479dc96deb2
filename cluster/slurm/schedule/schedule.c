/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/slurm/schedule/schedule.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/core/power/power_cap.h"
#include "cluster/slurm/schedule/schedule_state.h"

#define SECOND_NS INT64_C(1000000000)

/* ---- beginning ----------------------------------------------------------------------------- */

static int slurm_schedule_make_decider(struct lull_schedule *schedule, struct lull_error *err)
{
    const struct lull_scheduling_rules *const rules = &schedule->rules;
    const struct lull_power_cap cap = {.cluster_w = rules->cap_w,
                                       .peak_ratio = LULL_POWER_CAP_PEAK_RATIO};

    for (uint32_t type = 0; rules->cap_w > 0.0 && type < schedule->cluster.type_count; type++)
        if (lull_point_table_gpu(rules->table, schedule->types[type].name) == NULL)
            return lull_error_set(err, -EINVAL,
                                  "a power cap needs idle_w and full_w of \"%.64s\" in the table "
                                  "of points (--points)",
                                  schedule->types[type].name);
    if (lull_cluster_policy_create(rules->policy, &schedule->cluster, &schedule->all,
                                   &schedule->decider.policy) < 0)
        return lull_error_set(err, -ENOMEM, "not enough memory for policy %s", rules->policy->name);
    schedule->decider.calls = rules->policy->calls;
    if (rules->cap_w <= 0.0)
        return 0;
    return lull_power_cap_wrap(&schedule->cluster, &schedule->all, &cap, &schedule->decider, err);
}

static struct lull_cluster_policy *slurm_schedule_policy(struct lull_schedule *schedule)
{
    return (struct lull_cluster_policy *)&schedule->decider;
}

static const struct lull_cluster_job *job_at(const struct lull_schedule *schedule, uint32_t number)
{
    return &schedule->jobs[number];
}

/* Returns whether the GPUs that a job reportedly has are free in the state. The batch system may
 * report jobs and nodes at different times. */
static bool slurm_schedule_fits(const struct lull_schedule *schedule,
                                const struct lull_schedule_job *own)
{
    for (uint32_t i = 0; i < own->share_count; i++)
        if (own->shares[i].gpus > lull_cluster_state_free(schedule->state, own->shares[i].node))
            return false;
    return true;
}

static int slurm_schedule_adopt(struct lull_schedule *schedule, uint32_t at)
{
    struct lull_schedule_job *const own = &schedule->own[at];
    const int64_t end_ns = schedule->now_ns + job_at(schedule, own->number)->points[0].time_ns;

    if (!slurm_schedule_fits(schedule, own)) {
        own->share_count = 0;
        return 0;
    }
    lull_cluster_state_take(schedule->state, own->shares, own->share_count);
    if (lull_heap_add(&schedule->ends, end_ns, own->number) < 0)
        return -ENOMEM;
    return lull_cluster_decider_adopt(slurm_schedule_policy(schedule), own->number, own->shares,
                                      own->share_count, schedule->now_ns);
}

/* Other jobs may use GPUs beyond those of the known jobs, and nodes may be unavailable. */
static void slurm_schedule_set_nodes(struct lull_schedule *schedule)
{
    for (uint32_t i = 0; i < schedule->cluster.node_count; i++) {
        const struct lull_queue_node *const node = &schedule->queue->nodes[schedule->node_of[i]];
        const uint32_t left = node->used < node->gpus ? node->gpus - node->used : 0;

        if (lull_cluster_state_free(schedule->state, i) > left)
            lull_cluster_state_set_free(schedule->state, i, left);
        if (node->is_usable)
            continue;
        lull_cluster_state_set_power(schedule->state, i, LULL_CLUSTER_DOWN);
        lull_cluster_decider_node(slurm_schedule_policy(schedule), schedule->state, i,
                                  schedule->now_ns);
    }
}

static int slurm_schedule_begin(struct lull_schedule *schedule)
{
    const struct lull_queue *const queue = schedule->queue;

    for (uint32_t i = 0; i < queue->job_count; i++)
        if (queue->jobs[i].stage != LULL_QUEUE_WAITS &&
            schedule->own[i].number != LULL_SCHEDULE_NONE && slurm_schedule_adopt(schedule, i) < 0)
            return -ENOMEM;
    slurm_schedule_set_nodes(schedule);
    for (uint32_t number = 0; number < schedule->all.count; number++) {
        const uint32_t at = schedule->job_of[number];
        int rc = 0;

        if (at == LULL_SCHEDULE_NONE)
            rc = lull_cluster_decider_recall(slurm_schedule_policy(schedule), number,
                                             schedule->recalled[number]);
        else if (queue->jobs[at].stage == LULL_QUEUE_WAITS)
            rc = schedule->decider.calls->arrive(schedule->decider.policy, number,
                                                 schedule->jobs[number].arrival_ns);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* The policy's time begins with the first job that came. */
static void set_time(struct lull_schedule *schedule)
{
    const struct lull_queue *const queue = schedule->queue;

    schedule->base_s = queue->now_s;
    for (uint32_t i = 0; i < queue->job_count; i++)
        if (queue->jobs[i].submit_s < schedule->base_s)
            schedule->base_s = queue->jobs[i].submit_s;
    lull_schedule_bound_past(schedule);
    if (schedule->past_next < schedule->past_end &&
        schedule->rules.past->jobs[schedule->past_next]->submit_s < schedule->base_s)
        schedule->base_s = schedule->rules.past->jobs[schedule->past_next]->submit_s;
    schedule->now_ns = (queue->now_s - schedule->base_s) * SECOND_NS;
}

int lull_schedule_create(const struct lull_queue *queue, const struct lull_scheduling_rules *rules,
                         struct lull_schedule **schedule_out, struct lull_error *err)
{
    struct lull_schedule *const schedule = calloc(1, sizeof(*schedule));
    int rc;

    if (schedule == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for a queue");
    schedule->queue = queue;
    schedule->rules = *rules;
    set_time(schedule);
    rc = lull_schedule_make_cluster(schedule, err);
    if (rc == 0)
        rc = lull_schedule_make_jobs(schedule, err);
    if (rc < 0)
        goto destroy;
    rc = slurm_schedule_make_decider(schedule, err);
    if (rc < 0)
        goto destroy;
    if (lull_cluster_state_create(&schedule->cluster, &schedule->state) < 0 ||
        slurm_schedule_begin(schedule) < 0) {
        rc = lull_error_set(err, -ENOMEM, "not enough memory for a queue of %u jobs",
                            queue->job_count);
        goto destroy;
    }
    *schedule_out = schedule;
    return 0;

destroy:
    lull_schedule_destroy(schedule);
    return rc;
}

void lull_schedule_destroy(struct lull_schedule *schedule)
{
    if (schedule == NULL)
        return;
    if (schedule->decider.policy != NULL)
        schedule->decider.calls->destroy(schedule->decider.policy);
    for (uint32_t i = 0; schedule->own != NULL && i < schedule->queue->job_count; i++)
        free(schedule->own[i].shares);
    lull_cluster_state_destroy(schedule->state);
    lull_heap_fini(&schedule->ends);
    free(schedule->types);
    free(schedule->nodes);
    free(schedule->node_of);
    free(schedule->inner_of);
    free(schedule->max_gpus);
    free(schedule->min_gpus);
    free(schedule->own);
    free(schedule->jobs);
    free(schedule->job_of);
    free(schedule->recalled);
    free(schedule->points);
    free(schedule->shares);
    free(schedule->reported);
    free(schedule);
}

/* ---- deciding ------------------------------------------------------------------------------ */

/* Returns whether the batch system can give a job these shares: its user may have fixed the
 * number of nodes. */
static bool slurm_schedule_is_possible(const struct lull_queue_job *job,
                                       const struct lull_cluster_decision *decision)
{
    if (job->nodes == 0)
        return true;
    if (decision->share_count != job->nodes)
        return false;
    for (size_t i = 0; i < decision->share_count; i++)
        if (decision->shares[i].gpus != job->gpus / job->nodes)
            return false;
    return true;
}

static int slurm_schedule_start(struct lull_schedule *schedule,
                                const struct lull_cluster_decision *decision)
{
    struct lull_schedule_job *const own = &schedule->own[schedule->job_of[decision->job]];
    const int64_t end_ns =
        schedule->now_ns + job_at(schedule, decision->job)->points[decision->point].time_ns;
    const size_t size = decision->share_count * sizeof(*own->shares);

    assert(decision->share_count > 0);
    own->shares = malloc(size);
    if (own->shares == NULL || lull_heap_add(&schedule->ends, end_ns, decision->job) < 0)
        return -ENOMEM;
    memcpy(own->shares, decision->shares, size);
    own->share_count = (uint32_t)decision->share_count;
    lull_cluster_state_take(schedule->state, own->shares, own->share_count);
    lull_cluster_decider_begin(slurm_schedule_policy(schedule), decision->job, decision->point,
                               schedule->now_ns);
    return 0;
}

static double slurm_schedule_slowdown(const struct lull_cluster_job *job,
                                      const struct lull_cluster_point *point)
{
    int64_t min_ns = point->time_ns;

    for (uint32_t i = 0; i < job->point_count; i++)
        if (job->points[i].type == point->type && job->points[i].time_ns < min_ns)
            min_ns = job->points[i].time_ns;
    return (double)point->time_ns / (double)min_ns;
}

static void slurm_schedule_explain(struct lull_schedule *schedule,
                                   const struct lull_cluster_decision *decision,
                                   struct lull_schedule_decision *reported)
{
    const struct lull_cluster_job *const job = job_at(schedule, decision->job);

    *reported = (struct lull_schedule_decision){
        .job = schedule->job_of[decision->job],
        .is_rejected = decision->act == LULL_CLUSTER_REJECT,
        .reason = decision->reason,
    };
    if (reported->is_rejected)
        return;
    for (size_t i = 0; i < decision->share_count; i++)
        schedule->reported[i] = (struct lull_cluster_share){
            schedule->node_of[decision->shares[i].node], decision->shares[i].gpus};
    reported->point = &job->points[decision->point];
    reported->point_number = decision->point;
    reported->type = schedule->types[reported->point->type].name;
    reported->slowdown_ratio = slurm_schedule_slowdown(job, reported->point);
    reported->shares = schedule->reported;
    reported->share_count = decision->share_count;
}

/* A start on shares that the batch system cannot allocate is rejected permanently. */
static bool slurm_schedule_refuse(struct lull_schedule *schedule,
                                  const struct lull_cluster_decision *decision,
                                  struct lull_schedule_decision *reported)
{
    struct lull_schedule_job *const own = &schedule->own[schedule->job_of[decision->job]];

    schedule->decider.calls->end(schedule->decider.policy, decision->job, schedule->now_ns);
    own->obstacle = "the policy would distribute it over nodes differently than requested";
    reported->is_rejected = true;
    reported->reason = own->obstacle;
    return true;
}

int lull_schedule_next(struct lull_schedule *schedule, struct lull_schedule_decision *decision_out,
                       struct lull_error *err)
{
    struct lull_cluster_decision decision = {.shares = schedule->shares};

    if (!schedule->decider.calls->decide(schedule->decider.policy, schedule->state,
                                         schedule->now_ns, &decision))
        return 0;
    if ((decision.act != LULL_CLUSTER_START && decision.act != LULL_CLUSTER_REJECT) ||
        decision.job >= schedule->all.count)
        return lull_error_set(err, -EINVAL,
                              "internal error: policy %s made a decision that Slurm cannot "
                              "execute; use another policy, and please report this",
                              schedule->rules.policy->name);
    slurm_schedule_explain(schedule, &decision, decision_out);
    if (decision_out->is_rejected ||
        (!slurm_schedule_is_possible(&schedule->queue->jobs[decision_out->job], &decision) &&
         slurm_schedule_refuse(schedule, &decision, decision_out)))
        return 1;
    if (slurm_schedule_start(schedule, &decision) < 0)
        return lull_error_set(err, -ENOMEM, "not enough memory for a decision");
    return 1;
}

/* ---- virtual time -------------------------------------------------------------------------- */

bool lull_schedule_advance(struct lull_schedule *schedule)
{
    const int64_t wake_ns =
        lull_cluster_decider_wake_ns(slurm_schedule_policy(schedule), schedule->now_ns);
    struct lull_heap_entry entry;
    int64_t next_ns = schedule->ends.count > 0 ? schedule->ends.entries[0].key : LULL_CLUSTER_NEVER;

    if (wake_ns > schedule->now_ns && wake_ns < next_ns)
        next_ns = wake_ns;
    if (next_ns == LULL_CLUSTER_NEVER)
        return false;
    schedule->now_ns = next_ns;
    while (lull_heap_take(&schedule->ends, next_ns, &entry)) {
        struct lull_schedule_job *const own = &schedule->own[schedule->job_of[entry.number]];

        lull_cluster_state_give(schedule->state, own->shares, own->share_count);
        own->share_count = 0;
        schedule->decider.calls->end(schedule->decider.policy, (uint32_t)entry.number, next_ns);
    }
    return true;
}

double lull_schedule_now_s(const struct lull_schedule *schedule)
{
    return (double)schedule->base_s + (double)schedule->now_ns * 1e-9;
}

/* ---- state --------------------------------------------------------------------------------- */

const char *lull_schedule_obstacle(const struct lull_schedule *schedule, uint32_t job)
{
    return schedule->own[job].obstacle;
}

const struct lull_power_shift *lull_schedule_shift(const struct lull_schedule *schedule,
                                                   uint32_t job)
{
    return schedule->own[job].is_shifted ? &schedule->own[job].shift : NULL;
}

const struct lull_cluster_point *lull_schedule_points(const struct lull_schedule *schedule,
                                                      uint32_t job, uint32_t *count_out)
{
    const uint32_t number = schedule->own[job].number;

    *count_out = 0;
    if (number == LULL_SCHEDULE_NONE)
        return NULL;
    *count_out = schedule->jobs[number].point_count;
    return schedule->jobs[number].points;
}

bool lull_schedule_knows_energy(const struct lull_schedule *schedule, uint32_t job)
{
    return schedule->own[job].has_energy;
}

bool lull_schedule_knows_time(const struct lull_schedule *schedule, uint32_t job)
{
    return schedule->own[job].has_time;
}

uint64_t lull_schedule_free(const struct lull_schedule *schedule, uint32_t type)
{
    return lull_cluster_state_free_of(schedule->state, 0, type);
}

const char *lull_schedule_type(const struct lull_schedule *schedule, uint32_t type)
{
    return schedule->types[type].name;
}

uint32_t lull_schedule_type_count(const struct lull_schedule *schedule)
{
    return schedule->cluster.type_count;
}
