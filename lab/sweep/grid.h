/*
 * The operating points of a sweep, from the text of --grid and what the GPU has. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_GRID_H
#define LULL_LAB_SWEEP_GRID_H

#include "lab/sweep/rig.h"
#include "lab/core/sweep_order.h"

#define LULL_SWEEP_GRID_EXPECTED                                                                   \
    "axes such as sm=5,limit=3: a number of values, all, auto (sm), or values such as "            \
    "sm=1410/1200/900"

enum {
    LULL_SWEEP_AXIS_VALUES = LULL_DEVICE_MAX_CLOCKS,
    LULL_SWEEP_COARSE = 5, /* SM clocks that an adaptive sweep begins with */
};

/* The request for one axis. */
struct lull_sweep_axis {
    uint32_t count; /* that many values, evenly spread; 0: those in values */
    bool is_all;
    bool is_adaptive; /* of the SM clocks a few at first, then those around the optimum */
    uint32_t value_count;
    uint32_t values[LULL_SWEEP_AXIS_VALUES]; /* MHz or W */
};

struct lull_sweep_axes {
    struct lull_sweep_axis sm;
    struct lull_sweep_axis mem;
    struct lull_sweep_axis limit;
};

/* Sets five SM clocks, and the memory clock and power limit that are in force. */
extern const struct lull_sweep_axes lull_sweep_axes_default;

/* Parses the text of --grid into the axes. Axes that it does not name are unchanged. Errors:
 * -EINVAL, with the part that is wrong. */
int lull_sweep_axes_parse(const char *text, struct lull_sweep_axes *axes, struct lull_error *err);

/* The points, those of the base's power limit first, by rising SM clock. */
struct lull_sweep_points {
    uint32_t count;
    uint32_t line; /* number of points with the base's power limit */
    bool is_adaptive;
    bool has_limits; /* there are points with a lower limit */
    struct lull_sweep_setting *settings;
    double *sm_mhz; /* of the line */
};

/*
 * Makes the points of a GPU, whose memory clock and power limit are these. Errors: -EINVAL a clock
 * or limit that the GPU does not have, too many points; LULL_E_UNSUPPORTED another memory clock, or
 * a power limit that cannot be set; -ENOMEM.
 */
int lull_sweep_points_make(const struct lull_sweep_axes *axes, const struct lull_device_info *info,
                           uint32_t mem_mhz, uint32_t limit_mw,
                           struct lull_sweep_points *points_out, struct lull_error *err);
void lull_sweep_points_fini(struct lull_sweep_points *points);

/* The distance from a clock to its farther neighbour among the GPU's clocks. */
double lull_sweep_step_mhz(const struct lull_device_info *info, uint32_t sm_mhz);

#endif
