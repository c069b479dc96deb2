/*
 * Learning: a recorded window becomes gaps, and the edges of communication kernels that announce
 * them. SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "core/section/exposure.h"
#include "core/section/gaps/gap_map_state.h"

/* A gap shorter than this is not kept: no driver could switch for it. */
static const int64_t keep_ns = INT64_C(3000000);
/* A kernel that begins with a gap may announce it if it begins no later than this. */
static const int64_t late_begin_ns = INT64_C(2000000);
/* Ends that vary by more than this share of the gap forecast nothing. */
static const double spread_max = 0.5;
/* Two iterations count as one if that explains this share of what varies between iterations... */
static const double explained_min = 0.7;
/* ...and the times of an edge vary by more than this. */
static const int64_t variation_ns = INT64_C(500000);

/* This many edges before a gap may announce it; this many iterations may count as one. */
enum { ANCHORS = 3, MAX_FOLD = 2 };
/* At most this many kernels beside one gap are looked at. */
enum { MAX_BESIDE = 128 };

/* A window that is being learnt from, cut into passes of `fold` iterations. */
struct gap_map_learn_window {
    const struct lull_gap_map *map;
    uint32_t fold;
    uint32_t passes;
    uint32_t edges; /* of one pass */
};

/* A distance from an edge to a gap's begin or end, over all passes. */
struct distance {
    bool is_known;
    int32_t edge; /* see edge_ns() */
    int64_t min_ns;
    int64_t max_ns;
};

/* ---- looking into the window ------------------------------------------------------------- */

/*
 * Time of an edge, which is counted from the first one of a pass: negative numbers are edges of the
 * pass before, and numbers beyond its last edge are edges of the next pass. 0: it was not recorded.
 */
static int64_t edge_ns(const struct gap_map_learn_window *window, uint32_t pass, int32_t edge)
{
    const int64_t per_period = 2 * (int64_t)window->map->period;
    const int64_t absolute = (int64_t)pass * window->edges + edge;

    if (absolute < 0 || absolute > per_period * LULL_GAP_MAP_PERIODS)
        return 0;
    return *lull_gap_map_edge(window->map, (uint32_t)(absolute / per_period),
                              (uint32_t)(absolute % per_period));
}

int64_t lull_gap_map_in_pass_ns(const struct lull_gap_map *map, int64_t recorded_ns)
{
    const uint32_t reference = (LULL_GAP_MAP_PERIODS / map->fold - 2) * map->fold;

    assert(map->pass_ns > 0);
    const int64_t from_first_ns =
        (recorded_ns - *lull_gap_map_edge(map, reference, 0)) % map->pass_ns;

    if (from_first_ns < 0)
        return from_first_ns + map->pass_ns;
    return from_first_ns;
}

/* The gap of this number: it follows the run of the same number. */
static struct lull_run gap_at(const struct gap_map_learn_window *window, uint32_t index)
{
    const struct lull_run *runs = window->map->record.runs;

    return (struct lull_run){runs[index].end_ns, runs[index + 1].begin_ns};
}

static uint32_t gap_total(const struct gap_map_learn_window *window)
{
    return window->map->record.run_count == 0 ? 0 : window->map->record.run_count - 1;
}

static int64_t overlap_ns(const struct lull_run *a, const struct lull_run *b)
{
    const int64_t begin_ns = lull_later_ns(a->begin_ns, b->begin_ns);
    const int64_t end_ns = lull_earlier_ns(a->end_ns, b->end_ns);

    return lull_later_ns(end_ns - begin_ns, 0);
}

/* The gap that has most in common with the expected one; false: none has anything. */
static bool gap_map_find_gap(const struct gap_map_learn_window *window,
                             const struct lull_run *expected, struct lull_run *found_out)
{
    int64_t best_ns = 0;

    for (uint32_t i = 0; i < gap_total(window); i++) {
        const struct lull_run gap = gap_at(window, i);
        const int64_t common_ns = overlap_ns(&gap, expected);

        if (common_ns > best_ns) {
            best_ns = common_ns;
            *found_out = gap;
        }
    }
    return best_ns > 0;
}

/* ---- which edge announces what ----------------------------------------------------------- */

/* Returns whether the record covers the gap: it reaches from the end of its first run to the start
 * of its last. */
