/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/play/pipeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "core/pipeline/schedule/schedule.h"

enum { COMPUTE_STREAM, REDUCE_STREAM, FIRST_PEER_STREAM };
enum { CHANNELS = 2, PEERS = LULL_PLAY_STREAMS - FIRST_PEER_STREAM };

/* On a link this slow, transfers take as long at any SM clock: */
static const double link_gbs = 1.0;

/* ---- building ---- */

struct pipeline_builder {
    const struct lull_play_pipeline *pipeline;
    const struct lull_pipeline_graph *graph;
    const struct lull_pipeline_profile *profile;
    struct lull_play *play;
    struct lull_error *err;
    int result;
    uint32_t replica;
    uint32_t stage; /* the device of the graph, whose rank is being built */
    int32_t *op_of; /* for each operation of the graph, the index of its operation in the play */
    uint32_t peers; /* number of streams: sends to a stage and receives from it have one each */
    struct {
        uint32_t stage;
        bool is_send;
    } peer[PEERS];
};

static uint32_t play_pipeline_rank_of(const struct pipeline_builder *builder, uint32_t stage)
{
    return builder->replica + (uint32_t)builder->pipeline->replicas * stage;
}

static int32_t play_pipeline_add(struct pipeline_builder *builder, const struct lull_play_op *op)
{
    const int index =
        builder->result < 0
            ? builder->result
            : lull_play_add(builder->play, play_pipeline_rank_of(builder, builder->stage), op,
                            builder->err);

    if (index < 0)
        builder->result = index;
    return index < 0 ? LULL_PLAY_NONE : index;
}

static uint32_t stream_of(struct pipeline_builder *builder, uint32_t stage, bool is_send)
{
    uint32_t i = 0;

    while (i < builder->peers &&
           (builder->peer[i].stage != stage || builder->peer[i].is_send != is_send))
        i++;
    if (i == PEERS) {
        builder->result =
            lull_error_set(builder->err, -ENOSPC, "%s: a stage talks to more than %d others",
                           builder->pipeline->schedule, PEERS / 2);
        return 0;
    }
    if (i == builder->peers) {
        builder->peer[i].stage = stage;
        builder->peer[i].is_send = is_send;
        builder->peers++;
    }
    return FIRST_PEER_STREAM + i;
}

static int32_t play_pipeline_add_transfer(struct pipeline_builder *builder, uint32_t other,
                                          bool is_send, int32_t after)
{
    const double duration_ms = builder->pipeline->latency_ms;
    const struct lull_play_op op = {
        .kind = LULL_PLAY_COMMUNICATION,
        .stream = stream_of(builder, other, is_send),
        .depends = {after, LULL_PLAY_NONE},
        .duration_ms = duration_ms,
        .function = is_send ? LULL_PLAY_SEND : LULL_PLAY_RECV,
        .communicator = builder->replica,
        .peer = play_pipeline_rank_of(builder, other),
        .bytes = (uint64_t)(duration_ms * link_gbs * 1e6),
        .link_gbs = link_gbs,
        .channels = CHANNELS,
    };

    return play_pipeline_add(builder, &op);
}

/* Finds the next other stage whose result the operation waits for, beginning with the edge *from.
 */
static bool find_source(const struct pipeline_builder *builder, uint32_t op, uint32_t *from,
                        uint32_t *stage_out)
{
    const struct lull_pipeline_graph *graph = builder->graph;

    for (; *from < graph->first_in[op + 1]; (*from)++) {
        const struct lull_pipeline_edge *edge = &graph->edges[graph->in_edges[*from]];

        if (graph->ops[edge->from].device == graph->ops[op].device)
            continue;
        *stage_out = graph->ops[edge->from].device;
        return true;
    }
    return false;
}

/* Posts the receives of an operation when the operation posted_after has ended. */
static void add_receives(struct pipeline_builder *builder, uint32_t op, int32_t posted_after,
                         int32_t received[LULL_PLAY_DEPENDENCIES])
{
    uint32_t from = builder->graph->first_in[op];
    uint32_t count = 0;
    uint32_t stage;

    received[0] = received[1] = LULL_PLAY_NONE;
    for (; find_source(builder, op, &from, &stage); from++) {
        if (count == LULL_PLAY_DEPENDENCIES) {
            builder->result = lull_error_set(builder->err, -EINVAL,
                                             "%s: an operation waits for more than %d stages",
                                             builder->pipeline->schedule, LULL_PLAY_DEPENDENCIES);
            return;
        }
        received[count++] = play_pipeline_add_transfer(builder, stage, false, posted_after);
    }
}

static void add_sends(struct pipeline_builder *builder, uint32_t op)
{
    const struct lull_pipeline_graph *graph = builder->graph;

    for (uint32_t i = graph->first_out[op]; i < graph->first_out[op + 1]; i++) {
        const uint32_t to = graph->ops[graph->edges[graph->out_edges[i]].to].device;

        if (to != graph->ops[op].device)
            play_pipeline_add_transfer(builder, to, true, builder->op_of[op]);
    }
}

