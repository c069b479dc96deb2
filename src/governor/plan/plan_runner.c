/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/plan/plan_runner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "governor/plan/plan_runner_state.h"

/* ---- which device a rank is -------------------------------------------------------------- */

static uint32_t device_of(const struct lull_plan_runner *runner, uint32_t rank, uint32_t world)
{
    const uint32_t devices = runner->setup.plans[0].graph.device_count;
    const uint32_t replicas = devices / runner->stages;
    const uint32_t tensor = world / devices;
    const uint32_t stage = rank / (tensor * replicas);

    return rank / tensor % replicas * runner->stages + stage;
}

/* ---- creating ---------------------------------------------------------------------------- */

static bool is_same_pipeline(const struct lull_plan_file *a, const struct lull_plan_file *b)
{
    const struct lull_pipeline_problem of_a = runner_problem(a);
    const struct lull_pipeline_problem of_b = runner_problem(b);

    if (a->graph.device_count != b->graph.device_count)
        return false;
    for (uint32_t i = 0; i < a->graph.device_count; i++)
        if (lull_part_count(&of_a, i) != lull_part_count(&of_b, i))
            return false;
    return true;
}

static bool has_empty_device(const struct lull_plan_file *plan)
{
    const struct lull_pipeline_problem problem = runner_problem(plan);

    for (uint32_t i = 0; i < plan->graph.device_count; i++)
        if (lull_part_count(&problem, i) == 0)
            return true;
    return false;
}

int lull_plan_runner_create(const struct lull_plan_runner_config *setup,
                            struct lull_plan_runner **runner_out, struct lull_error *err)
{
    const struct lull_pipeline_problem first = runner_problem(&setup->plans[0]);
    struct lull_plan_runner *runner;

    if (has_empty_device(&setup->plans[0]))
        return lull_error_set(err, -EINVAL, "%s: a device without operations",
                              setup->plans[0].title);
    for (uint32_t i = 1; i < setup->plan_count; i++)
        if (!is_same_pipeline(&setup->plans[0], &setup->plans[i]))
            return lull_error_set(err, -EINVAL, "%s and %s are plans of different pipelines",
                                  setup->plans[0].title, setup->plans[i].title);
    runner = calloc(1, sizeof(*runner));
    if (runner == NULL)
        return lull_error_set(err, -ENOMEM, "no memory to carry out a plan");
    runner->setup = *setup;
    runner->stages = lull_pipeline_stages(&first);
    for (uint32_t i = 0; i < LULL_CONDUCTOR_MAX_GPUS; i++)
        runner->gpus[i].device = -1;
    *runner_out = runner;
    return 0;
}

void lull_plan_runner_destroy(struct lull_plan_runner *runner)
{
    if (runner == NULL)
        return;
    for (uint32_t i = 0; i < LULL_CONDUCTOR_MAX_GPUS; i++)
        lull_follower_destroy(runner->gpus[i].follower);
    for (uint32_t i = 0; i < LULL_CONDUCTOR_MAX_GPUS; i++)
        free(runner->gpus[i].ops);
    for (uint32_t i = 0; i < LULL_CONDUCTOR_MAX_GPUS; i++)
        free(runner->gpus[i].ends_ns);
    lull_conductor_destroy(runner->conductor);
    free(runner->recorded);
    free(runner);
}

struct lull_switch_cost *lull_plan_runner_known_cost(struct lull_plan_runner *runner, uint32_t gpu)
{
    return &runner->gpus[gpu].known;
}

/* ---- binding ----------------------------------------------------------------------------- */

static int create_follower(struct lull_plan_runner *runner, struct runner_gpu *gpu)
{
    const struct lull_plan_file *plan = &runner->setup.plans[0];
    const struct lull_pipeline_problem problem = runner_problem(plan);
    const uint32_t count = lull_part_count(&problem, (uint32_t)gpu->device);
    struct lull_follower_op *ops = calloc(count, sizeof(ops[0]));

    if (ops == NULL)
        return -ENOMEM;
    lull_part_follow(&problem, plan->option, (uint32_t)gpu->device, ops);
    gpu->follower = lull_follower_create(ops, count);
    gpu->ops = ops;
    gpu->op_count = count;
    gpu->ends_ns = calloc((size_t)ENDS * count, sizeof(gpu->ends_ns[0]));
    return gpu->follower == NULL || gpu->ends_ns == NULL ? -ENOMEM : 0;
}