static bool is_recorded(const struct gap_map_learn_window *window, const struct lull_run *gap)
{
    const struct lull_gap_record *record = &window->map->record;

    return record->run_count > 0 && gap->begin_ns >= record->runs[0].end_ns &&
           gap->end_ns <= record->runs[record->run_count - 1].begin_ns;
}

/*
 * The distance from an edge to the start, or the end, of a gap, over all passes. gap: as it is in
 * the reference pass; other passes have counterparts of it. Unknown if a pass has none.
 */
static struct distance gap_map_measure(const struct gap_map_learn_window *window,
                                       uint32_t reference, const struct lull_run *gap, int32_t edge,
                                       bool to_begin)
{
    struct distance distance = {true, edge, INT64_MAX, INT64_MIN};
    const int64_t from_ns = edge_ns(window, reference, edge);

    for (uint32_t pass = 0; pass < window->passes && distance.is_known; pass++) {
        const int64_t shift_ns = edge_ns(window, pass, edge) - from_ns;
        const struct lull_run expected = {gap->begin_ns + shift_ns, gap->end_ns + shift_ns};
        struct lull_run found;
        int64_t ns;

        if (edge_ns(window, pass, edge) == 0 ||
            (pass != reference && !is_recorded(window, &expected)))
            continue;
        distance.is_known = gap_map_find_gap(window, &expected, &found);
        if (!distance.is_known)
            break;
        ns = (to_begin ? found.begin_ns : found.end_ns) - edge_ns(window, pass, edge);
        distance.min_ns = lull_earlier_ns(ns, distance.min_ns);
        distance.max_ns = lull_later_ns(ns, distance.max_ns);
    }
    return distance;
}

/* Finds the edges that come last at or before a time, the latest first, at most ANCHORS of them;
 * returns their number. */
static uint32_t edges_before(const struct gap_map_learn_window *window, uint32_t reference,
                             int64_t time_ns, int32_t edges_out[ANCHORS])
{
    const int32_t passes = (int32_t)window->edges;
    uint32_t count = 0;

    for (int32_t edge = -passes; edge < 2 * passes; edge++) {
        const int64_t ns = edge_ns(window, reference, edge);
        uint32_t place = count;

        if (ns == 0 || ns > time_ns)
            continue;
        while (place > 0 && edge_ns(window, reference, edges_out[place - 1]) <= ns)
            place--;
        if (place == ANCHORS)
            continue;
        count += count < ANCHORS;
        memmove(&edges_out[place + 1], &edges_out[place],
                (count - 1 - place) * sizeof(edges_out[0]));
        edges_out[place] = edge;
    }
    return count;
}

/* Finds the edge that comes first after a time; false: none was recorded. */
static bool edge_after(const struct gap_map_learn_window *window, uint32_t reference,
                       int64_t time_ns, int32_t *edge_out)
{
    int64_t soonest_ns = INT64_MAX;

    for (int32_t edge = 0; edge < 2 * (int32_t)window->edges; edge++) {
        const int64_t ns = edge_ns(window, reference, edge);

        if (ns > time_ns && ns < soonest_ns) {
            soonest_ns = ns;
            *edge_out = edge;
        }
    }
    return soonest_ns != INT64_MAX;
}

static int64_t spread_ns(const struct distance *distance)
{
    return distance->max_ns - distance->min_ns;
}

/* Returns whether an edge never comes before another one. */
static bool never_before(const struct gap_map_learn_window *window, int32_t edge, int32_t other)
{
    for (uint32_t pass = 0; pass < window->passes; pass++) {
        const int64_t ns = edge_ns(window, pass, edge);
        const int64_t other_ns = edge_ns(window, pass, other);

        if (ns != 0 && other_ns != 0 && ns < other_ns)
            return false;
    }
    return true;
}

/* Of the edges at or before the gap's begin or end, the one with the steadiest distance to it.
 * from: an edge that it must not come before; null: it may be any. */
static struct distance gap_map_steadiest(const struct gap_map_learn_window *window,
                                         uint32_t reference, const struct lull_run *gap,
                                         bool to_begin, const int32_t *from)
{
    struct distance best = {false};
    int32_t edges[ANCHORS];
    const uint32_t count =
        edges_before(window, reference, to_begin ? gap->begin_ns : gap->end_ns, edges);

    for (uint32_t i = 0; i < count; i++) {
        struct distance next;

        if (from != NULL && edges[i] != *from && !never_before(window, edges[i], *from))
            continue;
        next = gap_map_measure(window, reference, gap, edges[i], to_begin);
        if (next.is_known && next.min_ns >= 0 &&
            (!best.is_known || spread_ns(&next) < spread_ns(&best)))
            best = next;
    }
    return best;
}

