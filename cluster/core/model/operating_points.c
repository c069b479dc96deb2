/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/model/operating_points.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- orders ------------------------------------------------------------------------------- */

static int points_compare(double a, double b)
{
    return (a > b) - (a < b);
}

static int by_speed(const struct lull_cluster_point *a, const struct lull_cluster_point *b)
{
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return points_compare(a->energy_j, b->energy_j);
}

static int by_hull(const void *left, const void *right)
{
    const struct lull_cluster_point *a = left;
    const struct lull_cluster_point *b = right;

    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    if (a->gpus != b->gpus)
        return a->gpus < b->gpus ? -1 : 1;
    return by_speed(a, b);
}

static int points_by_time(const void *left, const void *right)
{
    const struct lull_cluster_point *a = left;
    const struct lull_cluster_point *b = right;
    const int order = by_speed(a, b);

    if (order != 0)
        return order;
    if (a->gpus != b->gpus)
        return a->gpus < b->gpus ? -1 : 1;
    return (a->type > b->type) - (a->type < b->type);
}

/* Sorts only if needed: candidates made in the order of clocks are sorted already. */
static void sort_by_hull(struct lull_cluster_point *all, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (by_hull(&all[i - 1], &all[i]) > 0) {
            qsort(all, count, sizeof(*all), by_hull);
            return;
        }
}

/* ---- hulls -------------------------------------------------------------------------------- */

static bool is_same_hull(const struct lull_cluster_point *a, const struct lull_cluster_point *b)
{
    return a->type == b->type && a->gpus == b->gpus;
}

/* Twice the area of the triangle; > 0 where the middle lies below the line from left to right. */
static double points_triangle_area(const struct lull_cluster_point *left,
                                   const struct lull_cluster_point *middle,
                                   const struct lull_cluster_point *right)
{
    return (double)(right->time_ns - left->time_ns) * (left->energy_j - middle->energy_j) -
           (double)(middle->time_ns - left->time_ns) * (left->energy_j - right->energy_j);
}

/* Of sorted candidates the lower left corners of each hull. Returns how many are left. */
static size_t points_keep_hulls(struct lull_cluster_point *all, size_t count)
{
    size_t kept = 0;
    size_t first = 0; /* kept, of the hull at hand */

    for (size_t i = 0; i < count; i++) {
        if (kept > first && !is_same_hull(&all[kept - 1], &all[i]))
            first = kept;
        if (kept > first && all[i].energy_j >= all[kept - 1].energy_j)
            continue;
        while (kept > first + 1 &&
               points_triangle_area(&all[kept - 2], &all[kept - 1], &all[i]) <= 0.0)
            kept--;
        all[kept++] = all[i];
    }
    return kept;
}

/* Returns whether an operating point with fewer GPUs of the type, hence of another hull, is as
 * good.
 */
static bool is_beaten(const struct lull_cluster_point *point, const struct lull_cluster_point *all,
                      size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (all[i].type == point->type && all[i].gpus < point->gpus &&
            all[i].time_ns <= point->time_ns && all[i].energy_j <= point->energy_j)
            return true;
    return false;
}

/* Drops operating points that are dominated by others. Those with
 * fewer GPUs come first, so that only kept ones have to be compared. */
static size_t drop_beaten(struct lull_cluster_point *all, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (!is_beaten(&all[i], all, kept))
            all[kept++] = all[i];
    return kept;
}

/* ---- as many as a job may have ------------------------------------------------------------ */

/* The area lost with an operating point, relative to its hull's
 * fastest point; < 0: it is the fastest. */
static double points_loss(const struct lull_cluster_point *all, size_t count, size_t at,
                          size_t fastest)
{
    const struct lull_cluster_point *point = &all[at];
    const double unit = (double)all[fastest].time_ns * all[fastest].energy_j;
    double area;

    if (at == fastest)
        return -1.0;
    if (at + 1 < count && is_same_hull(point, &all[at + 1]))
        area = points_triangle_area(point - 1, point, point + 1) / 2.0;
    else
        area =
            (double)(point->time_ns - point[-1].time_ns) * (point[-1].energy_j - point->energy_j);
    return unit > 0.0 ? area / unit : 0.0;
}

/* The operating point to drop next; count: all that are left are the fastest of their hulls. */
static size_t find_least(const struct lull_cluster_point *all, size_t count)
{
    size_t fastest = 0;
    size_t least = count;
    double min_loss = 0.0;

    for (size_t i = 0; i < count; i++) {
        if (!is_same_hull(&all[fastest], &all[i]))
            fastest = i;

        const double here = points_loss(all, count, i, fastest);

        if (i != fastest && (least == count || here < min_loss)) {
            least = i;
            min_loss = here;
        }
    }
    return least;
}

