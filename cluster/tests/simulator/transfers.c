/* SPDX-License-Identifier: Apache-2.0 */
#include "transfers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

enum state { FREE, LATENT, MOVING, ENDED };

struct moving {
    enum state state;
    struct lull_network_transfer is; /* uses are its own */
    uint32_t flow;                   /* while it moves */
    double left_mb;
    double rate_mb_s;
    double since_s;   /* of what is left */
    uint32_t version; /* of its place in the heap; older ones count no more */
    uint32_t next_free;
};

struct lull_transfers {
    struct lull_share *share;
    double now_s;
    struct moving *all;
    uint32_t room;
    uint32_t first_free; /* room: none */
    uint32_t *owner;     /* of flows; at most as many as transfers */
    struct lull_heap events;
    struct lull_heap ended; /* by number */
};

struct lull_transfers *lull_transfers_create(const struct lull_share_link *links, uint32_t count,
                                             enum lull_share_rule rule)
{
    struct lull_transfers *const transfers = calloc(1, sizeof(*transfers));

    if (transfers == NULL)
        return NULL;
    transfers->share = lull_share_create(links, count, rule);
    if (transfers->share == NULL) {
        free(transfers);
        return NULL;
    }
    return transfers;
}

void lull_transfers_destroy(struct lull_transfers *transfers)
{
    if (transfers == NULL)
        return;
    for (uint32_t i = 0; i < transfers->room; i++)
        free((void *)transfers->all[i].is.uses);
    lull_share_destroy(transfers->share);
    lull_heap_fini(&transfers->events);
    lull_heap_fini(&transfers->ended);
    free(transfers->all);
    free(transfers->owner);
    free(transfers);
}

double lull_transfers_now_s(const struct lull_transfers *transfers)
{
    return transfers->now_s;
}

/* ---- events ------------------------------------------------------------------------------- */

/* Doubles that are not negative are ordered as their bits are. */
static int64_t key_of(double time_s)
{
    int64_t key;

    memcpy(&key, &time_s, sizeof(key));
    return key;
}

static double time_of(int64_t key)
{
    double time_s;

    memcpy(&time_s, &key, sizeof(time_s));
    return time_s;
}

static int plan(struct lull_transfers *transfers, uint32_t number, double time_s)
{
    struct moving *const moving = &transfers->all[number];

    moving->version++;
    return lull_heap_add(&transfers->events, key_of(time_s),
                         (uint64_t)moving->version << 32 | number);
}

static bool is_current(const struct lull_transfers *transfers, const struct lull_heap_entry *entry)
{
    const struct moving *moving = &transfers->all[(uint32_t)entry->number];

    return moving->version == (uint32_t)(entry->number >> 32) &&
           (moving->state == LATENT || moving->state == MOVING);
}

double lull_transfers_next_s(struct lull_transfers *transfers)
{
    struct lull_heap *const events = &transfers->events;
    struct lull_heap_entry dropped;

    while (events->count > 0 && !is_current(transfers, &events->entries[0]))
        lull_heap_take(events, INT64_MAX, &dropped);
    return events->count > 0 ? time_of(events->entries[0].key) : INFINITY;
}

/* After a change of rates: computes the remaining data and the end of each transfer. */
static int follow(struct lull_transfers *transfers)
{
    const uint32_t *flows = NULL;
    const uint32_t count = lull_share_update(transfers->share, &flows);
    int rc = 0;

    for (uint32_t i = 0; i < count && rc == 0; i++) {
        const uint32_t number = transfers->owner[flows[i]];
        struct moving *const moving = &transfers->all[number];
        const double rate_mb_s = lull_share_rate_mb_s(transfers->share, flows[i]);

        if (rate_mb_s == moving->rate_mb_s)
            continue;
        moving->left_mb -= moving->rate_mb_s * (transfers->now_s - moving->since_s);
        moving->left_mb = fmax(moving->left_mb, 0.0);
        moving->rate_mb_s = rate_mb_s;
        moving->since_s = transfers->now_s;
        rc = plan(transfers, number, transfers->now_s + moving->left_mb / rate_mb_s);
    }
    return rc;
}

