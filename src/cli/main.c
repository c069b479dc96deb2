/*
 * lull: the table of its commands. SPDX-License-Identifier: Apache-2.0
 */
#include "base/log.h"
#include "cli/command.h"

static const struct lull_program_command batch_replay = {
    .name = "batch replay",
    .summary = "has moved: lull-reproduce zeus",
    .moved = "type, with the same options: lull-reproduce zeus",
};

int main(int argc, char **argv)
{
    static const struct lull_program_command *const commands[] = {&lull_run_command,
                                                                  &lull_report_command,
                                                                  &lull_serve_command,
                                                                  &lull_analyze_command,
                                                                  &lull_plan_command,
                                                                  &lull_limit_command,
                                                                  &lull_batch_run_command,
                                                                  &lull_batch_list_command,
                                                                  &lull_batch_show_command,
                                                                  &lull_batch_forget_command,
                                                                  &batch_replay,
                                                                  &lull_gpus_command,
                                                                  &lull_meter_command,
                                                                  &lull_energy_command,
                                                                  &lull_calibrate_command,
                                                                  &lull_status_command,
                                                                  &lull_top_command,
                                                                  &lull_restore_command,
                                                                  &lull_revoke_command,
                                                                  &lull_reload_command,
                                                                  &lull_budget_command,
                                                                  &lull_job_add_command,
                                                                  &lull_job_remove_command,
                                                                  &lull_job_hold_command,
                                                                  &lull_quiesce_command,
                                                                  &lull_resume_command,
                                                                  &lull_sweep_command,
                                                                  &lull_model_evaluate_command,
                                                                  &lull_model_job_command,
                                                                  &lull_model_fit_command,
                                                                  &lull_model_predict_command,
                                                                  &lull_simulate_command,
                                                                  &lull_cluster_command,
                                                                  &lull_emulate_command,
                                                                  &lull_play_command,
                                                                  NULL};
    static const struct lull_program program = {
        .name = "lull",
        .version = LULL_VERSION,
        .about = "Lowers the clocks of GPUs where training and inference do not need them.",
        .commands = commands,
    };

    lull_log_init(LULL_LOG_WARNING);
    return lull_program_main(&program, argc, argv);
}
