/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/model/job_parallel.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/pipeline/schedule/order.h"

/* ---- what its parts take ------------------------------------------------------------------- */

/* Rounds a time. One that is too long for a task stays too long, and is refused when it is added.
 */
static int64_t to_ns(double time_ns)
{
    return llround(fmin(time_ns, 2.0 * (double)LULL_JOB_MOST_TASK_NS));
}

int64_t lull_job_transfer_ns(const struct lull_job_link *link, double bytes)
{
    return to_ns((double)link->latency_ns + link->ns_per_byte * bytes);
}

static double ring_ns(const struct lull_job_link *link, double bytes, uint32_t ranks)
{
    const double steps = 2.0 * (ranks - 1.0);

    return steps * ((double)link->latency_ns + link->ns_per_byte * bytes / ranks);
}

int64_t lull_job_all_reduce_ns(const struct lull_job_link *link, double bytes, uint32_t ranks)
{
    return to_ns(ring_ns(link, bytes, ranks));
}

int64_t lull_job_parallel_compute_ns(const struct lull_job_parallel *parallel,
                                     enum lull_pipeline_kind kind, bool is_last_chunk)
{
    const int64_t forward = parallel->forward_ns + (is_last_chunk ? parallel->head_forward_ns : 0);
    const int64_t backward =
        parallel->backward_ns + (is_last_chunk ? parallel->head_backward_ns : 0);

    switch (kind) {
    case LULL_PIPELINE_BACKWARD:
        return backward;
    case LULL_PIPELINE_INPUT:
        return backward / 2;
    case LULL_PIPELINE_WEIGHT:
        return backward - backward / 2;
    default:
        return forward;
    }
}

/* The gradient of the weights needs no collective, so that a pass for it alone sends nothing. */
int64_t lull_job_parallel_tensor_ns(const struct lull_job_parallel *parallel,
                                    enum lull_pipeline_kind kind)
{
    const bool is_backward = kind == LULL_PIPELINE_BACKWARD || kind == LULL_PIPELINE_INPUT;
    const uint32_t calls = is_backward ? parallel->backward_calls : parallel->forward_calls;
    const int64_t known_ns = is_backward ? parallel->backward_link_ns : parallel->forward_link_ns;

    if (kind == LULL_PIPELINE_WEIGHT)
        return 0;
    if (parallel->tensor == 1)
        return known_ns;
    return known_ns +
           to_ns(calls * ring_ns(&parallel->tensor_link, parallel->call_bytes, parallel->tensor));
}

int64_t lull_job_parallel_bucket_ns(const struct lull_job_parallel *parallel)
{
    const uint32_t chunks = parallel->schedule.chunks;
    const double bytes = parallel->gradient_bytes / chunks / parallel->buckets;

    return parallel->data > 1
               ? lull_job_all_reduce_ns(&parallel->data_link, bytes, parallel->data) +
                     parallel->gradient_link_ns / chunks / parallel->buckets
               : 0;
}

uint64_t lull_job_parallel_gpus(const struct lull_job_parallel *parallel)
{
    return (uint64_t)parallel->data * parallel->tensor * parallel->pipeline;
}

/* ---- building ----------------------------------------------------------------------------- */

/* Resources of device d of n: d, d + n LINK, ... */
enum { TENSOR_LINK = 1, NEXT_LINK, PREVIOUS_LINK, DATA_LINK, RESOURCES };

/* The tasks of an action: from its first it needs what it waits for, after its last it is done. */
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
    int rc; /* the first error */
};

static uint32_t resource(const struct parallel_builder *builder, uint32_t device, uint32_t which)
{
    return which * builder->parallel->pipeline + device;
}

static int64_t add(struct parallel_builder *builder, enum lull_job_task_kind kind, uint32_t at,
                   uint32_t device, int64_t time_ns)
{
    const struct lull_job_task task = {kind, at, device, time_ns};
    const int64_t index = lull_job_graph_add(&builder->graph, &task);

    if (index < 0 && builder->rc == 0)
        builder->rc = (int)index;
    return index;
}

static void connect(struct parallel_builder *builder, int64_t from, int64_t to)
{
    if (from >= 0 && to >= 0 && builder->rc == 0)
        builder->rc = lull_job_graph_connect(&builder->graph, (uint32_t)from, (uint32_t)to);
}

