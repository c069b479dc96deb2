/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/slurm/schedule/slurm_state.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/slurm/schedule/mark.h"
#include "cluster/slurm/schedule/slurm_release.h"

/* A request that Slurm has rejected is not repeated, so that one job cannot delay others. */
static int slurm_release_update(struct lull_slurm *slurm, job_desc_msg_t *request,
                                struct lull_error *err)
{
    char what[32];
    int rc;

    if (slurm_update_job(request) == SLURM_SUCCESS)
        return 0;
    snprintf(what, sizeof(what), "job %u", request->job_id);
    rc = lull_slurm_fail(err, what);
    if (rc != -EAGAIN &&
        lull_array_grow(&slurm->refused, slurm->refused_count, sizeof(*slurm->refused)) == 0)
        slurm->refused[slurm->refused_count++] = request->job_id;
    return rc;
}

/* The names of a decision's nodes, with commas. The caller frees it; NULL: out of memory. */
static char *name_nodes(const struct lull_slurm *slurm,
                        const struct lull_schedule_decision *decision)
{
    size_t size = 1, used = 0;
    char *names;

    for (size_t i = 0; i < decision->share_count; i++)
        size += strlen(slurm->queue_nodes[decision->shares[i].node].name) + 1;
    names = malloc(size);
    if (names == NULL)
        return NULL;
    names[0] = '\0';
    for (size_t i = 0; i < decision->share_count; i++)
        used += (size_t)snprintf(names + used, size - used, "%s%s", i > 0 ? "," : "",
                                 slurm->queue_nodes[decision->shares[i].node].name);
    return names;
}

/* A job on a lower clock may take longer than its user has allowed it at full clocks, by as much
 * as the clock makes it slower. */
static void stretch_limit(const struct lull_queue_job *job, double slowdown_ratio,
                          job_desc_msg_t *request, struct lull_mark *mark)
{
    if (job->limit_s == 0 || slowdown_ratio <= 1.0)
        return;
    mark->limit_min = (uint32_t)(job->limit_s / LULL_SLURM_MINUTE_S);
    request->time_limit = (uint32_t)ceil(mark->limit_min * slowdown_ratio - 1e-9);
}

/* Adds the fields that only an operator's client writes into a job, besides its nodes. */
static int mark_release(struct lull_slurm *slurm, const struct lull_schedule_decision *decision,
                        job_desc_msg_t *request, char comment_out[LULL_MARK_BYTES],
                        struct lull_error *err)
{
    const struct lull_queue_job *const job = &slurm->queue_jobs[decision->job];
    struct lull_mark mark = {.is_placed = true,
                             .placed_s = slurm->queue.now_s,
                             .sm_mhz = decision->point->sm_mhz,
                             .tries = job->tries};

    if (!slurm->is_operator)
        return 0;
    stretch_limit(job, decision->slowdown_ratio, request, &mark);
    if (lull_mark_write(slurm->job_of[decision->job]->admin_comment, &mark, comment_out) < 0)
        return lull_error_set(err, -ECANCELED, "job %u: its AdminComment is too long", job->id);
    request->admin_comment = comment_out;
    return 0;
}

int lull_slurm_release(struct lull_slurm *slurm, const struct lull_schedule_decision *decision,
                       struct lull_error *err)
{
    const struct lull_queue_job *const job = &slurm->queue_jobs[decision->job];
    char comment[LULL_MARK_BYTES];
    job_desc_msg_t request;
    int rc;

    if (job->stage != LULL_QUEUE_WAITS)
        return 0;
    slurm_init_job_desc_msg(&request);
    request.job_id = job->id;
    request.priority = INFINITE;
    rc = mark_release(slurm, decision, &request, comment, err);
    if (rc < 0)
        return rc;
    request.req_nodes = name_nodes(slurm, decision);
    if (request.req_nodes == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for the names of nodes");
    rc = slurm_release_update(slurm, &request, err);
    free(request.req_nodes);
    return rc;
}

int lull_slurm_hand_over(struct lull_slurm *slurm, uint32_t job, struct lull_error *err)
{
    job_desc_msg_t request;

    slurm_init_job_desc_msg(&request);
    request.job_id = slurm->queue_jobs[job].id;
    request.priority = INFINITE;
    return slurm_release_update(slurm, &request, err);
}

int lull_slurm_hold(struct lull_slurm *slurm, uint32_t job, struct lull_error *err)
{
    const slurm_job_info_t *const it = slurm->job_of[job];
    const int64_t limit_min = slurm->queue_jobs[job].limit_s / LULL_SLURM_MINUTE_S;
    const struct lull_mark mark = {.tries = slurm->queue_jobs[job].tries + 1};
    char none[] = "", comment[LULL_MARK_BYTES];
    job_desc_msg_t request;

    slurm_init_job_desc_msg(&request);
    request.job_id = slurm->queue_jobs[job].id;
    request.priority = 0;
    request.alloc_sid = ALLOC_SID_USER_HOLD;
    request.req_nodes = none;
    if (slurm->is_operator && lull_mark_write(it->admin_comment, &mark, comment) == 0)
        request.admin_comment = comment;
    if (slurm->is_operator && limit_min > 0 && it->time_limit != limit_min)
        request.time_limit = (uint32_t)limit_min; /* as it was before the release */
    return slurm_release_update(slurm, &request, err);
}
