/*
 * Files of users on file systems that may hang (NFS, FUSE). A call that waits for such a file
 * system may last for ever, and a process with a thread in such a call does not even end when it is
 * killed. So every call here is made by a process of its own, which is left behind if it is late.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_PATH_H
#define LULL_BASE_PATH_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

/* Defaults, not measured: a file system under load answers a look within a second, and a job may be
 * delayed by LULL_PATH_LOOK_MS for each path before it starts. The disk of a busy server writes a
 * report, or reads one, within LULL_PATH_FILE_MS. */
enum { LULL_PATH_LOOK_MS = 2000, LULL_PATH_FILE_MS = 20000 };

/*
 * Calls work(context, err) in a forked process with all other descriptors closed, and copies the
 * `size` bytes of the context back; pointers in it lead to the caller's memory, which the process
 * only reads. It may take no lock that another thread of the caller can hold. path: the one that
 * errors name, relative to the working directory. Errors: those of work; -ETIMEDOUT it took longer
 * than wait_ms, or an earlier process that works on this path still hangs; -EIO the process was
 * killed; -errno none was started. If work did not end, the context is unchanged.
 */
int lull_path_do(const char *path, int wait_ms, int (*work)(void *context, struct lull_error *err),
                 void *context, size_t size, struct lull_error *err);

/*
 * Returns whether the file system of a path answers: the path is opened for reading, and so is the
 * directory above it, where a file would be created. Any answer will do: 0 as well where the path
 * does not exist or may not be read. Errors: -ETIMEDOUT there was none within LULL_PATH_LOOK_MS;
 * -errno no process could be started.
 */
int lull_path_check(const char *path, struct lull_error *err);

/* lull_file_read() within wait_ms. Errors: those of both. */
int lull_path_read(const char *path, size_t limit, int wait_ms, char **data_out, size_t *size_out,
                   struct lull_error *err);

/* lull_file_write_atomic() within wait_ms, except for files in /dev. Errors: those of both. */
int lull_path_write(const char *path, const char *data, size_t size, mode_t mode, int wait_ms,
                    struct lull_error *err);

#endif
