/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/slurm/schedule/slurm_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cluster/slurm/schedule/mark.h"

int lull_slurm_open(const char *partition, struct lull_slurm **slurm_out, struct lull_error *err)
{
    struct lull_slurm *const slurm = calloc(1, sizeof(*slurm));

    if (slurm == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for a queue");
    slurm_init(NULL);
    slurm->wanted = partition;
    *slurm_out = slurm;
    return 0;
}

static void forget_queue(struct lull_slurm *slurm)
{
    free(slurm->queue_nodes);
    free(slurm->queue_jobs);
    free(slurm->job_of);
    lull_memory_free(&slurm->memory);
    slurm->queue_nodes = NULL;
    slurm->queue_jobs = NULL;
    slurm->job_of = NULL;
}

void lull_slurm_close(struct lull_slurm *slurm)
{
    if (slurm == NULL)
        return;
    forget_queue(slurm);
    free(slurm->refused);
    slurm_free_job_info_msg(slurm->jobs);
    slurm_free_node_info_msg(slurm->nodes);
    slurm_free_partition_info_msg(slurm->partitions);
    free(slurm);
}

/* ---- asking slurmctld ---------------------------------------------------------------------- */

int lull_slurm_fail(struct lull_error *err, const char *what)
{
    const int code = slurm_get_errno();

    if (code == ESLURM_ACCESS_DENIED || code == ESLURM_USER_ID_MISSING)
        return lull_error_set(err, -EACCES, "%s: Slurm says: %s; run this as an operator of Slurm",
                              what, slurm_strerror(code));
    if (code >= ESLURM_INVALID_PARTITION_NAME)
        return lull_error_set(err, -ECANCELED, "%s: Slurm says: %s", what, slurm_strerror(code));
    return lull_error_set(err, -EAGAIN, "%s: slurmctld does not answer: %s", what,
                          slurm_strerror(code));
}

/* Returns the result of a request: 1, there is a response; 0, nothing has changed; or an error. */
static int slurm_queue_check_outcome(int code, const char *what, struct lull_error *err)
{
    if (code == SLURM_SUCCESS)
        return 1;
    return slurm_get_errno() == SLURM_NO_CHANGE_IN_DATA ? 0 : lull_slurm_fail(err, what);
}

static int slurm_queue_load_jobs(struct lull_slurm *slurm, struct lull_error *err)
{
    const time_t last = slurm->jobs != NULL ? slurm->jobs->last_update : 0;
    job_info_msg_t *jobs = NULL;
    const int rc = slurm_queue_check_outcome(slurm_load_jobs(last, &jobs, SHOW_ALL | SHOW_DETAIL),
                                             "jobs", err);

    if (rc <= 0)
        return rc;
    slurm_free_job_info_msg(slurm->jobs);
    slurm->jobs = jobs;
    return 1;
}

static int load_nodes(struct lull_slurm *slurm, struct lull_error *err)
{
    const time_t last = slurm->nodes != NULL ? slurm->nodes->last_update : 0;
    node_info_msg_t *nodes = NULL;
    const int rc = slurm_queue_check_outcome(slurm_load_node(last, &nodes, SHOW_ALL | SHOW_DETAIL),
                                             "nodes", err);

    if (rc <= 0)
        return rc;
    slurm_free_node_info_msg(slurm->nodes);
    slurm->nodes = nodes;
    return 1;
}

static int load_partitions(struct lull_slurm *slurm, struct lull_error *err)
{
    const time_t last = slurm->partitions != NULL ? slurm->partitions->last_update : 0;
    partition_info_msg_t *partitions = NULL;
    const int rc = slurm_queue_check_outcome(slurm_load_partitions(last, &partitions, SHOW_ALL),
                                             "partitions", err);

    if (rc <= 0)
        return rc;
    slurm_free_partition_info_msg(slurm->partitions);
    slurm->partitions = partitions;
    slurm->partition = NULL;
    for (uint32_t i = 0; i < partitions->record_count; i++) {
        const partition_info_t *const it = &partitions->partition_array[i];

        if (slurm->wanted != NULL ? strcmp(it->name, slurm->wanted) == 0
                                  : (it->flags & PART_FLAG_DEFAULT) != 0)
            slurm->partition = it;
    }
    if (slurm->partition != NULL)
        return 1;
    if (slurm->wanted == NULL)
        return lull_error_set(err, -EINVAL, "Slurm has no default partition: give --partition");
    return lull_error_set(err, -EINVAL, "Slurm has no partition \"%.64s\"", slurm->wanted);
}

static int load_rights(struct lull_slurm *slurm, struct lull_error *err)
{
    slurm_conf_t *conf = NULL;

    if (slurm_load_ctl_conf(0, &conf) != SLURM_SUCCESS)
        return lull_slurm_fail(err, "configuration");
    slurm->is_operator = geteuid() == 0 || geteuid() == conf->slurm_user_id;
    slurm_free_ctl_conf(conf);
    return 0;
}

/* ---- nodes --------------------------------------------------------------------------------- */

static bool slurm_queue_is_usable(uint32_t state)
{
    const uint32_t base = state & NODE_STATE_BASE;
    const uint32_t away = NODE_STATE_DRAIN | NODE_STATE_NO_RESPOND | NODE_STATE_FAIL |
                          NODE_STATE_MAINT | NODE_STATE_RES | NODE_STATE_POWERED_DOWN |
                          NODE_STATE_POWERING_UP | NODE_STATE_POWERING_DOWN |
                          NODE_STATE_REBOOT_ISSUED | NODE_STATE_INVALID_REG;

    return (base == NODE_STATE_IDLE || base == NODE_STATE_MIXED || base == NODE_STATE_ALLOCATED) &&
           (state & away) == 0;
}

static const char *slurm_queue_copy_text(struct lull_slurm *slurm, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *const kept = lull_memory_take(&slurm->memory, size, 1);

    return kept != NULL ? memcpy(kept, text, size) : "";
}

static const char *text_or_none(const char *text)
{
    return text != NULL ? text : "";
}

/* Returns whether a node is one of the pairs of a list of ranges, which ends with -1. */
static bool slurm_queue_is_in(const int32_t *pairs, uint32_t node)
{
    for (; pairs != NULL && pairs[0] >= 0; pairs += 2)
        if ((int64_t)node >= pairs[0] && (int64_t)node <= pairs[1])
            return true;
    return false;
}

static int make_nodes(struct lull_slurm *slurm)
{
    const uint32_t count = slurm->nodes->record_count;

    slurm->queue_nodes = calloc(count + 1, sizeof(*slurm->queue_nodes));
    if (slurm->queue_nodes == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        const node_info_t *const it = &slurm->nodes->node_array[i];
        struct lull_gpu_count has, used;

        lull_gpu_count_read(it->gres, &has);
        lull_gpu_count_read(it->gres_used, &used);
        slurm->queue_nodes[i] = (struct lull_queue_node){
            .name = text_or_none(it->name),
            .type = has.type[0] != '\0' ? slurm_queue_copy_text(slurm, has.type) : "",
            .gpus = slurm_queue_is_in(slurm->partition->node_inx, i) ? has.gpus : 0,
            .used = used.gpus,
            .is_usable = it->name != NULL && slurm_queue_is_usable(it->node_state),
        };
    }
    return 0;
}

/* ---- jobs ---------------------------------------------------------------------------------- */

static bool slurm_queue_is_pending(const slurm_job_info_t *it)
{
    return (it->job_state & JOB_STATE_BASE) == JOB_PENDING && (it->job_state & JOB_COMPLETING) == 0;
}

static bool has_gpus_now(const slurm_job_info_t *it)
{
    const uint32_t base = it->job_state & JOB_STATE_BASE;

    return base == JOB_RUNNING || base == JOB_SUSPENDED || (it->job_state & JOB_COMPLETING) != 0;
}

/* Reads how many GPUs a job requests. Slurm gives the number for the job, per node or per task. */
static void take_request(struct lull_slurm *slurm, const slurm_job_info_t *it,
                         struct lull_queue_job *job)
{
    struct lull_gpu_count count;

    job->nodes = it->num_nodes;
    lull_gpu_count_read(it->tres_per_node, &count);
    job->gpus = count.gpus * it->num_nodes;
    if (count.gpus == 0) {
        lull_gpu_count_read(it->tres_per_job, &count);
        job->gpus = count.gpus;
        /* Slurm reports one node if the user has not set a number. */
        if (it->num_nodes <= 1 || count.gpus % it->num_nodes != 0)
            job->nodes = 0;
    }
    if (count.gpus == 0) {
        lull_gpu_count_read(it->tres_per_task, &count);
        job->gpus = count.gpus * it->num_tasks;
        job->nodes = 0;
    }
    job->type = count.type[0] != '\0' ? slurm_queue_copy_text(slurm, count.type) : "";
}

static const char *slurm_queue_obstacle_of(const slurm_job_info_t *it)
{
    if (it->array_task_str != NULL)
        return "it is an array of jobs";
    if (it->het_job_id != 0)
        return "it is a part of a heterogeneous job";
    /* Slurm does not look at the dependencies of a job that is held. */
    if (it->dependency != NULL && it->dependency[0] != '\0')
        return "it depends on other jobs";
    if (it->tres_per_socket != NULL)
        return "it requests GPUs per socket";
    if (it->shared == JOB_SHARED_NONE)
        return "it wants nodes for itself (--exclusive)";
    if (it->features != NULL || it->exc_nodes != NULL || it->resv_name != NULL)
        return "it names features, a reservation or nodes that it does not want";
    return NULL;
}

/* Returns why a job is not to be placed yet; NULL: it is. */
static const char *delay_of(const slurm_job_info_t *it, int64_t now_s)
{
    if (it->eligible_time > now_s || it->start_time > now_s)
        return "its requested start time has not been reached";
    return NULL;
}

static int add_share(struct lull_cluster_share *shares, uint32_t count, uint32_t node,
                     uint32_t gpus)
{
    shares[count] = (struct lull_cluster_share){node, gpus};
    return gpus > 0 ? 1 : 0;
}

/* Reads the GPUs of a running job. The details are listed node by node. */
static void take_allocation(struct lull_slurm *slurm, const slurm_job_info_t *it,
                            struct lull_queue_job *job)
{
    struct lull_cluster_share *const shares =
        lull_memory_take(&slurm->memory, it->gres_detail_cnt + 1, sizeof(*shares));
    uint32_t at = 0;

    if (shares == NULL || it->gres_detail_str == NULL)
        return;
    for (const int32_t *pair = it->node_inx; pair != NULL && pair[0] >= 0; pair += 2)
        for (int32_t node = pair[0]; node <= pair[1] && at < it->gres_detail_cnt; node++, at++) {
            struct lull_gpu_count count;

            lull_gpu_count_read(it->gres_detail_str[at], &count);
            if ((uint32_t)node < slurm->nodes->record_count)
                job->share_count +=
                    (uint32_t)add_share(shares, job->share_count, (uint32_t)node, count.gpus);
        }
    job->shares = shares;
}

/* Estimates the GPUs of a released job: an even distribution over its nodes. The actual one is
 * unknown before the job begins. */
static void take_placement(struct lull_slurm *slurm, const slurm_job_info_t *it,
                           struct lull_queue_job *job)
{
    uint32_t nodes = 0, left = job->gpus;
    struct lull_cluster_share *shares;

    for (const int32_t *pair = it->req_node_inx; pair != NULL && pair[0] >= 0; pair += 2)
        nodes += (uint32_t)(pair[1] - pair[0] + 1);
    shares = lull_memory_take(&slurm->memory, nodes + 1, sizeof(*shares));
    if (shares == NULL)
        return;
    for (const int32_t *pair = it->req_node_inx; pair != NULL && pair[0] >= 0; pair += 2)
        for (int32_t node = pair[0]; node <= pair[1]; node++, nodes--) {
            const uint32_t gpus = (left + nodes - 1) / nodes;

            if ((uint32_t)node < slurm->nodes->record_count)
                job->share_count +=
                    (uint32_t)add_share(shares, job->share_count, (uint32_t)node, gpus);
            left -= gpus;
        }
    job->shares = shares;
}

/* Returns whether Lull schedules a job of this partition that has requested it; the hold has to be
 * that of a user, for an administrator's is not to be ended. */
static bool slurm_queue_is_ours(const struct lull_slurm *slurm, const slurm_job_info_t *it,
                                const struct lull_mark *mark)
{
    return mark->is_asked && it->partition != NULL &&
           strcmp(it->partition, slurm->partition->name) == 0 &&
           (slurm->is_operator || it->user_id == geteuid());
}

/* Determines the stage of a job; false: it neither has GPUs nor is one for Lull. */
static bool find_stage(const slurm_job_info_t *it, const struct lull_mark *mark,
                       struct lull_queue_job *job)
{
    if (has_gpus_now(it)) {
        job->stage = LULL_QUEUE_RUNS;
        return true;
    }
    if (!job->is_of_lull || !slurm_queue_is_pending(it))
        return false;
    job->stage = it->priority == 0 ? LULL_QUEUE_WAITS : LULL_QUEUE_RELEASED;
    if (job->stage == LULL_QUEUE_WAITS)
        return it->state_reason == WAIT_HELD_USER;
    return (mark->is_placed || mark->is_by_user) && it->req_nodes != NULL;
}

static bool slurm_queue_is_refused(const struct lull_slurm *slurm, uint32_t id)
{
    for (size_t i = 0; i < slurm->refused_count; i++)
        if (slurm->refused[i] == id)
            return true;
    return false;
}

/* The time limit that the user gave, in s; 0: none. */
static int64_t slurm_queue_limit_of(const slurm_job_info_t *it, const struct lull_mark *mark)
{
    if (mark->is_placed && mark->limit_min != 0)
        return mark->limit_min * LULL_SLURM_MINUTE_S;
    return it->time_limit < INFINITE - 1 ? it->time_limit * LULL_SLURM_MINUTE_S : 0;
}

/* Fills in a job; false: it has nothing to do with Lull or with GPUs. */
static bool slurm_queue_take_job(struct lull_slurm *slurm, const slurm_job_info_t *it,
                                 int64_t now_s, struct lull_queue_job *job)
{
    struct lull_mark mark;

    lull_mark_read(it->admin_comment, it->comment, now_s, &mark);
    *job = (struct lull_queue_job){
        .id = it->job_id,
        .user = it->user_id,
        .is_of_lull = slurm_queue_is_ours(slurm, it, &mark),
        .name =
            mark.name[0] != '\0' ? slurm_queue_copy_text(slurm, mark.name) : text_or_none(it->name),
        .submit_s = it->submit_time,
        .begin_s = it->start_time,
        .limit_s = slurm_queue_limit_of(it, &mark),
        .deadline_s = mark.deadline_s,
        .sm_mhz = mark.is_placed ? mark.sm_mhz : 0,
        .tries = mark.tries,
        .takes_clocks = slurm->is_operator && !mark.is_by_user && it->tres_freq == NULL,
    };
    if (!find_stage(it, &mark, job))
        return false;
    take_request(slurm, it, job);
    if (job->stage == LULL_QUEUE_RUNS) {
        take_allocation(slurm, it, job);
        return job->share_count > 0;
    }
    if (job->stage == LULL_QUEUE_RELEASED) {
        job->begin_s = mark.placed_s;
        take_placement(slurm, it, job);
    }
    job->obstacle = slurm_queue_obstacle_of(it);
    job->delay = delay_of(it, now_s);
    if (slurm_queue_is_refused(slurm, job->id))
        job->delay = "Slurm has refused to release it";
    return job->gpus > 0;
}

struct numbered_job {
    struct lull_queue_job job;
    const slurm_job_info_t *it;
};

static int compare_jobs(const void *left, const void *right)
{
    const struct lull_queue_job *const a = &((const struct numbered_job *)left)->job;
    const struct lull_queue_job *const b = &((const struct numbered_job *)right)->job;

    if (a->submit_s != b->submit_s)
        return a->submit_s < b->submit_s ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static int slurm_queue_make_jobs(struct lull_slurm *slurm)
{
    const uint32_t room = slurm->jobs->record_count + 1;
    struct numbered_job *const found = calloc(room, sizeof(*found));
    const int64_t now_s = time(NULL);
    uint32_t count = 0;

    slurm->queue_jobs = calloc(room, sizeof(*slurm->queue_jobs));
    slurm->job_of = calloc(room, sizeof(*slurm->job_of));
    if (found == NULL || slurm->queue_jobs == NULL || slurm->job_of == NULL) {
        free(found);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < slurm->jobs->record_count; i++) {
        found[count].it = &slurm->jobs->job_array[i];
        count += slurm_queue_take_job(slurm, found[count].it, now_s, &found[count].job) ? 1 : 0;
    }
    qsort(found, count, sizeof(*found), compare_jobs);
    for (uint32_t i = 0; i < count; i++) {
        slurm->queue_jobs[i] = found[i].job;
        slurm->job_of[i] = found[i].it;
    }
    free(found);
    slurm->queue = (struct lull_queue){.now_s = now_s,
                                       .nodes = slurm->queue_nodes,
                                       .node_count = slurm->nodes->record_count,
                                       .jobs = slurm->queue_jobs,
                                       .job_count = count};
    return 0;
}

/* ---- the queue ----------------------------------------------------------------------------- */

int lull_slurm_read(struct lull_slurm *slurm, bool *has_changed_out,
                    const struct lull_queue **queue_out, struct lull_error *err)
{
    int (*const loaders[])(struct lull_slurm *, struct lull_error *) = {load_partitions, load_nodes,
                                                                        slurm_queue_load_jobs};

    *has_changed_out = false;
    if (slurm->partition == NULL) {
        const int rc = load_rights(slurm, err);

        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; i < sizeof(loaders) / sizeof(loaders[0]); i++) {
        const int rc = loaders[i](slurm, err);

        if (rc < 0)
            return rc;
        *has_changed_out = *has_changed_out || rc > 0;
    }
    forget_queue(slurm);
    if (make_nodes(slurm) < 0 || slurm_queue_make_jobs(slurm) < 0)
        return lull_error_set(err, -ENOMEM, "not enough memory for the queue");
    *queue_out = &slurm->queue;
    return 0;
}

const char *lull_slurm_partition(const struct lull_slurm *slurm)
{
    return slurm->partition->name;
}

int lull_slurm_clock(uint32_t id, uint32_t *sm_mhz_out, struct lull_error *err)
{
    job_info_msg_t *jobs = NULL;
    struct lull_mark mark;

    slurm_init(NULL);
    if (slurm_load_job(&jobs, id, 0) != SLURM_SUCCESS)
        return lull_slurm_fail(err, "job");
    *sm_mhz_out = 0;
    if (jobs->record_count > 0) {
        lull_mark_read(jobs->job_array[0].admin_comment, NULL, time(NULL), &mark);
        *sm_mhz_out = mark.is_placed ? mark.sm_mhz : 0;
    }
    slurm_free_job_info_msg(jobs);
    return 0;
}
