/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/evidence.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

bool lull_evidence_is_unmapped(uid_t uid)
{
    return uid == 65534 || uid == (uid_t)-1;
}

bool lull_evidence_is_opened(mode_t mode, dev_t number, int flags, dev_t wanted)
{
    return S_ISCHR(mode) && number == wanted && (flags & O_PATH) == 0 &&
           (flags & O_ACCMODE) == O_RDWR;
}

/* Returns whether a path of this length is the control group itself or lies below it. */
static bool is_path_below(const char *path, size_t length, const char *cgroup)
{
    const size_t prefix = strlen(cgroup);

    /* A path that leads upwards is one outside this process's own control group. */
    for (size_t i = 0; i + 3 <= length; i++)
        if (memcmp(path + i, "/..", 3) == 0)
            return false;
    return length >= prefix && memcmp(path, cgroup, prefix) == 0 &&
           (length == prefix || path[prefix] == '/');
}

/* A line is NUMBER:CONTROLLERS:PATH. */
bool lull_evidence_is_below(const char *cgroups, const char *cgroup)
{
    while (*cgroups != '\0') {
        const size_t length = strcspn(cgroups, "\n");
        const char *path = memchr(cgroups, ':', length);

        if (path != NULL)
            path = memchr(path + 1, ':', length - (size_t)(path + 1 - cgroups));
        if (path != NULL && is_path_below(path + 1, length - (size_t)(path + 1 - cgroups), cgroup))
            return true;
        cgroups += length;
        cgroups += *cgroups == '\n';
    }
    return false;
}

/* The table of jobs says this about one GPU. */
struct jobs_of_gpu {
    uint32_t count;
    bool is_users;  /* one of them is the client's user's */
    bool is_inside; /* and the client is in its control group */
    struct lull_policy_limits limits;
};

/* Every job on a GPU keeps its floor, whichever client controls the GPU. */
static void evidence_check_job(const struct lull_evidence *evidence,
                               const struct lull_policy *policy, const struct lull_job *job,
                               struct jobs_of_gpu *seen)
{
    const struct lull_policy_person owner = {.uid = job->uid};
    const struct lull_policy_rule *const rule =
        lull_policy_find(policy, &owner, evidence->uuid, evidence->pci);

    seen->count++;
    if (seen->limits.min_mhz < job->min_mhz)
        seen->limits.min_mhz = job->min_mhz;
    if (rule != NULL)
        lull_policy_narrow(&seen->limits, &rule->limits);
    if (job->uid != evidence->person.uid)
        return;
    seen->is_users = true;
    seen->is_inside |=
        job->cgroup[0] == '\0' || lull_evidence_is_below(evidence->cgroups, job->cgroup);
}

static int judge_by_jobs(const struct lull_evidence *evidence, const struct lull_policy *policy,
                         const struct jobs_of_gpu *seen, struct lull_error *err)
{
    if (!seen->is_users)
        return lull_error_set(err, -EACCES, "%s belongs to a job of another user", evidence->uuid);
    if (!seen->is_inside)
        return lull_error_set(err, -EACCES,
                              "%s belongs to a job of yours, but this process is not in the job's "
                              "control group; start it within the job",
                              evidence->uuid);
    if (seen->count > 1 && !policy->allows_shared)
        return lull_error_set(err, -EACCES,
                              "%s belongs to %u jobs, and the policy does not permit control of a "
                              "shared GPU (see shared = yes)",
                              evidence->uuid, seen->count);
    return 0;
}

/* Every user who computes on a GPU keeps the floor of the rule for that user. Returns one who is
 * not the client's user; NULL: no other user computes on it. */
static const uid_t *evidence_check_users(const struct lull_evidence *evidence,
                                         const struct lull_policy *policy,
                                         struct lull_policy_limits *limits)
{
    const uid_t *other = NULL;

    for (uint32_t i = 0; i < evidence->user_count; i++) {
        const struct lull_policy_person user = {.uid = evidence->users[i]};
        const struct lull_policy_rule *const rule =
            lull_policy_find(policy, &user, evidence->uuid, evidence->pci);

        if (user.uid == evidence->person.uid)
            continue;
        other = &evidence->users[i];
        if (rule != NULL)
            lull_policy_narrow(limits, &rule->limits);
    }
    return other;
}

/* Returns whether the GPU's device, opened, would be evidence. A descriptor is worth what its first
 * owner could open at any time, so it never outranks a job. */
static bool may_prove(const struct lull_evidence *evidence, const struct lull_policy *policy,
                      const struct jobs_of_gpu *seen)
{
    return !evidence->has_device && seen->count == 0 &&
           (!evidence->is_foreign || policy->allows_containers) &&
           lull_policy_find_device(policy, evidence->uuid, evidence->pci) != NULL;
}

int lull_evidence_judge(const struct lull_evidence *evidence, const struct lull_policy *policy,
                        const struct lull_jobs *jobs, struct lull_policy_limits *limits_out,
                        struct lull_error *err)
{
    const struct lull_policy_rule *rule;
    struct jobs_of_gpu seen = {0};
    const uid_t *other;
    int result = 0;

    for (uint32_t i = 0; i < jobs->count; i++)
        if (strcmp(jobs->jobs[i].uuid, evidence->uuid) == 0)
            evidence_check_job(evidence, policy, &jobs->jobs[i], &seen);
    rule = lull_policy_find(policy, &evidence->person, evidence->uuid, evidence->pci);
    if (evidence->is_foreign && !policy->allows_containers)
        result = lull_error_set(err, -EACCES,
                                "this process is in a container, where lulld cannot identify it "
                                "(see containers = yes in the policy)");
    else if (evidence->person.uid != 0 && seen.count > 0)
        result = judge_by_jobs(evidence, policy, &seen, err);
    else if (evidence->person.uid != 0 && rule == NULL && !evidence->has_device)
        result = lull_error_set(
            err, -EACCES,
            "neither a job nor the policy of lulld permits you to control %s; ask the "
            "administrator for a rule (lulld-policy(5))",
            evidence->uuid);
    if (result == -EACCES && may_prove(evidence, policy, &seen))
        result = lull_error_set(err, -ENOKEY,
                                "%s: only a process that has opened its device may control it, and "
                                "this process has not shown that it has",
                                evidence->uuid);
    if (result < 0)
        return result;
    if (seen.count == 0 && rule != NULL)
        lull_policy_narrow(&seen.limits, &rule->limits);
    other = evidence_check_users(evidence, policy, &seen.limits);
    if (other != NULL && evidence->person.uid != 0 && !policy->allows_shared)
        return lull_error_set(err, -EACCES,
                              "a process of another user (uid %u) computes on %s, and the policy "
                              "does not permit control of a shared GPU (see shared = yes)",
                              (unsigned int)*other, evidence->uuid);
    lull_policy_limit_gpu(policy, evidence->uuid, evidence->pci, &seen.limits);
    /* A profile slows all who compute on the GPU, and a floor costs energy that is theirs as well.
     */
    seen.limits.allows_profiles = evidence->person.uid == 0 ||
                                  (rule != NULL && rule->limits.allows_profiles && other == NULL);
    seen.limits.allows_smoothing = evidence->person.uid == 0 ||
                                   (rule != NULL && rule->limits.allows_smoothing && other == NULL);
    *limits_out = seen.limits;
    return 0;
}
