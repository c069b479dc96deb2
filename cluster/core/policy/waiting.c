/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/policy/waiting.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static const int64_t GONE = INT64_MAX;

void lull_waiting_fini(struct lull_waiting *waiting)
{
    free(waiting->jobs);
    free(waiting->min_ns);
}

/* Returns the number of jobs whose numbers are below this one. */
static size_t wait_list_place_of(const struct lull_waiting *waiting, uint32_t job)
{
    size_t low = 0;
    size_t high = waiting->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (waiting->jobs[middle] < job)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The lesser of a node's two children. */
static int64_t least_below(const int64_t *min_ns, size_t at)
{
    return lull_earlier_ns(min_ns[2 * at], min_ns[2 * at + 1]);
}

static void wait_list_set(struct lull_waiting *waiting, size_t place, int64_t time_ns)
{
    size_t at = waiting->room + place;

    waiting->min_ns[at] = time_ns;
    for (at /= 2; at > 0; at /= 2)
        waiting->min_ns[at] = least_below(waiting->min_ns, at);
}

static int wait_list_grow(struct lull_waiting *waiting)
{
    const size_t room = waiting->room > 0 ? 2 * waiting->room : 16;
    uint32_t *jobs = realloc(waiting->jobs, room * sizeof(*jobs));
    int64_t *min_ns;

    if (jobs == NULL)
        return -ENOMEM;
    waiting->jobs = jobs;
    min_ns = malloc(2 * room * sizeof(*min_ns));
    if (min_ns == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < 2 * room; i++)
        min_ns[i] = GONE;
    if (waiting->count > 0)
        memcpy(&min_ns[room], &waiting->min_ns[waiting->room], waiting->count * sizeof(*min_ns));
    for (size_t at = room - 1; at > 0; at--)
        min_ns[at] = least_below(min_ns, at);
    free(waiting->min_ns);
    waiting->min_ns = min_ns;
    waiting->room = room;
    return 0;
}

int lull_waiting_add(struct lull_waiting *waiting, uint32_t job, int64_t time_ns)
{
    const size_t place = wait_list_place_of(waiting, job);

    if (place == waiting->count) {
        if (waiting->count == waiting->room && wait_list_grow(waiting) < 0)
            return -ENOMEM;
        waiting->jobs[waiting->count++] = job;
    }
    assert(waiting->jobs[place] == job);
    wait_list_set(waiting, place, time_ns);
    return 0;
}

void lull_waiting_remove(struct lull_waiting *waiting, uint32_t job)
{
    const size_t place = wait_list_place_of(waiting, job);

    assert(place < waiting->count && waiting->jobs[place] == job);
    wait_list_set(waiting, place, GONE);
}

uint32_t lull_waiting_first(const struct lull_waiting *waiting, uint32_t after, int64_t max_ns)
{
    const size_t from = after == LULL_WAITING_NONE ? 0 : wait_list_place_of(waiting, after + 1);
    const int64_t limit = lull_earlier_ns(max_ns, GONE - 1);
    size_t at;

    if (from >= waiting->count)
        return LULL_WAITING_NONE;
    /* Climbs until a subtree to the right has such a job, then goes down to its first one. */
    at = waiting->room + from;
    while (waiting->min_ns[at] > limit) {
        while (at > 1 && at % 2 == 1)
            at /= 2;
        if (at <= 1)
            return LULL_WAITING_NONE;
        at++;
    }
    while (at < waiting->room)
        at = waiting->min_ns[2 * at] <= limit ? 2 * at : 2 * at + 1;
    return waiting->jobs[at - waiting->room];
}
