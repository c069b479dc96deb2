/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

enum { FILE_BYTES = 64 * 1024, PATH_BYTES = 4096 };

/* Returns whether a text can be a word of a line, and the id the name of a file as well. */
static bool job_table_is_word(const char *text)
{
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++)
        if (!isgraph((unsigned char)*text))
            return false;
    return true;
}

static bool is_id(const char *text)
{
    return job_table_is_word(text) && text[0] != '.' && strchr(text, '/') == NULL;
}

static bool is_cgroup(const char *text)
{
    return *text == '\0' || (job_table_is_word(text) && text[0] == '/' && text[1] != '\0');
}

static struct lull_job *job_table_find_pair(struct lull_jobs *jobs, const struct lull_job *job)
{
    for (uint32_t i = 0; i < jobs->count; i++)
        if (strcmp(jobs->jobs[i].id, job->id) == 0 && strcmp(jobs->jobs[i].uuid, job->uuid) == 0)
            return &jobs->jobs[i];
    return NULL;
}

static struct lull_job *job_table_find_place(struct lull_jobs *jobs, const struct lull_job *job)
{
    struct lull_job *const found = job_table_find_pair(jobs, job);

    if (found != NULL || jobs->count == LULL_JOBS_MAX)
        return found;
    return &jobs->jobs[jobs->count++];
}

int lull_jobs_add(struct lull_jobs *jobs, const struct lull_job *job, struct lull_error *err)
{
    struct lull_job *place;

    if (!is_id(job->id))
        return lull_error_set(err, -EINVAL, "\"%s\" cannot be the name of a job", job->id);
    if (!job_table_is_word(job->uuid) || !is_cgroup(job->cgroup))
        return lull_error_set(err, -EINVAL,
                              "job %s: a control group is a path such as /slurm/job_%s, without "
                              "blanks",
                              job->id, job->id);
    for (uint32_t i = 0; i < jobs->count; i++)
        if (strcmp(jobs->jobs[i].id, job->id) == 0 && jobs->jobs[i].uid != job->uid)
            return lull_error_set(err, -EEXIST, "job %s belongs to user %u already", job->id,
                                  (unsigned int)jobs->jobs[i].uid);
    place = job_table_find_place(jobs, job);
    if (place == NULL)
        return lull_error_set(
            err, -ENOSPC, "too many jobs are registered with lulld; remove those that have ended");
    *place = *job;
    return 0;
}

uint32_t lull_jobs_remove(struct lull_jobs *jobs, const char *id)
{
    uint32_t kept = 0;
    const uint32_t before = jobs->count;

    for (uint32_t i = 0; i < before; i++)
        if (strcmp(jobs->jobs[i].id, id) != 0)
            jobs->jobs[kept++] = jobs->jobs[i];
    jobs->count = kept;
    return before - kept;
}

static int compare_pair(const struct lull_job *job, const char *id, const char *uuid)
{
    const int by_id = strcmp(job->id, id);

    return by_id != 0 ? by_id : strcmp(job->uuid, uuid);
}

const struct lull_job *lull_jobs_next(const struct lull_jobs *jobs, const char *id,
                                      const char *uuid, bool sees_all, uid_t uid)
{
    const struct lull_job *next = NULL;

    for (uint32_t i = 0; i < jobs->count; i++) {
        const struct lull_job *const job = &jobs->jobs[i];

        if ((sees_all || job->uid == uid) && compare_pair(job, id, uuid) > 0 &&
            (next == NULL || compare_pair(job, next->id, next->uuid) < 0))
            next = job;
    }
    return next;
}

uint32_t lull_jobs_count_others(const struct lull_jobs *jobs, uid_t uid)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < jobs->count; i++)
        count += jobs->jobs[i].uid != uid;
    return count;
}

/* --- files --- */

struct job_lines {
    const struct lull_jobs *jobs;
    const char *id;
};