static int create_conductor(struct lull_plan_runner *runner)
{
    const struct lull_pipeline_problem problem = runner_problem(&runner->setup.plans[0]);
    uint32_t counts[LULL_CONDUCTOR_MAX_GPUS];
    int result = 0;

    for (uint32_t i = 0; i < runner->gpu_count; i++)
        counts[i] = lull_part_count(&problem, (uint32_t)runner->gpus[i].device);
    runner->conductor = lull_conductor_create(&runner->setup.config, runner->gpu_count, counts);
    if (runner->conductor == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < runner->gpu_count; i++)
        *lull_conductor_switch_cost(runner->conductor, i) = runner->gpus[i].known;
    for (uint32_t i = 0; i < runner->setup.plan_count && result == 0; i++)
        result = runner_add_plan(runner, &runner->setup.plans[i]);
    return result;
}

/* Where every rank of this node stands, from the one that came first. */
static int place_ranks(struct lull_plan_runner *runner, uint32_t gpu,
                       const struct lull_process_info *info, struct lull_error *err)
{
    const uint32_t devices = runner->setup.plans[0].graph.device_count;
    const uint32_t first = (uint32_t)info->world_rank - gpu;
    const uint32_t world = (uint32_t)info->world_size;
    int result = 0;

    if (info->world_rank < 0 || info->world_size < 1 || (uint32_t)info->world_rank < gpu)
        return lull_error_set(err, -EINVAL,
                              "the plan is not carried out: the job does not say which rank is "
                              "which (RANK and WORLD_SIZE)");
    if (world % devices != 0)
        return lull_error_set(err, -EINVAL,
                              "the plan is not carried out: it is for %u devices, the job has %u "
                              "ranks",
                              devices, world);
    runner->copies = world / devices;
    runner->world = world;
    for (uint32_t i = 0; i < runner->setup.gpu_count && first + i < world && result == 0; i++) {
        runner->gpus[i].copy = (first + i) % runner->copies;
        runner->gpus[i].device = (int32_t)device_of(runner, first + i, world);
        runner->gpu_count = i + 1;
        result = create_follower(runner, &runner->gpus[i]);
    }
    if (result == 0)
        result = create_conductor(runner);
    if (result < 0)
        return lull_error_set(err, result, "no memory to carry out the plan");
    return 0;
}

int lull_plan_runner_bind(struct lull_plan_runner *runner, uint32_t gpu,
                          const struct lull_process_info *info, struct lull_error *err)
{
    int result;

    if (runner->gpu_count > 0 || runner->is_refused)
        return 0;
    result = place_ranks(runner, gpu, info, err);
    if (result < 0) {
        runner->is_refused = true;
        runner->gpu_count = 0;
    }
    return result;
}

/* ---- what the probes tell ---------------------------------------------------------------- */

static bool follows_plan(const struct lull_plan_runner *runner, uint32_t gpu)
{
    return gpu < runner->gpu_count && runner->conductor != NULL;
}

static void learn_length(const struct lull_plan_runner *runner, struct runner_gpu *gpu,
                         uint32_t index, const struct lull_follower_edge *edge)
{
    const uint64_t iteration = lull_conductor_iteration_of(runner->conductor, index);
    struct runner_lengths *lengths = &gpu->lengths[iteration % LENGTHS];
    const bool is_backward = gpu->ops[edge->op].is_backward;

    if (!edge->is_end) {
        gpu->begin_ns = edge->time_ns;
        return;
    }
    if (lengths->iteration != iteration)
        *lengths = (struct runner_lengths){.iteration = iteration};
    lengths->count[is_backward]++;
    lengths->sum_ms[is_backward] += (double)(edge->time_ns - gpu->begin_ns) * 1e-6;
}

