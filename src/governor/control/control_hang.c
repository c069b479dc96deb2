/* What the processes of the job communicate, on GPUs and on hosts, for core/section/hang.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "governor/control/control_state.h"

#include "base/clock.h"

_Static_assert((int)LULL_JOB_MAX_PROCESSES <= (int)LULL_HANG_RANKS, "a slot is a rank");

/* Returns whether all ranks of a communicator take part in the operation. */
static bool control_hang_is_collective(uint16_t operation)
{
    return operation >= LULL_OPERATION_ALLREDUCE && operation <= LULL_OPERATION_NEIGHBOR;
}

static void take_section(struct lull_control *control, uint32_t slot,
                         const struct lull_event *event)
{
    control->processes[slot].section = (struct lull_control_section){
        .time_ns = event->time_ns,
        .name = event->name,
        .is_open = event->kind == LULL_EVENT_BEGIN,
    };
}

int64_t lull_control_event_ns(const struct lull_event *event)
{
    return lull_later_ns(lull_earlier_ns(event->time_ns, lull_now_ns()), 1);
}

static struct lull_hang_edge edge_of(const struct lull_event *event)
{
    return (struct lull_hang_edge){
        .time_ns = lull_control_event_ns(event),
        .communicator = event->communicator,
        .ranks = event->ranks,
        .number = event->thread,
        .operation = event->operation,
        .is_kernel = event->kind == LULL_EVENT_KERNEL_BEGIN || event->kind == LULL_EVENT_KERNEL_END,
        .is_collective = control_hang_is_collective(event->operation),
    };
}

void lull_control_hang_take(struct lull_control *control, uint32_t slot,
                            const struct lull_event *event)
{
    struct lull_hang_edge edge;

    if (control->hang == NULL)
        return;
    edge = edge_of(event);
    switch ((enum lull_event_kind)event->kind) {
    case LULL_EVENT_COMMUNICATOR:
        lull_hang_announce(control->hang, slot, event->communicator, event->thread, event->ranks);
        break;
    case LULL_EVENT_ENQUEUE:
        lull_hang_enqueue(control->hang, slot, &edge);
        break;
    case LULL_EVENT_BEGIN:
    case LULL_EVENT_END:
        if (event->operation == LULL_OPERATION_USER)
            take_section(control, slot, event);
        else if (event->kind == LULL_EVENT_BEGIN)
            lull_hang_begin(control->hang, slot, &edge);
        else
            lull_hang_end(control->hang, slot, &edge);
        break;
    case LULL_EVENT_KERNEL_BEGIN:
        lull_hang_begin(control->hang, slot, &edge);
        break;
    case LULL_EVENT_KERNEL_END:
        lull_hang_end(control->hang, slot, &edge);
        break;
    default:
        break;
    }
}

void lull_control_hang_lose(struct lull_control *control, uint32_t slot, uint64_t lost_events)
{
    struct lull_control_process *const process = &control->processes[slot];

    if (process->lost_events == lost_events)
        return;
    process->lost_events = lost_events;
    if (control->hang != NULL)
        lull_hang_lose(control->hang, slot);
}

struct lull_hang *lull_control_hang(struct lull_control *control)
{
    return control->hang;
}

struct lull_control_section lull_control_last_section(const struct lull_control *control,
                                                      uint32_t slot)
{
    return control->processes[slot].section;
}

int32_t lull_control_gpu_of(const struct lull_control *control, uint32_t slot)
{
    const struct lull_control_process *const process = &control->processes[slot];

    return process->gpu >= 0 || process->seen_on < 0 ? process->gpu : process->seen_on;
}
