/* The command line of lull-reproduce ada-srsf. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_REPRODUCE_ADA_SRSF_OPTIONS_H
#define LULL_REPRODUCE_ADA_SRSF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "reproduce/ada_srsf/shared_gpus.h"

struct lull_shared_options {
    struct lull_shared_setup setup;
    const char *path;      /* a folder or a file of jobs */
    const char *transfers; /* this and the next two as the user has named them */
    const char *place;
    const char *variant;
    double run_w;  /* power of a GPU that computes */
    double idle_w; /* power of a GPU that does not */
    bool is_json;
    const char *jobs_out; /* NULL: no table is written */
};

/* Parses the command line; the texts are borrowed from argv. Like argp it prints --help and usage
 * errors itself, and then exits. */
void lull_shared_options_parse(int argc, char **argv, struct lull_shared_options *options_out);

/* The name of an error of the released code by its number, NULL past the last one; and whether the
 * setup makes that error. */
const char *lull_shared_error_name(unsigned error);
bool lull_shared_makes_error(const struct lull_shared_setup *setup, unsigned error);

#endif