static int job_table_write_job(const void *context, FILE *file)
{
    const struct job_lines *const reported = context;

    for (uint32_t i = 0; i < reported->jobs->count; i++) {
        const struct lull_job *const job = &reported->jobs->jobs[i];

        if (strcmp(job->id, reported->id) == 0 &&
            fprintf(file, "%u %u %s %s\n", (unsigned int)job->uid, job->min_mhz, job->uuid,
                    job->cgroup) < 0)
            return -ENOMEM;
    }
    return 0;
}

static bool job_table_is_known(const struct lull_jobs *jobs, const char *id)
{
    for (uint32_t i = 0; i < jobs->count; i++)
        if (strcmp(jobs->jobs[i].id, id) == 0)
            return true;
    return false;
}

static int job_table_name_file(const char *directory, const char *id, char path_out[PATH_BYTES],
                               struct lull_error *err)
{
    if (!is_id(id) || (size_t)snprintf(path_out, PATH_BYTES, "%s/%s", directory, id) >= PATH_BYTES)
        return lull_error_set(err, -EINVAL, "\"%s\" cannot be the name of a job", id);
    return 0;
}

int lull_jobs_delete(const char *directory, const char *id, struct lull_error *err)
{
    char path[PATH_BYTES];
    const int result = job_table_name_file(directory, id, path, err);

    if (result < 0)
        return result;
    if (unlink(path) < 0 && errno != ENOENT)
        return lull_error_set(err, -errno, "%s: cannot remove it: %s", path, strerror(errno));
    return 0;
}

int lull_jobs_save(const struct lull_jobs *jobs, const char *directory, const char *id,
                   struct lull_error *err)
{
    const struct job_lines reported = {jobs, id};
    char path[PATH_BYTES];
    int result;

    if (!job_table_is_known(jobs, id))
        return lull_jobs_delete(directory, id, err);
    result = job_table_name_file(directory, id, path, err);
    if (result < 0)
        return result;
    result = lull_file_make_directory(directory, 0700, err);
    return result < 0 ? result : lull_file_write_with(path, job_table_write_job, &reported, err);
}

int lull_jobs_record(struct lull_jobs *jobs, const char *directory, const struct lull_job *job,
                     struct lull_error *err)
{
    struct lull_job *place = job_table_find_pair(jobs, job);
    struct lull_job before;
    const bool is_new = place == NULL;
    int result;

    if (!is_new)
        before = *place;
    result = lull_jobs_add(jobs, job, err);
    if (result < 0)
        return result;
    result = lull_jobs_save(jobs, directory, job->id, err);
    if (result < 0 && is_new)
        jobs->count--; /* it was added behind all others */
    else if (result < 0)
        *place = before;
    return result;
}

/* Reads a line that job_table_write_job() wrote. */
static int job_table_read_line(struct lull_jobs *jobs, const char *id, const char *line)
{
    struct lull_job job = {.cgroup = ""};
    unsigned int uid;

    if (strlen(id) >= sizeof(job.id) ||
        sscanf(line, "%u %u %95s %191s", &uid, &job.min_mhz, job.uuid, job.cgroup) < 3)
        return -EINVAL;
    job.uid = uid;
    memcpy(job.id, id, strlen(id) + 1);
    return lull_jobs_add(jobs, &job, NULL);
}

static int load_file(struct lull_jobs *jobs, const char *directory, const char *id)
{
    char path[PATH_BYTES];
    char *text, *rest = NULL;
    size_t size;
    int result;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, id) >= sizeof(path))
        return -ENAMETOOLONG;
    result = lull_file_read(path, FILE_BYTES, &text, &size, NULL);
    if (result < 0)
        return result;
    for (const char *line = strtok_r(text, "\n", &rest); line != NULL && result == 0;
         line = strtok_r(NULL, "\n", &rest))
        result = job_table_read_line(jobs, id, line);
    free(text);
    return result;
}

uint32_t lull_jobs_load(struct lull_jobs *jobs, const char *directory)
{
    DIR *const listing = opendir(directory);
    uint32_t failures = 0;
    const struct dirent *entry;

    if (listing == NULL)
        return 0; /* no job was ever registered */
    while ((entry = readdir(listing)) != NULL)
        if (entry->d_name[0] != '.' && load_file(jobs, directory, entry->d_name) < 0)
            failures++;
    closedir(listing);
    return failures;
}
