/*
 * Inside online; shared by online.c (what is measured, and when) and online_plan.c (what is planned
 * of it). No other process includes this. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_PLAN_ONLINE_STATE_H
#define LULL_GOVERNOR_PLAN_ONLINE_STATE_H

#include "governor/plan/online.h"

/* Each clock is profiled for so many iterations, and so many useless iterations in a row end the
 * profiling. */
enum { EACH = 6, PATIENCE = 40 };

/* The plans: the order of operations alone, and what is made of the profile. */
enum { ORDER, PLAN, PLANS };

struct lull_online {
    struct lull_online_options options;
    uint32_t devices;
    uint32_t clock_count;
    uint32_t points[LULL_ONLINE_MAX_CLOCKS]; /* indices into the GPU's clock list */
    uint32_t mhz[LULL_ONLINE_MAX_CLOCKS];
    struct lull_profiling *profiling;
    double iteration_ms[LULL_ONLINE_MAX_CLOCKS]; /* of the latest iteration at each clock */
    int32_t held;      /* the clock that all GPUs are held at; -1: none yet */
    size_t seen;       /* recorded iterations that were looked at */
    uint32_t useless;  /* number of consecutive useless iterations up to the latest one */
    bool is_disturbed; /* the latest of them was slowed by heat or by an error of a driver */
    bool is_done;
    struct lull_plan_file plans[PLANS];
    struct lull_pipeline_problem problem; /* the planner's problem, once there is a profile */
};

/* Builds a plan's graph from a profile of the stages, by the schedule that was requested, and room
 * for its options. Errors: those of the schedule; -ENOMEM. */
int lull_online_build_plan(const struct lull_online *online,
                           const struct lull_pipeline_profile *profile, struct lull_plan_file *plan,
                           struct lull_error *err);

/* Makes the plan of what was profiled, which takes switching into account. Errors: those of the
 * schedule and of the planner; -ENOMEM. */
int lull_online_make_plan(struct lull_online *online,
                          const struct lull_pipeline_switching *switching, struct lull_error *err);

#endif
