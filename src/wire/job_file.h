/*
 * The location of jobs' segments (wire/event.h) and of the live states of runs (wire/live.h), and
 * the removal of files that killed runs have left.
 *
 * A file's name, `lull-job-PID-PASS-RANDOM`, contains the id of the process that created it, and
 * that process keeps it locked. So the file of a dead owner can be distinguished from that of a
 * living one even if process ids are reused, or occur twice (containers that share /dev/shm).
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

/* Writes the path of a file for a pass that this process runs, cut if it does not fit. The path
 * ends in random digits: all users share the directory, so another user could create a predictable
 * name first. */
void lull_job_file_path(const char *directory, enum lull_job_file kind, const char *pass,
                        char *path_out, size_t size);

/* Returns whether a file name has this form. */
bool lull_job_file_is(const char *name, enum lull_job_file kind);

/*
 * Removes the files of both kinds in the directory that belong to the effective user, whose owner
 * is dead, and that no process has locked. Returns the number of removed files. Files that cannot
 * be read or removed stay.
 */
uint32_t lull_job_file_clear(const char *directory);

#endif
