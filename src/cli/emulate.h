/*
 * lull emulate SPEC -- COMMAND: runs a command on an emulated node. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_CLI_EMULATE_H
#define LULL_CLI_EMULATE_H

/*
 * argv[0] is the name to show in messages. Gives the command's status, 128+N if signal N ended it,
 * else enum lull_exit: 1 the command cannot be started, 2 malformed, 4 unknown GPU model.
 */
int lull_emulate_main(int argc, char **argv);

#endif