static void keep_end(const struct lull_plan_runner *runner, struct runner_gpu *gpu, uint32_t index,
                     const struct lull_follower_edge *edge)
{
    const uint64_t iteration = lull_conductor_iteration_of(runner->conductor, index);
    const uint32_t slot = (uint32_t)(iteration % ENDS);

    if (!edge->is_end && edge->op == 0) {
        gpu->begins_of[slot] = iteration;
        gpu->begins_ns[slot] = edge->time_ns;
    }
    if (!edge->is_end)
        return;
    if (gpu->ends_of[slot] != iteration)
        gpu->ends_counted[slot] = 0;
    gpu->ends_of[slot] = iteration;
    gpu->ends_counted[slot]++;
    gpu->ends_ns[(size_t)slot * gpu->op_count + edge->op] = edge->time_ns;
}

static void take_edges(struct lull_plan_runner *runner, uint32_t gpu, int64_t now_ns)
{
    struct lull_follower_edge edge;

    while (lull_follower_poll(runner->gpus[gpu].follower, now_ns, &edge)) {
        if (edge.is_lost)
            lull_conductor_take_lost(runner->conductor, gpu);
        else
            lull_conductor_take_edge(runner->conductor, gpu, edge.op, edge.is_end, edge.time_ns);
        if (edge.is_lost)
            continue;
        learn_length(runner, &runner->gpus[gpu], gpu, &edge);
        keep_end(runner, &runner->gpus[gpu], gpu, &edge);
    }
}

void lull_plan_runner_take_exit(struct lull_plan_runner *runner, uint32_t gpu)
{
    if (follows_plan(runner, gpu))
        lull_conductor_take_lost(runner->conductor, gpu);
}

void lull_plan_runner_take_section(struct lull_plan_runner *runner, uint32_t gpu, bool is_backward,
                                   bool is_end, int64_t time_ns)
{
    if (!follows_plan(runner, gpu))
        return;
    runner->gpus[gpu].has_sections = true;
    lull_follower_take_section(runner->gpus[gpu].follower, is_backward, is_end, time_ns);
    take_edges(runner, gpu, time_ns);
}

bool lull_plan_runner_wants_times(const struct lull_plan_runner *runner, uint32_t gpu)
{
    return follows_plan(runner, gpu) && !runner->gpus[gpu].has_sections;
}

/* The device that a peer in a communicator is: in one of all stages it has its stage's number, in
 * one of two ranks (DeepSpeed's) it is a neighbour. False: no communicator between stages. */
static bool find_peer(const struct lull_plan_runner *runner, const struct runner_gpu *gpu,
                      const struct lull_event *event, uint32_t *device_out)
{
    const struct runner_communicator *communicator = &gpu->communicators[event->communicator];
    const uint32_t stage = (uint32_t)gpu->device % runner->stages;
    const uint32_t first = (uint32_t)gpu->device - stage;
    uint32_t peer;

    if (event->peer < 0 || communicator->ranks < 2)
        return false;
    if (communicator->ranks == runner->stages)
        peer = (uint32_t)event->peer;
    else if (communicator->ranks == 2)
        peer = event->peer > communicator->own ? stage + 1 : stage - 1;
    else
        return false;
    *device_out = first + peer;
    return peer < runner->stages && peer != stage;
}

void lull_plan_runner_take_event(struct lull_plan_runner *runner, uint32_t gpu,
                                 const struct lull_event *event)
{
    struct runner_gpu *of = &runner->gpus[gpu];
    uint32_t device;

    if (!follows_plan(runner, gpu) || event->communicator >= COMMUNICATORS)
        return;
    if (event->kind == LULL_EVENT_COMMUNICATOR)
        of->communicators[event->communicator] =
            (struct runner_communicator){.ranks = event->ranks, .own = event->peer};
    if ((event->kind != LULL_EVENT_KERNEL_BEGIN && event->kind != LULL_EVENT_KERNEL_END) ||
        (event->operation != LULL_OPERATION_SEND && event->operation != LULL_OPERATION_RECEIVE) ||
        !find_peer(runner, of, event, &device))
        return;
    lull_follower_take_transfer(of->follower, device, event->operation == LULL_OPERATION_SEND,
                                event->kind == LULL_EVENT_KERNEL_END, event->time_ns);
    take_edges(runner, gpu, event->time_ns);
}

