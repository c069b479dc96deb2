/*
 * A pipeline-parallel job as a play: one rank per stage and replica, one compute operation for each
 * operation of a schedule's task graph, Send and Recv between stages, and at the end of each
 * iteration the gradients' all-reduce between replicas and the optimizer.
 *
 * A rank posts the Recv of its next operation when it begins the present one, as programs do that
 * overlap transfers with computation; a Send follows its operation. Either spins until the other
 * rank is there. The operations' lengths are those of a running job: what transfers beside them
 * cost is in them.
 *
 * Ranks stand in Megatron's order: rank = replica + replicas * stage. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAY_PIPELINE_H
#define LULL_CLI_PLAY_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "emulator/player/play.h"

struct lull_play_pipeline {
    const char *schedule; /* core/pipeline/schedule/schedule.h; of two stages per rank: interleaved
                           * with more than two ranks, whose messages never cross */
    int64_t stages;       /* >= 1 */
    int64_t microbatches; /* >= 1 */
    int64_t replicas;     /* >= 1 */
    double forward_ms;    /* their time on a stage at the highest clock, > 0 */
    double backward_ms;
    double weights[LULL_PLAY_RANKS]; /* for each stage, the factor by which both are longer, > 0 */
    double latency_ms;               /* of a transfer between stages, > 0 */
    double reduce_ms;                /* of the all-reduce between replicas, > 0 */
    double optimizer_ms;             /* 0: none */
    const char *forward_kernels;     /* the GPU model's profiles; borrowed permanently */
    const char *backward_kernels;
    struct lull_play_straggler straggler;
    bool announces; /* forward and backward as sections of liblull, on the GPU's time line */
};

/*
 * Builds and finishes the play. Errors: those of the schedule; -EINVAL more ranks than a play has;
 * -ENOSPC, -ENOMEM.
 */
int lull_play_pipeline_create(const struct lull_play_pipeline *pipeline,
                              struct lull_play **play_out, struct lull_error *err);

#endif
