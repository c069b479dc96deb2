/*
 * The plan runner as the control's decider. It converts the probes' events into operations of the
 * plan. The trackers recognise these, and the plan controller requests clocks for them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "governor/plan/plan_runner_state.h"

static bool follows_plan(const struct lull_plan_runner *runner, uint32_t gpu)
{
    return gpu < runner->gpu_count && runner->plan_controller != NULL;
}

/* ---- operations -------------------------------------------------------------------------- */

static void plan_decider_learn_length(const struct lull_plan_runner *runner,
                                      struct lull_runner_gpu *gpu, uint32_t index,
                                      const struct lull_op_tracker_edge *edge)
{
    const uint64_t iteration = lull_plan_controller_iteration_of(runner->plan_controller, index);
    struct lull_runner_lengths *lengths = &gpu->lengths[iteration % LENGTHS];
    const bool is_backward = gpu->ops[edge->op].is_backward;

    if (!edge->is_end) {
        gpu->begin_ns = edge->time_ns;
        return;
    }
    if (lengths->iteration != iteration)
        *lengths = (struct lull_runner_lengths){.iteration = iteration};
    lengths->count[is_backward]++;
    lengths->sum_ms[is_backward] += (double)(edge->time_ns - gpu->begin_ns) * 1e-6;
}

static void plan_decider_store_end(const struct lull_plan_runner *runner,
                                   struct lull_runner_gpu *gpu, uint32_t index,
                                   const struct lull_op_tracker_edge *edge)
{
    const uint64_t iteration = lull_plan_controller_iteration_of(runner->plan_controller, index);
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
    struct lull_op_tracker_edge edge;

    while (lull_op_tracker_poll(runner->gpus[gpu].tracker, now_ns, &edge)) {
        if (edge.is_lost) {
            lull_plan_controller_take_lost(runner->plan_controller, gpu);
            continue;
        }
        lull_plan_controller_take_edge(runner->plan_controller, gpu, edge.op, edge.is_end,
                                       edge.time_ns);
        plan_decider_learn_length(runner, &runner->gpus[gpu], gpu, &edge);
        plan_decider_store_end(runner, &runner->gpus[gpu], gpu, &edge);
    }
}

static void plan_decider_take_section(struct lull_plan_runner *runner, uint32_t gpu,
                                      const struct lull_event *event)
{
    const struct lull_control *control = runner->control;
    char name[LULL_JOB_NAME_BYTES];
    bool is_backward;

    if (!follows_plan(runner, gpu))
        return;
    lull_event_segment_name(lull_control_job(control),
                            (uint32_t)lull_control_gpu(control, gpu)->process, event->name, name);
    is_backward = strcmp(name, "backward") == 0;
    if (!is_backward && strcmp(name, "forward") != 0)
        return;
    runner->gpus[gpu].has_sections = true;
    lull_op_tracker_take_section(runner->gpus[gpu].tracker, is_backward,
                                 event->kind == LULL_EVENT_END, event->time_ns);
    take_edges(runner, gpu, event->time_ns);
}

/* Finds the device that a peer in a communicator is. In a communicator of all stages a rank's
 * number is that of its stage; in one of two ranks, as DeepSpeed creates them, the peer is the
 * neighbouring stage. False: the communicator is not one between stages. */
