/*
 * The presets. Marks give the source of a value: [P] it is published, [M] it was measured, [guess]
 * no source gives it.
 *
 * Durations are those of A100s; those of collectives are in emulator/collective.h.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/player/presets.h"

#include <errno.h>
#include <string.h>

#include "emulator/collective.h"

enum { COMPUTE_STREAM, COMM_STREAM };

/* Bandwidths of links, GB/s [P: NCCL's bus bandwidths of large messages], and the number of SMs
 * that drive them. */
static const double nvlink_gbs = 230;
static const double infiniband_gbs = 23;   /* of a 200 Gb/s adapter */
static const double ethernet_gbs = 12;     /* of a 100 Gb/s adapter */
static const double network_start_us = 30; /* a few steps [P: NCCL's cost model] */
static const char timed_gpu[] = "A100-SXM4-80GB";
enum { NVLINK_CHANNELS = 16, NETWORK_CHANNELS = 4 };

/* Adds operations to one rank; after an error it does nothing more. */
struct presets_builder {
    struct lull_play *play;
    uint32_t rank;
    int32_t done; /* the operation with the latest result of the rank's computation, which the next
                     one needs */
    int result;
    struct lull_error *err;
};

static int32_t preset_add(struct presets_builder *builder, const struct lull_play_op *op)
{
    int index;

    if (builder->result < 0)
        return LULL_PLAY_NONE;
    index = lull_play_add(builder->play, builder->rank, op, builder->err);
    if (index >= 0)
        return index;
    builder->result = index;
    return LULL_PLAY_NONE;
}

/* The index of the latest operation of the rank. */
static int32_t preset_latest_op(const struct presets_builder *builder)
{
    return (int32_t)builder->play->ranks[builder->rank].count - 1;
}

static int32_t preset_add_compute(struct presets_builder *builder, double ms, const char *profile,
                                  int32_t after)
{
    const double kernel_ms =
        0.2; /* the mean length of many kernels [M: recorded traces, roughly] */
    const struct lull_play_op op = {
        .kind = LULL_PLAY_COMPUTE,
        .stream = COMPUTE_STREAM,
        .depends = {after, LULL_PLAY_NONE},
        .duration_ms = ms,
        .profile = profile,
        .kernels = ms > kernel_ms ? (uint32_t)(ms / kernel_ms) : 1,
    };

    builder->done = preset_add(builder, &op);
    return builder->done;
}

static void begin_step(struct presets_builder *builder, int32_t op)
{
    if (op != LULL_PLAY_NONE)
        builder->play->ranks[builder->rank].ops[op].begins_step = true;
}

struct traffic {
    enum lull_play_function function;
    uint32_t stream;
    uint32_t communicator;
    uint32_t world_ranks; /* ranks of the job, which determine the bytes on the link */
    uint32_t peer;
    double bytes;
    double gbs;
};

/* Time of an operation of all ranks. NCCL gets the shard of a rank where it gathers or scatters. */
static double collective_s(const struct traffic *traffic, enum lull_collective operation)
{
    const bool is_shard =
        operation == LULL_COLLECTIVE_ALL_GATHER || operation == LULL_COLLECTIVE_REDUCE_SCATTER;
    const uint32_t ranks = traffic->world_ranks;
    const double bytes = is_shard ? traffic->bytes * ranks : traffic->bytes;
    const struct lull_collective_line network = {network_start_us, traffic->gbs};
    const struct lull_collective_time time =
        traffic->gbs < nvlink_gbs
            ? lull_collective_over(&network, operation, ranks, bytes)
            : lull_collective_in_node(lull_collective_find(timed_gpu), operation, ranks, bytes);

    return time.start_s + time.transfer_s;
}

