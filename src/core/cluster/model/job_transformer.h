/*
 * What an iteration of a GPT-like transformer computes and sends (Narayanan et al., SC'21,
 * appendix; Korthikanti et al., MLSys'23, section 3), as the sizes of a parallel job
 * (job_parallel.h): for jobs of which nobody has measured more.
 *
 * A layer's forward of B sequences of s tokens and width h takes 24 B s h^2 + 4 B s^2 h operations,
 * a backward twice as many, and what is computed again: the attention's core or the whole forward.
 * Matrix products reach peak * limit * w / (w + half) on a share w = h / tensor of the width: two
 * constants of a type of GPU.
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_MODEL_JOB_TRANSFORMER_H
#define LULL_CORE_CLUSTER_MODEL_JOB_TRANSFORMER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/cluster/model/job_parallel.h"

struct lull_job_transformer {
    uint32_t layers;
    uint32_t hidden;
    uint32_t sequence; /* tokens */
    uint32_t vocabulary;
    uint32_t micro_batch;   /* sequences */
    bool is_all_recomputed; /* else the attention's core only */
    /* Its activations are split between layers too: one all-gather more for every layer half in
       the backward (half an all-reduce). Not with is_all_recomputed. */
    bool is_sequence_parallel;
};

/* Of one GPU, for matrix products. */
struct lull_job_matrix {
    double peak_flops;  /* > 0 */
    double limit_ratio; /* of the peak, for ever wider products; 0..1 */
    double half_width;  /* at which half of that is reached; >= 0 */
};

/* A100, bf16: fitted to the eight steps of Korthikanti et al., table 5, largest error 2.1 %. */
extern const struct lull_job_matrix lull_job_matrix_a100;
/* H100, fp8: fitted to GPT-3 175B on 512 GPUs in MLPerf v4.1, with the A100's half_width. Steps of
 * thousands of GPUs come out a fifth to a quarter too short. */
extern const struct lull_job_matrix lull_job_matrix_h100_fp8;

/*
 * Fills in times, calls and bytes. Taken as they are: data, tensor, pipeline, microbatches,
 * schedule, buckets, optimizer_ns and the links of parallel. Activations and gradients take two
 * bytes each.
 */
void lull_job_transformer_fill(const struct lull_job_transformer *model,
                               const struct lull_job_matrix *matrix,
                               struct lull_job_parallel *parallel);

#endif
