/* SPDX-License-Identifier: Apache-2.0 */
#include "core/serving/step_finder.h"

/* Sums before a gather that ends a step. Default: two in each of four layers, fewer than any served
 * model has. */
static const uint32_t least_sums = 8;
/* Gathers after so many sums that show that gathers end steps. Default: one may be chance. */
static const uint32_t least_proofs = 3;

void lull_step_finder_announce(struct lull_step_finder *finder, uint32_t communicator,
                               uint32_t ranks, int32_t own_rank)
{
    if (communicator >= LULL_STEP_FINDER_GROUPS)
        return;
    finder->first_in &= ~(UINT64_C(1) << communicator);
    if (own_rank == 0 && ranks > 1)
        finder->first_in |= UINT64_C(1) << communicator;
}

static bool step_finder_counts(const struct lull_step_finder *finder, uint32_t communicator)
{
    return communicator < LULL_STEP_FINDER_GROUPS && (finder->first_in >> communicator & 1) != 0;
}

bool lull_step_finder_is_sure(const struct lull_step_finder *finder)
{
    return finder->proofs >= least_proofs;
}

enum lull_step_edge lull_step_finder_take_sum(struct lull_step_finder *finder,
                                              uint32_t communicator)
{
    if (!step_finder_counts(finder, communicator))
        return LULL_STEP_NO_EDGE;
    return finder->sums++ == 0 && lull_step_finder_is_sure(finder) ? LULL_STEP_BEGINS
                                                                   : LULL_STEP_NO_EDGE;
}

enum lull_step_edge lull_step_finder_take_gather(struct lull_step_finder *finder,
                                                 uint32_t communicator)
{
    if (!step_finder_counts(finder, communicator))
        return LULL_STEP_NO_EDGE;
    if (finder->sums > 0 && finder->sums < least_sums)
        finder->proofs = 0;
    else if (finder->sums > 0 && finder->proofs < least_proofs)
        finder->proofs++;
    finder->sums = 0;
    return lull_step_finder_is_sure(finder) ? LULL_STEP_ENDS : LULL_STEP_NO_EDGE;
}
