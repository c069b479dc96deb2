/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/training/training.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

enum {
    VALUE_BYTES = 2,     /* of an activation, a parameter or a gradient */
    OPTIMIZER_BYTES = 30 /* of a parameter, read and written by Adam: moments, master, gradient */
};

/* ---- kernels ------------------------------------------------------------------------------ */

/* The work of a GPU. */
struct training_work {
    double flops;
    double core_flops;    /* of attention */
    double operand_bytes; /* of products */
    double bytes;         /* of all else */
    double kernels;
};

static struct training_work training_scale(struct training_work work, double factor)
{
    return (struct training_work){factor * work.flops, factor * work.core_flops,
                                  factor * work.operand_bytes, factor * work.bytes,
                                  factor * work.kernels};
}

static struct training_work training_add(struct training_work a, struct training_work b)
{
    return (struct training_work){a.flops + b.flops, a.core_flops + b.core_flops,
                                  a.operand_bytes + b.operand_bytes, a.bytes + b.bytes,
                                  a.kernels + b.kernels};
}

/* Output of width `out` from input of width `in`, for each of the rows. */
static struct training_work training_product(double rows, double in, double out)
{
    return (struct training_work){.flops = 2.0 * rows * in * out,
                                  .operand_bytes =
                                      VALUE_BYTES * (rows * in + in * out + rows * out),
                                  .kernels = 1.0};
}

static struct lull_training_time training_time_of(const struct lull_training_setup *job,
                                                  const struct lull_training_gpu *gpu,
                                                  const struct training_work *work, bool is_bf16)
{
    const double flops = gpu->flops[is_bf16 ? LULL_TRAINING_BF16 : job->precision];
    const double core = gpu->flops[LULL_TRAINING_BF16] *
                        (job->attention == LULL_TRAINING_FUSED ? gpu->attention_ratio : 1.0);

    const double bytes_s = gpu->memory_bytes_s * gpu->memory_ratio;

    return (struct lull_training_time){
        .matrix_s = (work->flops / flops + work->core_flops / core) / job->matrix_ratio +
                    work->operand_bytes / bytes_s,
        .memory_s = work->bytes / bytes_s,
        .fixed_s = work->kernels * gpu->kernel_s,
    };
}

static struct lull_training_time training_sum(struct lull_training_time a,
                                              struct lull_training_time b, double factor)
{
    return (struct lull_training_time){a.matrix_s + factor * b.matrix_s,
                                       a.memory_s + factor * b.memory_s,
                                       a.fixed_s + factor * b.fixed_s};
}

static double training_total(struct lull_training_time time)
{
    return time.matrix_s + time.memory_s + time.fixed_s;
}

/* ---- a layer ------------------------------------------------------------------------------ */

/* Forward and backward of a micro-batch. */
struct passes {
    struct lull_training_time forward;
    struct lull_training_time backward;
};

static bool is_transformer(const struct lull_training_setup *job)
{
    return job->model.hidden > 0;
}

static double tokens_of(const struct lull_training_setup *job)
{
    return (double)job->micro_batch * job->model.sequence / job->context;
}

/*
 * Attention's core: every score is an operation of two products. Unfused, each score is written by
 * the first product, read and written by the masked softmax and by dropout, and read by the second:
 * five times two bytes (counted, with the kernels fused as in Megatron-LM).
 */
static struct training_work core_work(const struct lull_training_setup *job)
{
    const struct lull_training_model *model = &job->model;
    const double rows = tokens_of(job);
    const bool is_fused = job->attention == LULL_TRAINING_FUSED;
    const double seen = is_fused && model->is_causal ? 0.5 : 1.0;
    const double scores = rows * model->sequence * model->heads / job->tensor;

    return (struct training_work){
        .core_flops = 4.0 * seen * rows * model->sequence * model->hidden / job->tensor,
        .bytes = is_fused ? 0.0 : 5.0 * VALUE_BYTES * scores,
        .kernels = is_fused ? 1.0 : 5.0,
    };
}

