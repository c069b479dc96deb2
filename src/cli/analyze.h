/* lull analyze: what recorded jobs could save. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLI_ANALYZE_H
#define LULL_CLI_ANALYZE_H

/* Returns the exit status. */
int lull_analyze_main(int argc, char **argv);

#endif
