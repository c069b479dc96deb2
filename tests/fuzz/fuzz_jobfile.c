/*
 * Names in /dev/shm, where any user can create files: a removed file had the name of a segment and
 * a dead owner, and no other file is removed. Each line of the input is a name.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/job_file.c"

#include <ctype.h>

#include "folder.h"

enum { NAMES = 4, NAME_BYTES = 200 };

struct names {
    uint32_t count;
    char names[NAMES][NAME_BYTES];
};

static bool is_known(const struct names *names, const char *name)
{
    for (uint32_t i = 0; i < names->count; i++)
        if (strcmp(names->names[i], name) == 0)
            return true;
    return false;
}

static void add(struct names *names, const char *name)
{
    char path[NAME_BYTES + 64];
    int fd;

    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        is_known(names, name))
        return;
    snprintf(path, sizeof(path), "%s/%s", folder(), name);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    require(fd >= 0);
    close(fd);
    snprintf(names->names[names->count++], NAME_BYTES, "%s", name);
}

static void split(struct names *names, const uint8_t *data, size_t size)
{
    char name[NAME_BYTES] = "";
    size_t length = 0;

    for (size_t i = 0; i <= size && names->count < NAMES; i++) {
        if (i < size && data[i] != '\n') {
            if (data[i] != '/' && data[i] != '\0' && length + 1 < sizeof(name))
                name[length++] = (char)data[i];
            continue;
        }
        name[length] = '\0';
        add(names, name);
        length = 0;
    }
}

/* Written again and plainly: a number without sign or leading zero that no process has, and no
 * character that a terminal would take for more than itself. */
static bool may_go(const char *name)
{
    const int length = strncmp(name, "lull-live-", 10) == 0 ? 10 : 9;
    long pid = 0;

    for (const char *at = name; *at != '\0'; at++)
        if (!isascii(*at) || (!isalnum(*at) && strchr("-_.", *at) == NULL))
            return false;
    if ((length == 9 && strncmp(name, "lull-job-", 9) != 0) || name[length] == '0')
        return false;
    for (name += length; *name >= '0' && *name <= '9'; name++) {
        pid = 10 * pid + (*name - '0');
        if (pid > INT_MAX)
            return false;
    }
    return pid > 0 && *name == '-' && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct names names = {0};
    char path[NAME_BYTES + 64];
    uint32_t gone = 0;
    uint32_t cleared;

    split(&names, data, size);
    cleared = lull_job_file_clear(folder());
    for (uint32_t i = 0; i < names.count; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder(), names.names[i]);
        if (unlink(path) == 0) {
            require(!may_go(names.names[i]));
        } else {
            require(may_go(names.names[i]));
            gone++;
        }
    }
    require(cleared == gone);
    return 0;
}