/* One of `parts` equal pieces of an action behind what the device did before. */
static void add_piece(struct parallel_builder *builder, const struct lull_pipeline_action *action,
                      uint32_t device, uint32_t part, uint32_t parts, struct action_tasks *done)
{
    const bool is_last = action->stage + 1 == builder->order.stages;
    const int64_t whole_ns = lull_job_parallel_compute_ns(builder->parallel, action->kind, is_last);
    const int64_t link_ns = lull_job_parallel_tensor_ns(builder->parallel, action->kind);
    const int64_t compute = add(builder, LULL_JOB_COMPUTE, device, device,
                                whole_ns * (part + 1) / parts - whole_ns * part / parts);
    int64_t last = compute;

    if (link_ns > 0) {
        last = add(builder, LULL_JOB_TRANSFER, resource(builder, device, TENSOR_LINK), device,
                   link_ns * (part + 1) / parts - link_ns * part / parts);
        connect(builder, compute, last);
    }
    if (part == 0)
        done->first = compute;
    else
        connect(builder, done->last, compute);
    done->last = last;
}

static struct action_tasks *done_of(const struct parallel_builder *builder,
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

/* Tells whether the chunk's gradient is complete with this action. */
static bool is_last_gradient(const struct lull_pipeline_row *row, size_t at)
{
    if (!makes_gradient(&row->actions[at]))
        return false;
    for (size_t i = at + 1; i < row->count; i++)
        if (makes_gradient(&row->actions[i]) && row->actions[i].stage == row->actions[at].stage)
            return false;
    return true;
}

/* An action; where the chunk's gradient is complete with it, in pieces that each release a bucket,
 * which the optimizer waits for. */
static struct action_tasks add_action(struct parallel_builder *builder, uint32_t device, size_t at,
                                      int64_t optimizer)
{
    const struct lull_pipeline_row *row = &builder->order.rows[device];
    const bool is_reduced = builder->parallel->data > 1 && is_last_gradient(row, at);
    const uint32_t parts = is_reduced ? builder->parallel->buckets : 1;
    struct action_tasks *slot = done_of(builder, &row->actions[at]);
    struct action_tasks done = {-1, -1};

    for (uint32_t part = 0; part < parts; part++) {
        add_piece(builder, &row->actions[at], device, part, parts, &done);
        if (is_reduced) {
            const int64_t bucket =
                add(builder, LULL_JOB_TRANSFER, resource(builder, device, DATA_LINK), device,
                    lull_job_parallel_bucket_ns(builder->parallel));

            connect(builder, done.last, bucket);
            connect(builder, bucket, optimizer);
        }
    }
    if (slot != NULL)
        *slot = done;
    return done;
}

static void add_device(struct parallel_builder *builder, uint32_t device)
{
    const struct lull_pipeline_row *row = &builder->order.rows[device];
    const int64_t optimizer =
        add(builder, LULL_JOB_COMPUTE, device, device, builder->parallel->optimizer_ns);
    int64_t before = -1;

    for (size_t i = 0; i < row->count && builder->rc == 0; i++) {
        const struct action_tasks done = add_action(builder, device, i, optimizer);

        connect(builder, before, done.first);
        before = done.last;
        builder->device[row->actions[i].stage] = device;
    }
    connect(builder, before, optimizer);
}

/* Data from one chunk's action to another's: a transfer where they are on two devices. */
static void pass(struct parallel_builder *builder, const struct action_tasks *from,
                 uint32_t from_device, const struct action_tasks *to, uint32_t to_device,
                 uint32_t which)
{
    const int64_t time_ns =
        lull_job_transfer_ns(&builder->parallel->stage_link, builder->parallel->stage_bytes);
    int64_t transfer;

    if (from_device == to_device || time_ns == 0) {
        connect(builder, from->last, to->first);
        return;
    }
    transfer =
        add(builder, LULL_JOB_TRANSFER, resource(builder, from_device, which), to_device, time_ns);
    connect(builder, from->last, transfer);
    connect(builder, transfer, to->first);
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

            pass(builder, &builder->forward[here], device, &builder->forward[next], next_device,
                 NEXT_LINK);
            pass(builder, &builder->backward[next], next_device, &builder->backward[here], device,
                 PREVIOUS_LINK);
        }
}

/* ---- checking ----------------------------------------------------------------------------- */

static bool is_within(double value, double most)
{
    return value >= 0.0 && value <= most;
}

