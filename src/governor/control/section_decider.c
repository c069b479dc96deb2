/*
 * The section controller as the control's decider: converts the probes' events into calls of the
 * controller. For a rank that communicates on its GPU, gap_map.h derives them from kernel times.
 * For any other rank they are the host's calls and sections. SPDX-License-Identifier: Apache-2.0
 */
#include "governor/control/control_state.h"

#include "base/log.h"

/* ---- the run log ------------------------------------------------------------------------- */

static enum lull_controller_phase section_decider_phase_of(const struct lull_control *control)
{
    return control->has_phase ? control->phase
                              : lull_controller_look_gpu(control->controller, 0).phase;
}

static void section_decider_log_iteration(struct lull_control *control, uint32_t index,
                                          const struct lull_track *track, int64_t time_ns)
{
    struct lull_boundary boundary;

    if (lull_track_boundary_ns(track) != time_ns)
        return;
    boundary = (struct lull_boundary){
        .time_ns = time_ns,
        .first = lull_track_iteration(track) == 0,
        .phase = section_decider_phase_of(control),
        .visit = lull_controller_visit(control->controller, index),
    };
    lull_run_log_add_boundary(&control->gpus[index].log, &boundary);
}

static void log_section(struct lull_governed_gpu *gpu, const struct lull_call *call)
{
    if (call->begin) {
        if (gpu->depth++ == 0)
            gpu->section_begin_ns = call->time_ns;
        return;
    }
    if (gpu->depth == 0 || --gpu->depth > 0)
        return;
    lull_run_log_add_section(
        &gpu->log, &(struct lull_span){gpu->section_begin_ns, call->time_ns, call->operation});
}

/* Host activity is metered when its events arrive (control.c). */
static void meter_gap(struct lull_governed_gpu *gpu, const struct lull_call *call)
{
    const struct lull_metered_section section = {
        .kind = call->place != 0 ? LULL_LIVE_GAP : LULL_LIVE_COMMUNICATION,
        .operation = call->operation,
    };

    if (call->begin)
        lull_section_meter_begin(&gpu->meter, call->time_ns, &section);
    else
        lull_section_meter_end(&gpu->meter, call->time_ns);
}

/* Takes a call of this GPU's rank, or a gap between its kernels. */
static void take_call(struct lull_control *control, uint32_t index, const struct lull_call *call)
{
    struct lull_governed_gpu *gpu = &control->gpus[index];

    lull_controller_take_call(control->controller, index, call);
    if (!call->is_late)
        log_section(gpu, call);
    if (call->begin && gpu->enqueueing == NULL)
        section_decider_log_iteration(control, index,
                                      lull_controller_look_gpu(control->controller, index).track,
                                      call->time_ns);
}

static struct lull_call call_of(const struct lull_event *event)
{
    return (struct lull_call){
        .time_ns = event->time_ns,
        .bytes = event->bytes,
        .communicator = event->communicator,
        .ranks = event->ranks,
        .peer = event->peer,
        .name = event->name,
        .order = event->thread,
        .operation = event->operation,
        .begin = event->kind == LULL_EVENT_BEGIN || event->kind == LULL_EVENT_KERNEL_BEGIN,
        .is_late = event->operation == LULL_OPERATION_POLL,
    };
}

/* ---- the host's calls and the program's sections ------------------------------------------ */

/* Computation is never lowered. Calls within it are handled as if the computation section did not
 * exist. */
static void take_user_section(struct lull_control *control, uint32_t index,
                              const struct lull_event *event)
{
    const enum lull_live_section section =
        lull_control_section_of(control, &control->gpus[index], event);
    struct lull_call call = call_of(event);

    call.is_cautious = section == LULL_LIVE_USER;
    if (section != LULL_LIVE_FORWARD && section != LULL_LIVE_BACKWARD)
        take_call(control, index, &call);
}

/*
 * Sections of other threads run beside the computing thread, so they expose no waiting.
 * Neither do the host's own sections if communication and computation run on the GPU.
 */
static void take_host_event(struct lull_control *control, uint32_t index,
                            const struct lull_event *event)
{
    const struct lull_call call = call_of(event);

    if (event->thread != 0 || control->gpus[index].gaps != NULL)
        return;
    if (event->operation == LULL_OPERATION_USER)
        take_user_section(control, index, event);
    else {
        lull_controller_take_collective(control->controller, index, &call);
        take_call(control, index, &call);
    }
}

/* ---- communication on the GPU ------------------------------------------------------------ */

const struct lull_gap_map *lull_control_gaps(const struct lull_control *control, uint32_t gpu)
{
    return control->gpus[gpu].gaps;
}

void lull_control_forget_device(struct lull_governed_gpu *gpu)
{
    lull_gap_map_destroy(gpu->gaps);
    lull_track_destroy(gpu->enqueueing);
    gpu->gaps = NULL;
    gpu->enqueueing = NULL;
}

