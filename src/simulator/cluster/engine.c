/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/cluster/engine.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cluster/heap.h"

enum progress { ABSENT, WAITING, RUNNING, GONE };

/* What a job is doing. */
struct life {
    enum progress progress;
    int64_t since_ns;   /* running: started this time */
    int64_t end_ns;     /* running: unless it is preempted */
    double left_ratio;  /* of its work, when it started this time */
    int64_t restart_ns; /* then, before it goes on with its work */
};

struct lull_cluster_run {
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    const struct lull_cluster_policy_ops *ops;
    struct lull_cluster_policy *policy;
    struct lull_cluster_state *state;
    struct lull_heap ends;
    struct lull_cluster_outcome *outcomes;
    struct life *lives;
    struct lull_cluster_share *scratch;
    uint64_t *gpus_of;  /* [pool][type] */
    double busy_j;      /* of jobs, so far */
    double busy_idle_j; /* what their GPUs would have drawn idle meanwhile */
};

/* ---- what a job has used ------------------------------------------------------------------ */

/* The time that a job needs from here on. At least a nanosecond, so that it ends after it began. */
static int64_t time_left_ns(const struct lull_cluster_run *run, uint32_t job)
{
    const struct lull_cluster_mode *mode = &run->jobs->all[job].modes[run->outcomes[job].mode];
    const double left_ns = ceil((double)mode->time_ns * run->lives[job].left_ratio);

    return run->lives[job].restart_ns +
           (run->lives[job].left_ratio >= 1.0 ? mode->time_ns : (int64_t)fmax(left_ns, 1.0));
}

/* Accounts for the stretch that ends now. */
static void account(struct lull_cluster_run *run, uint32_t job, int64_t now_ns)
{
    const struct lull_cluster_mode *mode = &run->jobs->all[job].modes[run->outcomes[job].mode];
    struct life *const life = &run->lives[job];
    const int64_t stretch_ns = now_ns - life->since_ns;
    const int64_t again_ns = stretch_ns < life->restart_ns ? stretch_ns : life->restart_ns;
    const double part =
        fmin((double)(stretch_ns - again_ns) / (double)mode->time_ns, life->left_ratio);

    run->busy_j += mode->energy_j * (part + (double)again_ns / (double)mode->time_ns);
    run->busy_idle_j +=
        run->cluster->types[mode->type].idle_w * mode->gpus * (double)stretch_ns * 1e-9;
    life->left_ratio -= part;
    life->restart_ns -= again_ns;
    life->since_ns = now_ns;
}

/* Accounts for the stretch that ends now, and frees its GPUs. */
static void stop(struct lull_cluster_run *run, uint32_t job, int64_t now_ns)
{
    account(run, job, now_ns);
    lull_cluster_state_give(run->state, run->outcomes[job].shares, run->outcomes[job].share_count);
}

/* ---- decisions ---------------------------------------------------------------------------- */

static bool is_possible(const struct lull_cluster_run *run,
                        const struct lull_cluster_decision *decision)
{
    uint64_t gpus = 0;

    if (decision->mode >= run->jobs->all[decision->job].mode_count)
        return false;
    for (size_t i = 0; i < decision->share_count; i++) {
        if (decision->shares[i].gpus >
            lull_cluster_state_free(run->state, decision->shares[i].node))
            return false;
        gpus += decision->shares[i].gpus;
    }
    return gpus == run->jobs->all[decision->job].modes[decision->mode].gpus;
}

static int start(struct lull_cluster_run *run, const struct lull_cluster_decision *decision,
                 int64_t now_ns)
{
    struct lull_cluster_outcome *const outcome = &run->outcomes[decision->job];
    struct life *const life = &run->lives[decision->job];
    struct lull_cluster_share *shares = malloc(decision->share_count * sizeof(*shares));

    if (shares == NULL)
        return -ENOMEM;
    memcpy(shares, decision->shares, decision->share_count * sizeof(*shares));
    free((void *)outcome->shares);
    outcome->shares = shares;
    outcome->share_count = (uint32_t)decision->share_count;
    outcome->mode = decision->mode;
    outcome->reason = decision->reason;
    if (outcome->preemptions == 0)
        outcome->start_ns = now_ns;
    life->progress = RUNNING;
    life->since_ns = now_ns;
    life->end_ns = now_ns + time_left_ns(run, decision->job);
    lull_cluster_state_take(run->state, shares, decision->share_count);
    return lull_heap_add(&run->ends, life->end_ns, decision->job);
}

static int preempt(struct lull_cluster_run *run, const struct lull_cluster_decision *decision,
                   int64_t now_ns)
{
    const uint32_t job = decision->job;

    stop(run, job, now_ns);
    run->outcomes[job].preemptions++;
    run->lives[job].progress = WAITING;
    if (decision->restart_ns > run->lives[job].restart_ns)
        run->lives[job].restart_ns = decision->restart_ns;
    return run->ops->arrive(run->policy, job, now_ns);
}

