/*
 * Following is in this file, learning from a recorded window in gap_map_learn.c.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "core/section/gap_map_state.h"
#include "core/section/iteration.h"

/* No communication kernel is taken to run for longer while others begin. */
static const int64_t longest_kernel_ns = INT64_C(10000000000);

struct lull_gap_map *lull_gap_map_create(bool blind)
{
    struct lull_gap_map *map = calloc(1, sizeof(*map));

    if (map == NULL)
        return NULL;
    map->finder = lull_iteration_finder_create();
    if (map->finder == NULL) {
        free(map);
        return NULL;
    }
    map->phase = blind ? LULL_GAP_MAP_BLIND : LULL_GAP_MAP_SEARCHING;
    return map;
}

void lull_gap_map_destroy(struct lull_gap_map *map)
{
    if (map == NULL)
        return;
    lull_iteration_finder_destroy(map->finder);
    free(map->record.edges_ns);
    free(map->record.runs);
    free(map->kernels);
    free(map);
}

/* ---- what waits to be polled ------------------------------------------------------------- */

static void put(struct lull_gap_map *map, const struct lull_call *call)
{
    if (map->ready_count < LULL_GAP_MAP_READY)
        map->ready[(map->ready_first + map->ready_count++) % LULL_GAP_MAP_READY] = *call;
}

/* Edges of one gap, or of a break, never go back in time. */
static void put_edge(struct lull_gap_map *map, const struct lull_call *what, bool begin,
                     int64_t time_ns)
{
    struct lull_call call = *what;

    if (time_ns > map->last_ns)
        map->last_ns = time_ns;
    call.time_ns = map->last_ns;
    call.begin = begin;
    put(map, &call);
}

static void close_gap(struct lull_gap_map *map, int64_t time_ns)
{
    struct lull_gap_plan *plan = &map->plans[map->next];

    put_edge(map, &map->gaps[map->next].call, false, time_ns);
    plan->begin_due_ns = LULL_GAP_MAP_NEVER;
    plan->end_due_ns = LULL_GAP_MAP_NEVER;
    map->next = (map->next + 1) % map->gap_count;
    map->is_open = false;
}