/* Returns whether gaps are searched for that only the report needs. */
static bool is_learning_gaps(const struct lull_control *control,
                             const struct lull_governed_gpu *gpu)
{
    const enum lull_gap_map_phase phase = lull_gap_map_phase(gpu->gaps);

    return control->learns_gaps &&
           (phase == LULL_GAP_MAP_SEARCHING || phase == LULL_GAP_MAP_RECORDING);
}

/* Requests from the probes only what is needed from now on, because recording costs time. */
static void section_decider_configure_probes(struct lull_control *control,
                                             const struct lull_governed_gpu *gpu)
{
    const bool is_needed = !control->observe_only || is_learning_gaps(control, gpu);
    uint32_t wanted = 0;

    if (is_needed)
        wanted |= LULL_ASK_TIMES;
    if (is_needed && lull_gap_map_wants_compute(gpu->gaps))
        wanted |= LULL_ASK_COMPUTE;
    if (lull_event_segment_asked(control->job, (uint32_t)gpu->state.process) != wanted)
        lull_event_segment_ask(control->job, (uint32_t)gpu->state.process, wanted);
}

static bool become_device(struct lull_control *control, struct lull_governed_gpu *gpu)
{
    if (gpu->gaps != NULL)
        return true;
    gpu->gaps = lull_gap_map_create(!control->exposure);
    gpu->enqueueing = lull_track_create(false);
    if (gpu->gaps != NULL && gpu->enqueueing != NULL)
        return true;
    lull_control_forget_device(gpu);
    return false;
}

/* Passes to the controller the gaps of this GPU that have begun or ended by now. */
static void emit_gaps(struct lull_control *control, uint32_t index, int64_t now_ns)
{
    struct lull_governed_gpu *gpu = &control->gpus[index];
    struct lull_call call;

    if (gpu->gaps == NULL)
        return;
    if (control->observe_only) {
        while (lull_gap_map_poll(gpu->gaps, now_ns, &call))
            continue;
        return;
    }
    if (lull_gap_map_fold(gpu->gaps) > 0)
        lull_controller_take_fold(control->controller, index, lull_gap_map_fold(gpu->gaps));
    while (lull_gap_map_poll(gpu->gaps, now_ns, &call)) {
        meter_gap(gpu, &call);
        take_call(control, index, &call);
        lull_gap_map_set_steady(gpu->gaps,
                                lull_controller_look_gpu(control->controller, index).steady_point);
    }
}

/* Iterations are counted by the host's enqueues, even if the GPU's times are unknown. */
static void take_enqueue(struct lull_control *control, uint32_t index,
                         const struct lull_event *event)
{
    struct lull_governed_gpu *gpu = &control->gpus[index];
    struct lull_call call = call_of(event);

    for (int edge = 0; edge < 2; edge++) {
        call.begin = edge == 0;
        lull_track_take(gpu->enqueueing, &call);
        if (control->observe_only)
            take_call(control, index, &call);
    }
    section_decider_log_iteration(control, index, gpu->enqueueing, call.time_ns);
}

static void section_decider_take_kernel(struct lull_control *control, uint32_t index,
                                        const struct lull_event *event)
{
    const struct lull_call call = call_of(event);

    if (!control->observe_only)
        lull_controller_take_collective(control->controller, index, &call);
    lull_gap_map_take_communication(control->gpus[index].gaps, &call);
}

static void section_decider_take_compute(struct lull_control *control, uint32_t index,
                                         const struct lull_event *event)
{
    lull_gap_map_take_compute(control->gpus[index].gaps, event->time_ns,
                              event->time_ns + (int64_t)event->bytes);
}

/* The peer is an error number where recording kernels has failed permanently. */
static void take_complete(struct lull_control *control, uint32_t index,
                          const struct lull_event *event)
{
    struct lull_gap_map *gaps = control->gpus[index].gaps;

    if (event->peer < -1)
        lull_gap_map_compute_unavailable(gaps);
    else
        lull_gap_map_take_complete(gaps, event->time_ns);
}

/* ---- events by kind ---------------------------------------------------------------------- */

/* POST, STEP and ENTER are not related to sections. */
static const struct {
    void (*take)(struct lull_control *control, uint32_t index, const struct lull_event *event);
    bool is_of_device; /* the rank communicates on its GPU, as its communicator shows */
} kinds[] = {
    [LULL_EVENT_BEGIN] = {take_host_event, false},
    [LULL_EVENT_END] = {take_host_event, false},
    [LULL_EVENT_ENQUEUE] = {take_enqueue, true},
    [LULL_EVENT_KERNEL_BEGIN] = {section_decider_take_kernel, true},
    [LULL_EVENT_KERNEL_END] = {section_decider_take_kernel, true},
    [LULL_EVENT_COMPUTE] = {section_decider_take_compute, true},
    [LULL_EVENT_COMPLETE] = {take_complete, true},
    [LULL_EVENT_COMMUNICATOR] = {NULL, true},
};

