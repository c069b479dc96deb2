/*
 * lull-reproduce: the table of its commands. SPDX-License-Identifier: Apache-2.0
 */
#include "base/log.h"
#include "lab/reproduce/command.h"

int main(int argc, char **argv)
{
    static const struct lull_program_command *const commands[] = {
        &lull_edl_command, &lull_envpipe_command, &lull_shared_command, &lull_zeus_command, NULL};
    static const struct lull_program program = {
        .name = "lull-reproduce",
        .version = LULL_VERSION,
        .about = "Runs published results of other systems again.",
        .commands = commands,
    };

    lull_log_init(LULL_LOG_WARNING);
    return lull_program_main(&program, argc, argv);
}
