/* Requests of administrators: the policy again, the end of leases, and which job has which GPU.
 * SPDX-License-Identifier: Apache-2.0 */
#include "daemon/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "daemon/policy_file.h"
#include "wire/viewers.h"

bool lull_server_admit_administrator(struct lull_server *server, struct lull_connection *connection,
                                     const struct lull_message *message)
{
    if (lull_server_is_administrator(server, connection))
        return true;
    lull_server_log(server, connection->peer.uid, LULL_LOG_WARNING,
                    "request of an administrator refused (uid=%ld pid=%ld type=%u)",
                    (long)(int)connection->peer.uid, (long)connection->peer.pid, message->type);
    lull_server_reply_code(connection, message->sequence, -EPERM,
                           "only root, or the policy's group of administrators, may request that");
    return false;
}

/* A batch system speaks for all users, and does so as root. */
static bool admit_root(struct lull_connection *connection, const struct lull_message *message)
{
    if (connection->peer.uid == 0)
        return true;
    lull_server_reply_code(connection, message->sequence, -EPERM,
                           "only root may register the GPUs of a job");
    return false;
}

void lull_server_publish_viewers(const struct lull_server *server)
{
    struct lull_error error;

    if (lull_viewers_write(server->runtime_dir, server->policy.has_viewers, server->policy.viewers,
                           &error) < 0)
        lull_log(LULL_LOG_WARNING, "lulld", "%s", error.text);
}

void lull_server_report_absent_gpus(const struct lull_server *server)
{
    const struct lull_policy *const policy = &server->policy;
    const char *absent = NULL;
    uint32_t count = 0;

    if (lull_devices_count(server->devices) == 0)
        return;
    for (uint32_t i = 0; i < policy->gpu_count; i++)
        if (lull_server_find_gpu(server, policy->gpus[i]) < 0) {
            absent = policy->gpus[i];
            count++;
        }
    if (count > 0)
        lull_log(LULL_LOG_INFO, "lulld",
                 "GPUs of the policy that this node does not have: %u of %u, such as %s", count,
                 policy->gpu_count, absent);
}

/* A first policy decides who controls GPUs, so every user may connect, as after a start with it. */
static void administer_open_socket(const struct lull_server *server)
{
    const char *const path = server->everybody.path;

    if (server->opens_with_policy && chmod(path, LULL_SERVER_OPEN_MODE) < 0)
        lull_log(LULL_LOG_WARNING, "lulld", "%s: %s; restart lulld, so that users can connect",
                 path, strerror(errno));
}

void lull_server_serve_reload(struct lull_server *server, struct lull_connection *connection,
                              const struct lull_message *message)
{
    struct lull_policy policy;
    struct lull_error error = {0};

    if (!lull_server_admit_administrator(server, connection, message))
        return;
    if (lull_policy_load(server->policy_path, NULL, &policy, &error) < 0) {
        lull_log(LULL_LOG_WARNING, "lulld", "the policy stays as it was: %s", error.text);
        lull_server_reply(connection, message->sequence, &error);
        return;
    }
    server->policy = policy;
    lull_server_publish_viewers(server);
    administer_open_socket(server);
    lull_log(LULL_LOG_INFO, "lulld", "policy read again (file=%s)", server->policy_path);
    lull_server_report_absent_gpus(server);
    lull_server_judge_again(server);
    lull_writer_retry_caps(server->writer);
    lull_server_reply_code(connection, message->sequence, 0, "");
}

/* --- revoking --- */

static bool administer_is_on(const struct lull_jobs *jobs, const char *id, const char *uuid,
                             uid_t uid)
{
    for (uint32_t i = 0; i < jobs->count; i++)
        if (jobs->jobs[i].uid == uid && strcmp(jobs->jobs[i].id, id) == 0 &&
            strcmp(jobs->jobs[i].uuid, uuid) == 0)
            return true;
    return false;
}

/* Returns whether a lease is meant: one of a GPU, of a user, or of a job's user on the job's GPUs.
 */
static bool is_meant(struct lull_server *server, uint32_t gpu, uint64_t client,
                     const struct lull_message_revoke *wanted)
{
    const struct lull_connection *const owner = lull_server_find_connection(server, client);
    const char *const uuid = lull_device_info(server->devices, gpu)->uuid;

    switch (wanted->target) {
    case LULL_MESSAGE_OF_GPU:
        return lull_server_find_gpu(server, wanted->name) == (int)gpu;
    case LULL_MESSAGE_OF_USER:
        return owner != NULL && owner->peer.uid == wanted->uid;
    default:
        return owner != NULL &&
               administer_is_on(&server->jobs, wanted->name, uuid, owner->peer.uid);
    }
}

/* Ends the leases that are meant, and returns their GPUs, a bit for each. */
static uint64_t revoke_meant(struct lull_server *server, const struct lull_message_revoke *wanted,
                             const char *why)
{
    uint64_t mask = 0;

    for (uint32_t gpu = 0; gpu < lull_devices_count(server->devices); gpu++) {
        struct lull_lease lease;

        if (!lull_enforcer_find(server->enforcer, gpu, &lease) ||
            !is_meant(server, gpu, lease.client, wanted))
            continue;
        lull_server_revoke(server, gpu, -EACCES, why);
        mask |= UINT64_C(1) << gpu;
    }
    return mask;
}