static double communication_s(const struct traffic *traffic)
{
    switch (traffic->function) {
    case LULL_PLAY_ALL_REDUCE:
        return collective_s(traffic, LULL_COLLECTIVE_ALL_REDUCE);
    case LULL_PLAY_ALL_GATHER:
        return collective_s(traffic, LULL_COLLECTIVE_ALL_GATHER);
    case LULL_PLAY_REDUCE_SCATTER:
        return collective_s(traffic, LULL_COLLECTIVE_REDUCE_SCATTER);
    case LULL_PLAY_ALL_TO_ALL:
        return collective_s(traffic, LULL_COLLECTIVE_ALL_TO_ALL);
    default: /* between two ranks, over the network */
        return network_start_us * 1e-6 + traffic->bytes / (traffic->gbs * 1e9);
    }
}

static int32_t add_communication(struct presets_builder *builder, const struct traffic *traffic,
                                 int32_t after, int32_t after_too)
{
    const struct lull_play_op op = {
        .kind = LULL_PLAY_COMMUNICATION,
        .stream = traffic->stream,
        .depends = {after, after_too},
        .duration_ms = communication_s(traffic) * 1e3,
        .function = traffic->function,
        .communicator = traffic->communicator,
        .peer = traffic->peer,
        .bytes = (uint64_t)traffic->bytes,
        .link_gbs = traffic->gbs,
        .channels = traffic->gbs < nvlink_gbs ? NETWORK_CHANNELS : NVLINK_CHANNELS,
    };

    return preset_add(builder, &op);
}

/* Adds a communicator of all ranks, which represent a job of world_ranks. */
static int add_world(struct lull_play *play, const char *name, uint32_t world_ranks,
                     struct lull_error *err)
{
    const int index = lull_play_add_communicator(play, name, (1u << play->rank_count) - 1, err);

    if (index >= 0 && world_ranks > play->rank_count)
        play->communicators[index].world_ranks = world_ranks;
    return index;
}

/* ---- data parallel: buckets of 25 MB, the first of 1 MB, after the backward pass ---- */

struct ddp {
    double gradient_mb;
    double forward_ms;
    double backward_ms;
    double optimizer_ms; /* the optimizer is bound by memory */
    uint32_t world_ranks;
    double gbs;
};

static int build_ddp(struct lull_play *play, const struct ddp *job, struct lull_error *err)
{
    const double bucket_mb = 25;
    const int world = add_world(play, "default_pg", job->world_ranks, err);
    struct presets_builder builder = {.play = play, .err = err, .result = world < 0 ? world : 0};

    for (; builder.rank < play->rank_count && builder.result == 0; builder.rank++) {
        struct traffic bucket = {
            LULL_PLAY_ALL_REDUCE, COMM_STREAM, (uint32_t)world, job->world_ranks, 0, 1e6, job->gbs};
        int32_t reduced = LULL_PLAY_NONE;

        begin_step(&builder,
                   preset_add_compute(&builder, job->forward_ms, "training", LULL_PLAY_NONE));
        /* NOLINTNEXTLINE(*FloatLoopCounter): the last bucket takes exactly what is left. */
        for (double left_mb = job->gradient_mb; left_mb > 0; left_mb -= bucket.bytes * 1e-6) {
            if (left_mb < job->gradient_mb)
                bucket.bytes = (left_mb < bucket_mb ? left_mb : bucket_mb) * 1e6;
            preset_add_compute(&builder, job->backward_ms * bucket.bytes * 1e-6 / job->gradient_mb,
                               "training", LULL_PLAY_NONE);
            reduced =
                add_communication(&builder, &bucket, preset_latest_op(&builder), LULL_PLAY_NONE);
        }
        preset_add_compute(&builder, job->optimizer_ms, "stream", reduced);
    }
    return builder.result;
}

static int build_resnet50(struct lull_play *play, struct lull_error *err)
{
    /* 25.6 M parameters in fp32; 256 images at 2500 a second [guess, from memory]. */
    const struct ddp job = {102, 33, 66, 3, 16, ethernet_gbs};

    return build_ddp(play, &job, err);
}

static int build_bert(struct lull_play *play, struct lull_error *err)
{
    /* 340 M parameters, fp16 gradients; one step of accumulation [guess]. */
    const struct ddp job = {680, 75, 150, 12, 16, ethernet_gbs};

    return build_ddp(play, &job, err);
}

