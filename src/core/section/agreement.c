/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/agreement.h"

#include <assert.h>
#include <stdlib.h>

struct agreement_node {
    bool received;
    int64_t received_ns;
    struct lull_proposal proposal; /* the latest */
};

struct refusal {
    uint64_t signature;
    uint32_t mhz;
};

struct lull_agreement {
    uint32_t self;
    uint32_t node_count;
    int64_t silence_ns;
    struct agreement_node nodes[LULL_AGREEMENT_MAX_NODES];
    uint32_t refusal_count;
    bool refusals_lost; /* there were more than can be remembered */
    bool is_known;      /* this node's iteration is known */
    bool has_agreed;    /* all nodes, once */
    int64_t known_ns;   /* since when */
    struct refusal refusals[LULL_AGREEMENT_MAX_REFUSALS];
};

struct lull_agreement *lull_agreement_create(uint32_t self, uint32_t nodes, int64_t silence_ns)
{
    struct lull_agreement *agreement = calloc(1, sizeof(*agreement));

    assert(self < nodes && nodes <= LULL_AGREEMENT_MAX_NODES);
    if (agreement == NULL)
        return NULL;
    agreement->self = self;
    agreement->node_count = nodes;
    agreement->silence_ns = silence_ns;
    return agreement;
}

void lull_agreement_destroy(struct lull_agreement *agreement)
{
    free(agreement);
}

static uint32_t find_refusal(const struct lull_agreement *agreement, uint64_t signature)
{
    uint32_t i = 0;

    while (i < agreement->refusal_count && agreement->refusals[i].signature != signature)
        i++;
    return i;
}

static void remember_refusal(struct lull_agreement *agreement,
                             const struct lull_proposal_entry *entry)
{
    const uint32_t i = find_refusal(agreement, entry->signature);

    if (entry->refused_mhz == 0)
        return;
    if (i == LULL_AGREEMENT_MAX_REFUSALS) {
        agreement->refusals_lost = true;
        return;
    }
    if (i == agreement->refusal_count)
        agreement->refusals[agreement->refusal_count++] =
            (struct refusal){.signature = entry->signature};
    if (entry->refused_mhz > agreement->refusals[i].mhz)
        agreement->refusals[i].mhz = entry->refused_mhz;
}

/* Incarnations are times of a wall clock, which may have jumped back when a governor starts again:
 * then the one before is silent. */
static bool is_newer(const struct lull_agreement *agreement, const struct lull_proposal *proposal,
                     const struct agreement_node *than, int64_t now_ns)
{
    if (!than->received)
        return true;
    if (proposal->incarnation != than->proposal.incarnation)
        return proposal->incarnation > than->proposal.incarnation ||
               now_ns - than->received_ns > agreement->silence_ns;
    return proposal->sequence > than->proposal.sequence;
}

/* Notes what hope there is, by what is known now. */
static void note_course(struct lull_agreement *agreement, int64_t now_ns)
{
    bool has_left = false;

    if (!agreement->is_known && agreement->nodes[agreement->self].proposal.structure != 0) {
        agreement->is_known = true;
        agreement->known_ns = now_ns;
    }
    for (uint32_t i = 0; i < agreement->node_count; i++)
        has_left |= agreement->nodes[i].proposal.leaving != 0;
    if (!has_left && lull_agreement_state(agreement, now_ns) == LULL_AGREEMENT_AGREED)
        agreement->has_agreed = true;
}

bool lull_agreement_take(struct lull_agreement *agreement, const struct lull_proposal *proposal,
                         int64_t now_ns)
{
    struct agreement_node *node;

    if (proposal->node >= agreement->node_count ||
        proposal->entry_count > LULL_PROPOSAL_MAX_ENTRIES)
        return false;
    for (uint32_t i = 0; i < proposal->entry_count; i++)
        remember_refusal(agreement, &proposal->entries[i]);
    node = &agreement->nodes[proposal->node];
    if (!is_newer(agreement, proposal, node, now_ns))
        return false;
    *node = (struct agreement_node){.received = true, .received_ns = now_ns, .proposal = *proposal};
    note_course(agreement, now_ns);
    return true;
}

/* ---- what follows ------------------------------------------------------------------------ */

