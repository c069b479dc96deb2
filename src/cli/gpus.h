/* lull gpus: the GPUs of this node as they are now. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_GPUS_H
#define LULL_CLI_GPUS_H

/* Returns the exit status. */
int lull_gpus_main(int argc, char **argv);

#endif
