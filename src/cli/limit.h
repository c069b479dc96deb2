/* `lull limit`: stored power-limit profiles. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_LIMIT_H
#define LULL_CLI_LIMIT_H

int lull_limit_main(int argc, char **argv);

#endif