/* The products of a layer. */
static struct training_work products_work(const struct lull_training_setup *job)
{
    const struct lull_training_model *model = &job->model;
    const double rows = tokens_of(job);
    const double hidden = model->hidden;
    const double kv = hidden * model->kv_heads / model->heads;
    const double up = (double)model->feed_forward * (model->is_gated ? 2.0 : 1.0);
    struct training_work work = training_product(rows, hidden, (hidden + 2.0 * kv) / job->tensor);

    work = training_add(work, training_product(rows, hidden / job->tensor, hidden));
    work = training_add(work, training_product(rows, hidden, up / job->tensor));
    return training_add(work,
                        training_product(rows, (double)model->feed_forward / job->tensor, hidden));
}

/* The work between the products: two norms read and write the activations, two residuals with bias
 * and dropout read two and write two, the activation function reads what the first product of the
 * feed-forward part made and writes what the second reads. */
static struct training_work between_work(const struct lull_training_setup *job)
{
    const struct lull_training_model *model = &job->model;
    const double rows = tokens_of(job);
    const double split = job->is_sequence_parallel ? job->tensor : 1.0;
    const double up = (double)model->feed_forward * (model->is_gated ? 3.0 : 2.0);

    return (struct training_work){
        .bytes = VALUE_BYTES * rows * (12.0 * model->hidden / split + up / job->tensor),
        .kernels = 6.0,
    };
}

static struct passes transformer_layer(const struct lull_training_setup *job,
                                       const struct lull_training_gpu *gpu)
{
    const struct training_work products = products_work(job);
    const struct training_work core = core_work(job);
    const struct training_work between = between_work(job);
    const struct training_work forward = training_add(training_add(products, core), between);
    /* Fused attention computes the scores again in its backward: five products for two. */
    const double core_factor = job->attention == LULL_TRAINING_FUSED ? 2.5 : 2.0;
    struct training_work backward = training_add(
        training_scale(products, job->is_frozen ? 1.0 : 2.0), training_scale(core, core_factor));

    backward = training_add(backward, training_scale(between, 2.0));
    if (job->recompute == LULL_TRAINING_FULL)
        backward = training_add(backward, forward);
    else if (job->recompute == LULL_TRAINING_SELECTIVE)
        backward = training_add(backward, core);
    return (struct passes){training_time_of(job, gpu, &forward, false),
                           training_time_of(job, gpu, &backward, false)};
}

static struct passes any_layer(const struct lull_training_setup *job,
                               const struct lull_training_gpu *gpu)
{
    const struct lull_training_model *model = &job->model;
    const struct training_work forward = {.flops = model->flops * job->micro_batch,
                                          .bytes = model->bytes * job->micro_batch,
                                          .kernels = model->kernels};
    const struct training_work backward = training_scale(forward, 2.0);

    return (struct passes){training_time_of(job, gpu, &forward, false),
                           training_time_of(job, gpu, &backward, false)};
}

/* The product with the vocabulary, and the loss, which reads and writes its output: in 8 bytes
 * forward, half of them read, and twice that backward. */
static struct passes head_of(const struct lull_training_setup *job,
                             const struct lull_training_gpu *gpu)
{
    const double rows = tokens_of(job);
    const double width = (double)job->model.vocabulary / job->tensor;
    const struct training_work forward = {.flops = 2.0 * rows * job->model.hidden * width,
                                          .bytes = 8.0 * rows * width,
                                          .kernels = 4.0};
    const struct training_work backward = training_scale(forward, 2.0);

    if (job->model.vocabulary == 0)
        return (struct passes){0};
    return (struct passes){training_time_of(job, gpu, &forward, true),
                           training_time_of(job, gpu, &backward, true)};
}

/* ---- parameters ----------------------------------------------------------------------------- */

static double layer_parameters(const struct lull_training_model *model)
{
    const double hidden = model->hidden;
    const double kv = hidden * model->kv_heads / model->heads;

    if (model->parameters > 0.0)
        return model->parameters;
    return 2.0 * hidden * (hidden + kv) +
           hidden * model->feed_forward * (model->is_gated ? 3.0 : 2.0);
}

