/* The command line of --policy ada-srsf. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_REPRODUCE_ADA_SRSF_OPTIONS_H
#define LULL_REPRODUCE_ADA_SRSF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "reproduce/ada_srsf/shared_gpus.h"

struct lull_shared_options {
    struct lull_shared_setup setup;
    const char *path; /* of the jobs: a folder or a file */
    const char *transfers;
    const char *place;
    const char *variant;
    double run_w;  /* of a GPU that computes */
    double idle_w; /* of one that does not */
    bool is_json;
    const char *jobs_out; /* NULL: none */
};

/* Prints --help and usage errors itself, as argp does, and then exits. Texts are those of argv. */
void lull_shared_options_parse(int argc, char **argv, struct lull_shared_options *options_out);

/* Errors of the released code by number: their names; NULL: no more. And whether one is made. */
const char *lull_shared_error_name(unsigned error);
bool lull_shared_makes_error(const struct lull_shared_setup *setup, unsigned error);

#endif
