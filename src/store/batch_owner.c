/* SPDX-License-Identifier: Apache-2.0 */
#include "store/batch_owner.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SILENCE_S = 60 };

/* Field 22 of /proc/PID/stat; the name in field 2 may hold anything. -1: no such process, or it
 * is over and only not yet waited for. */
static int64_t start_of(int64_t pid)
{
    char path[64];
    char text[1024];
    int64_t start = -1;
    const char *after;
    size_t size;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%" PRId64 "/stat", pid);
    file = fopen(path, "re");
    if (file == NULL)
        return -1;
    size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[size] = '\0';
    after = strrchr(text, ')');
    if (after == NULL || after[1] == '\0' || after[2] == 'Z' || after[2] == 'X' ||
        sscanf(after + 2,
               "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d"
               " %" SCNd64,
               &start) != 1)
        return -1;
    return start;
}

int lull_batch_owner_self(struct lull_batch_owner *owner_out, struct lull_error *err)
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    char boot[64] = "";
    FILE *file = fopen(path, "re");
    struct stat pids;
    int64_t start = start_of(getpid());

    if (file != NULL) {
        if (fgets(boot, sizeof(boot), file) != NULL)
            boot[strcspn(boot, "\n")] = '\0';
        fclose(file);
    }
    if (boot[0] == '\0' || start < 0 || stat("/proc/self/ns/pid", &pids) < 0)
        return lull_error_set(err, -ENOENT, "%s or /proc/self: cannot be read", path);
    snprintf(owner_out->place, sizeof(owner_out->place), "%s %" PRIu64, boot,
             (uint64_t)pids.st_ino);
    owner_out->pid = getpid();
    owner_out->start = start;
    return 0;
}

bool lull_batch_owner_is_alive(const struct lull_batch_owner *owner,
                               const struct lull_batch_owner *self, int64_t silence_s)
{
    if (strcmp(owner->place, self->place) == 0)
        return start_of(owner->pid) == owner->start;
    return silence_s < SILENCE_S;
}
