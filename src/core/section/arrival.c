/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/arrival.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"

struct arrival_node {
    uint64_t incarnation;
    uint32_t next; /* index for its next word */
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

static const struct lull_arrival *arrival_find_word(const struct arrival_node *node,
                                                    uint64_t iteration)
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

/* This node counts iterations again, so that numbers from before mean other ones. */
static void arrival_recount(struct lull_arrivals *arrivals)
{
    for (uint32_t i = 0; i < arrivals->node_count; i++)
        forget_words(&arrivals->nodes[i]);
    arrivals->has_found = false;
}

static void arrival_store_word(struct lull_arrivals *arrivals, uint32_t index,
                               const struct lull_arrival *arrival)
{
    struct arrival_node *node = &arrivals->nodes[index];

    if (arrival->collectives == 0 || arrival->kind_count > LULL_ARRIVAL_KINDS ||
        arrival_find_word(node, arrival->iteration) != NULL)
        return;
    if (index == arrivals->self && arrival->iteration < newest_of(node))
        arrival_recount(arrivals);
    node->words[node->next] = *arrival;
    node->next = (node->next + 1) % LULL_ARRIVAL_KEPT;
}

void lull_arrivals_take(struct lull_arrivals *arrivals, uint32_t index, uint64_t incarnation,
                        const struct lull_arrival *arrival)
{
    struct arrival_node *node;

    if (index >= arrivals->node_count || incarnation < arrivals->nodes[index].incarnation)
        return;
    node = &arrivals->nodes[index];
    if (incarnation > node->incarnation)
        *node = (struct arrival_node){.incarnation = incarnation};
    arrival_store_word(arrivals, index, arrival);
}

/* ---- the latest -------------------------------------------------------------------------- */

static const struct lull_arrival_kind *arrival_find_kind(const struct lull_arrival *arrival,
                                                         uint64_t signature)
{
    for (uint32_t i = 0; i < arrival->kind_count; i++)
        if (arrival->kinds[i].signature == signature)
            return &arrival->kinds[i];
    return NULL;
}

/* Takes the word of one more node: kinds that it does not name are left out. */
static void arrival_add_word(struct lull_arrival *latest, const struct lull_arrival *arrival)
{
    uint32_t kept = 0;

    if (arrival->depth != latest->depth)
        latest->depth = LULL_ARRIVAL_NONE;
    latest->total_us = lull_min_u32(latest->total_us, arrival->total_us);
    latest->common_us = lull_min_u32(latest->common_us, arrival->common_us);
    for (uint32_t i = 0; i < latest->kind_count; i++) {
        struct lull_arrival_kind kind = latest->kinds[i];
        const struct lull_arrival_kind *other = arrival_find_kind(arrival, kind.signature);

        if (other == NULL)
            continue;
        kind.longest_us = lull_min_u32(kind.longest_us, other->longest_us);
        kind.common_us = lull_min_u32(kind.common_us, other->common_us);
        latest->kinds[kept++] = kind;
    }
    latest->kind_count = kept;
}

/* Combines the reports of all nodes about an iteration. Returns whether all have reported, with the
 * same number of collectives. */
static bool arrival_join_words(const struct lull_arrivals *arrivals, const struct lull_arrival *own,
                               struct lull_arrival *latest)
{
    *latest = *own;
    for (uint32_t i = 0; i < arrivals->node_count; i++) {
        const struct lull_arrival *word = arrival_find_word(&arrivals->nodes[i], own->iteration);

        if (word == NULL || word->collectives != own->collectives)
            return false;
        arrival_add_word(latest, word);
    }
    return true;
}

bool lull_arrivals_find(struct lull_arrivals *arrivals, struct lull_arrival *latest_out)
{
    const struct arrival_node *self = &arrivals->nodes[arrivals->self];
    bool is_found = false;

    for (uint32_t i = 0; i < LULL_ARRIVAL_KEPT; i++) {
        const struct lull_arrival *own = &self->words[i];
        struct lull_arrival latest;

        if (own->collectives == 0 || (arrivals->has_found && own->iteration <= arrivals->found) ||
            (is_found && own->iteration >= latest_out->iteration) ||
            !arrival_join_words(arrivals, own, &latest))
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
