/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/slurm/allocation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 640, DIGITS = 9 };

static void write_path(char path[PATH_BYTES], const char *runtime_dir, uint32_t job)
{
    snprintf(path, PATH_BYTES, "%s/slurm/%u", runtime_dir, job);
}

/* Opens the folder of all jobs. Only its owner, this process's user, may have write access. */
static int allocation_check_folder(const char *path)
{
    struct stat status;

    if (lstat(path, &status) < 0)
        return -errno;
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 022) != 0)
        return -EPERM;
    return 0;
}

int lull_allocation_keep(const char *runtime_dir, uint32_t job, const char *gpus)
{
    const char *const text = gpus != NULL ? gpus : "";
    const ssize_t size = (ssize_t)strlen(text);
    char path[PATH_BYTES];
    int result = 0;
    int fd;

    snprintf(path, sizeof(path), "%s/slurm", runtime_dir);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return -errno;
    result = allocation_check_folder(path);
    if (result < 0)
        return result;
    write_path(path, runtime_dir, job);
    unlink(path); /* of a job with the same number */
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    if (write(fd, text, (size_t)size) != size)
        result = -EIO;
    close(fd);
    if (result < 0)
        unlink(path);
    return result;
}

void lull_allocation_read(const char *runtime_dir, uint32_t job, char *gpus_out, size_t size)
{
    char path[PATH_BYTES];
    ssize_t length = -1;
    int fd;

    gpus_out[0] = '\0';
    snprintf(path, sizeof(path), "%s/slurm", runtime_dir);
    if (allocation_check_folder(path) < 0)
        return;
    write_path(path, runtime_dir, job);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    length = read(fd, gpus_out, size);
    close(fd);
    gpus_out[length > 0 && (size_t)length < size ? (size_t)length : 0] = '\0';
}

void lull_allocation_forget(const char *runtime_dir, uint32_t job)
{
    char path[PATH_BYTES];

    write_path(path, runtime_dir, job);
    unlink(path);
}

/* Reads a number and the comma behind it; false: there is no number, or something else behind it.
 */
static bool allocation_take_number(const char **text, unsigned long *number_out)
{
    const size_t digits = strspn(*text, "0123456789");

    if (digits == 0 || digits > DIGITS || ((*text)[digits] != ',' && (*text)[digits] != '\0') ||
        ((*text)[digits] == ',' && (*text)[digits + 1] == '\0'))
        return false;
    *number_out = strtoul(*text, NULL, 10);
    *text += digits + ((*text)[digits] == ',');
    return true;
}

static bool allocation_holds(const char *list, unsigned long wanted)
{
    unsigned long number;

    while (allocation_take_number(&list, &number))
        if (number == wanted)
            return true;
    return false;
}

bool lull_allocation_covers(const char *allocated, const char *claimed)
{
    unsigned long number;

    if (*claimed == '\0')
        return false;
    while (*claimed != '\0')
        if (!allocation_take_number(&claimed, &number) || !allocation_holds(allocated, number))
            return false;
    return true;
}
