/*
 * A text as a file in memory, for readers that open a path. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_TEXT_FILE_H
#define LULL_TESTS_TEXT_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The path of a file with these bytes. It exists until the fourth call after this one. One thread.
 */
static inline const char *text_file(const void *bytes, size_t size)
{
    enum { FILES = 4 };
    static struct {
        int fd; /* 0: there is none */
        char path[32];
    } files[FILES];
    static unsigned next;
    const unsigned at = next++ % FILES;
    size_t written = 0;

    if (files[at].fd > 0)
        close(files[at].fd);
    files[at].fd = memfd_create("text", MFD_CLOEXEC);
    if (files[at].fd <= 0)
        abort();
    while (written < size) {
        const ssize_t count = write(files[at].fd, (const char *)bytes + written, size - written);

        if (count <= 0)
            abort();
        written += (size_t)count;
    }
    snprintf(files[at].path, sizeof(files[at].path), "/proc/self/fd/%d", files[at].fd);
    return files[at].path;
}

#endif
