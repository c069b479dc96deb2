/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fair_share_state.h"

/* The throughput of a link with flows of this sum of weights. */
static double capacity_mb_s(const struct lull_share_link *link, double flows)
{
    if (flows <= 1.0)
        return link->capacity_mb_s;
    return flows / (flows / link->capacity_mb_s + (flows - 1.0) * link->penalty_s_per_mb);
}

/* ---- rates to be recomputed ---------------------------------------------------------------- */

static void mark_flow(struct lull_share *share, uint32_t number)
{
    if (share->flows[number].is_marked)
        return;
    share->flows[number].is_marked = true;
    share->marked_flows[share->marked_flow_count++] = number;
}

static void mark_flows_of(struct lull_share *share, const struct lull_share_link_state *link)
{
    for (uint32_t i = 0; i < link->count; i++)
        mark_flow(share, link->entries[i].flow);
}

/* From the links that flows came to or left: all that they are joined to by a chain. */
static void mark_joined(struct lull_share *share)
{
    uint32_t flows_seen = 0;

    for (uint32_t i = 0; i < share->marked_link_count; i++) {
        mark_flows_of(share, &share->links[share->marked_links[i]]);
        if (share->rule != LULL_SHARE_MAX_MIN)
            continue;
        for (; flows_seen < share->marked_flow_count; flows_seen++) {
            const struct lull_share_flow *flow = &share->flows[share->marked_flows[flows_seen]];

            for (uint32_t k = 0; k < flow->use_count; k++)
                lull_share_mark_link(share, flow->uses[k].is.link);
        }
    }
}

/* ---- rates -------------------------------------------------------------------------------- */

static void share_equally(struct lull_share *share)
{
    for (uint32_t i = 0; i < share->marked_flow_count; i++) {
        struct lull_share_flow *const flow = &share->flows[share->marked_flows[i]];

        flow->rate_mb_s = flow->most_mb_s;
        for (uint32_t k = 0; k < flow->use_count; k++) {
            const struct lull_share_link_state *link = &share->links[flow->uses[k].is.link];

            flow->rate_mb_s =
                fmin(flow->rate_mb_s, capacity_mb_s(&link->is, link->weights) / link->weights);
        }
    }
}

static void settle(struct lull_share *share, struct lull_share_flow *flow, double rate_mb_s)
{
    flow->rate_mb_s = rate_mb_s;
    flow->is_found = true;
    for (uint32_t k = 0; k < flow->use_count; k++) {
        struct lull_share_link_state *const link = &share->links[flow->uses[k].is.link];

        link->left_mb_s -= rate_mb_s * flow->uses[k].is.weight;
        link->open_weights -= flow->uses[k].is.weight;
    }
}

/* The rate at which the first link fills up, and which; UINT32_MAX: none has an open flow. */
static uint32_t find_first_full(const struct lull_share *share, double *rate_out)
{
    uint32_t first = UINT32_MAX;

    for (uint32_t i = 0; i < share->marked_link_count; i++) {
        const struct lull_share_link_state *link = &share->links[share->marked_links[i]];
        const double rate_mb_s = fmax(link->left_mb_s, 0.0) / link->open_weights;

        /* A remainder of weights by rounding is not a flow. */
        if (link->open_weights <= 1e-9 * link->weights ||
            (first != UINT32_MAX && rate_mb_s >= *rate_out))
            continue;
        first = share->marked_links[i];
        *rate_out = rate_mb_s;
    }
    return first;
}

/* Flows that would not use the rate that is now available to them. Whether there were any. */
static bool settle_modest(struct lull_share *share, double rate_mb_s)
{
    bool found = false;

    for (uint32_t i = 0; i < share->marked_flow_count; i++) {
        struct lull_share_flow *const flow = &share->flows[share->marked_flows[i]];

        if (flow->is_found || flow->most_mb_s > rate_mb_s)
            continue;
        settle(share, flow, flow->most_mb_s);
        found = true;
    }
    return found;
}

/* Progressive filling: all rates rise together until a link is full, whose flows stay behind. */
static void fill(struct lull_share *share)
{
    double rate_mb_s = 0.0;
    double level_mb_s = 0.0;
    uint32_t full;

    for (uint32_t i = 0; i < share->marked_link_count; i++) {
        struct lull_share_link_state *const link = &share->links[share->marked_links[i]];

        link->left_mb_s = capacity_mb_s(&link->is, link->weights);
        link->open_weights = link->weights;
    }
    for (uint32_t i = 0; i < share->marked_flow_count; i++)
        share->flows[share->marked_flows[i]].is_found = false;
    while ((full = find_first_full(share, &rate_mb_s)) != UINT32_MAX) {
        const struct lull_share_link_state *link = &share->links[full];

        rate_mb_s = fmax(rate_mb_s, level_mb_s); /* rounding */
        if (settle_modest(share, rate_mb_s))
            continue;
        level_mb_s = rate_mb_s;
        for (uint32_t i = 0; i < link->count; i++)
            if (!share->flows[link->entries[i].flow].is_found)
                settle(share, &share->flows[link->entries[i].flow], rate_mb_s);
        share->links[full].open_weights = 0.0;
    }
}

/* Of the links that flows came to or left; summed again, so that rounding does not add up. */
static void sum_weights(struct lull_share *share)
{
    for (uint32_t i = 0; i < share->marked_link_count; i++) {
        struct lull_share_link_state *const link = &share->links[share->marked_links[i]];

        link->weights = 0.0;
        for (uint32_t k = 0; k < link->count; k++) {
            const struct lull_share_entry *entry = &link->entries[k];

            link->weights += share->flows[entry->flow].uses[entry->use].is.weight;
        }
    }
}

uint32_t lull_share_update(struct lull_share *share, const uint32_t **flows_out)
{
    if (!share->is_new) {
        lull_share_begin_marks(share);
    } else {
        sum_weights(share);
        mark_joined(share);
        if (share->rule == LULL_SHARE_MAX_MIN)
            fill(share);
        else
            share_equally(share);
    }
    share->is_new = false;
    *flows_out = share->marked_flows;
    return share->marked_flow_count;
}

double lull_share_rate_mb_s(const struct lull_share *share, uint32_t flow)
{
    return share->flows[flow].rate_mb_s;
}
