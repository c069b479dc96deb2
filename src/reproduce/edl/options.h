/* The command line of lull-reproduce edl. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_REPRODUCE_EDL_OPTIONS_H
#define LULL_REPRODUCE_EDL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "reproduce/edl/edl.h"

struct lull_edl_options {
    struct lull_edl_config config;
    const char *variant; /* the name of config.errors */
    const char *range;   /* the name of config.range */
    const char *path;    /* of the tasks; NULL: they are drawn at random */
    double utilisation;  /* of drawn tasks */
    int64_t seed;
    int64_t first; /* only this many of the tasks; 0: all of them */
    int64_t gpus;  /* 0: there is no limit */
    bool is_online;
    bool is_frugal;
    double idle_w;
    double turn_on_j;
    bool is_json;
    const char *jobs_out; /* NULL: no table is written */
};

/* Parses the command line; the texts are borrowed from argv. Like argp it prints --help and usage
 * errors itself, and then exits. */
void lull_edl_options_parse(int argc, char **argv, struct lull_edl_options *options_out);

#endif