static int begin_to_move(struct lull_transfers *transfers, uint32_t number)
{
    struct moving *const moving = &transfers->all[number];
    const int rc = lull_share_add(transfers->share, moving->is.uses, moving->is.use_count,
                                  moving->is.most_mb_s, &moving->flow);

    if (rc < 0)
        return rc;
    moving->state = MOVING;
    moving->rate_mb_s = 0.0;
    moving->since_s = transfers->now_s;
    transfers->owner[moving->flow] = number;
    return 0;
}

static int end(struct lull_transfers *transfers, uint32_t number)
{
    struct moving *const moving = &transfers->all[number];

    lull_share_remove(transfers->share, moving->flow);
    moving->state = ENDED;
    return lull_heap_add(&transfers->ended, number, number);
}

int lull_transfers_advance(struct lull_transfers *transfers, double to_s)
{
    struct lull_heap_entry entry;
    int rc = 0;

    transfers->now_s = to_s;
    while (rc == 0 && lull_heap_take(&transfers->events, key_of(to_s), &entry)) {
        const uint32_t number = (uint32_t)entry.number;

        if (!is_current(transfers, &entry))
            continue;
        rc = transfers->all[number].state == LATENT ? begin_to_move(transfers, number)
                                                    : end(transfers, number);
    }
    return rc == 0 ? follow(transfers) : rc;
}

/* ---- beginning and end of a transfer ------------------------------------------------------ */

static int grow(struct lull_transfers *transfers)
{
    /* There are never more flows of fair_share.h than moving transfers, but
     * their numbers can reach the largest past number, like those of transfers. */
    const uint32_t room = 2 * transfers->room + 16;
    struct moving *const all = realloc(transfers->all, room * sizeof(*all));
    uint32_t *owner;

    if (all == NULL)
        return -ENOMEM;
    transfers->all = all;
    owner = realloc(transfers->owner, room * sizeof(*owner));
    if (owner == NULL)
        return -ENOMEM;
    transfers->owner = owner;
    for (uint32_t i = transfers->room; i < room; i++)
        all[i] = (struct moving){.next_free = i + 1};
    transfers->first_free = transfers->room;
    transfers->room = room;
    return 0;
}

static bool is_in_range(const struct lull_network_transfer *transfer)
{
    return transfer->size_mb > 0.0 && isfinite(transfer->size_mb) && transfer->latency_s >= 0.0 &&
           isfinite(transfer->latency_s);
}

int lull_transfers_start(struct lull_transfers *transfers,
                         const struct lull_network_transfer *transfer, uint32_t *number_out)
{
    int rc = is_in_range(transfer) ? lull_share_check(transfers->share, transfer->uses,
                                                      transfer->use_count, transfer->most_mb_s)
                                   : -EINVAL;
    struct lull_share_use *uses;
    struct moving *moving;
    uint32_t number;

    if (rc == 0 && transfers->first_free == transfers->room)
        rc = grow(transfers);
    if (rc < 0)
        return rc;
    uses = calloc(transfer->use_count, sizeof(*uses));
    if (uses == NULL)
        return -ENOMEM;
    memcpy(uses, transfer->uses, transfer->use_count * sizeof(*uses));
    number = transfers->first_free;
    moving = &transfers->all[number];
    transfers->first_free = moving->next_free;
    *moving = (struct moving){
        .state = LATENT, .is = *transfer, .left_mb = transfer->size_mb, .version = moving->version};
    moving->is.uses = uses;
    *number_out = number;
    return plan(transfers, number, transfers->now_s + transfer->latency_s);
}

bool lull_transfers_take(struct lull_transfers *transfers, uint32_t *number_out)
{
    struct lull_heap_entry entry;
    struct moving *moving;

    if (!lull_heap_take(&transfers->ended, INT64_MAX, &entry))
        return false;
    moving = &transfers->all[entry.number];
    free((void *)moving->is.uses);
    moving->is.uses = NULL;
    moving->state = FREE;
    moving->next_free = transfers->first_free;
    transfers->first_free = (uint32_t)entry.number;
    *number_out = (uint32_t)entry.number;
    return true;
}
