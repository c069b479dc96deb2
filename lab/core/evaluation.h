/*
 * The accuracy of the models on the kernels of a grid, and the savings of the clocks that they
 * pick. No figure is in-sample: a kernel is predicted without the measurements that it is compared
 * with.
 *
 * A kernel is predicted from its own probes, and from the other kernels of the grid at all points
 * (the device): their power curve, and the errors at similar kernels (similarity.h). The probes are
 * the ends and the middle (grid.h), except for power_ends_error; the prior has none.
 *
 * Pure; memory as said; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_EVALUATION_H
#define LULL_LAB_CORE_EVALUATION_H

#include <stdbool.h>
#include <stdint.h>

#include "lab/core/grid.h"
#include "lab/core/power_model.h"

/* The saving that a picked clock realises. All ratios are of the energy at the base, means over
 * kernels. The clock is found by online.h. */
struct lull_pick_worth {
    double available_ratio; /* savings of the measured optimum; NAN: there is no power */
    double realised_ratio;  /* measured savings of the predicted optimum */
    double kept_ratio;      /* the same, but a pick that exceeds the limit counts as no saving */
    uint32_t slow_kernels;  /* number of kernels whose pick exceeds the limit, as measured */
};

/* Errors of predictions from the counters at the base alone, without
 * measurements at other points, over the points other than the base; NAN:
 * unknown. */
struct lull_prior_worth {
    uint32_t counters; /* number of counters that all kernels have and that distinguish them */
    double time_error;
    double power_error;           /* from the power at the base as well */
    double time_neighbours_error; /* the three nearest kernels alone */
    double power_neighbours_error;
};

/* The prediction from the kernel's own probes and the device's curve
 * (fitted.h), without likeness, and the clock found from it
 * (online.h), at most slowdown_ratio slower than the base. NAN:
 * unknown. */
struct lull_online_worth {
    double time_error;     /* from the kernel's own probes and nothing else */
    double realised_ratio; /* without a limit, as in lull_pick_worth */
    double kept_ratio;     /* within the limit */
    /* Share of kernels whose interval contains the measured optimum within the limit (clocks
     * between the measured ones included), and mean width of the intervals as a share of all
     * clocks. */
    double inside_ratio;
    double width_ratio;
};

/* Errors are means over kernels of the mean of |predicted / measured - 1| over the points other
 * than probes; NAN if there are none. */
struct lull_evaluation {
    double time_error; /* with the device known */
    double power_error;
    double power_ends_error; /* from probes at the ends */
    struct lull_prior_worth prior;
    struct lull_online_worth online;
    struct lull_pick_worth pick;
    struct lull_pick_worth pick_within; /* at most slowdown_ratio slower than the base */
};

/* The two parts of the evaluation in separate files. curves: the grid's
 * curves without each kernel with power, followed by that of all kernels. Return 0, or -ENOMEM,
 * which leaves the output unchanged. */
int lull_evaluate_prior(const struct lull_grid *grid, struct lull_prior_worth *worth_out);
int lull_evaluate_online(const struct lull_grid *grid, const struct lull_power_curve *curves,
                         double slowdown_ratio, struct lull_online_worth *worth_out);

/* Evaluates a grid. Returns 0, or -ENOMEM, which leaves *evaluation_out unchanged. O(kernels^3
 * points). */
int lull_evaluate(const struct lull_grid *grid, double slowdown_ratio,
                  struct lull_evaluation *evaluation_out);

#endif