static bool differs_in_clock(const struct lull_cluster_run *run,
                             const struct lull_cluster_decision *decision)
{
    const struct lull_cluster_job *job = &run->jobs->all[decision->job];
    const struct lull_cluster_mode *old = &job->modes[run->outcomes[decision->job].mode];

    return decision->mode < job->mode_count && job->modes[decision->mode].type == old->type &&
           job->modes[decision->mode].gpus == old->gpus;
}

/* Its old end stays behind in the heap. */
static int reclock(struct lull_cluster_run *run, const struct lull_cluster_decision *decision,
                   int64_t now_ns)
{
    struct life *const life = &run->lives[decision->job];

    account(run, decision->job, now_ns);
    run->outcomes[decision->job].mode = decision->mode;
    life->end_ns = now_ns + time_left_ns(run, decision->job);
    return lull_heap_add(&run->ends, life->end_ns, decision->job);
}

static void reject(struct lull_cluster_run *run, uint32_t job, const char *reason, int64_t now_ns)
{
    run->outcomes[job].fate = LULL_CLUSTER_REJECTED;
    run->outcomes[job].reason = reason;
    run->outcomes[job].end_ns = now_ns;
    run->lives[job].progress = GONE;
}

static int carry_out(struct lull_cluster_run *run, const struct lull_cluster_decision *decision,
                     int64_t now_ns, struct lull_error *err)
{
    const enum progress progress =
        decision->job < run->jobs->count ? run->lives[decision->job].progress : ABSENT;
    int rc = -EINVAL;

    if (decision->act == LULL_CLUSTER_START && progress == WAITING && is_possible(run, decision)) {
        rc = start(run, decision, now_ns);
    } else if (decision->act == LULL_CLUSTER_PREEMPT && progress == RUNNING) {
        rc = preempt(run, decision, now_ns);
    } else if (decision->act == LULL_CLUSTER_RECLOCK && progress == RUNNING &&
               differs_in_clock(run, decision)) {
        rc = reclock(run, decision, now_ns);
    } else if (decision->act == LULL_CLUSTER_REJECT && progress == WAITING) {
        reject(run, decision->job, decision->reason, now_ns);
        rc = 0;
    }
    if (rc == -EINVAL)
        return lull_error_set(err, rc, "policy %s: job %u cannot be treated so", run->ops->name,
                              decision->job);
    return rc < 0 ? lull_error_set(err, rc, "out of memory") : 0;
}

static int decide(struct lull_cluster_run *run, int64_t now_ns, struct lull_error *err)
{
    struct lull_cluster_decision decision = {.shares = run->scratch};

    while (run->ops->decide(run->policy, run->state, now_ns, &decision)) {
        const int rc = carry_out(run, &decision, now_ns, err);

        if (rc < 0)
            return rc;
        decision = (struct lull_cluster_decision){.shares = run->scratch};
    }
    return 0;
}

/* ---- events ------------------------------------------------------------------------------- */

static void end_jobs(struct lull_cluster_run *run, int64_t now_ns)
{
    struct lull_heap_entry end;

    while (lull_heap_take(&run->ends, now_ns, &end)) {
        const uint32_t job = (uint32_t)end.number;

        /* A job that was preempted or is on another clock has left its old end behind. */
        if (run->lives[job].progress != RUNNING || run->lives[job].end_ns != now_ns)
            continue;
        stop(run, job, now_ns);
        run->lives[job].progress = GONE;
        run->outcomes[job].fate = LULL_CLUSTER_DONE;
        run->outcomes[job].end_ns = now_ns;
        run->ops->end(run->policy, job, now_ns);
    }
}

static bool could_ever_run(const struct lull_cluster_run *run, uint32_t job)
{
    const struct lull_cluster_job *asked = &run->jobs->all[job];

    for (uint32_t mode = 0; mode < asked->mode_count; mode++)
        if (lull_cluster_mode_is_possible(asked, mode, run->cluster, run->gpus_of))
            return true;
    return false;
}

