/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/model/state.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BITS = 64 };

/* Nodes of one pool and type; a node's place is its number among them. */
struct free_group {
    const uint32_t *nodes; /* of the state's members, ascending */
    uint32_t node_count;
    uint32_t node_gpus; /* the most that one has */
    uint64_t free;
    size_t words;
    uint64_t *having; /* [free GPUs][word]: the places of nodes with this many */
    uint32_t *count;  /* [free GPUs]: how many nodes */
    uint32_t *racks;  /* that it has nodes in, ascending */
    uint32_t rack_count;
    uint32_t *rack_at; /* [place] among the racks */
    uint32_t *whole;   /* [rack]: nodes with node_gpus free */
};

struct lull_cluster_state {
    const struct lull_cluster *cluster;
    struct lull_node_groups members;
    struct free_group *groups; /* [pool][type] */
    uint32_t *place;           /* [node] in its group */
    uint32_t *free;            /* [node], whether it is on or not */
    uint8_t *power;            /* [node]: enum lull_cluster_power, in a byte */
};

static struct free_group *group_at(const struct lull_cluster_state *state, uint32_t pool,
                                   uint32_t type)
{
    return &state->groups[lull_cluster_group(state->cluster, pool, type)];
}

static struct free_group *cluster_state_group_of(const struct lull_cluster_state *state,
                                                 uint32_t node)
{
    return group_at(state, state->cluster->nodes[node].pool, state->cluster->nodes[node].type);
}

static void cluster_state_mark(struct free_group *group, uint32_t place, uint32_t free, bool has)
{
    uint64_t *const word = &group->having[free * group->words + place / WORD_BITS];
    const uint64_t bit = UINT64_C(1) << place % WORD_BITS;

    *word = has ? *word | bit : *word & ~bit;
    group->count[free] += has ? 1 : UINT32_MAX;
    if (free == group->node_gpus)
        group->whole[group->rack_at[place]] += has ? 1 : UINT32_MAX;
}

/* Returns the number of GPUs of a node that may be given to jobs: 0 unless the node is on. */
static uint32_t cluster_state_usable_gpus(const struct lull_cluster_state *state, uint32_t node)
{
    if (state->power[node] != LULL_CLUSTER_ON)
        return 0;
    return state->free[node];
}

static void cluster_state_set(struct lull_cluster_state *state, uint32_t node, uint32_t free,
                              enum lull_cluster_power power)
{
    struct free_group *const group = cluster_state_group_of(state, node);
    const uint32_t before = cluster_state_usable_gpus(state, node);

    assert(free <= state->cluster->nodes[node].gpus && group->free >= before);
    state->free[node] = free;
    state->power[node] = (uint8_t)power;
    cluster_state_mark(group, state->place[node], before, false);
    cluster_state_mark(group, state->place[node], cluster_state_usable_gpus(state, node), true);
    group->free = group->free - before + cluster_state_usable_gpus(state, node);
}

/* ---- beginning and end -------------------------------------------------------------------- */

static int make_group(struct free_group *group)
{
    const size_t levels = (size_t)group->node_gpus + 1;

    group->words = (group->node_count + WORD_BITS - 1) / WORD_BITS;
    group->having = calloc(levels * group->words, sizeof(*group->having));
    group->count = calloc(levels, sizeof(*group->count));
    group->racks = calloc(group->node_count, sizeof(*group->racks));
    group->rack_at = calloc(group->node_count, sizeof(*group->rack_at));
    group->whole = calloc(group->node_count, sizeof(*group->whole));
    if (group->having == NULL || group->count == NULL || group->racks == NULL ||
        group->rack_at == NULL || group->whole == NULL)
        return -ENOMEM;
    return 0;
}

