/*
 * Baseline of a user without Lull: one clock, or one power limit, for all GPUs and the whole job.
 * It is the best that stays within a tolerance, found with full knowledge by bisection: a lower
 * clock or limit is taken never to be quicker.
 *
 * Deterministic. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_FIXED_H
#define LULL_SIMULATOR_FIXED_H

#include "simulator/node.h"

enum lull_fixed_lever {
    LULL_FIXED_CLOCK, /* nvidia-smi -lgc: the highest clock */
    LULL_FIXED_LIMIT, /* nvidia-smi -pl, as Zeus chooses it: in steps of 5 W */
};

/*
 * Simulates the node, unmanaged, at the lowest setting that costs at most tolerance_ratio (>= 0) of
 * time against `reference`, the same node without a setting. *setting_out is that setting, MHz or
 * W. Settings
 * are compared over a hundred periods at most. Errors: those of lull_simulate_node().
 */
int lull_simulate_fixed(const struct lull_simulation_options *options, enum lull_fixed_lever lever,
                        double tolerance_ratio, const struct lull_simulation_outcome *reference,
                        struct lull_simulation_outcome *outcome_out, double *setting_out,
                        struct lull_error *err);

#endif
