/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/curves.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "lab/core/nnls.h"

static bool has_same_limit(const struct lull_sweep_row *a, const struct lull_sweep_row *b)
{
    return (isnan(a->limit_set_w) && isnan(b->limit_set_w)) || a->limit_set_w == b->limit_set_w;
}

static bool is_of(const struct lull_sweep_row *row, const struct lull_sweep_curve *curve)
{
    const struct lull_sweep_row *const first = curve->first;

    return strcmp(row->kernel, first->kernel) == 0 && strcmp(row->arg, first->arg) == 0 &&
           strcmp(row->suite, first->suite) == 0 && strcmp(row->unit, first->unit) == 0 &&
           row->mem_set_mhz == first->mem_set_mhz && has_same_limit(row, first);
}

/* Finds the curve of a row, new or known. Rows of a kernel come in blocks, so that the search
 * begins with the latest. NULL: out of memory. */
static struct lull_sweep_curve *sweep_curve_find(struct lull_sweep_curves *curves,
                                                 const struct lull_sweep_row *row)
{
    for (size_t i = curves->count; i-- > 0;)
        if (is_of(row, &curves->curves[i]))
            return &curves->curves[i];
    if (lull_array_grow(&curves->curves, curves->count, sizeof(*curves->curves)) < 0)
        return NULL;
    curves->curves[curves->count] = (struct lull_sweep_curve){.first = row};
    return &curves->curves[curves->count++];
}

/* Finds the point of a clock, new or known, and keeps the points in order. NULL: out
 * of memory.
 */
static struct lull_sweep_curve_point *sweep_curve_find_point(struct lull_sweep_curve *curve,
                                                             double sm_mhz)
{
    size_t at = 0;

    while (at < curve->count && curve->points[at].sm_mhz < sm_mhz)
        at++;
    if (at < curve->count && curve->points[at].sm_mhz == sm_mhz)
        return &curve->points[at];
    if (lull_array_grow(&curve->points, curve->count, sizeof(*curve->points)) < 0)
        return NULL;
    memmove(curve->points + at + 1, curve->points + at,
            (curve->count++ - at) * sizeof(*curve->points));
    curve->points[at] = (struct lull_sweep_curve_point){.sm_mhz = sm_mhz};
    return &curve->points[at];
}

static int sweep_curve_add_row(struct lull_sweep_curves *curves, const struct lull_sweep_row *row)
{
    struct lull_sweep_curve *curve;
    struct lull_sweep_curve_point *point;

    if (row->result.marks != 0)
        return 0;
    curve = sweep_curve_find(curves, row);
    point = curve != NULL ? sweep_curve_find_point(curve, row->sm_set_mhz) : NULL;
    if (point == NULL)
        return -ENOMEM;
    curve->reasons |= row->result.reasons;
    lull_moments_add(&point->time_ms, row->result.time_ms);
    if (!isnan(row->result.power_w))
        lull_moments_add(&point->power_w, row->result.power_w);
    return 0;
}

int lull_sweep_curves_make(const struct lull_sweep_table *table,
                           struct lull_sweep_curves *curves_out, struct lull_error *err)
{
    *curves_out = (struct lull_sweep_curves){0, NULL};
    for (size_t i = 0; i < table->count; i++)
        if (sweep_curve_add_row(curves_out, &table->rows[i]) < 0) {
            lull_sweep_curves_fini(curves_out);
            return lull_error_set(err, -ENOMEM, "not enough memory for the kernels' curves");
        }
    return 0;
}

void lull_sweep_curves_fini(struct lull_sweep_curves *curves)
{
    for (size_t i = 0; i < curves->count; i++)
        free(curves->curves[i].points);
    free(curves->curves);
    *curves = (struct lull_sweep_curves){0, NULL};
}

double lull_sweep_energy_j(const struct lull_sweep_curve_point *point)
{
    if (point->power_w.count == 0)
        return NAN;
    return 1e-3 * point->time_ms.mean * point->power_w.mean;
}

/* At lower clocks other effects interfere: caches and memory depend on the SM clock as well. */
static const double near_top_ratio = 0.6;

double lull_sweep_core_share(const struct lull_sweep_curve *curve)
{
    const double top_mhz = curve->points[curve->count - 1].sm_mhz;
    struct lull_nnls fit = lull_nnls_begin(2);
    double terms[LULL_NNLS_TERMS];

    if (curve->count < 2)
        return NAN;
    for (size_t i = 0; i < curve->count; i++) {
        const double row[] = {1.0, top_mhz / curve->points[i].sm_mhz};

        if (curve->points[i].sm_mhz < near_top_ratio * top_mhz && i + 2 < curve->count)
            continue;
        lull_nnls_add(&fit, row, curve->points[i].time_ms.mean);
    }
    lull_nnls_solve(&fit, terms);
    return terms[0] + terms[1] > 0.0 ? terms[1] / (terms[0] + terms[1]) : NAN;
}
