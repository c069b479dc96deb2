/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "core/section/exposure.h"
#include "core/section/gaps/gap_map_state.h"

static const int64_t keep_ns = INT64_C(3000000);
/* A gap may be said to begin with a kernel that begins so much later, at most. */
static const int64_t late_begin_ns = INT64_C(2000000);
/* Ends that vary by more than this share of the gap forecast nothing. */
static const double spread_max = 0.5;
/* Two iterations count as one if that explains this share of what varies between iterations... */
static const double explained_min = 0.7;
/* ...and it varies by more than this per edge. */
static const int64_t variation_ns = INT64_C(500000);

enum { ANCHORS = 3, MAX_FOLD = 2 };
/* Kernels beside one gap that are looked at. */
enum { MOST_BESIDE = 128 };

/* A window that is being learnt from, as so many passes of `fold` iterations. */
struct window {
    const struct lull_gap_map *map;
    uint32_t fold;
    uint32_t passes;
    uint32_t edges; /* of one pass */
};

/* A distance from an edge to a gap's begin or end, over all passes. */
struct distance {
    bool is_known;
    int32_t edge; /* see edge_ns() */
    int64_t least_ns;
    int64_t most_ns;
};

/* ---- looking into the window ------------------------------------------------------------- */

/*
 * Time of an edge, counted from the first of a pass: negative ones are of the pass before, those
 * behind the last of the next one. 0: not recorded.
 */
static int64_t edge_ns(const struct window *window, uint32_t pass, int32_t edge)
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

    return from_first_ns < 0 ? from_first_ns + map->pass_ns : from_first_ns;
}

/* Runs before and after a gap; the gap is number i if it follows run i. */
static struct lull_run gap_at(const struct window *window, uint32_t index)
{
    const struct lull_run *runs = window->map->record.runs;

    return (struct lull_run){runs[index].end_ns, runs[index + 1].begin_ns};
}

static uint32_t gap_total(const struct window *window)
{
    return window->map->record.run_count == 0 ? 0 : window->map->record.run_count - 1;
}

static int64_t overlap_ns(const struct lull_run *a, const struct lull_run *b)
{
    const int64_t begin_ns = a->begin_ns > b->begin_ns ? a->begin_ns : b->begin_ns;
    const int64_t end_ns = a->end_ns < b->end_ns ? a->end_ns : b->end_ns;

    return end_ns > begin_ns ? end_ns - begin_ns : 0;
}

/* The gap that has most in common with the expected one; false: none has anything. */
static bool find_gap(const struct window *window, const struct lull_run *expected,
                     struct lull_run *found_out)
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

/* Whether the record tells of that time, from its first run's end to its last one's begin. */
static bool is_recorded(const struct window *window, const struct lull_run *gap)
{
    const struct lull_gap_record *record = &window->map->record;

    return record->run_count > 0 && gap->begin_ns >= record->runs[0].end_ns &&
           gap->end_ns <= record->runs[record->run_count - 1].begin_ns;
}

/*
 * Distance from an edge of each pass to that pass' counterpart of a gap of the reference pass: to
 * its begin or its end. Unknown if a pass has no counterpart.
 */
static struct distance measure(const struct window *window, uint32_t reference,
                               const struct lull_run *gap, int32_t edge, bool to_begin)
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
        distance.is_known = find_gap(window, &expected, &found);
        if (!distance.is_known)
            break;
        ns = (to_begin ? found.begin_ns : found.end_ns) - edge_ns(window, pass, edge);
        distance.least_ns = ns < distance.least_ns ? ns : distance.least_ns;
        distance.most_ns = ns > distance.most_ns ? ns : distance.most_ns;
    }
    return distance;
}

/* The edges that come last at or before a time, the latest first; as many as there are, at most
 * ANCHORS. */
static uint32_t edges_before(const struct window *window, uint32_t reference, int64_t time_ns,
                             int32_t edges_out[ANCHORS])
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

/* The edge that comes first after a time; false: none was recorded. */
static bool edge_after(const struct window *window, uint32_t reference, int64_t time_ns,
                       int32_t *edge_out)
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
    return distance->most_ns - distance->least_ns;
}

/* Whether an edge never comes before another one. */
static bool never_before(const struct window *window, int32_t edge, int32_t other)
{
    for (uint32_t pass = 0; pass < window->passes; pass++) {
        const int64_t ns = edge_ns(window, pass, edge);
        const int64_t other_ns = edge_ns(window, pass, other);

        if (ns != 0 && other_ns != 0 && ns < other_ns)
            return false;
    }
    return true;
}

/* Of the edges at or before the gap's begin or end, not before `from`. NULL: any. */
static struct distance steadiest(const struct window *window, uint32_t reference,
                                 const struct lull_run *gap, bool to_begin, const int32_t *from)
{
    struct distance best = {false};
    int32_t edges[ANCHORS];
    const uint32_t count =
        edges_before(window, reference, to_begin ? gap->begin_ns : gap->end_ns, edges);

    for (uint32_t i = 0; i < count; i++) {
        struct distance next;

        if (from != NULL && edges[i] != *from && !never_before(window, edges[i], *from))
            continue;
        next = measure(window, reference, gap, edges[i], to_begin);
        if (next.is_known && next.least_ns >= 0 &&
            (!best.is_known || spread_ns(&next) < spread_ns(&best)))
            best = next;
    }
    return best;
}

