/*
 * An iteration of a data, tensor and pipeline parallel job as a task graph (job_graph.h), and what
 * it becomes as operating points of the job: one clock for all its GPUs, or the pipeline planner's
 * plans.
 *
 * A device is a stage's GPUs of one data parallel copy, which are alike; so are the copies, of
 * which the graph has one. Every micro-batch runs a stage's layers, forward or backward, and then
 * their collectives among the tensor parallel GPUs, which nothing hides. Activations and their
 * gradients travel to the next stage. In the last backward of a chunk the gradients leave in
 * buckets as they come, beside the rest of it; the optimizer waits for the last bucket.
 *
 * A transfer of M bytes takes a + b M; what collectives take is given. Every device has a link of
 * its own for tensor, for data parallelism, and to the next and the previous stage. Copies that
 * share their parameters (ZeRO: Rajbhandari et al., 2020) gather them piece by piece, a piece ahead
 * of computation.
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_MODEL_JOB_PARALLEL_H
#define LULL_CLUSTER_CORE_MODEL_JOB_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/core/model/job.h"
#include "cluster/core/model/job_graph.h"
#include "cluster/core/model/job_surface.h"
#include "core/pipeline/schedule/schedule.h"

struct lull_job_link {
    int64_t latency_ns; /* a >= 0 */
    double ns_per_byte; /* b >= 0 */
};

/* Kinds of work of a job that distinguishes them; else all is of kind 0. */
enum lull_job_parallel_work {
    LULL_JOB_FORWARD_WORK,
    LULL_JOB_BACKWARD_WORK,
    LULL_JOB_OPTIMIZER_WORK,
    LULL_JOB_PARALLEL_WORKS,
};

struct lull_job_parallel {
    uint32_t data;     /* copies, > 0 */
    uint32_t tensor;   /* GPUs of a device, > 0 */
    uint32_t pipeline; /* devices, > 0 */
    uint32_t microbatches;
    /* Of the pipeline; without overlaps (dualpipev). A stage of it is a chunk here. */
    struct lull_pipeline_schedule schedule;

    /* Of a chunk and a micro-batch, on one GPU at the highest clock. */
    int64_t forward_ns;      /* > 0 */
    int64_t backward_ns;     /* > 0; recomputation included */
    int64_t head_forward_ns; /* additional time of the last chunk, for its head; >= 0 */
    int64_t head_backward_ns;
    double stage_bytes; /* from chunk to chunk, over the stage_link */

    /* Collectives; >= 0. */
    int64_t forward_link_ns;  /* of a forward, among the GPUs of a device */
    int64_t backward_link_ns; /* of a backward, or of its part that computes the input's gradient */
    int64_t gradient_link_ns; /* of all gradients of one GPU, among the copies */

    uint32_t buckets;      /* of each chunk, > 0 */
    bool is_gradient_late; /* the buckets are sent after the device's last action, not as they
                              become ready */
    int64_t optimizer_ns;  /* >= 0; follows the clock */

    /* If each copy updates or stores only a part of the parameters: times among the copies. */
    int64_t
        parameter_link_ns; /* gathering the parameters of one GPU once, each before its first use */
    int64_t gather_link_ns; /* or gathering those of a chunk before each of its actions; and then */
    int64_t scatter_link_ns; /* reducing its gradients after each backward, instead of buckets */

    /* Times of the host, which are constant, >= 0. The next iteration's input is
       read and copied to the GPU during this one; the gap follows all optimizers. */
    int64_t input_ns;
    int64_t copy_ns;
    int64_t gap_ns;

    bool has_works; /* tasks are distinguished as lull_job_parallel_work */

    struct lull_job_link stage_link;
};

int64_t lull_job_transfer_ns(const struct lull_job_link *link, double bytes);
/* Around a ring: 2 (n - 1) a + 2 (n - 1) / n b M. */
int64_t lull_job_all_reduce_ns(const struct lull_job_link *link, double bytes, uint32_t ranks);

/* Return the time of an action of a chunk (forward, backward, input, weight or recompute) at the
 * highest clock: of its computation, and of its collectives among the tensor parallel GPUs. */
int64_t lull_job_parallel_compute_ns(const struct lull_job_parallel *parallel,
                                     enum lull_pipeline_kind kind, bool is_last_chunk);
int64_t lull_job_parallel_tensor_ns(const struct lull_job_parallel *parallel,
                                    enum lull_pipeline_kind kind);

/* Returns the time of the all-reduce of one bucket among the copies; 0: there is only one copy. */
int64_t lull_job_parallel_bucket_ns(const struct lull_job_parallel *parallel);

/*
 * The finished graph; its devices are resources 0 to pipeline - 1. graph_out: not initialised
 * before; written on success, then the caller's to fini. Errors: -EINVAL a number out of range,
 * an overlapped schedule; those of lull_pipeline_schedule_order and of job_graph.h.
 */
int lull_job_parallel_build(const struct lull_job_parallel *parallel,
                            struct lull_job_graph *graph_out, struct lull_error *err);

/* GPUs of the job. */
uint64_t lull_job_parallel_gpus(const struct lull_job_parallel *parallel);

/*
 * Candidates for operating_points.h: `iterations` (> 0) at every clock of the tempo (0: the
 * highest). points_out: clock_count places. Returns how many were written, those whose time is in
 * range, or -ENOMEM.
 */
int64_t lull_job_parallel_points(const struct lull_job_parallel *parallel,
                                 const struct lull_job_graph *graph,
                                 const struct lull_job_tempo *tempo, uint32_t clock_count,
                                 uint64_t iterations, uint32_t type,
                                 struct lull_cluster_point *points_out);

#endif
