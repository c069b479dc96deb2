/*
 * Training on many GPUs, composed of models of its parts: kernels, collectives and the graph of
 * tasks that they form (S-SGD: Shi et al., arXiv 1805.03812; wait-free backpropagation, pipelines
 * and shared parameters: job_parallel.h).
 *
 * A kernel takes matrix_s + memory_s + fixed_s: operations at the rate that matrix products reach,
 * bytes at the rate that memory reaches, and what launching and draining it costs. The first
 * follows the SM clock, the second memory's bandwidth over that clock, the third neither. The
 * operands of a product are bytes, but come through the caches, which have the SM's clock. That is
 * the sum form of time_model.h, of which nothing is fitted to the job itself. A layer of a
 * transformer is four matrix products (Narayanan et al., SC'21, appendix), attention's core, and
 * what reads and writes activations between them (Korthikanti et al., MLSys'23, section 4).
 *
 * A collective of M bytes among n GPUs on N nodes gathers or scatters within each node and then
 * between nodes: a time a' within and a (N - 1) between, and (n - 1) / n b M, b that of the slowest
 * link, which the GPUs of a node that are in the collective share out. An all-reduce is twice that,
 * or with a tree of nodes 2 (a' + a log2(N) + b M), whichever is shorter. Beside computation it
 * slows that down by LULL_TRAINING_CONTENTION of the time that both run.
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_TRAINING_TRAINING_H
#define LULL_CLUSTER_CORE_TRAINING_TRAINING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/core/model/job_parallel.h"

/* Mean over GPUs and collectives of arXiv 2507.03114 (A100, H100, MI250); 0.4 at most. */
#define LULL_TRAINING_CONTENTION 0.189

/* ---- hardware and software (training_constants.c) -------------------------------------------- */

enum lull_training_precision {
    LULL_TRAINING_BF16, /* or fp16 */
    LULL_TRAINING_FP8,  /* attention's core and the head stay bf16 */
    LULL_TRAINING_PRECISIONS,
};

struct lull_training_gpu {
    const char *name;                       /* as in data/gpu_models.json */
    double flops[LULL_TRAINING_PRECISIONS]; /* per second, dense, peak; 0: it has none */
    double memory_bytes_s;                  /* nominal */
    double memory_ratio;                    /* the share of it that kernels reach */
    double attention_ratio;      /* rate of fused attention over that of matrix products */
    double kernel_s;             /* fixed time of a kernel */
    struct lull_job_link inside; /* a node; of one GPU, per step of a ring */
    struct lull_job_link between;
    uint32_t node_gpus;
    double node_w;         /* power of a node without its GPUs; NAN: unknown */
    bool is_power_guessed; /* over its clocks, in training */
};

struct lull_training_software {
    const char *name;
    double matrix_ratio; /* the share of the peak that matrix products reach */
    double gap_s;        /* of the host, in each step */
    const char *fitted;  /* the anchors that matrix_ratio is the geometric mean of */
};

extern const struct lull_training_gpu lull_training_gpus[];
extern const uint32_t lull_training_gpu_count;
extern const struct lull_training_software lull_training_softwares[];
extern const uint32_t lull_training_software_count;

/* By name; NULL: not known. */
const struct lull_training_gpu *lull_training_gpu_find(const char *name);
const struct lull_training_software *lull_training_software_find(const char *name);

/* ---- a job -------------------------------------------------------------------------------- */

enum lull_training_attention {
    LULL_TRAINING_FUSED,   /* scores stay in the GPU's caches (FlashAttention) */
    LULL_TRAINING_UNFUSED, /* scores are written, masked, normalised, dropped out and read */
};

enum lull_training_recompute {
    LULL_TRAINING_KEEP,      /* all activations */
    LULL_TRAINING_SELECTIVE, /* attention's core is computed again */
    LULL_TRAINING_FULL,      /* each layer's forward is computed again */
};

