/* SPDX-License-Identifier: Apache-2.0 */
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "reproduce/command.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv, struct lull_error *err);
    const char *what;
} commands[] = {
    {"edl", lull_edl_main,
     "tasks of one GPU with deadlines; clocks by least energy, readjusted (TPDS 2022)"},
    {"ada-srsf", lull_shared_main,
     "gangs that share GPUs in time and a network by contention (arXiv 2002.10105)"},
    {"zeus", lull_replay_main, "the search for a batch size, on recorded training (NSDI 2023)"},
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static void print_usage(FILE *out)
{
    fprintf(out, "Usage: lull-reproduce COMMAND [OPTION...]\n"
                 "Runs published results of other systems again:\n\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].what);
    fprintf(out, "\n`lull-reproduce COMMAND --help` lists the options of each.\n");
}

/* Runs the command of argv[1]. Prints its error, if it has one, and returns the exit status. */
static int run(int command, int argc, char **argv)
{
    static char name[64]; /* argp names the program after argv[0] in its messages */
    struct lull_error err = {0};
    int rc;

    snprintf(name, sizeof(name), "lull-reproduce %s", commands[command].name);
    argv[1] = name;
    rc = commands[command].run(argc - 1, argv + 1, &err);
    if (rc >= 0)
        return rc;
    fprintf(stderr, "%s: %s\n", name, err.text);
    return (int)lull_error_exit_status(rc);
}

int main(int argc, char **argv)
{
    argp_err_exit_status = LULL_EXIT_USAGE;
    lull_log_init(LULL_LOG_WARNING);
    if (argc < 2) {
        print_usage(stderr);
        return LULL_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0) {
        print_usage(stdout);
        return LULL_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("lull-reproduce %s\n", LULL_VERSION);
        return LULL_EXIT_OK;
    }
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return run(i, argc, argv);
    fprintf(stderr, "lull-reproduce: there is no command %s; see lull-reproduce --help\n", argv[1]);
    return LULL_EXIT_USAGE;
}
