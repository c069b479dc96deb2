/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/simulator/job_pipelines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/core/model/job_pipeline.h"
#include "cluster/core/model/job_parallel.h"

enum { PLANS = 12, PLANNED_CLOCKS = 40 };

/* Types of GPU with published large jobs, with their precision and software. */
static const struct trained_type {
    const char *begin; /* of the type's name */
    const char *gpu;
    const char *software;
    enum lull_training_precision precision;
} trained_types[] = {
    {"A100", "A100-SXM4-80GB", "megatron-2022", LULL_TRAINING_BF16},
    {"H100", "H100-SXM5", "nemo-v4.1", LULL_TRAINING_FP8},
};

/* NULL: none was. */
static const struct trained_type *trained_as(const struct lull_job_type *type)
{
    for (size_t i = 0; i < sizeof(trained_types) / sizeof(trained_types[0]); i++)
        if (strncmp(type->name, trained_types[i].begin, strlen(trained_types[i].begin)) == 0)
            return &trained_types[i];
    return NULL;
}

bool lull_job_pipelined_is_possible(const struct lull_job_type *type, uint32_t gpus)
{
    return type->model != NULL && trained_as(type) != NULL && gpus >= LULL_JOB_PIPELINE_MIN_GPUS &&
           gpus % LULL_JOB_PIPELINE_TENSOR == 0;
}

/* The most stages that the GPUs fill without a rest. */
static uint32_t count_stages(uint32_t gpus)
{
    const uint32_t devices = gpus / LULL_JOB_PIPELINE_TENSOR;
    uint32_t stages = LULL_JOB_PIPELINE_STAGES;

    while (devices % stages != 0)
        stages--;
    return stages;
}

static int job_pipelines_lay_out(const struct lull_job_type *type, enum lull_job_network network,
                                 const struct lull_job_pipelined *pipelined,
                                 struct lull_job_parallel *parallel, struct lull_error *err)
{
    const struct lull_job_links links = lull_job_type_links(type, network);
    const struct trained_type *trained = trained_as(type);
    struct lull_training_gpu gpu = *lull_training_gpu_find(trained->gpu);
    const struct lull_training_setup job = {
        .model = {.layers = 12 * pipelined->stages,
                  .hidden = 12288,
                  .heads = 96,
                  .kv_heads = 96,
                  .feed_forward = 4 * 12288,
                  .vocabulary = 51200,
                  .sequence = 2048,
                  .is_causal = true},
        .precision = trained->precision,
        .matrix_ratio = lull_training_software_find(trained->software)->matrix_ratio,
        .gpus = pipelined->gpus,
        .tensor = LULL_JOB_PIPELINE_TENSOR,
        .context = 1,
        .pipeline = pipelined->stages,
        .chunks = 1,
        .batch = 4 * pipelined->stages * pipelined->data,
        .micro_batch = 1,
        .recompute = LULL_TRAINING_SELECTIVE,
        .is_sequence_parallel = true,
        .is_gradient_late = true,
    };
    struct lull_training_step step;
    int rc;

    gpu.inside = links.inside;
    gpu.between = links.between;
    rc = lull_training_compose(&job, &gpu, &step, err);
    if (rc < 0)
        return rc;
    *parallel = step.parallel;
    parallel->buckets = 1;
    parallel->has_works = false; /* the planner has one kind */
    return 0;
}

/* Every so many of the clocks above 45 % of the highest, below which nothing is won. Returns how
 * many. */
static uint32_t job_pipelines_thin(const struct lull_job_tempo *tempo, uint32_t count,
                                   struct lull_job_tempo *thin)
{
    uint32_t usable = 0;
    uint32_t kept = 0;

    while (usable < count && tempo[usable].sm_mhz >= 0.45 * tempo[0].sm_mhz)
        usable++;
    for (uint32_t i = 0; i < usable; i += 1 + (usable - 1) / PLANNED_CLOCKS)
        thin[kept++] = tempo[i];
    return kept;
}

/* Makes candidates of one iteration: one for each clock, and the planner's plans. Returns how many.
 */
static int64_t make_candidates(const struct lull_job_parallel *parallel,
                               const struct lull_job_tempo *tempo, uint32_t clock_count,
                               struct lull_cluster_point *candidates, struct lull_error *err)
{
    struct lull_job_tempo thin[PLANNED_CLOCKS];
    struct lull_job_pipeline pipeline;
    struct lull_job_graph graph;
    int64_t plans = 0;
    int64_t count = lull_job_parallel_build(parallel, &graph, err);

    if (count < 0)
        return count;
    count = lull_job_parallel_points(parallel, &graph, tempo, clock_count, 1, 0, candidates);
    lull_job_graph_fini(&graph);
    if (count < 0)
        return lull_error_set(err, (int)count, "no memory for a pipeline");
    plans = lull_job_pipeline_init(&pipeline, parallel, thin,
                                   job_pipelines_thin(tempo, clock_count, thin), err);
    if (plans < 0)
        return plans;
    plans = lull_job_pipeline_points(&pipeline, PLANS, 1, 0, &candidates[count], err);
    lull_job_pipeline_fini(&pipeline);
    return plans < 0 ? plans : count + plans;
}

/* Records the exposed communication with other nodes of each candidate: the last bucket of
 * gradients, since nothing of an iteration is left to hide it. */
static void fill_sharing(const struct lull_job_parallel *parallel, double waiting_w,
                         struct lull_cluster_point *candidates, int64_t count)
{
    const double bucket_ns = (double)lull_job_parallel_bucket_ns(parallel);

    for (int64_t i = 0; i < count; i++) {
        candidates[i].exposed_ratio = (float)(bucket_ns / (double)candidates[i].time_ns);
        candidates[i].waiting_w = (float)(waiting_w * candidates[i].gpus);
    }
}

int lull_job_pipelined_make(const struct lull_job_type *type, enum lull_job_network network,
                            uint32_t gpus, struct lull_job_pipelined *pipelined_out,
                            struct lull_error *err)
{
    struct lull_job_tempo *tempo = malloc(LULL_JOB_MAX_CLOCKS * sizeof(*tempo));
    struct lull_cluster_point *candidates =
        malloc((LULL_JOB_MAX_CLOCKS + PLANS) * sizeof(*candidates));
    struct lull_job_parallel parallel;
    int64_t count = -ENOMEM;

    *pipelined_out = (struct lull_job_pipelined){.gpus = gpus, .stages = count_stages(gpus)};
    pipelined_out->data = gpus / LULL_JOB_PIPELINE_TENSOR / pipelined_out->stages;
    if (tempo == NULL || candidates == NULL) {
        (void)lull_error_set(err, -ENOMEM, "no memory for a pipeline");
    } else {
        const uint32_t clocks =
            lull_job_type_tempo(type, lull_job_class_find("compute"), network, tempo);

        count = job_pipelines_lay_out(type, network, pipelined_out, &parallel, err);
        if (count == 0)
            count = make_candidates(&parallel, tempo, clocks, candidates, err);
        fill_sharing(&parallel, tempo[clocks - 1].waiting_w, candidates, count);
    }
    if (count > 0)
        lull_job_points_choose(candidates, (size_t)count, &pipelined_out->points,
                               &pipelined_out->relaxed);
    free(tempo);
    free(candidates);
    return count < 0 ? (int)count : 0;
}
