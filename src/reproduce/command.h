/*
 * The commands of lull-reproduce: each runs the published experiments of one paper again. It parses
 * its own options, of which argv[0] is the command's name as argp shall print it, and ends the
 * program itself for --help and for usage errors. It returns an enum lull_exit, or a negative code
 * with its text in err, which main.c prints. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_REPRODUCE_COMMAND_H
#define LULL_REPRODUCE_COMMAND_H

#include "base/error.h"

/* edl/command.c */
int lull_edl_main(int argc, char **argv, struct lull_error *err);

/* ada_srsf/command.c */
int lull_shared_main(int argc, char **argv, struct lull_error *err);

/* zeus/command.c */
int lull_replay_main(int argc, char **argv, struct lull_error *err);

#endif
