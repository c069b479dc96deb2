/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/nodes.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "core/stats/random.h"

/* Interval at which a governor reads messages (governor/run/run_watch.c). */
static const int64_t tick_ns = 50 * LULL_NS_PER_MS;

enum { MAX_WORDS = 1024 }; /* under way at once; any more are lost */

struct virtual_word {
    int64_t arrives_ns;
    uint32_t to;
    struct lull_proposal proposal;
};

struct lull_virtual_nodes {
    struct lull_job_node_view views[LULL_AGREEMENT_MAX_NODES];
    struct lull_job_node *nodes[LULL_AGREEMENT_MAX_NODES];
    uint32_t node_count;
    int64_t way_ns;
    uint32_t lost_every;
    struct lull_random random;
    int64_t next_ns;
    uint32_t word_count;
    struct virtual_word words[MAX_WORDS];
};

struct lull_virtual_nodes *lull_virtual_nodes_create(const struct lull_job_node_view *views,
                                                     uint32_t node_count, int64_t way_ns,
                                                     uint32_t lost_every, uint64_t seed)
{
    struct lull_virtual_nodes *nodes = calloc(1, sizeof(*nodes));

    assert(node_count >= 2 && node_count <= LULL_AGREEMENT_MAX_NODES);
    if (nodes == NULL)
        return NULL;
    nodes->node_count = node_count;
    nodes->way_ns = way_ns;
    nodes->lost_every = lost_every;
    lull_random_init(&nodes->random, seed);
    for (uint32_t i = 0; i < node_count; i++) {
        nodes->views[i] = views[i];
        nodes->nodes[i] = lull_job_node_create(i, node_count, 1);
        if (nodes->nodes[i] == NULL) {
            lull_virtual_nodes_destroy(nodes);
            return NULL;
        }
    }
    return nodes;
}

void lull_virtual_nodes_destroy(struct lull_virtual_nodes *nodes)
{
    if (nodes == NULL)
        return;
    for (uint32_t i = 0; i < nodes->node_count; i++)
        lull_job_node_destroy(nodes->nodes[i]);
    free(nodes);
}

static void virtual_nodes_send(struct lull_virtual_nodes *nodes, uint32_t to,
                               const struct lull_proposal *proposal, int64_t now_ns)
{
    const int64_t way_ns =
        (int64_t)(lull_random_uniform(&nodes->random) * 2.0 * (double)nodes->way_ns);

    if (nodes->word_count == MAX_WORDS ||
        (nodes->lost_every > 0 && lull_random_below(&nodes->random, nodes->lost_every) == 0))
        return;
    nodes->words[nodes->word_count++] =
        (struct virtual_word){.arrives_ns = now_ns + way_ns, .to = to, .proposal = *proposal};
}

/* Takes what has arrived at a node, in no order. */
static void virtual_nodes_receive(struct lull_virtual_nodes *nodes, uint32_t index, int64_t now_ns)
{
    for (uint32_t i = 0; i < nodes->word_count;) {
        const struct virtual_word *word = &nodes->words[i];

        if (word->to != index || word->arrives_ns > now_ns) {
            i++;
            continue;
        }
        lull_job_node_take(nodes->nodes[index], nodes->views[index].controller, &word->proposal,
                           now_ns);
        nodes->words[i] = nodes->words[--nodes->word_count];
    }
}

static void virtual_nodes_tick(struct lull_virtual_nodes *nodes, uint32_t index, int64_t now_ns)
{
    const struct lull_job_node_view *view = &nodes->views[index];
    struct lull_job_node *node = nodes->nodes[index];
    struct lull_proposal proposal;

    if (lull_job_node_send(node, view, now_ns, &proposal))
        for (uint32_t i = 0; i < nodes->node_count; i++)
            if (i != index)
                virtual_nodes_send(nodes, i, &proposal, now_ns);
    virtual_nodes_receive(nodes, index, now_ns);
    lull_controller_hold(view->controller,
                         lull_job_node_state(node, now_ns) != LULL_AGREEMENT_AGREED);
    lull_job_node_apply(node, view, now_ns);
}

int64_t lull_virtual_nodes_advance(struct lull_virtual_nodes *nodes, int64_t now_ns)
{
    if (now_ns < nodes->next_ns)
        return nodes->next_ns;
    for (uint32_t i = 0; i < nodes->node_count; i++)
        virtual_nodes_tick(nodes, i, now_ns);
    nodes->next_ns = now_ns + tick_ns;
    return nodes->next_ns;
}
