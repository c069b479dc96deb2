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
 * directory. A terminal, a pipe, /dev/stdout and similar ones are written to as they are; a named
 * pipe only while a process reads it: -ENXIO none does, -ETIMEDOUT its reader pauses for 2 s.
 * Errors: -errno with the path and the reason; the old file, if any, is then untouched.
 */
int lull_file_write_atomic(const char *path, const void *data, size_t size, mode_t mode,
                           struct lull_error *err);

enum { LULL_FILE_DRAWN = 17 };

/* Writes 16 random hexadecimal digits: a part of a name that no other process can have taken in a
 * directory that all users share. */
void lull_file_draw_name(char name_out[LULL_FILE_DRAWN]);

/*
 * Writes what `write` writes of the context to a file in memory, in the same way with mode 0644.
 * Errors: a negative result of write, reported as a lack of memory; those of
 * lull_file_write_atomic.
 */
int lull_file_write_with(const char *path, int (*write)(const void *context, FILE *file),
                         const void *context, struct lull_error *err);

/*
 * Reads at most limit bytes of a regular file into a new buffer with a NUL behind them.
 * What is none, such as a pipe that others have put there, is not waited for. The caller frees
 * *data_out. Errors: -errno; -EFBIG longer than limit; -EISDIR, -EINVAL it is no regular file.
 */
int lull_file_read(const char *path, size_t limit, char **data_out, size_t *size_out,
                   struct lull_error *err);

/* Reads the secret that is the first line of a regular file of less than `size` bytes into
 * text_out, which has `size`. Errors: as lull_file_read(); -EPERM others than its owner may read or
 * write the file, so that it is no secret. */
int lull_file_read_secret(const char *path, char *text_out, size_t size, struct lull_error *err);

/* Distinguishes one version of a file from the next. Zero-initialised: none has been seen. */
struct lull_file_stamp {
    ino_t file;
    struct timespec time;
    off_t size;
};

/* Returns whether a file is another one than at the last call with this stamp; false as well where
 * there is none. */
bool lull_file_has_changed(const char *path, struct lull_file_stamp *stamp);

/* Creates a directory and its parents. One that exists is no error. */
int lull_file_make_directory(const char *path, mode_t mode, struct lull_error *err);

/*
 * Path of a file that belongs to Lull (a probe library, the emulated driver): beside the running
 * executable in a build tree (<dir>/../<build_path>, <dir>/../src/<build_path>), else in the
 * installed library directory, where the executable may lie itself.
 * Errors: -ENOENT in neither place.
 */
int lull_file_find_own(const char *build_path, const char *installed_name, char *path_out,
                       size_t size, struct lull_error *err);

/* Names the file of an emulated node; `lull emulate` sets it for its command. */
#define LULL_EMULATED_NODE_VARIABLE "LULL_EMULATED_NODE"

/* The name of a symbol that each vendor library of the emulator has, and no other. */
#define LULL_EMULATED_LIBRARY_MARK "lull_emulated_library"

/* Returns whether this process sees the GPUs of an emulated node. A vendor library that is not the
 * emulator's is refused there (device/library.h). */
bool lull_file_is_node_emulated(void);

/*
 * Writes where Lull keeps what it has learnt: calibrations, power limits, batch jobs, the
 * scheduler's journal. This is the directory chosen, null for the default: $LULL_STATE_DIR; else,
 * for root, /var/lib/lull; else $XDG_STATE_HOME/lull or ~/.local/state/lull. On an emulated node it
 * is the subdirectory `emulated` of it, so that nothing learnt there is used on hardware. The
 * directory need not exist. Errors: -ENAMETOOLONG; -ENOENT no such variable. Thread-safe as long as
 * no thread changes the environment.
 */
int lull_file_state_directory(const char *chosen, char *path_out, size_t size,
                              struct lull_error *err);

/*
 * Writes where root keeps it for all users: $LULL_STATE_DIR, else /var/lib/lull; on an emulated
 * node the subdirectory `emulated` of it. Errors: -ENAMETOOLONG.
 */
int lull_file_node_state_directory(char *path_out, size_t size, struct lull_error *err);

#endif
