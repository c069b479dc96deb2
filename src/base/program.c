/* SPDX-License-Identifier: Apache-2.0 */
#include "base/program.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/nearest_word.h"
#include "base/output.h"
#include "base/printable.h"

/* ---- one command --------------------------------------------------------------------------- */

static void print_help(const struct lull_program_command *command, const char *name)
{
    printf("Usage: %s [OPTION...]", name);
    if (command->arguments != NULL)
        printf(" %s", command->arguments);
    printf("\n\n");
    lull_option_print_wrapped(command->about, 0, 0, stdout);
    putchar('\n');
    lull_options_help(command->tables, stdout);
    if (command->after != NULL)
        printf("\n%s\n", command->after);
    if (command->print_after != NULL)
        command->print_after(stdout);
}

int lull_program_fail(const char *name, const struct lull_error *err)
{
    char shown[2 * sizeof(err->text)];

    lull_printable_write(err->text, shown, sizeof(shown));
    fprintf(stderr, "%s: %s\n", name, shown);
    return (int)lull_error_exit_status(err->code);
}

/* A full disk fails a command as much as anything else does. Returns the exit status. */
static int program_finish(const char *name, int status)
{
    const int result = lull_output_finish();

    if (result == 0)
        return status;
    fprintf(stderr, "%s: standard output cannot be written: %s\n", name, strerror(-result));
    return status == LULL_EXIT_OK ? LULL_EXIT_FAILED : status;
}

/* Help and version are answered before any check, so that a wrong command line can still request
 * help. */
static int read_and_run(const struct lull_program *program,
                        const struct lull_program_command *command, const char *name, void *options,
                        int argc, char **argv)
{
    const struct lull_option_reader reader = {name, command->tables, &command->operands, options};
    struct lull_operands operands;
    struct lull_error err = {0};
    int result;
    int status;

    if (command->prepare != NULL)
        command->prepare(options);
    result = lull_options_read(&reader, argc, argv, &operands);
    if (result < 0)
        return (int)lull_error_exit_status(result);
    if (result == LULL_OPTION_WANTS_HELP) {
        print_help(command, name);
        return program_finish(name, LULL_EXIT_OK);
    }
    if (result == LULL_OPTION_WANTS_VERSION) {
        printf("%s %s\n", program->name, program->version);
        return program_finish(name, LULL_EXIT_OK);
    }
    if (command->check != NULL && command->check(options, &operands, &err) < 0) {
        fprintf(stderr, "%s: %s\nTry `%s --help`.\n", name, err.text, name);
        return LULL_EXIT_USAGE;
    }
    status = command->run(options, &operands);
    return command->returns_jobs_status ? status : program_finish(name, status);
}

/* Executes the program that has the command. argv[0] is the command's last word. */
static int run_part(const struct lull_program_command *command, const char *name, int argc,
                    char **argv)
{
    const struct lull_program_part *const part = command->part;
    const size_t known = strlen(part->executable); /* as long as the words that it represents */
    char **const words = calloc((size_t)argc + 2, sizeof(*words));
    char build_path[64];
    char path[PATH_MAX];
    char *last = NULL; /* "lull model fit" is lull-model with the word "fit" */
    int count = 1;

    if (words != NULL && name[known] == ' ')
        last = strdup(name + known + 1);
    if (words == NULL || (last == NULL && name[known] == ' ')) {
        fprintf(stderr, "%s: no memory for its arguments\n", name);
        goto out;
    }
    words[0] = path;
    if (last != NULL)
        words[count++] = last;
    memcpy(words + count, argv + 1, (size_t)(argc - 1) * sizeof(*words));
    snprintf(build_path, sizeof(build_path), "%s/%s", part->build_folder, part->executable);
    if (lull_file_find_own(build_path, part->executable, path, sizeof(path), NULL) < 0) {
        fprintf(stderr, "%s: this command is not installed. Install the package %s.\n", name,
                part->package);
        goto out;
    }
    execv(path, words);
    fprintf(stderr, "%s: cannot execute %s: %s\n", name, path, strerror(errno));
out:
    free(last);
    free(words);
    return LULL_EXIT_FAILED;
}