/* ---- fully sharded: AllGather per layer, twice; ReduceScatter in the backward pass ---- */

enum { FSDP_LAYERS = 24, FSDP_WORLD = 8 };

/* Gathers a layer's shards before it computes, or scatters its gradients afterwards. */
static int32_t preset_exchange(struct presets_builder *builder, enum lull_play_function function,
                               uint32_t world, int32_t after)
{
    const double layer_bytes = 50e6 * 2; /* 50 M parameters, bf16 */
    const struct traffic traffic = {
        function, COMM_STREAM, world, FSDP_WORLD, 0, layer_bytes / FSDP_WORLD, infiniband_gbs};

    return add_communication(builder, &traffic, after, LULL_PLAY_NONE);
}

/* Adds one pass over all layers; the next layer is gathered while one computes. */
static int32_t add_pass(struct presets_builder *builder, uint32_t world, double layer_ms,
                        bool is_backward)
{
    int32_t computed = preset_latest_op(builder);
    int32_t gathered = preset_exchange(builder, LULL_PLAY_ALL_GATHER, world, computed);
    int32_t scattered = LULL_PLAY_NONE;

    for (int layer = 0; layer < FSDP_LAYERS; layer++) {
        const int32_t ready = gathered;

        if (layer + 1 < FSDP_LAYERS)
            gathered = preset_exchange(builder, LULL_PLAY_ALL_GATHER, world, computed);
        computed = preset_add_compute(builder, layer_ms, "training", ready);
        if (is_backward)
            scattered = preset_exchange(builder, LULL_PLAY_REDUCE_SCATTER, world, computed);
    }
    return scattered;
}

static int build_gpt_fsdp(struct lull_play *play, struct lull_error *err)
{
    const int world = add_world(play, "fsdp", FSDP_WORLD, err);
    struct presets_builder builder = {.play = play, .err = err, .result = world < 0 ? world : 0};

    for (; builder.rank < play->rank_count && builder.result == 0; builder.rank++) {
        int32_t scattered;

        begin_step(&builder,
                   preset_add_compute(&builder, 2, "training", LULL_PLAY_NONE)); /* embedding */
        add_pass(&builder, (uint32_t)world, 8, false);
        scattered = add_pass(&builder, (uint32_t)world, 16, true);
        preset_add_compute(&builder, 10, "stream", scattered); /* the optimizer */
    }
    return builder.result;
}

/* ---- Megatron: tensor x pipeline x data parallel, 1F1B ---- */

enum { MICRO_BATCHES = 8, CHUNKS = 2 };
enum {
    TENSOR_STREAM = 1,
    RECV_STREAM,
    SEND_STREAM,
    RECV_BACK_STREAM,
    SEND_BACK_STREAM,
    DATA_STREAM
};

struct megatron {
    uint32_t tensor;
    uint32_t pipeline;
    uint32_t data;
    uint32_t stage;     /* stage of the rank that is being built */
    uint32_t groups[3]; /* its communicators for tensor, pipeline and data */
};

static uint32_t spaced_members(uint32_t first, uint32_t count, uint32_t distance)
{
    uint32_t members = 0;

    for (uint32_t i = 0; i < count; i++)
        members |= 1u << (first + i * distance);
    return members;
}

/* Returns the communicator of these members, which it adds if there is none of that name. */
static int preset_group_of(struct lull_play *play, const char *name, uint32_t members,
                           struct lull_error *err)
{
    for (uint32_t i = 0; i < play->communicator_count; i++)
        if (play->communicators[i].members == members &&
            strcmp(play->communicators[i].name, name) == 0)
            return (int)i;
    return lull_play_add_communicator(play, name, members, err);
}

