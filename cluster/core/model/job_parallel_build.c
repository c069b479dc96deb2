/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "cluster/core/model/job_parallel.h"
#include "core/pipeline/schedule/order.h"

/* ---- building ----------------------------------------------------------------------------- */

/* Resources of device d of n: d, d + n LINK, ... Behind them are the host and its copies. */
enum { TENSOR_LINK = 1, NEXT_LINK, PREVIOUS_LINK, DATA_LINK, RESOURCES };
enum { HOST, COPIES, HOST_RESOURCES };

/* The tasks of an action: the first waits for the action's inputs, and the action is done after the
 * last. */
struct action_tasks {
    int64_t first; /* < 0: there is no such action */
    int64_t last;
};

struct parallel_builder {
    const struct lull_job_parallel *parallel;
    struct lull_pipeline_order order;
    struct lull_job_graph graph;
    uint32_t *device;             /* of a chunk */
    struct action_tasks *forward; /* [chunk * microbatches + microbatch] */
    struct action_tasks *backward;
    int64_t *optimizer;     /* of a device */
    int64_t last_pieces[2]; /* of computation, of the device that is being added; < 0: none */
    int rc;                 /* the first error */
};

static uint32_t parallel_build_resource(const struct parallel_builder *builder, uint32_t device,
                                        uint32_t which)
{
    return which * builder->parallel->pipeline + device;
}

static int64_t parallel_build_add_task(struct parallel_builder *builder,
                                       const struct lull_job_task *task)
{
    const int64_t index = lull_job_graph_add(&builder->graph, task);

    if (index < 0 && builder->rc == 0)
        builder->rc = (int)index;
    return index;
}

static int64_t parallel_build_add_compute(struct parallel_builder *builder, uint32_t device,
                                          uint32_t work, int64_t time_ns)
{
    const struct lull_job_task task = {LULL_JOB_COMPUTE, device, device, time_ns,
                                       builder->parallel->has_works ? work : 0};

    return parallel_build_add_task(builder, &task);
}

static int64_t parallel_build_add_transfer(struct parallel_builder *builder, uint32_t at,
                                           uint32_t device, int64_t time_ns)
{
    const struct lull_job_task task = {LULL_JOB_TRANSFER, at, device, time_ns, 0};

    return parallel_build_add_task(builder, &task);
}

static int64_t add_host(struct parallel_builder *builder, uint32_t which, int64_t time_ns)
{
    const uint32_t at = RESOURCES * builder->parallel->pipeline + which;
    const struct lull_job_task task = {LULL_JOB_HOST, at, at, time_ns, 0};

    return parallel_build_add_task(builder, &task);
}

static void parallel_build_connect(struct parallel_builder *builder, int64_t from, int64_t to)
{
    if (from >= 0 && to >= 0 && builder->rc == 0)
        builder->rc = lull_job_graph_connect(&builder->graph, (uint32_t)from, (uint32_t)to);
}

/* A piece's share of a time that all parts of an action take. */
static int64_t share_ns(int64_t whole_ns, uint32_t part, uint32_t parts)
{
    return whole_ns * (part + 1) / parts - whole_ns * part / parts;
}

static bool is_forward(const struct lull_pipeline_action *action)
{
    return action->kind == LULL_PIPELINE_FORWARD || action->kind == LULL_PIPELINE_RECOMPUTE;
}

/* The parameters that a piece needs: gathered before every piece where copies share them, while
 * the piece before it runs and no earlier, since they take room; or once, ahead of its first
 * forward, as soon as the link carries them. Pieces are equally long, or a nanosecond would decide
 * which of them a link takes first. */
static void add_parameters(struct parallel_builder *builder,
                           const struct lull_pipeline_action *action, uint32_t device,
                           uint32_t parts, int64_t compute)
{
    const struct lull_job_parallel *parallel = builder->parallel;
    const uint32_t at = parallel_build_resource(builder, device, DATA_LINK);
    int64_t gather = -1;

    if (parallel->gather_link_ns > 0 && action->kind != LULL_PIPELINE_WEIGHT) {
        gather = parallel_build_add_transfer(builder, at, device, parallel->gather_link_ns / parts);
        parallel_build_connect(builder, builder->last_pieces[1], gather);
    } else if (parallel->parameter_link_ns > 0 && is_forward(action) && action->microbatch == 0) {
        gather = parallel_build_add_transfer(
            builder, at, device, parallel->parameter_link_ns / parallel->schedule.chunks / parts);
    }
    parallel_build_connect(builder, gather, compute);
}

