/*
 * Finds the steps of a tensor-parallel engine in what one of its processes communicates.
 *
 * A step sums in each layer (all-reduce), and gathers the logits at its end. Engines may sum small
 * batches by kernels of their own, so a step may also show its gather alone. A gather after a few
 * sums belongs to a layer: then gathers show no steps, and none are reported. All ranks of a group
 * communicate the same, so only its first rank counts.
 *
 * Pure; caller's storage; zero-initialised is new; one thread at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SERVING_STEP_FINDER_H
#define LULL_CORE_SERVING_STEP_FINDER_H

#include <stdbool.h>
#include <stdint.h>

enum { LULL_STEP_FINDER_GROUPS = 64 };

struct lull_step_finder {
    uint64_t first_in; /* bits: communicators of which the process is the first of several ranks */
    uint32_t sums;     /* since the last gather */
    uint32_t proofs;   /* gathers that ended a step */
};

enum lull_step_edge {
    LULL_STEP_NO_EDGE,
    LULL_STEP_BEGINS, /* its first sum */
    LULL_STEP_ENDS,
};

/* The process has a communicator of this number, of so many ranks, and this rank in it. Numbers
 * from LULL_STEP_FINDER_GROUPS on are ignored. */
void lull_step_finder_announce(struct lull_step_finder *finder, uint32_t communicator,
                               uint32_t ranks, int32_t own_rank);

/* Take an all-reduce, and a gather of any kind. */
enum lull_step_edge lull_step_finder_take_sum(struct lull_step_finder *finder,
                                              uint32_t communicator);
enum lull_step_edge lull_step_finder_take_gather(struct lull_step_finder *finder,
                                                 uint32_t communicator);

/* Returns whether gathers show steps. */
bool lull_step_finder_is_sure(const struct lull_step_finder *finder);

#endif
