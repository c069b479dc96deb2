/*
 * Makes names that come from files fit to be shown in a terminal, in JSON and in XML.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PRINTABLE_H
#define LULL_CLI_PRINTABLE_H

#include <stddef.h>

struct lull_printable {
    char text[64];
};

/* Puts "?" for control characters and for what is not UTF-8, and cuts what is too long. */
struct lull_printable lull_printable(const char *text);

/* Writes the same into size bytes, at least 1, where more than a name is to be shown. */
void lull_printable_write(const char *text, char *shown_out, size_t size);

#endif