static int program_run_command(const struct lull_program *program,
                               const struct lull_program_command *command, const char *name,
                               int argc, char **argv)
{
    void *options;
    int status;

    if (command->part != NULL)
        return run_part(command, name, argc, argv);
    options = calloc(1, command->size > 0 ? command->size : 1);
    if (options == NULL) {
        fprintf(stderr, "%s: not enough memory for its options\n", name);
        return LULL_EXIT_FAILED;
    }
    status = read_and_run(program, command, name, options, argc, argv);
    free(options);
    return status;
}

/* ---- the program --------------------------------------------------------------------------- */

/* The words behind group in a command's name; null: it does not belong to it. "": all do. */
static const char *program_name_in(const struct lull_program_command *command, const char *group)
{
    const size_t length = strlen(group);

    if (length == 0)
        return command->name;
    if (strncmp(command->name, group, length) != 0 || command->name[length] != ' ')
        return NULL;
    return command->name + length + 1;
}

static bool is_group(const struct lull_program *program, const char *word)
{
    for (const struct lull_program_command *const *at = program->commands; *at != NULL; at++)
        if (program_name_in(*at, word) != NULL)
            return true;
    return false;
}

/* Lists the commands of a group, which is the first word of commands that have two; "" lists all.
 * */
static void print_commands(const struct lull_program *program, const char *group, FILE *out)
{
    const char *const space = group[0] != '\0' ? " " : "";

    fprintf(out, "Usage: %s%s%s COMMAND [OPTION...]\n%s\n\n", program->name, space, group,
            program->about);
    for (const struct lull_program_command *const *at = program->commands; *at != NULL; at++)
        if (program_name_in(*at, group) != NULL)
            fprintf(out, "  %-16s  %s\n", program_name_in(*at, group), (*at)->summary);
    fprintf(out, "\n`%s help%s%s COMMAND` shows the options of each.\n", program->name, space,
            group);
}

/* Finds the command that one word or two name; *words_out is how many. Returns null if there is
 * none. */
static const struct lull_program_command *program_find_command(const struct lull_program *program,
                                                               char **argv, int *words_out)
{
    char both[64] = "";

    if (argv[1] != NULL)
        snprintf(both, sizeof(both), "%s %s", argv[0], argv[1]);
    *words_out = 2;
    for (const struct lull_program_command *const *at = program->commands; *at != NULL; at++)
        if (strcmp((*at)->name, both) == 0)
            return *at;
    *words_out = 1;
    for (const struct lull_program_command *const *at = program->commands; *at != NULL; at++)
        if (strcmp((*at)->name, argv[0]) == 0)
            return *at;
    return NULL;
}

static int refuse_command(const struct lull_program *program, char **argv)
{
    char word[128];
    struct lull_nearest nearest;

    if (is_group(program, argv[0]))
        snprintf(word, sizeof(word), "%s %s", argv[0], argv[1]);
    else
        snprintf(word, sizeof(word), "%s", argv[0]);
    nearest = lull_nearest_begin(word);
    for (const struct lull_program_command *const *at = program->commands; *at != NULL; at++)
        lull_nearest_try(&nearest, (*at)->name);
    lull_nearest_try(&nearest, "help");
    fprintf(stderr, "%s: unknown command '%s'", program->name, word);
    if (nearest.best != NULL)
        fprintf(stderr, "; did you mean '%s'?", nearest.best);
    fprintf(stderr, "\nTry `%s help`.\n", program->name);
    return LULL_EXIT_USAGE;
}

/* Executes PROGRAM-WORD, if there is one. Returns only if there is none. */
static void run_extension(const struct lull_program *program, char **argv)
{
    char *const word = argv[0];
    char name[64];
    char path[PATH_MAX];

    if (strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(word) ||
        (size_t)snprintf(name, sizeof(name), "%s-%s", program->name, word) >= sizeof(name))
        return;
    argv[0] = name;
    if (lull_file_find_own(name, name, path, sizeof(path), NULL) == 0)
        execv(path, argv);
    execvp(name, argv);
    argv[0] = word;
}

static int program_call_command(const struct lull_program *program,
                                const struct lull_program_command *command, int argc, char **argv)
{
    char name[96];

    snprintf(name, sizeof(name), "%s %s", program->name, command->name);
    return program_run_command(program, command, name, argc, argv);
}

