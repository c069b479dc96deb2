/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/batch/batch.h"

#include <stdio.h>
#include <string.h>

#include "cli/command.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *what;
} commands[] = {
    {"run", lull_batch_run_main, "run a job with the batch size that is thought best"},
    {"list", lull_batch_list_main, "list the jobs that are known"},
    {"show", lull_batch_show_main, "show what is known of a job"},
    {"forget", lull_batch_forget_main, "forget a job"},
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static void print_usage(FILE *out)
{
    fprintf(out, "Usage: lull batch COMMAND [OPTION...]\n"
                 "Searches the batch size of a job that comes again and again.\n\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].what);
    fprintf(out, "\n`lull batch COMMAND --help` tells more of each.\n");
}

int lull_batch_main(int argc, char **argv)
{
    static char name[64];

    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0)) {
        print_usage(stdout);
        return LULL_EXIT_OK;
    }
    for (int i = 0; argc >= 2 && i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        snprintf(name, sizeof(name), "lull batch %s", commands[i].name);
        argv[1] = name;
        return commands[i].run(argc - 1, argv + 1);
    }
    if (argc >= 2 && strcmp(argv[1], "replay") == 0)
        fprintf(stderr,
                "lull batch: replay is now a command of a program of its own, with the same "
                "options; type: lull-reproduce zeus\n");
    else if (argc >= 2)
        fprintf(stderr, "lull batch: there is no command %s; see lull batch --help\n", argv[1]);
    else
        print_usage(stderr);
    return LULL_EXIT_USAGE;
}
