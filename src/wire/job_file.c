/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/job_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static const char *const prefixes[LULL_JOB_FILE_KINDS] = {
    [LULL_JOB_FILE_EVENTS] = "lull-job-",
    [LULL_JOB_FILE_LIVE] = "lull-live-",
};

void lull_job_file_path(const char *directory, enum lull_job_file kind, const char *pass,
                        char *path_out, size_t size)
{
    char drawn[LULL_FILE_DRAWN];

    lull_file_draw_name(drawn);
    snprintf(path_out, size, "%s/%s%ld-%s-%s", directory, prefixes[kind], (long)getpid(), pass,
             drawn);
}

/* Returns the process in the name of a file of this kind; 0: it is no such name. Other users choose
 * names in this directory, and names are shown, so only harmless characters are accepted. */
static pid_t owner_by(const char *name, enum lull_job_file kind)
{
    static const char harmless[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const size_t length = strlen(prefixes[kind]);
    const char *digits = name + length;
    char *end;
    long pid;

    if (strncmp(name, prefixes[kind], length) != 0 || *digits < '1' || *digits > '9' ||
        name[strspn(name, harmless)] != '\0')
        return 0;
    errno = 0;
    pid = strtol(digits, &end, 10);
    return errno == 0 && *end == '-' && pid <= INT_MAX ? (pid_t)pid : 0;
}

bool lull_job_file_is(const char *name, enum lull_job_file kind)
{
    return owner_by(name, kind) > 0;
}

static pid_t owner_of(const char *name)
{
    pid_t owner = 0;

    for (enum lull_job_file kind = 0; kind < LULL_JOB_FILE_KINDS && owner == 0; kind++)
        owner = owner_by(name, kind);
    return owner;
}

static bool is_dead(pid_t pid)
{
    return kill(pid, 0) < 0 && errno == ESRCH;
}

/* Returns whether the file is this user's and no process has locked it, in any container. */
static bool is_abandoned(int directory_fd, const char *name)
{
    int fd = openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat status;
    bool is_so;

    if (fd < 0)
        return false;
    is_so = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
            flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return is_so;
}

uint32_t lull_job_file_clear(const char *directory)
{
    const int saved_errno = errno;
    DIR *entries = opendir(directory);
    const struct dirent *entry;
    uint32_t removed = 0;

    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        const pid_t owner = owner_of(entry->d_name);

        if (owner > 0 && is_dead(owner) && is_abandoned(dirfd(entries), entry->d_name) &&
            unlinkat(dirfd(entries), entry->d_name, 0) == 0)
            removed++;
    }
    if (entries != NULL)
        closedir(entries);
    errno = saved_errno;
    return removed;
}
