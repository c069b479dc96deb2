/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/frontier/state.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* A move passes so many operations at points before it jumps, unless a smaller share of the slow
 * end is left. Default: tools/bench pipeline shows no more than tenths of a second. */
enum { MAX_WALKED_OPS = 4000000, JUMPED_SHARE = 256 };

struct lull_frontier {
    struct lull_frontier_network network;
    double blocking_w;   /* of all devices */
    double slow_nj;      /* effective energy at the slow end */
    double effective_nj; /* here */
    int64_t slow_ns;     /* time of the slow end */
    int64_t fastest_ns;  /* time of the fastest lengths */
    bool begun;          /* the slow end has been handed out */
    bool found;          /* the last search led here: its way to the sink has no slack left */
    struct lull_frontier_point *points;
    size_t point_count;
    struct lull_frontier_kept kept[LULL_FRONTIER_KEPT]; /* longer times first */
    size_t kept_count;
    size_t kept_every; /* kept places are this many points apart */
};

const struct lull_frontier_network *lull_frontier_network(const struct lull_frontier *frontier)
{
    return &frontier->network;
}

static double frontier_slope_w(const struct lull_frontier *frontier)
{
    return (double)frontier->network.value * frontier->network.curves.unit_w;
}

struct lull_frontier_point lull_frontier_here(const struct lull_frontier *frontier)
{
    const int64_t time_ns = frontier->network.time_ns;

    return (struct lull_frontier_point){
        .time_ns = time_ns,
        .energy_j = (frontier->effective_nj + frontier->blocking_w * (double)time_ns) * 1e-9,
        .slope_w = frontier_slope_w(frontier),
    };
}

const struct lull_frontier_point *lull_frontier_points(const struct lull_frontier *frontier,
                                                       size_t *count_out)
{
    *count_out = frontier->point_count;
    return frontier->points;
}

/* Makes room by forgetting every other place; the rest is then twice as far apart. */
static void frontier_thin(struct lull_frontier *frontier)
{
    for (size_t i = 0; i < frontier->kept_count; i += 2)
        free(frontier->kept[i].numbers);
    for (size_t i = 1; i < frontier->kept_count; i += 2)
        frontier->kept[i / 2] = frontier->kept[i];
    frontier->kept_count /= 2;
    frontier->kept_every *= 2;
}

/* Remembers the place here, behind all longer times. Without memory it does not. */
static void frontier_keep_here(struct lull_frontier *frontier)
{
    struct lull_frontier_kept *const kept = &frontier->kept[frontier->kept_count];

    kept->effective_nj = frontier->effective_nj;
    frontier->kept_count += lull_network_keep(&frontier->network, kept) == 0;
}

/* Remembers the place here if it is far enough from the last one. */
static void frontier_keep_point(struct lull_frontier *frontier)
{
    if (frontier->point_count % frontier->kept_every != 0)
        return;
    if (frontier->kept_count == LULL_FRONTIER_KEPT)
        frontier_thin(frontier);
    if (frontier->point_count % frontier->kept_every == 0)
        frontier_keep_here(frontier);
}

/* Remembers the point here, unless it has been passed before. */
static int frontier_record(struct lull_frontier *frontier)
{
    const size_t count = frontier->point_count;

    if (count > 0 && frontier->points[count - 1].time_ns <= frontier->network.time_ns)
        return 0;
    if (lull_array_grow(&frontier->points, count, sizeof(*frontier->points)) < 0)
        return -ENOMEM;
    frontier->points[frontier->point_count++] = lull_frontier_here(frontier);
    frontier_keep_point(frontier);
    return 0;
}

/* Number of remembered places that are no shorter than time_ns: the last of them is the nearest.
 */
static size_t count_kept(const struct lull_frontier *frontier, int64_t time_ns)
{
    size_t count = frontier->kept_count;

    while (count > 0 && frontier->kept[count - 1].time_ns < time_ns)
        count--;
    return count;
}

/* Goes to the shortest remembered time that is at least time_ns, or to the slow end. */
static void frontier_seek(struct lull_frontier *frontier, int64_t time_ns)
{
    const size_t count = count_kept(frontier, time_ns);

    frontier->found = false;
    if (count > 0) {
        lull_network_return(&frontier->network, &frontier->kept[count - 1]);
        frontier->effective_nj = frontier->kept[count - 1].effective_nj;
    } else {
        lull_network_reset(&frontier->network);
        frontier->effective_nj = frontier->slow_nj;
    }
}

/* Returns whether there is a remembered place between here and time_ns, or time_ns is longer than
 * here. */
