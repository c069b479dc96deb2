/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/model/calendar.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "cluster/core/model/cluster.h"
#include "cluster/core/model/job.h"

/* ---- one node over time ---------------------------------------------------------------------- */

/* Number of free GPUs from from_ns until the next step begins. */
struct calendar_step {
    int64_t from_ns;
    uint32_t free;
};

struct calendar_node {
    struct calendar_step *steps; /* ascending; the first from INT64_MIN on */
    uint32_t count;
    size_t room;
};

/* Returns the end of a step; LULL_CLUSTER_NEVER for the last one. */
static int64_t until_ns_of(const struct calendar_node *node, uint32_t step)
{
    if (step + 1 == node->count)
        return LULL_CLUSTER_NEVER;
    return node->steps[step + 1].from_ns;
}

/* The step that a time lies in. */
static uint32_t calendar_step_at(const struct calendar_node *node, int64_t at_ns)
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

/* Forgets the steps that end before now_ns. */
static void calendar_forget(struct calendar_node *node, int64_t now_ns)
{
    const uint32_t past = calendar_step_at(node, now_ns);

    if (past == 0)
        return;
    memmove(node->steps, &node->steps[past], (node->count - past) * sizeof(*node->steps));
    node->count -= past;
    assert(node->count > 0);
    node->steps[0].from_ns = INT64_MIN;
}

/* The first window from *step on in which `gpus` GPUs are free for time_ns: it begins at *from_ns
   or later. False: none begins before before_ns. *step is the last one of the window then. */
static bool next_window(const struct calendar_node *node, uint32_t gpus, int64_t time_ns,
                        int64_t before_ns, uint32_t *step, int64_t *from_ns, int64_t *until_ns)
{
    int64_t begin_ns = *from_ns;

    for (uint32_t i = *step; i < node->count; i++) {
        if (node->steps[i].free < gpus) {
            begin_ns = until_ns_of(node, i);
            if (begin_ns >= before_ns)
                return false;
        } else if ((i + 1 == node->count || node->steps[i + 1].free < gpus) &&
                   until_ns_of(node, i) - begin_ns >= time_ns) {
            *step = i;
            *from_ns = begin_ns;
            *until_ns = until_ns_of(node, i);
            return true;
        }
    }
    return false;
}

/* Returns whether `gpus` GPUs are free from from_ns to until_ns without a break. */
static bool calendar_is_free(const struct calendar_node *node, uint32_t gpus, int64_t from_ns,
                             int64_t until_ns)
{
    for (uint32_t i = calendar_step_at(node, from_ns);
         i < node->count && node->steps[i].from_ns < until_ns; i++)
        if (node->steps[i].free < gpus)
            return false;
    return true;
}

/* Makes a step begin at this time; the array has room for it. */
static void calendar_split(struct calendar_node *node, int64_t at_ns)
{
    const uint32_t step = calendar_step_at(node, at_ns);

    if (node->steps[step].from_ns == at_ns)
        return;
    assert(node->count < node->room && node->steps[step].from_ns < at_ns);
    memmove(&node->steps[step + 2], &node->steps[step + 1],
            (node->count - step - 1) * sizeof(*node->steps));
    node->steps[step + 1] = (struct calendar_step){at_ns, node->steps[step].free};
    node->count++;
}

/* Removes steps in which as many GPUs are free as in the step before, so that steps stay few. */
static void calendar_merge(struct calendar_node *node)
{
    uint32_t kept = 1;

    for (uint32_t i = 1; i < node->count; i++)
        if (node->steps[i].free != node->steps[kept - 1].free)
            node->steps[kept++] = node->steps[i];
    node->count = kept;
}

/* Takes free GPUs or returns them; the array has room for two more steps. */
static void change_node(struct calendar_node *node, uint32_t gpus, bool is_taken, int64_t from_ns,
                        int64_t until_ns)
{
    assert(from_ns < until_ns);
    calendar_split(node, from_ns);
    calendar_split(node, until_ns);
    for (uint32_t i = calendar_step_at(node, from_ns);
         i < node->count && node->steps[i].from_ns < until_ns; i++) {
        assert(!is_taken || node->steps[i].free >= gpus);
        node->steps[i].free += is_taken ? -gpus : gpus;
    }
    calendar_merge(node);
}