static double gpu_parameters(const struct lull_training_setup *job)
{
    const struct lull_training_model *model = &job->model;

    return ((double)model->layers / job->pipeline * layer_parameters(model) +
            (double)model->vocabulary * model->hidden) /
           job->tensor;
}

/* ---- collectives ---------------------------------------------------------------------------- */

/* Path between the GPUs of a collective. */
struct path {
    uint32_t ranks;
    uint32_t nodes;
    double inside_ns;  /* once around a node */
    double between_ns; /* from node to node */
    double ns_per_byte;
};

/* Of `ranks` GPUs of which each node has `neighbours`, so that as many ports carry what leaves it.
 */
static struct path training_path_of(const struct lull_training_gpu *gpu, uint32_t ranks,
                                    uint32_t neighbours)
{
    const uint32_t within = ranks < neighbours ? ranks : neighbours;

    assert(within > 0);

    struct path path = {
        .ranks = ranks,
        .nodes = (ranks + within - 1) / within,
        .inside_ns = (within - 1.0) * (double)gpu->inside.latency_ns,
        .between_ns = (double)gpu->between.latency_ns,
        .ns_per_byte = gpu->inside.ns_per_byte,
    };

    if (path.nodes > 1)
        path.ns_per_byte = fmax(gpu->between.ns_per_byte / within, gpu->inside.ns_per_byte);
    return path;
}

static double gather_s(const struct path *path, double bytes)
{
    return 1e-9 * (path->inside_ns + (path->nodes - 1.0) * path->between_ns +
                   path->ns_per_byte * bytes * (path->ranks - 1.0) / path->ranks);
}

static double all_reduce_s(const struct path *path, double bytes)
{
    const double tree_ns =
        path->inside_ns + ceil(log2(path->nodes)) * path->between_ns + path->ns_per_byte * bytes;

    return 2.0 * fmin(gather_s(path, bytes), 1e-9 * tree_ns);
}

/* The time of a layer's tensor parallel collectives: two
 * forward, two backward and those of a recomputation; sequence parallelism gathers its input once
 * more in each half of the backward. */
static void tensor_s(const struct lull_training_setup *job, const struct lull_training_gpu *gpu,
                     double *forward_s, double *backward_s)
{
    const struct path path = training_path_of(gpu, job->tensor, gpu->node_gpus);
    const double bytes = VALUE_BYTES * tokens_of(job) * job->model.hidden;
    const double once_s = 2.0 * gather_s(&path, bytes);
    double backward = 2.0;

    if (job->recompute == LULL_TRAINING_FULL)
        backward = 4.0;
    else if (job->is_sequence_parallel)
        backward = 3.0;
    *forward_s = 2.0 * once_s;
    *backward_s = backward * once_s;
}

/* ---- composing ------------------------------------------------------------------------------ */

static int64_t training_to_ns(double seconds)
{
    return llround(fmin(seconds * 1e9, 2.0 * (double)LULL_JOB_MAX_TASK_NS));
}

/* The copies of a stage, `ranks` of them, lie next to each other, each tensor parallel (Megatron's
 * order). */
static struct path data_path(const struct lull_training_setup *job,
                             const struct lull_training_gpu *gpu, uint32_t ranks)
{
    const uint32_t neighbours = gpu->node_gpus / job->tensor;

    return training_path_of(gpu, ranks, neighbours > 0 ? neighbours : 1);
}

/* Overlaps a collective with computation: the part that is longer stays exposed, and computation
 * slows down. Returns the exposed part. */
static double training_overlap(struct lull_training_time *compute, double link_s)
{
    const double compute_s = training_total(*compute);
    const double slower = LULL_TRAINING_CONTENTION * fmin(compute_s, link_s);

    *compute = training_sum(*compute, *compute, slower / compute_s);
    return fmax(link_s - compute_s, 0.0);
}

