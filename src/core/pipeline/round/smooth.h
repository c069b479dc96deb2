/*
 * Private to the beam (beam.c): the problem with smooth costs.
 *
 * The relaxation's price of time jumps wherever an operation passes a corner of its hull. A plan
 * of real options misses the relaxed times by about a step, so what it pays is a mean over the
 * corners near by. Here every ladder's hull is averaged over about the distance of its steps, and
 * given as many fine options: a frontier of this problem has prices and times of that mean.
 *
 * Pure. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ROUND_SMOOTH_H
#define LULL_CORE_PIPELINE_ROUND_SMOOTH_H

#include "core/pipeline/round/state.h"

struct smooth_hull {
    struct lull_pipeline_option *corners; /* energies are effective ones */
    uint32_t count;
    double half_ns; /* averaged over twice that; 0: a single option */
};

struct smooth {
    struct lull_pipeline_problem problem;
    struct lull_pipeline_profile profile; /* a class for each ladder */
    struct lull_pipeline_graph graph;     /* the rounding's, but for the classes */
    struct smooth_hull *hulls;
    struct lull_pipeline_option *corners; /* memory of all hulls */
    struct lull_pipeline_option *options; /* of all classes */
};

/* share: of the mean distance of a ladder's steps, > 0. The rounding outlives it. -ENOMEM; destroy
 * it even then. */
int lull_smooth_create(struct smooth *smooth, const struct lull_pipeline_rounding *rounding,
                       double share);
void lull_smooth_destroy(struct smooth *smooth);

/* How fast the price of an operation's time falls as it takes longer, W per ns, above 0. */
double lull_smooth_stiffness(const struct smooth *smooth, uint32_t ladder, double time_ns);

#endif
