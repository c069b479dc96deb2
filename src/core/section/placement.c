/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/placement.h"

static bool track_placement_is_single(uint64_t gpus)
{
    return gpus != 0 && (gpus & (gpus - 1)) == 0;
}

static enum lull_placement place_on(uint64_t gpus, uint32_t *gpu_out)
{
    if (!track_placement_is_single(gpus))
        return LULL_PLACEMENT_SEVERAL;
    *gpu_out = (uint32_t)__builtin_ctzll(gpus);
    return LULL_PLACEMENT_ON;
}

enum lull_placement lull_placement_decide(const struct lull_placement_evidence *evidence,
                                          uint32_t *gpu_out)
{
    const uint64_t seen = evidence->contexts | evidence->listed;

    if (evidence->is_elsewhere)
        return LULL_PLACEMENT_ELSEWHERE;
    if (evidence->communicating != 0)
        return place_on(evidence->communicating, gpu_out);
    if (seen != 0)
        return place_on(seen, gpu_out);
    if (track_placement_is_single(evidence->visible) && (evidence->visible & evidence->blind) != 0)
        return place_on(evidence->visible, gpu_out);
    return LULL_PLACEMENT_UNSEEN;
}