static void open_gap(struct lull_gap_map *map, int64_t time_ns)
{
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

void lull_gap_map_start_window(struct lull_gap_map *map)
{
    const size_t edges = 2 * (size_t)map->period * (LULL_GAP_MAP_PERIODS + 1);
    int64_t *edges_ns = realloc(map->record.edges_ns, edges * sizeof(*edges_ns));
    struct lull_call *kernels = realloc(map->kernels, map->period * sizeof(*kernels));

    if (edges_ns != NULL)
        map->record.edges_ns = edges_ns;
    if (kernels != NULL)
        map->kernels = kernels;
    if (edges_ns == NULL || kernels == NULL || map->attempts++ == LULL_GAP_MAP_ATTEMPTS) {
        map->phase = LULL_GAP_MAP_BLIND;
        return;
    }
    memset(edges_ns, 0, edges * sizeof(*edges_ns));
    map->record.period = LULL_GAP_MAP_NO_PERIOD;
    map->record.run_count = 0;
    map->record.is_full = false;
    map->phase = LULL_GAP_MAP_RECORDING;
}

static void leave_iteration(struct lull_gap_map *map, int64_t time_ns)
{
    if (map->phase == LULL_GAP_MAP_KNOWN)
        put_break(map, time_ns);
    map->phase = LULL_GAP_MAP_SEARCHING;
}

static uint32_t turn_of(const struct lull_gap_map *map)
{
    return (uint32_t)((map->iteration - map->record.first) % map->fold);
}

void lull_gap_map_take_up(struct lull_gap_map *map)
{
    const uint32_t now = 2 * (turn_of(map) * map->period + map->position) + 1;

    map->next = 0;
    while (map->next < map->gap_count && map->plans[map->next].begin_edge <= now)
        map->next++;
    map->next %= map->gap_count;
    for (uint32_t i = 0; i < map->gap_count; i++) {
        map->plans[i].begin_due_ns = LULL_GAP_MAP_NEVER;
        map->plans[i].end_due_ns = LULL_GAP_MAP_NEVER;
    }
    map->is_open = false;
    map->phase = LULL_GAP_MAP_KNOWN;
}

static void enter_iteration(struct lull_gap_map *map, uint32_t period, uint32_t position,
                            uint64_t signature)
{
    const bool is_same = map->gap_count > 0 && map->fold == 1 && period == map->period &&
                         lull_call_signature(&map->kernels[position]) == signature;

    if (is_same) {
        map->position = position;
        lull_gap_map_take_up(map);
        return;
    }
    map->gap_count = 0;
    map->period = period;
    if (period > LULL_GAP_MAP_MAX_PERIOD)
        map->phase = LULL_GAP_MAP_BLIND;
    else
        lull_gap_map_start_window(map);
}

/* Follows the sequence of kernels; true while the position is known. */
static bool follow(struct lull_gap_map *map, const struct lull_call *kernel)
{
    const uint64_t signature = lull_call_signature(kernel);
    const struct lull_iteration_state state = lull_iteration_push(map->finder, signature);
    const bool was_within = map->phase != LULL_GAP_MAP_SEARCHING;

    if (state.event == LULL_ITERATION_SEARCHING)
        return false;
    if (was_within && (state.event == LULL_ITERATION_DEVIATED || state.period != map->period ||
                       (map->phase == LULL_GAP_MAP_KNOWN &&
                        lull_call_signature(&map->kernels[state.position]) != signature)))
        leave_iteration(map, kernel->time_ns);
    if (state.event == LULL_ITERATION_DEVIATED)
        return false;
    if (map->phase == LULL_GAP_MAP_SEARCHING)
        enter_iteration(map, state.period, state.position, signature);
    map->position = state.position;
    return map->phase != LULL_GAP_MAP_BLIND;
}

/* ---- edges ------------------------------------------------------------------------------- */

static void record_edge(struct lull_gap_map *map, const struct lull_call *edge)
{
    struct lull_gap_record *record = &map->record;

    if (record->is_full)
        return;
    if (edge->begin && map->position == 0) {
        if (record->period == LULL_GAP_MAP_NO_PERIOD)
            record->first = map->iteration;
        record->period++; /* wraps from LULL_GAP_MAP_NO_PERIOD to 0 */
        record->is_full = record->period == LULL_GAP_MAP_PERIODS;
    }
    if (record->period == LULL_GAP_MAP_NO_PERIOD)
        return;
    if (edge->begin)
        map->kernels[map->position] = *edge;
    *lull_gap_map_edge(map, record->period, 2 * map->position + !edge->begin) = edge->time_ns;
}

static void announce(struct lull_gap_map *map, const struct lull_call *edge)
{
    const uint32_t index = 2 * (turn_of(map) * map->period + map->position) + !edge->begin;

    for (uint32_t i = 0; i < map->gap_count; i++) {
        struct lull_gap_plan *plan = &map->plans[i];

        if (plan->begin_edge == index) {
            plan->begin_due_ns = edge->time_ns + plan->begin_offset_ns;
            plan->end_due_ns = LULL_GAP_MAP_NEVER;
        }
        if (plan->end_edge == index)
            plan->end_due_ns = edge->time_ns + plan->end_offset_ns;
    }
}

void lull_gap_map_take_communication(struct lull_gap_map *map, const struct lull_call *edge)
{
    if (map->phase == LULL_GAP_MAP_BLIND) {
        struct lull_call call = *edge;

        call.is_cautious = true;
        put(map, &call);
        return;
    }
    /* An end that was lost would hide everything after it. */
    if (edge->begin && map->depth > 0 && edge->time_ns - map->outermost_ns > longest_kernel_ns)
        map->depth = 0;
    if (edge->begin && map->depth == 0)
        map->outermost_ns = edge->time_ns;
    /* Kernels that run beside each other are one, named after the first. */
    if (edge->begin ? map->depth++ > 0 : map->depth == 0 || --map->depth > 0)
        return;
    if (edge->begin)
        map->is_within = follow(map, edge);
    if (!map->is_within)
        return;
    if (edge->begin && map->position == 0)
        map->iteration++;
    if (map->phase == LULL_GAP_MAP_RECORDING)
        record_edge(map, edge);
    else if (map->phase == LULL_GAP_MAP_KNOWN)
        announce(map, edge);
}

void lull_gap_map_take_blindness(struct lull_gap_map *map)
{
    if (map->phase != LULL_GAP_MAP_KNOWN)
        map->phase = LULL_GAP_MAP_BLIND;
}

/* ---- time -------------------------------------------------------------------------------- */

/* When a gap behind the next one is due: nothing before it can be waited for any longer. */
static int64_t overtaken_ns(const struct lull_gap_map *map)
{
    int64_t earliest_ns = LULL_GAP_MAP_NEVER;

    for (uint32_t i = 0; i < map->gap_count; i++)
        if (i != map->next && map->plans[i].begin_due_ns < earliest_ns)
            earliest_ns = map->plans[i].begin_due_ns;
    return earliest_ns;
}

static int64_t due_ns(const struct lull_gap_map *map)
{
    const struct lull_gap_plan *plan = &map->plans[map->next];
    const int64_t own_ns = map->is_open ? plan->end_due_ns : plan->begin_due_ns;
    const int64_t other_ns = overtaken_ns(map);

    return own_ns < other_ns ? own_ns : other_ns;
}

bool lull_gap_map_poll(struct lull_gap_map *map, int64_t now_ns, struct lull_call *call_out)
{
    if (map->ready_count == 0 && map->phase == LULL_GAP_MAP_KNOWN && due_ns(map) <= now_ns) {
        const int64_t time_ns = due_ns(map);

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
    return map->phase == LULL_GAP_MAP_KNOWN ? due_ns(map) : INT64_MAX;
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

uint32_t lull_gap_map_fold(const struct lull_gap_map *map)
{
    return map->phase == LULL_GAP_MAP_KNOWN ? map->fold : 0;
}
