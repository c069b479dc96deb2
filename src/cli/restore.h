/* lull restore: puts every GPU of this node back. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_RESTORE_H
#define LULL_CLI_RESTORE_H

/* Returns the exit status. */
int lull_restore_main(int argc, char **argv);

#endif
