/* The command line of --policy edl. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_REPRODUCE_EDL_OPTIONS_H
#define LULL_REPRODUCE_EDL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "reproduce/edl/edl.h"

struct lull_edl_options {
    struct lull_edl_config config;
    const char *variant; /* its name */
    const char *range;
    const char *path;   /* of the tasks; NULL: they are drawn */
    double utilisation; /* of drawn tasks */
    int64_t seed;
    int64_t first; /* only so many of the tasks; 0: all */
    int64_t gpus;  /* 0: as many as are wanted */
    bool is_online;
    bool is_frugal;
    double idle_w;
    double turn_on_j;
    bool is_json;
    const char *jobs_out; /* NULL: none */
};

/* Prints --help and usage errors itself, as argp does, and then exits. Texts are those of argv. */
void lull_edl_options_parse(int argc, char **argv, struct lull_edl_options *options_out);

#endif
