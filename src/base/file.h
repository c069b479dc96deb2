/*
 * Reads and writes files, whole or not at all.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_FILE_H
#define LULL_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#include "base/error.h"

/*
 * Writes size bytes to path so that a reader, a crash or a full disk never shows half of them: new
 * file of a random name beside it (O_EXCL|O_NOFOLLOW, given mode), fsync, rename, fsync of the
 * directory. A terminal, a pipe, /dev/stdout and similar ones are written to directly, a named pipe
 * only while a process reads it (-ENXIO no process reads it; -ETIMEDOUT its reader pauses for 2 s).
 * Errors: -errno with the path and the reason. The old file, if any, is then unchanged.
 */
int lull_file_write_atomic(const char *path, const void *data, size_t size, mode_t mode,
                           struct lull_error *err);

enum { LULL_FILE_DRAWN = 17 };

/* Writes 16 random hexadecimal digits: a part of a name that no other process can have taken in a
 * directory that all users share. */
void lull_file_draw_name(char name_out[LULL_FILE_DRAWN]);

/*
 * Calls `write` with the context and a file in memory, and writes the result in the same way with
 * mode 0644. Errors: a negative result of `write`, reported as a lack of memory; those of
 * lull_file_write_atomic.
 */
int lull_file_write_with(const char *path, int (*write)(const void *context, FILE *file),
                         const void *context, struct lull_error *err);

/*
 * Reads at most limit bytes of a regular file into a new buffer and appends a NUL. It never waits
 * for other kinds of files, such as a pipe of another user. The caller frees *data_out. Errors:
 * -errno; -EFBIG longer than limit; -EISDIR, -EINVAL not a regular file.
 */
int lull_file_read(const char *path, size_t limit, char **data_out, size_t *size_out,
                   struct lull_error *err);

/* Reads the secret that is the first line of a regular file of less than `size` bytes into
 * text_out, which has `size`. Errors: as lull_file_read(); -EPERM users other than its owner may
 * read or write the file, so it is not secret. */
int lull_file_read_secret(const char *path, char *text_out, size_t size, struct lull_error *err);

/* Distinguishes one version of a file from the next. Zero-initialised: none has been seen. */
struct lull_file_stamp {
    ino_t file;
    struct timespec time;
    off_t size;
};

/* Returns whether a file has changed since the last call with this stamp. Also false if there is no
 * file. */
bool lull_file_has_changed(const char *path, struct lull_file_stamp *stamp);

/* Creates a directory and its parents. An existing one is not an error. */
int lull_file_make_directory(const char *path, mode_t mode, struct lull_error *err);

/*
 * Path of a file that belongs to Lull (a probe library, the emulated driver): beside the running
 * executable in a build tree (<dir>/../<build_path>, <dir>/../src/<build_path>), else in the
 * installed library directory, which may also contain the executable. Errors: -ENOENT in neither
 * place.
 */
int lull_file_find_own(const char *build_path, const char *installed_name, char *path_out,
                       size_t size, struct lull_error *err);

/* The variable that names the file of an emulated node. `lull emulate` sets it for its command. */
#define LULL_EMULATED_NODE_VARIABLE "LULL_EMULATED_NODE"

/* The name of a symbol that only the emulator's vendor libraries have. */
#define LULL_EMULATED_LIBRARY_MARK "lull_emulated_library"

/* Returns whether this process sees the GPUs of an emulated node. Other vendor libraries than the
 * emulator's are then refused (device/library.h). */
bool lull_file_is_node_emulated(void);

#endif
