/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/viewers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

static bool viewers_make_path(const char *runtime_dir, char *path_out, size_t size)
{
    return (size_t)snprintf(path_out, size, "%s/viewers", runtime_dir) < size;
}

int lull_viewers_write(const char *runtime_dir, bool has_group, gid_t group, struct lull_error *err)
{
    char path[PATH_MAX];
    char text[24];
    int result;

    if (!viewers_make_path(runtime_dir, path, sizeof(path)))
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", runtime_dir);
    if (!has_group) {
        if (unlink(path) < 0 && errno != ENOENT)
            return lull_error_set(err, -errno, "%s: cannot remove it: %s", path, strerror(errno));
        return 0;
    }
    snprintf(text, sizeof(text), "%u\n", (unsigned int)group);
    result = lull_file_write_atomic(path, text, strlen(text), 0644, err);
    /* Governors of all users read it, whatever lulld's umask is. */
    if (result == 0 && chmod(path, 0644) < 0)
        result =
            lull_error_set(err, -errno, "%s: cannot make it readable: %s", path, strerror(errno));
    return result;
}

bool lull_viewers_read(const char *runtime_dir, gid_t *group_out)
{
    char path[PATH_MAX];
    char text[24] = "";
    char *newline;
    struct stat status;
    int64_t number;
    ssize_t got;
    int fd;

    if (!viewers_make_path(runtime_dir, path, sizeof(path)))
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    got =
        fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? read(fd, text, sizeof(text) - 1) : -1;
    close(fd);
    if (got <= 0 || (status.st_uid != 0 && status.st_uid != geteuid()) ||
        (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return false;
    newline = strchr(text, '\n');
    if (newline == NULL) /* it is longer than a group's id, or truncated */
        return false;
    *newline = '\0';
    if (lull_text_parse_int(text, 0, (int64_t)UINT32_MAX - 1, &number) < 0)
        return false;
    *group_out = (gid_t)number;
    return true;
}
