/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
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

/* ---- scripts ----------------------------------------------------------------------------- */

/* Linux reads so many bytes of a script's first line; of the rest, so many are looked at, in
 * scripts that lie so deep within each other, and in so many of them. These three are chosen, not
 * measured.
 */
enum { FIRST_LINE = 256, MOST_TEXT = 65536, MOST_DEPTH = 2, MOST_SCRIPTS = 64 };

/* These separate words in a shell's text; quotes and assignments do so, too. */
static const char separators[] = " \t\r\n;&|()<>{}\"'`$=,";

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

static bool is_shell(const char *path)
{
    static const char *const names[] = {"sh", "bash", "dash", "ash", "ksh", "zsh"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(lull_path_base(path), names[i]) == 0)
            return true;
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
static bool is_script_of(const char *path, bool (*is_it)(const char *program))
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

        if (lull_program_find(word, program, sizeof(program)) == 0 && is_it(program))
            return true;
    }
    return false;
}

/* ---- what a command names ---------------------------------------------------------------- */

struct visitor {
    bool (*visit)(const char *path, void *context);
    void *context;
    uint32_t scripts; /* that have been looked into */
};

static bool visit_file(struct visitor *visitor, const char *path, int depth);

/* Visits the programs that a shell's text names; the text is cut into its words. What is no program
 * here may be one for the script, which may change PATH before. */
static bool visit_text(struct visitor *visitor, char *text, int depth)
{
    char path[PATH_MAX];
    char *rest = NULL;

    for (char *word = strtok_r(text, separators, &rest); word != NULL;
         word = strtok_r(NULL, separators, &rest)) {
        const bool is_program = lull_program_find(word, path, sizeof(path)) == 0;

        if (visitor->visit(is_program ? path : word, visitor->context) ||
            (is_program && is_script_of(path, is_shell) && visit_file(visitor, path, depth + 1)))
            return true;
    }
    return false;
}

/* Visits the programs that a shell script names. */
static bool visit_file(struct visitor *visitor, const char *path, int depth)
{
    const bool is_near = depth <= MOST_DEPTH && visitor->scripts++ < MOST_SCRIPTS;
    char *const text = is_near ? malloc(MOST_TEXT + 1) : NULL;
    const ssize_t got = text == NULL ? -1 : read_beginning(path, text, MOST_TEXT);
    bool is_over = false;

    if (got > 0 && memchr(text, '\0', (size_t)got) == NULL) {
        text[got] = '\0';
        is_over = visit_text(visitor, text, depth);
    }
    free(text);
    return is_over;
}

/* Visits what a shell is given: a file, or a text behind -c. */
static bool visit_operand(struct visitor *visitor, const char *word)
{
    char *text;
    bool is_over;

    if (access(word, R_OK) == 0)
        return visit_file(visitor, word, 1);
    text = strdup(word);
    is_over = text != NULL && visit_text(visitor, text, 1);
    free(text);
    return is_over;
}

bool lull_command_visit(char *const argv[], bool (*visit)(const char *path, void *context),
                        void *context)
{
    struct visitor visitor = {.visit = visit, .context = context};
    bool is_of_shell = false;
    char path[PATH_MAX];

    for (size_t i = 0; argv[i] != NULL; i++) {
        const bool is_program =
            argv[i][0] != '\0' && lull_program_find(argv[i], path, sizeof(path)) == 0;

        if (!is_program) {
            if (is_of_shell && visit_operand(&visitor, argv[i]))
                return true;
            continue;
        }
        if (visit(path, context))
            return true;
        if (is_shell(path))
            is_of_shell = true;
        else if (is_script_of(path, is_shell) && visit_file(&visitor, path, 1))
            return true;
    }
    return false;
}

static bool is_of_shell(const char *path, void *unused)
{
    (void)unused;
    return is_shell(path) || is_script_of(path, is_shell);
}

bool lull_command_is_script(char *const argv[])
{
    return lull_command_visit(argv, is_of_shell, NULL);
}

/* In a script, a word that ends so is a program of Python's, whatever starts it. */
static bool is_of_python(const char *path, void *unused)
{
    static const char end[] = ".py";
    const size_t length = strlen(path);

    (void)unused;
    return is_interpreter(path) || is_script_of(path, is_interpreter) ||
           (length >= sizeof(end) && strcmp(path + length - strlen(end), end) == 0);
}

bool lull_command_runs_python(char *const argv[])
{
    return lull_command_visit(argv, is_of_python, NULL);
}
