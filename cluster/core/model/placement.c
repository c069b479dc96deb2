/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/model/placement.h"

#include <assert.h>
#include <stdbool.h>

/* ---- one node ----------------------------------------------------------------------------- */

/* Places a gang on the node with the fewest free GPUs that still fits. */
static size_t place_within_node(const struct lull_cluster_state *state, uint32_t pool,
                                uint32_t type, uint32_t gpus, struct lull_cluster_share *shares_out)
{
    const uint32_t most = lull_cluster_state_node_gpus(state, pool, type);

    for (uint32_t free = gpus; free <= most; free++) {
        const uint32_t node = lull_cluster_state_find(state, pool, type, free, 0);

        if (node != UINT32_MAX) {
            shares_out[0] = (struct lull_cluster_share){node, gpus};
            return 1;
        }
    }
    return 0;
}

/* Nodes of one pool and type, and those that are taken. */
struct taking {
    const struct lull_cluster_state *state;
    uint32_t pool;
    uint32_t type;
    uint32_t most; /* GPUs of a whole node */
    struct lull_cluster_share *shares;
    size_t count;
};

static bool is_taken(const struct taking *taking, uint32_t node)
{
    for (size_t i = 0; i < taking->count; i++)
        if (taking->shares[i].node == node)
            return true;
    return false;
}

/* ---- whole nodes -------------------------------------------------------------------------- */

static uint32_t rack_of(const struct taking *taking, uint32_t node)
{
    return lull_cluster_state_cluster(taking->state)->nodes[node].rack;
}

static bool is_rack_taken(const struct taking *taking, uint32_t rack)
{
    for (size_t i = 0; i < taking->count; i++)
        if (rack_of(taking, taking->shares[i].node) == rack)
            return true;
    return false;
}

/* The rack with the fewest whole nodes that has as many as wanted; else the one with the most.
 * There is one that is not taken. */
static uint32_t choose_rack(const struct taking *taking, uint32_t wanted)
{
    uint32_t count;
    const uint32_t *racks =
        lull_cluster_state_racks(taking->state, taking->pool, taking->type, &count);
    uint32_t best = UINT32_MAX;
    uint32_t best_whole = 0;

    for (uint32_t i = 0; i < count && best_whole != wanted; i++) {
        const uint32_t whole =
            lull_cluster_state_whole_of(taking->state, taking->pool, taking->type, i);
        const bool is_better =
            best_whole >= wanted ? whole >= wanted && whole < best_whole : whole > best_whole;

        if (whole == 0 || !is_better || is_rack_taken(taking, racks[i]))
            continue;
        best = racks[i];
        best_whole = whole;
    }
    return best;
}

/* Takes up to `wanted` whole nodes of a rack. Returns how many it took. */
static uint32_t take_of_rack(struct taking *taking, uint32_t rack, uint32_t wanted)
{
    uint32_t taken = 0;
    uint32_t from = 0;

    while (taken < wanted) {
        const uint32_t node =
            lull_cluster_state_find(taking->state, taking->pool, taking->type, taking->most, from);

        if (node == UINT32_MAX)
            break;
        from = node + 1;
        if (rack_of(taking, node) != rack)
            continue;
        taking->shares[taking->count++] = (struct lull_cluster_share){node, taking->most};
        taken++;
    }
    return taken;
}

/* Takes `wanted` whole nodes; false: the group has fewer. */
static bool job_placement_take_whole(struct taking *taking, uint32_t wanted)
{
    if (lull_cluster_state_count(taking->state, taking->pool, taking->type, taking->most) < wanted)
        return false;
    while (wanted > 0) {
        const uint32_t taken = take_of_rack(taking, choose_rack(taking, wanted), wanted);

        assert(taken > 0 && taken <= wanted);
        wanted -= taken;
    }
    return true;
}

/* ---- the rest ----------------------------------------------------------------------------- */

/* The node with the most free GPUs that is not taken, in a rack that is or in any. */
static uint32_t job_placement_find_emptiest(const struct taking *taking, uint32_t gpus,
                                            bool is_near)
{
    for (uint32_t free = taking->most; free >= gpus; free--) {
        uint32_t node = lull_cluster_state_find(taking->state, taking->pool, taking->type, free, 0);

        while (node != UINT32_MAX && (is_taken(taking, node) ||
                                      (is_near && !is_rack_taken(taking, rack_of(taking, node)))))
            node =
                lull_cluster_state_find(taking->state, taking->pool, taking->type, free, node + 1);
        if (node != UINT32_MAX)
            return node;
    }
    return UINT32_MAX;
}

/* Takes the rest of a gang from one node, in a rack that it has nodes in if that is possible. */
static bool take_rest(struct taking *taking, uint32_t gpus)
{
    uint32_t node = job_placement_find_emptiest(taking, gpus, true);

    if (node == UINT32_MAX)
        node = job_placement_find_emptiest(taking, gpus, false);
    if (node == UINT32_MAX)
        return false;
    taking->shares[taking->count++] = (struct lull_cluster_share){node, gpus};
    return true;
}

size_t lull_cluster_place_consolidated(const struct lull_cluster_state *state, uint32_t pool,
                                       uint32_t type, uint32_t gpus,
                                       struct lull_cluster_share *shares_out)
{
    struct taking taking = {
        .state = state,
        .pool = pool,
        .type = type,
        .most = lull_cluster_state_node_gpus(state, pool, type),
        .shares = shares_out,
    };

    if (gpus > lull_cluster_state_free_of(state, pool, type))
        return 0;
    if (gpus <= taking.most)
        return place_within_node(state, pool, type, gpus, shares_out);
    if (!job_placement_take_whole(&taking, gpus / taking.most))
        return 0;
    if (gpus % taking.most > 0 && !take_rest(&taking, gpus % taking.most))
        return 0;
    return taking.count;
}

/* ---- a copy to try placements on ------------------------------------------------------------ */

void lull_cluster_copy_group(struct lull_cluster_state *copy, const struct lull_cluster_state *real,
                             uint32_t pool, uint32_t type)
{
    const struct lull_node_groups *groups = lull_cluster_state_groups(real);
    const size_t group = lull_cluster_group(lull_cluster_state_cluster(real), pool, type);

    for (size_t i = groups->first[group]; i < groups->first[group + 1]; i++)
        lull_cluster_state_set_free(copy, groups->nodes[i],
                                    lull_cluster_state_free(real, groups->nodes[i]));
}

void lull_cluster_copy_give(struct lull_cluster_state *copy,
                            const struct lull_cluster_share *shares, size_t count)
{
    const struct lull_cluster_node *nodes = lull_cluster_state_cluster(copy)->nodes;

    for (size_t i = 0; i < count; i++) {
        const uint32_t most = nodes[shares[i].node].gpus;
        uint32_t free = lull_cluster_state_free(copy, shares[i].node) + shares[i].gpus;

        if (free > most)
            free = most;
        lull_cluster_state_set_free(copy, shares[i].node, free);
    }
}

bool lull_cluster_shares_fit(const struct lull_cluster_state *state,
                             const struct lull_cluster_share *shares, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (shares[i].gpus > lull_cluster_state_free(state, shares[i].node))
            return false;
    return true;
}
