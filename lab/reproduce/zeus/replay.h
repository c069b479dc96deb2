/*
 * Comparison of lull-reproduce zeus, and its results; private to this folder.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_ZEUS_REPLAY_H
#define LULL_LAB_REPRODUCE_ZEUS_REPLAY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "lab/reproduce/zeus/comparison.h"
#include "lab/reproduce/zeus/golden.h"

enum { LULL_REPLAY_POLICIES = 3 };

struct lull_replay_policy {
    const char *name;
    struct lull_zeus_config config;
    struct lull_comparison_outcome *outcomes; /* per seed */
    double *cost_by_recurrence;               /* J, summed over the seeds */
};

struct lull_replay {
    const char *gpu;
    double beta_ratio;
    uint64_t first_seed;
    uint32_t seed_count;
    struct lull_comparison comparison;
    struct lull_replay_policy policies[LULL_REPLAY_POLICIES];
};

/* The distribution of a figure over the seeds. */
struct lull_replay_spread {
    double mean;
    double deviation; /* of a sample (n - 1); 0 with one seed */
    double least;
    double most;
};

typedef double (*lull_replay_figure)(const struct lull_comparison *comparison,
                                     const struct lull_comparison_outcome *outcome);

struct lull_replay_spread lull_replay_spread_of(const struct lull_replay *replay,
                                                const struct lull_replay_policy *policy,
                                                lull_replay_figure figure);

/* The cost beyond that of a policy that knows the best size, as a share of it. */
double lull_replay_regret_ratio(const struct lull_comparison *comparison,
                                const struct lull_comparison_outcome *outcome);

void lull_replay_print(const struct lull_replay *replay, FILE *out);

/* Makes the JSON document, which the caller decrefs. NULL: out of memory. */
json_t *lull_replay_json(const struct lull_replay *replay);

/* Draws the cost over the recurrences (SVG). Errors: -ENOMEM, those of lull_file_write_atomic. */
int lull_replay_picture_write(const char *path, const struct lull_replay *replay,
                              struct lull_error *err);

#endif
