/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/model/profile.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"

static const char *const kind_names[LULL_PIPELINE_KINDS] = {
    [LULL_PIPELINE_FORWARD] = "forward",     [LULL_PIPELINE_BACKWARD] = "backward",
    [LULL_PIPELINE_INPUT] = "input",         [LULL_PIPELINE_WEIGHT] = "weight",
    [LULL_PIPELINE_OVERLAP] = "overlap",     [LULL_PIPELINE_FIXED] = "fixed",
    [LULL_PIPELINE_RECOMPUTE] = "recompute",
};

const char *lull_pipeline_kind_name(enum lull_pipeline_kind kind)
{
    assert(kind < LULL_PIPELINE_KINDS);
    return kind_names[kind];
}

int lull_pipeline_kind_parse(const char *word, enum lull_pipeline_kind *kind_out)
{
    for (int kind = 0; kind < LULL_PIPELINE_KINDS; kind++) {
        if (strcmp(word, kind_names[kind]) == 0) {
            *kind_out = (enum lull_pipeline_kind)kind;
            return 0;
        }
    }
    return -EINVAL;
}

void lull_pipeline_profile_init(struct lull_pipeline_profile *profile)
{
    profile->classes = NULL;
    profile->class_count = 0;
}

void lull_pipeline_profile_fini(struct lull_pipeline_profile *profile)
{
    if (profile == NULL)
        return;
    for (size_t i = 0; i < profile->class_count; i++)
        free(profile->classes[i].points);
    free(profile->classes);
    lull_pipeline_profile_init(profile);
}

int lull_pipeline_profile_find(const struct lull_pipeline_profile *profile, uint32_t copy,
                               uint32_t stage, enum lull_pipeline_kind kind, uint32_t partner)
{
    for (size_t i = 0; i < profile->class_count; i++) {
        const struct lull_pipeline_class *found = &profile->classes[i];

        if (found->stage == stage && found->kind == kind && found->partner == partner &&
            found->copy == copy)
            return (int)i;
    }
    return -ENOENT;
}

uint32_t lull_pipeline_profile_stages(const struct lull_pipeline_profile *profile)
{
    uint32_t stages = 0;

    for (size_t i = 0; i < profile->class_count; i++)
        stages = lull_max_u32(profile->classes[i].stage + 1, stages);
    return stages;
}

