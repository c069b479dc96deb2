/* Finds the steps of a server's engines in the events of its processes: those that the program
 * marks, or else the collectives of tensor parallelism. SPDX-License-Identifier: Apache-2.0 */
#include "governor/control/control_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int lull_control_watch_steps(struct lull_control *control)
{
    struct lull_control_steps *const steps = calloc(1, sizeof(*steps));

    if (steps == NULL)
        return -ENOMEM;
    pthread_mutex_lock(&control->lock);
    control->steps = steps;
    pthread_mutex_unlock(&control->lock);
    return 0;
}

uint32_t lull_control_take_steps(struct lull_control *control,
                                 struct lull_control_step steps_out[LULL_CONTROL_STEPS_KEPT])
{
    struct lull_control_steps *const steps = control->steps;
    uint32_t count;

    if (steps == NULL)
        return 0;
    pthread_mutex_lock(&control->lock);
    count = steps->count;
    memcpy(steps_out, steps->items, count * sizeof(steps->items[0]));
    steps->count = 0;
    pthread_mutex_unlock(&control->lock);
    return count;
}

/* A full list loses later steps, so that the step after them looks longer. */
static void steps_add(struct lull_control_steps *steps, uint32_t slot,
                      enum lull_control_step_kind kind, const struct lull_event *event)
{
    if (steps->count == LULL_CONTROL_STEPS_KEPT)
        return;
    steps->items[steps->count++] = (struct lull_control_step){
        .time_ns = lull_control_event_ns(event), .slot = slot, .kind = kind};
}

/* ---- steps that the program marks ---------------------------------------------------------- */

/* All ranks of a job mark the same steps: those of the first one count. */
static bool steps_is_first_rank(const struct lull_control *control, uint32_t slot)
{
    struct lull_process_info info = {0};

    return lull_event_segment_process(control->job, slot, &info) < 0 || info.world_rank <= 0;
}

static void steps_take_mark(struct lull_control *control, uint32_t slot,
                            const struct lull_event *event)
{
    struct lull_control_steps *const steps = control->steps;

    if (!steps_is_first_rank(control, slot))
        return;
    for (uint32_t i = 0; !steps->has_marks && i < LULL_JOB_MAX_PROCESSES; i++)
        if (lull_step_finder_is_sure(&steps->finders[i]))
            steps_add(steps, i, LULL_CONTROL_STEP_IDLE, event);
    steps->has_marks = true;
    steps_add(steps, slot, LULL_CONTROL_STEP_ENDED, event);
}

/* The program names its waiting "idle". */
static void steps_take_section(struct lull_control *control, uint32_t slot,
                               const struct lull_event *event)
{
    const bool begins = event->kind == LULL_EVENT_BEGIN;
    char name[LULL_JOB_NAME_BYTES];

    if (event->operation != LULL_OPERATION_USER || !control->steps->has_marks)
        return;
    lull_event_segment_name(control->job, slot, event->name, name);
    if (strcmp(name, "idle") == 0 && steps_is_first_rank(control, slot))
        steps_add(control->steps, slot, begins ? LULL_CONTROL_STEP_IDLE : LULL_CONTROL_STEP_BEGUN,
                  event);
}

/* ---- steps of tensor parallelism ----------------------------------------------------------- */

static void steps_take_collective(struct lull_control_steps *steps, uint32_t slot,
                                  const struct lull_event *event)
{
    struct lull_step_finder *const finder = &steps->finders[slot];
    enum lull_step_edge edge = LULL_STEP_NO_EDGE;

    if (event->operation == LULL_OPERATION_ALLREDUCE)
        edge = lull_step_finder_take_sum(finder, event->communicator);
    if (event->operation == LULL_OPERATION_ALLGATHER || event->operation == LULL_OPERATION_GATHER)
        edge = lull_step_finder_take_gather(finder, event->communicator);
    if (edge != LULL_STEP_NO_EDGE && !steps->has_marks)
        steps_add(steps, slot,
                  edge == LULL_STEP_ENDS ? LULL_CONTROL_STEP_ENDED : LULL_CONTROL_STEP_BEGUN,
                  event);
}

void lull_control_steps_take_event(struct lull_control *control, uint32_t slot,
                                   const struct lull_event *event)
{
    struct lull_control_steps *const steps = control->steps;

    if (steps == NULL)
        return;
    switch ((enum lull_event_kind)event->kind) {
    case LULL_EVENT_STEP:
        steps_take_mark(control, slot, event);
        break;
    case LULL_EVENT_BEGIN:
    case LULL_EVENT_END:
        steps_take_section(control, slot, event);
        break;
    case LULL_EVENT_COMMUNICATOR:
        lull_step_finder_announce(&steps->finders[slot], event->communicator, event->ranks,
                                  event->peer);
        break;
    case LULL_EVENT_ENQUEUE:
        steps_take_collective(steps, slot, event);
        break;
    case LULL_EVENT_EXIT:
        steps->finders[slot] = (struct lull_step_finder){0};
        steps_add(steps, slot, LULL_CONTROL_STEP_IDLE, event);
        break;
    default:
        break;
    }
}
