/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/control/communicators.h"

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

static void announce(struct lull_communicators *communicators, const struct lull_event_segment *job,
                     uint32_t slot, const struct lull_event *event)
{
    struct lull_named_communicator *item = &communicators->items[event->communicator];

    item->operations = 0;
    lull_event_segment_name(job, slot, event->name, item->name);
    lull_communicator_init(&item->what, item->name, event->ranks, (uint32_t)event->bytes,
                           event->peer);
    if (event->communicator >= communicators->count)
        communicators->count = event->communicator + 1;
}

void lull_communicators_take(struct lull_communicators *communicators,
                             const struct lull_event_segment *job, uint32_t slot,
                             const struct lull_event *event)
{
    if (event->communicator >= LULL_COMMUNICATORS_KEPT)
        return;
    if (event->kind == LULL_EVENT_COMMUNICATOR) {
        announce(communicators, job, slot, event);
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