static bool agreement_is_silent(const struct lull_agreement *agreement, uint32_t index,
                                int64_t now_ns)
{
    const struct agreement_node *node = &agreement->nodes[index];

    return index != agreement->self && node->proposal.leaving == 0 &&
           now_ns - node->received_ns > agreement->silence_ns;
}

enum lull_agreement_state lull_agreement_state(const struct lull_agreement *agreement,
                                               int64_t now_ns)
{
    const uint64_t structure = agreement->nodes[agreement->self].proposal.structure;
    enum lull_agreement_state state = LULL_AGREEMENT_AGREED;

    for (uint32_t i = 0; i < agreement->node_count; i++) {
        const struct agreement_node *node = &agreement->nodes[i];

        if (!node->received || (node->proposal.structure == 0 && node->proposal.leaving == 0)) {
            state = LULL_AGREEMENT_WAITING;
            continue;
        }
        if (agreement_is_silent(agreement, i, now_ns))
            return LULL_AGREEMENT_SILENT;
        if (node->proposal.nodes != agreement->node_count ||
            (node->proposal.leaving == 0 && structure != 0 &&
             node->proposal.structure != structure))
            return LULL_AGREEMENT_DIFFERENT;
    }
    return state;
}

static const struct lull_proposal_entry *find_entry(const struct lull_proposal *proposal,
                                                    uint64_t signature)
{
    for (uint32_t i = 0; i < proposal->entry_count; i++)
        if (proposal->entries[i].signature == signature)
            return &proposal->entries[i];
    return NULL;
}

/* The highest clock kept by any node, from the latest iteration. */
static struct lull_agreement_clock highest_kept(const struct lull_agreement *agreement,
                                                uint64_t signature)
{
    struct lull_agreement_clock clock = {0};

    for (uint32_t i = 0; i < agreement->node_count; i++) {
        const struct lull_proposal_entry *entry =
            find_entry(&agreement->nodes[i].proposal, signature);

        if (entry == NULL) {
            clock.mhz = LULL_AGREEMENT_REFERENCE;
            continue;
        }
        if (entry->kept_mhz > clock.mhz)
            clock.mhz = entry->kept_mhz;
        if (entry->from_iteration > clock.from_iteration)
            clock.from_iteration = entry->from_iteration;
    }
    return clock;
}

struct lull_agreement_clock lull_agreement_clock(const struct lull_agreement *agreement,
                                                 uint64_t signature, int64_t now_ns)
{
    const uint32_t refusal = find_refusal(agreement, signature);
    struct lull_agreement_clock clock = highest_kept(agreement, signature);

    if (refusal < agreement->refusal_count)
        clock.refused_mhz = agreement->refusals[refusal].mhz;
    if (clock.mhz <= clock.refused_mhz || agreement->refusals_lost ||
        lull_agreement_state(agreement, now_ns) != LULL_AGREEMENT_AGREED)
        clock.mhz = LULL_AGREEMENT_REFERENCE;
    return clock;
}

uint32_t lull_agreement_window(const struct lull_agreement *agreement)
{
    uint32_t longest = 0;

    for (uint32_t i = 0; i < agreement->node_count; i++)
        if (agreement->nodes[i].proposal.window_iterations > longest)
            longest = agreement->nodes[i].proposal.window_iterations;
    return longest;
}

uint64_t lull_agreement_seed(const struct lull_agreement *agreement)
{
    return agreement->nodes[0].proposal.incarnation;
}

uint32_t lull_agreement_received(const struct lull_agreement *agreement)
{
    uint32_t received = 0;

    for (uint32_t i = 0; i < agreement->node_count; i++)
        received += agreement->nodes[i].received;
    return received;
}

bool lull_agreement_is_hopeless(const struct lull_agreement *agreement, int64_t now_ns,
                                int64_t patience_ns)
{
    return agreement->is_known && !agreement->has_agreed &&
           now_ns - agreement->known_ns > patience_ns;
}

const char *lull_agreement_state_text(enum lull_agreement_state state)
{
    switch (state) {
    case LULL_AGREEMENT_WAITING:
        return "waiting for a node";
    case LULL_AGREEMENT_SILENT:
        return "a node is silent";
    case LULL_AGREEMENT_DIFFERENT:
        return "nodes see different iterations";
    case LULL_AGREEMENT_AGREED:
        return "agreed";
    }
    return "unknown";
}
