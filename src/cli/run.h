/* `lull run`. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_RUN_H
#define LULL_CLI_RUN_H

int lull_run_main(int argc, char **argv);

#endif
