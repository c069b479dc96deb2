/* lull-simulate-cluster: `lull simulate cluster` as a program of its own. SPDX-License-Identifier:
 * Apache-2.0 */
#include "base/log.h"
#include "cluster/cli/commands.h"

int main(int argc, char **argv)
{
    static const struct lull_program_command *const commands[] = {&lull_cluster_command, NULL};
    static const struct lull_program program = {
        .name = "lull",
        .version = LULL_VERSION,
        .about = "Runs jobs on a cluster in virtual time.",
        .commands = commands,
        .words = "simulate cluster",
    };

    lull_log_init(LULL_LOG_WARNING);
    return lull_program_main(&program, argc, argv);
}
