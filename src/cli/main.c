/*
 * lull: the table of its commands. SPDX-License-Identifier: Apache-2.0
 */
#include "base/log.h"
#include "cli/commands.h"

/* ---- commands of other parts, which are programs of their own ------------------------------ */

#define CLUSTER(EXECUTABLE)                                                                        \
    (&(const struct lull_program_part){EXECUTABLE, "../cluster", "lull-cluster"})
#define LAB(EXECUTABLE) (&(const struct lull_program_part){EXECUTABLE, "../lab", "lull-lab"})

static const struct lull_program_command budget = {
    .name = "budget",
    .summary = "hold GPUs within a power budget and a grid operator's limits",
    .part = CLUSTER("lull-budget"),
};
static const struct lull_program_command simulate_cluster = {
    .name = "simulate cluster",
    .summary = "run many jobs on a cluster in virtual time, under a policy",
    .part = CLUSTER("lull-simulate-cluster"),
};
static const struct lull_program_command model_job = {
    .name = "model job",
    .summary = "predict step, power and energy of training jobs at any clock and size",
    .part = CLUSTER("lull-model-job"),
};
static const struct lull_program_command model_evaluate = {
    .name = "model evaluate",
    .summary = "report the errors of predicted time and power of measured kernels",
    .part = LAB("lull-model"),
};
static const struct lull_program_command model_fit = {
    .name = "model fit",
    .summary = "fit models of time and power to measured kernels",
    .part = LAB("lull-model"),
};
static const struct lull_program_command model_predict = {
    .name = "model predict",
    .summary = "predict time, power and energy of kernels at any clock",
    .part = LAB("lull-model"),
};
static const struct lull_program_command sweep = {
    .name = "sweep",
    .summary = "measure time, power and energy over clocks and power limits",
    .part = LAB("lull-sweep"),
};

int main(int argc, char **argv)
{
    static const struct lull_program_command *const commands[] = {&lull_run_command,
                                                                  &lull_attach_command,
                                                                  &lull_report_command,
                                                                  &lull_serve_command,
                                                                  &lull_analyze_command,
                                                                  &lull_plan_command,
                                                                  &lull_limit_command,
                                                                  &lull_limit_hold_command,
                                                                  &lull_batch_run_command,
                                                                  &lull_batch_list_command,
                                                                  &lull_batch_show_command,
                                                                  &lull_batch_forget_command,
                                                                  &lull_doctor_command,
                                                                  &lull_gpus_command,
                                                                  &lull_selftest_command,
                                                                  &lull_meter_command,
                                                                  &lull_energy_command,
                                                                  &lull_calibrate_command,
                                                                  &lull_status_command,
                                                                  &lull_top_command,
                                                                  &lull_install_daemon_command,
                                                                  &lull_restore_command,
                                                                  &lull_revoke_command,
                                                                  &lull_reload_command,
                                                                  &budget,
                                                                  &lull_job_add_command,
                                                                  &lull_job_remove_command,
                                                                  &lull_job_hold_command,
                                                                  &lull_quiesce_command,
                                                                  &lull_resume_command,
                                                                  &sweep,
                                                                  &model_evaluate,
                                                                  &model_job,
                                                                  &model_fit,
                                                                  &model_predict,
                                                                  &lull_simulate_command,
                                                                  &simulate_cluster,
                                                                  &lull_emulate_command,
                                                                  &lull_emulate_set_command,
                                                                  &lull_play_command,
                                                                  NULL};
    static const struct lull_program program = {
        .name = "lull",
        .version = LULL_VERSION,
        .about = "Lowers the clocks of GPUs where training and inference do not need them.",
        .commands = commands,
        .runs_extensions = true,
    };

    lull_log_init(LULL_LOG_WARNING);
    return lull_program_main(&program, argc, argv);
}