/* A kernel that begins with the gap announces it better than one that ended long before. */
static struct distance begin_of(const struct gap_map_learn_window *window, uint32_t reference,
                                const struct lull_run *gap)
{
    struct distance before = gap_map_steadiest(window, reference, gap, true, NULL);
    struct distance with = {false};
    int32_t edge;
    bool is_near;

    if (edge_after(window, reference, gap->begin_ns, &edge))
        with = gap_map_measure(window, reference, gap, edge, true);
    is_near = with.is_known && -with.min_ns <= late_begin_ns;
    if (!is_near || (before.is_known && spread_ns(&before) <= -with.min_ns))
        return before;
    with.max_ns = lull_later_ns(with.max_ns, 0);
    return with;
}

/* ---- gaps -------------------------------------------------------------------------------- */

/* Time of a gap during which communication runs; *position_out: the kernel that runs during most of
 * it. */
static int64_t exposed_ns(const struct gap_map_learn_window *window, uint32_t reference,
                          const struct lull_run *gap, uint32_t *position_out)
{
    struct lull_interval beside[MAX_BESIDE];
    struct lull_union together = {beside, 0};
    int64_t best_ns = 0;

    for (int32_t edge = -(int32_t)window->edges; edge < 2 * (int32_t)window->edges; edge += 2) {
        const struct lull_run kernel = {edge_ns(window, reference, edge),
                                        edge_ns(window, reference, edge + 1)};
        const int64_t common_ns =
            kernel.begin_ns == 0 || kernel.end_ns == 0 ? 0 : overlap_ns(&kernel, gap);

        if (common_ns > 0 && together.count < MAX_BESIDE)
            beside[together.count++] = (struct lull_interval){kernel.begin_ns, kernel.end_ns};
        if (common_ns > best_ns) {
            best_ns = common_ns;
            *position_out = (uint32_t)(edge + (int32_t)window->edges) / 2 % window->map->period;
        }
    }
    together.count = lull_intervals_unite(beside, together.count);
    return lull_union_covered(together, (struct lull_interval){gap->begin_ns, gap->end_ns});
}

static struct lull_call gap_map_describe(const struct gap_map_learn_window *window,
                                         const struct lull_run *gap, int64_t exposed,
                                         uint32_t position)
{
    struct lull_call call = {.peer = -1};

    if (2 * exposed >= gap->end_ns - gap->begin_ns) {
        call = window->map->kernels[position];
        call.is_cautious = window->map->is_blind;
    }
    return call;
}

static uint32_t within_pass(const struct gap_map_learn_window *window, int32_t edge)
{
    return (uint32_t)(edge + (int32_t)window->edges) % window->edges;
}

/* Returns whether the next edge is the end of a kernel that was under way when the gap began. */
static bool begins_beside(const struct gap_map_learn_window *window, uint32_t reference,
                          const struct lull_run *gap, int32_t next)
{
    return next % 2 != 0 && edge_ns(window, reference, next - 1) < gap->begin_ns;
}

/* Plans a gap of the reference pass; false: it is not in every pass, too short, or too unsteady. */
static bool plan_gap(const struct gap_map_learn_window *window, uint32_t reference,
                     const struct lull_run *gap, struct lull_mapped_gap *gap_out,
                     struct lull_gap_plan *plan_out)
{
    const struct distance begin = begin_of(window, reference, gap);
    struct distance end;
    struct lull_run emitted;
    uint32_t position = 0;
    int64_t exposed;
    int32_t next;

