/* lull batch replay: the policies on recorded training. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_BATCH_BATCH_H
#define LULL_CLI_BATCH_BATCH_H

int lull_batch_replay_main(int argc, char **argv);

#endif
