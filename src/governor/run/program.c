/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* ---- Python ------------------------------------------------------------------------------ */

enum { FIRST_LINE = 256 }; /* Linux reads this many bytes of a script's first line */

/* python, python3, python3.11, pypy3 and the like. */
static bool is_interpreter(const char *path)
{
    static const char *const prefixes[] = {"python", "pypy"};
    char resolved[PATH_MAX];
    const char *name = lull_path_base(realpath(path, resolved) != NULL ? resolved : path);

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        const size_t length = strlen(prefixes[i]);

        if (strncmp(name, prefixes[i], length) == 0 &&
            strspn(name + length, "0123456789.") == strlen(name + length))
            return true;
    }
    return false;
}

/* Reads the beginning of a regular file; anything else, a pipe or a device, is left alone. */
static ssize_t read_beginning(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    ssize_t got = -1;

    if (fd < 0)
        return -1;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        got = read(fd, text, size);
    close(fd);
    return got;
}

/* "#!/usr/bin/python3", also "#!/usr/bin/env -S python3 -u": any of its words may be it. */
static bool is_script(const char *path)
{
    char line[FIRST_LINE + 1];
    const ssize_t got = read_beginning(path, line, FIRST_LINE);
    char *rest = NULL;

    if (got < 2 || line[0] != '#' || line[1] != '!')
        return false;
    line[got] = '\0';
    line[strcspn(line, "\n")] = '\0';
    for (char *word = strtok_r(line + 2, " \t\r", &rest); word != NULL;
         word = strtok_r(NULL, " \t\r", &rest)) {
        char program[PATH_MAX];

        if (lull_program_find(word, program, sizeof(program)) == 0 && is_interpreter(program))
            return true;
    }
    return false;
}

bool lull_command_runs_python(char *const argv[])
{
    char path[PATH_MAX];

    for (size_t i = 0; argv[i] != NULL; i++)
        if (argv[i][0] != '\0' && lull_program_find(argv[i], path, sizeof(path)) == 0 &&
            (is_interpreter(path) || is_script(path)))
            return true;
    return false;
}
