/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/certificate.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/progress.h"
#include "cluster/core/bound/dual_search.h"
#include "cluster/core/bound/preemptive_bound.h"
#include "cluster/core/bound/slot_relaxation.h"

enum {
    SLOTS = 2048,
    PREEMPTIVE_SLOTS = 1024, /* ratios and times with it: docs/research/measurements/cluster.md */
    STEPS = 60,              /* as the slots */
    /* If deadlines are later than the end of the run, this many times
     * its length is covered, with at most this many times the slots. */
    MAX_RUNS = 4,
    MAX_SLOTS = 8,
};

/* Returns the cost of the run, in J; *size_j_out is the sum of the sizes of its parts. */
static double certificate_cost_of(const struct lull_cluster_jobs *jobs,
                                  const struct lull_cluster_run *run, double second_j,
                                  double *size_j_out)
{
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(run);
    double values_j = 0.0;
    double cost_j;
    double idle_j;

    lull_cluster_run_energy(run, &cost_j, &idle_j);
    for (size_t i = 0; i < jobs->count; i++) {
        const struct lull_cluster_job *job = &jobs->all[i];

        if (outcomes[i].fate != LULL_CLUSTER_DONE)
            continue;
        cost_j += second_j * job->weight * (double)(outcomes[i].end_ns - job->arrival_ns) * 1e-9;
        if (outcomes[i].end_ns <= job->deadline_ns)
            values_j += job->value_j;
    }
    *size_j_out = cost_j + values_j;
    return cost_j - values_j;
}

/* ---- the problem -------------------------------------------------------------------------- */

/* The jobs that a schedule has to run, and those that it may run. */
struct judged {
    struct lull_cluster_jobs jobs;
    struct lull_cluster_job *all;
    int64_t *end_ns; /* [job]: when the run ended it; 0: the run did not */
    int64_t last_ns; /* the last end or arrival */
    bool may_pause;  /* one of them or more may run in pieces */
};

/* Takes the jobs that this run completed, and all jobs with a value,
 * since another schedule may run or omit the latter. Errors: -ENOMEM. */
static int certificate_take_run(const struct lull_cluster_jobs *jobs,
                                const struct lull_cluster_run *run,
                                const struct lull_cluster_conditions *conditions,
                                struct judged *judged)
{
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(run);
    size_t count = 0;

    *judged = (struct judged){.all = calloc(jobs->count + 1, sizeof(*judged->all)),
                              .end_ns = calloc(jobs->count + 1, sizeof(*judged->end_ns)),
                              .last_ns = 1};
    if (judged->all == NULL || judged->end_ns == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < jobs->count; i++) {
        const bool is_done = outcomes[i].fate == LULL_CLUSTER_DONE;
        struct lull_cluster_job *job = &judged->all[count];
        int64_t last_ns = jobs->all[i].arrival_ns;

        if (!is_done && jobs->all[i].value_j <= 0.0)
            continue;
        *job = jobs->all[i];
        if (job->value_j <= 0.0 && outcomes[i].end_ns > job->deadline_ns)
            job->deadline_ns = LULL_CLUSTER_NEVER;
        if (is_done) {
            judged->end_ns[count] = outcomes[i].end_ns;
            last_ns = outcomes[i].end_ns;
        }
        judged->last_ns = lull_later_ns(judged->last_ns, last_ns);
        judged->may_pause |= lull_cluster_may_pause(job, conditions);
        count++;
    }
    judged->jobs = (struct lull_cluster_jobs){judged->all, count};
    return 0;
}

static int64_t certificate_run_of(int64_t last_ns)
{
    return lull_earlier_ns(last_ns, INT64_MAX / 2 / MAX_RUNS);
}

/* Chooses the horizon of the prices. It includes the deadlines of jobs with a value, because a
 * better schedule could still run those jobs. It is limited, because the time of the search grows
 * with it. */
static int64_t choose_horizon_ns(const struct lull_cluster_jobs *jobs, int64_t last_ns)
{
    const int64_t run_ns = certificate_run_of(last_ns);
    int64_t horizon_ns = run_ns;

    for (size_t i = 0; i < jobs->count; i++)
        if (jobs->all[i].value_j > 0.0 && jobs->all[i].deadline_ns != LULL_CLUSTER_NEVER)
            horizon_ns = lull_later_ns(horizon_ns, jobs->all[i].deadline_ns);
    return lull_earlier_ns(horizon_ns, MAX_RUNS * run_ns);
}

/* Chooses slots up to there, which are not too short for the search either. */
static void choose_slots(const struct lull_cluster_jobs *jobs, int64_t last_ns, int64_t slots,
                         struct lull_slotting *slotting)
{
    const int64_t run_ns = certificate_run_of(last_ns);
    int64_t min_ns;

    slotting->horizon_ns = choose_horizon_ns(jobs, last_ns);
    min_ns = (slotting->horizon_ns + lull_cluster_longest_ns(jobs)) / (MAX_SLOTS * slots);
    slotting->slot_ns = lull_later_ns(lull_later_ns(run_ns / slots, min_ns), 1);
}

