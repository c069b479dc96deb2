/*
 * Declarations shared by the files of switching.h: a plan judged under switching, and the search
 * for better ones.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_SWITCHING_SWITCHING_STATE_H
#define LULL_CORE_PIPELINE_SWITCHING_SWITCHING_STATE_H

#include <stdbool.h>

#include "base/array.h"
#include "core/pipeline/switching/switching.h"

/* A device's clock on its way through an iteration. */
struct lull_switching_clock_state {
    uint32_t low_mhz;    /* the lowest clock that it may have until settled_ns */
    uint32_t target_mhz; /* 0: the device has no operation with a clock */
    int64_t settled_ns;
    int64_t end_ns; /* when the operation before ends */
    int64_t first_command_ns;
    int64_t last_command_ns;
    size_t commands;
};

struct lull_switching_verdict {
    int64_t time_ns;
    int64_t short_ns; /* by how much changes come before the dwell is over, all together */
    size_t switches;
};

/* switching_time.c. Walks through an iteration. clocks has device_count places, begin_ns and end_ns
 * op_count; begin_ns may be null. */
struct lull_switching_verdict lull_switching_walk(const struct lull_pipeline_problem *problem,
                                                  const struct lull_pipeline_switching *switching,
                                                  const uint32_t *point, int64_t period_ns,
                                                  struct lull_switching_clock_state *clocks,
                                                  int64_t *begin_ns, int64_t *end_ns);

/* The operating point of a class at a clock; if it lacks this clock, the one at the next lower, or
 * at the lowest. */
uint32_t lull_switching_point_below(const struct lull_pipeline_class *class, uint32_t mhz);

/* Energy cost, nJ, of running an operation at a higher clock than its operating point's for this
 * long, at most for as long as it takes at that clock; 0 for no time. */
double lull_switching_stray_nj(const struct lull_pipeline_problem *problem, uint32_t op,
                               uint32_t point, uint32_t mhz, int64_t time_ns);

/* switching_energy.c. Additional energy of operations because clocks are on their way; 0 unless
 * switching is fed forward. device_nj_out receives each device's share and may be null. O(n). */
double lull_switching_switching_nj(const struct lull_pipeline_timed_plan *plan,
                                   double *device_nj_out);

struct lull_switching_search {
    const struct lull_pipeline_problem *problem;
    const struct lull_pipeline_switching *switching;
    int64_t deadline_ns;
    struct lull_switching_clock_state *clocks;
    int64_t *end_ns;
    uint32_t *plan;
    uint32_t *trial;
    uint32_t *best;
    struct lull_memory memory; /* of all arrays */
    uint64_t walks_left;       /* number of plans that may still be walked through */

    /* Properties of `plan`. */
    double cost_nj;      /* effective energy, clocks on their way and changes together */
    double switching_nj; /* clocks on their way and changes alone */
    double *device_nj;   /* clocks on their way, of each device */
    double *trial_nj;    /* the same of `trial` */
    int64_t excess_ns;   /* over the deadline and under the dwell; 0: the plan is good */

    double min_nj;    /* the cost of `best` */
    int64_t wrong_ns; /* the least excess of any plan that was considered */
};

/* switching_search.c. Allocates a search; the caller frees its memory also after an error: -ENOMEM.
 */
int lull_switching_begin(struct lull_switching_search *search,
                         const struct lull_pipeline_problem *problem, struct lull_error *err);

struct lull_switching_verdict lull_switching_verdict(struct lull_switching_search *search,
                                                     const uint32_t *point);
double lull_switching_plan_nj(const struct lull_switching_search *search, const uint32_t *point);

/* Finds the cost and the excess of search->plan. */
void lull_switching_judge(struct lull_switching_search *search);

/* Searches from search->plan; a good plan that is the cheapest so far goes to best. */
void lull_switching_consider(struct lull_switching_search *search);

/* switching_stretches.c. Considers stretches of one clock, no shorter than the dwell, that prices
 * of time on the critical paths request. The prices begin from the plan `operating point`; quick
 * does an eighth of the work. It does nothing where that would take too much memory or work. */
void lull_switching_consider_stretches(struct lull_switching_search *search, const uint32_t *point,
                                       bool quick);

#endif