size_t lull_operating_points_choose(struct lull_cluster_point *candidates, size_t count,
                                    size_t most, struct lull_cluster_point *points_out)
{
    sort_by_hull(candidates, count);
    count = points_keep_hulls(candidates, count);
    count = drop_beaten(candidates, count);
    while (count > most) {
        const size_t least = find_least(candidates, count);

        if (least == count)
            break;
        count--;
        memmove(&candidates[least], &candidates[least + 1], (count - least) * sizeof(*candidates));
    }
    qsort(candidates, count, sizeof(*candidates), points_by_time);
    if (count > most)
        count = most;
    memcpy(points_out, candidates, count * sizeof(*points_out));
    return count;
}

/* ---- relaxed ------------------------------------------------------------------------------ */

/* A hull that is merged as soon as it is full, so that any number of candidates fits; and how many
 * corners each hull of a job is left. */
enum { HULL_ROOM = 64, MIN_OF_HULL = 3, SHARED_POINTS = 128 };

/* The line through two corners, at a time; lowered by more than rounding may have added. */
static double line_at(const struct lull_cluster_point *from, const struct lull_cluster_point *to,
                      double time_ns)
{
    const double slope = (to->energy_j - from->energy_j) / (double)(to->time_ns - from->time_ns);
    const double size_j = fabs(from->energy_j) + fabs(to->energy_j);

    return from->energy_j + slope * (time_ns - (double)from->time_ns) - 1e-12 * size_j;
}

/* Returns the corner that replaces corner `at` and the next one: the intersection of the edge
 * before the first and the edge after the second. Only its time and energy differ. */
static struct lull_cluster_point points_find_crossing(const struct lull_cluster_point *at)
{
    const double before =
        (at[0].energy_j - at[-1].energy_j) / (double)(at[0].time_ns - at[-1].time_ns);
    const double after =
        (at[2].energy_j - at[1].energy_j) / (double)(at[2].time_ns - at[1].time_ns);
    const double from_ns = (double)at[0].time_ns;
    const double to_ns = (double)at[1].time_ns;
    struct lull_cluster_point point = at[0];
    double time_ns = from_ns;

    if (after > before)
        time_ns += (at[1].energy_j - after * (to_ns - from_ns) - at[0].energy_j) / (before - after);
    point.time_ns = (int64_t)fmin(fmax(time_ns, from_ns), to_ns);
    point.energy_j = fmin(line_at(&at[-1], &at[0], (double)point.time_ns),
                          line_at(&at[1], &at[2], (double)point.time_ns));
    return point;
}

/* The area that a hull gains where the corner and the next one become one. */
static double points_gain(const struct lull_cluster_point *at)
{
    const struct lull_cluster_point met = points_find_crossing(at);

    return fabs(points_triangle_area(&at[0], &met, &at[1]));
}

/* Merges neighbouring corners, never the first or the last one, until `most` are left. */
static size_t merge_corners(struct lull_cluster_point *corners, size_t count, size_t most)
{
    while (count > most) {
        size_t best = 1;

        for (size_t i = 2; i + 2 < count; i++)
            if (points_gain(&corners[i]) < points_gain(&corners[best]))
                best = i;
        corners[best] = points_find_crossing(&corners[best]);
        count--;
        memmove(&corners[best + 1], &corners[best + 2], (count - best - 1) * sizeof(*corners));
    }
    return count;
}

/* The whole lower hull of `count` sorted candidates of one hull, from the fastest to the slowest,
 * or fewer corners that lie below it. */
static size_t relax_hull(const struct lull_cluster_point *all, size_t count, size_t most,
                         struct lull_cluster_point *points_out)
{
    struct lull_cluster_point corners[HULL_ROOM];
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && all[i].time_ns == corners[kept - 1].time_ns)
            continue;
        while (kept > 1 &&
               points_triangle_area(&corners[kept - 2], &corners[kept - 1], &all[i]) <= 0.0)
            kept--;
        if (kept == HULL_ROOM)
            kept = merge_corners(corners, kept, HULL_ROOM - 1);
        corners[kept++] = all[i];
    }
    kept = merge_corners(corners, kept, most);
    memcpy(points_out, corners, kept * sizeof(*corners));
    return kept;
}

