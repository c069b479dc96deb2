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
 * Returns the start time of a process in clock ticks since the boot; pid 0: this process. -1: there
 * is no such process, it is a zombie, or /proc does not report it. It allocates nothing, because
 * probes call it in the processes of a job.
 */
int64_t lull_process_start_ticks(pid_t pid);

/* Returns whether a process is another one, or a descendant of it. False also if /proc does not
 * report it. */
bool lull_process_descends_from(pid_t pid, pid_t ancestor);

/* Returns the state of a process as /proc names it: 'R' runs, 'S' and 'D' sleep, 'T' stopped, 'Z'
 * has ended; '\0': there is no such process, or /proc does not report it. */
char lull_process_state(pid_t pid);

/* Finds the real user of a process. Errors: -ESRCH there is no such process, or /proc does not
 * report it. */
int lull_process_user(pid_t pid, uid_t *uid_out);

/* Returns whether the calling thread has the capability CAP_SYS_ADMIN in effect. It reads /proc, so
 * that it needs no further system call in a sandbox; false also if /proc does not report it. */
bool lull_process_has_admin(void);

/* Returns whether the calling thread may ever have CAP_SYS_ADMIN: false for root of a container
 * that lacks it. True also if /proc does not report it. */
bool lull_process_may_have_admin(void);

/* Returns the inode of this process's PID namespace. Process ids have no meaning in another
 * namespace. 0: /proc does not report it. */
uint64_t lull_process_pid_space(void);

/* The PID namespace of the host, in which drivers number processes (PROC_PID_INIT_INO of Linux). */
#define LULL_PROCESS_HOST_SPACE UINT64_C(0xeffffffc)

/* Returns whether the process with this id here has the other id in a PID namespace nested in this
 * one. False also if /proc does not report it. */
bool lull_process_is_within(pid_t pid, uint64_t space, pid_t number);

/* Returns whether this process can open at least this many more descriptors. libuv aborts a process
 * that cannot open enough. Threads: no other thread may open or close descriptors meanwhile. */
bool lull_process_has_descriptors(uint32_t least);

/*
 * System calls for which older C libraries (before glibc 2.36) have no function.
 * lull_process_open_fd: a descriptor of a process, closed on exec; -1 with errno.
 * lull_process_open_thread_fd: the same of a thread, of any process; EINVAL before Linux 6.9.
 * lull_process_kill_fd: sends SIGKILL to the process of such a descriptor.
 * lull_process_close_range: closes all descriptors from first to last.
 * lull_process_close_others: closes all descriptors but one.
 * lull_process_thread: the number of the calling thread.
 */
int lull_process_open_fd(pid_t pid);
int lull_process_open_thread_fd(pid_t thread);
void lull_process_kill_fd(int pid_fd);
void lull_process_close_range(unsigned int first, unsigned int last);
void lull_process_close_others(int fd);
pid_t lull_process_thread(void);

/* Writes the identifier of this boot, and zeros into the rest of the buffer. Errors: -EIO /proc
 * does not report it. */
int lull_boot_id(char boot_id_out[LULL_BOOT_ID_BYTES]);

#endif