/* One of `parts` equal pieces of an action, after the device's previous task. */
static void add_piece(struct parallel_builder *builder, const struct lull_pipeline_action *action,
                      uint32_t device, uint32_t part, uint32_t parts, struct action_tasks *done)
{
    const bool is_last = action->stage + 1 == builder->order.stages;
    const int64_t whole_ns = lull_job_parallel_compute_ns(builder->parallel, action->kind, is_last);
    const int64_t link_ns = lull_job_parallel_tensor_ns(builder->parallel, action->kind);
    const int64_t compute = parallel_build_add_compute(
        builder, device, is_forward(action) ? LULL_JOB_FORWARD_WORK : LULL_JOB_BACKWARD_WORK,
        share_ns(whole_ns, part, parts));
    int64_t last = compute;

    if (builder->parallel->data > 1)
        add_parameters(builder, action, device, parts, compute);
    if (link_ns > 0) {
        last = parallel_build_add_transfer(builder,
                                           parallel_build_resource(builder, device, TENSOR_LINK),
                                           device, share_ns(link_ns, part, parts));
        parallel_build_connect(builder, compute, last);
    }
    if (part == 0)
        done->first = compute;
    else
        parallel_build_connect(builder, done->last, compute);
    done->last = last;
    builder->last_pieces[1] = builder->last_pieces[0];
    builder->last_pieces[0] = compute;
}

static struct action_tasks *parallel_build_done_of(const struct parallel_builder *builder,
                                                   const struct lull_pipeline_action *action)
{
    const size_t at = (size_t)action->stage * builder->order.microbatches + action->microbatch;

    switch (action->kind) {
    case LULL_PIPELINE_FORWARD:
        return &builder->forward[at];
    case LULL_PIPELINE_BACKWARD:
    case LULL_PIPELINE_INPUT:
        return &builder->backward[at];
    default:
        return NULL;
    }
}

static bool makes_gradient(const struct lull_pipeline_action *action)
{
    return action->kind == LULL_PIPELINE_BACKWARD || action->kind == LULL_PIPELINE_WEIGHT;
}

/* Returns whether the chunk's gradient is complete with this action. */
static bool is_last_gradient(const struct lull_pipeline_row *row, size_t at)
{
    if (!makes_gradient(&row->actions[at]))
        return false;
    for (size_t i = at + 1; i < row->count; i++)
        if (makes_gradient(&row->actions[i]) && row->actions[i].stage == row->actions[at].stage)
            return false;
    return true;
}

/* The number of pieces of an action: one for each bucket if the
 * copies exchange data with it. */
static uint32_t count_parts(const struct lull_job_parallel *parallel,
                            const struct lull_pipeline_action *action, bool is_reduced)
{
    const bool is_gathered =
        parallel->gather_link_ns > 0 ||
        (parallel->parameter_link_ns > 0 && is_forward(action) && action->microbatch == 0);

    return is_reduced || (parallel->data > 1 && is_gathered) ? parallel->buckets : 1;
}

/* The gradients of a piece, which the optimizer waits for. */
static void add_bucket(struct parallel_builder *builder, uint32_t device, int64_t behind,
                       int64_t time_ns, int64_t optimizer)
{
    const int64_t bucket = parallel_build_add_transfer(
        builder, parallel_build_resource(builder, device, DATA_LINK), device, time_ns);

    parallel_build_connect(builder, behind, bucket);
    parallel_build_connect(builder, bucket, optimizer);
}

/* An action; where the chunk's gradient is complete with it, or where the copies share gradients,
 * in pieces that each release a bucket. */
static struct action_tasks add_action(struct parallel_builder *builder, uint32_t device, size_t at,
                                      int64_t optimizer)
{
    const struct lull_job_parallel *parallel = builder->parallel;
    const struct lull_pipeline_row *row = &builder->order.rows[device];
    const struct lull_pipeline_action *action = &row->actions[at];
    const bool is_reduced = parallel->data > 1 && is_last_gradient(row, at);
    const bool is_scattered =
        parallel->data > 1 && parallel->scatter_link_ns > 0 && makes_gradient(action);
    const uint32_t parts = count_parts(parallel, action, is_reduced || is_scattered);
    struct action_tasks *slot = parallel_build_done_of(builder, action);
    struct action_tasks done = {-1, -1};

    for (uint32_t part = 0; part < parts; part++) {
        add_piece(builder, action, device, part, parts, &done);
        if (is_scattered)
            add_bucket(builder, device, done.last, parallel->scatter_link_ns / parts, optimizer);
        else if (is_reduced && !parallel->is_gradient_late)
            add_bucket(builder, device, done.last, lull_job_parallel_bucket_ns(parallel),
                       optimizer);
    }
    if (slot != NULL)
        *slot = done;
    return done;
}