static size_t count_hulls(const struct lull_cluster_point *all, size_t count)
{
    size_t hulls = count > 0;

    for (size_t i = 1; i < count; i++)
        hulls += !is_same_hull(&all[i - 1], &all[i]);
    return hulls;
}

size_t lull_operating_points_relax(struct lull_cluster_point *candidates, size_t count,
                                   struct lull_cluster_point *points_out)
{
    size_t kept = 0, most, end;

    sort_by_hull(candidates, count);
    most = SHARED_POINTS / (count_hulls(candidates, count) + (count == 0));
    if (most < MIN_OF_HULL)
        most = MIN_OF_HULL;
    if (most > LULL_CLUSTER_MAX_POINTS)
        most = LULL_CLUSTER_MAX_POINTS;
    for (size_t first = 0; first < count; first = end) {
        for (end = first + 1; end < count && is_same_hull(&candidates[first], &candidates[end]);)
            end++;
        assert(kept + most <= LULL_CLUSTER_RELAXED_POINTS);
        kept += relax_hull(&candidates[first], end - first, most, &points_out[kept]);
    }
    return kept;
}

/* ---- of surfaces -------------------------------------------------------------------------- */

static size_t add_clocks(const struct lull_job_offer *offer, uint32_t gpus, uint32_t step,
                         struct lull_cluster_point *candidates, size_t count)
{
    const struct lull_job_surface *surface = &offer->surface;
    struct lull_job_surface_point point;

    for (uint32_t clock = 0; clock < surface->clock_count && count < LULL_JOB_MAX_CANDIDATES;
         clock += step) {
        if (!lull_job_surface_at(surface, gpus, clock, &point))
            break;
        candidates[count++] = (struct lull_cluster_point){
            .type = offer->type,
            .gpus = gpus,
            .sm_mhz = surface->tempo[clock].sm_mhz,
            .time_ns = point.time_ns,
            .energy_j = point.energy_j,
            .exposed_ratio = (float)point.exposed_ratio,
            .waiting_w = (float)point.waiting_w,
            .read_mb_s = (float)point.read_mb_s,
        };
    }
    return count;
}

size_t lull_operating_points_list(const struct lull_job_offer *offers, size_t offer_count,
                                  const uint32_t *gpus, size_t gpus_count, uint32_t step,
                                  struct lull_cluster_point *candidates_out)
{
    size_t count = 0;

    for (size_t i = 0; i < offer_count; i++)
        for (size_t k = 0; k < gpus_count; k++)
            count = add_clocks(&offers[i], gpus[k], step, candidates_out, count);
    return count;
}

/* ---- relative to the run time ---------------------------------------------------------------- */

static void points_relate(const struct lull_cluster_point *points, size_t count,
                          struct lull_job_points *points_out)
{
    points_out->count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        points_out->all[i].sm_mhz = points[i].sm_mhz;
        points_out->all[i].time_ratio = (double)points[i].time_ns / (double)points[0].time_ns;
        points_out->all[i].energy_w = points[i].energy_j / ((double)points[0].time_ns * 1e-9);
        points_out->all[i].exposed_ratio = points[i].exposed_ratio;
        points_out->all[i].waiting_w = points[i].waiting_w;
    }
}

void lull_job_points_choose(struct lull_cluster_point *candidates, size_t count,
                            struct lull_job_points *chosen_out, struct lull_job_points *relaxed_out)
{
    struct lull_cluster_point points[LULL_CLUSTER_RELAXED_POINTS];

    points_relate(points, lull_operating_points_relax(candidates, count, points), relaxed_out);
    points_relate(points,
                  lull_operating_points_choose(candidates, count, LULL_CLUSTER_MAX_POINTS, points),
                  chosen_out);
}

uint32_t lull_job_points_make(const struct lull_job_points *points, int64_t time_ns, uint32_t type,
                              uint32_t gpus, struct lull_cluster_point *points_out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < points->count; i++) {
        const double stretched_ns = (double)time_ns * points->all[i].time_ratio;

        if (i > 0 && stretched_ns > (double)LULL_CLUSTER_MAX_NS)
            break;
        points_out[count++] = (struct lull_cluster_point){
            .type = type,
            .gpus = gpus,
            .sm_mhz = points->all[i].sm_mhz,
            .time_ns = i == 0 ? time_ns : llround(stretched_ns),
            .energy_j = (double)time_ns * 1e-9 * points->all[i].energy_w,
            .exposed_ratio = points->all[i].exposed_ratio,
            .waiting_w = points->all[i].waiting_w,
        };
    }
    return count;
}
