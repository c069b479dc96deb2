/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/follow/op_tracker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "core/pipeline/follow/sequence_locator.h"

/* The most devices that one device can receive from. Known schedules need two. */
enum { PEERS = 8 };

/* Number of receives from one device since the latest send. */
struct op_tracker_peer {
    uint32_t device;
    uint32_t received;
};

struct lull_op_tracker {
    uint32_t count;
    bool has_sections;
    bool is_known;    /* the device's place is known */
    bool is_reported; /* an operation 0 has started since then; edges are reported from it on */
    bool is_running;  /* operation `op`; else it has ended */
    uint32_t op;
    int64_t begin_ns;
    int64_t end_ns;
    int64_t latest_ns;                   /* of the edge that pauses count from */
    struct lull_sequence_locator *kinds; /* of sections that begin */
    struct lull_sequence_locator *sends; /* devices sent to; null: the device sends nothing */
    uint32_t *send_ops;                  /* the operations that send, in order */
    uint32_t send_count;
    int64_t *input_ns; /* of each operation of this iteration; 0: not received yet */
    uint32_t peer_count;
    struct op_tracker_peer peers[PEERS];
    struct lull_op_tracker_edge *edges; /* ring of edges found and not polled yet */
    uint32_t edge_first;
    uint32_t edge_count;
    uint32_t edge_room;
    struct lull_memory memory; /* of the arrays */
    struct lull_op_tracker_op ops[];
};

/* ---- creating ---------------------------------------------------------------------------- */

/* Returns false if memory runs out. */
static bool create_locators(struct lull_op_tracker *tracker)
{
    uint32_t *symbols = calloc(tracker->count, sizeof(symbols[0]));

    if (symbols == NULL)
        return false;
    for (uint32_t i = 0; i < tracker->count; i++)
        symbols[i] = tracker->ops[i].is_backward;
    tracker->kinds = lull_sequence_locator_create(symbols, tracker->count);
    for (uint32_t i = 0; i < tracker->count; i++) {
        if (tracker->ops[i].sends_to == LULL_OP_TRACKER_NONE)
            continue;
        symbols[tracker->send_count] = tracker->ops[i].sends_to;
        tracker->send_ops[tracker->send_count++] = i;
    }
    if (tracker->send_count > 0)
        tracker->sends = lull_sequence_locator_create(symbols, tracker->send_count);
    free(symbols);
    return tracker->kinds != NULL && (tracker->send_count == 0 || tracker->sends != NULL);
}

struct lull_op_tracker *lull_op_tracker_create(const struct lull_op_tracker_op *ops, uint32_t count)
{
    struct lull_op_tracker *tracker = calloc(1, sizeof(*tracker) + count * sizeof(ops[0]));

    if (tracker == NULL)
        return NULL;
    memcpy(tracker->ops, ops, count * sizeof(ops[0]));
    tracker->count = count;
    tracker->edge_room = 4 * count + 8; /* more edges than one event can cause */
    tracker->send_ops = lull_memory_take(&tracker->memory, count, sizeof(tracker->send_ops[0]));
    tracker->input_ns = lull_memory_take(&tracker->memory, count, sizeof(tracker->input_ns[0]));
    tracker->edges =
        lull_memory_take(&tracker->memory, tracker->edge_room, sizeof(tracker->edges[0]));
    if (tracker->memory.has_failed || !create_locators(tracker)) {
        lull_op_tracker_destroy(tracker);
        return NULL;
    }
    return tracker;
}

void lull_op_tracker_destroy(struct lull_op_tracker *tracker)
{
    if (tracker == NULL)
        return;
    lull_sequence_locator_destroy(tracker->kinds);
    lull_sequence_locator_destroy(tracker->sends);
    lull_memory_free(&tracker->memory);
    free(tracker);
}

/* ---- what is reported ------------------------------------------------------------------------ */

static void op_tracker_push(struct lull_op_tracker *tracker,
                            const struct lull_op_tracker_edge *edge)
{
    const uint32_t at = (tracker->edge_first + tracker->edge_count) % tracker->edge_room;

    if (tracker->edge_count == tracker->edge_room)
        return; /* not polled for more than an iteration, so the edge is of no use */
    tracker->edges[at] = *edge;
    tracker->edge_count++;
}

static void op_tracker_mark_lost(struct lull_op_tracker *tracker, int64_t time_ns)
{
    if (tracker->is_reported)
        op_tracker_push(tracker,
                        &(struct lull_op_tracker_edge){.is_lost = true, .time_ns = time_ns});
    tracker->is_known = false;
    tracker->is_reported = false;
    tracker->is_running = false;
}