/* ---- all nodes ------------------------------------------------------------------------------- */

/* From at_ns on, a gang can begin on more nodes, or on fewer. */
struct change {
    int64_t at_ns;
    int32_t whole; /* nodes that are free all over */
    int32_t rest;  /* nodes with enough for the rest */
};

struct lull_calendar {
    const struct lull_cluster *cluster;
    struct calendar_node *nodes;
    struct lull_node_groups groups;
    struct change *changes;
    size_t change_count;
    size_t change_room;
};

static int change_all(struct lull_calendar *calendar, const struct lull_cluster_share *shares,
                      size_t count, bool is_taken, int64_t from_ns, int64_t until_ns)
{
    for (size_t i = 0; i < count; i++) {
        struct calendar_node *const node = &calendar->nodes[shares[i].node];

        /* A change splits two steps at most. */
        if (lull_array_reserve(&node->steps, &node->room, node->count + 1, sizeof(*node->steps)) <
            0)
            return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++)
        change_node(&calendar->nodes[shares[i].node], shares[i].gpus, is_taken, from_ns, until_ns);
    return 0;
}

int lull_calendar_add(struct lull_calendar *calendar, const struct lull_cluster_share *shares,
                      size_t count, int64_t from_ns, int64_t until_ns)
{
    return change_all(calendar, shares, count, true, from_ns, until_ns);
}

int lull_calendar_remove(struct lull_calendar *calendar, const struct lull_cluster_share *shares,
                         size_t count, int64_t from_ns, int64_t until_ns)
{
    return change_all(calendar, shares, count, false, from_ns, until_ns);
}

/* ---- the earliest time --------------------------------------------------------------------- */

/* Finds where the search for windows on a node begins: not now if the real node has fewer GPUs free
 * than are wanted. */
static bool calendar_begin_search(struct lull_calendar *calendar, uint32_t node, uint32_t gpus,
                                  int64_t now_ns, const struct lull_cluster_state *real,
                                  uint32_t *step, int64_t *from_ns)
{
    calendar_forget(&calendar->nodes[node], now_ns);
    *step = 0;
    *from_ns = now_ns;
    if (real == NULL || lull_cluster_state_free(real, node) >= gpus)
        return true;
    *from_ns = until_ns_of(&calendar->nodes[node], 0);
    *step = 1;
    return *from_ns != LULL_CLUSTER_NEVER;
}

/* The earliest time at which one node has room, and of those nodes the one with the fewest free
 * GPUs. Each window found bounds the search on the nodes behind it. */
static int64_t find_on_one(struct lull_calendar *calendar,
                           const struct lull_calendar_request *request, int64_t now_ns,
                           int64_t before_ns, const struct lull_cluster_state *real,
                           struct lull_cluster_share *shares_out)
{
    const size_t group = lull_cluster_group(calendar->cluster, request->pool, request->type);
    int64_t best_ns = LULL_CLUSTER_NEVER;
    uint32_t fewest = UINT32_MAX;

    for (size_t i = calendar->groups.first[group]; i < calendar->groups.first[group + 1]; i++) {
        const uint32_t number = calendar->groups.nodes[i];
        const struct calendar_node *node = &calendar->nodes[number];
        int64_t from_ns;
        int64_t until_ns;
        uint32_t step;
        uint32_t free;

        if (calendar->cluster->nodes[number].gpus < request->gpus ||
            !calendar_begin_search(calendar, number, request->gpus, now_ns, real, &step,
                                   &from_ns) ||
            !next_window(node, request->gpus, request->time_ns,
                         best_ns == LULL_CLUSTER_NEVER ? before_ns : best_ns + 1, &step, &from_ns,
                         &until_ns) ||
            from_ns >= before_ns || from_ns > best_ns)
            continue;
        free = node->steps[calendar_step_at(node, from_ns)].free;
        if (from_ns == best_ns && free >= fewest)
            continue;
        best_ns = from_ns;
        fewest = free;
        shares_out[0] = (struct lull_cluster_share){number, request->gpus};
    }
    return best_ns;
}