static void parallel_build_add_device(struct parallel_builder *builder, uint32_t device)
{
    const struct lull_job_parallel *parallel = builder->parallel;
    const struct lull_pipeline_row *row = &builder->order.rows[device];
    const int64_t optimizer = parallel_build_add_compute(builder, device, LULL_JOB_OPTIMIZER_WORK,
                                                         parallel->optimizer_ns);
    int64_t before = -1;

    builder->optimizer[device] = optimizer;
    builder->last_pieces[0] = builder->last_pieces[1] = -1;
    for (size_t i = 0; i < row->count && builder->rc == 0; i++) {
        const struct action_tasks done = add_action(builder, device, i, optimizer);

        parallel_build_connect(builder, before, done.first);
        before = done.last;
        builder->device[row->actions[i].stage] = device;
    }
    if (parallel->is_gradient_late && parallel->data > 1 && parallel->scatter_link_ns == 0)
        for (uint32_t i = 0; i < parallel->buckets * parallel->schedule.chunks; i++)
            add_bucket(builder, device, before, lull_job_parallel_bucket_ns(parallel), optimizer);
    parallel_build_connect(builder, before, optimizer);
}

/* The input of the next iteration is read and copied during
 * this one; the host's gap follows the optimizers. */
static void add_hosts(struct parallel_builder *builder)
{
    const struct lull_job_parallel *parallel = builder->parallel;

    if (parallel->input_ns > 0 || parallel->copy_ns > 0)
        parallel_build_connect(builder, add_host(builder, HOST, parallel->input_ns),
                               add_host(builder, COPIES, parallel->copy_ns));
    if (parallel->gap_ns > 0) {
        const int64_t gap = add_host(builder, HOST, parallel->gap_ns);

        for (uint32_t device = 0; device < parallel->pipeline; device++)
            parallel_build_connect(builder, builder->optimizer[device], gap);
    }
}

/* Data from one chunk's action to another's: a transfer where they are on two devices. */
static void parallel_build_send(struct parallel_builder *builder, const struct action_tasks *from,
                                uint32_t from_device, const struct action_tasks *to,
                                uint32_t to_device, uint32_t which)
{
    const int64_t time_ns =
        lull_job_transfer_ns(&builder->parallel->stage_link, builder->parallel->stage_bytes);
    int64_t transfer;

    if (from_device == to_device || time_ns == 0) {
        parallel_build_connect(builder, from->last, to->first);
        return;
    }
    transfer = parallel_build_add_transfer(
        builder, parallel_build_resource(builder, from_device, which), to_device, time_ns);
    parallel_build_connect(builder, from->last, transfer);
    parallel_build_connect(builder, transfer, to->first);
}

static void pass_all(struct parallel_builder *builder)
{
    const uint32_t count = builder->order.microbatches;

    for (uint32_t chunk = 0; chunk + 1 < builder->order.stages; chunk++)
        for (uint32_t m = 0; m < count && builder->rc == 0; m++) {
            const size_t here = (size_t)chunk * count + m;
            const size_t next = here + count;
            const uint32_t device = builder->device[chunk];
            const uint32_t next_device = builder->device[chunk + 1];

            parallel_build_send(builder, &builder->forward[here], device, &builder->forward[next],
                                next_device, NEXT_LINK);
            parallel_build_send(builder, &builder->backward[next], next_device,
                                &builder->backward[here], device, PREVIOUS_LINK);
        }
}

/* ---- checking ----------------------------------------------------------------------------- */

static bool parallel_build_is_within(double value, double most)
{
    return value >= 0.0 && value <= most;
}