/* Megatron's order: rank = tensor + T (data + D stage). */
static int find_groups(struct lull_play *play, struct megatron *job, uint32_t rank,
                       struct lull_error *err)
{
    const uint32_t in_stage = job->tensor * job->data;
    const uint32_t data_first = rank / in_stage * in_stage + rank % job->tensor;
    const uint32_t members[3] = {
        spaced_members(rank / job->tensor * job->tensor, job->tensor, 1),
        spaced_members(rank % in_stage, job->pipeline, in_stage),
        spaced_members(data_first, job->data, job->tensor),
    };
    static const char *const names[3] = {"TENSOR_MODEL_PARALLEL_GROUP",
                                         "PIPELINE_MODEL_PARALLEL_GROUP", "DATA_PARALLEL_GROUP"};

    for (int i = 0; i < 3; i++) {
        const int index = preset_group_of(play, names[i], members[i], err);

        if (index < 0)
            return index;
        job->groups[i] = (uint32_t)index;
    }
    return 0;
}

/* Adds a send to, or a receive from, the stage at this distance. A receive that spins is a bubble.
 */
static int32_t preset_forward(struct presets_builder *builder, const struct megatron *job,
                              enum lull_play_function function, uint32_t stream, int32_t stages)
{
    const double activation_bytes = 50e6;
    const int32_t peer = (int32_t)builder->rank + stages * (int32_t)(job->tensor * job->data);
    const struct traffic traffic = {function,       stream,           job->groups[1], 2,
                                    (uint32_t)peer, activation_bytes, infiniband_gbs};

    return add_communication(builder, &traffic, builder->done, LULL_PLAY_NONE);
}

/* Adds the layers of a stage, with an AllReduce of the tensor-parallel ranks after each part. */
static void add_stage(struct presets_builder *builder, const struct megatron *job, double ms,
                      int32_t input)
{
    const double activation_bytes = 50e6;
    const struct traffic reduce = {
        LULL_PLAY_ALL_REDUCE, TENSOR_STREAM, job->groups[0], job->tensor, 0,
        activation_bytes,     nvlink_gbs};

    for (int i = 0; i < CHUNKS; i++) {
        preset_add_compute(builder, ms / CHUNKS, "training", i == 0 ? input : builder->done);
        if (job->tensor > 1)
            builder->done = add_communication(builder, &reduce, builder->done, LULL_PLAY_NONE);
    }
}

/* Adds the forward or the backward of a micro-batch: its input comes from the stage before it in
 * that direction, and its result goes to the stage behind it. */
static void add_pass_of_stage(struct presets_builder *builder, const struct megatron *job,
                              bool is_backward)
{
    /* A GPT-3 stage takes 50 ms [M]; here the micro-batch is smaller. */
    const double ms = is_backward ? 40 : 20;
    const int32_t next = is_backward ? -1 : 1;
    const bool is_first = job->stage == 0;
    const bool is_last = job->stage + 1 == job->pipeline;
    int32_t input = builder->done;

    if (is_backward ? !is_last : !is_first)
        input = preset_forward(builder, job, LULL_PLAY_RECV,
                               is_backward ? RECV_BACK_STREAM : RECV_STREAM, -next);
    add_stage(builder, job, ms, input);
    if (is_backward ? !is_first : !is_last)
        preset_forward(builder, job, LULL_PLAY_SEND, is_backward ? SEND_BACK_STREAM : SEND_STREAM,
                       next);
}

/* 1F1B: a stage runs ahead by as many forwards as there are stages behind it. */
static void add_1f1b(struct presets_builder *builder, const struct megatron *job)
{
    const uint32_t depth = job->pipeline - job->stage - 1;
    const uint32_t warm = depth < MICRO_BATCHES ? depth : MICRO_BATCHES;

    for (uint32_t i = 0; i < MICRO_BATCHES + warm; i++) {
        if (i < MICRO_BATCHES)
            add_pass_of_stage(builder, job, false);
        if (i >= warm)
            add_pass_of_stage(builder, job, true);
    }
}

