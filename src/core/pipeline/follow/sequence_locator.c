/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/follow/sequence_locator.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Pauses that are nearly as long as the longest decide nothing: it must exceed them by this factor.
 */
static const double clearly = 1.05;
/* Rounds in a row with the longest pause elsewhere after which the place is given up. */
enum { STRIKES = 2 };

struct event {
    uint32_t symbol;
    int64_t pause_ns;
};

struct lull_sequence_locator {
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

struct lull_sequence_locator *lull_sequence_locator_create(const uint32_t *symbols, uint32_t count)
{
    struct lull_sequence_locator *locator =
        calloc(1, sizeof(*locator) + count * sizeof(symbols[0]));

    if (locator == NULL)
        return NULL;
    locator->history = calloc(2 * (size_t)count + 1, sizeof(locator->history[0]));
    if (locator->history == NULL) {
        free(locator);
        return NULL;
    }
    memcpy(locator->symbols, symbols, count * sizeof(symbols[0]));
    locator->count = count;
    locator->period = find_period(symbols, count);
    locator->place = LULL_SEQUENCE_LOCATOR_UNKNOWN;
    return locator;
}

void lull_sequence_locator_destroy(struct lull_sequence_locator *locator)
{
    if (locator == NULL)
        return;
    free(locator->history);
    free(locator);
}

void lull_sequence_locator_forget(struct lull_sequence_locator *locator)
{
    locator->place = LULL_SEQUENCE_LOCATOR_UNKNOWN;
    locator->taken = 0;
    locator->strikes = 0;
}

/* The event that came `back` places before the present one. */
static struct event *event_before(struct lull_sequence_locator *locator, uint32_t back)
{
    assert(back < locator->taken && back <= 2 * (uint64_t)locator->count);
    return &locator->history[(locator->taken - 1 - back) % (2 * (uint64_t)locator->count + 1)];
}

/* The present event is the first of a round, and the round before it was complete. */
static bool follows_a_round(struct lull_sequence_locator *locator)
{
    if (locator->taken <= locator->count || event_before(locator, 0)->symbol != locator->symbols[0])
        return false;
    for (uint32_t back = 1; back <= locator->count; back++)
        if (event_before(locator, back)->symbol != locator->symbols[locator->count - back])
            return false;
    return true;
}

/* Of all places that could be the first one, this one had the longest pause in both rounds. */
static bool is_longest_pause(struct lull_sequence_locator *locator)
{
    const int64_t now_ns = event_before(locator, 0)->pause_ns;
    int64_t before_ns;

    if (locator->taken < 2 * (uint64_t)locator->count + 1)
        return false;
    before_ns = event_before(locator, locator->count)->pause_ns;
    for (uint32_t back = locator->period; back < 2 * locator->count; back += locator->period) {
        const double other_ns = clearly * (double)event_before(locator, back)->pause_ns;

        if (back != locator->count && (other_ns >= (double)now_ns || other_ns >= (double)before_ns))
            return false;
    }
    return true;
}

/* Takes an event while the place is unknown, and says whether the events so far determine it. */
static uint32_t locator_search(struct lull_sequence_locator *locator, uint32_t symbol,
                               int64_t pause_ns)
{
    locator->taken++;
    *event_before(locator, 0) = (struct event){symbol, pause_ns};
    if (!follows_a_round(locator) ||
        (locator->period < locator->count && !is_longest_pause(locator)))
        return LULL_SEQUENCE_LOCATOR_UNKNOWN;
    locator->place = 0;
    locator->longest_ns = 0;
    return 0;
}

/* If the symbols do not identify the first place, it must be the place with the longest pause.
 */
static bool is_still_first(struct lull_sequence_locator *locator, int64_t pause_ns)
{
    locator->strikes = locator->longest_ns > pause_ns ? locator->strikes + 1 : 0;
    locator->longest_ns = 0;
    return locator->strikes < STRIKES;
}

/* While the place is known an event is checked against the next symbol; a deviation starts the
 * search again with this very event. */
uint32_t lull_sequence_locator_take(struct lull_sequence_locator *locator, uint32_t symbol,
                                    int64_t pause_ns)
{
    uint32_t place;

    if (locator->place == LULL_SEQUENCE_LOCATOR_UNKNOWN)
        return locator_search(locator, symbol, pause_ns);
    assert(locator->place < locator->count && locator->count % locator->period == 0);
    place = (locator->place + 1) % locator->count;
    if (locator->symbols[place] != symbol || (place == 0 && !is_still_first(locator, pause_ns))) {
        lull_sequence_locator_forget(locator);
        return locator_search(locator, symbol, pause_ns);
    }
    if (place % locator->period == 0 && place != 0 && pause_ns > locator->longest_ns)
        locator->longest_ns = pause_ns;
    locator->place = place;
    return place;
}
