/*
 * Programs that consist of commands, such as lull: the description of each command, and their
 * common behaviour. That is `PROGRAM help COMMAND`, --help, --version, suggestions for typos, and a
 * failure status if output could not be written.
 *
 * `PROGRAM --print-options` lists all rows for tools/options, from which the manual and completion
 * are made: for each command its name, summary, operands' kind, arguments and description. Threads:
 * one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_PROGRAM_H
#define LULL_BASE_PROGRAM_H

#include "base/option.h"

/* A program that runs commands of another one: lull-model has the commands of `lull model`. */
struct lull_program_part {
    const char *executable;   /* "lull-model" */
    const char *build_folder; /* of the build that contains it, relative to the folder of src/ */
    const char *package;      /* to install if the program is missing */
};

struct lull_program_command {
    const char *name;      /* after the program's name: "run", "batch run"; or the program's own */
    const char *summary;   /* its line in the list of commands */
    const char *arguments; /* after the options: "-- COMMAND [ARG...]"; null: none */
    const char *about;     /* a paragraph above the options */
    const char *after;     /* below them, unformatted lines; null: nothing */
    void (*print_after)(FILE *out); /* below that; null: nothing */
    struct lull_option_table tables[LULL_OPTION_MAX_TABLES];
    struct lull_operand_rules operands;
    size_t size; /* of the struct that the rows fill, zeroed before */
    /* The exit status is that of the job that it runs, even if its own output cannot be written. */
    bool returns_jobs_status;

    /* Defaults that no row has. Null: none. */
    void (*prepare)(void *options);
    /* Checks options against each other where rows cannot. An error is a usage error. Null: no
     * check. */
    int (*check)(void *options, const struct lull_operands *operands, struct lull_error *err);
    /* Returns the exit status. */
    int (*run)(void *options, const struct lull_operands *operands);
    /* The program that implements the command; only name and summary are set besides. Null: this
     * one. */
    const struct lull_program_part *part;
};

struct lull_program {
    const char *name;
    const char *version;
    const char *about;                                  /* one sentence */
    const struct lull_program_command *const *commands; /* ends with null; most useful first */
    /* For a part: the words after the program's name that its executable stands for: "model". */
    const char *words;
    /* `lull WORD` executes lull-WORD, from the folder of the parts or from PATH. */
    bool runs_extensions;
};

/*
 * Runs the command that argv[1] names, or argv[1] and argv[2] together. Returns an enum lull_exit,
 * or the status of the job that the command has run.
 */
int lull_program_main(const struct lull_program *program, int argc, char **argv);

/* Prints "NAME: TEXT" for people, and returns the exit status that fits the code. */
int lull_program_fail(const char *name, const struct lull_error *err);

#endif
