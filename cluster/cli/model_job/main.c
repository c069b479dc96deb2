/* lull-model-job: `lull model job` as a program of its own. SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "cluster/cli/commands.h"

int main(int argc, char **argv)
{
    static const struct lull_program_command *const commands[] = {&lull_model_job_command, NULL};
    static const struct lull_program program = {
        .name = "lull",
        .version = LULL_VERSION,
        .about = "Predicts the steps of training jobs.",
        .commands = commands,
        .words = "model job",
    };

    lull_log_init(LULL_LOG_WARNING);
    return lull_program_main(&program, argc, argv);
}
