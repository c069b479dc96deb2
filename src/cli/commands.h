/*
 * The commands of the node. Each is a table of options and a function. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_CLI_COMMANDS_H
#define LULL_CLI_COMMANDS_H

#include "base/program.h"

extern const struct lull_program_command lull_analyze_command;
extern const struct lull_program_command lull_attach_command;
extern const struct lull_program_command lull_batch_forget_command;
extern const struct lull_program_command lull_batch_list_command;
extern const struct lull_program_command lull_batch_run_command;
extern const struct lull_program_command lull_batch_show_command;
extern const struct lull_program_command lull_calibrate_command;
extern const struct lull_program_command lull_doctor_command;
extern const struct lull_program_command lull_emulate_command;
extern const struct lull_program_command lull_emulate_set_command;
extern const struct lull_program_command lull_energy_command;
extern const struct lull_program_command lull_gpus_command;
extern const struct lull_program_command lull_install_daemon_command;
extern const struct lull_program_command lull_job_add_command;
extern const struct lull_program_command lull_job_hold_command;
extern const struct lull_program_command lull_job_remove_command;
extern const struct lull_program_command lull_limit_command;
extern const struct lull_program_command lull_limit_hold_command;
extern const struct lull_program_command lull_meter_command;
extern const struct lull_program_command lull_plan_command;
extern const struct lull_program_command lull_play_command;
extern const struct lull_program_command lull_quiesce_command;
extern const struct lull_program_command lull_reload_command;
extern const struct lull_program_command lull_report_command;
extern const struct lull_program_command lull_restore_command;
extern const struct lull_program_command lull_resume_command;
extern const struct lull_program_command lull_revoke_command;
extern const struct lull_program_command lull_run_command;
extern const struct lull_program_command lull_selftest_command;
extern const struct lull_program_command lull_serve_command;
extern const struct lull_program_command lull_simulate_command;
extern const struct lull_program_command lull_status_command;
extern const struct lull_program_command lull_top_command;

#endif
