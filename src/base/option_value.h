/*
 * Values of options: what a row allows, and how that is described. For option.c; one thread at a
 * time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_OPTION_VALUE_H
#define LULL_BASE_OPTION_VALUE_H

#include <stdio.h>

#include "base/option.h"

/* Takes the text into `place` if it is a value that the row allows. Prints nothing; on failure the
 * error may hold a text. */
int lull_option_take_value(const struct lull_option *row, const char *text, void *place,
                           struct lull_error *err);

/* Describes the values that an option takes; an error text puts it after "give ". */
void lull_option_print_expected(const struct lull_option *row, FILE *out);

#endif