static bool is_known_job(const struct lull_jobs *jobs, const char *id)
{
    for (uint32_t i = 0; i < jobs->count; i++)
        if (strcmp(jobs->jobs[i].id, id) == 0)
            return true;
    return false;
}

static int check_target(const struct lull_server *server, const struct lull_message_revoke *wanted,
                        struct lull_error *err)
{
    if (wanted->target == LULL_MESSAGE_OF_GPU && lull_server_find_gpu(server, wanted->name) < 0)
        return lull_error_set(err, -ENODEV, "%s: no such GPU on this node; see lull gpus",
                              wanted->name);
    if (wanted->target == LULL_MESSAGE_OF_JOB && !is_known_job(&server->jobs, wanted->name))
        return lull_error_set(err, -ENOENT, "%s: lulld knows no such job", wanted->name);
    if (wanted->target < LULL_MESSAGE_OF_GPU || wanted->target > LULL_MESSAGE_OF_USER)
        return lull_error_set(err, -EINVAL, "this lulld does not know what is to be revoked");
    return 0;
}

void lull_server_serve_revoke(struct lull_server *server, struct lull_connection *connection,
                              const struct lull_message *message)
{
    const struct lull_message_revoke *const wanted = &message->body.revoke;
    struct lull_error error = {0};

    if (!lull_server_admit_administrator(server, connection, message))
        return;
    if (check_target(server, wanted, &error) < 0) {
        lull_server_reply(connection, message->sequence, &error);
        return;
    }
    lull_server_reply_when_settled(server, connection, message->sequence,
                                   revoke_meant(server, wanted, "an administrator revokes it"));
}

/* --- jobs --- */

static int administer_add_job(struct lull_server *server,
                              const struct lull_message_job_add *reported, struct lull_error *err)
{
    const int gpu = lull_server_find_gpu(server, reported->gpu);
    struct lull_job job = {.uid = reported->uid, .min_mhz = reported->min_mhz};

    if (gpu < 0)
        return lull_error_set(err, -ENODEV, "%s: no such GPU on this node; see lull gpus",
                              reported->gpu);
    memcpy(job.id, reported->id, sizeof(job.id));
    memcpy(job.cgroup, reported->cgroup, sizeof(job.cgroup));
    memcpy(job.uuid, lull_device_info(server->devices, (uint32_t)gpu)->uuid, sizeof(job.uuid));
    return lull_jobs_record(&server->jobs, server->jobs_directory, &job, err);
}

void lull_server_serve_job_add(struct lull_server *server, struct lull_connection *connection,
                               const struct lull_message *message)
{
    const struct lull_message_job_add *const reported = &message->body.job_add;
    struct lull_error error = {0};

    if (!admit_root(connection, message))
        return;
    if (administer_add_job(server, reported, &error) == 0) {
        lull_log(LULL_LOG_INFO, "lulld", "job %s of user %u has %s", reported->id, reported->uid,
                 reported->gpu);
        lull_server_judge_again(server); /* another user may have leased it by a rule */
    }
    lull_server_reply(connection, message->sequence, &error);
}

/* Users who are not administrators see only their own jobs, and how many are hidden. */
void lull_server_serve_job_next(struct lull_server *server, struct lull_connection *connection,
                                const struct lull_message *message)
{
    const struct lull_message_job_next *const last = &message->body.job_next;
    struct lull_message answer = {.type = LULL_MESSAGE_JOB, .sequence = message->sequence};
    struct lull_message_job *const next = &answer.body.job;
    const bool sees_all = lull_server_is_administrator(server, connection);
    const uid_t uid = connection->peer.uid;
    const struct lull_job *const job =
        lull_jobs_next(&server->jobs, last->id, last->uuid, sees_all, uid);

    if (!sees_all)
        next->hidden_count = lull_jobs_count_others(&server->jobs, uid);
    if (job != NULL) {
        next->uid = job->uid;
        next->min_mhz = job->min_mhz;
        memcpy(next->id, job->id, sizeof(next->id));
        memcpy(next->uuid, job->uuid, sizeof(next->uuid));
        memcpy(next->cgroup, job->cgroup, sizeof(next->cgroup));
    }
    lull_connection_send(connection, &answer, false);
}

void lull_server_serve_job_remove(struct lull_server *server, struct lull_connection *connection,
                                  const struct lull_message *message)
{
    struct lull_message_revoke wanted = {.target = LULL_MESSAGE_OF_JOB};
    const char *const id = message->body.job_remove.id;
    struct lull_error error = {0};
    uint64_t ended;

    if (!admit_root(connection, message))
        return;
    /* The file comes first: where it stays, so does the job, and the Epilog fails and is repeated.
     */
    if (lull_jobs_delete(server->jobs_directory, id, &error) < 0) {
        lull_server_reply(connection, message->sequence, &error);
        return;
    }
    snprintf(wanted.name, sizeof(wanted.name), "%s", id);
    ended = revoke_meant(server, &wanted, "its job has ended");
    if (lull_jobs_remove(&server->jobs, id) > 0)
        lull_log(LULL_LOG_INFO, "lulld", "job %s has ended", id);
    lull_server_reply_when_settled(server, connection, message->sequence, ended);
}