static void section_decider_take_event(void *state, uint32_t index, const struct lull_event *event)
{
    struct lull_control *control = state;
    struct lull_governed_gpu *gpu = &control->gpus[index];

    bool is_of_device;

    if (event->kind >= sizeof(kinds) / sizeof(kinds[0]))
        return; /* a kind that this version does not know */
    is_of_device = kinds[event->kind].is_of_device;
    if (is_of_device && !become_device(control, gpu))
        return;
    if (is_of_device)
        emit_gaps(control, index, event->time_ns); /* before this event announces gaps again */
    if (kinds[event->kind].take != NULL)
        kinds[event->kind].take(control, index, event);
    if (is_of_device) {
        emit_gaps(control, index, event->time_ns);
        section_decider_configure_probes(control, gpu);
    }
}

/* ---- functions passed to the controller unchanged --------------------------------------- */

static void section_decider_take_exit(void *state, uint32_t index)
{
    struct lull_control *control = state;

    lull_controller_take_exit(control->controller, index);
}

static bool section_decider_take_start(void *state, uint32_t index,
                                       const struct lull_process_info *info, bool has_predecessor)
{
    struct lull_control *control = state;
    struct lull_governed_gpu *gpu = &control->gpus[index];

    (void)info;
    lull_control_forget_device(gpu);
    gpu->depth = 0;
    if (!has_predecessor)
        return true;
    lull_controller_take_exit(control->controller, index);
    return lull_controller_take_start(control->controller, index);
}

static void section_decider_take_switch(void *state, uint32_t index,
                                        const struct lull_switch_outcome *outcome)
{
    struct lull_control *control = state;

    lull_controller_take_switch(control->controller, index, outcome);
}

static void section_decider_take_blocked(void *state, uint32_t index, int64_t now_ns,
                                         double blocked_ms)
{
    struct lull_control *control = state;

    (void)now_ns;
    lull_controller_take_blocked(control->controller, index, blocked_ms);
}

static void section_decider_take_waiting(void *state, int64_t now_ns, double waiting_ms)
{
    struct lull_control *control = state;

    (void)now_ns;
    lull_controller_take_waiting(control->controller, waiting_ms);
}

static void section_decider_take_power(void *state, uint32_t index, int64_t time_ns, double power_w)
{
    struct lull_control *control = state;

    lull_controller_take_power(control->controller, index, power_w);
    if (lull_power_round_take(&control->power_round, index, power_w))
        lull_controller_take_node_power(control->controller, time_ns, control->power_round.sum_w);
}

static void section_decider_take_disturbance(void *state, uint32_t index)
{
    struct lull_control *control = state;

    lull_controller_take_disturbance(control->controller, index);
}

static void section_decider_hold(void *state, uint32_t reasons)
{
    struct lull_control *control = state;

    lull_controller_hold(control->controller, reasons != 0);
}

static uint32_t section_decider_poll_commands(void *state, int64_t now_ns,
                                              struct lull_command *commands_out, uint32_t max)
{
    struct lull_control *control = state;

    /* At the end all GPUs have been raised, and no gap may lower them again. */
    for (uint32_t i = 0; i < control->gpu_count && !atomic_load(&control->stopping); i++)
        emit_gaps(control, i, now_ns);
    return lull_controller_poll(control->controller, now_ns, commands_out, max);
}

static int64_t section_decider_next_wake_ns(const void *state)
{
    const struct lull_control *control = state;
    int64_t wake_ns = lull_controller_wake_ns(control->controller);

    for (uint32_t i = 0; i < control->gpu_count; i++) {
        const struct lull_gap_map *gaps = control->gpus[i].gaps;

        if (gaps != NULL && lull_gap_map_wake_ns(gaps) < wake_ns)
            wake_ns = lull_gap_map_wake_ns(gaps);
    }
    return wake_ns;
}

static bool section_decider_has_settled(const void *state)
{
    return lull_controller_look(((const struct lull_control *)state)->controller).has_settled;
}

const struct lull_decider lull_section_decider = {
    .take_start = section_decider_take_start,
    .take_exit = section_decider_take_exit,
    .take_event = section_decider_take_event,
    .take_switch = section_decider_take_switch,
    .take_blocked = section_decider_take_blocked,
    .take_waiting = section_decider_take_waiting,
    .take_power = section_decider_take_power,
    .take_disturbance = section_decider_take_disturbance,
    .hold = section_decider_hold,
    .poll = section_decider_poll_commands,
    .wake_ns = section_decider_next_wake_ns,
    .has_settled = section_decider_has_settled,
};
