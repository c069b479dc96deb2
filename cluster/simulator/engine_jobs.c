/* Jobs that start, stop and end. SPDX-License-Identifier: Apache-2.0 */
#include "cluster/simulator/engine_state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static const struct lull_cluster_point *engine_job_point_of(const struct lull_cluster_run *run,
                                                            uint32_t job)
{
    return &run->jobs->all[job].points[run->outcomes[job].point];
}

/* The power of the job, W: between its mean power and that of its GPUs while they wait for others.
 */
static double engine_job_power_w(const struct lull_cluster_run *run, uint32_t job)
{
    const struct lull_cluster_point *point = engine_job_point_of(run, job);
    const double pace = run->lives[job].pace;

    return point->energy_j / ((double)point->time_ns * 1e-9) * pace +
           point->waiting_w * (1.0 - pace);
}

/* The time that a job needs from here on; at least a nanosecond, so that it ends after it began. */
static int64_t time_left_ns(const struct lull_cluster_run *run, uint32_t job)
{
    const struct lull_engine_life *life = &run->lives[job];
    const int64_t time_ns = engine_job_point_of(run, job)->time_ns;
    const double left_ns = ceil((double)time_ns * life->left_ratio / life->pace);
    const bool is_whole = life->left_ratio >= 1.0 && life->pace >= 1.0;

    return life->restart_ns + (is_whole ? time_ns : (int64_t)fmax(left_ns, 1.0));
}

/* ---- consumption of a job ----------------------------------------------------------------- */

/* The part of its work that is left when it has run for ran_ns from since_ns on. */
static double left_after(const struct lull_cluster_run *run, uint32_t job, int64_t ran_ns)
{
    const struct lull_engine_life *life = &run->lives[job];
    const int64_t worked_ns = ran_ns > life->restart_ns ? ran_ns - life->restart_ns : 0;

    return life->left_ratio -
           fmin((double)worked_ns * life->pace / (double)engine_job_point_of(run, job)->time_ns,
                life->left_ratio);
}

/* Returns the time of the job's last checkpoint since it got its GPUs; if there is none, the time
 * at which it got them. */
static int64_t last_checkpoint_ns(const struct lull_cluster_run *run, uint32_t job, int64_t now_ns)
{
    const int64_t every_ns = run->jobs->all[job].checkpoint_ns;
    const int64_t begun_ns = run->lives[job].begun_ns;

    return every_ns == 0 ? begun_ns : now_ns - (now_ns - begun_ns) % every_ns;
}

/* Counts the energy and the work of a running job from since_ns until now. */
static void engine_job_account(struct lull_cluster_run *run, uint32_t job, int64_t now_ns)
{
    const struct lull_cluster_point *point = engine_job_point_of(run, job);
    struct lull_engine_life *const life = &run->lives[job];
    const int64_t stretch_ns = now_ns - life->since_ns;
    const int64_t again_ns = stretch_ns < life->restart_ns ? stretch_ns : life->restart_ns;
    const int64_t saved_ns = last_checkpoint_ns(run, job, now_ns);
    const double left_ratio = left_after(run, job, stretch_ns);
    const double used_j =
        point->energy_j * ((double)stretch_ns / (double)point->time_ns) * life->pace +
        point->waiting_w * (1.0 - life->pace) * (double)stretch_ns * 1e-9;

    if (saved_ns > life->since_ns)
        life->kept_ratio = left_after(run, job, saved_ns - life->since_ns);
    run->busy_j += used_j;
    run->outcomes[job].shared_ns += llround((double)(stretch_ns - again_ns) * (1.0 - life->pace));
    run->stretches.all[life->stretch].energy_j += used_j;
    run->stretches.all[life->stretch].end_ns = now_ns;
    life->left_ratio = left_ratio;
    life->restart_ns -= again_ns;
    life->since_ns = now_ns;
}

/* ---- power by type ------------------------------------------------------------------------ */

int lull_engine_measure(struct lull_cluster_run *run, uint32_t type, int64_t now_ns)
{
    const struct lull_cluster_type *what = &run->cluster->types[type];
    const struct lull_engine_use *use = &run->use[type];
    const double idle_w = what->idle_w * (double)(use->on_gpus - use->busy_gpus) +
                          what->off_w * (double)use->off_nodes;
    int rc = lull_power_meter_set(run->meter, type, LULL_POWER_JOBS,
                                  use->busy_gpus > 0 ? use->jobs_w : 0.0, now_ns);

    if (rc < 0)
        return rc;
    rc = lull_power_meter_set(run->meter, type, LULL_POWER_IDLE, idle_w, now_ns);
    if (rc < 0 || what->turn_on_ns == 0)
        return rc;
    return lull_power_meter_set(run->meter, type, LULL_POWER_TURN_ON,
                                what->turn_on_j / ((double)what->turn_on_ns * 1e-9) *
                                    (double)use->turning_on_nodes,
                                now_ns);
}