static void play_pipeline_add_compute(struct pipeline_builder *builder, uint32_t op,
                                      const int32_t received[LULL_PLAY_DEPENDENCIES])
{
    const double kernel_ms = 0.2; /* about the mean of the kernels in the recorded traces */
    const struct lull_pipeline_class *class =
        &builder->profile->classes[builder->graph->ops[op].class_index];
    const double duration_ms = lull_ms_from_ns(class->points[0].time_ns);
    const bool is_forward_pass =
        class->kind == LULL_PIPELINE_FORWARD || class->kind == LULL_PIPELINE_RECOMPUTE;
    struct lull_play_op compute = {
        .kind = LULL_PLAY_COMPUTE,
        .stream = COMPUTE_STREAM,
        .depends = {received[0], received[1]},
        .duration_ms = duration_ms,
        .profile = is_forward_pass ? builder->pipeline->forward_kernels
                                   : builder->pipeline->backward_kernels,
        .kernels = duration_ms > kernel_ms ? (uint32_t)(duration_ms / kernel_ms) : 1,
    };

    if (builder->pipeline->announces)
        compute.section = is_forward_pass ? "forward" : "backward";

    builder->op_of[op] = play_pipeline_add(builder, &compute);
}

static void play_pipeline_add_operations(struct pipeline_builder *builder)
{
    const struct lull_pipeline_graph *graph = builder->graph;
    const uint32_t first = graph->first_on[builder->stage];
    const uint32_t end = graph->first_on[builder->stage + 1];
    int32_t received[LULL_PLAY_DEPENDENCIES];
    int32_t next[LULL_PLAY_DEPENDENCIES] = {LULL_PLAY_NONE, LULL_PLAY_NONE};
    int32_t ended = LULL_PLAY_NONE; /* the operation before this one on the stage */

    add_receives(builder, graph->on_device[first], LULL_PLAY_NONE, next);
    for (uint32_t i = first; i < end && builder->result == 0; i++) {
        memcpy(received, next, sizeof(received));
        if (i + 1 < end)
            add_receives(builder, graph->on_device[i + 1], ended, next);
        play_pipeline_add_compute(builder, graph->on_device[i], received);
        add_sends(builder, graph->on_device[i]);
        ended = builder->op_of[graph->on_device[i]];
    }
}

/* Adds the all-reduce of gradients between the replicas of a stage. */
static int32_t add_reduce(struct pipeline_builder *builder, int32_t after)
{
    const struct lull_play_pipeline *pipeline = builder->pipeline;
    const struct lull_play_op reduce = {
        .kind = LULL_PLAY_COMMUNICATION,
        .stream = REDUCE_STREAM,
        .depends = {after, LULL_PLAY_NONE},
        .duration_ms = pipeline->reduce_ms,
        .function = LULL_PLAY_ALL_REDUCE,
        /* The replicas' pipelines have the first communicators, then each stage has one. */
        .communicator = (uint32_t)pipeline->replicas + builder->stage,
        .bytes = (uint64_t)(pipeline->reduce_ms * link_gbs * 1e6),
        .link_gbs = link_gbs,
        .channels = CHANNELS,
    };

    return play_pipeline_add(builder, &reduce);
}

static void add_end(struct pipeline_builder *builder)
{
    const struct lull_play_pipeline *pipeline = builder->pipeline;
    const uint32_t last = builder->graph->first_on[builder->stage + 1] - 1;
    int32_t done = builder->op_of[builder->graph->on_device[last]];

    if (pipeline->replicas > 1)
        done = add_reduce(builder, done);
    if (pipeline->optimizer_ms > 0) {
        const struct lull_play_op optimizer = {
            .kind = LULL_PLAY_COMPUTE,
            .stream = COMPUTE_STREAM,
            .depends = {done, LULL_PLAY_NONE},
            .duration_ms = pipeline->optimizer_ms,
            .profile = "stream",
            .kernels = 1,
        };

        play_pipeline_add(builder, &optimizer);
    }
}

/* The first receives of an iteration are posted when the iteration before has ended. */
static void tie_iterations(struct lull_play_rank *rank)
{
    const int32_t last = (int32_t)rank->count - 1;

    for (uint32_t i = 0; i < rank->count; i++)
        if (rank->ops[i].function == LULL_PLAY_RECV && rank->ops[i].depends[0] == LULL_PLAY_NONE)
            rank->ops[i].depends[0] = last;
}

static void build_rank(struct pipeline_builder *builder)
{
    struct lull_play_rank *rank =
        &builder->play->ranks[play_pipeline_rank_of(builder, builder->stage)];
    uint32_t first = 0;

    builder->peers = 0;
    play_pipeline_add_operations(builder);
    if (builder->result == 0)
        add_end(builder);
    if (builder->result < 0)
        return;
    tie_iterations(rank);
    /* Receives are posted ahead, so an iteration begins with its first computation. */
    while (rank->ops[first].kind != LULL_PLAY_COMPUTE)
        first++;
    rank->ops[first].begins_step = true;
}

