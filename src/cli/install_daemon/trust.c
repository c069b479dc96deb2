/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/install_daemon/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"

static int trust_check_one(const char *path, struct lull_error *err)
{
    struct stat status;

    if (lstat(path, &status) < 0)
        return lull_error_set(err, -errno, "%s: %s", path, strerror(errno));
    /* In a sticky directory such as /tmp, other users cannot replace what belongs to root. */
    if (status.st_uid == 0 && ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0 ||
                               (S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0)))
        return 0;
    return lull_error_set(err, -EPERM, "%s: other users than root can change it", path);
}

int lull_trust_check_path(const char *path, struct lull_error *err)
{
    char whole[PATH_MAX];
    int result;

    if (realpath(path, whole) == NULL)
        return lull_error_set(err, -errno, "%s: %s", path, strerror(errno));
    for (;;) {
        char *slash;

        result = trust_check_one(whole, err);
        if (result < 0 || strcmp(whole, "/") == 0)
            return result;
        slash = strrchr(whole, '/');
        slash[slash == whole] = '\0';
    }
}

/* Checks one line of the linker's list: "	libuv.so.1 => /usr/lib/libuv.so.1 (0x7f...)". */
static int trust_check_line(const char *program, char *line, struct lull_error *err)
{
    const char *const name = line + strspn(line, "\t ");
    char *path = strchr(line, '/');
    char *const end = strrchr(line, '(');

    if (strstr(line, "not found") != NULL)
        return lull_error_set(err, -ENOEXEC, "%s cannot be started: %.*s", program,
                              (int)strcspn(name, "\n"), name);
    if (path == NULL || end == NULL || end <= path)
        return 0; /* the kernel's, which has no file */
    end[-1] = '\0';
    return lull_trust_check_path(path, err);
}

int lull_trust_check_libraries(const char *program, struct lull_error *err)
{
    char *const words[] = {(char *)program, NULL};
    const char *const environment[] = {"LD_TRACE_LOADED_OBJECTS=1",
                                       "LD_LIBRARY_PATH=", "LD_PRELOAD=", NULL};
    struct lull_child child;
    char line[PATH_MAX + 256];
    int pipes[2];
    int status;
    FILE *list;
    int result;

    if (pipe2(pipes, O_CLOEXEC) < 0)
        return lull_error_set(err, -errno, "cannot make a pipe: %s", strerror(errno));
    result = lull_child_start_as(
        words, environment,
        &(const struct lull_child_setup){.stdout_fd = pipes[1], .stderr_fd = -1}, &child, err);
    close(pipes[1]);
    list = result == 0 ? fdopen(pipes[0], "r") : NULL;
    if (list == NULL) {
        close(pipes[0]);
        return result < 0 ? result : lull_error_set(err, -ENOMEM, "no memory for a stream");
    }
    while (result == 0 && fgets(line, sizeof(line), list) != NULL)
        result = trust_check_line(program, line, err);
    fclose(list);
    lull_child_reap(&child, true, &status);
    return result;
}