/* ---- GPUs of jobs ------------------------------------------------------------------------- */

/* Reports to the policy the nodes that a job has just left or is about to use, if they have no
 * other job. */
static void engine_job_report_idle(struct lull_cluster_run *run, uint32_t job, bool is_idle,
                                   int64_t now_ns)
{
    const struct lull_cluster_outcome *outcome = &run->outcomes[job];

    for (uint32_t i = 0; i < outcome->share_count; i++) {
        const uint32_t node = outcome->shares[i].node;

        if (lull_cluster_state_is_idle(run->state, node))
            lull_cluster_decider_idle(lull_engine_decider(run), node, is_idle, now_ns);
    }
}

static void use_gpus(struct lull_cluster_run *run, uint32_t job)
{
    const struct lull_cluster_point *point = engine_job_point_of(run, job);

    run->use[point->type].busy_gpus += point->gpus;
    run->use[point->type].jobs_w += engine_job_power_w(run, job);
}

static void leave_gpus(struct lull_cluster_run *run, uint32_t job)
{
    const struct lull_cluster_point *point = engine_job_point_of(run, job);
    struct lull_engine_use *const use = &run->use[point->type];

    use->busy_gpus -= point->gpus;
    use->jobs_w = use->busy_gpus > 0 ? use->jobs_w - engine_job_power_w(run, job) : 0.0;
}

/* Puts the job beside those that share links and the storage, in the operating point that it has
 * now. Its pace is 1 until lull_engine_change_paces() finds it. */
static int engine_job_share(struct lull_cluster_run *run, uint32_t job)
{
    const struct lull_cluster_outcome *outcome = &run->outcomes[job];

    run->lives[job].pace = 1.0;
    if (run->contention == NULL)
        return 0;
    lull_contention_remove(run->contention, job);
    return lull_contention_add(run->contention, job, engine_job_point_of(run, job), outcome->shares,
                               outcome->share_count);
}

/* Computes the end of the job from its remaining work. An earlier
 * time in `ends` stays there; the job is then checked at that time. */
static int expect_end(struct lull_cluster_run *run, uint32_t job, int64_t now_ns)
{
    struct lull_engine_life *const life = &run->lives[job];

    life->end_ns = now_ns + time_left_ns(run, job);
    if (life->looked_ns > now_ns && life->looked_ns <= life->end_ns)
        return 0;
    life->looked_ns = life->end_ns;
    return lull_heap_add(&run->ends, life->end_ns, job);
}

/* Ends the job's stretch and frees its GPUs. The caller measures the type, since it may stop more
 * than one job. */
static void engine_job_stop(struct lull_cluster_run *run, uint32_t job, int64_t now_ns)
{
    const struct lull_cluster_outcome *outcome = &run->outcomes[job];
    const size_t place = run->lives[job].running;

    engine_job_account(run, job, now_ns);
    run->running[place] = run->running[--run->running_count];
    run->lives[run->running[place]].running = place;
    leave_gpus(run, job);
    if (run->contention != NULL)
        lull_contention_remove(run->contention, job);
    lull_cluster_state_give(run->state, outcome->shares, outcome->share_count);
    run->has_stopped = true;
    engine_job_report_idle(run, job, true, now_ns);
}

/* ---- decisions ---------------------------------------------------------------------------- */

/* Returns whether the job waits, and the shares are free, of its pool and type, and as many as it
 * requests.
 */
static bool can_start(const struct lull_cluster_run *run,
                      const struct lull_cluster_decision *decision)
{
    const struct lull_cluster_job *job = &run->jobs->all[decision->job];
    uint64_t gpus = 0;

    if (run->lives[decision->job].progress != LULL_ENGINE_WAITING ||
        decision->point >= job->point_count)
        return false;
    for (size_t i = 0; i < decision->share_count; i++) {
        const struct lull_cluster_share *share = &decision->shares[i];

        if (share->node >= run->cluster->node_count ||
            run->cluster->nodes[share->node].pool != job->pool ||
            run->cluster->nodes[share->node].type != job->points[decision->point].type ||
            share->gpus > lull_cluster_state_free(run->state, share->node))
            return false;
        gpus += share->gpus;
    }
    return gpus == job->points[decision->point].gpus;
}

