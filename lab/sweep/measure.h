/*
 * A visit of a sweep: one kernel at one operating point, from setting it to the row. What is done
 * is decided by lab/core/sweep_point.h. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_MEASURE_H
#define LULL_LAB_SWEEP_MEASURE_H

#include "lab/sweep/load.h"
#include "lab/sweep/rig.h"

/* Further settings of the measurement. */
struct lull_sweep_protocol {
    struct lull_sweep_rules rules;
    double idle_s; /* time that the idle GPU is measured before the sweep */
    double soak_s; /* time that a kernel runs at its point before it is measured */
    double
        warm_s; /* the GPU is warmed up until its temperature has been constant for this time... */
    double warm_max_s; /* ...but no longer than this; 0: not at all */
};

struct lull_sweep_bench {
    const struct lull_sweep_time *time;
    struct lull_sweep_rig *rig;
    struct lull_sweep_load *load;
    const struct lull_sweep_protocol *protocol;
    bool (*is_stopped)(void *context); /* called often; true ends the visit with -EINTR */
    void *context;
    double refresh_s; /* of the energy counter; 0: it has not been measured yet */
};

/* Measures the time between refreshes of the energy counter. It takes some refreshes. */
void lull_sweep_bench_learn_refresh(struct lull_sweep_bench *bench);

/* Measures the idle power of the GPU over some seconds, W. NAN: unknown. Errors: -EINTR; those
 * of the lease. */
int lull_sweep_bench_measure_idle(struct lull_sweep_bench *bench, double seconds,
                                  double *idle_w_out, struct lull_error *err);

/* Runs the started kernel at the setting until the GPU is warm. *took_s_out: how long that took.
 * Errors: those of a visit. */
int lull_sweep_bench_warm_up(struct lull_sweep_bench *bench,
                             const struct lull_sweep_setting *setting, double *took_s_out,
                             struct lull_error *err);

/*
 * Visits a point with the kernel that is started. target->sm_mhz and step_mhz are of the setting. A
 * kernel continues running afterwards, so that the GPU stays warm. Errors: -EINTR; those of the rig
 * and of the runs.
 */
int lull_sweep_bench_visit(struct lull_sweep_bench *bench, const struct lull_sweep_setting *setting,
                           const struct lull_sweep_target *target,
                           struct lull_sweep_result *result_out, struct lull_error *err);

#endif
