/*
 * The commands of lull-reproduce: each runs the published experiments of one paper again.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_COMMAND_H
#define LULL_LAB_REPRODUCE_COMMAND_H

#include "base/program.h"

extern const struct lull_program_command lull_edl_command;
extern const struct lull_program_command lull_envpipe_command;
extern const struct lull_program_command lull_shared_command; /* ada-srsf */
extern const struct lull_program_command lull_zeus_command;

#endif