/* A kernel that begins with the gap announces it better than one that ended long before. */
static struct distance begin_of(const struct window *window, uint32_t reference,
                                const struct lull_run *gap)
{
    struct distance before = steadiest(window, reference, gap, true, NULL);
    struct distance with = {false};
    int32_t edge;
    bool is_near;

    if (edge_after(window, reference, gap->begin_ns, &edge))
        with = measure(window, reference, gap, edge, true);
    is_near = with.is_known && -with.least_ns <= late_begin_ns;
    if (!is_near || (before.is_known && spread_ns(&before) <= -with.least_ns))
        return before;
    with.most_ns = with.most_ns > 0 ? with.most_ns : 0;
    return with;
}

/* ---- gaps -------------------------------------------------------------------------------- */

/* The kernel that most of a gap is spent beside; how much beside any. */
static int64_t exposed_ns(const struct window *window, uint32_t reference,
                          const struct lull_run *gap, uint32_t *position_out)
{
    struct lull_interval beside[MOST_BESIDE];
    struct lull_union together = {beside, 0};
    int64_t best_ns = 0;

    for (int32_t edge = -(int32_t)window->edges; edge < 2 * (int32_t)window->edges; edge += 2) {
        const struct lull_run kernel = {edge_ns(window, reference, edge),
                                        edge_ns(window, reference, edge + 1)};
        const int64_t common_ns =
            kernel.begin_ns == 0 || kernel.end_ns == 0 ? 0 : overlap_ns(&kernel, gap);

        if (common_ns > 0 && together.count < MOST_BESIDE)
            beside[together.count++] = (struct lull_interval){kernel.begin_ns, kernel.end_ns};
        if (common_ns > best_ns) {
            best_ns = common_ns;
            *position_out = (uint32_t)(edge + (int32_t)window->edges) / 2 % window->map->period;
        }
    }
    together.count = lull_intervals_unite(beside, together.count);
    return lull_union_covered(together, (struct lull_interval){gap->begin_ns, gap->end_ns});
}

static struct lull_call describe(const struct window *window, const struct lull_run *gap,
                                 int64_t exposed, uint32_t position)
{
    struct lull_call call = {.peer = -1};

    if (2 * exposed >= gap->end_ns - gap->begin_ns) {
        call = window->map->kernels[position];
        call.is_cautious = window->map->is_blind;
    }
    return call;
}

static uint32_t within_pass(const struct window *window, int32_t edge)
{
    return (uint32_t)(edge + (int32_t)window->edges) % window->edges;
}

/* Plans the reference pass' gap; false if it is not in every pass, or too short, or too unsteady.
 */
static bool plan_gap(const struct window *window, uint32_t reference, const struct lull_run *gap,
                     struct lull_mapped_gap *gap_out, struct lull_gap_plan *plan_out)
{
    const struct distance begin = begin_of(window, reference, gap);
    struct distance end;
    struct lull_run emitted;
    uint32_t position = 0;
    int64_t exposed;

