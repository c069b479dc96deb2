/*
 * The measurements of the kernels of one GPU, as a grid: the same operating points (SM clock,
 * memory clock) for each kernel, with the time of a launch and the mean power of the board.
 *
 * A requested clock may differ from the actual clock. A kernel cannot get slower by more than its
 * clocks do, so a row whose time has grown by more than the SM clock has fallen shows that the
 * driver set a lower one; its clock is then left out for all kernels, because those that wait for
 * memory cannot show it. But a kernel that follows the clock elsewhere and takes as long as this
 * clock explains proves that it was set: where at least as many kernels prove it, the slow rows
 * were disturbed, and only they are left out. (Rule and margin: on 3,905 measured rows of four GPUs
 * it finds three clocks of a V100 and nothing else; docs/research/measurements/models.md.) And
 * where the boost ends below the highest clocks, all kernels gain less there than the clocks
 * predict: those clocks are left out as well.
 *
 * Pure; memory as said; any thread, one at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_GRID_H
#define LULL_LAB_CORE_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LULL_GRID_KERNELS = 256,    /* of a set, at most */
    LULL_GRID_POINTS = 256,     /* of a grid, at most */
    LULL_GRID_ROW_CLOCKS = 256, /* SM clocks that can be found unhonoured, at most */
    LULL_GRID_PROBES = 5,       /* points that a kernel is fitted from, at most */
    LULL_GRID_COUNTERS = 20,    /* performance counters of a row */
};

/* One row of a measurement. */
struct lull_grid_row {
    uint32_t kernel; /* 0.. */
    double sm_mhz;   /* as requested; > 0 */
    double mem_mhz;  /* > 0 */
    double time_ms;  /* of a launch; > 0 */
    double power_w;  /* mean; > 0, or NAN: not measured */
    bool is_valid;   /* false: marked as unusable in the data set */
    /* LULL_GRID_COUNTERS values, NAN: not measured; the maker's. Null: none was. */
    double *counters;
};

struct lull_grid_point {
    double sm_mhz;
    double mem_mhz;
    double sm_ratio; /* of the base's clock */
    double mem_ratio;
};

struct lull_unhonoured {
    double sm_mhz;
    uint32_t kernels; /* that show it */
    uint32_t proofs;  /* kernels that confirm the clock; fewer */
};

struct lull_grid {
    uint32_t point_count;
    struct lull_grid_point *points; /* by SM clock, then memory clock, rising */
    uint32_t base;                  /* the point to which savings are relative */
    uint32_t kernel_count;
    uint32_t powered_count; /* the first so many kernels have power at all points */
    uint32_t *kernels;      /* the rows' number of each kernel */
    double *time_ms;        /* kernel_count x point_count */
    double *power_w;        /* powered_count x point_count */
    /* kernel_count x LULL_GRID_COUNTERS: performance counters at the base; NAN: not measured */
    double *counters;
    uint32_t left_out;      /* kernels that lack a point of the grid */
    double short_mhz;       /* this and higher clocks are not reached; 0: all are */
    uint32_t short_kernels; /* that show it */
    uint32_t disturbed; /* rows that are slower than a clock confirmed by other kernels permits */
    uint32_t unhonoured_count;
    struct lull_unhonoured unhonoured[LULL_GRID_ROW_CLOCKS]; /* by clock, rising */
};

enum lull_grid_result {
    LULL_GRID_MADE,
    LULL_GRID_NO_MEMORY,
    LULL_GRID_NO_POINTS,       /* no two points are shared by more than half of the kernels */
    LULL_GRID_TOO_MANY_POINTS, /* more than LULL_GRID_POINTS */
    LULL_GRID_TOO_MANY_KERNELS,
};

/*
 * Makes the grid of one set: its points are those that more than half of the kernels have, its
 * kernels those that have all of them. Of rows of the same kernel and point the first counts.
 * The base is the point nearest to (base_sm_mhz, base_mem_mhz) by the ratios of clocks; either
 * may be 0, for the highest of the grid. Free with lull_grid_fini; on failure only the unhonoured
 * clocks are kept.
 */
enum lull_grid_result lull_grid_make(const struct lull_grid_row *rows, size_t row_count,
                                     double base_sm_mhz, double base_mem_mhz,
                                     struct lull_grid *grid_out);
void lull_grid_fini(struct lull_grid *grid);

/* The kernel's values at all points. */
const double *lull_grid_times(const struct lull_grid *grid, uint32_t kernel);
const double *lull_grid_powers(const struct lull_grid *grid, uint32_t kernel);

/* Returns whether the grid has more than one memory clock. */
bool lull_grid_has_mem_axis(const struct lull_grid *grid);

/* The points to probe, rising: the ends of the clocks (both ends of one axis, the four corners of
 * two), and the middle (the upper one of an even number of clocks). On a grid with gaps the nearest
 * points represent them. Returns how many, 1..LULL_GRID_PROBES. */
uint32_t lull_grid_probe_ends(const struct lull_grid *grid, uint32_t *probes_out);
uint32_t lull_grid_probe_middle(const struct lull_grid *grid, uint32_t *probes_out);

#endif
