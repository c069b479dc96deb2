/*
 * Declarations shared by the parts of the slack: slack.c compares the ranks of this node with each
 * other, slack_nodes.c with what other nodes report, and slack_points.c lowers and raises. Private
 * to them. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_SLACK_STATE_H
#define LULL_CORE_SECTION_SLACK_STATE_H

#include "core/section/slack.h"

static inline uint64_t lull_slack_bit(uint32_t gpu)
{
    return UINT64_C(1) << gpu;
}

/* For so many iterations a GPU that came last is not lowered, at first. */
enum { LULL_SLACK_FIRST_HOLD = 8 };

/* Returns whether a wait for the GPU, and all of an iteration together, are longer than jitter
 * explains, so that what the GPU had waited for is gone. */
bool lull_slack_is_waited_for(const struct lull_slack_gpu *gpu, double now_ms, double all_ms);

/* The GPU waits no more: it goes to the common point, and is not lowered again for a while. */
void lull_slack_raise_at_once(struct lull_slack_gpu *gpu);

/* The GPU has come last, so that others may have waited for it: it goes up by a point, by two if
 * that was not enough, and so on. */
void lull_slack_raise(struct lull_slack_gpu *gpu);

/* The GPU has waited in an iteration, at its present points. If that makes enough of them, it is
 * lowered by what fills the waits, which are either its own or those of the job. */
void lull_slack_note_wait(struct lull_slack *slack, struct lull_slack_gpu *gpu,
                          struct lull_slack_waits *waits, double longest_ms, double all_ms);

/* The GPU's rank has been in a collective for so long, which ends now. */
void lull_slack_collective_time(struct lull_slack *slack, uint32_t gpu,
                                const struct lull_slack_kind *kind, double length_ms);

/* All ranks of this node have left a collective, in which this GPU's was the last one to come. */
void lull_slack_note_last(struct lull_slack *slack, uint32_t last,
                          const struct lull_slack_kind *kind,
                          const struct lull_slack_collective *collective);

/* The GPU's iteration has ended: it is stored until other nodes have reported it. The GPU is raised
 * at once where they have reported nothing for too long. */
void lull_slack_end_collective(struct lull_slack *slack, uint32_t gpu, uint64_t iteration);

#endif
