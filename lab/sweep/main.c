/* lull-sweep: `lull sweep` as a program of its own. SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "lab/commands.h"

int main(int argc, char **argv)
{
    static const struct lull_program_command *const commands[] = {&lull_sweep_command, NULL};
    static const struct lull_program program = {
        .name = "lull",
        .version = LULL_VERSION,
        .about = "Measures kernels over clocks.",
        .commands = commands,
        .words = "sweep",
    };

    lull_log_init(LULL_LOG_WARNING);
    return lull_program_main(&program, argc, argv);
}
