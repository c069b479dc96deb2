/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/frontier/state.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"

/* The finest unit of flow: a nanowatt. */
static const double finest_w = 1e-9;

/* All flow together may add up to this much, so that no sum overflows int64_t. */
static const double max_flow = 4e18;

/* Watts saved by the hull's segment from one operating point to a slower one. */
static double curve_build_slope_w(const struct lull_pipeline_point *fast,
                                  const struct lull_pipeline_point *slow, double blocking_w)
{
    return (lull_pipeline_effective_nj(fast, blocking_w) -
            lull_pipeline_effective_nj(slow, blocking_w)) /
           (double)(slow->time_ns - fast->time_ns);
}

/* The steepest segment of a class, 0 if it has a single corner. */
static double steepest_w(const struct lull_pipeline_class *operations, double blocking_w)
{
    uint32_t corner[LULL_PIPELINE_MAX_OPTIONS];

    if (lull_pipeline_pareto(operations, blocking_w, true, corner) < 2)
        return 0.0;
    return curve_build_slope_w(&operations->points[corner[0]], &operations->points[corner[1]],
                               blocking_w);
}

/*
 * Fills the curve, slowest corner first. Corners whose threshold would not rise, after rounding to
 * units of flow, are left out: they lie on the line between their neighbours.
 */
static void fill_curve(struct lull_frontier_curve *curve,
                       const struct lull_pipeline_class *operations, double unit_w)
{
    uint32_t corner[LULL_PIPELINE_MAX_OPTIONS];
    size_t count = lull_pipeline_pareto(operations, curve->blocking_w, true, corner);
    const struct lull_pipeline_point *slow = &operations->points[corner[--count]];

    curve->slow_nj = lull_pipeline_effective_nj(slow, curve->blocking_w);
    curve->length_ns[0] = slow->time_ns;
    curve->steps = 0;
    while (count-- > 0) {
        const struct lull_pipeline_point *fast = &operations->points[corner[count]];
        const int64_t threshold =
            llround(curve_build_slope_w(fast, slow, curve->blocking_w) / unit_w);

        if (threshold > (curve->steps > 0 ? curve->threshold[curve->steps - 1] : 0))
            curve->threshold[curve->steps++] = threshold;
        assert(fast->time_ns < slow->time_ns);
        curve->length_ns[curve->steps] = fast->time_ns;
        slow = fast;
    }
}

/* Makes a curve that has room for its corners; they are filled in once the unit of flow is known.
 * */
static int make_curve(struct lull_frontier_curves *curves,
                      const struct lull_pipeline_problem *problem, uint32_t class_index,
                      double blocking_w)
{
    const struct lull_pipeline_class *operations = &problem->profile->classes[class_index];
    struct lull_frontier_curve curve = {.class_index = class_index, .blocking_w = blocking_w};

    curve.length_ns =
        lull_memory_take(&curves->memory, operations->point_count, sizeof(*curve.length_ns));
    curve.threshold =
        lull_memory_take(&curves->memory, operations->point_count, sizeof(*curve.threshold));
    if (curves->memory.has_failed ||
        lull_array_grow(&curves->all, curves->count, sizeof(*curves->all)) < 0)
        return -ENOMEM;
    curves->all[curves->count++] = curve;
    return 0;
}

/* The curve of a class at a blocking power; -1 if there is none yet. */
static int64_t curve_build_find(const struct lull_frontier_curves *curves,
                                const uint32_t *first_of_class, uint32_t class_index,
                                double blocking_w)
{
    for (size_t i = first_of_class[class_index]; i < curves->count; i++) {
        const struct lull_frontier_curve *curve = &curves->all[i];

        if (curve->class_index == class_index && curve->blocking_w >= blocking_w &&
            curve->blocking_w <= blocking_w)
            return (int64_t)i;
    }
    return -1;
}

/* Gives every operation its curve, still without corners. *max_w_out: what all flow together can
 * be. */
static int curve_build_assign(struct lull_frontier_curves *curves,
                              const struct lull_pipeline_problem *problem, uint32_t *first_of_class,
                              double *max_w_out)
{
    const struct lull_pipeline_graph *graph = problem->graph;

    *max_w_out = 0.0;
    for (size_t i = 0; i < problem->profile->class_count; i++)
        first_of_class[i] = UINT32_MAX;
    for (size_t place = 0; place < graph->op_count; place++) {
        const struct lull_pipeline_op *op = &graph->ops[graph->topological[place]];
        const double blocking_w = problem->blocking_w[op->device];
        int64_t found = curve_build_find(curves, first_of_class, op->class_index, blocking_w);

        if (found < 0) {
            found = (int64_t)curves->count;
            if (first_of_class[op->class_index] == UINT32_MAX)
                first_of_class[op->class_index] = (uint32_t)found;
            if (make_curve(curves, problem, op->class_index, blocking_w) != 0)
                return -ENOMEM;
            curves->all[found].steepest_w =
                steepest_w(&problem->profile->classes[op->class_index], blocking_w);
        }
        curves->of_op[place] = (uint32_t)found;
        *max_w_out += curves->all[found].steepest_w;
    }
    return 0;
}

static int check_blocking(const struct lull_pipeline_problem *problem, struct lull_error *err)
{
    for (uint32_t device = 0; device < problem->graph->device_count; device++) {
        if (!(problem->blocking_w[device] >= 0.0) || isinf(problem->blocking_w[device]))
            return lull_error_set(err, -EINVAL,
                                  "blocking power of device %" PRIu32 " is %g W, not 0 or above",
                                  device, problem->blocking_w[device]);
    }
    return 0;
}

/* The unit of flow is made coarser where all flow together would leave int64_t; only then can
 * thresholds be rounded to it. */
int lull_curves_init(struct lull_frontier_curves *curves,
                     const struct lull_pipeline_problem *problem, struct lull_error *err)
{
    uint32_t *first_of_class;
    double most_w;
    int status = check_blocking(problem, err);

    *curves = (struct lull_frontier_curves){.unit_w = finest_w};
    if (status != 0)
        return status;
    curves->of_op =
        lull_memory_take(&curves->memory, problem->graph->op_count, sizeof(*curves->of_op));
    first_of_class = malloc(problem->profile->class_count * sizeof(*first_of_class));
    status = -ENOMEM;
    if (curves->of_op != NULL && first_of_class != NULL)
        status = curve_build_assign(curves, problem, first_of_class, &most_w);
    free(first_of_class);
    if (status != 0)
        return lull_error_set(err, -ENOMEM, "no memory for the frontier");
    if (most_w / finest_w > max_flow)
        curves->unit_w = most_w / max_flow;
    for (size_t i = 0; i < curves->count; i++)
        fill_curve(&curves->all[i], &problem->profile->classes[curves->all[i].class_index],
                   curves->unit_w);
    return 0;
}

void lull_curves_fini(struct lull_frontier_curves *curves)
{
    free(curves->all);
    lull_memory_free(&curves->memory);
    *curves = (struct lull_frontier_curves){.count = 0};
}

double lull_curve_energy_nj(const struct lull_frontier_curve *curve, double unit_w,
                            int64_t length_ns)
{
    double energy_nj = curve->slow_nj;

    for (uint32_t i = 0; i < curve->steps && length_ns < curve->length_ns[i]; i++) {
        const int64_t faster_ns = lull_later_ns(length_ns, curve->length_ns[i + 1]);

        energy_nj +=
            (double)curve->threshold[i] * unit_w * (double)(curve->length_ns[i] - faster_ns);
    }
    return energy_nj;
}