/* Collectives of the copies: gradients and parameters of one GPU. */
static void training_add_copies(const struct lull_training_setup *job,
                                const struct lull_training_gpu *gpu,
                                struct lull_training_step *step, struct passes *chunk)
{
    const uint32_t ranks = step->copies * job->context;
    const struct path path = data_path(job, gpu, ranks);
    const double bytes = VALUE_BYTES * step->parameters;
    const double once_s = gather_s(&path, bytes);
    struct lull_job_parallel *parallel = &step->parallel;

    parallel->data = ranks;
    if (ranks == 1 || job->is_frozen)
        return;
    switch (job->sharding) {
    case LULL_TRAINING_REPLICATED:
        parallel->gradient_link_ns = training_to_ns(all_reduce_s(&path, bytes));
        break;
    case LULL_TRAINING_OPTIMIZER:
        parallel->gradient_link_ns = training_to_ns(once_s);
        parallel->parameter_link_ns = training_to_ns(once_s);
        break;
    case LULL_TRAINING_PARAMETERS:
        parallel->gather_link_ns = training_to_ns(once_s / job->chunks);
        parallel->scatter_link_ns = training_to_ns(once_s / job->chunks);
        (void)training_overlap(&chunk->forward, once_s / job->chunks);
        (void)training_overlap(&chunk->backward, 2.0 * once_s / job->chunks);
        break;
    }
}

static void add_optimizer(const struct lull_training_setup *job,
                          const struct lull_training_gpu *gpu, struct lull_training_step *step)
{
    const double share = job->sharding == LULL_TRAINING_REPLICATED ? 1.0 : step->parallel.data;
    const struct training_work work = {.bytes = OPTIMIZER_BYTES * step->parameters / share,
                                       .kernels = job->model.layers / (double)job->pipeline};
    struct lull_training_time *time = &step->works[LULL_JOB_OPTIMIZER_WORK];

    if (!job->is_frozen)
        *time = training_time_of(job, gpu, &work, true);
    step->parallel.optimizer_ns = training_to_ns(training_total(*time));
}

static void fill_schedule(const struct lull_training_setup *job, struct lull_training_step *step)
{
    const double layers = ceil((double)job->model.layers / job->pipeline / job->chunks);
    struct lull_job_parallel *parallel = &step->parallel;

    parallel->tensor = job->tensor;
    parallel->pipeline = job->pipeline;
    parallel->microbatches = job->batch / step->copies / job->micro_batch;
    parallel->schedule.family = job->chunks > 1 ? LULL_PIPELINE_INTERLEAVED : LULL_PIPELINE_1F1B;
    parallel->schedule.chunks = job->chunks;
    parallel->buckets = (uint32_t)layers;
    parallel->is_gradient_late = job->is_gradient_late;
    parallel->input_ns = training_to_ns(job->input_s);
    parallel->copy_ns = training_to_ns(job->copy_s);
    parallel->gap_ns = training_to_ns(job->gap_s);
    parallel->has_works = true;
}

static void training_fill(const struct lull_training_setup *job,
                          const struct lull_training_gpu *gpu, struct lull_training_step *step)
{
    const struct passes layer =
        is_transformer(job) ? transformer_layer(job, gpu) : any_layer(job, gpu);
    const struct passes head = head_of(job, gpu);
    const double layers = (double)job->model.layers / job->pipeline / job->chunks;
    const struct lull_training_time none = {0};
    struct passes chunk = {training_sum(none, layer.forward, layers),
                           training_sum(none, layer.backward, layers)};
    struct lull_job_parallel *parallel = &step->parallel;
    double forward_s, backward_s;

    fill_schedule(job, step);
    tensor_s(job, gpu, &forward_s, &backward_s);
    forward_s *= layers;
    backward_s *= layers;
    if (job->is_tensor_overlapped) {
        forward_s = training_overlap(&chunk.forward, forward_s);
        backward_s = training_overlap(&chunk.backward, backward_s);
    }
    training_add_copies(job, gpu, step, &chunk);
    add_optimizer(job, gpu, step);
    parallel->forward_ns = training_to_ns(training_total(chunk.forward));
    parallel->backward_ns = training_to_ns(training_total(chunk.backward));
    parallel->head_forward_ns = training_to_ns(training_total(head.forward));
    parallel->head_backward_ns = training_to_ns(training_total(head.backward));
    parallel->forward_link_ns = training_to_ns(forward_s);
    parallel->backward_link_ns = training_to_ns(backward_s);
    if (job->pipeline > 1) {
        parallel->stage_link = gpu->between;
        parallel->stage_bytes = VALUE_BYTES * tokens_of(job) * job->model.hidden / job->tensor;
    }
    const double actions = (double)parallel->microbatches * job->chunks;
    step->works[LULL_JOB_FORWARD_WORK] =
        training_sum(training_sum(none, chunk.forward, actions), head.forward,
                     parallel->microbatches / (double)job->pipeline);
    step->works[LULL_JOB_BACKWARD_WORK] =
        training_sum(training_sum(none, chunk.backward, actions), head.backward,
                     parallel->microbatches / (double)job->pipeline);
}

