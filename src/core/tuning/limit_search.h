/*
 * Profiling of operating points on a running job: the next power limit to try (then, the next SM
 * clock under it), for how long, and the best one (Zeus, NSDI'23, section 4.2: just-in-time
 * profiling).
 *
 * Operating points are tried from the highest limit down, and those close to the best, as far as
 * time permits, again on the way up: a cause of higher power for some seconds does not last for
 * both visits. Both visits together show the effect of a GPU temperature that differs from the
 * settled one (limit_visits.h). While there is time and more than one point may be the best, they
 * are visited again, which costs almost nothing near the best.
 *
 * The job's iterations at an operating point come in pieces of whole iterations; a completed piece
 * stays valid, whatever interrupts the job, so short epochs only lose the interrupted piece. A
 * visit ends when
 * - half of slice_s has been measured, or its share of what is left of budget_s (never less than
 * one piece), or
 * - the iteration's time and energy are both known to precision_ratio (Student's 95 % interval over
 *   at least LULL_LIMIT_SEARCH_PIECES pieces), or
 * - it is hopeless: even the near end of its interval is LULL_LIMIT_SEARCH_FAR from the best.
 * Lower operating points are not tried ("pruned") after
 * - one whose value (cost, energy, time, root of the energy-delay product) is 30 % over the best,
 *   or
 * - two that are 5 % over the best (less, down to 2 %, where the intervals are narrower), each
 *   worse than the one before it, and the last one by 8 %: where a limit begins to bind, the
 *   limiter's own loss makes a hump of some percent that lower limits may come down from again, or
 * - with a bound on slowdown: one that passes it by 10 percentage points, or two in a row by 2.
 * If the curves of the GPUs are given, a dominated lower limit is skipped: every job that has the
 * times and powers measured so far is worse there than at the best limit so far by a margin, or
 * exceeds the bound by one (limit_bounds.h). None of them counts if the GPUs still draw within 5 %
 * of what they drew at the first operating point: a limit above the actual power has no effect, so
 * any increase there is noise. The point that ends the way down is confirmed: it and the point that
 * it is compared with are visited again, and it is the last one only if it is still 8 % over the
 * best, or over the bound. A temporary cause of higher cost, such as another program on the
 * machine, has often passed by then. 5 % is above the noise of single slices of 5 s: on the twelve
 * power-limit logs published with Zeus no choice of seven selectors changes. The job must be as
 * warm as it gets (thermal.h): a GPU that warms up on the way down looks ever more expensive, as if
 * no lower limit could pay.
 *
 * Pure; create/destroy; one thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_TUNING_LIMIT_SEARCH_H
#define LULL_CORE_TUNING_LIMIT_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/energy/device_curve.h"
#include "core/tuning/cost.h"
#include "core/tuning/limit_visits.h"
#include "core/stats/moments.h"

#define LULL_LIMIT_SEARCH_FAR 1.3

enum {
    LULL_LIMIT_SEARCH_POINTS = LULL_LIMIT_VISITS_POINTS,
    LULL_LIMIT_SEARCH_PIECES = 4, /* least number of pieces for a valid spread */
};

struct lull_limit_point {
    double limit_w;  /* of each GPU of the job, > 0 */
    uint32_t sm_mhz; /* locked; 0: free under the limit */
};

struct lull_limit_search_config {
    struct lull_job_selector selector;
    double slice_s;         /* of one operating point, down and up, settling aside; > 0 */
    double settle_s;        /* left out after each change, and more (three times as much at most)
                             * until two pieces agree to 1 % in time; >= 0 */
    double budget_s;        /* of the job, for all operating points and their settling; > 0 */
    double precision_ratio; /* at which a visit may end; >= 0 */
    /* Of the job's GPUs, all alike; NULL: not known, and no limit is skipped for what it would do.
     */
    const struct lull_device_curve *curve;
    uint32_t gpu_count; /* whose joules are taken; > 0 with curve */
};

