/* lull status: leases and points of this node's lulld. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_STATUS_H
#define LULL_CLI_STATUS_H

/* Returns the exit status. */
int lull_status_main(int argc, char **argv);

#endif