static int add_communicators(struct pipeline_builder *builder)
{
    const uint32_t stages = (uint32_t)builder->pipeline->stages;
    const uint32_t replicas = (uint32_t)builder->pipeline->replicas;
    int result = 0;

    for (builder->replica = 0; builder->replica < replicas && result >= 0; builder->replica++) {
        uint32_t members = 0;

        for (uint32_t stage = 0; stage < stages; stage++)
            members |= 1u << play_pipeline_rank_of(builder, stage);
        result = lull_play_add_communicator(builder->play, "PIPELINE_MODEL_PARALLEL_GROUP", members,
                                            builder->err);
    }
    for (uint32_t stage = 0; stage < stages && replicas > 1 && result >= 0; stage++)
        result =
            lull_play_add_communicator(builder->play, "DATA_PARALLEL_GROUP",
                                       ((1u << replicas) - 1) << stage * replicas, builder->err);
    return result < 0 ? result : 0;
}

static int build_ranks(struct pipeline_builder *builder)
{
    const struct lull_play_pipeline *pipeline = builder->pipeline;

    builder->result = add_communicators(builder);
    for (builder->replica = 0; builder->replica < pipeline->replicas; builder->replica++)
        for (builder->stage = 0; builder->stage < pipeline->stages && builder->result == 0;
             builder->stage++)
            build_rank(builder);
    return builder->result;
}

/* ---- the schedule ---- */

/* Builds a profile with one point for each operation, at the highest clock: a schedule needs
 * nothing but lengths here. */
static int nominal_profile(const struct lull_play_pipeline *pipeline,
                           struct lull_pipeline_profile *profile, struct lull_error *err)
{
    int result = 0;

    lull_pipeline_profile_init(profile);
    for (uint32_t stage = 0; stage < pipeline->stages && result >= 0; stage++) {
        const double ms[] = {pipeline->forward_ms, pipeline->backward_ms};

        for (int i = 0; i < 2 && result >= 0; i++) {
            const struct lull_pipeline_point option = {
                .time_ns = lull_ns_from_ms(ms[i] * pipeline->weights[stage]),
                .sm_mhz = 1,
            };

            result = lull_pipeline_profile_add(
                profile, 0, stage, i == 0 ? LULL_PIPELINE_FORWARD : LULL_PIPELINE_BACKWARD, 0,
                &option, err);
        }
    }
    return result < 0 ? result : 0;
}

static int play_pipeline_build_graph(const struct lull_play_pipeline *pipeline,
                                     struct lull_pipeline_profile *fitted_out,
                                     struct lull_pipeline_graph *graph_out, struct lull_error *err)
{
    const int64_t latency_ns = lull_ns_from_ms(pipeline->latency_ms);
    const struct lull_pipeline_shape shape = {
        .devices = (uint32_t)pipeline->stages,
        .microbatches = (uint32_t)pipeline->microbatches,
        .links = {.latency_ns = &latency_ns, .count = pipeline->stages > 1 ? 1 : 0},
        .replicas = {.count = 1},
    };
    struct lull_pipeline_schedule *schedule = calloc(1, sizeof(*schedule));
    struct lull_pipeline_profile nominal;
    int result = nominal_profile(pipeline, &nominal, err);

    if (schedule == NULL)
        result = lull_error_set(err, -ENOMEM, "no memory");
    if (result == 0)
        result = lull_pipeline_schedule_parse(pipeline->schedule, schedule, err);
    if (result == 0)
        result =
            lull_pipeline_schedule_build(schedule, &shape, &nominal, fitted_out, graph_out, err);
    lull_pipeline_profile_fini(&nominal);
    free(schedule);
    return result;
}

int lull_play_pipeline_create(const struct lull_play_pipeline *pipeline,
                              struct lull_play **play_out, struct lull_error *err)
{
    const int64_t ranks = pipeline->stages * pipeline->replicas;
    struct lull_pipeline_profile fitted;
    struct lull_pipeline_graph graph = {0};
    struct pipeline_builder builder = {
        .pipeline = pipeline, .graph = &graph, .profile = &fitted, .err = err};
    int result;

    if (ranks < 1 || ranks > LULL_PLAY_RANKS)
        return lull_error_set(
            err, -EINVAL, "%lld stages of %lld replicas: a play has at most %d ranks",
            (long long)pipeline->stages, (long long)pipeline->replicas, LULL_PLAY_RANKS);
    result = play_pipeline_build_graph(pipeline, &fitted, &graph, err);
    if (result < 0)
        return result;
    builder.op_of = calloc(graph.op_count + 1, sizeof(builder.op_of[0]));
    result = builder.op_of == NULL ? lull_error_set(err, -ENOMEM, "no memory")
                                   : lull_play_create((uint32_t)ranks, &builder.play, err);
    if (result == 0) {
        builder.play->is_recorded =
            true; /* the lengths of operations include what transfers beside them cost */
        builder.play->straggler = pipeline->straggler;
        result = build_ranks(&builder);
    }
    if (result == 0)
        result = lull_play_finish(builder.play, err);
    if (result == 0)
        *play_out = builder.play;
    else
        lull_play_destroy(builder.play);
    free(builder.op_of);
    lull_pipeline_graph_fini(&graph);
    lull_pipeline_profile_fini(&fitted);
    return result;
}
