/*
 * Where the segments of jobs (wire/event.h) and the live states of runs (wire/live.h) lie, and
 * clearing away what killed runs have left.
 *
 * A file's name, `lull-job-PID-PASS-RANDOM`, contains the process that made it, and that process
 * keeps it locked. So a dead owner's file can be distinguished from a living one's even where
 * process ids are reused, or counted again (containers that share /dev/shm).
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_WIRE_JOB_FILE_H
#define LULL_WIRE_JOB_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LULL_JOB_DIRECTORY "/dev/shm"

enum lull_job_file { LULL_JOB_FILE_EVENTS, LULL_JOB_FILE_LIVE, LULL_JOB_FILE_KINDS };

/* Writes a path for a file of a pass that this process runs; it is cut if it does not fit. It ends
 * in random digits, because all users share the directory: a name that could be foreseen could be
 * taken. */
void lull_job_file_path(const char *directory, enum lull_job_file kind, const char *pass,
                        char *path_out, size_t size);

/* Returns whether a file of a directory has the name of such a file. */
bool lull_job_file_is(const char *name, enum lull_job_file kind);

/*
 * Removes the files of both kinds in the directory that belong to the effective user, whose owner
 * is dead, and that no process has locked. Returns how many; files that cannot be read or removed
 * stay.
 */
uint32_t lull_job_file_clear(const char *directory);

#endif
