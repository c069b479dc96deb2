/*
 * A folder for one process, in memory if /dev/shm exists. It is
 * removed when the process exits normally. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_FUZZ_FOLDER_H
#define LULL_TESTS_FUZZ_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

#include "fuzz.h"

static char folder_path[64];

static inline int folder_remove_one(const char *path, const struct stat *status, int type,
                                    struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static inline void folder_remove(void)
{
    nftw(folder_path, folder_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The folder, created by the first call. One thread. */
static inline const char *folder(void)
{
    if (folder_path[0] != '\0')
        return folder_path;
    snprintf(folder_path, sizeof(folder_path), "%s/lull-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    require(mkdtemp(folder_path) != NULL && atexit(folder_remove) == 0);
    return folder_path;
}

#endif
