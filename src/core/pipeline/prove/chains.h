/*
 * Private to the proof: chains of operations as one. Where an operation is all that the next one on
 * its device waits for, and nobody else waits for it (the forward of the last stage and its
 * backward, say), only their time together matters. As one operation with the sums of their options
 * they are branched on at once; apart, each makes up for what the other is told.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_PROVE_CHAINS_H
#define LULL_CORE_PIPELINE_PROVE_CHAINS_H

#include "core/pipeline/plan.h"

/* Options of a chain of two: those of both. */
struct chain_pick {
    uint32_t head;
    uint32_t tail;
};

/* A problem with an operation for each chain. Zero-initialised can be ended, too. */
struct chains {
    struct lull_pipeline_problem problem; /* over the two below */
    struct lull_pipeline_profile profile; /* a class each */
    struct lull_pipeline_graph graph;
    const struct lull_pipeline_problem *asked;
    uint32_t *chain_of; /* of each operation asked */
    uint32_t *head;     /* of each chain, its first operation asked */
    uint32_t *tail;     /* the last, the second where it is another */
    size_t *first;      /* of a chain of two, its first option below */
    struct lull_pipeline_option *options;
    struct chain_pick *picks;
    size_t option_count;
    size_t option_room;
};

/* -ENOMEM. */
int lull_chains_init(struct chains *chains, const struct lull_pipeline_problem *asked);
void lull_chains_fini(struct chains *chains);

/* The plan asked that is this one of chains. option_out: a place for each operation asked. */
void lull_chains_plan(const struct chains *chains, const uint32_t *option, uint32_t *option_out);

#endif
