/* SPDX-License-Identifier: Apache-2.0 */
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "cli/analyze.h"
#include "cli/batch/batch.h"
#include "cli/calibrate.h"
#include "cli/emulate.h"
#include "cli/gpus.h"
#include "cli/limit.h"
#include "cli/plan/plan.h"
#include "cli/play/play.h"
#include "cli/restore.h"
#include "cli/run.h"
#include "cli/simulate.h"
#include "cli/status.h"

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *what;
};

static const struct command commands[] = {
    {"run", lull_run_main, "run a command and lower its GPUs' clocks while it communicates"},
    {"analyze", lull_analyze_main, "tell what recorded jobs could save, from profiler traces"},
    {"plan", lull_plan_main, "plan the clocks of a pipeline: the same time, the least energy"},
    {"limit", lull_limit_main, "show measured power limits, and which is best for what"},
    {"batch", lull_batch_main, "search the batch size of a job that comes again and again"},
    {"gpus", lull_gpus_main, "show the GPUs of this node"},
    {"calibrate", lull_calibrate_main, "measure what switching clocks costs here"},
    {"status", lull_status_main, "show what lulld has leased and changed"},
    {"restore", lull_restore_main, "undo everything that was changed on this node"},
    {"simulate", lull_simulate_main, "run a job and the decisions about it in virtual time"},
    {"emulate", lull_emulate_main, "run a command on an emulated node, no GPU needed"},
    {"play", lull_play_main, "play a distributed job on the emulated node"},
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static void print_usage(FILE *out)
{
    fprintf(out, "Usage: lull COMMAND [OPTION...]\n"
                 "Lowers the clocks of GPUs where training and inference do not need them.\n\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].what);
    fprintf(out, "\n`lull COMMAND --help` tells more of each.\n");
}

int main(int argc, char **argv)
{
    static char name[64];

    argp_err_exit_status = LULL_EXIT_USAGE;
    lull_log_init(LULL_LOG_WARNING);
    if (argc < 2) {
        print_usage(stderr);
        return LULL_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return LULL_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("lull %s\n", LULL_VERSION);
        return LULL_EXIT_OK;
    }
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        /* argp names the program after argv[0] in its messages. */
        snprintf(name, sizeof(name), "lull %s", commands[i].name);
        argv[1] = name;
        return commands[i].run(argc - 1, argv + 1);
    }
    fprintf(stderr, "lull: %s is no command; see lull --help\n", argv[1]);
    return LULL_EXIT_USAGE;
}
