/*
 * Chooses the gaps of a timeline that are worth a lower clock. SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/rounding/waiting.h"

#include <assert.h>
#include <stdbool.h>

/* A device on its way through the timeline. */
struct waiting_walk {
    const struct lull_pipeline_problem *problem;
    const struct lull_pipeline_timeline *timeline;
    uint32_t first; /* its operations' places in on_device are [first, end) */
    uint32_t end;
    uint32_t ahead;  /* the place before which the plan changes the clock next */
    uint32_t mhz;    /* the clock that the plan has commanded last */
    int64_t last_ns; /* the last change, at first of the iteration before; -far_ns: there is none */
    int64_t change_ns; /* the first change of this iteration; negative: none yet */
};

static const int64_t far_ns = INT64_MAX / 4;

static uint32_t rounding_wait_op_at(const struct waiting_walk *walk, uint32_t place)
{
    return walk->problem->graph->on_device[place];
}

/* The clock of the operation at a place, 0 if it has none. */
static uint32_t clock_at(const struct waiting_walk *walk, uint32_t place)
{
    const uint32_t op = rounding_wait_op_at(walk, place);

    if (walk->timeline->point == NULL)
        return 0;
    return lull_pipeline_point_of(walk->problem, walk->timeline->point, op)->sm_mhz;
}

/* Time at which the device becomes free for the operation at a place, and its clock is commanded.
 */
static int64_t free_ns(const struct waiting_walk *walk, uint32_t place)
{
    return place == walk->first ? 0 : walk->timeline->end_ns[rounding_wait_op_at(walk, place - 1)];
}

/* The next place, from this one on, whose operation has another clock than mhz. */
static uint32_t next_change(const struct waiting_walk *walk, uint32_t place, uint32_t mhz)
{
    while (place < walk->end && (clock_at(walk, place) == 0 || clock_at(walk, place) == mhz))
        place++;
    return place;
}

/* One iteration follows the other: the device enters this one with the clock of its last operation,
 * and its last change counts for the dwell. */
static void rounding_wait_begin(struct waiting_walk *walk)
{
    walk->last_ns = -far_ns;
    walk->change_ns = -1;
    for (uint32_t place = walk->first; place < walk->end; place++)
        if (clock_at(walk, place) > 0)
            walk->mhz = clock_at(walk, place);
    walk->ahead = next_change(walk, walk->first, walk->mhz);
    for (uint32_t place = walk->ahead; place < walk->end;
         place = next_change(walk, place, clock_at(walk, place)))
        walk->last_ns = free_ns(walk, place) - walk->timeline->period_ns;
}

/* Returns whether a device may go down at a gap's begin and come up at wake_ns. */
static bool keeps_dwell(const struct waiting_walk *walk, int64_t begin_ns, int64_t wake_ns,
                        uint32_t ahead)
{
    const int64_t dwell_ns = walk->timeline->dwell_ns;
    int64_t next_ns;

    if (ahead < walk->end)
        next_ns = free_ns(walk, ahead);
    else if (walk->change_ns >= 0)
        next_ns = walk->timeline->period_ns + walk->change_ns;
    else
        next_ns = walk->timeline->period_ns + begin_ns;
    return wake_ns - begin_ns >= dwell_ns && next_ns - wake_ns >= dwell_ns &&
           begin_ns - walk->last_ns >= dwell_ns;
}

/* Energy that a point saves in a gap of a device, J; 0 or less if it does not pay or fit. */
static double saving_j(const struct lull_pipeline_waiting_point *point, double blocking_w,
                       int64_t length_ns)
{
    int64_t below_ns = length_ns - point->down_ns - point->up_ns;

    if (below_ns <= 0)
        return 0.0;
    return (blocking_w - point->power_w) * (double)below_ns * 1e-9 - point->switch_j;
}

/* Chooses the best point for the gap ahead of a place. Returns false if none pays. */
static bool rounding_wait_choose(struct waiting_walk *walk, uint32_t place,
                                 const struct lull_pipeline_waiting_point *points,
                                 size_t point_count, struct lull_pipeline_wait *wait)
{
    const bool is_change = place == walk->ahead && place < walk->end;
    uint32_t ahead = walk->ahead;

    if (is_change)
        ahead = next_change(walk, place, clock_at(walk, place));
    wait->saved_j = 0.0;
    for (size_t i = 0; i < point_count; i++) {
        const double saved_j = saving_j(&points[i], walk->problem->blocking_w[wait->device],
                                        wait->end_ns - wait->begin_ns);
        const int64_t wake_ns = wait->end_ns - points[i].up_ns;

        if (saved_j > wait->saved_j && keeps_dwell(walk, wait->begin_ns, wake_ns, ahead)) {
            wait->saved_j = saved_j;
            wait->point = (uint32_t)i;
            wait->wake_ns = wake_ns;
        }
    }
    walk->ahead = ahead;
    if (wait->saved_j <= 0.0 && !is_change)
        return false;
    walk->last_ns = wait->saved_j > 0.0 ? wait->wake_ns : wait->begin_ns;
    if (walk->change_ns < 0)
        walk->change_ns = wait->begin_ns;
    return wait->saved_j > 0.0;
}

/* Gaps are judged as time continues, since a wait that was chosen moves the last change, from which
 * the dwell counts for the next. */
size_t lull_pipeline_waiting(const struct lull_pipeline_problem *problem,
                             const struct lull_pipeline_waiting_point *points, size_t point_count,
                             const struct lull_pipeline_timeline *timeline,
                             struct lull_pipeline_wait *waits_out, double *saved_j_out)
{
    const struct lull_pipeline_graph *graph = problem->graph;
    double saved_j = 0.0;
    size_t count = 0;

    for (uint32_t device = 0; device < graph->device_count; device++) {
        struct waiting_walk walk = {.problem = problem,
                                    .timeline = timeline,
                                    .first = graph->first_on[device],
                                    .end = graph->first_on[device + 1]};

        rounding_wait_begin(&walk);
        for (uint32_t place = walk.first; place <= walk.end; place++) {
            const bool is_last = place == walk.end;
            const uint32_t op = is_last ? UINT32_MAX : rounding_wait_op_at(&walk, place);
            struct lull_pipeline_wait wait = {.device = device,
                                              .before_op = op,
                                              .begin_ns = free_ns(&walk, place),
                                              .end_ns = is_last ? timeline->period_ns
                                                                : timeline->begin_ns[op]};

            assert(wait.begin_ns <= wait.end_ns);
            if (rounding_wait_choose(&walk, place, points, point_count, &wait)) {
                waits_out[count++] = wait;
                saved_j += wait.saved_j;
            }
        }
    }
    *saved_j_out = saved_j;
    return count;
}