enum lull_training_sharding {
    LULL_TRAINING_REPLICATED, /* each copy updates all its parameters */
    LULL_TRAINING_OPTIMIZER,  /* a part of them, which the others gather once (ZeRO 1) */
    LULL_TRAINING_PARAMETERS, /* and stores only a part, gathered for each use (ZeRO 3, FSDP) */
};

/* All counts > 0. */
struct lull_training_model {
    uint32_t layers;
    double parameters; /* of a layer; 0: from the sizes of a transformer below */

    /* Of a transformer. */
    uint32_t hidden;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t feed_forward;
    bool is_gated;       /* the feed-forward part has three products */
    uint32_t vocabulary; /* 0: no head */
    uint32_t sequence;
    bool is_causal;

    /* Of any other layer and a sample, forward; twice that backward. */
    double flops;
    double bytes;   /* read and written */
    double kernels; /* of a layer, of whatever batch */
};

struct lull_training_setup {
    struct lull_training_model model;
    enum lull_training_precision precision;
    double matrix_ratio; /* > 0 */
    double gap_s;        /* >= 0 */
    double input_s;      /* reading the next input, >= 0 */
    double copy_s;       /* copying it to the GPU, >= 0 */

    uint32_t gpus; /* a multiple of tensor * context * pipeline */
    uint32_t tensor;
    uint32_t context; /* GPUs that share a sequence's tokens */
    uint32_t pipeline;
    uint32_t chunks;      /* of a stage; 1: 1F1B, more: interleaved */
    uint32_t batch;       /* samples of all GPUs in a step */
    uint32_t micro_batch; /* samples of a copy at a time */

    enum lull_training_attention attention;
    enum lull_training_recompute recompute;
    enum lull_training_sharding sharding;
    bool is_sequence_parallel; /* work between tensor parallel products is split as well */
    bool is_tensor_overlapped; /* their collectives run beside the products */
    bool is_gradient_late;     /* gradients are sent after the backward, not during it */
    bool is_frozen;            /* gradients of weights are not computed (LoRA) */
};

/* ---- parts of a step ------------------------------------------------------------------------- */

/* Time of a GPU at the highest clock, by what it follows. */
struct lull_training_time {
    double matrix_s;
    double memory_s;
    double fixed_s;
};

struct lull_training_step {
    struct lull_job_parallel parallel;                        /* has_works */
    struct lull_training_time works[LULL_JOB_PARALLEL_WORKS]; /* of a step, on a GPU of an average
                                                                 stage */
    uint32_t copies;                                          /* data parallel */
    double parameters;                                        /* of one GPU */
};

/* Composes the step. Errors: -EINVAL numbers that do not divide or are out of range, a GPU without
 * the precision. */
int lull_training_compose(const struct lull_training_setup *job,
                          const struct lull_training_gpu *gpu, struct lull_training_step *step_out,
                          struct lull_error *err);

/*
 * Finds the matrix_ratio at which the step takes step_s (> 0) at the highest clock: calibrates the
 * software's efficiency from one measured job. Returns 0; -ERANGE no ratio between 0.01 and 1.5
 * does; or the errors of composing and building. About ten steps' schedules.
 */
int lull_training_fit(const struct lull_training_setup *job, const struct lull_training_gpu *gpu,
                      double step_s, double *matrix_ratio_out, struct lull_error *err);

/*
 * The interval of a predicted step: the true value lies between the prediction divided by and
 * multiplied by this factor, > 1, with this probability (above 0, up to
 * LULL_TRAINING_MAX_CONFIDENCE). This holds for jobs that resemble the jobs behind the constants as
 * much as the anchors do from which it was derived: the split conformal quantile of their errors
 * (Papadopoulos et al., 2002), in training_constants.c.
 */
#define LULL_TRAINING_MAX_CONFIDENCE 0.96
double lull_training_factor(double confidence_ratio);

/* The same for the energy of a step. The error of power is independent of that of time; it is
 * estimated from the few anchors whose nodes were metered
 * (Student's t). */
double lull_training_energy_factor(double confidence_ratio);

#endif
