/*
 * Following: communication kernels come in, and the gaps that they announce go out as calls.
 * Learning is in gap_map_learn.c and gap_map_compute.c. SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/section/gaps/gap_map_state.h"

/* Weight of the last pass in the learnt value: after two passes three quarters are known. */
static const double stretch_gain = 0.5;
/* So many iterations at least: a job may pause for longer than LULL_GAP_MAP_PATIENCE_NS. */
enum { PATIENCE_ITERATIONS = 3 };

struct lull_gap_map *lull_gap_map_create(bool blind)
{
    struct lull_gap_map *map = calloc(1, sizeof(*map));

    if (map == NULL)
        return NULL;
    map->order = lull_kernel_order_create();
    if (map->order == NULL) {
        free(map);
        return NULL;
    }
    map->is_blind = blind;
    map->phase = blind ? LULL_GAP_MAP_BLIND : LULL_GAP_MAP_SEARCHING;
    return map;
}

void lull_gap_map_destroy(struct lull_gap_map *map)
{
    if (map == NULL)
        return;
    lull_kernel_order_destroy(map->order);
    free(map->record.edges_ns);
    free(map->record.runs);
    free(map->kernels);
    free(map);
}

/* ---- what waits to be polled ------------------------------------------------------------- */

static void gap_map_add_ready(struct lull_gap_map *map, const struct lull_call *call)
{
    if (map->ready_count < LULL_GAP_MAP_READY)
        map->ready[(map->ready_first + map->ready_count++) % LULL_GAP_MAP_READY] = *call;
}

/* Emits an edge. Emitted times never decrease. */
static void put_edge(struct lull_gap_map *map, const struct lull_call *what, bool begin,
                     int64_t time_ns)
{
    struct lull_call call = *what;

    if (time_ns > map->last_ns)
        map->last_ns = time_ns;
    call.time_ns = map->last_ns;
    call.begin = begin;
    gap_map_add_ready(map, &call);
}

static void close_gap(struct lull_gap_map *map, int64_t time_ns)
{
    struct lull_gap_plan *plan = &map->plans[map->next];

    assert(map->is_open && map->next < map->gap_count);
    put_edge(map, &map->gaps[map->next].call, false, time_ns);
    plan->begin_due_ns = LULL_GAP_MAP_NEVER;
    plan->end_due_ns = LULL_GAP_MAP_NEVER;
    map->next = (map->next + 1) % map->gap_count;
    map->is_open = false;
}

static void open_gap(struct lull_gap_map *map, int64_t time_ns)
{
    assert(!map->is_open && map->next < map->gap_count);
    put_edge(map, &map->gaps[map->next].call, true, time_ns);
    map->is_open = true;
}

static void put_break(struct lull_gap_map *map, int64_t time_ns)
{
    const struct lull_call broken = {.peer = -1, .place = LULL_CALL_BREAK};

    if (map->is_open)
        close_gap(map, time_ns);
    put_edge(map, &broken, true, time_ns);
    put_edge(map, &broken, false, time_ns);
}

/* ---- the iteration of communication kernels ---------------------------------------------- */

static void gap_map_abandon(struct lull_gap_map *map)
{
    map->phase = LULL_GAP_MAP_BLIND;
    map->is_blind = true;
    map->has_given_up = true;
    map->gap_count = 0;
}

static void start_window(struct lull_gap_map *map)
{
    const size_t edges = 2 * (size_t)map->period * (LULL_GAP_MAP_PERIODS + 1);
    int64_t *edges_ns = realloc(map->record.edges_ns, edges * sizeof(*edges_ns));
    struct lull_call *kernels = realloc(map->kernels, map->period * sizeof(*kernels));

    if (edges_ns != NULL)
        map->record.edges_ns = edges_ns;
    if (kernels != NULL)
        map->kernels = kernels;
    if (edges_ns == NULL || kernels == NULL || map->attempts++ == LULL_GAP_MAP_ATTEMPTS) {
        gap_map_abandon(map);
        return;
    }
    memset(edges_ns, 0, edges * sizeof(*edges_ns));
    map->gap_count = 0;
    map->record.first = lull_kernel_order_newest(map->order) + 1;
    map->record.seen = 0;
    map->record.run_count = 0;
    map->record.is_full = false;
    map->record.full_ns = 0;
    map->phase = LULL_GAP_MAP_RECORDING;
}