static void op_tracker_begin(struct lull_op_tracker *tracker, uint32_t op, int64_t time_ns)
{
    assert(op < tracker->count);
    tracker->op = op;
    tracker->is_running = true;
    tracker->begin_ns = time_ns;
    tracker->is_reported |= op == 0;
    if (tracker->is_reported)
        op_tracker_push(tracker, &(struct lull_op_tracker_edge){.op = op, .time_ns = time_ns});
}

static void op_tracker_end(struct lull_op_tracker *tracker, int64_t time_ns)
{
    assert(tracker->is_known);
    tracker->is_running = false;
    tracker->end_ns = time_ns;
    if (tracker->is_reported)
        op_tracker_push(tracker, &(struct lull_op_tracker_edge){
                                     .op = tracker->op, .is_end = true, .time_ns = time_ns});
}

/* ---- sections ---------------------------------------------------------------------------- */

/* The first section means that the program marks its sections. What was concluded from transfers
 * before is dropped, because the two need not agree. */
void lull_op_tracker_take_section(struct lull_op_tracker *tracker, bool is_backward, bool is_end,
                                  int64_t time_ns)
{
    uint32_t place;

    if (!tracker->has_sections) {
        op_tracker_mark_lost(tracker, time_ns);
        tracker->has_sections = true;
        tracker->latest_ns = time_ns;
    }
    if (is_end) {
        tracker->latest_ns = time_ns;
        if (tracker->is_known && tracker->is_running &&
            tracker->ops[tracker->op].is_backward == is_backward)
            op_tracker_end(tracker, time_ns);
        return;
    }
    place = lull_sequence_locator_take(tracker->kinds, is_backward, time_ns - tracker->latest_ns);
    if (tracker->is_known &&
        (place == LULL_SEQUENCE_LOCATOR_UNKNOWN || place != (tracker->op + 1) % tracker->count))
        op_tracker_mark_lost(tracker, time_ns);
    if (place == LULL_SEQUENCE_LOCATOR_UNKNOWN)
        return;
    if (tracker->is_known && tracker->is_running)
        op_tracker_end(tracker, time_ns); /* the program never said that it ended */
    tracker->is_known = true;
    op_tracker_begin(tracker, place, time_ns);
}

/* ---- transfers --------------------------------------------------------------------------- */

static void forget_inputs(struct lull_op_tracker *tracker)
{
    memset(tracker->input_ns, 0, tracker->count * sizeof(tracker->input_ns[0]));
}

/* Begins the next operation, at the earliest time that the observed events allow. */
static void begin_next(struct lull_op_tracker *tracker)
{
    const uint32_t next = (tracker->op + 1) % tracker->count;
    int64_t time_ns = tracker->end_ns;

    if (tracker->input_ns[next] > time_ns)
        time_ns = tracker->input_ns[next];
    op_tracker_begin(tracker, next, time_ns);
    if (next + 1 == tracker->count)
        forget_inputs(tracker); /* all operations of the iteration have used their inputs */
}

static bool may_begin_next(const struct lull_op_tracker *tracker)
{
    const uint32_t next = (tracker->op + 1) % tracker->count;

    return tracker->ops[next].receives_from == LULL_OP_TRACKER_NONE || tracker->input_ns[next] != 0;
}

/* Expected end of the operation that runs; INT64_MAX if none runs, or its end will be seen.
 * */
static int64_t expected_end_ns(const struct lull_op_tracker *tracker)
{
    const struct lull_op_tracker_op *op = &tracker->ops[tracker->op];

    if (!tracker->is_known || !tracker->is_running || tracker->has_sections ||
        op->sends_to != LULL_OP_TRACKER_NONE)
        return INT64_MAX;
    return tracker->begin_ns + op->length_ns;
}

/* Reports the ends that were expected by now, and the starts that follow from what was received. */
static void op_tracker_advance(struct lull_op_tracker *tracker, int64_t now_ns)
{
    if (!tracker->is_known || tracker->has_sections)
        return;
    for (;;) {
        if (tracker->is_running) {
            if (expected_end_ns(tracker) > now_ns)
                return;
            op_tracker_end(tracker, expected_end_ns(tracker));
        }
        if (!may_begin_next(tracker))
            return;
        begin_next(tracker);
    }
}

/* The operation has certainly begun, so earlier operations that were not observed have ended. */
static void catch_up(struct lull_op_tracker *tracker, uint32_t op, int64_t time_ns)
{
    assert(op < tracker->count);
    while (tracker->op != op || !tracker->is_running) {
        if (tracker->is_running) {
            const int64_t expected_ns = expected_end_ns(tracker);

            op_tracker_end(tracker, lull_earlier_ns(expected_ns, time_ns));
        }
        begin_next(tracker);
    }
}