static void fill_racks(const struct lull_cluster *cluster, struct free_group *group)
{
    for (uint32_t i = 0; i < group->node_count; i++)
        group->racks[i] = cluster->nodes[group->nodes[i]].rack;
    qsort(group->racks, group->node_count, sizeof(*group->racks), lull_cluster_by_number);
    for (uint32_t i = 0; i < group->node_count; i++)
        if (i == 0 || group->racks[i] != group->racks[group->rack_count - 1])
            group->racks[group->rack_count++] = group->racks[i];
    for (uint32_t i = 0; i < group->node_count; i++) {
        const uint32_t *found =
            bsearch(&cluster->nodes[group->nodes[i]].rack, group->racks, group->rack_count,
                    sizeof(*group->racks), lull_cluster_by_number);

        assert(found != NULL);
        group->rack_at[i] = (uint32_t)(found - group->racks);
    }
}

static int fill_groups(struct lull_cluster_state *state)
{
    const struct lull_cluster *cluster = state->cluster;
    const struct lull_node_groups *members = &state->members;

    for (size_t i = 0; i < lull_cluster_group_count(cluster); i++) {
        struct free_group *const group = &state->groups[i];

        *group = (struct free_group){
            .nodes = &members->nodes[members->first[i]],
            .node_count = (uint32_t)(members->first[i + 1] - members->first[i]),
            .node_gpus = members->most[i],
            .free = members->gpus[i],
        };
        if (group->node_count == 0)
            continue;
        if (make_group(group) < 0)
            return -ENOMEM;
        fill_racks(cluster, group);
        for (uint32_t place = 0; place < group->node_count; place++) {
            const uint32_t node = group->nodes[place];

            state->place[node] = place;
            state->free[node] = cluster->nodes[node].gpus;
            cluster_state_mark(group, place, state->free[node], true);
        }
    }
    return 0;
}

int lull_cluster_state_create(const struct lull_cluster *cluster,
                              struct lull_cluster_state **state_out)
{
    struct lull_cluster_state *state = calloc(1, sizeof(*state));

    if (state == NULL)
        return -ENOMEM;
    state->cluster = cluster;
    state->groups = calloc(lull_cluster_group_count(cluster), sizeof(*state->groups));
    state->place = calloc(cluster->node_count, sizeof(*state->place));
    state->free = calloc(cluster->node_count, sizeof(*state->free));
    state->power = calloc(cluster->node_count, sizeof(*state->power));
    if (state->groups == NULL || state->place == NULL || state->free == NULL ||
        state->power == NULL || lull_node_groups_init(&state->members, cluster) < 0 ||
        fill_groups(state) < 0) {
        lull_cluster_state_destroy(state);
        return -ENOMEM;
    }
    *state_out = state;
    return 0;
}

void lull_cluster_state_destroy(struct lull_cluster_state *state)
{
    if (state == NULL)
        return;
    for (size_t i = 0; state->groups != NULL && i < lull_cluster_group_count(state->cluster); i++) {
        free(state->groups[i].having);
        free(state->groups[i].count);
        free(state->groups[i].racks);
        free(state->groups[i].rack_at);
        free(state->groups[i].whole);
    }
    lull_node_groups_fini(&state->members);
    free(state->groups);
    free(state->place);
    free(state->free);
    free(state->power);
    free(state);
}

/* ---- looking ------------------------------------------------------------------------------ */

const struct lull_cluster *lull_cluster_state_cluster(const struct lull_cluster_state *state)
{
    return state->cluster;
}

const struct lull_node_groups *lull_cluster_state_groups(const struct lull_cluster_state *state)
{
    return &state->members;
}

uint32_t lull_cluster_state_free(const struct lull_cluster_state *state, uint32_t node)
{
    return cluster_state_usable_gpus(state, node);
}

enum lull_cluster_power lull_cluster_state_power(const struct lull_cluster_state *state,
                                                 uint32_t node)
{
    return (enum lull_cluster_power)state->power[node];
}

bool lull_cluster_state_is_idle(const struct lull_cluster_state *state, uint32_t node)
{
    return cluster_state_usable_gpus(state, node) == state->cluster->nodes[node].gpus;
}