/* Answers `help`; words are those behind it. */
static int program_print_help(const struct lull_program *program, char **words)
{
    static char option[] = "--help";
    char *argv[3] = {NULL, option, NULL};
    const struct lull_program_command *command;
    int count;

    if (words[0] == NULL || (is_group(program, words[0]) && words[1] == NULL &&
                             program_find_command(program, words, &count) == NULL)) {
        print_commands(program, words[0] != NULL ? words[0] : "", stdout);
        return program_finish(program->name, LULL_EXIT_OK);
    }
    command = program_find_command(program, words, &count);
    if (command == NULL)
        return refuse_command(program, words);
    return program_call_command(program, command, 2, argv);
}

/* Prints a text in one line. */
static void print_line(const char *text)
{
    for (; *text != '\0'; text++)
        putchar(*text == '\n' ? ' ' : *text);
    putchar('\n');
}

static void print_options(const struct lull_program *program)
{
    for (const struct lull_program_command *const *at = program->commands; *at != NULL; at++) {
        if ((*at)->part != NULL)
            continue;
        printf("command\t%s\t%s\t%s\t%s\t", (*at)->name, (*at)->summary,
               (*at)->operands.takes_command ? "@command" : "@file",
               (*at)->arguments != NULL ? (*at)->arguments : "");
        print_line((*at)->about);
        lull_options_list((*at)->tables, (*at)->name, stdout);
    }
}

static bool is_any(const char *word, const char *a, const char *b)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

/* Returns whether the program has a single command, which users do not name. */
static bool program_is_single(const struct lull_program *program)
{
    return strcmp(program->commands[0]->name, program->name) == 0;
}

/* A word that names no command may still be the first word of commands that have two. */
static int program_run(const struct lull_program *program, int argc, char **argv)
{
    const struct lull_program_command *command;
    char *const word = argc >= 2 ? argv[1] : NULL;
    int words;

    if (word != NULL && strcmp(word, "--print-options") == 0) {
        print_options(program);
        return program_finish(program->name, LULL_EXIT_OK);
    }
    if (program_is_single(program))
        return program_run_command(program, program->commands[0], program->name, argc, argv);
    if (word == NULL) {
        print_commands(program, "", stderr);
        return LULL_EXIT_USAGE;
    }
    if (is_any(word, "--help", "-h") || is_any(word, "help", "-?"))
        return program_print_help(program, argv + 2);
    if (is_any(word, "--version", "-V")) {
        printf("%s %s\n", program->name, program->version);
        return program_finish(program->name, LULL_EXIT_OK);
    }
    command = program_find_command(program, argv + 1, &words);
    if (command != NULL)
        return program_call_command(program, command, argc - words, argv + words);
    if (is_group(program, word) &&
        (argc == 2 || is_any(argv[2], "--help", "-h") || is_any(argv[2], "help", "-?"))) {
        print_commands(program, word, argc == 2 ? stderr : stdout);
        return argc == 2 ? LULL_EXIT_USAGE : program_finish(program->name, LULL_EXIT_OK);
    }
    if (program->runs_extensions && !is_group(program, word))
        run_extension(program, argv + 1);
    return refuse_command(program, argv + 1);
}

/* Runs a part as the words that it represents: `lull-model fit` as `lull model fit`. */
static int run_words(const struct lull_program *program, int argc, char **argv)
{
    char *const words = strdup(program->words);
    char **const all = calloc((size_t)argc + strlen(program->words) + 1, sizeof(*all));
    char *rest = NULL;
    int count = 1;
    int status = LULL_EXIT_FAILED;

    if (words == NULL || all == NULL) {
        fprintf(stderr, "%s %s: no memory for its arguments\n", program->name, program->words);
        goto out;
    }
    all[0] = argv[0];
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        all[count++] = word;
    memcpy(all + count, argv + 1, (size_t)(argc - 1) * sizeof(*all));
    status = program_run(program, count + argc - 1, all);
out:
    free(all);
    free(words);
    return status;
}

int lull_program_main(const struct lull_program *program, int argc, char **argv)
{
    lull_output_begin();
    if (program->words == NULL || argc < 1 ||
        (argc == 2 && strcmp(argv[1], "--print-options") == 0))
        return program_run(program, argc, argv);
    return run_words(program, argc, argv);
}
