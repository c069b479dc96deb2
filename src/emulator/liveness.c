/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/liveness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_stat(pid_t pid, char *text, size_t size)
{
    char path[48];
    ssize_t length;
    int fd;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    length = read(fd, text, size - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

uint64_t lull_process_start_mark(pid_t pid)
{
    enum { fields_to_start = 20 }; /* from the state, field 3, to the start time, field 22 */
    char text[1024];
    char *at;

    if (!read_stat(pid, text, sizeof(text)))
        return 0;
    at = strrchr(text, ')'); /* the name before it may contain anything */
    if (at == NULL || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
        return 0;
    for (int i = 0; i < fields_to_start && at != NULL; i++)
        at = strchr(at + 1, ' ');
    return at != NULL ? strtoull(at + 1, NULL, 10) : 0;
}

bool lull_process_is_alive(pid_t pid, uint64_t start_mark)
{
    if (start_mark == 0)
        return true;
    return lull_process_start_mark(pid) == start_mark;
}
