/*
 * Jobs on a cluster (job.h, cluster.h), in nanoseconds, as a problem in slots (slots.h) that no
 * schedule of theirs can beat: what bounds the slot relaxation problem from below bounds the real
 * one.
 *
 * A slot is L long. An operating point that takes p becomes one of floor(p / L) slots, none if it
 * is shorter than a slot; it may start in the slots floor(arrival / L) to floor((deadline - p) /
 * L), and costs its energy and what its completion counts if it starts as early as that slot
 * allows. A job that has a value need not run (leaving it out costs nothing), and costs its value
 * less if it does.
 *
 * Why it is a bound. Take any real schedule, and let each job of it that starts at s start in slot
 * floor(s / L) instead. A job that is then in slot t has floor(s / L) <= t, so s < (t + 1) L, and
 * floor(s / L) + floor(p / L) >= t + 1, so s + p >= (t + 1) L: really it runs in the last instant
 * before (t + 1) L. All jobs of slot t so run together in that instant, in which they had room:
 * they have it in the slot. Starts are within their windows since floor is monotone, and no job
 * costs more. Jobs keep their operating points, so that mapped schedules are whole ones: the
 * integer program bounds as well as the linear one.
 *
 * May jobs be reclocked, then one that begins in a type of GPU on so many of them may continue
 * there in another operating point of the same two, as often as it likes, and takes any time
 * between its fastest and its slowest one. The times are cut into parts [a, b]; a part becomes an
 * operating point of floor(a / L) slots that costs the least of mode_hull.h in [a, b]. A run that
 * takes p in [a, b] holds the slots of a by the argument above, and costs no less.
 *
 * Ignored conditions can only lower the bound: the nodes of GPUs, networks, failures, idle GPUs. A
 * preemptible job may run in pieces, which such windows do not cover, and continue in any operating
 * point: it becomes one that takes no room and costs what the best mixture does that fits between
 * arrival and deadline (a program over whole runs would not bound it: on one GPU a job of 2 slots
 * may run around another that holds slots 1 to 4, in slots 0 and 5).
 *
 * Under a power cap the power of jobs adds up in that instant as well: peaks, if the cap counts
 * those, each above what its GPUs draw at rest (baseline_power.h) and rounded down to watts. Of a
 * job that may be reclocked it is the least peak of the operating points that it may be in then.
 * The cap is what is left above that of all GPUs.
 *
 * If schedules may end at any time (is_open), a job that begins after the horizon takes no room,
 * and costs what it would if it began there: less than it does.
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
    int64_t cap_w;       /* of what jobs draw above rest_w; LULL_SLOTS_UNCAPPED */
    double peak_ratio;   /* for cap_w: a job draws this many times its mean power; 0: 1 */
    const double
        *rest_w;        /* [type] of a GPU, no more than any operating point draws of it; NULL: 0 */
    bool is_above_rest; /* operating points cost only what they draw above rest_w */
    bool is_open;       /* jobs may end after the horizon, if their deadlines allow */
    bool may_reclock;   /* jobs may change their clocks as they run; else they keep their operating
                           points, and those of the problem are theirs, in order */
};

struct lull_slot_relaxation {
    struct lull_slot_problem problem; /* checked; jobs as given */
    uint32_t *gpus;
    struct lull_slot_job *jobs;
    struct lull_slot_point *points;
};

/*
 * The cluster and the jobs are checked. Operating points that no deadline, no memory or too few
 * GPUs allow are left out. Types of GPU have idle_w, which a job's GPU is never counted below under
 * a cap. Errors: -EINVAL a job that has to run is left without a operating point, with its number;
 * -ERANGE more slots than LULL_SLOTS_MOST, or more types than there may be; -ENOMEM. The output is
 * empty then.
 */
int lull_slot_relaxation_create(const struct lull_cluster *cluster,
                                const struct lull_cluster_jobs *jobs,
                                const struct lull_slotting *slotting,
                                struct lull_slot_relaxation *slotted_out, struct lull_error *err);
void lull_slot_relaxation_fini(struct lull_slot_relaxation *relaxation);

#endif