static void leave_iteration(struct lull_gap_map *map, int64_t time_ns)
{
    if (map->phase == LULL_GAP_MAP_KNOWN)
        put_break(map, time_ns);
    map->phase = LULL_GAP_MAP_SEARCHING;
}

/* The number, within its pass, of the start or end of the kernel that stands there. */
static uint32_t edge_of(const struct lull_gap_map *map, const struct lull_standing *standing,
                        bool begin)
{
    const int64_t turn = (standing->iteration - map->record.first) % map->fold;

    return 2 * ((uint32_t)(turn < 0 ? turn + map->fold : turn) * map->period + standing->position) +
           !begin;
}

/* When the edge that came last came in the recorded pass. */
static int64_t last_edge_ns(const struct lull_gap_map *map)
{
    const uint32_t reference = (LULL_GAP_MAP_PERIODS / map->fold - 2) * map->fold;

    return *lull_gap_map_edge(map, reference, edge_of(map, &map->last, map->last_is_begin));
}

static void take_up(struct lull_gap_map *map, int64_t recorded_ns)
{
    const int64_t now_ns = lull_gap_map_in_pass_ns(map, recorded_ns);
    int64_t soonest_ns = LULL_GAP_MAP_NEVER;

    for (uint32_t i = 0; i < map->gap_count; i++) {
        struct lull_gap_plan *plan = &map->plans[i];
        const int64_t to_ns =
            plan->announced_ns - now_ns + (plan->announced_ns <= now_ns ? map->pass_ns : 0);

        plan->begin_due_ns = LULL_GAP_MAP_NEVER;
        plan->end_due_ns = LULL_GAP_MAP_NEVER;
        if (to_ns < soonest_ns) {
            soonest_ns = to_ns;
            map->next = i;
        }
    }
    map->is_open = false;
    map->phase = LULL_GAP_MAP_KNOWN;
}

static void gap_map_learn_pass(struct lull_gap_map *map)
{
    lull_gap_map_plan_gaps(map);
    if (map->gap_count == 0 && map->is_blind)
        gap_map_abandon(map);
    else if (map->gap_count == 0)
        map->phase = LULL_GAP_MAP_BLIND; /* computation never pauses: nothing to emit */
    else
        take_up(map, last_edge_ns(map));
}

void lull_gap_map_take_complete(struct lull_gap_map *map, int64_t until_ns)
{
    if (map->phase == LULL_GAP_MAP_RECORDING && !map->is_blind && map->record.is_full &&
        until_ns >= map->record.full_ns)
        gap_map_learn_pass(map);
}

/* The known iteration still holds. But if two iterations count as one, it is not known which of
 * them this one is: then a new window is needed. */
static void gap_map_resume(struct lull_gap_map *map, const struct lull_call *kernel)
{
    if (map->gap_count > 0 && map->fold == 1 &&
        lull_kernel_order_locate(map->order, kernel->order, &map->last)) {
        map->last_is_begin = true;
        take_up(map, last_edge_ns(map) - 1); /* it may announce a gap itself */
    } else {
        start_window(map);
    }
}

/* Follows the sequence of kernels. */
static void gap_map_follow(struct lull_gap_map *map, const struct lull_call *kernel)
{
    switch (lull_kernel_order_take(map->order, kernel->order, lull_call_signature(kernel),
                                   kernel->time_ns)) {
    case LULL_ORDER_FOUND:
        map->period = lull_kernel_order_period(map->order);
        map->fold = 1;
        start_window(map);
        break;
    case LULL_ORDER_RESUMED:
        gap_map_resume(map, kernel);
        break;
    case LULL_ORDER_LEFT:
        leave_iteration(map, kernel->time_ns);
        break;
    case LULL_ORDER_SEARCHING:
    case LULL_ORDER_FOLLOWING:
        break;
    }
}

