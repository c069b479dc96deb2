/*
 * Rounding: the two efforts. SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/rounding/rounding.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/rounding/state.h"

/* Number of levels by which reclaiming slack distinguishes large savings from small ones. Commit
 * 2e0c524 measured all numbers of rounding on GPT-3, 8 stages and 32 micro-batches, over the whole
 * range of deadlines. */
enum { FINE_LEVELS = 4 };

void lull_round_to_points(const struct lull_pipeline_rounding *rounding, const uint32_t *step,
                          uint32_t *point_out)
{
    for (uint32_t op = 0; op < rounding->count; op++)
        point_out[rounding->place[op]] = step_at(rounding, op, step[op])->point;
}

/* The step of an operating point. An operating point that is on no ladder counts as the slowest
 * step that takes no longer, or as the fastest step if none is that fast. */
static uint32_t to_step(const struct lull_pipeline_rounding *rounding, uint32_t op, uint32_t point)
{
    const struct lull_rounding_ladder *ladder = ladder_at(rounding, op);
    const struct lull_pipeline_class *class =
        &rounding->problem->profile->classes[ladder->class_index];
    uint32_t step = lull_ladder_fit(ladder, class->points[point].time_ns);

    return step == UINT32_MAX ? 0 : step;
}

void lull_round_from_points(const struct lull_pipeline_rounding *rounding, const uint32_t *point,
                            uint32_t *step_out)
{
    for (uint32_t op = 0; op < rounding->count; op++)
        step_out[op] = to_step(rounding, op, point[rounding->place[op]]);
}

/* Makes the fastest plan. Returns whether it holds the deadline. */
static bool all_fastest(struct lull_pipeline_rounding *rounding, int64_t deadline_ns,
                        uint32_t *step_out)
{
    memset(step_out, 0, rounding->count * sizeof(*step_out));
    return lull_round_earliest(rounding, step_out) <= deadline_ns;
}

/*
 * If the relaxed durations do not hold the deadline, shortens them to a weighted mean with the
 * fastest plan's, which does: the longest path is convex in the durations. Returns whether any plan
 * holds the deadline.
 */
static bool rounding_squeeze(struct lull_pipeline_rounding *rounding, int64_t deadline_ns)
{
    int64_t fastest_ns;
    int64_t relaxed_ns;
    double share;

    if (!all_fastest(rounding, deadline_ns, rounding->step))
        return false;
    fastest_ns = lull_round_earliest(rounding, rounding->step);
    relaxed_ns = lull_round_longest(rounding, rounding->duration_ns);
    if (relaxed_ns <= deadline_ns)
        return true;
    assert(fastest_ns <= deadline_ns);
    share = (double)(deadline_ns - fastest_ns) / (double)(relaxed_ns - fastest_ns);
    for (uint32_t op = 0; op < rounding->count; op++) {
        int64_t fastest = step_at(rounding, op, 0)->time_ns;

        if (rounding->duration_ns[op] > fastest)
            rounding->duration_ns[op] =
                fastest + (int64_t)((double)(rounding->duration_ns[op] - fastest) * share);
    }
    return true;
}

/* Relaxed durations that do not hold the deadline are squeezed; if rounding then still misses it,
 * the fastest plan is the start. */
int lull_pipeline_round_quick(struct lull_pipeline_rounding *rounding, const int64_t *relaxed_ns,
                              int64_t deadline_ns, uint32_t *point_out)
{
    uint32_t *step = rounding->step;

    for (uint32_t op = 0; op < rounding->count; op++)
        rounding->duration_ns[op] = relaxed_ns[rounding->place[op]];
    if (!lull_round_down(rounding, rounding->duration_ns, deadline_ns, step)) {
        if (!rounding_squeeze(rounding, deadline_ns))
            return -ERANGE;
        if (!lull_round_down(rounding, rounding->duration_ns, deadline_ns, step)) {
            all_fastest(rounding, deadline_ns, step);
            lull_round_latest(rounding, step, deadline_ns);
        }
    }
    lull_round_sweep(rounding, 0.0, step);
    lull_round_to_points(rounding, step, point_out);
    return 0;
}

/* The relaxed energy of an iteration of deadline_ns. If the frontier stands at an earlier time,
 * every device waits from then on. */
static double bound_at(const struct lull_pipeline_rounding *rounding,
                       const struct lull_frontier *frontier, int64_t deadline_ns)
{
    const struct lull_pipeline_problem *problem = rounding->problem;
    struct lull_frontier_point here = lull_frontier_here(frontier);

    for (uint32_t device = 0; device < problem->graph->device_count; device++)
        here.energy_j += problem->blocking_w[device] * (double)(deadline_ns - here.time_ns) * 1e-9;
    return here.energy_j;
}

int64_t lull_pipeline_round_improve(struct lull_pipeline_rounding *rounding, int64_t deadline_ns,
                                    uint64_t moves_limit, uint32_t *point_inout)
{
    uint32_t *step = rounding->step;
    uint64_t made;
    int rc = lull_round_prepare_moves(rounding);

    if (rc < 0)
        return rc;
    lull_round_from_points(rounding, point_inout, step);
    if (lull_round_earliest(rounding, step) > deadline_ns)
        return -ERANGE;
    made = lull_round_moves(rounding, deadline_ns, moves_limit, step);
    assert(made <= INT64_MAX);
    lull_round_to_points(rounding, step, point_inout);
    return (int64_t)made;
}

