/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/cluster/job_pipelines.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cluster/job_modes.h"
#include "core/cluster/job_pipeline.h"
#include "core/cluster/job_transformer.h"

enum { PLANS = 12, PLANNED_CLOCKS = 40 };

static const struct lull_job_matrix *matrix_of(const struct lull_job_type *type)
{
    if (strncmp(type->name, "A100", 4) == 0)
        return &lull_job_matrix_a100;
    return strncmp(type->name, "H100", 4) == 0 ? &lull_job_matrix_h100_fp8 : NULL;
}

bool lull_job_pipelined_is_possible(const struct lull_job_type *type, uint32_t gpus)
{
    return type->model != NULL && matrix_of(type) != NULL && gpus >= LULL_JOB_PIPELINE_LEAST_GPUS &&
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

static void lay_out(const struct lull_job_type *type, enum lull_job_network network,
                    const struct lull_job_pipelined *pipelined, struct lull_job_parallel *parallel)
{
    /* A port of 25 GB/s for each GPU between nodes, or what Ethernet is; in a node the GPUs' own.
     */
    const double port_gbs = network == LULL_JOB_NVLINK ? 22.5 : 25.0 / 8.0;
    const struct lull_job_transformer model = {
        .layers = 12 * pipelined->stages,
        .hidden = 12288,
        .sequence = 2048,
        .vocabulary = 51200,
        .micro_batch = 1,
        .is_sequence_parallel = true,
    };

    *parallel = (struct lull_job_parallel){
        .data = pipelined->data,
        .tensor = LULL_JOB_PIPELINE_TENSOR,
        .pipeline = pipelined->stages,
        .microbatches = 4 * pipelined->stages,
        .schedule = {.family = LULL_PIPELINE_1F1B, .chunks = 1},
        .buckets = 1,
        .tensor_link = {1000, 1.0 / type->model->link_gbs},
        .stage_link = {20000, 1.0 / port_gbs},
        .data_link = {1000, 1.0 / port_gbs},
    };
    lull_job_transformer_fill(&model, matrix_of(type), parallel);
}

/* Every so many of the clocks above 45 % of the highest, below which nothing is won. Returns how
 * many. */
static uint32_t thin_out(const struct lull_job_tempo *tempo, uint32_t count,
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

/* Candidates of both kinds, for one iteration. Returns how many. */
static int64_t make_candidates(const struct lull_job_parallel *parallel,
                               const struct lull_job_tempo *tempo, uint32_t clock_count,
                               struct lull_cluster_mode *candidates, struct lull_error *err)
{
    struct lull_job_tempo thin[PLANNED_CLOCKS];
    struct lull_job_pipeline pipeline;
    struct lull_job_graph graph;
    int64_t plans = 0;
    int64_t count = lull_job_parallel_build(parallel, &graph, err);

    if (count < 0)
        return count;
    count = lull_job_parallel_modes(parallel, &graph, tempo, clock_count, 1, 0, candidates);
    lull_job_graph_fini(&graph);
    if (count < 0)
        return lull_error_set(err, (int)count, "no memory for a pipeline");
    plans =
        lull_job_pipeline_init(&pipeline, parallel, thin, thin_out(tempo, clock_count, thin), err);
    if (plans < 0)
        return plans;
    plans = lull_job_pipeline_modes(&pipeline, PLANS, 1, 0, &candidates[count], err);
    lull_job_pipeline_fini(&pipeline);
    return plans < 0 ? plans : count + plans;
}

/* What is sent to other nodes, and seen, are gradients: nothing of an iteration hides the last. */
static void keep(struct lull_cluster_mode *candidates, size_t count,
                 const struct lull_job_parallel *parallel, struct lull_job_pipelined *pipelined)
{
    const double bucket_ns = (double)lull_job_parallel_bucket_ns(parallel);
    struct lull_cluster_mode modes[LULL_CLUSTER_MOST_MODES];

    pipelined->count =
        (uint32_t)lull_job_modes_choose(candidates, count, LULL_CLUSTER_MOST_MODES, modes);
    for (uint32_t i = 0; i < pipelined->count; i++) {
        pipelined->points[i].sm_mhz = modes[i].sm_mhz;
        pipelined->points[i].time_ratio = (double)modes[i].time_ns / (double)modes[0].time_ns;
        pipelined->points[i].energy_w = modes[i].energy_j / ((double)modes[0].time_ns * 1e-9);
        pipelined->points[i].exposed_ratio = bucket_ns / (double)modes[i].time_ns;
    }
}

int lull_job_pipelined_make(const struct lull_job_type *type, enum lull_job_network network,
                            uint32_t gpus, struct lull_job_pipelined *pipelined_out,
                            struct lull_error *err)
{
    struct lull_job_tempo *tempo = malloc(LULL_JOB_MOST_CLOCKS * sizeof(*tempo));
    struct lull_cluster_mode *candidates =
        malloc((LULL_JOB_MOST_CLOCKS + PLANS) * sizeof(*candidates));
    struct lull_job_parallel parallel;
    int64_t count = -ENOMEM;

    *pipelined_out = (struct lull_job_pipelined){.gpus = gpus, .stages = count_stages(gpus)};
    pipelined_out->data = gpus / LULL_JOB_PIPELINE_TENSOR / pipelined_out->stages;
    if (tempo == NULL || candidates == NULL) {
        (void)lull_error_set(err, -ENOMEM, "no memory for a pipeline");
    } else {
        const uint32_t clocks =
            lull_job_type_tempo(type, lull_job_class_find("compute"), network, tempo);

        lay_out(type, network, pipelined_out, &parallel);
        count = make_candidates(&parallel, tempo, clocks, candidates, err);
        pipelined_out->waiting_w = gpus * tempo[clocks - 1].waiting_w;
    }
    if (count > 0)
        keep(candidates, (size_t)count, &parallel, pipelined_out);
    free(tempo);
    free(candidates);
    return count < 0 ? (int)count : 0;
}

uint32_t lull_job_pipelined_modes(const struct lull_job_pipelined *pipelined, int64_t time_ns,
                                  uint32_t type, struct lull_cluster_mode *modes_out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < pipelined->count; i++) {
        const double stretched_ns = (double)time_ns * pipelined->points[i].time_ratio;

        if (i > 0 && stretched_ns > (double)LULL_CLUSTER_MOST_NS)
            break;
        modes_out[count++] = (struct lull_cluster_mode){
            .type = type,
            .gpus = pipelined->gpus,
            .sm_mhz = pipelined->points[i].sm_mhz,
            .time_ns = i == 0 ? time_ns : llround(stretched_ns),
            .energy_j = (double)time_ns * 1e-9 * pipelined->points[i].energy_w,
            .exposed_ratio = (float)pipelined->points[i].exposed_ratio,
            .waiting_w = (float)pipelined->waiting_w,
        };
    }
    return count;
}
