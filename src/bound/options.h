/* The command line of lull-bound. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_BOUND_OPTIONS_H
#define LULL_BOUND_OPTIONS_H

#include <stdbool.h>

struct lull_bound_options {
    const char *path;
    bool is_by_prices; /* no linear program */
    bool is_integer;
    double gap_ratio;
    double time_limit_s;
    const char *prices_out;   /* NULL: none */
    const char *schedule_out; /* NULL: none */
    bool is_json;
};

/* Prints --help and usage errors itself, as argp does, and then exits. Texts are those of argv. */
void lull_bound_options_parse(int argc, char **argv, struct lull_bound_options *options_out);

#endif
