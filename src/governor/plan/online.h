/*
 * Profiles the pipeline of a running job, plans its clocks, and has the plan tried. During
 * profiling all GPUs run whole iterations at one clock, which core/pipeline/follow/profiling.h
 * chooses. Then a plan is made from the measurements, and the plan runner executes it like any
 * other plan.
 *
 * The plan assumes the switching costs that the plan controller has measured.
 *
 * Energies are measured over whole iterations, because counters are coarse. The power of a
 * computing stage is its iteration's energy less the energy of its waiting time at blocking power,
 * divided by its computing time. Forward and backward are assumed to draw the same power. Durations
 * come from sections, which the program must report.
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
    uint32_t clocks; /* maximum number of clocks tried, evenly spread; 0: LULL_ONLINE_MAX_CLOCKS */
    double blocking_w; /* power of a waiting GPU, > 0 */
};

struct lull_online;

/* Tries the clocks of gpu from its highest down to half of that. Errors: those
 * of the schedule; LULL_E_UNSUPPORTED the GPU has no clocks to choose from; -ENOMEM. */
int lull_online_create(const struct lull_online_options *options,
                       const struct lull_device_info *gpu, uint32_t gpu_count,
                       struct lull_online **online_out, struct lull_error *err);
void lull_online_destroy(struct lull_online *online);

/* Returns the plans that the plan runner is created with: the first one contains only the order of
 * operations; the plan is stored in the element after it. */
const struct lull_plan_file *lull_online_plans(const struct lull_online *online);

/* Takes new measurements and performs the next step; call it every 100 ms. note_out is set if there
 * is a message for the user; otherwise its code is 0. */
void lull_online_tick(struct lull_online *online, struct lull_control *control,
                      struct lull_plan_runner *runner, struct lull_error *note_out);

/* Returns the number of profiled iterations; returns whether the plan is complete. */
uint32_t lull_online_iterations(const struct lull_online *online, bool *is_done_out);

/* Writes the profile into the directory, in the format of lull plan. Does nothing before the end of
 * profiling. Errors: -errno with the path. */
int lull_online_write_profile(const struct lull_online *online, const char *directory,
                              struct lull_error *err);

#endif
