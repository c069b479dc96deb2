/* The command line of lull batch replay. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_REPRODUCE_ZEUS_OPTIONS_H
#define LULL_REPRODUCE_ZEUS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "reproduce/zeus/comparison.h"

struct lull_replay_options {
    const char *train;
    const char *power;
    const char *dataset;
    const char *gpu;
    const char *golden;
    const char *svg;
    double eta_ratio;
    double beta_ratio;
    int64_t window; /* below 0: as each policy has it */
    int64_t seeds;
    int64_t first_seed;
    int64_t recurrences; /* 0: as many as were published */
    bool has_target;
    double targets[LULL_COMPARISON_PHASES]; /* the first, and those of --then */
    uint32_t target_count;
    int64_t max_epochs;   /* 0: the job's */
    int64_t default_size; /* 0: the job's */
    bool is_json;
};

/* Prints --help and usage errors itself, as argp does, and then exits. Texts are those of argv. */
void lull_replay_options_parse(int argc, char **argv, struct lull_replay_options *options_out);

#endif