static int begin_stretch(struct lull_cluster_run *run, uint32_t job, uint32_t point,
                         const struct lull_cluster_share *shares, size_t count, int64_t now_ns)
{
    const struct lull_cluster_stretch stretch = {
        .job = job,
        .point = point,
        .begin_ns = now_ns,
        .share_count = (uint32_t)count,
        .shares = shares,
    };
    const int rc = lull_cluster_stretches_add(&run->stretches, &stretch);

    if (rc < 0)
        return rc;
    run->lives[job].stretch = run->stretches.count - 1;
    run->outcomes[job].shares = run->stretches.all[run->lives[job].stretch].shares;
    run->outcomes[job].share_count = (uint32_t)count;
    run->outcomes[job].point = point;
    return 0;
}

int lull_engine_start(struct lull_cluster_run *run, const struct lull_cluster_decision *decision,
                      int64_t now_ns)
{
    const uint32_t job = decision->job;
    struct lull_cluster_outcome *const outcome = &run->outcomes[job];
    struct lull_engine_life *const life = &run->lives[job];
    int rc;

    if (!can_start(run, decision))
        return -EINVAL;
    rc = begin_stretch(run, job, decision->point, decision->shares, decision->share_count, now_ns);
    if (rc < 0)
        return rc;
    outcome->reason = decision->reason;
    if (outcome->preemptions + outcome->failures == 0)
        outcome->start_ns = now_ns;
    life->progress = LULL_ENGINE_RUNNING;
    life->begun_ns = life->since_ns = now_ns;
    life->kept_ratio = life->left_ratio;
    life->running = run->running_count;
    run->running[run->running_count++] = job;
    engine_job_report_idle(run, job, false, now_ns);
    lull_cluster_state_take(run->state, outcome->shares, outcome->share_count);
    rc = engine_job_share(run, job);
    use_gpus(run, job);
    if (rc == 0)
        rc = expect_end(run, job, now_ns);
    lull_cluster_decider_begin(lull_engine_decider(run), job, decision->point, now_ns);
    return rc < 0 ? rc : lull_engine_measure(run, engine_job_point_of(run, job)->type, now_ns);
}

int lull_engine_preempt(struct lull_cluster_run *run, const struct lull_cluster_decision *decision,
                        int64_t now_ns)
{
    const uint32_t job = decision->job;
    struct lull_engine_life *const life = &run->lives[job];
    int rc;

    if (life->progress != LULL_ENGINE_RUNNING)
        return -EINVAL;
    engine_job_stop(run, job, now_ns);
    run->outcomes[job].preemptions++;
    life->progress = LULL_ENGINE_WAITING;
    if (decision->restart_ns > life->restart_ns)
        life->restart_ns = decision->restart_ns;
    rc = lull_engine_measure(run, engine_job_point_of(run, job)->type, now_ns);
    return rc < 0 ? rc : run->decider.calls->arrive(run->decider.policy, job, now_ns);
}

static bool differs_in_clock(const struct lull_cluster_run *run,
                             const struct lull_cluster_decision *decision)
{
    const struct lull_cluster_job *job = &run->jobs->all[decision->job];
    const struct lull_cluster_point *old = engine_job_point_of(run, decision->job);

    return decision->point < job->point_count && job->points[decision->point].type == old->type &&
           job->points[decision->point].gpus == old->gpus;
}

int lull_engine_reclock(struct lull_cluster_run *run, const struct lull_cluster_decision *decision,
                        int64_t now_ns)
{
    const uint32_t job = decision->job;
    struct lull_engine_life *const life = &run->lives[job];
    int rc;

    if (life->progress != LULL_ENGINE_RUNNING || !differs_in_clock(run, decision))
        return -EINVAL;
    engine_job_account(run, job, now_ns);
    leave_gpus(run, job);
    rc = begin_stretch(run, job, decision->point, run->outcomes[job].shares,
                       run->outcomes[job].share_count, now_ns);
    if (rc < 0)
        return rc;
    rc = engine_job_share(run, job);
    use_gpus(run, job);
    if (rc == 0)
        rc = expect_end(run, job, now_ns);
    return rc < 0 ? rc : lull_engine_measure(run, engine_job_point_of(run, job)->type, now_ns);
}

