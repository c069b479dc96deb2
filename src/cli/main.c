/*
 * lull: the table of its commands. SPDX-License-Identifier: Apache-2.0
 */
#include <argp.h>
#include <stdio.h>

#include "base/log.h"
#include "cli/cluster/cluster.h"
#include "cli/command.h"
#include "cli/plan/plan.h"

static const struct lull_program_command plan = {
    .name = "plan",
    .summary = "plan the clocks of a pipeline: the same time, the least energy",
    .main = lull_plan_main,
};

static int tell_where_replay_went(int argc, char **argv)
{
    (void)argc, (void)argv;
    fprintf(stderr, "lull batch: replay is now a command of a program of its own, with the same "
                    "options; type: lull-reproduce zeus\n");
    return LULL_EXIT_USAGE;
}

static const struct lull_program_command batch_replay = {
    .name = "batch replay",
    .summary = "has moved: lull-reproduce zeus",
    .main = tell_where_replay_went,
};

static const struct lull_program_command simulate_cluster = {
    .name = "simulate cluster",
    .summary = "run many jobs on a cluster in virtual time, under a policy",
    .main = lull_cluster_main,
};

int main(int argc, char **argv)
{
    static const struct lull_program_command *const commands[] = {
        &lull_run_command,        &lull_analyze_command,      &plan,
        &lull_limit_command,      &lull_batch_run_command,    &lull_batch_list_command,
        &lull_batch_show_command, &lull_batch_forget_command, &batch_replay,
        &lull_gpus_command,       &lull_calibrate_command,    &lull_status_command,
        &lull_restore_command,    &lull_simulate_command,     &simulate_cluster,
        &lull_emulate_command,    &lull_play_command,         NULL};
    static const struct lull_program program = {
        .name = "lull",
        .version = LULL_VERSION,
        .about = "Lowers the clocks of GPUs where training and inference do not need them.",
        .commands = commands,
    };

    argp_err_exit_status = LULL_EXIT_USAGE;
    lull_log_init(LULL_LOG_WARNING);
    return lull_program_main(&program, argc, argv);
}