/*
 * The times of the relaxed optima that the thorough search starts from, as shares of the deadline.
 * Near a time where many operations change between operating points that are far apart, a plan for
 * a later deadline that is made shorter beats one that is rounded in place. Commit 2e0c524 chose
 * them and the ratio below: 8x32 1F1B comes to within 0.056 % of the bound on average, 0.155 % at
 * worst, on the A100 profile.
 */
static const double STARTS[] = {1.015, 1.01, 1.005, 1.0025, 1.0, 0.9975};
enum { START_COUNT = sizeof(STARTS) / sizeof(STARTS[0]), IN_PLACE = 4 };

/* The order in which starts are tried: in place first, since that plan is the cheapest to improve.
 */
static const unsigned ORDER[START_COUNT] = {IN_PLACE, 2, 3, 5, 1, 0};

/* No other start is tried once the plan is this near to the bound. */
static const double NEAR_RATIO = 1.0008;

struct starts {
    int64_t *duration_ns[START_COUNT]; /* the relaxed durations of each start */
    unsigned count;                    /* number of starts; the rest are too fast for any plan */
    double bound_j;                    /* the relaxed energy at the deadline */
};

/* Finds the durations at every start, the slowest first, in the direction that the frontier walks.
 */
static int find_starts(struct lull_pipeline_rounding *rounding, struct lull_frontier *frontier,
                       int64_t deadline_ns, int64_t *durations, struct starts *starts)
{
    for (unsigned i = 0; i < START_COUNT; i++) {
        int64_t time_ns = i == IN_PLACE ? deadline_ns : (int64_t)((double)deadline_ns * STARTS[i]);
        int rc = lull_frontier_seek(frontier, time_ns);

        if (rc < 0 && (rc != -ERANGE || i <= IN_PLACE))
            return rc;
        if (rc < 0)
            break;
        if (i == IN_PLACE)
            starts->bound_j = bound_at(rounding, frontier, deadline_ns);
        starts->duration_ns[i] = durations + (size_t)i * rounding->count;
        lull_frontier_durations(frontier, starts->duration_ns[i]);
        starts->count = i + 1;
    }
    return 0;
}

/* Makes a plan from one start in rounding->step. Returns false if it finds none within the
 * deadline. */
static bool from_start(struct lull_pipeline_rounding *rounding, const int64_t *relaxed_ns,
                       int64_t deadline_ns)
{
    uint32_t *step = rounding->step;
    int64_t longest_ns;

    for (uint32_t op = 0; op < rounding->count; op++)
        rounding->duration_ns[op] = relaxed_ns[rounding->place[op]];
    longest_ns = lull_round_longest(rounding, rounding->duration_ns);
    if (longest_ns < deadline_ns)
        longest_ns = deadline_ns;
    lull_round_down(rounding, rounding->duration_ns, longest_ns, step);
    if (!lull_round_shorten(rounding, deadline_ns, step))
        return false;
    lull_round_reclaim(rounding, deadline_ns, FINE_LEVELS, step);
    lull_round_moves(rounding, deadline_ns, UINT64_MAX, step);
    return true;
}

/* Plans are compared by their energy in an iteration that takes as long as the deadline, since
 * waiting for it draws blocking power. */
static int rounding_search(struct lull_pipeline_rounding *rounding, const struct starts *starts,
                           int64_t deadline_ns, uint32_t *point_out)
{
    const struct lull_pipeline_problem *problem = rounding->problem;
    double min_j = (double)INFINITY;

    for (unsigned i = 0; i < START_COUNT; i++) {
        double energy_j;

        if (ORDER[i] >= starts->count || min_j <= starts->bound_j * NEAR_RATIO ||
            !from_start(rounding, starts->duration_ns[ORDER[i]], deadline_ns))
            continue;
        lull_round_to_points(rounding, rounding->step, rounding->point);
        energy_j = lull_pipeline_plan_cost(problem, rounding->point, deadline_ns).energy_j;
        if (energy_j < min_j) {
            min_j = energy_j;
            memcpy(point_out, rounding->point, rounding->count * sizeof(*point_out));
        }
    }
    if (!(min_j < (double)INFINITY))
        return -ERANGE;
    return 0;
}

int lull_pipeline_round_thorough(struct lull_pipeline_rounding *rounding,
                                 struct lull_frontier *frontier, int64_t deadline_ns,
                                 uint32_t *point_out)
{
    struct starts starts = {.count = 0};
    int64_t *durations = malloc(START_COUNT * sizeof(*durations) * rounding->count);
    int rc;

    if (durations == NULL)
        return -ENOMEM;
    rc = lull_round_prepare_moves(rounding);
    if (rc < 0)
        goto done;
    rc = find_starts(rounding, frontier, deadline_ns, durations, &starts);
    if (rc < 0)
        goto done;
    assert(starts.count > IN_PLACE);
    rc = rounding_search(rounding, &starts, deadline_ns, point_out);
done:
    free(durations);
    return rc;
}