static int build_megatron(struct lull_play *play, struct lull_error *err)
{
    const uint32_t ranks = play->rank_count;
    struct megatron job = {.pipeline = ranks >= 16 ? 4 : 2, .tensor = ranks >= 4 ? 2 : 1};
    struct presets_builder builder = {.play = play, .err = err};

    job.data = ranks / job.pipeline / job.tensor;
    if (job.data * job.pipeline * job.tensor != ranks || (ranks & (ranks - 1)) != 0)
        return lull_error_set(err, -EINVAL, "megatron-3d: %u ranks; it takes 2, 4, 8 or 16", ranks);
    for (; builder.rank < ranks && builder.result == 0; builder.rank++) {
        const double gradient_bytes = 700e6;
        struct traffic reduce = {LULL_PLAY_ALL_REDUCE, DATA_STREAM,   0, job.data, 0,
                                 gradient_bytes,       infiniband_gbs};
        int32_t reduced = LULL_PLAY_NONE;

        builder.result = find_groups(play, &job, builder.rank, err);
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): their product is the number of ranks. */
        job.stage = builder.rank / (job.tensor * job.data);
        builder.done = LULL_PLAY_NONE;
        reduce.communicator = job.groups[2];
        add_1f1b(&builder, &job);
        begin_step(&builder, 0);
        if (job.data > 1)
            reduced = add_communication(&builder, &reduce, builder.done, LULL_PLAY_NONE);
        preset_add_compute(&builder, 10, "stream", reduced); /* the optimizer */
    }
    return builder.result;
}

/* ---- mixture of experts: all-to-all before and after the experts ---- */

static void add_moe_layer(struct presets_builder *builder, const struct traffic *exchange,
                          double scale)
{
    int32_t sent;

    preset_add_compute(builder, 4 * scale, "training",
                       preset_latest_op(builder)); /* attention, gate */
    sent = add_communication(builder, exchange, preset_latest_op(builder), LULL_PLAY_NONE);
    preset_add_compute(builder, 6 * scale, "training", sent); /* the experts */
    add_communication(builder, exchange, preset_latest_op(builder), LULL_PLAY_NONE);
}

static int build_moe(struct lull_play *play, struct lull_error *err)
{
    enum { layers = 6, world_ranks = 32 };
    const int world = add_world(play, "EXPERT_MODEL_PARALLEL_GROUP", world_ranks, err);
    struct presets_builder builder = {.play = play, .err = err, .result = world < 0 ? world : 0};

    for (; builder.rank < play->rank_count && builder.result == 0; builder.rank++) {
        const struct traffic exchange = {LULL_PLAY_ALL_TO_ALL, COMM_STREAM, (uint32_t)world,
                                         world_ranks,          0,           120e6,
                                         infiniband_gbs};

        begin_step(&builder, preset_add_compute(&builder, 2, "training", LULL_PLAY_NONE));
        for (int layer = 0; layer < 2 * layers; layer++) /* forward, then backward */
            add_moe_layer(&builder, &exchange, layer < layers ? 1 : 2);
        preset_add_compute(&builder, 10, "stream", preset_latest_op(&builder));
    }
    return builder.result;
}

/* ---- inference, tensor parallel: prefill, tokens one by one, then no request for a while ---- */

static void add_token(struct presets_builder *builder, const struct traffic *reduce, double ms,
                      const char *profile)
{
    enum { parts = 4 }; /* the layers are played in this many parts, each with its reductions */

    for (int i = 0; i < parts; i++) {
        preset_add_compute(builder, ms / parts, profile, preset_latest_op(builder));
        add_communication(builder, reduce, preset_latest_op(builder), LULL_PLAY_NONE);
    }
}

