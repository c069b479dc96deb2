/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/model/calendar_node.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cluster/model/job.h"

int64_t lull_calendar_until(const struct lull_calendar_node *node, uint32_t step)
{
    return step + 1 < node->count ? node->steps[step + 1].from_ns : LULL_CLUSTER_NEVER;
}

uint32_t lull_calendar_step_at(const struct lull_calendar_node *node, int64_t at_ns)
{
    uint32_t low = 0;
    uint32_t high = node->count;

    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;

        if (node->steps[middle].from_ns <= at_ns)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void lull_calendar_forget(struct lull_calendar_node *node, int64_t now_ns)
{
    const uint32_t past = lull_calendar_step_at(node, now_ns);

    if (past == 0)
        return;
    memmove(node->steps, &node->steps[past], (node->count - past) * sizeof(*node->steps));
    node->count -= past;
    assert(node->count > 0);
    node->steps[0].from_ns = INT64_MIN;
}

bool lull_calendar_next_window(const struct lull_calendar_node *node, uint32_t gpus,
                               int64_t time_ns, int64_t before_ns, uint32_t *step, int64_t *from_ns,
                               int64_t *until_ns)
{
    int64_t begin_ns = *from_ns;

    for (uint32_t i = *step; i < node->count; i++) {
        if (node->steps[i].free < gpus) {
            begin_ns = lull_calendar_until(node, i);
            if (begin_ns >= before_ns)
                return false;
        } else if ((i + 1 == node->count || node->steps[i + 1].free < gpus) &&
                   lull_calendar_until(node, i) - begin_ns >= time_ns) {
            *step = i;
            *from_ns = begin_ns;
            *until_ns = lull_calendar_until(node, i);
            return true;
        }
    }
    return false;
}

bool lull_calendar_is_free(const struct lull_calendar_node *node, uint32_t gpus, int64_t from_ns,
                           int64_t until_ns)
{
    for (uint32_t i = lull_calendar_step_at(node, from_ns);
         i < node->count && node->steps[i].from_ns < until_ns; i++)
        if (node->steps[i].free < gpus)
            return false;
    return true;
}

/* A step begins at this time. There is room for it. */
static void split(struct lull_calendar_node *node, int64_t at_ns)
{
    const uint32_t step = lull_calendar_step_at(node, at_ns);

    if (node->steps[step].from_ns == at_ns)
        return;
    assert(node->count < node->room && node->steps[step].from_ns < at_ns);
    memmove(&node->steps[step + 2], &node->steps[step + 1],
            (node->count - step - 1) * sizeof(*node->steps));
    node->steps[step + 1] = (struct lull_calendar_step){at_ns, node->steps[step].free};
    node->count++;
}

/* Steps that differ in nothing from the ones ahead of them go. */
static void merge(struct lull_calendar_node *node)
{
    uint32_t kept = 1;

    for (uint32_t i = 1; i < node->count; i++)
        if (node->steps[i].free != node->steps[kept - 1].free)
            node->steps[kept++] = node->steps[i];
    node->count = kept;
}

void lull_calendar_change(struct lull_calendar_node *node, uint32_t gpus, bool is_taken,
                          int64_t from_ns, int64_t until_ns)
{
    assert(from_ns < until_ns);
    split(node, from_ns);
    split(node, until_ns);
    for (uint32_t i = lull_calendar_step_at(node, from_ns);
         i < node->count && node->steps[i].from_ns < until_ns; i++) {
        assert(!is_taken || node->steps[i].free >= gpus);
        node->steps[i].free += is_taken ? -gpus : gpus;
    }
    merge(node);
}

int lull_calendar_make_room(struct lull_calendar_node *node)
{
    const uint32_t room = 2 * node->room;
    struct lull_calendar_step *steps;

    if (node->count + 2 <= node->room)
        return 0;
    steps = realloc(node->steps, room * sizeof(*steps));
    if (steps == NULL)
        return -ENOMEM;
    node->steps = steps;
    node->room = room;
    return 0;
}