static struct op_tracker_peer *peer_of(struct lull_op_tracker *tracker, uint32_t device)
{
    for (uint32_t i = 0; i < tracker->peer_count; i++)
        if (tracker->peers[i].device == device)
            return &tracker->peers[i];
    if (tracker->peer_count == PEERS)
        return NULL;
    tracker->peers[tracker->peer_count] = (struct op_tracker_peer){.device = device};
    return &tracker->peers[tracker->peer_count++];
}

/* The first operation that waits for the device gets its input; false: none does. */
static bool give_input(struct lull_op_tracker *tracker, uint32_t device, int64_t time_ns)
{
    for (uint32_t i = 0; i < tracker->count; i++) {
        if (tracker->ops[i].receives_from != device || tracker->input_ns[i] != 0)
            continue;
        tracker->input_ns[i] = time_ns;
        return true;
    }
    return false;
}

/*
 * The first operation that sends has just ended, so it and those before it have received what they
 * wait for. If the last operation of an iteration sends, all that was received after that is for
 * the next iteration.
 */
static void op_tracker_find_place(struct lull_op_tracker *tracker, int64_t time_ns)
{
    const uint32_t op = tracker->send_ops[0];

    forget_inputs(tracker);
    if (tracker->send_ops[tracker->send_count - 1] + 1 == tracker->count) {
        for (uint32_t i = 0; i < tracker->peer_count; i++)
            for (uint32_t n = 0; n < tracker->peers[i].received; n++)
                give_input(tracker, tracker->peers[i].device, time_ns);
    }
    for (uint32_t i = 0; i <= op; i++)
        tracker->input_ns[i] = time_ns;
    tracker->is_known = true;
    tracker->op = op;
    op_tracker_end(tracker, time_ns);
}

/* A send means that its operation has ended. Earlier operations that were not observed must be over
 * as well. */
static void take_send(struct lull_op_tracker *tracker, uint32_t device, int64_t time_ns)
{
    uint32_t place = LULL_SEQUENCE_LOCATOR_UNKNOWN;

    if (tracker->sends != NULL)
        place = lull_sequence_locator_take(tracker->sends, device, time_ns - tracker->latest_ns);
    tracker->latest_ns = time_ns;
    if (place == LULL_SEQUENCE_LOCATOR_UNKNOWN) {
        op_tracker_mark_lost(tracker, time_ns);
    } else if (!tracker->is_known) {
        op_tracker_find_place(tracker, time_ns);
    } else {
        catch_up(tracker, tracker->send_ops[place], time_ns);
        op_tracker_end(tracker, time_ns);
    }
    for (uint32_t i = 0; i < tracker->peer_count; i++)
        tracker->peers[i].received = 0;
}

/* A receive that no operation waits for contradicts the known place; the tracker then forgets it.
 */
static void take_receive(struct lull_op_tracker *tracker, uint32_t device, int64_t time_ns)
{
    struct op_tracker_peer *peer = peer_of(tracker, device);

    if (peer != NULL)
        peer->received++;
    if (!tracker->is_known || give_input(tracker, device, time_ns))
        return;
    op_tracker_mark_lost(tracker, time_ns);
    if (tracker->sends != NULL)
        lull_sequence_locator_forget(tracker->sends);
}

void lull_op_tracker_take_transfer(struct lull_op_tracker *tracker, uint32_t device, bool is_send,
                                   bool is_end, int64_t time_ns)
{
    if (tracker->has_sections || is_send == is_end)
        return; /* sends count when they begin, receives when they end */
    op_tracker_advance(tracker, time_ns);
    if (is_send)
        take_send(tracker, device, time_ns);
    else
        take_receive(tracker, device, time_ns);
    op_tracker_advance(tracker, time_ns);
}

/* ---- polling ----------------------------------------------------------------------------- */

bool lull_op_tracker_poll(struct lull_op_tracker *tracker, int64_t now_ns,
                          struct lull_op_tracker_edge *edge_out)
{
    op_tracker_advance(tracker, now_ns);
    if (tracker->edge_count == 0)
        return false;
    *edge_out = tracker->edges[tracker->edge_first];
    tracker->edge_first = (tracker->edge_first + 1) % tracker->edge_room;
    tracker->edge_count--;
    return true;
}

int64_t lull_op_tracker_wake_ns(const struct lull_op_tracker *tracker)
{
    return expected_end_ns(tracker);
}
