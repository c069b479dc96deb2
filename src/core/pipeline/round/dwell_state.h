/*
 * Private to dwell (dwell.c, dwell_search.c, dwell_stretches.c, dwell_time.c): a plan judged under
 * switching. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ROUND_DWELL_STATE_H
#define LULL_CORE_PIPELINE_ROUND_DWELL_STATE_H

#include <stdbool.h>

#include "core/pipeline/round/dwell.h"

/* A device's clock on its way. */
struct clock_state {
    uint32_t low_mhz;    /* what it may still be at the worst, until settled_ns */
    uint32_t target_mhz; /* 0: the device has no operation with a clock */
    int64_t settled_ns;
    int64_t end_ns; /* of the operation before */
    int64_t first_command_ns;
    int64_t last_command_ns;
    size_t commands;
};

struct verdict {
    int64_t time_ns;
    int64_t short_ns; /* what is missing to the dwell, all changes together */
    size_t switches;
};

/* dwell_time.c. Walks through an iteration; clocks: device_count; end_ns: op_count; begin_ns may be
 * NULL. */
struct verdict lull_dwell_walk(const struct lull_pipeline_problem *problem,
                               const struct lull_pipeline_switching *switching,
                               const uint32_t *option, int64_t period_ns,
                               struct clock_state *clocks, int64_t *begin_ns, int64_t *end_ns);

/* The option of an operation's class at a clock; UINT32_MAX: none. */
uint32_t lull_dwell_option_at(const struct lull_pipeline_class *class, uint32_t mhz);

/* The one at the next clock below, or the lowest, if the class lacks this one. */
uint32_t lull_dwell_option_below(const struct lull_pipeline_class *class, uint32_t mhz);

/* dwell_energy.c. What operations, which end at end_ns, need more for clocks on their way; one
 * iteration takes period_ns. 0 unless it is fed forward. device_nj_out: of each device; may be
 * NULL. O(n). */
double lull_dwell_switching_nj(const struct lull_pipeline_problem *problem,
                               const struct lull_pipeline_switching *switching,
                               const uint32_t *option, const int64_t *end_ns, int64_t period_ns,
                               double *device_nj_out);

struct search {
    const struct lull_pipeline_problem *problem;
    const struct lull_pipeline_switching *switching;
    int64_t deadline_ns;
    struct clock_state *clocks;
    int64_t *end_ns;
    uint32_t *plan;
    uint32_t *trial;
    uint32_t *best;
    uint64_t walks_left;
    /* Of plan. */
    double cost_nj;      /* effective energy, switching and changes */
    double switching_nj; /* of them: clocks on their way and changes */
    double *device_nj;   /* clocks on their way, of each device */
    double *trial_nj;
    int64_t excess_ns; /* over the deadline and under the dwell; 0: the plan is good */
    /* Of best, and how wrong the least wrong plan was. */
    double least_nj;
    int64_t wrong_ns;
};

/* dwell_search.c. -ENOMEM, said in err; end frees what there is in any case. */
int lull_dwell_begin(struct search *search, const struct lull_pipeline_problem *problem,
                     struct lull_error *err);
void lull_dwell_end(struct search *search);

struct verdict lull_dwell_verdict(struct search *search, const uint32_t *option);
double lull_dwell_plan_nj(const struct search *search, const uint32_t *option);

/* Cost and excess of search->plan. */
void lull_dwell_judge(struct search *search);

/* Searches from search->plan; a good plan that is the cheapest so far goes to best. */
void lull_dwell_consider(struct search *search);

/* dwell_priced.c. Replaces search->plan by the cheapest one if time costs price_w on every
 * operation, changes of clock included; pauses are those of the plan that it replaces. -ENOMEM. */
int lull_dwell_price(struct search *search, const double *price_w);

/* From one clock for each device, as low as the deadline allows. */
void lull_dwell_consider_uniform(struct search *search);

/* dwell_stretches.c. From stretches of one clock, no shorter than the dwell, that prices of time on
 * the critical paths ask for; option: where the prices begin; quick: an eighth of the work. Nothing
 * where memory or work would be too much. */
void lull_dwell_consider_stretches(struct search *search, const uint32_t *option, bool quick);

#endif
