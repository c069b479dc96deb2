/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int lull_path_next(const char **rest, const char *origin, char *out, size_t size)
{
    const char *word = *rest;
    size_t length;

    if (word == NULL || *word == '\0')
        return 0;
    length = strcspn(word, ":");
    *rest = word[length] == ':' ? word + length + 1 : word + length;
    if (strncmp(word, "$ORIGIN", 7) == 0 && length >= 7)
        return snprintf(out, size, "%s%.*s", origin, (int)length - 7, word + 7) < (int)size ? 1
                                                                                            : -1;
    return snprintf(out, size, "%.*s", (int)length, word) < (int)size ? 1 : -1;
}

int lull_program_find(const char *word, char *path_out, size_t size)
{
    const char *rest = getenv("PATH");
    char directory[PATH_MAX];
    int found;

    if (strchr(word, '/') != NULL)
        return snprintf(path_out, size, "%s", word) < (int)size && access(word, X_OK) == 0
                   ? 0
                   : -ENOENT;
    while ((found = lull_path_next(&rest, "", directory, sizeof(directory))) != 0)
        if (found > 0 && snprintf(path_out, size, "%s/%s", directory, word) < (int)size &&
            access(path_out, X_OK) == 0)
            return 0;
    return -ENOENT;
}

const char *lull_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}
