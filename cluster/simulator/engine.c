/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/simulator/engine.h"

#include <errno.h>
#include <stdlib.h>

#include "cluster/core/power/node_power.h"
#include "cluster/simulator/engine_state.h"

/* Limit of wake-ups in a row that a policy may request without a decision while no event is
 * pending, and number of instants between reports of progress. */
enum { MAX_IDLE_WAKES = 1 << 20, REPORT_EVERY = 64 };

/* ---- decisions ---------------------------------------------------------------------------- */

static int engine_apply(struct lull_cluster_run *run, const struct lull_cluster_decision *decision,
                        int64_t now_ns)
{
    if (decision->act == LULL_CLUSTER_NODE_ON)
        return lull_engine_turn_on(run, decision->node, now_ns);
    if (decision->act == LULL_CLUSTER_NODE_OFF)
        return lull_engine_turn_off(run, decision->node, now_ns);
    if (decision->job >= run->jobs->count)
        return -EINVAL;
    switch (decision->act) {
    case LULL_CLUSTER_START:
        return lull_engine_start(run, decision, now_ns);
    case LULL_CLUSTER_PREEMPT:
        return lull_engine_preempt(run, decision, now_ns);
    case LULL_CLUSTER_RECLOCK:
        return lull_engine_reclock(run, decision, now_ns);
    case LULL_CLUSTER_REJECT:
        if (run->lives[decision->job].progress != LULL_ENGINE_WAITING)
            return -EINVAL;
        lull_engine_reject(run, decision->job, decision->reason, now_ns);
        return 0;
    default:
        return -EINVAL;
    }
}

static int engine_execute(struct lull_cluster_run *run,
                          const struct lull_cluster_decision *decision, int64_t now_ns,
                          struct lull_error *err)
{
    static const char *const acts[] = {
        [LULL_CLUSTER_START] = "start job",      [LULL_CLUSTER_PREEMPT] = "preempt job",
        [LULL_CLUSTER_REJECT] = "reject job",    [LULL_CLUSTER_RECLOCK] = "change the clock of job",
        [LULL_CLUSTER_NODE_ON] = "turn on node", [LULL_CLUSTER_NODE_OFF] = "turn off node",
    };
    const bool is_node =
        decision->act == LULL_CLUSTER_NODE_ON || decision->act == LULL_CLUSTER_NODE_OFF;
    const int rc = engine_apply(run, decision, now_ns);

    if (rc == -EINVAL && decision->act < sizeof(acts) / sizeof(acts[0]))
        return lull_error_set(err, rc,
                              "policy %s cannot %s %u at %.3f s: the policy has an error; please "
                              "report it with the command line",
                              run->policy_name, acts[decision->act],
                              is_node ? decision->node : decision->job, (double)now_ns * 1e-9);
    if (rc < 0)
        return lull_error_set(err, rc, "not enough memory to execute a decision of policy %s",
                              run->policy_name);
    return 0;
}

/* Requests decisions from the policy until there is none. Returns how many there were, or an error.
 */
static int64_t engine_decide(struct lull_cluster_run *run, int64_t now_ns, struct lull_error *err)
{
    struct lull_cluster_decision decision = {.shares = run->scratch};
    int64_t count = 0;

    while (run->decider.calls->decide(run->decider.policy, run->state, now_ns, &decision)) {
        const int rc = engine_execute(run, &decision, now_ns, err);

        if (rc < 0)
            return rc;
        count++;
        decision = (struct lull_cluster_decision){.shares = run->scratch};
    }
    return count;
}

/* ---- events ------------------------------------------------------------------------------- */

static bool could_ever_run(const struct lull_cluster_run *run, uint32_t job)
{
    const struct lull_cluster_job *asked = &run->jobs->all[job];
    const uint64_t *gpus = lull_cluster_state_groups(run->state)->gpus;

    for (uint32_t point = 0; point < asked->point_count; point++)
        if (lull_cluster_point_is_possible(asked, point, run->cluster, gpus))
            return true;
    return false;
}

