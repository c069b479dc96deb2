/*
 * The commands of the lab. Each is a table of options and a function. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_LAB_COMMANDS_H
#define LULL_LAB_COMMANDS_H

#include "base/program.h"

extern const struct lull_program_command lull_model_evaluate_command;
extern const struct lull_program_command lull_model_fit_command;
extern const struct lull_program_command lull_model_predict_command;
extern const struct lull_program_command lull_sweep_command;

#endif
