/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/model/job_transformer.h"

#include <math.h>

const struct lull_job_matrix lull_job_matrix_a100 = {312e12, 0.82, 440.0};
const struct lull_job_matrix lull_job_matrix_h100_fp8 = {1979e12, 0.74, 440.0};

enum { BYTES = 2 }; /* of an activation or a gradient */

static int64_t to_ns(double seconds)
{
    return llround(fmin(fmax(seconds * 1e9, 1.0), 2.0 * (double)LULL_JOB_MOST_TASK_NS));
}

void lull_job_transformer_fill(const struct lull_job_transformer *model,
                               const struct lull_job_matrix *matrix,
                               struct lull_job_parallel *parallel)
{
    const double tokens = (double)model->micro_batch * model->sequence;
    const double hidden = model->hidden;
    const double width = hidden / parallel->tensor;
    const double flops =
        matrix->peak_flops * matrix->limit_ratio * width / (width + matrix->half_width);
    const double speed = flops * parallel->tensor;
    const double layers = (double)model->layers / parallel->pipeline / parallel->schedule.chunks;
    const double core = 4.0 * tokens * model->sequence * hidden;
    const double forward = 24.0 * tokens * hidden * hidden + core;
    const double again = model->is_all_recomputed ? forward : core;
    const double head = 2.0 * tokens * hidden * model->vocabulary;
    const double gradients = 12.0 * model->layers * hidden * hidden;
    double backward_calls = 2.0;

    if (model->is_all_recomputed)
        backward_calls = 4.0;
    else if (model->is_sequence_parallel)
        backward_calls = 3.0;
    parallel->forward_ns = to_ns(layers * forward / speed);
    parallel->backward_ns = to_ns(layers * (2.0 * forward + again) / speed);
    parallel->head_forward_ns = to_ns(head / speed);
    parallel->head_backward_ns = to_ns(2.0 * head / speed);
    parallel->forward_calls = (uint32_t)lround(2.0 * layers);
    parallel->backward_calls = (uint32_t)lround(backward_calls * layers);
    parallel->call_bytes = BYTES * tokens * hidden;
    parallel->stage_bytes = BYTES * tokens * hidden / parallel->tensor;
    parallel->gradient_bytes = BYTES * gradients / parallel->tensor / parallel->pipeline;
}
