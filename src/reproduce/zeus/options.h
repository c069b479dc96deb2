/* The command line of lull-reproduce zeus. SPDX-License-Identifier: Apache-2.0 */
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
    int64_t window; /* below 0: each policy keeps its own */
    int64_t seeds;
    int64_t first_seed;
    int64_t recurrences; /* 0: as in the published simulator */
    bool has_target;
    double targets[LULL_COMPARISON_PHASES]; /* of --target, then those of --then */
    uint32_t target_count;
    int64_t max_epochs;   /* 0: the job's */
    int64_t default_size; /* 0: the job's */
    bool is_json;
};

/* Parses the command line; the texts are borrowed from argv. Like argp it prints --help and usage
 * errors itself, and then exits. */
void lull_replay_options_parse(int argc, char **argv, struct lull_replay_options *options_out);

#endif