static int add_change(struct lull_calendar *calendar, struct change added)
{
    if (lull_array_reserve(&calendar->changes, &calendar->change_room, calendar->change_count,
                           sizeof(added)) < 0)
        return -ENOMEM;
    calendar->changes[calendar->change_count++] = added;
    return 0;
}

/* Adds the windows in which a job can begin on a node, as changes of the number of such nodes. */
static int add_windows(struct lull_calendar *calendar, uint32_t number, uint32_t gpus,
                       bool is_whole, int64_t time_ns, int64_t now_ns,
                       const struct lull_cluster_state *real)
{
    const struct calendar_node *node = &calendar->nodes[number];
    int64_t from_ns;
    int64_t until_ns;
    uint32_t step;

    if (!calendar_begin_search(calendar, number, gpus, now_ns, real, &step, &from_ns))
        return 0;
    while (next_window(node, gpus, time_ns, LULL_CLUSTER_NEVER, &step, &from_ns, &until_ns)) {
        if (add_change(calendar, (struct change){from_ns, is_whole, !is_whole}) < 0)
            return -ENOMEM;
        if (until_ns == LULL_CLUSTER_NEVER)
            return 0;
        if (add_change(calendar, (struct change){until_ns - time_ns + 1, -is_whole, is_whole - 1}) <
            0)
            return -ENOMEM;
        from_ns = until_ns;
        step++;
    }
    return 0;
}

static int calendar_by_time(const void *left, const void *right)
{
    const struct change *a = left;
    const struct change *b = right;

    return (a->at_ns > b->at_ns) - (a->at_ns < b->at_ns);
}

/* The first time at which this many nodes are wholly free, and one more has the rest free. */
static int64_t first_time(const struct lull_calendar *calendar, int32_t whole, bool has_rest)
{
    int32_t wholes = 0;
    int32_t rests = 0;

    for (size_t i = 0; i < calendar->change_count; i++) {
        wholes += calendar->changes[i].whole;
        rests += calendar->changes[i].rest;
        if (i + 1 < calendar->change_count &&
            calendar->changes[i + 1].at_ns == calendar->changes[i].at_ns)
            continue;
        if (wholes >= whole && (!has_rest || rests > whole))
            return calendar->changes[i].at_ns;
    }
    return LULL_CLUSTER_NEVER;
}

/* Chooses whole nodes in the order of their numbers, and of the others the one with the fewest free
 * GPUs for the rest. */
static size_t choose_nodes(const struct lull_calendar *calendar,
                           const struct lull_calendar_request *request, int64_t start_ns,
                           int64_t now_ns, const struct lull_cluster_state *real,
                           struct lull_cluster_share *shares_out)
{
    const size_t group = lull_cluster_group(calendar->cluster, request->pool, request->type);
    const uint32_t most = calendar->groups.most[group];
    const uint32_t whole = request->gpus / most;
    const uint32_t rest = request->gpus % most;
    uint32_t fewest = UINT32_MAX;
    size_t count = 0;

    for (size_t i = calendar->groups.first[group]; i < calendar->groups.first[group + 1]; i++) {
        const uint32_t number = calendar->groups.nodes[i];
        const struct calendar_node *node = &calendar->nodes[number];
        const uint32_t free = node->steps[calendar_step_at(node, start_ns)].free;
        const uint32_t really =
            real == NULL || start_ns > now_ns ? most : lull_cluster_state_free(real, number);

        if (count < whole && really >= most &&
            calendar_is_free(node, most, start_ns, start_ns + request->time_ns)) {
            shares_out[count++] = (struct lull_cluster_share){number, most};
        } else if (rest > 0 && free < fewest && really >= rest &&
                   calendar_is_free(node, rest, start_ns, start_ns + request->time_ns)) {
            shares_out[whole] = (struct lull_cluster_share){number, rest};
            fewest = free;
        }
    }
    return whole + (rest > 0);
}

