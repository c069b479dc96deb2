/* The problem with smooth costs. SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/round/smooth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum {
    FINENESS = 4,          /* options for each step of a ladder */
    MOST_OPTIONS = 1 << 8, /* at the most */
};

/* No operation is so loose that a plan can do with its time what it likes. */
static const double LEAST_STIFFNESS = 1e-7;

/* ---- hulls -------------------------------------------------------------------------------- */

static double fall_w(const struct lull_pipeline_option *faster,
                     const struct lull_pipeline_option *slower)
{
    return (double)(faster->energy_nj - slower->energy_nj) /
           (double)(slower->time_ns - faster->time_ns);
}

/* The corners of the lower hull of a ladder. */
static void find_hull(struct smooth_hull *hull, const struct lull_pipeline_rounding *rounding,
                      const struct ladder *ladder, double share)
{
    const struct lull_pipeline_class *class =
        &rounding->problem->profile->classes[ladder->class_index];
    const struct ladder_step *last = &ladder->steps[ladder->count - 1];

    for (uint32_t i = 0; i < ladder->count; i++) {
        const struct lull_pipeline_option *option = &class->options[ladder->steps[i].option];
        const struct lull_pipeline_option corner = {
            option->time_ns, llround(lull_pipeline_effective_nj(option, ladder->blocking_w)), 0};

        while (hull->count > 1 &&
               fall_w(&hull->corners[hull->count - 2], &hull->corners[hull->count - 1]) <=
                   fall_w(&hull->corners[hull->count - 2], &corner))
            hull->count--;
        hull->corners[hull->count++] = corner;
    }
    if (ladder->count > 1)
        hull->half_ns = share * (double)(last->time_ns - ladder->steps[0].time_ns) /
                        (double)(ladder->count - 1);
}

/* The hull's energy at any time: beyond its ends, the first line goes on, and nothing is saved. */
static double energy_at(const struct smooth_hull *hull, double time_ns)
{
    uint32_t i = 1;

    if (time_ns >= (double)hull->corners[hull->count - 1].time_ns)
        return (double)hull->corners[hull->count - 1].energy_nj;
    while ((double)hull->corners[i].time_ns < time_ns)
        i++;
    return (double)hull->corners[i].energy_nj + fall_w(&hull->corners[i - 1], &hull->corners[i]) *
                                                    ((double)hull->corners[i].time_ns - time_ns);
}

/* What a nanosecond more saves, on average near a time. */
static double price_at(const struct smooth_hull *hull, double time_ns)
{
    return (energy_at(hull, time_ns - hull->half_ns) - energy_at(hull, time_ns + hull->half_ns)) /
           (2.0 * hull->half_ns);
}

double lull_smooth_stiffness(const struct smooth *smooth, uint32_t ladder, double time_ns)
{
    const struct smooth_hull *hull = &smooth->hulls[ladder];
    double stiffness;

    if (hull->count < 2)
        return LEAST_STIFFNESS;
    stiffness =
        (price_at(hull, time_ns - hull->half_ns) - price_at(hull, time_ns + hull->half_ns)) /
        (2.0 * hull->half_ns);
    return fmax(stiffness, LEAST_STIFFNESS);
}

/* ---- the problem -------------------------------------------------------------------------- */

/* Fine options along the mean, from the fastest to the slowest of the hull. */
static void list_options(const struct smooth_hull *hull, uint32_t count, double blocking_w,
                         struct lull_pipeline_option *options)
{
    const int64_t fastest_ns = hull->corners[0].time_ns;
    const int64_t span_ns = hull->corners[hull->count - 1].time_ns - fastest_ns;
    double energy_nj = (double)hull->corners[0].energy_nj;

    for (uint32_t i = 0; i < count; i++) {
        const int64_t time_ns = count == 1 ? fastest_ns : fastest_ns + span_ns * i / (count - 1);

        if (i > 0)
            energy_nj -= price_at(hull, 0.5 * (double)(options[i - 1].time_ns + time_ns)) *
                         (double)(time_ns - options[i - 1].time_ns);
        options[i] = (struct lull_pipeline_option){
            time_ns, llround(fmax(energy_nj + blocking_w * (double)time_ns, 0.0)), count - i};
    }
}

/* More options than steps, each at a nanosecond of its own. */
static uint32_t options_of(const struct ladder *ladder)
{
    const int64_t span_ns = ladder->steps[ladder->count - 1].time_ns - ladder->steps[0].time_ns;
    uint32_t count = FINENESS * (ladder->count - 1) + 1;

    count = count < MOST_OPTIONS ? count : MOST_OPTIONS;
    return count - 1 <= span_ns ? count : (uint32_t)span_ns + 1;
}

static int make_room(struct smooth *smooth, const struct lull_pipeline_rounding *rounding)
{
    size_t options = 0;

    for (uint32_t i = 0; i < rounding->ladder_count; i++)
        options += options_of(&rounding->ladders[i]);
    smooth->profile.classes = calloc(rounding->ladder_count, sizeof(*smooth->profile.classes));
    smooth->graph.ops = calloc(rounding->count, sizeof(*smooth->graph.ops));
    smooth->hulls = calloc(rounding->ladder_count, sizeof(*smooth->hulls));
    smooth->corners = calloc(rounding->step_count, sizeof(*smooth->corners));
    smooth->options = calloc(options, sizeof(*smooth->options));
    return smooth->profile.classes == NULL || smooth->graph.ops == NULL || smooth->hulls == NULL ||
                   smooth->corners == NULL || smooth->options == NULL
               ? -ENOMEM
               : 0;
}

int lull_smooth_create(struct smooth *smooth, const struct lull_pipeline_rounding *rounding,
                       double share)
{
    const struct lull_pipeline_problem *problem = rounding->problem;
    struct lull_pipeline_option *options;

    *smooth = (struct smooth){.graph = *problem->graph};
    smooth->graph.ops = NULL;
    if (make_room(smooth, rounding) < 0)
        return -ENOMEM;
    options = smooth->options;
    smooth->profile.class_count = rounding->ladder_count;
    for (uint32_t i = 0; i < rounding->ladder_count; i++) {
        const struct ladder *ladder = &rounding->ladders[i];
        const uint32_t count = options_of(ladder);

        smooth->hulls[i].corners = smooth->corners + ladder->first;
        find_hull(&smooth->hulls[i], rounding, ladder, share);
        list_options(&smooth->hulls[i], count, ladder->blocking_w, options);
        smooth->profile.classes[i] = problem->profile->classes[ladder->class_index];
        smooth->profile.classes[i].options = options;
        smooth->profile.classes[i].option_count = count;
        options += count;
    }
    for (uint32_t op = 0; op < rounding->count; op++) {
        const uint32_t id = rounding->place[op];

        smooth->graph.ops[id] = problem->graph->ops[id];
        smooth->graph.ops[id].class_index = rounding->ladder_of[op];
    }
    smooth->problem =
        (struct lull_pipeline_problem){&smooth->profile, &smooth->graph, problem->blocking_w};
    return 0;
}

void lull_smooth_destroy(struct smooth *smooth)
{
    free(smooth->profile.classes);
    free(smooth->graph.ops);
    free(smooth->hulls);
    free(smooth->corners);
    free(smooth->options);
}
