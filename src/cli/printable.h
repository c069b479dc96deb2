/*
 * Names from files as they may be shown: in a terminal, in JSON, in XML.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PRINTABLE_H
#define LULL_CLI_PRINTABLE_H

struct lull_printable {
    char text[64];
};

/* With "?" for control characters and what is not UTF-8; cut where it is too long. */
struct lull_printable lull_printable(const char *text);

#endif