/* Changes the pace of a running job, and reports its new end to the policy. */
static int change_pace(struct lull_cluster_run *run, uint32_t job, double pace, int64_t now_ns)
{
    struct lull_engine_life *const life = &run->lives[job];
    int rc;

    engine_job_account(run, job, now_ns);
    leave_gpus(run, job);
    life->pace = pace;
    use_gpus(run, job);
    rc = expect_end(run, job, now_ns);
    lull_cluster_decider_pace(lull_engine_decider(run), job, pace, life->end_ns, now_ns);
    return rc < 0 ? rc : lull_engine_measure(run, engine_job_point_of(run, job)->type, now_ns);
}

int lull_engine_change_paces(struct lull_cluster_run *run, int64_t now_ns)
{
    const uint32_t *jobs;
    size_t count;

    if (run->contention == NULL)
        return 0;
    count = lull_contention_update(run->contention, &jobs);
    for (size_t i = 0; i < count; i++) {
        const double pace = lull_contention_pace(run->contention, jobs[i]);
        const int rc = change_pace(run, jobs[i], pace, now_ns);

        if (rc < 0)
            return rc;
    }
    return 0;
}

void lull_engine_reject(struct lull_cluster_run *run, uint32_t job, const char *reason,
                        int64_t now_ns)
{
    run->outcomes[job].fate = LULL_CLUSTER_REJECTED;
    run->outcomes[job].reason = reason;
    run->outcomes[job].end_ns = now_ns;
    run->lives[job].progress = LULL_ENGINE_GONE;
    run->unfinished--;
}

/* ---- events ------------------------------------------------------------------------------- */

int lull_engine_end_jobs(struct lull_cluster_run *run, int64_t now_ns)
{
    struct lull_heap_entry end;

    while (lull_heap_take(&run->ends, now_ns, &end)) {
        const uint32_t job = (uint32_t)end.number;
        struct lull_engine_life *const life = &run->lives[job];
        int rc;

        /* The entry is stale if the job was stopped meanwhile or is to be checked at another time.
         */
        if (life->progress != LULL_ENGINE_RUNNING || life->looked_ns != now_ns)
            continue;
        if (life->end_ns > now_ns) {
            life->looked_ns = life->end_ns;
            if (lull_heap_add(&run->ends, life->end_ns, job) < 0)
                return -ENOMEM;
            continue;
        }
        engine_job_stop(run, job, now_ns);
        rc = lull_engine_measure(run, engine_job_point_of(run, job)->type, now_ns);
        if (rc < 0)
            return rc;
        life->progress = LULL_ENGINE_GONE;
        run->outcomes[job].fate = LULL_CLUSTER_DONE;
        run->outcomes[job].end_ns = now_ns;
        run->unfinished--;
        run->decider.calls->end(run->decider.policy, job, now_ns);
    }
    return 0;
}

static bool runs_on(const struct lull_cluster_run *run, uint32_t job, uint32_t node)
{
    for (uint32_t i = 0; i < run->outcomes[job].share_count; i++)
        if (run->outcomes[job].shares[i].node == node)
            return true;
    return false;
}

/* Removes a job from its failed node: its work since the last checkpoint is lost. */
static void engine_job_fail(struct lull_cluster_run *run, uint32_t job, int64_t now_ns)
{
    struct lull_engine_life *const life = &run->lives[job];

    engine_job_stop(run, job, now_ns);
    life->left_ratio = life->kept_ratio;
    life->progress = LULL_ENGINE_WAITING;
    run->outcomes[job].failures++;
    run->outcomes[job].lost_ns += now_ns - last_checkpoint_ns(run, job, now_ns);
}

int lull_engine_lose_jobs(struct lull_cluster_run *run, uint32_t node, int64_t now_ns)
{
    uint32_t lost[LULL_CLUSTER_MAX_NODE_GPUS]; /* no more jobs, since each has a GPU of the node */
    size_t count = 0;
    int rc;

    for (size_t i = 0; i < run->running_count; i++)
        if (runs_on(run, run->running[i], node))
            lost[count++] = run->running[i];
    qsort(lost, count, sizeof(*lost), lull_cluster_by_number);
    for (size_t i = 0; i < count; i++)
        engine_job_fail(run, lost[i], now_ns);
    rc = lull_engine_measure(run, run->cluster->nodes[node].type, now_ns);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < count; i++) {
        run->decider.calls->end(run->decider.policy, lost[i], now_ns);
        rc = run->decider.calls->arrive(run->decider.policy, lost[i], now_ns);
        if (rc < 0)
            return rc;
    }
    return 0;
}
