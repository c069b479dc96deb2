/* `lull simulate`. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_SIMULATE_H
#define LULL_CLI_SIMULATE_H

int lull_simulate_main(int argc, char **argv);

#endif
