/*
 * Private to fair_share*.c. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TESTS_SIMULATOR_FAIR_SHARE_STATE_H
#define LULL_CLUSTER_TESTS_SIMULATOR_FAIR_SHARE_STATE_H

#include <stdbool.h>

#include "fair_share.h"

/* One flow on a link. */
struct lull_share_entry {
    uint32_t flow;
    uint32_t use; /* of the flow's */
};

struct lull_share_link_state {
    struct lull_share_link is;
    struct lull_share_entry *entries;
    uint32_t count;
    uint32_t room;
    double weights; /* of all entries, as of the last update */
    bool is_marked; /* of what is found again */
    double left_mb_s;
    double open_weights; /* of flows whose rate is not found yet */
};

struct lull_share_use_state {
    struct lull_share_use is;
    uint32_t at; /* among the link's entries */
};

struct lull_share_flow {
    struct lull_share_use_state *uses; /* NULL: no flow has this number */
    uint32_t next_free;
    uint32_t use_count;
    double most_mb_s;
    double rate_mb_s;
    bool is_marked;
    bool is_found;
};

struct lull_share {
    enum lull_share_rule rule;
    struct lull_share_link_state *links;
    uint32_t link_count;
    struct lull_share_flow *flows;
    uint32_t flow_room;
    uint32_t first_free;    /* flow_room: none */
    uint32_t *marked_links; /* link_count */
    uint32_t marked_link_count;
    uint32_t *marked_flows; /* flow_room */
    uint32_t marked_flow_count;
    bool is_new; /* the marked ones have changed; otherwise they were reported already */
};

/* Before anything is marked: discards reported rates. */
void lull_share_begin_marks(struct lull_share *share);

/* Flows on this link are to be found again. */
void lull_share_mark_link(struct lull_share *share, uint32_t number);

#endif