/* Slices of 5 s after 1 s of settling, 100 s in all, precision 0.5 %; cost with eta 0.5 at no
 * power: set it. */
extern const struct lull_limit_search_config lull_limit_search_defaults;

/* The measurement of one operating point. */
struct lull_limit_measure {
    struct lull_limit_point point;
    uint64_t iterations;
    double seconds; /* of these iterations, once the GPUs are as warm as this operating point leaves
                       them */
    double joules;  /* of these iterations, likewise, all GPUs of the job */
    struct lull_moments iteration_s; /* means of the pieces, as they were */
    struct lull_moments iteration_j;
    bool is_done;
};

struct lull_limit_search;

/*
 * points[count] go from the highest limit down, none twice; they are copied. Errors: -EINVAL none,
 * too many, not in order, or a selector out of its range; -ENOMEM.
 */
int lull_limit_search_create(const struct lull_limit_search_config *config,
                             const struct lull_limit_point *points, uint32_t count,
                             struct lull_limit_search **search_out, struct lull_error *err);
void lull_limit_search_destroy(struct lull_limit_search *search);

/* The limits from highest_w down in steps of step_w, lowest_w included; returns how many, at most
 * LULL_LIMIT_SEARCH_POINTS (the steps are widened then). 0 < lowest_w <= highest_w, step_w > 0.
 */
uint32_t lull_limit_search_ladder(double highest_w, double lowest_w, double step_w,
                                  struct lull_limit_point *points_out);

/* The operating point to hold now; null: the search is over. Valid until the next take or refine.
 */
const struct lull_limit_point *lull_limit_search_now(const struct lull_limit_search *search);

/*
 * A piece: whole iterations that ran at the present operating point from end to end. Those of each
 * visit that fall into settling are left out. temperature_c: mean over the job's GPUs at its end;
 * NAN unknown. Ignored unless iterations > 0, seconds > 0 and joules >= 0. True: the operating
 * point to be held has changed, or the search is over.
 */
bool lull_limit_search_take(struct lull_limit_search *search, uint64_t iterations, double seconds,
                            double joules, double temperature_c);

/*
 * Continues, after the end, with locked SM clocks under the best limit: from the highest clock
 * down, pruned alike, against what is best so far, for as long a budget again. Errors: -EINVAL the
 * search is not over, or no room.
 */
int lull_limit_search_refine(struct lull_limit_search *search, const uint32_t *clocks_mhz,
                             uint32_t count, struct lull_error *err);

/* Measured operating points, and of how many all in all; the latter less the former were pruned or
 * skipped in the end. measures[0] is the reference. Borrowed until destroy. */
const struct lull_limit_measure *lull_limit_search_measures(const struct lull_limit_search *search,
                                                            uint32_t *measured_out,
                                                            uint32_t *count_out);

/* A limit that was dominated before it was visited. */
struct lull_limit_skip {
    double limit_w;
    double over_ratio; /* at least so much worse than the best limit then; INFINITY: too slow */
};

/* Returns the limits that were skipped, *count_out of them, in the order in which that was known.
 * Borrowed until destroy. */
const struct lull_limit_skip *lull_limit_search_skips(const struct lull_limit_search *search,
                                                      uint32_t *count_out);

/* Seconds of job time so far, settling included. */
double lull_limit_search_spent_s(const struct lull_limit_search *search);

/*
 * Index of the best of these measures, which may also be those of a stored profile; the first one
 * is the reference for slowdowns. Errors: as lull_job_select.
 */
int lull_limit_choose(const struct lull_job_selector *selector,
                      const struct lull_limit_measure *measures, uint32_t count,
                      uint32_t *index_out, struct lull_error *err);

/* Half of the 95 % interval of a mean over pieces; INFINITY before two of them. */
double lull_limit_half_width(const struct lull_moments *pieces);

#endif
