/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/control_state.h"

#include <string.h>

enum { BATCH = 256 };

static void note_iteration(struct lull_control *control, struct lull_governed_gpu *gpu,
                           const struct lull_track *track, int64_t time_ns)
{
    if (lull_track_boundary_ns(track) != time_ns)
        return;
    lull_journey_add_boundary(&gpu->journey, &(struct lull_boundary){
                                                 .time_ns = time_ns,
                                                 .first = lull_track_iteration(track) == 0,
                                                 .phase = lull_control_phase(control),
                                             });
}

static void note_section(struct lull_governed_gpu *gpu, const struct lull_call *call,
                         uint32_t *depth)
{
    if (call->begin) {
        if ((*depth)++ == 0)
            gpu->section_begin_ns = call->time_ns;
        return;
    }
    if (*depth == 0 || --*depth > 0)
        return;
    lull_journey_add_section(
        &gpu->journey, &(struct lull_span){gpu->section_begin_ns, call->time_ns, call->operation});
}

/* What the name of a section says of it. */
enum meaning { WAITING, COMPUTING, UNKNOWN };

static enum meaning meaning_of_name(const struct lull_control *control,
                                    const struct lull_governed_gpu *gpu, uint32_t name)
{
    static const char *const waiting[] = {"communication", "bubble", "idle"};
    static const char *const computing[] = {"forward", "backward"};
    char text[LULL_JOB_NAME_BYTES];

    lull_job_name(control->job, (uint32_t)gpu->state.process, name, text);
    for (unsigned i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
        if (strcmp(text, waiting[i]) == 0)
            return WAITING;
    for (unsigned i = 0; i < sizeof(computing) / sizeof(computing[0]); i++)
        if (strcmp(text, computing[i]) == 0)
            return COMPUTING;
    return UNKNOWN;
}

/* A call of this GPU's rank, or a gap between its kernels. */
static void take_call(struct lull_control *control, uint32_t index, const struct lull_call *call)
{
    struct lull_governed_gpu *gpu = &control->gpus[index];

    lull_controller_take_call(control->controller, index, call);
    if (!call->is_late)
        note_section(gpu, call, &gpu->depth);
    if (call->begin && gpu->enqueueing == NULL)
        note_iteration(control, gpu, lull_controller_track(control->controller, index),
                       call->time_ns);
}

/* ---- communication on the GPU ------------------------------------------------------------ */

void lull_control_forget_device(struct lull_governed_gpu *gpu)
{
    lull_gap_map_destroy(gpu->gaps);
    lull_track_destroy(gpu->enqueueing);
    gpu->gaps = NULL;
    gpu->enqueueing = NULL;
}

/* What the probes are to tell from now on: only as much as is needed. */
static void ask(struct lull_control *control, const struct lull_governed_gpu *gpu)
{
    uint32_t wanted = 0;

    if (!control->observe_only)
        wanted |= LULL_ASK_TIMES;
    if (!control->observe_only && lull_gap_map_wants_compute(gpu->gaps))
        wanted |= LULL_ASK_COMPUTE;
    if (lull_job_asked(control->job, (uint32_t)gpu->state.process) != wanted)
        lull_job_ask(control->job, (uint32_t)gpu->state.process, wanted);
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

/* The host's side: iterations are counted here, whatever is known of the GPU's. */
static void take_enqueue(struct lull_control *control, struct lull_governed_gpu *gpu,
                         uint32_t index, struct lull_call *call)
{
    for (int edge = 0; edge < 2; edge++) {
        call->begin = edge == 0;
        lull_track_take(gpu->enqueueing, call);
        if (control->observe_only)
            take_call(control, index, call);
    }
    note_iteration(control, gpu, gpu->enqueueing, call->time_ns);
}

void lull_control_emit_gaps(struct lull_control *control, uint32_t index, int64_t now_ns)
{
    struct lull_governed_gpu *gpu = &control->gpus[index];
    struct lull_call call;

    if (gpu->gaps != NULL && lull_gap_map_fold(gpu->gaps) > 0)
        lull_controller_take_fold(control->controller, index, lull_gap_map_fold(gpu->gaps));
    while (gpu->gaps != NULL && lull_gap_map_poll(gpu->gaps, now_ns, &call))
        take_call(control, index, &call);
}

static void take_device_event(struct lull_control *control, uint32_t index,
                              const struct lull_event *event, struct lull_call *call)
{
    struct lull_governed_gpu *gpu = &control->gpus[index];

    if (!become_device(control, gpu))
        return;
    lull_communicators_take(&gpu->state.communicators, control->job, (uint32_t)gpu->state.process,
                            event);
    lull_control_emit_gaps(control, index,
                           event->time_ns); /* before this edge announces them anew */
    switch ((enum lull_event_kind)event->kind) {
    case LULL_EVENT_ENQUEUE:
        take_enqueue(control, gpu, index, call);
        break;
    case LULL_EVENT_KERNEL_BEGIN:
    case LULL_EVENT_KERNEL_END:
        call->begin = event->kind == LULL_EVENT_KERNEL_BEGIN;
        lull_gap_map_take_communication(gpu->gaps, call);
        break;
    case LULL_EVENT_COMPUTE:
        lull_gap_map_take_compute(gpu->gaps, event->time_ns,
                                  event->time_ns + (int64_t)event->bytes);
        break;
    case LULL_EVENT_COMPLETE:
        if (event->peer < -1)
            lull_gap_map_compute_unavailable(gpu->gaps);
        else
            lull_gap_map_take_complete(gpu->gaps, event->time_ns);
        break;
    default:
        break;
    }
    lull_control_emit_gaps(control, index, event->time_ns);
    ask(control, gpu);
}

/* ---- a pipeline's plan ------------------------------------------------------------------- */

static void take_piloted_section(struct lull_control *control, uint32_t index,
                                 const struct lull_event *event)
{
    char name[LULL_JOB_NAME_BYTES];
    bool is_backward;

    lull_job_name(control->job, (uint32_t)control->gpus[index].state.process, event->name, name);
    is_backward = strcmp(name, "backward") == 0;
    if (is_backward || strcmp(name, "forward") == 0)
        lull_pilot_take_section(control->pilot, index, is_backward, event->kind == LULL_EVENT_END,
                                event->time_ns);
}

static void take_piloted_event(struct lull_control *control, uint32_t index,
                               const struct lull_event *event)
{
    struct lull_control_gpu *state = &control->gpus[index].state;
    const uint32_t slot = (uint32_t)state->process;
    const uint32_t wanted = lull_pilot_wants_times(control->pilot, index) ? LULL_ASK_TIMES : 0;

    if (event->kind >= LULL_EVENT_ENQUEUE) {
        lull_communicators_take(&state->communicators, control->job, slot, event);
        lull_pilot_take_event(control->pilot, index, event);
    } else if (event->operation == LULL_OPERATION_USER && /* of whatever thread */
               (event->kind == LULL_EVENT_BEGIN || event->kind == LULL_EVENT_END)) {
        take_piloted_section(control, index, event);
    }
    if (lull_job_asked(control->job, slot) != wanted)
        lull_job_ask(control->job, slot, wanted);
}

static enum lull_controller_phase phase_of(const struct lull_conductor_iteration *iteration,
                                           bool has_settled)
{
    if (has_settled)
        return LULL_PHASE_SETTLED;
    return iteration->plan < 0 ? LULL_PHASE_LEARNING : LULL_PHASE_DESCENDING;
}

/* The iterations of all GPUs are those of the first one. */
void lull_control_note_piloted_iterations(struct lull_control *control)
{
    struct lull_conductor_iteration iteration;

    while (lull_pilot_next_iteration(control->pilot, &iteration)) {
        const bool is_new = iteration.begin_ns != control->iteration_end_ns;
        struct lull_boundary boundary = {
            .time_ns = iteration.begin_ns,
            .first = true,
            .phase = phase_of(&iteration, lull_pilot_has_settled(control->pilot)),
        };

        for (uint32_t i = 0; i < control->gpu_count; i++) {
            struct lull_journey *journey = &control->gpus[i].journey;

            if (control->gpus[i].state.process < 0)
                continue;
            boundary.time_ns = iteration.begin_ns;
            boundary.first = true;
            if (is_new)
                lull_journey_add_boundary(journey, &boundary);
            boundary.time_ns = iteration.end_ns;
            boundary.first = false;
            lull_journey_add_boundary(journey, &boundary);
        }
        control->iteration_end_ns = iteration.end_ns;
        lull_pilot_record(control->pilot, &iteration);
    }
}

static void take_event(struct lull_control *control, uint32_t index, const struct lull_event *event)
{
    struct lull_governed_gpu *gpu = &control->gpus[index];
    struct lull_call call = {
        .time_ns = event->time_ns,
        .bytes = event->bytes,
        .communicator = event->communicator,
        .ranks = event->ranks,
        .peer = event->peer,
        .name = event->name,
        .order = event->thread,
        .operation = event->operation,
        .begin = event->kind == LULL_EVENT_BEGIN,
        .is_late = event->operation == LULL_OPERATION_POLL,
    };

    if (event->kind == LULL_EVENT_ENTER)
        gpu->state.entered_ns = event->time_ns;
    if (event->kind == LULL_EVENT_EXIT) {
        gpu->state.left_ns = event->time_ns;
        gpu->left = true;
        lull_controller_take_exit(control->controller, index);
        if (control->pilot != NULL)
            lull_pilot_take_exit(control->pilot, index);
        return;
    }
    if (control->pilot != NULL) {
        take_piloted_event(control, index, event);
        return;
    }
    if (event->kind >= LULL_EVENT_ENQUEUE) {
        take_device_event(control, index, event, &call);
        return;
    }
    /* Other threads' sections run beside the one that computes: they expose nothing. Nor do the
     * host's own where communication and computation run on the GPU. */
    if (event->thread != 0 || gpu->gaps != NULL ||
        (event->kind != LULL_EVENT_BEGIN && event->kind != LULL_EVENT_END))
        return;
    if (event->operation == LULL_OPERATION_USER) {
        enum meaning meaning = meaning_of_name(control, gpu, event->name);

        /* Computation is never lowered, and what it calls inside is seen as if it were not there.
         */
        if (meaning == COMPUTING)
            return;
        call.is_cautious = meaning == UNKNOWN;
    }
    take_call(control, index, &call);
}

static bool is_of_window(const struct lull_event *event)
{
    return event->kind == LULL_EVENT_WINDOW_BEGIN || event->kind == LULL_EVENT_WINDOW_END;
}

/* An event of the process in that slot, which is on that GPU; -1: on none of its own. */
static void take_event_of(struct lull_control *control, uint32_t slot, int32_t gpu,
                          const struct lull_event *event)
{
    if (!is_of_window(event)) {
        if (gpu >= 0)
            take_event(control, (uint32_t)gpu, event);
        return;
    }
    if (control->accounting != NULL)
        lull_accounting_tell(control->accounting, control->job, slot, event);
}

void lull_control_drain(struct lull_control *control)
{
    struct lull_event events[BATCH];
    uint32_t processes = lull_job_process_count(control->job);

    for (uint32_t slot = 0; slot < processes; slot++) {
        int32_t gpu = control->gpu_of_process[slot];
        uint32_t count;

        /* Events of a process that is not bound yet wait in its ring. */
        if (slot >= control->bound)
            return;
        while ((count = lull_job_read(control->job, slot, events, BATCH)) > 0)
            for (uint32_t i = 0; i < count; i++)
                take_event_of(control, slot, gpu, &events[i]);
        if (gpu >= 0)
            control->gpus[gpu].state.lost_events = lull_job_lost(control->job, slot);
    }
}
