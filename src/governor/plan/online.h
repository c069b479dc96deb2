/*
 * Online: profiles the pipeline of a running job, plans its clocks, and has the plan tried. For a
 * while whole iterations run with all GPUs at one clock, chosen by
 * core/pipeline/follow/profiling.h; then a plan is made of what was measured, which the plan
 * runner executes like any other.
 *
 * The plan assumes the switching costs that the plan controller has measured.
 *
 * Energies are of whole iterations, for counters are coarse: what a stage draws while it computes
 * is its iteration's energy less the blocking power while it waits, over the time that it computes;
 * forward and backward are taken to draw the same. Lengths are from sections, which the program
 * must report.
 *
 * Threads: create, tick and destroy belong to the main thread; tick takes the control's lock.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_PLAN_ONLINE_H
#define LULL_GOVERNOR_PLAN_ONLINE_H

#include "core/pipeline/follow/profiling.h"
#include "governor/control/control.h"
#include "governor/plan/plan_runner.h"

enum { LULL_ONLINE_MAX_CLOCKS = 48 };

struct lull_online_options {
    const char *schedule; /* as core/pipeline/schedule/schedule.h parses it */
    uint32_t stages;      /* 0: as many as there are GPUs */
    uint32_t microbatches;
    enum lull_profiling_method method;
    uint32_t clocks;   /* how many are tried at most, evenly spread; 0: LULL_ONLINE_MAX_CLOCKS */
    double blocking_w; /* what a waiting GPU draws, > 0 */
};

struct lull_online;

/* The clocks that are tried are those of gpu, from its highest down to half of that. Errors: those
 * of the schedule; LULL_E_UNSUPPORTED the GPU has no clocks to choose from; -ENOMEM. */
int lull_online_create(const struct lull_online_options *options,
                       const struct lull_device_info *gpu, uint32_t gpu_count,
                       struct lull_online **online_out, struct lull_error *err);
void lull_online_destroy(struct lull_online *online);

/* Returns the plans that the plan runner is created with: the first one holds the order of
 * operations alone, and the place behind it gets the plan that is made. */
const struct lull_plan_file *lull_online_plans(const struct lull_online *online);

/* Takes new measurements and performs the next step; call it every 100 ms. note_out is set if there
 * is a message for the user; otherwise its code is 0. */
void lull_online_tick(struct lull_online *online, struct lull_control *control,
                      struct lull_plan_runner *runner, struct lull_error *note_out);

/* Returns how many iterations have been profiled, and whether the plan is made. */
uint32_t lull_online_iterations(const struct lull_online *online, bool *is_done_out);

/* Writes the profile into the directory as lull plan reads it, unless profiling has not ended.
 * Errors: -errno with the path. */
int lull_online_write_profile(const struct lull_online *online, const char *directory,
                              struct lull_error *err);

#endif
