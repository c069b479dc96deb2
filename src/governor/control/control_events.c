/* Takes the events of the job's processes, for their GPUs. SPDX-License-Identifier: Apache-2.0 */
#include "governor/control/control_state.h"

#include <stdlib.h>

#include "base/clock.h"

/* Number of events that are copied out of a ring at a time. */
enum { EVENTS_AT_ONCE = 256 };

/* Interval of checks for slots whose process may have ended. */
static const int64_t release_spacing_ns = 5 * LULL_NS_PER_MS;

static enum lull_transfer transfer_of(uint16_t operation)
{
    switch ((enum lull_operation)operation) {
    case LULL_OPERATION_ALLREDUCE:
        return LULL_TRANSFER_ALLREDUCE;
    case LULL_OPERATION_ALLGATHER:
        return LULL_TRANSFER_ALLGATHER;
    case LULL_OPERATION_REDUCE_SCATTER:
        return LULL_TRANSFER_REDUCE_SCATTER;
    case LULL_OPERATION_ALLTOALL:
        return LULL_TRANSFER_ALLTOALL;
    case LULL_OPERATION_SEND:
        return LULL_TRANSFER_SEND;
    case LULL_OPERATION_RECEIVE:
        return LULL_TRANSFER_RECEIVE;
    default:
        return LULL_TRANSFER_OTHER;
    }
}

static void events_announce(struct lull_communicators *communicators,
                            const struct lull_event_segment *job, uint32_t slot,
                            const struct lull_event *event)
{
    struct lull_named_communicator *item = &communicators->items[event->communicator];

    item->operations = 0;
    lull_event_segment_name(job, slot, event->name, item->name);
    lull_communicator_init(&item->what, item->name, event->ranks, (uint32_t)event->bytes,
                           event->peer);
    if (event->communicator >= communicators->count)
        communicators->count = event->communicator + 1;
}

/* Takes an event of the process in that slot. Only COMMUNICATOR and ENQUEUE are relevant. */
static void take_communicator(struct lull_communicators *communicators,
                              const struct lull_event_segment *job, uint32_t slot,
                              const struct lull_event *event)
{
    if (event->communicator >= LULL_COMMUNICATORS_KEPT)
        return;
    if (event->kind == LULL_EVENT_COMMUNICATOR) {
        events_announce(communicators, job, slot, event);
        return;
    }
    if (event->communicator >= communicators->count)
        return;
    if (event->kind == LULL_EVENT_ENQUEUE) {
        communicators->items[event->communicator].operations++;
        lull_communicator_take(&communicators->items[event->communicator].what,
                               transfer_of(event->operation), event->bytes, event->peer);
    }
}

static void events_take(struct lull_control *control, uint32_t index,
                        const struct lull_event *event)
{
    struct lull_governed_gpu *gpu = &control->gpus[index];

    gpu->state.events++;
    lull_control_idle_take_event(control, index, event);
    if (event->kind == LULL_EVENT_EXIT) {
        gpu->state.left_ns = event->time_ns;
        gpu->left = true;
        lull_section_meter_leave(&gpu->meter, event->time_ns);
        control->decider->take_exit(control->deciding, index);
        return;
    }
    if (event->kind == LULL_EVENT_ENTER)
        gpu->state.entered_ns = event->time_ns;
    lull_control_meter(control, gpu, event);
    take_communicator(&gpu->state.communicators, control->job, (uint32_t)gpu->state.process, event);
    control->decider->take_event(control->deciding, index, event);
}

/* Stores an event of a process whose GPU is not known yet. If a process waits too long, its first
 * events are lost. */
static void hold_event(struct lull_control_process *process, const struct lull_event *event)
{
    if (process->held == NULL) {
        process->held = malloc(LULL_CONTROL_EVENTS_HELD * sizeof(*process->held));
        process->waiting_ns = lull_now_ns();
    }
    if (process->held == NULL)
        return;
    if (process->held_count == LULL_CONTROL_EVENTS_HELD)
        process->held_count = 0;
    process->held[process->held_count++] = *event;
}

/* Energy windows count for processes without a GPU (-1) as well. */
static void take_event_of(struct lull_control *control, uint32_t slot,
                          const struct lull_event *event)
{
    struct lull_control_process *const process = &control->processes[slot];
    const bool is_of_window =
        event->kind == LULL_EVENT_WINDOW_BEGIN || event->kind == LULL_EVENT_WINDOW_END;

    if (is_of_window && control->accounting != NULL)
        lull_accounting_report(control->accounting, control->job, slot, process->seen_on, event);
    if (is_of_window)
        return;
    lull_control_hang_take(control, slot, event);
    lull_control_steps_take_event(control, slot, event);
    if (process->gpu >= 0)
        events_take(control, (uint32_t)process->gpu, event);
    else if (process->is_waiting)
        hold_event(process, event);
}

/* Takes what was kept while the process waited. */
static void take_held(struct lull_control *control, struct lull_control_process *process)
{
    if (process->is_waiting)
        return;
    for (uint32_t i = 0; process->gpu >= 0 && i < process->held_count; i++)
        events_take(control, (uint32_t)process->gpu, &process->held[i]);
    free(process->held);
    process->held = NULL;
    process->held_count = 0;
}

void lull_control_drain(struct lull_control *control)
{
    struct lull_event events[EVENTS_AT_ONCE];

    for (uint32_t slot = 0; slot < control->bound; slot++) {
        struct lull_control_process *const process = &control->processes[slot];
        uint32_t count;

        take_held(control, process);
        while ((count = lull_event_segment_read(control->job, slot, events, EVENTS_AT_ONCE)) > 0)
            for (uint32_t i = 0; i < count; i++)
                take_event_of(control, slot, &events[i]);
        lull_control_hang_lose(control, slot, lull_event_segment_lost(control->job, slot));
        if (process->gpu >= 0)
            control->gpus[process->gpu].state.lost_events = process->lost_events;
    }
}

/* The report includes a slot whose process was the last one on a GPU. */
static bool is_reported(const struct lull_control *control, uint32_t slot)
{
    for (uint32_t i = 0; i < control->gpu_count; i++)
        if (control->gpus[i].state.process == (int32_t)slot)
            return true;
    return false;
}

void lull_control_release_slots(struct lull_control *control, int64_t now_ns)
{
    const uint32_t slot = control->next_release;

    if (control->bound < LULL_JOB_MAX_PROCESSES / 2 || now_ns < control->release_ns)
        return;
    control->release_ns = now_ns + release_spacing_ns;
    control->next_release = (slot + 1) % control->bound;
    if (control->is_released[slot] || is_reported(control, slot) ||
        lull_event_segment_release(control->job, slot) < 0)
        return;
    control->is_released[slot] = true;
    control->processes[slot].gpu = -1;
    control->processes[slot].is_waiting = false;
}