/* ---- edges ------------------------------------------------------------------------------- */

static void record_edge(struct lull_gap_map *map, const struct lull_call *edge,
                        const struct lull_standing *standing)
{
    struct lull_gap_record *record = &map->record;
    const int64_t period = standing->iteration - record->first;
    const uint32_t index = 2 * standing->position + !edge->begin;
    int64_t *recorded_ns;

    if (record->is_full || period < 0)
        return;
    if (period > LULL_GAP_MAP_PERIODS + 1) { /* an edge was lost */
        start_window(map);
        return;
    }
    if (period > LULL_GAP_MAP_PERIODS || (period == LULL_GAP_MAP_PERIODS && index > 0))
        return;
    recorded_ns = lull_gap_map_edge(map, (uint32_t)period, index);
    if (*recorded_ns != 0)
        return;
    *recorded_ns = edge->time_ns;
    if (edge->begin)
        map->kernels[standing->position] = *edge;
    if (edge->time_ns > record->full_ns)
        record->full_ns = edge->time_ns;
    record->is_full = ++record->seen == 2 * map->period * LULL_GAP_MAP_PERIODS + 1;
    if (record->is_full && map->is_blind)
        gap_map_learn_pass(map);
}

static void gap_map_rescale(struct lull_stretch *stretch, double factor)
{
    stretch->added_ns = (int64_t)(factor * (double)stretch->added_ns);
}

void lull_gap_map_set_steady(struct lull_gap_map *map, uint32_t point)
{
    if (point != map->steady)
        map->steady_from_ns = map->last_ns + map->pass_ns;
    map->steady = point;
    if (point == 0 || point == map->slowed)
        return;
    for (uint32_t i = 0; i < map->gap_count && map->slowed != 0; i++)
        gap_map_rescale(&map->plans[i].until_next, (double)point / map->slowed);
    if (map->slowed != 0)
        gap_map_rescale(&map->pass, (double)point / map->slowed);
    map->slowed = point;
}

/* Learns the time that the steady point adds to a time whose typical value is typical_ns. */
static void learn_stretch(const struct lull_gap_map *map, struct lull_stretch *stretch,
                          int64_t time_ns)
{
    const int64_t took_ns = time_ns - stretch->from_ns;

    /* The pass in which the point changed, and the clock only after a while, shows neither. */
    if (stretch->from_ns == 0 || stretch->from_ns < map->steady_from_ns)
        return;
    if (map->steady == 0)
        stretch->typical_ns += (int64_t)(stretch_gain * (double)(took_ns - stretch->typical_ns));
    else
        stretch->added_ns +=
            (int64_t)(stretch_gain * (double)(took_ns - stretch->typical_ns - stretch->added_ns));
}

/* Share by which all computation of a pass takes longer. */
static double pass_stretch(const struct lull_gap_map *map)
{
    double computes_ns = (double)map->pass.typical_ns;

    for (uint32_t i = 0; i < map->gap_count; i++)
        computes_ns -= map->gaps[i].length_ms * LULL_NS_PER_MS;
    if (computes_ns <= 0.0)
        return 0.0;
    return fmin(fmax((double)map->pass.added_ns / computes_ns, 0.0), 1.0);
}

/* Only what computes before the gap can delay it, and never by more than it took. Beside a kernel
 * nothing shows by how much; there it is slowed like all computation. */
