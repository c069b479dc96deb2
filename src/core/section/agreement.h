/*
 * The agreement: the clock that the nodes of one job apply for a section, derived from their
 * proposals.
 *
 * Every node searches for itself and publishes a proposal: for each section the lowest clock
 * without a slowdown, the highest refused clock, and the iteration from which the former applies.
 * Proposals may be lost, repeated, or come in any order. The rules:
 *   - All nodes apply the highest clock that any of them keeps; a node that does not name the
 *     section keeps it at the reference. It holds from the latest iteration that any of them has
 *     named, so that nodes which count alike begin together.
 *   - No node applies a clock that a node has refused, or a lower one: a refusal is remembered,
 *     whatever the node says later.
 *   - While a node has not been heard yet, has been silent for too long, or sees another iteration,
 *     all apply the reference. A node that has left is no longer waited for; its last accepted
 * clock still counts. If a refusal is lost, the following proposals repeat it, or the node's
 * silence has the same effect.
 *
 * Clocks are MHz, so that nodes with different clock lists can agree. Pure; create/destroy; one
 * thread. Time is passed in: ns of the caller's monotonic clock, which other nodes do not share.
 *
 * Source: design.md section 4 (act on iteration numbers; fall back to the higher clock).
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_AGREEMENT_H
#define LULL_CORE_SECTION_AGREEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/section/arrival.h"

#define LULL_AGREEMENT_REFERENCE UINT32_MAX /* as a clock: not lowered, higher than any other */

enum {
    LULL_AGREEMENT_MAX_NODES = 64,
    LULL_PROPOSAL_MAX_ENTRIES = 16,
    LULL_AGREEMENT_MAX_REFUSALS = 256, /* sections; if there are more, nothing is lowered */
};

struct lull_proposal_entry {
    uint64_t signature;
    uint64_t from_iteration; /* kept_mhz applies from this iteration on */
    uint32_t kept_mhz;       /* found good by screens; LULL_AGREEMENT_REFERENCE: nothing lower is */
    uint32_t refused_mhz;    /* highest that degraded; 0: none has yet */
    uint32_t settled;        /* 1: the node's search has ended */
};

/* The complete state of a node. The latest proposal replaces earlier ones. */
struct lull_proposal {
    uint32_t node;              /* from 0 */
    uint32_t nodes;             /* of the job, as configured on this one */
    uint64_t incarnation;       /* of its governor; a later one is greater */
    uint64_t sequence;          /* within the incarnation, growing */
    uint64_t structure;         /* identifies its iteration; 0: not known yet */
    uint32_t window_iterations; /* length of the blocks in which it measures */
    uint32_t leaving;           /* 1: its part of the job has ended */
    uint32_t entry_count;       /* <= LULL_PROPOSAL_MAX_ENTRIES */
    struct lull_proposal_entry entries[LULL_PROPOSAL_MAX_ENTRIES];
    struct lull_arrival arrival; /* arrivals of its ranks; the agreement does not use them */
};

enum lull_agreement_state {
    LULL_AGREEMENT_WAITING,   /* for a node's first proposal, or until it knows its iteration */
    LULL_AGREEMENT_SILENT,    /* a node has not been heard for too long */
    LULL_AGREEMENT_DIFFERENT, /* nodes see different iterations, or were given different numbers */
    LULL_AGREEMENT_AGREED,
};

struct lull_agreement_clock {
    uint32_t mhz;
    uint64_t from_iteration;
    uint32_t refused_mhz; /* highest that any node has refused; 0: none has */
};

struct lull_agreement;

/* null: out of memory. self < nodes <= LULL_AGREEMENT_MAX_NODES. */
struct lull_agreement *lull_agreement_create(uint32_t self, uint32_t nodes, int64_t silence_ns);
void lull_agreement_destroy(struct lull_agreement *agreement);

/*
 * Takes a proposal, also the node's own. Returns false if it is old, repeated, or from no node of
 * this job. Its refusals count nevertheless if the node is one of the job's.
 */
bool lull_agreement_take(struct lull_agreement *agreement, const struct lull_proposal *proposal,
                         int64_t now_ns);

enum lull_agreement_state lull_agreement_state(const struct lull_agreement *agreement,
                                               int64_t now_ns);

/* The clock to apply for a section. O(nodes). */
struct lull_agreement_clock lull_agreement_clock(const struct lull_agreement *agreement,
                                                 uint64_t signature, int64_t now_ns);

/* The longest block that any node requests, so that all measure in the same iterations. */
uint32_t lull_agreement_window(const struct lull_agreement *agreement);

/* A number that all nodes know once they agree, and that differs from run to run. */
uint64_t lull_agreement_seed(const struct lull_agreement *agreement);

/* The number of nodes that have ever been heard, including this one. */
uint32_t lull_agreement_received(const struct lull_agreement *agreement);

/*
 * Returns whether the nodes fail to agree: no node has left, and they have not agreed once within
 * patience_ns after this node found its iteration.
 */
bool lull_agreement_is_hopeless(const struct lull_agreement *agreement, int64_t now_ns,
                                int64_t patience_ns);

/* The state in plain words, for reports. */
const char *lull_agreement_state_text(enum lull_agreement_state state);

#endif
