/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Reads the beginning of a file as text. Returns its length; 0: it cannot be read. */
static size_t process_read_text(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length;

    if (fd < 0)
        return 0;
    length = read(fd, text, size - 1);
    close(fd);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    return (size_t)length;
}

enum { STAT_SIZE = 1024 };

/* Reads the fields of a process from the state on, field 3; pid 0: this process. The name of the
 * program before it, in parentheses, may hold anything: fields are counted from behind its last
 * one. NULL: there is no such process. */
static const char *process_read_stat(pid_t pid, char text[STAT_SIZE])
{
    char path[64] = "/proc/self/stat";
    const char *name_end;

    if (pid != 0)
        snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    if (process_read_text(path, text, STAT_SIZE) == 0)
        return NULL;
    name_end = strrchr(text, ')');
    return name_end != NULL && name_end[1] == ' ' ? name_end + 2 : NULL;
}

char lull_process_state(pid_t pid)
{
    char text[STAT_SIZE];
    const char *const state = process_read_stat(pid, text);

    return state != NULL ? *state : '\0';
}

/* Returns a number of a process's state, by the number of its field, from 4 on; -1: there is no
 * such process, or it has ended. pid 0: this process. */
static int64_t process_read_field(pid_t pid, int number)
{
    char text[STAT_SIZE];
    const char *field = process_read_stat(pid, text);

    if (field == NULL || *field == 'Z' || *field == 'X')
        return -1;
    for (int i = 3; field != NULL && i < number; i++)
        field = strchr(field + 1, ' ');
    return field != NULL ? strtoll(field + 1, NULL, 10) : -1;
}

int64_t lull_process_start_ticks(pid_t pid)
{
    return process_read_field(pid, 22);
}

bool lull_process_descends_from(pid_t pid, pid_t ancestor)
{
    /* Limit against numbers that are reused while they are read. */
    for (int depth = 0; depth < 256 && pid > 1; depth++) {
        if (pid == ancestor)
            return true;
        pid = (pid_t)process_read_field(pid, 4);
    }
    return false;
}

int lull_process_user(pid_t pid, uid_t *uid_out)
{
    static const char key[] = "\nUid:\t"; /* the kernel escapes line ends in the name above it */
    char path[64];
    char text[1024];
    const char *line;

    snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
    if (process_read_text(path, text, sizeof(text)) == 0)
        return -ESRCH;
    line = strstr(text, key);
    if (line == NULL)
        return -ESRCH;
    *uid_out = (uid_t)strtoul(line + sizeof(key) - 1, NULL, 10);
    return 0;
}

/* Returns whether a set of capabilities in the text of a status has CAP_SYS_ADMIN. */
static bool has_admin(const char *text, const char *set)
{
    const char *line = strstr(text, set);

    return line != NULL && (strtoull(line + strlen(set), NULL, 16) >> CAP_SYS_ADMIN & 1) != 0;
}

bool lull_process_has_admin(void)
{
    char text[4096];

    if (process_read_text("/proc/thread-self/status", text, sizeof(text)) == 0)
        return false;
    return has_admin(text, "\nCapEff:\t");
}

bool lull_process_may_have_admin(void)
{
    char text[4096];

    if (process_read_text("/proc/thread-self/status", text, sizeof(text)) == 0)
        return true;
    return has_admin(text, "\nCapBnd:\t");
}

static uint64_t inode_of(const char *path)
{
    struct stat status;

    return stat(path, &status) < 0 ? 0 : status.st_ino;
}

uint64_t lull_process_pid_space(void)
{
    return inode_of("/proc/self/ns/pid");
}

bool lull_process_is_within(pid_t pid, uint64_t space, pid_t number)
{
    static const char key[] = "\nNSpid:\t"; /* its numbers, from the outermost namespace inwards */
    char path[64];
    char text[4096];
    const char *line;
    size_t length;

    snprintf(path, sizeof(path), "/proc/%ld/ns/pid", (long)pid);
    if (space == 0 || inode_of(path) != space)
        return false;
    snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
    if (process_read_text(path, text, sizeof(text)) == 0)
        return false;
    line = strstr(text, key);
    if (line == NULL)
        return false;
    line += sizeof(key) - 1;
    length = strcspn(line, "\n");
    while (length > 0 && line[length - 1] != '\t')
        length--;
    return strtol(line + length, NULL, 10) == number;
}

bool lull_process_has_descriptors(uint32_t least)
{
    struct rlimit limit;
    uint32_t found = 0;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return true;
    for (rlim_t fd = 0; found < least && fd < limit.rlim_cur && fd <= INT_MAX; fd++)
        found += fcntl((int)fd, F_GETFD) < 0;
    return found >= least;
}

int lull_process_open_fd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int lull_process_open_thread_fd(pid_t thread)
{
    const unsigned int of_thread = O_EXCL; /* PIDFD_THREAD */

    return (int)syscall(SYS_pidfd_open, thread, of_thread);
}

void lull_process_kill_fd(int pid_fd)
{
    syscall(SYS_pidfd_send_signal, pid_fd, SIGKILL, NULL, 0);
}

void lull_process_close_range(unsigned int first, unsigned int last)
{
    const long end = sysconf(_SC_OPEN_MAX);

    /* Linux before 5.9 has no such call. */
    if (syscall(SYS_close_range, first, last, 0) == 0)
        return;
    for (long fd = (long)first; fd < end && fd <= (long)last; fd++)
        close((int)fd);
}

void lull_process_close_others(int fd)
{
    if (fd > 0)
        lull_process_close_range(0, (unsigned int)fd - 1);
    lull_process_close_range((unsigned int)fd + 1, UINT_MAX);
}

pid_t lull_process_thread(void)
{
    return (pid_t)syscall(SYS_gettid);
}

int lull_boot_id(char boot_id_out[LULL_BOOT_ID_BYTES])
{
    memset(boot_id_out, 0, LULL_BOOT_ID_BYTES);
    if (process_read_text("/proc/sys/kernel/random/boot_id", boot_id_out, LULL_BOOT_ID_BYTES) == 0)
        return -EIO;
    boot_id_out[strcspn(boot_id_out, "\n")] = '\0';
    return 0;
}
