/*
 * Jobs on a cluster (job.h, cluster.h), in nanoseconds, relaxed to a problem in slots (slots.h): a
 * lower bound of the relaxed problem is a lower bound of the real one.
 *
 * A slot is L long. An operating point that takes p becomes one of floor(p / L) slots, none if it
 * is shorter than a slot; it may start in the slots floor(arrival / L) to floor((deadline - p) /
 * L), and costs its energy and the completion cost of the earliest start in that slot. A job that
 * has a value need not run (leaving it out costs nothing), and costs its value less if it does.
 *
 * Why it is a bound. Take any real schedule, and let each job of it that starts at s start in slot
 * floor(s / L) instead. A job that then occupies slot t has floor(s / L) <= t, so s < (t + 1) L,
 * and floor(s / L) + floor(p / L) >= t + 1, so s + p >= (t + 1) L: in the real schedule it runs in
 * the last instant before (t + 1) L. So all jobs of slot t run together in that instant, and they
 * fit then, so they fit in the slot. Starts are within their windows since floor is monotone, and
 * no job costs more. Jobs keep their operating points, so mapped schedules are integral: both the
 * integer program and the linear one are bounds.
 *
 * If jobs may be reclocked, a running job may change to any operating point with the same type and
 * number of GPUs, any number of times. It then takes any time between its fastest and its slowest
 * one. The times are divided into parts [a, b]. Each part becomes an operating point of floor(a /
 * L) slots with the least cost of mode_hull.h in [a, b]. A run that takes p in [a, b] occupies the
 * slots of a by the argument above, and costs no less.
 *
 * Ignored conditions can only lower the bound: the nodes of GPUs, networks, failures, idle GPUs. A
 * preemptible job may be paused, which such windows do not cover, and may resume in any operating
 * point. It becomes a job that takes no room and costs as much as the best mixture that fits
 * between arrival and deadline (a program over uninterrupted runs would not bound it: on one GPU a
 * job of 2 slots may run around another that holds slots 1 to 4, in slots 0 and 5).
 *
 * Under a power cap the power of jobs adds up in that instant as well: peaks, if the cap counts
 * those, each above what its GPUs draw at rest (baseline_power.h) and rounded down to watts. For a
 * job that may be reclocked it is the least peak of its possible operating points. The cap is
 * reduced by the rest power of all GPUs.
 *
 * If schedules may end at any time (is_open), a job that starts after the horizon takes no room and
 * costs as much as if it started there, which is less than its real cost.
 *
 * Types of the problem are [pool * type_count + type]. Pure. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_BOUND_SLOT_RELAXATION_H
#define LULL_CLUSTER_CORE_BOUND_SLOT_RELAXATION_H

#include "cluster/core/model/job.h"
#include "cluster/core/model/slots.h"

struct lull_slotting {
    int64_t slot_ns;     /* L > 0 */
    int64_t horizon_ns;  /* > 0: every job ends by then, and by its deadline */
    double completion_w; /* >= 0: J for each second of weighted completion (end - arrival); 0:
                            energy alone */
    int64_t cap_w;       /* limit of the jobs' power above rest_w; LULL_SLOTS_UNCAPPED */
    double peak_ratio;   /* for cap_w: a job draws this many times its mean power; 0: 1 */
    const double
        *rest_w; /* [type] of a GPU, no more than its power at any operating point; NULL: 0 */
    bool is_above_rest; /* operating points cost only the energy above rest_w */
    bool is_open;       /* jobs may end after the horizon, if their deadlines allow */
    bool may_reclock;   /* jobs may change their clocks while they run; otherwise they keep their
                           operating points, and those of the problem are theirs, in order */
};

struct lull_slot_relaxation {
    struct lull_slot_problem problem; /* checked; jobs as given */
    uint32_t *gpus;
    struct lull_slot_job *jobs;
    struct lull_slot_point *points;
};

/*
 * The cluster and the jobs are checked. Operating points that no deadline, no memory or too few
 * GPUs allow are left out. Under a cap, the power of a job's GPU counts as at least the idle_w of
 * its type. Errors: -EINVAL a job that has to run has no operating point left, with its number;
 * -ERANGE more slots than LULL_SLOTS_MOST, or more types than there may be; -ENOMEM. The output is
 * empty then.
 */
int lull_slot_relaxation_create(const struct lull_cluster *cluster,
                                const struct lull_cluster_jobs *jobs,
                                const struct lull_slotting *slotting,
                                struct lull_slot_relaxation *slotted_out, struct lull_error *err);
void lull_slot_relaxation_fini(struct lull_slot_relaxation *relaxation);

#endif
