/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>

#include "cluster/core/training/training.h"

/* ---- the software's share ------------------------------------------------------------------- */

static const struct lull_job_tempo highest = {
    .compute_ratio = 1.0,
    .compute_w = 1.0,
    .transfer_ratio = 1.0,
};

/* log(step / step_s) at a ratio. */
static int miss_at(const struct lull_training_setup *job, const struct lull_training_gpu *gpu,
                   double step_s, double log_ratio, double *miss_out, struct lull_error *err)
{
    const struct lull_job_tempo tempo[LULL_JOB_PARALLEL_WORKS] = {highest, highest, highest};
    struct lull_training_setup tried = *job;
    struct lull_training_step step;
    struct lull_job_iteration once;
    struct lull_job_graph graph;
    int rc;

    tried.matrix_ratio = exp(log_ratio);
    rc = lull_training_compose(&tried, gpu, &step, err);
    if (rc == 0)
        rc = lull_job_parallel_build(&step.parallel, &graph, err);
    if (rc < 0)
        return rc;
    rc = lull_job_iterate(&graph, step.parallel.pipeline, 1, tempo, &once);
    lull_job_graph_fini(&graph);
    if (rc < 0)
        return lull_error_set(err, rc, "no memory for a step");
    *miss_out = log((double)once.time_ns * 1e-9 / step_s);
    return 0;
}

/* The step grows shorter with the ratio: false position on both logarithms, where an end that
 * stays counts half (the Illinois rule: Dowell and Jarratt, 1971). */
int lull_training_fit(const struct lull_training_setup *job, const struct lull_training_gpu *gpu,
                      double step_s, double *matrix_ratio_out, struct lull_error *err)
{
    double low = log(0.01), high = log(1.5);
    double low_miss, high_miss, miss = 1.0, at = low;
    int rc = miss_at(job, gpu, step_s, low, &low_miss, err);

    if (rc == 0)
        rc = miss_at(job, gpu, step_s, high, &high_miss, err);
    if (rc < 0)
        return rc;
    if (low_miss < 0.0 || high_miss > 0.0)
        return lull_error_set(err, -ERANGE,
                              "no share of the peak between 1 and 150 %% makes the step take %g s",
                              step_s);
    for (int i = 0; i < 60 && fabs(miss) > 1e-4 && high - low > 1e-7; i++) {
        at = (low * high_miss - high * low_miss) / (high_miss - low_miss);
        rc = miss_at(job, gpu, step_s, at, &miss, err);
        if (rc < 0)
            return rc;
        if (miss > 0.0) {
            low = at;
            low_miss = miss;
            high_miss /= 2.0;
        } else {
            high = at;
            high_miss = miss;
            low_miss /= 2.0;
        }
    }
    *matrix_ratio_out = exp(at);
    return 0;
}