/* The earliest time at which enough whole nodes, and one for the rest, have room at once. */
static int64_t find_on_many(struct lull_calendar *calendar,
                            const struct lull_calendar_request *request, int64_t now_ns,
                            const struct lull_cluster_state *real,
                            struct lull_cluster_share *shares_out, size_t *share_count_out)
{
    const size_t group = lull_cluster_group(calendar->cluster, request->pool, request->type);
    const uint32_t most = calendar->groups.most[group];
    int64_t start_ns;

    calendar->change_count = 0;
    for (size_t i = calendar->groups.first[group]; i < calendar->groups.first[group + 1]; i++) {
        const uint32_t number = calendar->groups.nodes[i];

        if (add_windows(calendar, number, most, true, request->time_ns, now_ns, real) < 0 ||
            (request->gpus % most > 0 && add_windows(calendar, number, request->gpus % most, false,
                                                     request->time_ns, now_ns, real) < 0))
            return LULL_CLUSTER_NEVER;
    }
    if (calendar->change_count > 0)
        qsort(calendar->changes, calendar->change_count, sizeof(*calendar->changes),
              calendar_by_time);
    start_ns = first_time(calendar, (int32_t)(request->gpus / most), request->gpus % most > 0);
    if (start_ns != LULL_CLUSTER_NEVER)
        *share_count_out = choose_nodes(calendar, request, start_ns, now_ns, real, shares_out);
    return start_ns;
}

int64_t lull_calendar_find(struct lull_calendar *calendar,
                           const struct lull_calendar_request *request, int64_t now_ns,
                           int64_t before_ns, const struct lull_cluster_state *real,
                           struct lull_cluster_share *shares_out, size_t *share_count_out)
{
    const size_t group = lull_cluster_group(calendar->cluster, request->pool, request->type);
    int64_t start_ns;

    if (calendar->groups.most[group] == 0)
        return LULL_CLUSTER_NEVER;
    if (request->gpus > calendar->groups.most[group]) {
        start_ns = find_on_many(calendar, request, now_ns, real, shares_out, share_count_out);
        if (start_ns >= before_ns)
            return LULL_CLUSTER_NEVER;
        return start_ns;
    }
    *share_count_out = 1;
    return find_on_one(calendar, request, now_ns, before_ns, real, shares_out);
}

/* ---- beginning and end --------------------------------------------------------------------- */

void lull_calendar_destroy(struct lull_calendar *calendar)
{
    if (calendar == NULL)
        return;
    for (uint32_t i = 0; calendar->nodes != NULL && i < calendar->cluster->node_count; i++)
        free(calendar->nodes[i].steps);
    free(calendar->nodes);
    lull_node_groups_fini(&calendar->groups);
    free(calendar->changes);
    free(calendar);
}

static int calendar_fill(struct lull_calendar *calendar)
{
    const struct lull_cluster *cluster = calendar->cluster;

    for (uint32_t i = 0; i < cluster->node_count; i++) {
        struct calendar_node *const node = &calendar->nodes[i];

        node->room = 8;
        node->steps = calloc(node->room, sizeof(*node->steps));
        if (node->steps == NULL)
            return -ENOMEM;
        node->steps[node->count++] = (struct calendar_step){INT64_MIN, cluster->nodes[i].gpus};
    }
    return 0;
}

int lull_calendar_create(const struct lull_cluster *cluster, struct lull_calendar **calendar_out)
{
    struct lull_calendar *calendar = calloc(1, sizeof(*calendar));

    if (calendar == NULL)
        return -ENOMEM;
    calendar->cluster = cluster;
    calendar->nodes = calloc(cluster->node_count, sizeof(*calendar->nodes));
    if (calendar->nodes == NULL || lull_node_groups_init(&calendar->groups, cluster) < 0 ||
        calendar_fill(calendar) < 0) {
        lull_calendar_destroy(calendar);
        return -ENOMEM;
    }
    *calendar_out = calendar;
    return 0;
}
