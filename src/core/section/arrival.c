/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/arrival.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/smaller.h"

struct arrival_node {
    uint64_t incarnation;
    bool is_heard;
    uint32_t recoveries; /* in its last word */
    uint32_t next;       /* where its next word goes */
    struct lull_arrival words[LULL_ARRIVAL_KEPT];
};

struct lull_arrivals {
    uint32_t self;
    uint32_t node_count;
    bool has_found;
    uint64_t found; /* the iteration that was found last */
    struct arrival_node nodes[];
};

struct lull_arrivals *lull_arrivals_create(uint32_t self, uint32_t nodes)
{
    struct lull_arrivals *arrivals =
        calloc(1, sizeof(*arrivals) + nodes * sizeof(arrivals->nodes[0]));

    assert(self < nodes && nodes >= 2);
    if (arrivals == NULL)
        return NULL;
    arrivals->self = self;
    arrivals->node_count = nodes;
    return arrivals;
}

void lull_arrivals_destroy(struct lull_arrivals *arrivals)
{
    free(arrivals);
}

/* ---- words ------------------------------------------------------------------------------- */

static uint64_t newest_of(const struct arrival_node *node)
{
    uint64_t newest = 0;

    for (uint32_t i = 0; i < LULL_ARRIVAL_KEPT; i++)
        if (node->words[i].collectives > 0 && node->words[i].iteration > newest)
            newest = node->words[i].iteration;
    return newest;
}

static const struct lull_arrival *find_word(const struct arrival_node *node, uint64_t iteration)
{
    for (uint32_t i = 0; i < LULL_ARRIVAL_KEPT; i++)
        if (node->words[i].collectives > 0 && node->words[i].iteration == iteration)
            return &node->words[i];
    return NULL;
}

static void forget_words(struct arrival_node *node)
{
    memset(node->words, 0, sizeof(node->words));
    node->next = 0;
}

/* This node counts iterations anew, so that numbers from before mean other ones. */
static void count_anew(struct lull_arrivals *arrivals)
{
    for (uint32_t i = 0; i < arrivals->node_count; i++)
        forget_words(&arrivals->nodes[i]);
    arrivals->has_found = false;
}

static void keep_word(struct lull_arrivals *arrivals, uint32_t index,
                      const struct lull_arrival *arrival)
{
    struct arrival_node *node = &arrivals->nodes[index];

    if (arrival->collectives == 0 || arrival->kind_count > LULL_ARRIVAL_KINDS ||
        find_word(node, arrival->iteration) != NULL)
        return;
    if (index == arrivals->self && arrival->iteration < newest_of(node))
        count_anew(arrivals);
    node->words[node->next] = *arrival;
    node->next = (node->next + 1) % LULL_ARRIVAL_KEPT;
}

/* Returns for how long a rank has waited that was seen to have recovered since the word before. */
static uint32_t note_recovery(struct arrival_node *node, const struct lull_arrival *arrival)
{
    const bool is_new = node->is_heard && arrival->recoveries > node->recoveries;

    if (!node->is_heard || arrival->recoveries > node->recoveries)
        node->recoveries = arrival->recoveries;
    node->is_heard = true;
    return is_new ? arrival->waited_us : 0;
}

uint32_t lull_arrivals_take(struct lull_arrivals *arrivals, uint32_t index, uint64_t incarnation,
                            const struct lull_arrival *arrival)
{
    struct arrival_node *node;
    uint32_t waited_us;

    if (index >= arrivals->node_count || incarnation < arrivals->nodes[index].incarnation)
        return 0;
    node = &arrivals->nodes[index];
    if (incarnation > node->incarnation)
        *node = (struct arrival_node){.incarnation = incarnation};
    waited_us = note_recovery(node, arrival);
    keep_word(arrivals, index, arrival);
    return index == arrivals->self ? 0 : waited_us;
}

/* ---- the latest -------------------------------------------------------------------------- */

static const struct lull_arrival_kind *find_kind(const struct lull_arrival *arrival,
                                                 uint64_t signature)
{
    for (uint32_t i = 0; i < arrival->kind_count; i++)
        if (arrival->kinds[i].signature == signature)
            return &arrival->kinds[i];
    return NULL;
}

/* Takes the word of one more node: kinds that it does not name are left out. */
static void add_word(struct lull_latest *latest, const struct lull_arrival *arrival)
{
    uint32_t kept = 0;

    latest->total_us = lull_smaller_u32(latest->total_us, arrival->total_us);
    latest->others_us = lull_smaller_u32(latest->others_us, arrival->total_us);
    for (uint32_t i = 0; i < latest->kind_count; i++) {
        struct lull_latest_kind kind = latest->kinds[i];
        const struct lull_arrival_kind *other = find_kind(arrival, kind.signature);

        if (other == NULL)
            continue;
        kind.longest_us = lull_smaller_u32(kind.longest_us, other->longest_us);
        kind.others_us = lull_smaller_u32(kind.others_us, other->longest_us);
        latest->kinds[kept++] = kind;
    }
    latest->kind_count = kept;
}

/* Puts together what all nodes have told of an iteration. Tells whether all have, and of as many
 * collectives. */
static bool join_words(const struct lull_arrivals *arrivals, const struct lull_arrival *own,
                       struct lull_latest *latest)
{
    *latest = (struct lull_latest){
        .iteration = own->iteration,
        .collectives = own->collectives,
        .total_us = own->total_us,
        .others_us = UINT32_MAX,
        .kind_count = own->kind_count,
    };
    for (uint32_t i = 0; i < own->kind_count; i++)
        latest->kinds[i] = (struct lull_latest_kind){
            .signature = own->kinds[i].signature,
            .longest_us = own->kinds[i].longest_us,
            .others_us = UINT32_MAX,
        };
    for (uint32_t i = 0; i < arrivals->node_count; i++) {
        const struct lull_arrival *word = find_word(&arrivals->nodes[i], own->iteration);

        if (i == arrivals->self)
            continue;
        if (word == NULL || word->collectives != own->collectives)
            return false;
        add_word(latest, word);
    }
    return true;
}

bool lull_arrivals_find(struct lull_arrivals *arrivals, struct lull_latest *latest_out)
{
    const struct arrival_node *self = &arrivals->nodes[arrivals->self];
    bool is_found = false;

    for (uint32_t i = 0; i < LULL_ARRIVAL_KEPT; i++) {
        const struct lull_arrival *own = &self->words[i];
        struct lull_latest latest;

        if (own->collectives == 0 || (arrivals->has_found && own->iteration <= arrivals->found) ||
            (is_found && own->iteration >= latest_out->iteration) ||
            !join_words(arrivals, own, &latest))
            continue;
        *latest_out = latest;
        is_found = true;
    }
    if (!is_found)
        return false;
    arrivals->found = latest_out->iteration;
    arrivals->has_found = true;
    return true;
}