static bool is_far(const struct lull_frontier *frontier, int64_t time_ns)
{
    const int64_t here_ns = frontier->network.time_ns;
    size_t count;

    if (time_ns > here_ns)
        return here_ns < frontier->slow_ns;
    count = count_kept(frontier, time_ns);
    return count > 0 && frontier->kept[count - 1].time_ns < here_ns;
}

/* Returns the time of the plan with the fastest lengths, or -ENOMEM. */
static int64_t find_fastest_ns(const struct lull_frontier_network *network)
{
    int64_t *length_ns;
    int64_t fastest_ns;

    assert(network->op_count > 0);
    length_ns = malloc(network->op_count * sizeof(*length_ns));
    if (length_ns == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < network->op_count; i++) {
        const struct lull_frontier_curve *const curve = &network->curves.all[network->ops[i].curve];

        length_ns[network->graph->topological[i]] = curve->length_ns[curve->steps];
    }
    fastest_ns = lull_pipeline_earliest(network->graph, length_ns, NULL);
    free(length_ns);
    return fastest_ns;
}

/* Number of points that a move may pass before it jumps. */
static size_t most_walked(const struct lull_frontier *frontier)
{
    return MAX_WALKED_OPS / frontier->network.op_count;
}

/* Returns whether a time can be jumped to, and is worth it. */
static bool is_jump(const struct lull_frontier *frontier, int64_t time_ns)
{
    return time_ns >= frontier->fastest_ns &&
           frontier->network.time_ns - time_ns > frontier->slow_ns / JUMPED_SHARE;
}

/* Jumps to a time, or to the shorter one at which min_w watts flow. Returns whether it stands
 * there; otherwise at the slow end, from where it can go by points. */
static bool jump_to(struct lull_frontier *frontier, int64_t time_ns, double min_w)
{
    struct lull_frontier_network *const network = &frontier->network;
    const int64_t least = (int64_t)ceil(min_w / network->curves.unit_w);
    const bool has_jumped = lull_network_jump(network, time_ns, least) == 0;

    frontier->found = false;
    frontier->effective_nj = 0.0;
    for (uint32_t i = 0; i < network->op_count; i++)
        frontier->effective_nj += lull_curve_energy_nj(
            &network->curves.all[network->ops[i].curve], network->curves.unit_w,
            network->potential[2 * (size_t)i + 1] - network->potential[2 * (size_t)i]);
    if (has_jumped && count_kept(frontier, network->time_ns) == frontier->kept_count) {
        if (frontier->kept_count == LULL_FRONTIER_KEPT)
            frontier_thin(frontier);
        frontier_keep_here(frontier);
    }
    return has_jumped;
}

struct lull_frontier *lull_frontier_create(const struct lull_pipeline_problem *problem,
                                           struct lull_error *err)
{
    struct lull_frontier *frontier = calloc(1, sizeof(*frontier));

    if (frontier == NULL) {
        lull_error_set(err, -ENOMEM, "no memory for the frontier");
        return NULL;
    }
    if (lull_network_init(&frontier->network, problem, err) != 0) {
        lull_frontier_destroy(frontier);
        return NULL;
    }
    frontier->blocking_w = lull_pipeline_blocking_sum_w(problem);
    for (uint32_t i = 0; i < frontier->network.op_count; i++)
        frontier->slow_nj += frontier->network.curves.all[frontier->network.ops[i].curve].slow_nj;
    frontier->effective_nj = frontier->slow_nj;
    frontier->slow_ns = frontier->network.time_ns;
    frontier->fastest_ns = find_fastest_ns(&frontier->network);
    frontier->kept_every = 4;
    if (frontier->fastest_ns < 0 || frontier_record(frontier) != 0) {
        lull_frontier_destroy(frontier);
        lull_error_set(err, -ENOMEM, "no memory for the frontier");
        return NULL;
    }
    return frontier;
}

void lull_frontier_destroy(struct lull_frontier *frontier)
{
    if (frontier == NULL)
        return;
    lull_network_fini(&frontier->network);
    for (size_t i = 0; i < frontier->kept_count; i++)
        free(frontier->kept[i].numbers);
    free(frontier->points);
    free(frontier);
}

/*
 * Pushes flow until the iteration can become shorter. Returns by how much in ns (the
 * network's search stands), -ERANGE if it cannot, -ENOMEM.
 */
static int64_t frontier_open_segment(struct lull_frontier *frontier)
{
    struct lull_frontier_network *network = &frontier->network;
    int status;

    do {
        if (frontier->found && !lull_network_push(network))
            return -ERANGE;
        frontier->found = false;
        status = lull_network_search(network);
        if (status != 0)
            return status;
        frontier->found = network->shift_ns == 0;
    } while (frontier->found);
    return network->shift_ns;
}