/* From *next on; moves it to the first that has not arrived. */
static int arrive_jobs(struct lull_cluster_run *run, uint32_t *next, int64_t now_ns)
{
    for (; *next < run->jobs->count && run->jobs->all[*next].arrival_ns == now_ns; (*next)++) {
        run->lives[*next].progress = WAITING;
        if (!could_ever_run(run, *next))
            reject(run, *next, "its pool has not so many GPUs of a type with enough memory",
                   now_ns);
        else if (run->ops->arrive(run->policy, *next, now_ns) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int run_all(struct lull_cluster_run *run, struct lull_error *err)
{
    uint32_t next = 0;

    for (;;) {
        int64_t now_ns = LULL_CLUSTER_NEVER;
        int rc;

        if (run->ends.count > 0)
            now_ns = run->ends.entries[0].key;
        if (next < run->jobs->count && run->jobs->all[next].arrival_ns < now_ns)
            now_ns = run->jobs->all[next].arrival_ns;
        if (now_ns == LULL_CLUSTER_NEVER)
            return 0;
        end_jobs(run, now_ns);
        if (arrive_jobs(run, &next, now_ns) < 0)
            return lull_error_set(err, -ENOMEM, "out of memory");
        rc = decide(run, now_ns, err);
        if (rc < 0)
            return rc;
    }
}

/* ---- beginning and end -------------------------------------------------------------------- */

static int make_room(struct lull_cluster_run *run)
{
    const struct lull_cluster *cluster = run->cluster;
    const size_t count = run->jobs->count > 0 ? run->jobs->count : 1;

    run->outcomes = calloc(count, sizeof(*run->outcomes));
    run->lives = calloc(count, sizeof(*run->lives));
    run->scratch = calloc(cluster->node_count, sizeof(*run->scratch));
    run->gpus_of = calloc((size_t)cluster->pool_count * cluster->type_count, sizeof(*run->gpus_of));
    if (run->outcomes == NULL || run->lives == NULL || run->scratch == NULL ||
        run->gpus_of == NULL || lull_cluster_state_create(cluster, &run->state) < 0 ||
        lull_cluster_policy_create(run->ops, cluster, run->jobs, &run->policy) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < run->jobs->count; i++)
        run->lives[i].left_ratio = 1.0;
    for (uint32_t pool = 0; pool < cluster->pool_count; pool++)
        for (uint32_t type = 0; type < cluster->type_count; type++)
            run->gpus_of[(size_t)pool * cluster->type_count + type] =
                lull_cluster_state_gpus_of(run->state, pool, type);
    return 0;
}

static int check_order(const struct lull_cluster_jobs *jobs, struct lull_error *err)
{
    for (size_t i = 1; i < jobs->count; i++)
        if (jobs->all[i].arrival_ns < jobs->all[i - 1].arrival_ns)
            return lull_error_set(err, -EINVAL, "job %zu arrives before the one ahead of it", i);
    return 0;
}

int lull_cluster_simulate(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                          const struct lull_cluster_policy_ops *policy,
                          struct lull_cluster_run **run_out, struct lull_error *err)
{
    struct lull_cluster_run *run;
    int rc = check_order(jobs, err);

    if (rc < 0)
        return rc;
    run = calloc(1, sizeof(*run));
    if (run == NULL)
        return lull_error_set(err, -ENOMEM, "out of memory");
    run->cluster = cluster;
    run->jobs = jobs;
    run->ops = policy;
    rc = make_room(run);
    rc = rc < 0 ? lull_error_set(err, rc, "out of memory") : run_all(run, err);
    if (rc < 0) {
        lull_cluster_run_destroy(run);
        return rc;
    }
    *run_out = run;
    return 0;
}

void lull_cluster_run_destroy(struct lull_cluster_run *run)
{
    if (run == NULL)
        return;
    for (size_t i = 0; run->outcomes != NULL && i < run->jobs->count; i++)
        free((void *)run->outcomes[i].shares);
    if (run->policy != NULL)
        run->ops->destroy(run->policy);
    lull_cluster_state_destroy(run->state);
    lull_heap_fini(&run->ends);
    free(run->outcomes);
    free(run->lives);
    free(run->scratch);
    free(run->gpus_of);
    free(run);
}

const struct lull_cluster_outcome *lull_cluster_run_outcomes(const struct lull_cluster_run *run)
{
    return run->outcomes;
}

/* ---- energy ------------------------------------------------------------------------------- */

static double idle_w(const struct lull_cluster *cluster)
{
    double sum_w = 0.0;

    for (uint32_t i = 0; i < cluster->node_count; i++)
        sum_w += cluster->types[cluster->nodes[i].type].idle_w * cluster->nodes[i].gpus;
    return sum_w;
}

void lull_cluster_run_energy(const struct lull_cluster_run *run, double *run_j_out,
                             double *idle_j_out)
{
    int64_t last_ns = 0;

    for (size_t i = 0; i < run->jobs->count; i++)
        if (run->outcomes[i].fate == LULL_CLUSTER_DONE && run->outcomes[i].end_ns > last_ns)
            last_ns = run->outcomes[i].end_ns;
    *run_j_out = run->busy_j;
    *idle_j_out = idle_w(run->cluster) * (double)last_ns * 1e-9 - run->busy_idle_j;
}