uint64_t lull_cluster_state_free_of(const struct lull_cluster_state *state, uint32_t pool,
                                    uint32_t type)
{
    return group_at(state, pool, type)->free;
}

uint64_t lull_cluster_state_gpus_of(const struct lull_cluster_state *state, uint32_t pool,
                                    uint32_t type)
{
    return state->members.gpus[lull_cluster_group(state->cluster, pool, type)];
}

uint32_t lull_cluster_state_node_gpus(const struct lull_cluster_state *state, uint32_t pool,
                                      uint32_t type)
{
    return group_at(state, pool, type)->node_gpus;
}

uint32_t lull_cluster_state_count(const struct lull_cluster_state *state, uint32_t pool,
                                  uint32_t type, uint32_t free_gpus)
{
    const struct free_group *group = group_at(state, pool, type);

    if (group->node_count == 0 || free_gpus > group->node_gpus)
        return 0;
    return group->count[free_gpus];
}

const uint32_t *lull_cluster_state_racks(const struct lull_cluster_state *state, uint32_t pool,
                                         uint32_t type, uint32_t *count_out)
{
    const struct free_group *group = group_at(state, pool, type);

    *count_out = group->rack_count;
    return group->racks;
}

uint32_t lull_cluster_state_whole_of(const struct lull_cluster_state *state, uint32_t pool,
                                     uint32_t type, uint32_t at)
{
    return group_at(state, pool, type)->whole[at];
}

/* The first place whose node has a number of from_node or above. */
static uint32_t place_from(const struct free_group *group, uint32_t from_node)
{
    uint32_t low = 0;
    uint32_t high = group->node_count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (group->nodes[middle] < from_node)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t lull_cluster_state_find(const struct lull_cluster_state *state, uint32_t pool,
                                 uint32_t type, uint32_t free_gpus, uint32_t from_node)
{
    const struct free_group *group = group_at(state, pool, type);
    uint32_t place = 0;
    uint64_t mask;

    if (free_gpus > group->node_gpus || group->node_count == 0 || group->count[free_gpus] == 0)
        return UINT32_MAX;
    if (from_node > 0)
        place = place_from(group, from_node);
    mask = ~UINT64_C(0) << place % WORD_BITS;
    for (size_t word = place / WORD_BITS; word < group->words; word++) {
        const uint64_t found = group->having[free_gpus * group->words + word] & mask;

        if (found != 0)
            return group->nodes[word * WORD_BITS + (size_t)__builtin_ctzll(found)];
        mask = ~UINT64_C(0);
    }
    return UINT32_MAX;
}

/* ---- taking and giving -------------------------------------------------------------------- */

void lull_cluster_state_take(struct lull_cluster_state *state,
                             const struct lull_cluster_share *shares, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t node = shares[i].node;

        assert(shares[i].gpus <= cluster_state_usable_gpus(state, node));
        cluster_state_set(state, node, state->free[node] - shares[i].gpus, LULL_CLUSTER_ON);
    }
}

void lull_cluster_state_give(struct lull_cluster_state *state,
                             const struct lull_cluster_share *shares, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t node = shares[i].node;

        assert(state->free[node] + shares[i].gpus <= state->cluster->nodes[node].gpus);
        cluster_state_set(state, node, state->free[node] + shares[i].gpus,
                          lull_cluster_state_power(state, node));
    }
}

void lull_cluster_state_set_free(struct lull_cluster_state *state, uint32_t node, uint32_t gpus)
{
    assert(lull_cluster_state_power(state, node) == LULL_CLUSTER_ON);
    if (gpus != state->free[node])
        cluster_state_set(state, node, gpus, LULL_CLUSTER_ON);
}

void lull_cluster_state_set_power(struct lull_cluster_state *state, uint32_t node,
                                  enum lull_cluster_power power)
{
    cluster_state_set(state, node, state->free[node], power);
}
