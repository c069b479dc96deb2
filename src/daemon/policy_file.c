/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int policy_file_find_user(const char *name, uint32_t *id_out)
{
    const struct passwd *const user = getpwnam(name);

    if (user == NULL)
        return -ENOENT;
    *id_out = user->pw_uid;
    return 0;
}

static int find_group(const char *name, uint32_t *id_out)
{
    const struct group *const group = getgrnam(name);

    if (group == NULL)
        return -ENOENT;
    *id_out = group->gr_gid;
    return 0;
}

/* Checks the open file, not its path, so that the file that is checked is the file that is read. */
static int check_file(int fd, const char *path, struct lull_error *err)
{
    struct stat file;

    if (fstat(fd, &file) < 0)
        return lull_error_set(err, -errno, "%s: %s", path, strerror(errno));
    if (!S_ISREG(file.st_mode))
        return lull_error_set(err, -EPERM, "%s: a policy is a regular file", path);
    if ((file.st_uid != 0 && file.st_uid != geteuid()) || (file.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return lull_error_set(err, -EPERM,
                              "%s: others than root could have written it; chown root and chmod "
                              "go-w it first",
                              path);
    return 0;
}

static int policy_file_read_all(int fd, const char *path, char *text, size_t *size_out,
                                struct lull_error *err)
{
    size_t size = 0;

    for (;;) {
        const ssize_t got = read(fd, text + size, LULL_POLICY_MAX_BYTES + 1 - size);

        if (got < 0)
            return lull_error_set(err, -errno, "%s: %s", path, strerror(errno));
        if (got == 0)
            break;
        size += (size_t)got;
        if (size > LULL_POLICY_MAX_BYTES)
            return lull_error_set(err, -EFBIG, "%s: longer than %d bytes", path,
                                  LULL_POLICY_MAX_BYTES);
    }
    *size_out = size;
    return 0;
}

static int read_open(int fd, const char *path, const struct lull_policy_listener *listener,
                     struct lull_policy *policy_out, struct lull_error *err)
{
    static const struct lull_policy_names names = {policy_file_find_user, find_group};
    char *text;
    size_t size = 0;
    int result = check_file(fd, path, err);

    if (result < 0)
        return result;
    text = malloc(LULL_POLICY_MAX_BYTES + 1);
    if (text == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory for it", path);
    result = policy_file_read_all(fd, path, text, &size, err);
    if (result == 0)
        result = lull_policy_read(path, text, size, &names, listener, policy_out, err);
    free(text);
    return result;
}

int lull_policy_load(const char *path, const struct lull_policy_listener *listener,
                     struct lull_policy *policy_out, struct lull_error *err)
{
    /* A pipe in its place must not be waited for. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int result;

    if (fd < 0)
        return lull_error_set(err, -errno, "%s: cannot read the policy: %s", path, strerror(errno));
    result = read_open(fd, path, listener, policy_out, err);
    close(fd);
    return result;
}

void lull_policy_without_file(gid_t group, bool is_for_all, struct lull_policy *policy_out)
{
    *policy_out = (struct lull_policy){
        .allows_containers = is_for_all,
        .rule_count = 1,
        .rules = {{.subject = LULL_POLICY_GROUP, .id = group, .is_for_all_gpus = true}},
    };
    if (is_for_all)
        policy_out->rules[0].subject = LULL_POLICY_EVERYBODY;
}