size_t lull_pipeline_first_not_above(const struct lull_pipeline_class *operations, uint32_t mhz)
{
    size_t low = 0;
    size_t high = operations->point_count;

    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (operations->points[middle].sm_mhz > mhz)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t lull_pipeline_point_at(const struct lull_pipeline_class *operations, uint32_t mhz)
{
    const size_t at = lull_pipeline_first_not_above(operations, mhz);

    if (at == operations->point_count || operations->points[at].sm_mhz != mhz)
        return UINT32_MAX;
    return (uint32_t)at;
}

/* The limits keep every sum of times along a path of the largest graph within int64_t. */
static int pipeline_profile_check_point(const struct lull_pipeline_point *point,
                                        struct lull_error *err)
{
    if (point->time_ns <= 0 || point->time_ns > LULL_PIPELINE_MAX_TIME_NS)
        return lull_error_set(err, -EINVAL, "time of %.9g s is not above 0 and at most %.9g s",
                              (double)point->time_ns * 1e-9,
                              (double)LULL_PIPELINE_MAX_TIME_NS * 1e-9);
    if (point->energy_nj < 0 || point->energy_nj > LULL_PIPELINE_MAX_ENERGY_NJ)
        return lull_error_set(err, -EINVAL, "energy of %.9g J is not between 0 and %.9g J",
                              (double)point->energy_nj * 1e-9,
                              (double)LULL_PIPELINE_MAX_ENERGY_NJ * 1e-9);
    return 0;
}

/* The operating points stay sorted by descending clock, because searches by clock and the highest
 * clock at index 0 rely on it. */
static int insert_point(struct lull_pipeline_class *operations,
                        const struct lull_pipeline_point *point, struct lull_error *err)
{
    const size_t count = operations->point_count;
    const size_t place = lull_pipeline_first_not_above(operations, point->sm_mhz);
    struct lull_pipeline_point *points;

    if (place < count && operations->points[place].sm_mhz == point->sm_mhz)
        return lull_error_set(err, -EEXIST,
                              "%s of stage %" PRIu32 " has a row for %" PRIu32 " MHz already",
                              kind_names[operations->kind], operations->stage, point->sm_mhz);
    if (count == LULL_PIPELINE_MAX_OPTIONS)
        return lull_error_set(err, -EINVAL, "%s of stage %" PRIu32 " has more than %d clocks",
                              kind_names[operations->kind], operations->stage,
                              (int)LULL_PIPELINE_MAX_OPTIONS);
    points = realloc(operations->points, (count + 1) * sizeof(*points));
    if (points == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the profile");
    memmove(&points[place + 1], &points[place], (count - place) * sizeof(*points));
    points[place] = *point;
    operations->points = points;
    operations->point_count = count + 1;
    return 0;
}

static int pipeline_profile_add_class(struct lull_pipeline_profile *profile,
                                      const struct lull_pipeline_class *first,
                                      struct lull_error *err)
{
    struct lull_pipeline_class *classes;

    if (profile->class_count == INT_MAX)
        return lull_error_set(err, -ENOMEM, "too many classes of operations");
    classes = realloc(profile->classes, (profile->class_count + 1) * sizeof(*classes));
    if (classes == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the profile");
    profile->classes = classes;
    classes[profile->class_count++] = *first;
    return 0;
}

int lull_pipeline_profile_add(struct lull_pipeline_profile *profile, uint32_t copy, uint32_t stage,
                              enum lull_pipeline_kind kind, uint32_t partner,
                              const struct lull_pipeline_point *point, struct lull_error *err)
{
    const int index = lull_pipeline_profile_find(profile, copy, stage, kind, partner);
    struct lull_pipeline_class operations = {
        .stage = stage, .kind = kind, .partner = partner, .copy = copy};
    int status = pipeline_profile_check_point(point, err);

    if (status != 0)
        return status;
    if (index >= 0)
        return insert_point(&profile->classes[index], point, err);
    status = insert_point(&operations, point, err);
    if (status == 0)
        status = pipeline_profile_add_class(profile, &operations, err);
    if (status != 0)
        free(operations.points);
    return status;
}

/* An operating point as a point of time and effective energy. */
struct point {
    int64_t time_ns;
    double effective_nj;
    uint32_t index;
};

/* Orders operating points from the fastest on; of equal ones the cheaper and then the higher clock
 * comes first, so that pareto keeps that one. */
static int pipeline_profile_by_time(const void *a, const void *b)
{
    const struct point *left = a;
    const struct point *right = b;

    if (left->time_ns != right->time_ns)
        return (left->time_ns > right->time_ns) - (left->time_ns < right->time_ns);
    if (left->effective_nj < right->effective_nj)
        return -1;
    if (left->effective_nj > right->effective_nj)
        return 1;
    return (left->index > right->index) - (left->index < right->index);
}

/* Returns whether the middle point lies on or above the line from the left one to the right one. */
static bool above_line(const struct point *left, const struct point *middle,
                       const struct point *right)
{
    const double rise =
        (middle->effective_nj - left->effective_nj) * (double)(right->time_ns - left->time_ns);
    const double line =
        (right->effective_nj - left->effective_nj) * (double)(middle->time_ns - left->time_ns);

    return rise >= line;
}

/* One sweep from the fastest point on: a point that is not cheaper than the last one kept is
 * dropped; with hull, points above the line of their neighbours are taken back. */
size_t lull_pipeline_pareto(const struct lull_pipeline_class *operations, double blocking_w,
                            bool hull, uint32_t *chosen_out)
{
    struct point points[LULL_PIPELINE_MAX_OPTIONS];
    size_t kept = 0;

    assert(operations->point_count > 0 && operations->point_count <= LULL_PIPELINE_MAX_OPTIONS);
    for (size_t i = 0; i < operations->point_count; i++) {
        const struct lull_pipeline_point *point = &operations->points[i];

        points[i].time_ns = point->time_ns;
        points[i].effective_nj = lull_pipeline_effective_nj(point, blocking_w);
        points[i].index = (uint32_t)i;
    }
    qsort(points, operations->point_count, sizeof(points[0]), pipeline_profile_by_time);
    for (size_t i = 0; i < operations->point_count; i++) {
        if (kept > 0 && points[i].effective_nj >= points[kept - 1].effective_nj)
            continue;
        while (hull && kept > 1 && above_line(&points[kept - 2], &points[kept - 1], &points[i]))
            kept--;
        points[kept++] = points[i];
    }
    for (size_t i = 0; i < kept; i++)
        chosen_out[i] = points[i].index;
    return kept;
}