static int parallel_build_check(const struct lull_job_parallel *parallel, struct lull_error *err)
{
    const double max_ns = (double)LULL_JOB_MAX_TASK_NS;
    const double max_bytes = 1e15;
    const struct lull_job_link *link = &parallel->stage_link;

    if (parallel->data == 0 || parallel->tensor == 0 || parallel->pipeline == 0 ||
        parallel->buckets == 0)
        return lull_error_set(err, -EINVAL, "data, tensor, pipeline and buckets are above 0");
    if (parallel->forward_ns <= 0 || parallel->backward_ns <= 0 || parallel->head_forward_ns < 0 ||
        parallel->head_backward_ns < 0 || parallel->optimizer_ns < 0 ||
        parallel->forward_link_ns < 0 || parallel->backward_link_ns < 0 ||
        parallel->gradient_link_ns < 0 || parallel->parameter_link_ns < 0 ||
        parallel->gather_link_ns < 0 || parallel->scatter_link_ns < 0 || parallel->input_ns < 0 ||
        parallel->copy_ns < 0 || parallel->gap_ns < 0)
        return lull_error_set(
            err, -EINVAL,
            "a forward and a backward take more than 0 s, and no other time is below 0");
    if (!parallel_build_is_within(parallel->stage_bytes, max_bytes))
        return lull_error_set(err, -EINVAL, "a size is between 0 and 1e15 bytes");
    if (!parallel_build_is_within((double)link->latency_ns, max_ns) ||
        !parallel_build_is_within(link->ns_per_byte, 1e6))
        return lull_error_set(
            err, -EINVAL,
            "a link's latency and its time per byte are not below 0, at most 1000 s and 1 ms");
    if (parallel->schedule.family == LULL_PIPELINE_DUALPIPEV)
        return lull_error_set(
            err, -EINVAL, "the schedule dualpipev, forward and backward at once, is not modelled");
    return 0;
}

static int builder_init(struct parallel_builder *builder, const struct lull_job_parallel *parallel,
                        struct lull_error *err)
{
    const struct lull_pipeline_shape shape = {
        .devices = parallel->pipeline,
        .microbatches = parallel->microbatches,
        .replicas = {.count = 1},
    };
    int rc = lull_pipeline_schedule_order(&parallel->schedule, &shape, NULL, &builder->order, err);
    size_t count;

    if (rc < 0)
        return rc;
    count = (size_t)builder->order.stages * builder->order.microbatches;
    builder->device = calloc(builder->order.stages, sizeof(*builder->device));
    builder->forward = calloc(count, sizeof(*builder->forward));
    builder->backward = calloc(count, sizeof(*builder->backward));
    builder->optimizer = calloc(parallel->pipeline, sizeof(*builder->optimizer));
    if (builder->device == NULL || builder->forward == NULL || builder->backward == NULL ||
        builder->optimizer == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu micro-batches", count);
    for (uint32_t i = 0; i < RESOURCES * parallel->pipeline + HOST_RESOURCES; i++) {
        const struct lull_job_resource link = {1, i < parallel->pipeline ? LULL_JOB_BY_RANK
                                                                         : LULL_JOB_SHORTEST_FIRST};
        const int64_t index = lull_job_graph_add_resource(&builder->graph, &link);

        if (index < 0)
            return lull_error_set(err, (int)index, "no room for %u devices", parallel->pipeline);
    }
    return 0;
}

static int parallel_build_graph(struct parallel_builder *builder,
                                const struct lull_job_parallel *parallel, struct lull_error *err)
{
    const int rc = builder_init(builder, parallel, err);

    if (rc < 0)
        return rc;
    for (uint32_t device = 0; device < parallel->pipeline; device++)
        parallel_build_add_device(builder, device);
    pass_all(builder);
    add_hosts(builder);
    if (builder->rc < 0)
        return lull_error_set(err, builder->rc, "too many tasks, or a task of over 1000 s");
    return lull_job_graph_finish(&builder->graph, err);
}

int lull_job_parallel_build(const struct lull_job_parallel *parallel,
                            struct lull_job_graph *graph_out, struct lull_error *err)
{
    struct parallel_builder builder = {.parallel = parallel};
    int rc = parallel_build_check(parallel, err);

    if (rc < 0)
        return rc;
    rc = parallel_build_graph(&builder, parallel, err);
    lull_pipeline_order_fini(&builder.order);
    free(builder.device);
    free(builder.forward);
    free(builder.backward);
    free(builder.optimizer);
    if (rc < 0)
        lull_job_graph_fini(&builder.graph);
    else
        *graph_out = builder.graph;
    return rc;
}