static int build_inference(struct lull_play *play, struct lull_error *err)
{
    enum { tokens = 24 };
    const double prefill_ms = 160;
    const double token_ms = 12;
    const double idle_ms = 800;
    const int world = add_world(play, "tp", play->rank_count, err);
    struct presets_builder builder = {.play = play, .err = err, .result = world < 0 ? world : 0};

    for (; builder.rank < play->rank_count && builder.result == 0; builder.rank++) {
        struct traffic reduce = {LULL_PLAY_ALL_REDUCE,
                                 COMM_STREAM,
                                 (uint32_t)world,
                                 play->rank_count,
                                 0,
                                 1.5e9,
                                 nvlink_gbs};
        struct lull_play_rank *ops = &play->ranks[builder.rank];

        add_token(&builder, &reduce, prefill_ms, "training");
        begin_step(&builder, 0);
        reduce.bytes = 32e6; /* for a batch, with all reductions of a part together */
        for (int token = 0; token < tokens; token++)
            add_token(&builder, &reduce, token_ms, "stream");
        if (builder.result < 0)
            break;
        ops->ops[0].delay_ms = idle_ms; /* the pause follows the last token */
        ops->ops[0].depends[0] = preset_latest_op(&builder);
        ops->ops[0].lead_ms = play->lead_ms;
    }
    return builder.result;
}

/* ---- the table ---- */

const struct lull_play_preset lull_play_presets[] = {
    {"resnet50-ddp", "ResNet-50, data parallel, 16 nodes over 100 Gb Ethernet",
     "buckets of 25 MB behind the backward pass, the tail exposed [P: PyTorch DDP]; rates [guess]",
     2, 0.1, 0.25, build_resnet50},
    {"bert-ddp", "BERT-large, data parallel, 16 nodes over 100 Gb Ethernet",
     "communication 20 % to over 50 % of an iteration [P: survey]; buckets [P: PyTorch DDP]; "
     "lengths [guess]",
     2, 0.2, 0.55, build_bert},
    {"gpt-fsdp", "GPT of 24 layers, fully sharded over 8 nodes with 200 Gb InfiniBand",
     "communication 20 % to over 50 % of an iteration [P: survey]; AllGather per layer in both "
     "passes, ReduceScatter in the backward pass [P: FSDP]; lengths [guess]",
     2, 0.2, 0.6, build_gpt_fsdp},
    {"megatron-3d", "GPT, tensor x pipeline x data parallel, 1F1B with 8 micro-batches",
     "bubble (P-1)/(M+P-1) [P: 1F1B]; forward and backward in the ratio of GPT-3 stages on A100 "
     "[M: Perseus], shortened; other communication [guess]",
     8, 0.2, 0.6, build_megatron},
    {"moe-alltoall", "mixture of experts, 32 ranks with 200 Gb InfiniBand",
     "communication 20 % to over 50 % of an iteration [P: survey]; exposed all-to-all before and "
     "behind the experts [P]; lengths [guess]",
     2, 0.2, 0.55, build_moe},
    {"llm-inference", "tensor-parallel inference: prefill, 24 tokens, a pause",
     "61 % of the time in execution idle [P: 756-GPU cluster, serving]; decode memory-bound [P]; "
     "lengths [guess]",
     2, 0.02, 0.1, build_inference},
};

const uint32_t lull_play_preset_count = sizeof(lull_play_presets) / sizeof(lull_play_presets[0]);

const struct lull_play_preset *lull_play_find_preset(const char *name)
{
    for (uint32_t i = 0; i < lull_play_preset_count; i++)
        if (strcmp(lull_play_presets[i].name, name) == 0)
            return &lull_play_presets[i];
    return NULL;
}

int lull_play_preset_create(const struct lull_play_preset *preset, uint32_t ranks,
                            struct lull_play **play_out, struct lull_error *err)
{
    const double jitter_ratio = 0.003; /* [guess] */
    struct lull_play *play = NULL;
    int result = lull_play_create(ranks > 0 ? ranks : preset->ranks, &play, err);

    if (result < 0)
        return result;
    play->jitter_ratio = jitter_ratio;
    play->seed = 1;
    result = preset->build(play, err);
    if (result < 0)
        goto destroy_play;
    result = lull_play_finish(play, err);
    if (result < 0)
        goto destroy_play;
    *play_out = play;
    return 0;

destroy_play:
    lull_play_destroy(play);
    return result;
}