static bool find_peer(const struct lull_plan_runner *runner, const struct lull_runner_gpu *gpu,
                      const struct lull_event *event, uint32_t *device_out)
{
    const struct lull_runner_communicator *communicator = &gpu->communicators[event->communicator];
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

static void take_device_event(struct lull_plan_runner *runner, uint32_t gpu,
                              const struct lull_event *event)
{
    struct lull_runner_gpu *of = &runner->gpus[gpu];
    uint32_t device;

    if (!follows_plan(runner, gpu) || event->communicator >= COMMUNICATORS)
        return;
    if (event->kind == LULL_EVENT_COMMUNICATOR)
        of->communicators[event->communicator] =
            (struct lull_runner_communicator){.ranks = event->ranks, .own = event->peer};
    if ((event->kind != LULL_EVENT_KERNEL_BEGIN && event->kind != LULL_EVENT_KERNEL_END) ||
        (event->operation != LULL_OPERATION_SEND && event->operation != LULL_OPERATION_RECEIVE) ||
        !find_peer(runner, of, event, &device))
        return;
    lull_op_tracker_take_transfer(of->tracker, device, event->operation == LULL_OPERATION_SEND,
                                  event->kind == LULL_EVENT_KERNEL_END, event->time_ns);
    take_edges(runner, gpu, event->time_ns);
}

/* ---- events from the control ------------------------------------------------------------- */

/* Ranks that report no sections must report when their communication kernels run. */
static void plan_decider_configure_probes(struct lull_plan_runner *runner, uint32_t gpu,
                                          bool has_sections)
{
    struct lull_event_segment *job = lull_control_job(runner->control);
    const uint32_t slot = (uint32_t)lull_control_gpu(runner->control, gpu)->process;
    const uint32_t wanted = follows_plan(runner, gpu) && !has_sections ? LULL_ASK_TIMES : 0;

    if (lull_event_segment_asked(job, slot) != wanted)
        lull_event_segment_ask(job, slot, wanted);
}

/* Sections of all threads count, because frameworks run backward in a separate thread. */
static void plan_decider_take_event(void *state, uint32_t gpu, const struct lull_event *event)
{
    struct lull_plan_runner *runner = state;
    const bool had_sections = runner->gpus[gpu].has_sections;
    const bool is_edge = event->kind == LULL_EVENT_BEGIN || event->kind == LULL_EVENT_END;

    if (event->kind >= LULL_EVENT_ENQUEUE)
        take_device_event(runner, gpu, event);
    else if (is_edge && event->operation == LULL_OPERATION_USER)
        plan_decider_take_section(runner, gpu, event);
    plan_decider_configure_probes(runner, gpu, had_sections);
}

static void plan_decider_take_exit(void *state, uint32_t gpu)
{
    struct lull_plan_runner *runner = state;

    if (follows_plan(runner, gpu))
        lull_plan_controller_take_lost(runner->plan_controller, gpu);
}

/* Raises all GPUs and lowers none afterwards. */
static void plan_decider_abandon(struct lull_plan_runner *runner)
{
    for (uint32_t i = 0; i < runner->gpu_count; i++)
        plan_decider_take_exit(runner, i);
    runner->is_refused = true;
    runner->gpu_count = 0;
}

/* The first rank determines the devices of all ranks. */
static bool plan_decider_take_start(void *state, uint32_t gpu, const struct lull_process_info *info,
                                    bool has_predecessor)
{
    struct lull_error err = {0};

    (void)has_predecessor;
    if (lull_plan_runner_bind(state, gpu, info, &err) < 0) {
        lull_log(LULL_LOG_WARNING, "run", "%s", err.text);
        plan_decider_abandon(state);
    }
    return true;
}

static void plan_decider_take_switch(void *state, uint32_t gpu,
                                     const struct lull_switch_outcome *outcome)
{
    struct lull_plan_runner *runner = state;

    if (follows_plan(runner, gpu))
        lull_plan_controller_take_switch(runner->plan_controller, gpu, outcome);
}

static void plan_decider_take_blocked(void *state, uint32_t gpu, int64_t now_ns, double blocked_ms)
{
    struct lull_plan_runner *runner = state;

    (void)gpu;
    if (runner->plan_controller != NULL)
        lull_plan_controller_take_blocked(runner->plan_controller, now_ns, blocked_ms);
}

static void plan_decider_take_waiting(void *state, int64_t now_ns, double waiting_ms)
{
    struct lull_plan_runner *runner = state;

    if (runner->plan_controller != NULL)
        lull_plan_controller_take_waiting(runner->plan_controller, now_ns, waiting_ms);
}

static void plan_decider_take_disturbance(void *state, uint32_t gpu)
{
    struct lull_plan_runner *runner = state;

    if (follows_plan(runner, gpu))
        lull_plan_controller_take_disturbance(runner->plan_controller);
}

/* A plan waits only for leases: it is the same on all nodes, with or without communication between
 * them. Its iteration is over, as if operations had been missed. */
static void plan_decider_hold(void *state, uint32_t reasons)
{
    struct lull_plan_runner *runner = state;

    for (uint32_t i = 0; i < runner->gpu_count && (reasons & LULL_HOLD_LEASES) != 0; i++)
        plan_decider_take_exit(runner, i);
}

static uint32_t plan_decider_poll_commands(void *state, int64_t now_ns,
                                           struct lull_command *commands_out, uint32_t max)
{
    struct lull_plan_runner *runner = state;
    struct lull_plan_controller_command commands[LULL_PLAN_CONTROLLER_MAX_GPUS];
    uint32_t count;

    if (runner->plan_controller == NULL)
        return 0;
    for (uint32_t i = 0; i < runner->gpu_count; i++)
        take_edges(runner, i, now_ns);
    if (max > LULL_PLAN_CONTROLLER_MAX_GPUS)
        max = LULL_PLAN_CONTROLLER_MAX_GPUS;
    count = lull_plan_controller_poll(runner->plan_controller, now_ns, commands, max);
    for (uint32_t i = 0; i < count; i++)
        commands_out[i] = (struct lull_command){.gpu = commands[i].gpu,
                                                .point = commands[i].point,
                                                .deadline_ns = commands[i].deadline_ns,
                                                .valid_until_ns = commands[i].valid_until_ns};
    return count;
}

static int64_t plan_decider_next_wake_ns(const void *state)
{
    const struct lull_plan_runner *runner = state;
    int64_t wake_ns = INT64_MAX;

    if (runner->plan_controller == NULL)
        return wake_ns;
    wake_ns = lull_plan_controller_wake_ns(runner->plan_controller);
    for (uint32_t i = 0; i < runner->gpu_count; i++)
        if (lull_op_tracker_wake_ns(runner->gpus[i].tracker) < wake_ns)
            wake_ns = lull_op_tracker_wake_ns(runner->gpus[i].tracker);
    return wake_ns;
}

/* ---- iterations -------------------------------------------------------------------------- */

/* Keeps an iteration for the report; beyond LULL_PLAN_RUNNER_MAX_RECORDED they are dropped. */
static void plan_decider_store_iteration(struct lull_plan_runner *runner,
                                         const struct lull_plan_controller_iteration *iteration)
{
    if (runner->recorded_count == runner->recorded_room) {
        const size_t room = runner->recorded_room > 0 ? 2 * runner->recorded_room : 256;
        struct lull_plan_controller_iteration *grown =
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

static bool plan_decider_has_settled(const void *state)
{
    const struct lull_plan_runner *runner = state;
    enum lull_plan_controller_phase phase;

    if (runner->plan_controller == NULL)
        return false;
    phase = lull_plan_controller_phase(runner->plan_controller);
    return phase == LULL_PLAN_CONTROLLER_KEPT || phase == LULL_PLAN_CONTROLLER_GIVEN_UP;
}

static enum lull_controller_phase
plan_decider_phase_of(const struct lull_plan_runner *runner,
                      const struct lull_plan_controller_iteration *iteration)
{
    if (plan_decider_has_settled(runner))
        return LULL_PHASE_SETTLED;
    return iteration->plan < 0 ? LULL_PHASE_LEARNING : LULL_PHASE_DESCENDING;
}

/* Enters an iteration into the run log of every GPU: all have those of the first one. */
static void plan_decider_log_iteration(struct lull_plan_runner *runner,
                                       const struct lull_plan_controller_iteration *iteration)
{
    const enum lull_controller_phase phase = plan_decider_phase_of(runner, iteration);
    const struct lull_boundary begin = {iteration->begin_ns, true, phase};
    const struct lull_boundary end = {iteration->end_ns, false, phase};

    for (uint32_t i = 0; i < lull_control_gpu_count(runner->control); i++) {
        if (lull_control_gpu(runner->control, i)->process < 0)
            continue;
        if (iteration->begin_ns != runner->logged_until_ns)
            lull_control_log_boundary(runner->control, i, &begin);
        lull_control_log_boundary(runner->control, i, &end);
    }
    runner->logged_until_ns = iteration->end_ns;
}

static void plan_decider_record(void *state)
{
    struct lull_plan_runner *runner = state;
    struct lull_plan_controller_iteration iteration;

    if (runner->plan_controller == NULL)
        return;
    while (lull_plan_controller_next_iteration(runner->plan_controller, &iteration)) {
        plan_decider_log_iteration(runner, &iteration);
        plan_decider_store_iteration(runner, &iteration);
    }
}

static const struct lull_decider plan_decider = {
    .gpu_text = "managed by a pipeline plan",
    .take_start = plan_decider_take_start,
    .take_exit = plan_decider_take_exit,
    .take_event = plan_decider_take_event,
    .take_switch = plan_decider_take_switch,
    .take_blocked = plan_decider_take_blocked,
    .take_waiting = plan_decider_take_waiting,
    .take_disturbance = plan_decider_take_disturbance,
    .hold = plan_decider_hold,
    .poll = plan_decider_poll_commands,
    .record = plan_decider_record,
    .wake_ns = plan_decider_next_wake_ns,
    .has_settled = plan_decider_has_settled,
};

void lull_plan_runner_rule(struct lull_plan_runner *runner, struct lull_control *control)
{
    const struct lull_controller *controller = lull_control_controller(control);

    runner->control = control;
    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++)
        runner->gpus[i].known = *lull_controller_look_gpu(controller, i).switch_cost;
    lull_control_set_decider(control, &plan_decider, runner);
}