static int check(const struct lull_job_parallel *parallel, struct lull_error *err)
{
    const double most_ns = (double)LULL_JOB_MOST_TASK_NS;
    const double most_bytes = 1e15;
    const struct lull_job_link *const links[] = {&parallel->tensor_link, &parallel->stage_link,
                                                 &parallel->data_link};

    if (parallel->data == 0 || parallel->tensor == 0 || parallel->pipeline == 0 ||
        parallel->buckets == 0)
        return lull_error_set(err, -EINVAL, "data, tensor, pipeline and buckets are above 0");
    if (parallel->forward_ns <= 0 || parallel->backward_ns <= 0 || parallel->head_forward_ns < 0 ||
        parallel->head_backward_ns < 0 || parallel->optimizer_ns < 0 ||
        parallel->forward_link_ns < 0 || parallel->backward_link_ns < 0 ||
        parallel->gradient_link_ns < 0)
        return lull_error_set(
            err, -EINVAL,
            "a forward and a backward take more than 0 s, and no other time is below 0");
    if (!is_within(parallel->call_bytes, most_bytes) ||
        !is_within(parallel->stage_bytes, most_bytes) ||
        !is_within(parallel->gradient_bytes, most_bytes))
        return lull_error_set(err, -EINVAL, "a size is between 0 and 1e15 bytes");
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
        if (!is_within((double)links[i]->latency_ns, most_ns) ||
            !is_within(links[i]->ns_per_byte, 1e6))
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
    if (builder->device == NULL || builder->forward == NULL || builder->backward == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu micro-batches", count);
    for (uint32_t i = 0; i < RESOURCES * parallel->pipeline; i++) {
        const struct lull_job_resource link = {1, i < parallel->pipeline ? LULL_JOB_BY_RANK
                                                                         : LULL_JOB_SHORTEST_FIRST};
        const int64_t index = lull_job_graph_add_resource(&builder->graph, &link);

        if (index < 0)
            return lull_error_set(err, (int)index, "no room for %u devices", parallel->pipeline);
    }
    return 0;
}

static int build(struct parallel_builder *builder, const struct lull_job_parallel *parallel,
                 struct lull_error *err)
{
    const int rc = builder_init(builder, parallel, err);

    if (rc < 0)
        return rc;
    for (uint32_t device = 0; device < parallel->pipeline; device++)
        add_device(builder, device);
    pass_all(builder);
    if (builder->rc < 0)
        return lull_error_set(err, builder->rc, "too many tasks, or a task of over 1000 s");
    return lull_job_graph_finish(&builder->graph, err);
}

int lull_job_parallel_build(const struct lull_job_parallel *parallel,
                            struct lull_job_graph *graph_out, struct lull_error *err)
{
    struct parallel_builder builder = {.parallel = parallel};
    int rc = check(parallel, err);

    if (rc < 0)
        return rc;
    rc = build(&builder, parallel, err);
    lull_pipeline_order_fini(&builder.order);
    free(builder.device);
    free(builder.forward);
    free(builder.backward);
    if (rc < 0)
        lull_job_graph_fini(&builder.graph);
    else
        *graph_out = builder.graph;
    return rc;
}

/* ---- as operating points ------------------------------------------------------------------ */

int64_t lull_job_parallel_points(const struct lull_job_parallel *parallel,
                                 const struct lull_job_graph *graph,
                                 const struct lull_job_tempo *tempo, uint32_t clock_count,
                                 uint64_t iterations, uint32_t type,
                                 struct lull_cluster_point *points_out)
{
    const uint64_t device_gpus = (uint64_t)parallel->data * parallel->tensor;
    int64_t count = 0;

    for (uint32_t clock = 0; clock < clock_count; clock++) {
        struct lull_job_iteration once;
        const int rc =
            lull_job_iterate(graph, parallel->pipeline, device_gpus, &tempo[clock], &once);

        if (rc < 0)
            return rc;
        if (once.time_ns > (int64_t)((uint64_t)LULL_CLUSTER_MOST_NS / iterations))
            continue;
        points_out[count++] = (struct lull_cluster_point){
            .type = type,
            .gpus = (uint32_t)lull_job_parallel_gpus(parallel),
            .sm_mhz = tempo[clock].sm_mhz,
            .time_ns = once.time_ns * (int64_t)iterations,
            .energy_j = once.energy_j * (double)iterations,
        };
    }
    return count;
}

/* ---- from a transformer's sizes -------------------------------------------------------------- */

const struct lull_job_matrix lull_job_matrix_a100 = {312e12, 0.82, 440.0};
const struct lull_job_matrix lull_job_matrix_h100_fp8 = {1979e12, 0.74, 440.0};

enum { BYTES = 2 }; /* of an activation or a gradient */

/* No task takes less than a nanosecond. */
static int64_t task_ns(double seconds)
{
    return to_ns(fmax(seconds * 1e9, 1.0));
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
    parallel->forward_ns = task_ns(layers * forward / speed);
    parallel->backward_ns = task_ns(layers * (2.0 * forward + again) / speed);
    parallel->head_forward_ns = task_ns(head / speed);
    parallel->head_backward_ns = task_ns(2.0 * head / speed);
    parallel->forward_calls = (uint32_t)lround(2.0 * layers);
    parallel->backward_calls = (uint32_t)lround(backward_calls * layers);
    parallel->call_bytes = BYTES * tokens * hidden;
    parallel->stage_bytes = BYTES * tokens * hidden / parallel->tensor;
    parallel->gradient_bytes = BYTES * gradients / parallel->tensor / parallel->pipeline;
}
