/*
 * A node in virtual time, or several of one job: a play on emulated GPUs, managed by the same
 * decisions that `lull run` makes. What takes a job minutes takes seconds here, without the noise
 * of a machine.
 *
 * The controller, the gap maps and the physics are the real ones; the driver is that of driver.h.
 * The wire and lulld are not simulated.
 *
 * Deterministic. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_NODE_H
#define LULL_SIMULATOR_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/energy/job_frontier.h"
#include "core/energy/swing.h"
#include "core/section/controller/controller.h"
#include "emulator/gpu_model.h"
#include "emulator/player/play.h"
#include "simulator/course.h"

enum { LULL_SIMULATION_NODES = 8 }; /* at most */

struct lull_simulation_options {
    const struct lull_play *play; /* a finished play */
    const struct lull_gpu_model *model;
    uint64_t periods;  /* number of periods of the play, > 0 */
    uint64_t measured; /* number of each rank's last periods that count, 1..periods */
    uint64_t swings;   /* in how many of them swings of power are read; 0: in all measured ones */
    bool managed;      /* false: the highest clock holds throughout */
    bool exposure;     /* compute kernels are recorded, as in a CUPTI window */
    struct lull_controller_config control;
    int64_t look_ns; /* interval of reading a clock back (driver.h); 0: the driver reports it */
    uint64_t seed;   /* of the driver's latencies; control.seed is that of the trials */
    uint32_t nodes;  /* that share the ranks, in their order; 0 represents 1, and a number above the
                      * ranks or LULL_SIMULATION_NODES counts  as that limit. With several nodes the
                      * results of decisions  are those of the first */
    int64_t way_ns;  /* mean time of a message from one node to another... */
    uint32_t lost_every;  /* ...and one in this many is lost; 0: none is */
    uint32_t steps_below; /* of an unmanaged run: the highest clock is this many steps lower */
    double limit_w;       /* power limit of all GPUs; 0: the model's own */
    bool offers_profile;  /* the GPUs' power profile Max-Q may be requested; needs frontier */
    /* Called when a rank begins a period, with the clock of its GPU; NULL: no callback. */
    void (*watch)(void *context, uint32_t rank, uint64_t period, double sm_mhz);
    void *watch_context;
    struct lull_simulation_course *course; /* takes when periods begin; NULL: not recorded */
    struct lull_job_frontier *frontier;    /* of the trials in a managed run; NULL: not collected */
};

struct lull_simulation_outcome {
    /* Means of one measured period. */
    double period_ms; /* mean over the ranks, which differ if they do not wait for each other */
    double rank_period_ms[LULL_PLAY_RANKS];
    double energy_j;   /* sum over the GPUs */
    double late_ratio; /* share of iterations in which a compute kernel began on a lowered clock */
    uint64_t calls;    /* number of driver calls in the whole run */
    uint64_t settled_in; /* first period, from 1, after the end of the search that could change the
                          * accepted clocks; 0: the search has not ended */
    double unevenness_ratio; /* of rank 0's periods: see lull_controller_unevenness */
    bool keeps;              /* something is lowered and proven at the end */
    bool has_profile;        /* the power profile was tested */
    bool keeps_profile;      /* it was kept */
    enum lull_settle_reason profile_reason; /* the reason for that, or against it */
    struct lull_profile_saving profile_saving;
    double steady_mhz;  /* the accepted clock of whole iterations; the highest clock if none is
                         * accepted */
    double below_ratio; /* share of the iterations that run one clock below that one */
    double point_mhz;   /* the lowest clock of all sections; steady_mhz if no section is lowered */
    struct lull_swing swing;        /* of the GPUs' power together, in pieces of a second */
    struct lull_swing_cut given_up; /* for its swings, at the end */
    uint32_t switched;    /* number of the first GPU's sections that are switched in each pass */
    uint64_t kept_others; /* identifies their points (struct lull_controller_view) */
};

/* Simulates the node. Errors: -EINVAL; -EDEADLK: the ranks of the play deadlock; -ENOMEM. */
int lull_simulate_node(const struct lull_simulation_options *options,
                       struct lull_simulation_outcome *outcome_out, struct lull_error *err);

/* Returns how much longer periods take than in the reference, a simulation of the same play, on the
 * rank that loses most: a guard promises the tolerance to each. */
double lull_simulation_slowdown(const struct lull_simulation_outcome *outcome,
                                const struct lull_simulation_outcome *reference);

#endif
