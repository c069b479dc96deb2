/* SPDX-License-Identifier: Apache-2.0 */
#include "fair_share.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "fair_share_state.h"

struct lull_share *lull_share_create(const struct lull_share_link *links, uint32_t count,
                                     enum lull_share_rule rule)
{
    struct lull_share *const share = calloc(1, sizeof(*share));

    if (share == NULL)
        return NULL;
    share->rule = rule;
    share->link_count = count;
    share->links = calloc((size_t)count + 1, sizeof(*share->links));
    share->marked_links = calloc((size_t)count + 1, sizeof(*share->marked_links));
    if (share->links == NULL || share->marked_links == NULL) {
        share->link_count = 0;
        lull_share_destroy(share);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++)
        share->links[i].is = links[i];
    return share;
}

void lull_share_destroy(struct lull_share *share)
{
    if (share == NULL)
        return;
    for (uint32_t i = 0; i < share->link_count; i++)
        free(share->links[i].entries);
    for (uint32_t i = 0; i < share->flow_room; i++)
        free(share->flows[i].uses);
    free(share->links);
    free(share->flows);
    free(share->marked_links);
    free(share->marked_flows);
    free(share);
}

/* ---- rates to be recomputed ---------------------------------------------------------------- */

/* Reported rates are discarded with the first change. */
void lull_share_begin_marks(struct lull_share *share)
{
    if (share->is_new)
        return;
    for (uint32_t i = 0; i < share->marked_link_count; i++)
        share->links[share->marked_links[i]].is_marked = false;
    for (uint32_t i = 0; i < share->marked_flow_count; i++)
        share->flows[share->marked_flows[i]].is_marked = false;
    share->marked_link_count = share->marked_flow_count = 0;
    share->is_new = true;
}

void lull_share_mark_link(struct lull_share *share, uint32_t number)
{
    if (share->links[number].is_marked)
        return;
    assert(share->marked_link_count < share->link_count);
    share->links[number].is_marked = true;
    share->marked_links[share->marked_link_count++] = number;
}

/* ---- flows -------------------------------------------------------------------------------- */

int lull_share_check(const struct lull_share *share, const struct lull_share_use *uses,
                     uint32_t count, double most_mb_s)
{
    if (count == 0 || !(most_mb_s > 0.0))
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        if (uses[i].link >= share->link_count || !(uses[i].weight > 0.0))
            return -EINVAL;
        for (uint32_t k = 0; k < i; k++)
            if (uses[k].link == uses[i].link)
                return -EINVAL;
    }
    return 0;
}

/* More flows, the lowest number first among those that are free. */
static int grow(struct lull_share *share)
{
    const uint32_t room = 2 * share->flow_room + 16;
    struct lull_share_flow *const flows = realloc(share->flows, room * sizeof(*flows));
    uint32_t *marked;

    if (flows == NULL)
        return -ENOMEM;
    share->flows = flows;
    marked = realloc(share->marked_flows, room * sizeof(*marked));
    if (marked == NULL)
        return -ENOMEM;
    share->marked_flows = marked;
    for (uint32_t i = share->flow_room; i < room; i++)
        flows[i] = (struct lull_share_flow){.next_free = i + 1};
    share->first_free = share->flow_room;
    share->flow_room = room;
    return 0;
}

static int make_room(struct lull_share_link_state *link)
{
    const uint32_t room = 2 * link->room + 4;
    struct lull_share_entry *entries;

    if (link->count < link->room)
        return 0;
    entries = realloc(link->entries, room * sizeof(*entries));
    if (entries == NULL)
        return -ENOMEM;
    link->entries = entries;
    link->room = room;
    return 0;
}

static void enter(struct lull_share *share, uint32_t number, uint32_t use)
{
    struct lull_share_use_state *const used = &share->flows[number].uses[use];
    struct lull_share_link_state *const link = &share->links[used->is.link];

    assert(link->count < link->room);
    used->at = link->count;
    link->entries[link->count++] = (struct lull_share_entry){number, use};
    lull_share_mark_link(share, used->is.link);
}

int lull_share_add(struct lull_share *share, const struct lull_share_use *uses, uint32_t count,
                   double most_mb_s, uint32_t *flow_out)
{
    struct lull_share_use_state *own;
    uint32_t number;
    int rc = lull_share_check(share, uses, count, most_mb_s);

    if (rc == 0 && share->first_free == share->flow_room)
        rc = grow(share);
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        rc = make_room(&share->links[uses[i].link]);
    if (rc < 0)
        return rc;
    assert(count > 0);
    own = calloc(count, sizeof(*own));
    if (own == NULL)
        return -ENOMEM;
    lull_share_begin_marks(share);
    number = share->first_free;
    share->first_free = share->flows[number].next_free;
    share->flows[number] =
        (struct lull_share_flow){.uses = own, .use_count = count, .most_mb_s = most_mb_s};
    for (uint32_t i = 0; i < count; i++) {
        own[i].is = uses[i];
        enter(share, number, i);
    }
    *flow_out = number;
    return 0;
}

static void leave(struct lull_share *share, const struct lull_share_use_state *used)
{
    struct lull_share_link_state *const link = &share->links[used->is.link];
    struct lull_share_entry moved;

    assert(used->at < link->count);
    moved = link->entries[--link->count];
    link->entries[used->at] = moved;
    share->flows[moved.flow].uses[moved.use].at = used->at;
    lull_share_mark_link(share, used->is.link);
}

void lull_share_remove(struct lull_share *share, uint32_t flow)
{
    struct lull_share_flow *const gone = &share->flows[flow];

    assert(flow < share->flow_room && gone->use_count > 0);
    lull_share_begin_marks(share);
    for (uint32_t i = 0; i < gone->use_count; i++)
        leave(share, &gone->uses[i]);
    free(gone->uses);
    *gone = (struct lull_share_flow){.next_free = share->first_free};
    share->first_free = flow;
}
