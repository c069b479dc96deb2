/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/simulator/stretches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

int lull_cluster_stretches_add(struct lull_cluster_stretches *stretches,
                               const struct lull_cluster_stretch *stretch)
{
    const size_t size = stretch->share_count * sizeof(*stretch->shares);
    struct lull_cluster_share *const shares = malloc(size > 0 ? size : 1);

    if (shares == NULL || lull_array_reserve(&stretches->all, &stretches->room, stretches->count,
                                             sizeof(*stretches->all)) < 0) {
        free(shares);
        return -ENOMEM;
    }
    memcpy(shares, stretch->shares, size);
    stretches->all[stretches->count] = *stretch;
    stretches->all[stretches->count++].shares = shares;
    return 0;
}

int lull_cluster_stretches_add_change(struct lull_cluster_stretches *stretches, int64_t time_ns,
                                      uint32_t node, enum lull_cluster_power power)
{
    if (lull_array_reserve(&stretches->changes, &stretches->change_room, stretches->change_count,
                           sizeof(*stretches->changes)) < 0)
        return -ENOMEM;
    stretches->changes[stretches->change_count++] =
        (struct lull_cluster_node_change){time_ns, node, power, stretches->count};
    return 0;
}

/* Orders events by time; at one instant GPUs are returned before others take them. */
static int stretches_compare(const void *left, const void *right)
{
    const struct lull_cluster_event *a = left;
    const struct lull_cluster_event *b = right;

    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    if (a->is_begin != b->is_begin)
        return a->is_begin ? 1 : -1;
    return (a->stretch > b->stretch) - (a->stretch < b->stretch);
}

int lull_cluster_stretches_events(const struct lull_cluster_stretches *stretches,
                                  struct lull_cluster_event **events_out, size_t *count_out)
{
    struct lull_cluster_event *events = calloc(2 * stretches->count + 1, sizeof(*events));
    size_t count = 0;

    if (events == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < stretches->count; i++) {
        const struct lull_cluster_stretch *stretch = &stretches->all[i];

        if (stretch->begin_ns == stretch->end_ns)
            continue;
        events[count++] = (struct lull_cluster_event){stretch->begin_ns, true, i};
        events[count++] = (struct lull_cluster_event){stretch->end_ns, false, i};
    }
    qsort(events, count, sizeof(*events), stretches_compare);
    *events_out = events;
    *count_out = count;
    return 0;
}

void lull_cluster_stretches_fini(struct lull_cluster_stretches *stretches)
{
    for (size_t i = 0; i < stretches->count; i++)
        free((void *)stretches->all[i].shares);
    free(stretches->all);
    free(stretches->changes);
    *stretches = (struct lull_cluster_stretches){0};
}
