/*
 * The curve of a job's frontier: slowdown and saving of clocks, from the visited ones. For
 * job_frontier.c alone, whose header describes the curve between and beyond them.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_ENERGY_JOB_FRONTIER_CURVE_H
#define LULL_CORE_ENERGY_JOB_FRONTIER_CURVE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/energy/job_frontier.h"

/* A clock that was visited. Ratios are to the highest clocks; halves are of 95 % intervals. */
struct lull_job_frontier_node {
    uint32_t point;
    double time; /* slowdown */
    double time_half;
    double energy_log; /* log of the ratio of energies */
    double power_log;  /* log of the ratio of powers */
    double energy_half;
    double blur; /* by which late readings may have drawn the ratio of powers to 1, >= 0, log */
};

struct lull_job_frontier_curve {
    const uint32_t *clocks_mhz;
    uint32_t clock_count;
    struct lull_job_frontier_node nodes[LULL_JOB_FRONTIER_SETTINGS + 1]; /* by point */
    uint32_t node_count;
    double intercept; /* time over (highest clock / clock - 1): a line, ... */
    double slope;
    double covariance[3]; /* ...of intercept, both, slope; as squares of half widths */
};

/* Enters a node, whose point none of the others has. */
void lull_job_frontier_curve_add(struct lull_job_frontier_curve *curve,
                                 const struct lull_job_frontier_node *node);

/* Enters the highest clock itself, at which nothing is slower or saved. */
void lull_job_frontier_curve_add_reference(struct lull_job_frontier_curve *curve);

/* Fits the time and makes the power fall with the clock. At least one node. */
void lull_job_frontier_curve_fit(struct lull_job_frontier_curve *curve);

/* Fills in the saving at the budget point->slowdown_ratio. */
void lull_job_frontier_curve_ask(const struct lull_job_frontier_curve *curve,
                                 struct lull_job_frontier_point *point);

#endif