static int64_t begin_offset_ns(const struct lull_gap_map *map, const struct lull_gap_plan *plan)
{
    int64_t added_ns = lull_later_ns(plan->until_next.added_ns, 0);

    if (map->steady == 0 || plan->begin_offset_ns <= 0)
        return plan->begin_offset_ns;
    if (plan->is_hidden)
        added_ns = (int64_t)ceil(pass_stretch(map) * (double)plan->begin_offset_ns);
    return plan->begin_offset_ns + lull_earlier_ns(added_ns, plan->begin_offset_ns);
}

static void gap_map_learn_edge(struct lull_gap_map *map, uint32_t edge, int64_t time_ns)
{
    if (map->plans[0].begin_edge != edge)
        return;
    learn_stretch(map, &map->pass, time_ns);
    map->pass.from_ns = time_ns;
}

static void gap_map_announce(struct lull_gap_map *map, uint32_t edge, int64_t time_ns)
{
    gap_map_learn_edge(map, edge, time_ns);
    for (uint32_t i = 0; i < map->gap_count; i++) {
        struct lull_gap_plan *plan = &map->plans[i];

        if (plan->next_edge == edge) {
            learn_stretch(map, &plan->until_next, time_ns);
            plan->until_next.from_ns = 0;
        }
        if (plan->begin_edge == edge) {
            plan->until_next.from_ns = time_ns;
            plan->begin_due_ns = time_ns + begin_offset_ns(map, plan);
            plan->end_due_ns = LULL_GAP_MAP_NEVER;
        }
        if (plan->end_edge == edge)
            plan->end_due_ns = time_ns + plan->end_offset_ns;
    }
}

static void stop_passing(struct lull_gap_map *map, int64_t time_ns)
{
    for (; map->depth > 0; map->depth--)
        put_edge(map, &map->passed, false, time_ns);
    put_break(map, time_ns);
    map->phase = LULL_GAP_MAP_SEARCHING;
}

/* Returns whether an iteration without gaps has just ended, which was then an inner loop. */
static bool gap_map_was_inner_loop(struct lull_gap_map *map, const struct lull_call *edge)
{
    return edge->begin && !map->is_blind &&
           lull_kernel_order_take(map->order, edge->order, lull_call_signature(edge),
                                  edge->time_ns) == LULL_ORDER_LEFT;
}

/*
 * If two kernels run beside each other, the one that comes first may differ from iteration to
 * iteration, so that a track would find none.
 */
static bool is_racing(const struct lull_gap_map *map, const struct lull_call *edge)
{
    return map->is_blind && !map->has_given_up && edge->begin && map->depth > 0;
}

static void gap_map_forward(struct lull_gap_map *map, const struct lull_call *edge)
{
    struct lull_call call = *edge;

    if (gap_map_was_inner_loop(map, edge)) {
        stop_passing(map, edge->time_ns);
        return;
    }
    call.is_cautious = true;
    if (edge->begin)
        map->passed = call;
    if (edge->begin)
        map->depth++;
    else if (map->depth > 0)
        map->depth--;
    gap_map_add_ready(map, &call);
}

/* For long no report has said whether anything was computed in the window: no process records
 * computation. */
static bool is_unanswered(const struct lull_gap_map *map, const struct lull_call *edge,
                          const struct lull_standing *standing)
{
    const struct lull_gap_record *record = &map->record;

    return edge->begin && !map->is_blind && record->is_full &&
           edge->time_ns - record->full_ns > LULL_GAP_MAP_PATIENCE_NS &&
           standing->iteration - record->first > LULL_GAP_MAP_PERIODS + PATIENCE_ITERATIONS;
}

void lull_gap_map_take_communication(struct lull_gap_map *map, const struct lull_call *edge)
{
    struct lull_standing standing;

    if (map->phase == LULL_GAP_MAP_BLIND && is_racing(map, edge)) {
        stop_passing(map, edge->time_ns);
    } else if (map->phase == LULL_GAP_MAP_BLIND) {
        gap_map_forward(map, edge);
        return;
    }
    if (edge->begin)
        gap_map_follow(map, edge);
    if ((map->phase != LULL_GAP_MAP_RECORDING && map->phase != LULL_GAP_MAP_KNOWN) ||
        !lull_kernel_order_locate(map->order, edge->order, &standing))
        return;
    map->last = standing;
    map->last_is_begin = edge->begin;
    if (map->phase == LULL_GAP_MAP_RECORDING && is_unanswered(map, edge, &standing))
        lull_gap_map_compute_unavailable(map);
    else if (map->phase == LULL_GAP_MAP_RECORDING)
        record_edge(map, edge, &standing);
    else
        gap_map_announce(map, edge_of(map, &standing, edge->begin), edge->time_ns);
}