static int arrive_jobs(struct lull_cluster_run *run, int64_t now_ns)
{
    for (; run->next_job < run->jobs->count && run->jobs->all[run->next_job].arrival_ns == now_ns;
         run->next_job++) {
        run->lives[run->next_job].progress = LULL_ENGINE_WAITING;
        if (!could_ever_run(run, run->next_job))
            lull_engine_reject(run, run->next_job,
                               "no type of GPU in its pool has enough GPUs with enough memory",
                               now_ns);
        else if (run->decider.calls->arrive(run->decider.policy, run->next_job, now_ns) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* Plays the events of this instant that do not depend on the policy. */
static int engine_handle_event(struct lull_cluster_run *run, int64_t now_ns)
{
    int rc = lull_engine_end_jobs(run, now_ns);

    if (rc < 0)
        return rc;
    rc = lull_engine_change_nodes(run, now_ns);
    if (rc < 0)
        return rc;
    return arrive_jobs(run, now_ns);
}

/* The time of the next event that does not depend on the policy. */
static int64_t engine_next_ns(const struct lull_cluster_run *run)
{
    int64_t next_ns = lull_engine_next_change_ns(run);

    if (run->ends.count > 0 && run->ends.entries[0].key < next_ns)
        next_ns = run->ends.entries[0].key;
    if (run->next_job < run->jobs->count && run->jobs->all[run->next_job].arrival_ns < next_ns)
        next_ns = run->jobs->all[run->next_job].arrival_ns;
    return next_ns;
}

/* Returns the time at which the policy requests to be called, but later than now, so that time
 * advances. */
static int64_t engine_wake_ns(struct lull_cluster_run *run, int64_t now_ns)
{
    const int64_t wake_ns = lull_cluster_decider_wake_ns(lull_engine_decider(run), now_ns);

    return wake_ns > now_ns ? wake_ns : now_ns + 1;
}

static int engine_run_all(struct lull_cluster_run *run, struct lull_error *err)
{
    int64_t now_ns = -1;
    uint32_t idle_wakes = 0;
    uint32_t reported = 0;

    while (run->unfinished > 0) {
        const int64_t event_ns = engine_next_ns(run);
        const int64_t asked_ns = engine_wake_ns(run, now_ns);
        int64_t decisions;

        now_ns = asked_ns < event_ns ? asked_ns : event_ns;
        if (now_ns == LULL_CLUSTER_NEVER)
            return 0;
        if (engine_handle_event(run, now_ns) < 0)
            return lull_error_set(err, -ENOMEM, "out of memory");
        decisions = engine_decide(run, now_ns, err);
        if (decisions < 0)
            return (int)decisions;
        if (lull_engine_change_paces(run, now_ns) < 0)
            return lull_error_set(err, -ENOMEM, "out of memory");
        if (run->has_stopped)
            lull_power_meter_mark(run->meter, now_ns);
        run->has_stopped = false;
        if (run->conditions.tell != NULL && ++reported % REPORT_EVERY == 0)
            run->conditions.tell(run->conditions.user, run->jobs->count - run->unfinished,
                                 run->jobs->count);
        idle_wakes = event_ns == LULL_CLUSTER_NEVER && decisions == 0 ? idle_wakes + 1 : 0;
        if (idle_wakes == MAX_IDLE_WAKES)
            return lull_error_set(
                err, -EINVAL,
                "policy %s asks to be woken %d times in a row and decides nothing: the "
                "policy has an error; please report it with the command line",
                run->policy_name, MAX_IDLE_WAKES);
    }
    return 0;
}

/* ---- beginning and end -------------------------------------------------------------------- */

static int engine_make_room(struct lull_cluster_run *run)
{
    const struct lull_cluster *cluster = run->cluster;
    const size_t count = run->jobs->count > 0 ? run->jobs->count : 1;

    run->outcomes = calloc(count, sizeof(*run->outcomes));
    run->lives = calloc(count, sizeof(*run->lives));
    run->running = calloc(count, sizeof(*run->running));
    run->scratch = calloc(cluster->node_count, sizeof(*run->scratch));
    run->on_ns = calloc(cluster->node_count, sizeof(*run->on_ns));
    run->was_off = calloc(cluster->node_count, sizeof(*run->was_off));
    run->use = calloc(cluster->type_count, sizeof(*run->use));
    if (run->outcomes == NULL || run->lives == NULL || run->running == NULL ||
        run->scratch == NULL || run->on_ns == NULL || run->was_off == NULL || run->use == NULL ||
        lull_cluster_state_create(cluster, &run->state) < 0)
        return -ENOMEM;
    if (lull_contention_is_on(&run->conditions.contention) &&
        lull_contention_create(cluster, &run->conditions.contention, &run->contention) < 0)
        return -ENOMEM;
    return lull_power_meter_create(cluster->type_count, run->conditions.keeps_power,
                                   run->conditions.price, run->conditions.carbon, &run->meter);
}

static int engine_begin(struct lull_cluster_run *run)
{
    const struct lull_cluster *cluster = run->cluster;

    for (size_t i = 0; i < run->jobs->count; i++)
        run->lives[i].left_ratio = 1.0;
    for (uint32_t node = 0; node < cluster->node_count; node++)
        run->use[cluster->nodes[node].type].on_gpus += cluster->nodes[node].gpus;
    for (uint32_t type = 0; type < cluster->type_count; type++)
        if (lull_engine_measure(run, type, 0) < 0)
            return -ENOMEM;
    return 0;
}

static bool engine_is_capped(const struct lull_cluster_run *run)
{
    return run->conditions.cap.cluster_w > 0.0 || run->conditions.cap.node_w > 0.0;
}

/* Under a cap no job may be preempted; power_cap.h gives the reason. */
static int engine_announce_jobs(struct lull_cluster_run *run)
{
    run->reported_jobs = *run->jobs;
    if (!engine_is_capped(run) || run->jobs->count == 0)
        return 0;
    run->reported = malloc(run->jobs->count * sizeof(*run->reported));
    if (run->reported == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < run->jobs->count; i++) {
        run->reported[i] = run->jobs->all[i];
        run->reported[i].is_preemptible = false;
    }
    run->reported_jobs.all = run->reported;
    return 0;
}

static int engine_make_decider(struct lull_cluster_run *run,
                               const struct lull_cluster_policy_ops *policy, struct lull_error *err)
{
    struct lull_power_cap *const cap = &run->conditions.cap;

    if (engine_announce_jobs(run) < 0 ||
        lull_cluster_policy_create(policy, run->cluster, &run->reported_jobs,
                                   &run->decider.policy) < 0)
        return lull_error_set(err, -ENOMEM, "out of memory");
    run->decider.calls = policy->calls;
    if (run->conditions.turns_nodes_off &&
        lull_node_power_wrap(run->cluster, run->jobs, &run->decider) < 0)
        return lull_error_set(err, -ENOMEM, "out of memory");
    cap->turns_nodes_on |= run->conditions.turns_nodes_off;
    if (!engine_is_capped(run))
        return 0;
    return lull_power_cap_wrap(run->cluster, run->jobs, cap, &run->decider, err);
}

static int engine_check_order(const struct lull_cluster_jobs *jobs, struct lull_error *err)
{
    for (size_t i = 1; i < jobs->count; i++)
        if (jobs->all[i].arrival_ns < jobs->all[i - 1].arrival_ns)
            return lull_error_set(err, -EINVAL, "job %zu arrives before the one ahead of it", i);
    return 0;
}

int lull_cluster_simulate(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                          const struct lull_cluster_policy_ops *policy,
                          const struct lull_cluster_conditions *conditions,
                          struct lull_cluster_run **run_out, struct lull_error *err)
{
    struct lull_cluster_run *run;
    int rc = engine_check_order(jobs, err);

    if (rc < 0)
        return rc;
    run = calloc(1, sizeof(*run));
    if (run == NULL)
        return lull_error_set(err, -ENOMEM, "out of memory");
    run->cluster = cluster;
    run->jobs = jobs;
    run->policy_name = policy->name;
    run->unfinished = jobs->count;
    if (conditions != NULL)
        run->conditions = *conditions;
    if (engine_make_room(run) < 0 || engine_begin(run) < 0) {
        rc = lull_error_set(err, -ENOMEM, "no memory for a cluster of %u nodes and %zu jobs",
                            cluster->node_count, jobs->count);
        goto destroy_run;
    }
    rc = engine_make_decider(run, policy, err);
    if (rc < 0)
        goto destroy_run;
    rc = engine_run_all(run, err);
    if (rc < 0)
        goto destroy_run;
    *run_out = run;
    return 0;

destroy_run:
    lull_cluster_run_destroy(run);
    return rc;
}

bool lull_cluster_may_pause(const struct lull_cluster_job *job,
                            const struct lull_cluster_conditions *conditions)
{
    return job->is_preemptible || (conditions->failure_count > 0 && job->checkpoint_ns > 0);
}

void lull_cluster_run_destroy(struct lull_cluster_run *run)
{
    if (run == NULL)
        return;
    lull_cluster_stretches_fini(&run->stretches);
    if (run->decider.policy != NULL)
        run->decider.calls->destroy(run->decider.policy);
    lull_cluster_state_destroy(run->state);
    lull_power_meter_destroy(run->meter);
    lull_contention_destroy(run->contention);
    lull_heap_fini(&run->ends);
    lull_heap_fini(&run->repairs);
    lull_heap_fini(&run->turn_ons);
    free(run->reported);
    free(run->outcomes);
    free(run->lives);
    free(run->running);
    free(run->scratch);
    free(run->on_ns);
    free(run->was_off);
    free(run->use);
    free(run);
}

/* ---- results ------------------------------------------------------------------------------ */

const struct lull_cluster_outcome *lull_cluster_run_outcomes(const struct lull_cluster_run *run)
{
    return run->outcomes;
}

const struct lull_cluster_stretches *lull_cluster_run_stretches(const struct lull_cluster_run *run)
{
    return &run->stretches;
}

struct lull_cluster_node_counts lull_cluster_run_nodes(const struct lull_cluster_run *run)
{
    return run->counts;
}

static double part_j(const struct lull_cluster_run *run, enum lull_power_part part)
{
    double sum_j = 0.0;

    for (uint32_t type = 0; type < run->cluster->type_count; type++)
        sum_j += lull_power_meter_j(run->meter, type, part);
    return sum_j;
}

void lull_cluster_run_energy(const struct lull_cluster_run *run, double *run_j_out,
                             double *idle_j_out)
{
    *run_j_out = run->busy_j;
    *idle_j_out = part_j(run, LULL_POWER_IDLE);
}

double lull_cluster_run_turn_on_j(const struct lull_cluster_run *run)
{
    return part_j(run, LULL_POWER_TURN_ON);
}

const struct lull_power_meter *lull_cluster_run_meter(const struct lull_cluster_run *run)
{
    return run->meter;
}