/* ---- the conductor ----------------------------------------------------------------------- */

void lull_plan_runner_take_switch(struct lull_plan_runner *runner, uint32_t gpu,
                                  const struct lull_switch_outcome *outcome)
{
    if (follows_plan(runner, gpu))
        lull_conductor_take_switch(runner->conductor, gpu, outcome);
}

void lull_plan_runner_take_blocked(struct lull_plan_runner *runner, int64_t now_ns,
                                   double blocked_ms)
{
    if (runner->conductor != NULL)
        lull_conductor_take_blocked(runner->conductor, now_ns, blocked_ms);
}

void lull_plan_runner_take_waiting(struct lull_plan_runner *runner, int64_t now_ns,
                                   double waiting_ms)
{
    if (runner->conductor != NULL)
        lull_conductor_take_waiting(runner->conductor, now_ns, waiting_ms);
}

uint32_t lull_plan_runner_poll(struct lull_plan_runner *runner, int64_t now_ns,
                               struct lull_conductor_command *commands_out, uint32_t max)
{
    if (runner->conductor == NULL)
        return 0;
    for (uint32_t i = 0; i < runner->gpu_count; i++)
        take_edges(runner, i, now_ns);
    return lull_conductor_poll(runner->conductor, now_ns, commands_out, max);
}

int64_t lull_plan_runner_wake_ns(const struct lull_plan_runner *runner)
{
    int64_t wake_ns = INT64_MAX;

    if (runner->conductor == NULL)
        return wake_ns;
    wake_ns = lull_conductor_wake_ns(runner->conductor);
    for (uint32_t i = 0; i < runner->gpu_count; i++)
        if (lull_follower_wake_ns(runner->gpus[i].follower) < wake_ns)
            wake_ns = lull_follower_wake_ns(runner->gpus[i].follower);
    return wake_ns;
}

bool lull_plan_runner_next_iteration(struct lull_plan_runner *runner,
                                     struct lull_conductor_iteration *iteration_out)
{
    return runner->conductor != NULL &&
           lull_conductor_next_iteration(runner->conductor, iteration_out);
}

void lull_plan_runner_record(struct lull_plan_runner *runner,
                             const struct lull_conductor_iteration *iteration)
{
    if (runner->recorded_count == runner->recorded_room) {
        const size_t room = runner->recorded_room > 0 ? 2 * runner->recorded_room : 256;
        struct lull_conductor_iteration *grown =
            room > LULL_PLAN_RUNNER_MAX_RECORDED
                ? NULL
                : realloc(runner->recorded, room * sizeof(grown[0]));

        if (grown == NULL)
            return;
        runner->recorded = grown;
        runner->recorded_room = room;
    }
    runner->recorded[runner->recorded_count++] = *iteration;
}

const struct lull_conductor_iteration *
lull_plan_runner_recorded(const struct lull_plan_runner *runner, size_t *count_out)
{
    *count_out = runner->recorded_count;
    return runner->recorded;
}

/* ---- looking ----------------------------------------------------------------------------- */

const struct lull_conductor *lull_plan_runner_conductor(const struct lull_plan_runner *runner)
{
    return runner->conductor;
}

const struct lull_plan_file *lull_plan_runner_plan(const struct lull_plan_runner *runner,
                                                   uint32_t plan)
{
    return plan < runner->conducted_count && runner->conducted[plan].file >= 0
               ? &runner->setup.plans[runner->conducted[plan].file]
               : NULL;
}

uint32_t lull_plan_runner_plan_count(const struct lull_plan_runner *runner)
{
    return runner->setup.plan_count;
}

int32_t lull_plan_runner_device(const struct lull_plan_runner *runner, uint32_t gpu)
{
    return gpu < runner->gpu_count ? runner->gpus[gpu].device : -1;
}

bool lull_plan_runner_has_settled(const struct lull_plan_runner *runner)
{
    return runner->conductor != NULL &&
           (lull_conductor_phase(runner->conductor) == LULL_CONDUCTOR_KEPT ||
            lull_conductor_phase(runner->conductor) == LULL_CONDUCTOR_GIVEN_UP);
}
