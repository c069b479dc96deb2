/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/bound/mode_hull.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

/* The share by which a cost is lowered: far more than the few roundings of an interpolation. */
static const double slip_ratio = 1e-12;

/* ---- construction--------------------------------------------------------------------------- */

/* Orders corners by time; of equal times the cheapest comes first. */
static bool hull_is_before(const struct lull_mode_corner *left,
                           const struct lull_mode_corner *right)
{
    if (left->time_s != right->time_s)
        return left->time_s < right->time_s;
    return left->cost_j < right->cost_j;
}

static void hull_sort(struct lull_mode_corner *corners, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const struct lull_mode_corner moved = corners[i];
        size_t at = i;

        for (; at > 0 && hull_is_before(&moved, &corners[at - 1]); at--)
            corners[at] = corners[at - 1];
        corners[at] = moved;
    }
}

/* Returns whether the middle corner lies on or above the line between the other two. */
static bool is_above(const struct lull_mode_corner *left, const struct lull_mode_corner *middle,
                     const struct lull_mode_corner *right)
{
    return (middle->cost_j - left->cost_j) * (right->time_s - left->time_s) >=
           (right->cost_j - left->cost_j) * (middle->time_s - left->time_s);
}

void lull_mode_hull_make(const struct lull_mode_corner *corners, size_t count,
                         struct lull_mode_hull *hull_out)
{
    struct lull_mode_corner sorted[LULL_CLUSTER_RELAXED_POINTS];
    struct lull_mode_corner *const kept = hull_out->corners;
    size_t made = 0;

    assert(count <= LULL_CLUSTER_RELAXED_POINTS);
    for (size_t i = 0; i < count; i++)
        sorted[i] = corners[i];
    hull_sort(sorted, count);
    for (size_t i = 0; i < count; i++) {
        if (made > 0 && kept[made - 1].time_s == sorted[i].time_s)
            continue;
        while (made > 1 && is_above(&kept[made - 2], &kept[made - 1], &sorted[i]))
            made--;
        kept[made++] = sorted[i];
    }
    hull_out->count = made;
}

/* ---- queries -------------------------------------------------------------------------------- */

static size_t hull_find_lowest(const struct lull_mode_hull *hull)
{
    size_t best = 0;

    for (size_t i = 1; i < hull->count; i++)
        if (hull->corners[i].cost_j < hull->corners[best].cost_j)
            best = i;
    return best;
}

double lull_mode_hull_best_s(const struct lull_mode_hull *hull)
{
    assert(hull->count > 0);
    return hull->corners[hull_find_lowest(hull)].time_s;
}

/* The largest cost of a corner, to which rounding errors are relative. */
static double hull_size_of(const struct lull_mode_hull *hull)
{
    double size_j = 0.0;

    for (size_t i = 0; i < hull->count; i++)
        size_j = fmax(size_j, fabs(hull->corners[i].cost_j));
    return size_j;
}

/* Exact at corners, otherwise lowered. */
static double hull_cost_at(const struct lull_mode_hull *hull, double time_s)
{
    const struct lull_mode_corner *left = &hull->corners[0];
    const struct lull_mode_corner *const end = left + hull->count;
    double part;

    while (left + 1 < end && left[1].time_s <= time_s)
        left++;
    if (left + 1 == end || time_s <= left->time_s)
        return left->cost_j;
    part = (time_s - left->time_s) / (left[1].time_s - left->time_s);
    return left->cost_j + part * (left[1].cost_j - left->cost_j) - slip_ratio * hull_size_of(hull);
}

double lull_mode_hull_min_j(const struct lull_mode_hull *hull, double from_s, double to_s)
{
    assert(from_s <= to_s);
    return hull_cost_at(hull, fmin(fmax(lull_mode_hull_best_s(hull), from_s), to_s));
}

double lull_mode_hull_fall_w(const struct lull_mode_hull *hull, double max_s)
{
    const size_t best = hull_find_lowest(hull);

    for (size_t i = 0; i < best; i++) {
        const struct lull_mode_corner *left = &hull->corners[i];
        const struct lull_mode_corner *right = left + 1;

        if (left->time_s <= max_s && max_s < right->time_s)
            return (left->cost_j - right->cost_j) / (right->time_s - left->time_s);
    }
    return 0.0;
}
