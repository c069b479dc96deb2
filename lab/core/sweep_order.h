/*
 * The order in which a sweep measures its kernels at its operating points.
 *
 * A repeat measures every kernel once at every point that is wanted of it. Kernels come in a random
 * order in each repeat, a kernel's points in a random order as a block, so that drift of any kind
 * does not look like an effect of the clock. The block's base point comes first, after every eighth
 * other point, and last: its scatter is the noise floor. Where the repeats of a point disagree, one
 * more is measured.
 *
 * Grids of many SM clocks may begin coarse: each kernel then gets the clocks between its cheapest
 * one and those neighbours that are nearly as cheap, and around the knee of its power, by
 * bisection.
 *
 * The next visit depends only on the seed and on what has been measured. So a stopped sweep
 * continues where it was once its rows are passed in; the block then begins with its base again.
 *
 * Pure; memory as said; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_SWEEP_ORDER_H
#define LULL_LAB_CORE_SWEEP_ORDER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LULL_SWEEP_KERNELS = 256,   /* at most */
    LULL_SWEEP_POINTS = 4096,   /* at most */
    LULL_SWEEP_REPEATS = 30,    /* at most */
    LULL_SWEEP_GROUP = 8,       /* points between two visits of the base */
    LULL_SWEEP_MAX_REFINED = 8, /* clocks that bisection adds to a kernel, at most */
};

struct lull_sweep_grid {
    uint32_t kernels; /* > 0 */
    uint32_t points;  /* > 0; the first line_points of them differ in their SM clock alone, which
                       * rises: they are at the base's memory clock and power limit */
    uint32_t line_points;
    uint32_t base;             /* a point, the last of the line */
    uint32_t repeats;          /* > 0 */
    bool is_coarse;            /* only `coarse` points of the line are measured at first */
    uint32_t coarse;           /* evenly spread, both ends among them; > 1 */
    double disagreement_ratio; /* scatter of times or powers of the repeats of a point that is too
                                  large */
    uint64_t seed;
};

/* The result of a visit. */
struct lull_sweep_found {
    double time_ms;
    double power_w; /* NAN: not known */
    bool is_valid;  /* false: not used for decisions */
};

struct lull_sweep_visit {
    uint32_t kernel;
    uint32_t point;
    uint32_t repeat; /* from 0 */
};

struct lull_sweep_order; /* opaque */

/* Begins a sweep without measurements. sm_mhz: the clocks of the line, borrowed until the
 * end. NULL: out of memory. */
struct lull_sweep_order *lull_sweep_order_create(const struct lull_sweep_grid *grid,
                                                 const double *sm_mhz);
void lull_sweep_order_destroy(struct lull_sweep_order *order); /* NULL is allowed */

/* Drops a kernel; no more points of it are measured. */
void lull_sweep_order_drop(struct lull_sweep_order *order, uint32_t kernel);

/*
 * Decides what to measure next. False: the sweep is complete. The last visit must have been
 * reported by lull_sweep_order_found, or its kernel dropped. O(kernels x points).
 */
bool lull_sweep_order_next(struct lull_sweep_order *order, struct lull_sweep_visit *visit_out);

/* Records a result, also of the rows of an earlier run of the same sweep. Returns false for a
 * repeat beyond the possible ones, or for an unknown point or kernel. */
bool lull_sweep_order_found(struct lull_sweep_order *order, const struct lull_sweep_visit *visit,
                            const struct lull_sweep_found *found);

/* Restarts the present block, as after an interruption: the base is measured first. */
void lull_sweep_order_interrupt(struct lull_sweep_order *order);

/* Returns the number of remaining visits by the current plan, visits of the base included. */
uint64_t lull_sweep_order_left(const struct lull_sweep_order *order);

#endif