/* Copies of the model; 0: the number of GPUs is not a multiple of that of a copy. */
static uint32_t count_copies(const struct lull_training_setup *job)
{
    const uint32_t copies = job->gpus / job->tensor / job->context / job->pipeline;

    return (uint64_t)copies * job->tensor * job->context * job->pipeline == job->gpus ? copies : 0;
}

static int check_layout(const struct lull_training_setup *job, struct lull_error *err)
{
    uint32_t copies;

    if (job->tensor == 0 || job->context == 0 || job->pipeline == 0 || job->chunks == 0 ||
        job->micro_batch == 0 || job->model.layers == 0 || job->gpus == 0 || job->batch == 0)
        return lull_error_set(err, -EINVAL,
                              "gpus, batch, micro_batch, layers, tensor, context, "
                              "pipeline and chunks are above 0");
    copies = count_copies(job);
    if (copies == 0)
        return lull_error_set(
            err, -EINVAL, "%u GPUs are no multiple of tensor x context x pipeline, %u x %u x %u",
            job->gpus, job->tensor, job->context, job->pipeline);
    if (job->batch % ((uint64_t)copies * job->micro_batch) != 0)
        return lull_error_set(err, -EINVAL,
                              "a batch of %u is no multiple of %u copies x micro-batches of %u",
                              job->batch, copies, job->micro_batch);
    if ((uint64_t)job->pipeline * job->chunks > job->model.layers)
        return lull_error_set(err, -EINVAL, "%u stages of %u chunks have less than a layer each",
                              job->pipeline, job->chunks);
    return 0;
}

static int check_model(const struct lull_training_setup *job, const struct lull_training_gpu *gpu,
                       struct lull_error *err)
{
    if (gpu->flops[job->precision] <= 0.0)
        return lull_error_set(err, -EINVAL, "%s has no fp8", gpu->name);
    if (is_transformer(job) &&
        (job->model.heads == 0 || job->model.kv_heads == 0 || job->model.sequence == 0))
        return lull_error_set(err, -EINVAL, "heads, kv_heads and sequence are above 0");
    if (!is_transformer(job) && (!(job->model.flops > 0.0) || job->tensor * job->context > 1))
        return lull_error_set(err, -EINVAL,
                              "a layer of given flops has more than 0 of them, and is not split "
                              "into tensor or context");
    if (!(job->matrix_ratio > 0.0))
        return lull_error_set(err, -EINVAL, "matrix_ratio is above 0");
    return 0;
}

int lull_training_compose(const struct lull_training_setup *job,
                          const struct lull_training_gpu *gpu, struct lull_training_step *step_out,
                          struct lull_error *err)
{
    int rc = check_layout(job, err);

    if (rc == 0)
        rc = check_model(job, gpu, err);
    if (rc < 0)
        return rc;
    *step_out = (struct lull_training_step){
        .copies = count_copies(job),
        .parameters = gpu_parameters(job),
    };
    training_fill(job, gpu, step_out);
    return 0;
}