    if (!begin.is_known)
        return false;
    end = steadiest(window, reference, gap, false, &begin.edge);
    if (!end.is_known ||
        (double)spread_ns(&end) > spread_max * (double)(gap->end_ns - gap->begin_ns))
        return false;
    emitted.begin_ns = edge_ns(window, reference, begin.edge) + begin.most_ns;
    emitted.end_ns = edge_ns(window, reference, end.edge) + end.least_ns;
    if (emitted.end_ns - emitted.begin_ns < keep_ns)
        return false;
    exposed = exposed_ns(window, reference, &emitted, &position);
    *gap_out = (struct lull_mapped_gap){
        .length_ms = (double)(emitted.end_ns - emitted.begin_ns) * 1e-6,
        .exposed_ms = (double)exposed * 1e-6,
        .call = describe(window, &emitted, exposed, position),
    };
    *plan_out = (struct lull_gap_plan){
        .begin_edge = within_pass(window, begin.edge),
        .end_edge = within_pass(window, end.edge),
        .begin_offset_ns = begin.most_ns,
        .end_offset_ns = end.least_ns,
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

/* Appends; a full list loses its shortest gap, which may be this one. */
static void keep_gap(struct lull_gap_map *map, const struct lull_mapped_gap *gap,
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

/* In the order in which their begins are announced, which need not be that of their begins. */
static void order_gaps(struct lull_gap_map *map)
{
    for (uint32_t i = 0; i < map->gap_count; i++)
        map->gaps[i].call.place = i + 1;
}

/*
 * Whether a gap is the reference pass', which reaches from its first edge to the next pass'. One
 * that begins now before that edge and now after it is the pass' in which it began after it first,
 * so that none counts twice or not at all.
 */
static bool is_of_pass(const struct window *window, uint32_t reference, const struct lull_run *gap)
{
    const int64_t begin_ns = edge_ns(window, reference, 0);
    const int64_t shift_ns = begin_ns - edge_ns(window, reference, -(int32_t)window->edges);
    const struct lull_run expected = {gap->begin_ns - shift_ns, gap->end_ns - shift_ns};
    struct lull_run before;

    if (gap->begin_ns < begin_ns)
        return false;
    return find_gap(window, &expected, &before)
               ? before.begin_ns < begin_ns
               : gap->begin_ns < edge_ns(window, reference, (int32_t)window->edges);
}

static void plan_all(struct lull_gap_map *map, const struct window *window)
{
    const uint32_t reference = window->passes - 2; /* passes before and after it are recorded */

    map->pass_ns =
        edge_ns(window, reference, (int32_t)window->edges) - edge_ns(window, reference, 0);
    map->gap_count = 0;
    for (uint32_t i = 0; map->pass_ns > 0 && i < gap_total(window); i++) {
        const struct lull_run gap = gap_at(window, i);
        struct lull_mapped_gap planned;
        struct lull_gap_plan plan;

        if (gap.end_ns - gap.begin_ns >= keep_ns && is_of_pass(window, reference, &gap) &&
            plan_gap(window, reference, &gap, &planned, &plan))
            keep_gap(map, &planned, &plan);
    }
    order_gaps(map);
}

/* ---- one iteration or two ---------------------------------------------------------------- */

/* How much the edges of the passes differ, counted from the beginning of each, summed over them. */
static int64_t variation_of(const struct window *window)
{
    int64_t sum_ns = 0;

    for (int32_t edge = 1; edge <= (int32_t)window->edges; edge++) {
        int64_t least_ns = INT64_MAX;
        int64_t most_ns = INT64_MIN;

        for (uint32_t pass = 0; pass < window->passes; pass++) {
            const int64_t ns = edge_ns(window, pass, edge) - edge_ns(window, pass, edge - 1);

            least_ns = ns < least_ns ? ns : least_ns;
            most_ns = ns > most_ns ? ns : most_ns;
        }
        sum_ns += most_ns - least_ns;
    }
    return sum_ns;
}

static struct window window_of(const struct lull_gap_map *map, uint32_t fold)
{
    return (struct window){map, fold, LULL_GAP_MAP_PERIODS / fold, 2 * map->period * fold};
}

static uint32_t find_fold(const struct lull_gap_map *map)
{
    const struct window single = window_of(map, 1);
    const struct window twofold = window_of(map, MAX_FOLD);
    const int64_t alone_ns = variation_of(&single);
    const int64_t paired_ns = variation_of(&twofold) / MAX_FOLD; /* has twice the edges */
    const bool is_explained = (double)paired_ns <= (1.0 - explained_min) * (double)alone_ns;

    return is_explained && alone_ns > variation_ns * (int64_t)single.edges ? MAX_FOLD : 1;
}

/* ---- nothing but kernels ----------------------------------------------------------------- */

/* Whether a kernel ever begins before the one that was enqueued before it has ended. */
static bool has_races(const struct window *window)
{
    const int32_t edges = (int32_t)(LULL_GAP_MAP_PERIODS * 2 * window->map->period);

    for (int32_t edge = 2; edge < edges; edge += 2)
        if (edge_ns(window, 0, edge) < edge_ns(window, 0, edge - 1))
            return true;
    return false;
}

/* The longest kernel stands for a gap: something that comes once per iteration, and nothing more is
 * known of it than of kernels that are passed on. */
static void plan_longest_kernel(struct lull_gap_map *map, const struct window *window)
{
    const uint32_t reference = window->passes - 2;
    int64_t longest_ns = -1;
    int32_t longest = 0;

    for (int32_t edge = 0; edge < (int32_t)window->edges; edge += 2) {
        const int64_t ns =
            edge_ns(window, reference, edge + 1) - edge_ns(window, reference, edge);

        if (ns > longest_ns) {
            longest_ns = ns;
            longest = edge;
        }
    }
    map->gaps[0] = (struct lull_mapped_gap){
        .length_ms = (double)longest_ns * 1e-6,
        .exposed_ms = (double)longest_ns * 1e-6,
        .call = map->kernels[(uint32_t)longest / 2 % map->period],
    };
    map->gaps[0].call.is_cautious = true;
    map->plans[0] = (struct lull_gap_plan){
        .begin_edge = (uint32_t)longest,
        .end_edge = (uint32_t)longest + 1,
        .announced_ns = lull_gap_map_in_pass_ns(map, edge_ns(window, reference, longest)),
    };
    map->gap_count = 1;
    order_gaps(map);
}

void lull_gap_map_plan_gaps(struct lull_gap_map *map)
{
    struct window window;

    if (map->is_blind)
        lull_gap_map_guess_compute(map);
    map->fold = find_fold(map);
    window = window_of(map, map->fold);
    plan_all(map, &window);
    if (map->gap_count == 0 && map->pass_ns > 0 && has_races(&window))
        plan_longest_kernel(map, &window);
}
