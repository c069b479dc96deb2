/*
 * Programs of commands, such as lull: what each command is, and what is the same in all of them:
 * `PROGRAM help COMMAND`, --help, --version, suggestions for typos, and that output which could not
 * be written fails the command.
 *
 * `PROGRAM --print-options` lists all rows for tools/options, from which the manual and completion
 * are made. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_PROGRAM_H
#define LULL_BASE_PROGRAM_H

#include "base/option.h"

/* A program that runs commands of another one: lull-model has the commands of `lull model`. */
struct lull_program_part {
    const char *executable;   /* "lull-model" */
    const char *build_folder; /* that a build has it in, seen from the folder of src/ */
    const char *package;      /* to install where the program is missing */
};

struct lull_program_command {
    const char *name;      /* behind the program's: "run", "batch run"; or the program's own */
    const char *summary;   /* what it does, as a line in the list of commands */
    const char *arguments; /* behind the options: "-- COMMAND [ARG...]"; null: none */
    const char *about;     /* a paragraph above the options */
    const char *after;     /* below them, lines as they are; null: nothing */
    void (*print_after)(FILE *out); /* below that; null: nothing */
    struct lull_option_table tables[LULL_OPTION_MAX_TABLES];
    struct lull_operand_rules operands;
    size_t size; /* of the struct that the rows fill; it is zero before */
    /* The status is that of the job that it runs, even if its own output cannot be written. */
    bool returns_jobs_status;

    /* Defaults that no row has. Null: none. */
    void (*prepare)(void *options);
    /* What rows cannot say of options together. An error is a usage error. Null: all is well. */
    int (*check)(void *options, const struct lull_operands *operands, struct lull_error *err);
    /* Returns the exit status. */
    int (*run)(void *options, const struct lull_operands *operands);
    /* The program that has the command; beside it only name and summary are set. Null: this one. */
    const struct lull_program_part *part;
};

struct lull_program {
    const char *name;
    const char *version;
    const char *about;                                  /* one sentence */
    const struct lull_program_command *const *commands; /* ends with null; most useful first */
    /* Of a part, the words behind the program's name that its executable represents: "model". */
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
