/* lull calibrate: what switching clocks costs here. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_CALIBRATE_H
#define LULL_CLI_CALIBRATE_H

/* Returns the exit status. */
int lull_calibrate_main(int argc, char **argv);

#endif
