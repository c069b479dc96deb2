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

static const char prefix[] = "lull-job-";

void lull_job_file_path(const char *directory, const char *pass, char *path_out, size_t size)
{
    snprintf(path_out, size, "%s/%s%ld-%s", directory, prefix, (long)getpid(), pass);
}

/* Returns the process that a segment's name tells of; 0: it is no such name. */
static pid_t owner_of(const char *name)
{
    const char *digits = name + sizeof(prefix) - 1;
    char *end;
    long pid;

    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 || *digits < '1' || *digits > '9')
        return 0;
    errno = 0;
    pid = strtol(digits, &end, 10);
    return errno == 0 && *end == '-' && pid <= INT_MAX ? (pid_t)pid : 0;
}

static bool is_dead(pid_t pid)
{
    return kill(pid, 0) < 0 && errno == ESRCH;
}

/* Tells whether the file is this user's and nobody has locked it, in whatever container. */
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