/* ---- computation ------------------------------------------------------------------------- */

void lull_gap_map_compute_unavailable(struct lull_gap_map *map)
{
    if (map->phase == LULL_GAP_MAP_KNOWN || map->is_blind)
        return;
    map->is_blind = true;
    map->phase = LULL_GAP_MAP_BLIND;
}

bool lull_gap_map_wants_compute(const struct lull_gap_map *map)
{
    return map->phase == LULL_GAP_MAP_RECORDING && !map->is_blind;
}

/* A window that cannot hold all runs would show gaps where there are none. */
void lull_gap_map_take_compute(struct lull_gap_map *map, int64_t begin_ns, int64_t end_ns)
{
    if (lull_gap_map_wants_compute(map) && !lull_gap_map_add_run(map, begin_ns, end_ns))
        lull_gap_map_compute_unavailable(map);
}

/* ---- time -------------------------------------------------------------------------------- */

/* Time at which a gap after the next one is due: from then on nothing before it can be waited for.
 */
static int64_t overtaken_ns(const struct lull_gap_map *map)
{
    int64_t earliest_ns = LULL_GAP_MAP_NEVER;

    for (uint32_t i = 0; i < map->gap_count; i++)
        if (i != map->next && map->plans[i].begin_due_ns < earliest_ns)
            earliest_ns = map->plans[i].begin_due_ns;
    return earliest_ns;
}

static int64_t gap_map_due_ns(const struct lull_gap_map *map)
{
    const struct lull_gap_plan *plan = &map->plans[map->next];
    const int64_t own_ns = map->is_open ? plan->end_due_ns : plan->begin_due_ns;
    const int64_t other_ns = overtaken_ns(map);

    return lull_earlier_ns(own_ns, other_ns);
}

bool lull_gap_map_poll(struct lull_gap_map *map, int64_t now_ns, struct lull_call *call_out)
{
    if (map->ready_count == 0 && map->phase == LULL_GAP_MAP_KNOWN &&
        gap_map_due_ns(map) <= now_ns) {
        const int64_t time_ns = gap_map_due_ns(map);

        if (map->is_open)
            close_gap(map, time_ns);
        else
            open_gap(map, time_ns);
    }
    if (map->ready_count == 0)
        return false;
    *call_out = map->ready[map->ready_first];
    map->ready_first = (map->ready_first + 1) % LULL_GAP_MAP_READY;
    map->ready_count--;
    return true;
}

int64_t lull_gap_map_wake_ns(const struct lull_gap_map *map)
{
    if (map->ready_count > 0)
        return 0;
    if (map->phase != LULL_GAP_MAP_KNOWN)
        return INT64_MAX;
    return gap_map_due_ns(map);
}

enum lull_gap_map_phase lull_gap_map_phase(const struct lull_gap_map *map)
{
    return map->phase;
}

const struct lull_mapped_gap *lull_gap_map_gaps(const struct lull_gap_map *map, uint32_t *count_out)
{
    *count_out = map->phase == LULL_GAP_MAP_KNOWN ? map->gap_count : 0;
    return map->gaps;
}

bool lull_gap_map_is_blind(const struct lull_gap_map *map)
{
    return map->is_blind;
}

uint32_t lull_gap_map_fold(const struct lull_gap_map *map)
{
    if (map->phase != LULL_GAP_MAP_KNOWN)
        return 0;
    return map->fold;
}
