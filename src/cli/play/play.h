/* lull play: a job, known or recorded, on the emulated node. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_PLAY_PLAY_H
#define LULL_CLI_PLAY_PLAY_H

int lull_play_main(int argc, char **argv);

#endif
