/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/model/timeline_search.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* ---- search limits -------------------------------------------------------------------------- */

void lull_timeline_earliest_reset(struct lull_timeline_earliest *earliest)
{
    for (size_t i = 0; i < LULL_TIMELINE_SIZES; i++)
        earliest->of_size[i].count = 0;
}

void lull_timeline_earliest_fini(struct lull_timeline_earliest *earliest)
{
    for (size_t i = 0; i < LULL_TIMELINE_SIZES; i++)
        free(earliest->of_size[i].all);
    *earliest = (struct lull_timeline_earliest){0};
}

/* The largest i with 2^i <= gpus. */
static uint32_t size_below(uint32_t gpus)
{
    uint32_t size = 0;

    while (gpus > 1) {
        gpus /= 2;
        size++;
    }
    return size;
}

/* Returns the number of stairs with times up to time_ns. */
static size_t count_shorter(const struct lull_timeline_stairs *stairs, int64_t time_ns)
{
    size_t low = 0;
    size_t high = stairs->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (stairs->all[middle].time_ns <= time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Learns that no schedule as long begins before start_ns. -ENOMEM. */
static int stair_search_learn(struct lull_timeline_stairs *stairs, int64_t time_ns,
                              int64_t start_ns)
{
    size_t at = count_shorter(stairs, time_ns);
    size_t end = at;

    if (at > 0 && stairs->all[at - 1].start_ns >= start_ns)
        return 0;
    if (at > 0 && stairs->all[at - 1].time_ns == time_ns)
        at--;
    while (end < stairs->count && stairs->all[end].start_ns <= start_ns)
        end++;
    if (lull_array_reserve(&stairs->all, &stairs->room, stairs->count, sizeof(*stairs->all)) < 0)
        return -ENOMEM;
    memmove(&stairs->all[at + 1], &stairs->all[end], (stairs->count - end) * sizeof(*stairs->all));
    stairs->all[at] = (struct lull_timeline_known){time_ns, start_ns};
    stairs->count = stairs->count + 1 - (end - at);
    return 0;
}

/* ---- search --------------------------------------------------------------------------------- */

/* The step in effect at at_ns, which is not before the first one. */
static size_t stair_search_step_of(const struct lull_timeline *timeline, int64_t at_ns)
{
    size_t low = 1;
    size_t high = timeline->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (timeline->steps[middle].at_ns <= at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

/* The step in effect at at_ns, which is not before step `from`; searched in strides, since it is
 * near. */
static size_t stair_search_step_at(const struct lull_timeline *timeline, size_t from, int64_t at_ns)
{
    size_t stride = 1;

    while (stride > 0) {
        if (from + stride < timeline->count && timeline->steps[from + stride].at_ns <= at_ns) {
            from += stride;
            stride *= 2;
        } else {
            stride /= 2;
        }
    }
    return from;
}

/* The first step behind `from` of a timeline that never falls with this many free GPUs; count:
 * there is none. */
static size_t step_with(const struct lull_timeline *rising, size_t from, int64_t gpus)
{
    size_t low = from + 1;
    size_t high = rising->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (rising->steps[middle].free < gpus)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Goes to where enough GPUs are free in the step of the reservations, at its end if nowhere. */
static void skip_taken(struct lull_timeline_search *search, int64_t end_ns)
{
    const struct lull_timeline *const rising = search->rising;
    const struct lull_timeline_step *const step = &search->reserved->steps[search->reserved_at];
    const int64_t from_ns = search->start_ns > step->at_ns ? search->start_ns : step->at_ns;
    size_t later;

    search->rising_at = stair_search_step_at(rising, search->rising_at, from_ns);
    if (rising->steps[search->rising_at].free + step->free >= search->gpus)
        return;
    later = step_with(rising, search->rising_at, search->gpus - step->free);
    search->start_ns = end_ns;
    if (later < rising->count && rising->steps[later].at_ns < end_ns)
        search->start_ns = rising->steps[later].at_ns;
}

void lull_timeline_search_longer(struct lull_timeline_search *search, int64_t time_ns)
{
    const struct lull_timeline *const reserved = search->reserved;

    assert(time_ns >= search->time_ns);
    search->time_ns = time_ns;
    while (search->start_ns < INT64_MAX) {
        const size_t next = search->reserved_at + 1;
        const int64_t end_ns = next < reserved->count ? reserved->steps[next].at_ns : INT64_MAX;

        if (search->start_ns < end_ns)
            skip_taken(search, end_ns);
        if (search->start_ns < end_ns && end_ns - search->start_ns >= time_ns)
            return;
        if (next < reserved->count)
            search->reserved_at = next;
        else
            search->start_ns = INT64_MAX;
    }
}

int lull_timeline_search_begin(struct lull_timeline_search *search,
                               struct lull_timeline_earliest *earliest,
                               const struct lull_timeline *rising,
                               const struct lull_timeline *reserved, uint32_t gpus, int64_t time_ns)
{
    const uint32_t below = size_below(gpus);
    const uint32_t above = below + ((UINT32_C(1) << below) < gpus);
    const struct lull_timeline_stairs *const stairs = &earliest->of_size[below];
    const size_t known = count_shorter(stairs, time_ns);
    int64_t start_ns = reserved->steps[0].at_ns;

    assert(gpus > 0 && time_ns > 0);
    assert(rising->count > 0 && rising->steps[0].at_ns == start_ns);
    if (known > 0)
        start_ns = stairs->all[known - 1].start_ns;
    *search =
        (struct lull_timeline_search){.rising = rising,
                                      .reserved = reserved,
                                      .gpus = gpus,
                                      .time_ns = time_ns,
                                      .start_ns = start_ns,
                                      .reserved_at = stair_search_step_of(reserved, start_ns)};
    lull_timeline_search_longer(search, time_ns);
    return stair_search_learn(&earliest->of_size[above], time_ns, search->start_ns);
}
