/*
 * Distinguishes a process from a later one that has the same number, and one boot from the next.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_PROCESS_H
#define LULL_BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { LULL_BOOT_ID_BYTES = 40 };

/*
 * When a process began, in clock ticks since the boot; pid 0: this process. -1: there is no such
 * process, it is a zombie, or /proc does not say. It allocates nothing, because probes call it in
 * the processes of a job.
 */
int64_t lull_process_start_ticks(pid_t pid);

/* Finds who runs a process (its real user). Errors: -ESRCH there is no such process, or /proc does
 * not say. */
int lull_process_user(pid_t pid, uid_t *uid_out);

/* Names the PID namespace of this process, whose numbers mean nothing in another one, by its inode.
 * 0: /proc does not say. */
uint64_t lull_process_pid_space(void);

/* The PID namespace of the host, in which drivers number processes (PROC_PID_INIT_INO of Linux). */
#define LULL_PROCESS_HOST_SPACE UINT64_C(0xeffffffc)

/* Returns whether a process, by its number here, is the one with another number in a PID namespace
 * within this one. False also where /proc does not say. */
bool lull_process_is_within(pid_t pid, uint64_t space, pid_t number);

/* Returns whether this process may open at least so many more descriptors. libuv ends a process
 * that may open too few. Threads: no other may open or close descriptors meanwhile. */
bool lull_process_has_descriptors(uint32_t least);

/* Writes what names this boot, the rest of the buffer zero. Errors: -EIO /proc does not say. */
int lull_boot_id(char boot_id_out[LULL_BOOT_ID_BYTES]);

#endif