/* Shortens the iteration within the segment that has been opened. */
static int frontier_move(struct lull_frontier *frontier, int64_t by_ns)
{
    struct lull_frontier_network *network = &frontier->network;

    assert(by_ns >= 0 && by_ns <= network->shift_ns);
    lull_network_shift(network, by_ns);
    frontier->effective_nj += frontier_slope_w(frontier) * (double)by_ns;
    frontier->found = by_ns == network->shift_ns;
    if (!frontier->found)
        return 0;
    return frontier_record(frontier);
}

int lull_frontier_next(struct lull_frontier *frontier, struct lull_frontier_point *point_out)
{
    int64_t segment_ns = 0;
    int status = 0;

    if (frontier->begun)
        segment_ns = frontier_open_segment(frontier);
    if (segment_ns < 0)
        return segment_ns == -ERANGE ? 0 : (int)segment_ns;
    if (frontier->begun)
        status = frontier_move(frontier, segment_ns);
    frontier->begun = true;
    if (status != 0)
        return status;
    *point_out = lull_frontier_here(frontier);
    return 1;
}

/* Remembered places make going back cheap; from the nearest one the move continues by points. */
int lull_frontier_seek(struct lull_frontier *frontier, int64_t time_ns)
{
    size_t left = most_walked(frontier);
    int status = 0;

    if (is_far(frontier, time_ns))
        frontier_seek(frontier, time_ns);
    frontier->begun = true;
    while (status == 0 && frontier->network.time_ns > time_ns) {
        const int64_t left_ns = frontier->network.time_ns - time_ns;
        int64_t segment_ns;

        /* Once: a jump that fails leaves the points. */
        if (left-- == 0 && is_jump(frontier, time_ns)) {
            (void)jump_to(frontier, time_ns, 0.0);
            continue;
        }
        segment_ns = frontier_open_segment(frontier);
        if (segment_ns < 0)
            return (int)segment_ns;
        status = frontier_move(frontier, lull_earlier_ns(segment_ns, left_ns));
    }
    return status;
}

/* Goes by `most` points towards the time of the least energy. Returns whether it stands there;
 * -ENOMEM. */
static int walk_to_cheapest(struct lull_frontier *frontier, size_t most)
{
    if (frontier_slope_w(frontier) > frontier->blocking_w)
        frontier_seek(frontier, INT64_MAX);
    frontier->begun = true;
    for (; most > 0; most--) {
        const int64_t segment_ns = frontier_open_segment(frontier);

        if (segment_ns == -ERANGE || frontier_slope_w(frontier) >= frontier->blocking_w)
            return 1;
        if (segment_ns < 0)
            return (int)segment_ns;
        if (frontier_move(frontier, segment_ns) != 0)
            return -ENOMEM;
    }
    return 0;
}

int lull_frontier_seek_cheapest(struct lull_frontier *frontier)
{
    const int status = walk_to_cheapest(frontier, SIZE_MAX);

    return status < 0 ? status : 0;
}

int lull_frontier_seek_cheapest_within(struct lull_frontier *frontier, int64_t max_ns)
{
    int status = walk_to_cheapest(frontier, most_walked(frontier));

    if (status < 0)
        return status;
    if (status == 0) {
        const int64_t time_ns = lull_earlier_ns(max_ns, frontier->slow_ns);

        if (time_ns < frontier->fastest_ns)
            return lull_frontier_seek(frontier, max_ns);
        if (jump_to(frontier, time_ns, frontier->blocking_w))
            return 0;
        status = lull_frontier_seek_cheapest(frontier);
    }
    if (status >= 0 && frontier->network.time_ns > max_ns)
        status = lull_frontier_seek(frontier, max_ns);
    return status < 0 ? status : 0;
}

void lull_frontier_durations(const struct lull_frontier *frontier, int64_t *duration_out)
{
    const struct lull_frontier_network *network = &frontier->network;

    for (uint32_t i = 0; i < network->op_count; i++) {
        const struct lull_frontier_flow_op *op = &network->ops[i];
        const int64_t slowest_ns = network->curves.all[op->curve].length_ns[0];
        const int64_t *const ends = &network->potential[2 * (size_t)i];
        const int64_t window_ns = ends[1] - ends[0];

        duration_out[network->graph->topological[i]] = lull_earlier_ns(window_ns, slowest_ns);
    }
}

void lull_frontier_certify(const struct lull_frontier *frontier,
                           struct lull_certificate *certificate)
{
    const struct lull_frontier_network *network = &frontier->network;

    certificate->unit_w = network->curves.unit_w;
    certificate->value = network->value;
    for (uint32_t i = 0; i < network->op_count; i++)
        certificate->op_flow[network->graph->topological[i]] = network->ops[i].flow;
    for (size_t i = 0; i < network->graph->edge_count; i++)
        certificate->edge_flow[i] = network->edges[i].flow;
}
