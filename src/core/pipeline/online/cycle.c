/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/online/cycle.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Pauses that are nearly as long as the longest decide nothing: it must exceed them by this factor.
 * Chosen, not measured. */
static const double clearly = 1.05;
/* Rounds in a row with the longest pause elsewhere after which the place is given up. Chosen, not
 * measured. */
enum { STRIKES = 2 };

struct event {
    uint32_t symbol;
    int64_t pause_ns;
};

struct lull_cycle {
    uint32_t count;
    uint32_t period; /* the sequence equals itself when rotated by this many places; count if it
                      * does so for no other number */
    uint32_t place;
    uint32_t strikes;   /* rounds in a row in which the longest pause was elsewhere */
    int64_t longest_ns; /* longest pause of this round at a place that could be the first one too */
    uint64_t taken;     /* events since the place became unknown */
    struct event *history; /* ring of the last two rounds and the present event */
    uint32_t symbols[];
};

static bool is_rotation(const uint32_t *symbols, uint32_t count, uint32_t by)
{
    for (uint32_t i = 0; i < count; i++)
        if (symbols[i] != symbols[(i + by) % count])
            return false;
    return true;
}

static uint32_t find_period(const uint32_t *symbols, uint32_t count)
{
    for (uint32_t by = 1; by < count; by++)
        if (count % by == 0 && is_rotation(symbols, count, by))
            return by;
    return count;
}

struct lull_cycle *lull_cycle_create(const uint32_t *symbols, uint32_t count)
{
    struct lull_cycle *cycle = calloc(1, sizeof(*cycle) + count * sizeof(symbols[0]));

    if (cycle == NULL)
        return NULL;
    cycle->history = calloc(2 * (size_t)count + 1, sizeof(cycle->history[0]));
    if (cycle->history == NULL) {
        free(cycle);
        return NULL;
    }
    memcpy(cycle->symbols, symbols, count * sizeof(symbols[0]));
    cycle->count = count;
    cycle->period = find_period(symbols, count);
    cycle->place = LULL_CYCLE_UNKNOWN;
    return cycle;
}

void lull_cycle_destroy(struct lull_cycle *cycle)
{
    if (cycle == NULL)
        return;
    free(cycle->history);
    free(cycle);
}

uint32_t lull_cycle_place(const struct lull_cycle *cycle)
{
    return cycle->place;
}

void lull_cycle_forget(struct lull_cycle *cycle)
{
    cycle->place = LULL_CYCLE_UNKNOWN;
    cycle->taken = 0;
    cycle->strikes = 0;
}

/* The event that came `back` places before the present one. */
static struct event *event_before(struct lull_cycle *cycle, uint32_t back)
{
    assert(back < cycle->taken && back <= 2 * (uint64_t)cycle->count);
    return &cycle->history[(cycle->taken - 1 - back) % (2 * (uint64_t)cycle->count + 1)];
}

/* The present event is the first of a round, and the round before it was complete. */
static bool follows_a_round(struct lull_cycle *cycle)
{
    if (cycle->taken <= cycle->count || event_before(cycle, 0)->symbol != cycle->symbols[0])
        return false;
    for (uint32_t back = 1; back <= cycle->count; back++)
        if (event_before(cycle, back)->symbol != cycle->symbols[cycle->count - back])
            return false;
    return true;
}

/* Of all places that could be the first one, this one had the longest pause in both rounds. */
static bool is_longest_pause(struct lull_cycle *cycle)
{
    const int64_t now_ns = event_before(cycle, 0)->pause_ns;
    int64_t before_ns;

    if (cycle->taken < 2 * (uint64_t)cycle->count + 1)
        return false;
    before_ns = event_before(cycle, cycle->count)->pause_ns;
    for (uint32_t back = cycle->period; back < 2 * cycle->count; back += cycle->period) {
        const double other_ns = clearly * (double)event_before(cycle, back)->pause_ns;

        if (back != cycle->count && (other_ns >= (double)now_ns || other_ns >= (double)before_ns))
            return false;
    }
    return true;
}

static uint32_t search(struct lull_cycle *cycle, uint32_t symbol, int64_t pause_ns)
{
    cycle->taken++;
    *event_before(cycle, 0) = (struct event){symbol, pause_ns};
    if (!follows_a_round(cycle) || (cycle->period < cycle->count && !is_longest_pause(cycle)))
        return LULL_CYCLE_UNKNOWN;
    cycle->place = 0;
    cycle->longest_ns = 0;
    return 0;
}

/* Where the symbols do not tell the first place, it must keep the longest pause. */
static bool is_still_first(struct lull_cycle *cycle, int64_t pause_ns)
{
    cycle->strikes = cycle->longest_ns > pause_ns ? cycle->strikes + 1 : 0;
    cycle->longest_ns = 0;
    return cycle->strikes < STRIKES;
}

uint32_t lull_cycle_take(struct lull_cycle *cycle, uint32_t symbol, int64_t pause_ns)
{
    uint32_t place;

    if (cycle->place == LULL_CYCLE_UNKNOWN)
        return search(cycle, symbol, pause_ns);
    assert(cycle->place < cycle->count && cycle->count % cycle->period == 0);
    place = (cycle->place + 1) % cycle->count;
    if (cycle->symbols[place] != symbol || (place == 0 && !is_still_first(cycle, pause_ns))) {
        lull_cycle_forget(cycle);
        return search(cycle, symbol, pause_ns);
    }
    if (place % cycle->period == 0 && place != 0 && pause_ns > cycle->longest_ns)
        cycle->longest_ns = pause_ns;
    cycle->place = place;
    return place;
}