    if (!begin.is_known)
        return false;
    end = gap_map_steadiest(window, reference, gap, false, &begin.edge);
    if (!end.is_known ||
        (double)spread_ns(&end) > spread_max * (double)(gap->end_ns - gap->begin_ns))
        return false;
    emitted.begin_ns = edge_ns(window, reference, begin.edge) + begin.max_ns;
    emitted.end_ns = edge_ns(window, reference, end.edge) + end.min_ns;
    if (emitted.end_ns - emitted.begin_ns < keep_ns)
        return false;
    if (!edge_after(window, reference, emitted.begin_ns, &next))
        next = begin.edge;
    exposed = exposed_ns(window, reference, &emitted, &position);
    *gap_out = (struct lull_mapped_gap){
        .length_ms = (double)(emitted.end_ns - emitted.begin_ns) * 1e-6,
        .exposed_ms = (double)exposed * 1e-6,
        .call = gap_map_describe(window, &emitted, exposed, position),
    };
    *plan_out = (struct lull_gap_plan){
        .begin_edge = within_pass(window, begin.edge),
        .end_edge = within_pass(window, end.edge),
        .next_edge = within_pass(window, next),
        .is_hidden = begins_beside(window, reference, &emitted, next),
        .until_next.typical_ns =
            edge_ns(window, reference, next) - edge_ns(window, reference, begin.edge),
        .begin_offset_ns = begin.max_ns,
        .end_offset_ns = end.min_ns,
        .announced_ns =
            lull_gap_map_in_pass_ns(window->map, edge_ns(window, reference, begin.edge)),
    };
    return true;
}

static uint32_t shortest_gap(const struct lull_gap_map *map)
{
    uint32_t shortest = 0;

    for (uint32_t i = 1; i < map->gap_count; i++)
        if (map->gaps[i].length_ms < map->gaps[shortest].length_ms)
            shortest = i;
    return shortest;
}

/* Appends a gap. A full list loses its shortest gap, which may be this one. */
static void gap_map_append_gap(struct lull_gap_map *map, const struct lull_mapped_gap *gap,
                               const struct lull_gap_plan *plan)
{
    if (map->gap_count == LULL_GAP_MAP_MAX_GAPS) {
        const uint32_t out = shortest_gap(map);
        const uint32_t behind = LULL_GAP_MAP_MAX_GAPS - 1 - out;

        if (map->gaps[out].length_ms >= gap->length_ms)
            return;
        memmove(&map->gaps[out], &map->gaps[out + 1], behind * sizeof(map->gaps[0]));
        memmove(&map->plans[out], &map->plans[out + 1], behind * sizeof(map->plans[0]));
        map->gap_count--;
    }
    assert(map->gap_count < LULL_GAP_MAP_MAX_GAPS);
    map->gaps[map->gap_count] = *gap;
    map->plans[map->gap_count++] = *plan;
}

/* Numbers the gaps in the order in which they are announced, which need not be that of their
 * begins. */
static void order_gaps(struct lull_gap_map *map)
{
    for (uint32_t i = 0; i < map->gap_count; i++)
        map->gaps[i].call.place = i + 1;
}

/*
 * Returns whether a gap belongs to the reference pass, which reaches from its first edge to that of
 * the next pass. A gap that begins before that edge in some passes and after it in others belongs
 * to the first pass in which it begins after it, so that none counts twice or not at all.
 */
static bool is_of_pass(const struct gap_map_learn_window *window, uint32_t reference,
                       const struct lull_run *gap)
{
    const int64_t begin_ns = edge_ns(window, reference, 0);
    const int64_t shift_ns = begin_ns - edge_ns(window, reference, -(int32_t)window->edges);
    const struct lull_run expected = {gap->begin_ns - shift_ns, gap->end_ns - shift_ns};
    struct lull_run before;

    if (gap->begin_ns < begin_ns)
        return false;
    return gap_map_find_gap(window, &expected, &before)
               ? before.begin_ns < begin_ns
               : gap->begin_ns < edge_ns(window, reference, (int32_t)window->edges);
}

static void gap_map_plan_all(struct lull_gap_map *map, const struct gap_map_learn_window *window)
{
    const uint32_t reference = window->passes - 2; /* the passes before and after it are recorded */

    map->pass_ns =
        edge_ns(window, reference, (int32_t)window->edges) - edge_ns(window, reference, 0);
    map->pass = (struct lull_stretch){.typical_ns = map->pass_ns};
    map->gap_count = 0;
    for (uint32_t i = 0; map->pass_ns > 0 && i < gap_total(window); i++) {
        const struct lull_run gap = gap_at(window, i);
        struct lull_mapped_gap planned;
        struct lull_gap_plan plan;

        if (gap.end_ns - gap.begin_ns >= keep_ns && is_of_pass(window, reference, &gap) &&
            plan_gap(window, reference, &gap, &planned, &plan))
            gap_map_append_gap(map, &planned, &plan);
    }
    order_gaps(map);
}

