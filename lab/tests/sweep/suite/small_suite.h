/*
 * The built-in description with its small sizes, in a folder of its own. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_LAB_TESTS_SWEEP_SUITE_SMALL_SUITE_H
#define LULL_LAB_TESTS_SWEEP_SUITE_SMALL_SUITE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/sweep/suite/files.h"

/* "size = N 8192 small 256" becomes "size = N 256 small 256". */
static inline void write_small_line(FILE *file, const char *line, size_t length)
{
    char name[64];
    unsigned small;

    if (sscanf(line, "size = %63s %*u small %u", name, &small) == 2)
        fprintf(file, "size = %s %u small %u\n", name, small, small);
    else
        fprintf(file, "%.*s\n", (int)length, line);
}

/* Writes folder/suite.conf, whose path it returns in path_out. */
static inline void write_small_suite(const char *folder, char *path_out, size_t size)
{
    struct lull_suite_files *files;
    const char *line;
    FILE *file;

    snprintf(path_out, size, "%s/suite.conf", folder);
    file = fopen(path_out, "we");
    if (file == NULL || lull_suite_files_open(NULL, &files, NULL) < 0)
        abort();
    line = lull_suite_files_description(files).text;
    while (*line != '\0') {
        const size_t length = strcspn(line, "\n");

        write_small_line(file, line, length);
        line += length + (line[length] == '\n');
    }
    lull_suite_files_close(files);
    fclose(file);
}

#endif