/* ---- its bound ---------------------------------------------------------------------------- */

struct telling {
    struct lull_progress progress;
    uint32_t steps;
};

static void certificate_log(void *user, uint32_t step)
{
    struct telling *telling = user;

    if (lull_progress_is_due(&telling->progress))
        lull_progress_draw("lull: certificate, step %u of %u", step, telling->steps);
}

/* Bounds the cost of jobs each of which runs from start to end without a pause. */
static int bound_whole(const struct lull_cluster *cluster, const struct judged *judged,
                       double second_j, int64_t slots, const struct lull_price_ascent *ascent,
                       double *bound_j_out, struct lull_error *err)
{
    struct lull_slotting slotting = {
        .completion_w = second_j,
        .cap_w = LULL_SLOTS_UNCAPPED,
        .is_open = true,
        .may_reclock = true,
    };
    struct lull_slot_relaxation slotted;
    double *gpu_j;
    int rc;

    choose_slots(&judged->jobs, judged->last_ns, slots, &slotting);
    rc = lull_slot_relaxation_create(cluster, &judged->jobs, &slotting, &slotted, err);
    if (rc < 0)
        return rc;
    gpu_j = calloc((size_t)slotted.problem.type_count * slotted.problem.slots, sizeof(*gpu_j));
    rc = -ENOMEM;
    if (gpu_j != NULL)
        rc = lull_dual_search(&slotted.problem, ascent, gpu_j, bound_j_out);
    if (rc < 0)
        lull_error_set(err, rc, "no memory for prices of %u slots", slotted.problem.slots);
    free(gpu_j);
    lull_slot_relaxation_fini(&slotted);
    return rc;
}

/* Bounds the cost of jobs that may stop and continue. */
static int bound_paused(const struct lull_cluster *cluster, const struct judged *judged,
                        double second_j, int64_t slots, const struct lull_price_ascent *ascent,
                        double *bound_j_out, struct lull_error *err)
{
    const struct lull_preemptive_problem problem = {
        .cluster = cluster,
        .jobs = &judged->jobs,
        .second_j = second_j,
        .slot_ns = choose_horizon_ns(&judged->jobs, judged->last_ns) / slots + 1,
        .slots = (uint32_t)slots,
    };
    struct lull_preemptive *preemptive = NULL;
    int rc = lull_preemptive_create(&problem, &preemptive);

    if (rc == 0)
        rc = lull_preemptive_search(preemptive, judged->end_ns, ascent, bound_j_out);
    if (rc < 0)
        lull_error_set(err, rc, "no memory for prices of %u slots", problem.slots);
    lull_preemptive_destroy(preemptive);
    return rc;
}

/* No run costs less than a lower bound. If one does, the bound is wrong and is not reported. */
static int certificate_reject(const struct lull_cluster_certificate *certificate,
                              struct lull_error *err)
{
    return lull_error_set(
        err, -EPROTO,
        "internal error: the certificate's lower bound is %.9g J, but this run costs %.9g J; "
        "please report this with the job table and the command line",
        certificate->bound_j, certificate->cost_j);
}

int lull_cluster_certify(const struct lull_certified_run *of,
                         const struct lull_certificate_effort *effort,
                         struct lull_cluster_certificate *certificate_out, struct lull_error *err)
{
    struct telling telling = {lull_progress_begin(), STEPS};
    double size_j;
    struct lull_cluster_certificate certificate = {
        .second_j = of->second_j,
        .cost_j = certificate_cost_of(of->jobs, of->run, of->second_j, &size_j),
    };
    struct lull_price_ascent ascent = {
        .achieved = certificate.cost_j, .tell = certificate_log, .user = &telling};
    struct judged judged;
    int64_t slots = effort->slots;
    int rc = certificate_take_run(of->jobs, of->run, of->conditions, &judged);

    if (rc < 0) {
        lull_error_set(err, rc, "no memory for %zu jobs", of->jobs->count);
        goto end;
    }
    if (effort->steps > 0)
        telling.steps = (uint32_t)effort->steps;
    ascent.steps = telling.steps;
    if (slots == 0)
        slots = judged.may_pause ? PREEMPTIVE_SLOTS : SLOTS;
    if (judged.may_pause)
        rc = bound_paused(of->cluster, &judged, of->second_j, slots, &ascent, &certificate.bound_j,
                          err);
    else
        rc = bound_whole(of->cluster, &judged, of->second_j, slots, &ascent, &certificate.bound_j,
                         err);
    if (rc == 0 && !lull_dual_is_sound(certificate.bound_j, certificate.cost_j, size_j))
        rc = certificate_reject(&certificate, err);
    if (rc == 0)
        *certificate_out = certificate;
end:
    free(judged.all);
    free(judged.end_ns);
    lull_progress_end(&telling.progress);
    return rc;
}