/* ---- one iteration or two ---------------------------------------------------------------- */

/* Variation, between passes, of the distance from one edge to the next, summed over the edges. */
static int64_t variation_of(const struct gap_map_learn_window *window)
{
    int64_t sum_ns = 0;

    for (int32_t edge = 1; edge <= (int32_t)window->edges; edge++) {
        int64_t min_ns = INT64_MAX;
        int64_t max_ns = INT64_MIN;

        for (uint32_t pass = 0; pass < window->passes; pass++) {
            const int64_t ns = edge_ns(window, pass, edge) - edge_ns(window, pass, edge - 1);

            min_ns = lull_earlier_ns(ns, min_ns);
            max_ns = lull_later_ns(ns, max_ns);
        }
        sum_ns += max_ns - min_ns;
    }
    return sum_ns;
}

static struct gap_map_learn_window window_of(const struct lull_gap_map *map, uint32_t fold)
{
    return (struct gap_map_learn_window){map, fold, LULL_GAP_MAP_PERIODS / fold,
                                         2 * map->period * fold};
}

static uint32_t find_fold(const struct lull_gap_map *map)
{
    const struct gap_map_learn_window single = window_of(map, 1);
    const struct gap_map_learn_window twofold = window_of(map, MAX_FOLD);
    const int64_t alone_ns = variation_of(&single);
    const int64_t paired_ns = variation_of(&twofold) / MAX_FOLD; /* has twice the edges */
    const bool is_explained = (double)paired_ns <= (1.0 - explained_min) * (double)alone_ns;

    return is_explained && alone_ns > variation_ns * (int64_t)single.edges ? MAX_FOLD : 1;
}

/* ---- nothing but kernels ----------------------------------------------------------------- */

/* Returns whether a kernel ever begins before the one that was enqueued before it has ended. */
static bool has_races(const struct gap_map_learn_window *window)
{
    const int32_t edges = (int32_t)(LULL_GAP_MAP_PERIODS * 2 * window->map->period);

    for (int32_t edge = 2; edge < edges; edge += 2)
        if (edge_ns(window, 0, edge) < edge_ns(window, 0, edge - 1))
            return true;
    return false;
}

/* The longest kernel; where times show the iteration, the first one, which is the same on all
 * ranks. */
static int32_t find_standing_kernel(const struct gap_map_learn_window *window)
{
    const uint32_t reference = window->passes - 2;
    int64_t longest_ns = -1;
    int32_t longest = 0;

    if (lull_kernel_order_goes_by_times(window->map->order))
        return 0;
    for (int32_t edge = 0; edge < (int32_t)window->edges; edge += 2) {
        const int64_t ns = edge_ns(window, reference, edge + 1) - edge_ns(window, reference, edge);

        if (ns > longest_ns) {
            longest_ns = ns;
            longest = edge;
        }
    }
    return longest;
}

/* One kernel represents a gap: it comes once per iteration, and nothing more is known of it than of
 * kernels that are passed on. */
static void plan_kernel(struct lull_gap_map *map, const struct gap_map_learn_window *window)
{
    const uint32_t reference = window->passes - 2;
    const int32_t edge = find_standing_kernel(window);
    const double length_ms =
        (double)(edge_ns(window, reference, edge + 1) - edge_ns(window, reference, edge)) * 1e-6;

    map->gaps[0] = (struct lull_mapped_gap){
        .length_ms = length_ms,
        .exposed_ms = length_ms,
        .call = map->kernels[(uint32_t)edge / 2 % map->period],
    };
    map->gaps[0].call.is_cautious = true;
    map->plans[0] = (struct lull_gap_plan){
        .begin_edge = (uint32_t)edge,
        .end_edge = (uint32_t)edge + 1,
        .announced_ns = lull_gap_map_in_pass_ns(map, edge_ns(window, reference, edge)),
    };
    map->gap_count = 1;
    order_gaps(map);
}

void lull_gap_map_plan_gaps(struct lull_gap_map *map)
{
    struct gap_map_learn_window window;

    if (map->is_blind)
        lull_gap_map_guess_compute(map);
    map->fold = find_fold(map);
    window = window_of(map, map->fold);
    gap_map_plan_all(map, &window);
    if (map->gap_count == 0 && map->pass_ns > 0 &&
        (has_races(&window) || lull_kernel_order_goes_by_times(map->order)))
        plan_kernel(map, &window);
}
