/*
 * The operating points of a job (job.h) from many candidates: those that no other beats in time,
 * energy and GPUs, on the lower convex hull of time and energy for each type and number of GPUs, at
 * most LULL_CLUSTER_MAX_POINTS of them.
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_MODEL_OPERATING_POINTS_H
#define LULL_CLUSTER_CORE_MODEL_OPERATING_POINTS_H

#include <stddef.h>
#include <stdint.h>

#include "cluster/core/model/job.h"
#include "cluster/core/model/job_surface.h"

/*
 * Chooses among count > 0 candidates, which are put into another order. The corners of each hull
 * stay, except those that a corner of another hull of the type beats: it needs no more GPUs, time
 * and energy. While more than `most` (> 0) are left, the one is dropped that
 * loses the least area below the line between its neighbours, relative to the time and energy
 * of its hull's fastest point. The fastest point of a hull stays. Operating points come out by
 * time, the fastest first; of equals the one of less energy, then fewer GPUs, then the lower type.
 * Returns how many; points_out has room for most. More hulls (types and numbers of GPUs) than most:
 * those whose fastest operating points are fastest. O(n log n + hull points * (hull points +
 * removed)).
 */
size_t lull_operating_points_choose(struct lull_cluster_point *candidates, size_t count,
                                    size_t most, struct lull_cluster_point *points_out);

/*
 * Finds points that bound all candidates from below: each candidate lies on or above the lower
 * convex hull of the points of its type and number of GPUs, over time and energy, and none of them
 * draws less power than the points' least. Unlike in the choice above, slower points that cost more
 * are kept: a schedule may still prefer them, because a longer run leaves GPUs idle for less time,
 * and because they may fit under a power cap. The fastest and the slowest points of a hull are
 * candidates; others may be merged into one that lies below them and that no job can run at; its
 * energy may be below 0. Bounds use these points. Candidates are sorted, and otherwise stay as they
 * are; at most 36 types and numbers of GPUs. points_out: room for LULL_CLUSTER_RELAXED_POINTS.
 * Returns how many. O(n log n).
 */
size_t lull_operating_points_relax(struct lull_cluster_point *candidates, size_t count,
                                   struct lull_cluster_point *points_out);

/* One type of GPU that a job could run on. */
struct lull_job_offer {
    struct lull_job_surface surface; /* of the job on this type */
    uint32_t type;                   /* of the cluster */
};

enum { LULL_JOB_MAX_CANDIDATES = 4096 };

/*
 * Lists the operating points of all offers, numbers of GPUs (each > 0) and clocks; numbers that an
 * offer's table of rates lacks are left out. step: every step-th clock is looked at (1: all), and
 * always the highest. The same clock for all GPUs; candidates_out: room for
 * LULL_JOB_MAX_CANDIDATES, and clocks beyond are left out. Returns how many; 0: none is possible.
 */
size_t lull_operating_points_list(const struct lull_job_offer *offers, size_t offer_count,
                                  const uint32_t *gpus, size_t gpus_count, uint32_t step,
                                  struct lull_cluster_point *candidates_out);

/* ---- relative to the run time ---------------------------------------------------------------- */

/* Operating points relative to a job's time: jobs that differ only in their number of iterations
 * share them, so that they are made once. */
struct lull_job_points {
    uint32_t count;
    struct {
        uint32_t sm_mhz;     /* 0: a plan's clocks */
        double time_ratio;   /* to the fastest, which is the first: 1 */
        double energy_w;     /* of all GPUs, over the time of the fastest */
        float exposed_ratio; /* as of an operating point */
        float waiting_w;
    } all[LULL_CLUSTER_MAX_POINTS];
};

/* Those of count > 0 candidates of one iteration, all on as many GPUs of one type, that
 * lull_operating_points_choose() keeps, and those of lull_operating_points_relax(); candidates are
 * put into another order. */
void lull_job_points_choose(struct lull_cluster_point *candidates, size_t count,
                            struct lull_job_points *chosen_out,
                            struct lull_job_points *relaxed_out);

/*
 * The operating points of a job on so many GPUs of a type that runs for time_ns in the fastest of
 * them; points_out: room for LULL_CLUSTER_MAX_POINTS. Returns how many: those whose time is in
 * range.
 */
uint32_t lull_job_points_make(const struct lull_job_points *points, int64_t time_ns, uint32_t type,
                              uint32_t gpus, struct lull_cluster_point *points_out);

#endif
