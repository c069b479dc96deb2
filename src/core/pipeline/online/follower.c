/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/online/follower.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/pipeline/online/cycle.h"

/* Devices that one device receives from, at most: two in every known schedule, and some to spare.
 */
enum { PEERS = 8 };

/* Receives from one device since the latest send. */
struct peer {
    uint32_t device;
    uint32_t received;
};

struct lull_follower {
    uint32_t count;
    bool has_sections;
    bool is_known;   /* where the device is */
    bool is_told;    /* an operation 0 has begun since then, from which on edges are told */
    bool is_running; /* operation `op`; else it has ended */
    uint32_t op;
    int64_t begin_ns;
    int64_t end_ns;
    int64_t latest_ns;        /* of the edge that pauses count from */
    struct lull_cycle *kinds; /* of sections that begin */
    struct lull_cycle *sends; /* devices sent to; NULL: the device sends nothing */
    uint32_t *send_ops;       /* the operations that send, in order */
    uint32_t send_count;
    int64_t *input_ns; /* of each operation of this iteration; 0: not received yet */
    uint32_t peer_count;
    struct peer peers[PEERS];
    struct lull_follower_edge *edges; /* ring of those found and not polled yet */
    uint32_t edge_first;
    uint32_t edge_count;
    uint32_t edge_room;
    struct lull_follower_op ops[];
};

/* ---- creating ---------------------------------------------------------------------------- */

/* False: no memory. */
static bool create_cycles(struct lull_follower *follower)
{
    uint32_t *symbols = calloc(follower->count, sizeof(symbols[0]));

    if (symbols == NULL)
        return false;
    for (uint32_t i = 0; i < follower->count; i++)
        symbols[i] = follower->ops[i].is_backward;
    follower->kinds = lull_cycle_create(symbols, follower->count);
    for (uint32_t i = 0; i < follower->count; i++) {
        if (follower->ops[i].sends_to == LULL_FOLLOWER_NOBODY)
            continue;
        symbols[follower->send_count] = follower->ops[i].sends_to;
        follower->send_ops[follower->send_count++] = i;
    }
    if (follower->send_count > 0)
        follower->sends = lull_cycle_create(symbols, follower->send_count);
    free(symbols);
    return follower->kinds != NULL && (follower->send_count == 0 || follower->sends != NULL);
}

struct lull_follower *lull_follower_create(const struct lull_follower_op *ops, uint32_t count)
{
    struct lull_follower *follower = calloc(1, sizeof(*follower) + count * sizeof(ops[0]));

    if (follower == NULL)
        return NULL;
    memcpy(follower->ops, ops, count * sizeof(ops[0]));
    follower->count = count;
    follower->edge_room = 4 * count + 8; /* more than can come of one event */
    follower->send_ops = calloc(count, sizeof(follower->send_ops[0]));
    follower->input_ns = calloc(count, sizeof(follower->input_ns[0]));
    follower->edges = calloc(follower->edge_room, sizeof(follower->edges[0]));
    if (follower->send_ops == NULL || follower->input_ns == NULL || follower->edges == NULL ||
        !create_cycles(follower)) {
        lull_follower_destroy(follower);
        return NULL;
    }
    return follower;
}

void lull_follower_destroy(struct lull_follower *follower)
{
    if (follower == NULL)
        return;
    lull_cycle_destroy(follower->kinds);
    lull_cycle_destroy(follower->sends);
    free(follower->send_ops);
    free(follower->input_ns);
    free(follower->edges);
    free(follower);
}

/* ---- what is told ------------------------------------------------------------------------ */

static void push(struct lull_follower *follower, const struct lull_follower_edge *edge)
{
    const uint32_t at = (follower->edge_first + follower->edge_count) % follower->edge_room;

    if (follower->edge_count == follower->edge_room)
        return; /* nobody has polled for more than an iteration, so the edge is of no use */
    follower->edges[at] = *edge;
    follower->edge_count++;
}

static void lose(struct lull_follower *follower, int64_t time_ns)
{
    if (follower->is_told)
        push(follower, &(struct lull_follower_edge){.is_lost = true, .time_ns = time_ns});
    follower->is_known = false;
    follower->is_told = false;
    follower->is_running = false;
}

static void begin(struct lull_follower *follower, uint32_t op, int64_t time_ns)
{
    assert(op < follower->count);
    follower->op = op;
    follower->is_running = true;
    follower->begin_ns = time_ns;
    follower->is_told |= op == 0;
    if (follower->is_told)
        push(follower, &(struct lull_follower_edge){.op = op, .time_ns = time_ns});
}

static void end(struct lull_follower *follower, int64_t time_ns)
{
    assert(follower->is_known);
    follower->is_running = false;
    follower->end_ns = time_ns;
    if (follower->is_told)
        push(follower,
             &(struct lull_follower_edge){.op = follower->op, .is_end = true, .time_ns = time_ns});
}

/* ---- sections ---------------------------------------------------------------------------- */

void lull_follower_take_section(struct lull_follower *follower, bool is_backward, bool is_end,
                                int64_t time_ns)
{
    uint32_t place;

    if (!follower->has_sections) {
        lose(follower, time_ns);
        follower->has_sections = true;
        follower->latest_ns = time_ns;
    }
    if (is_end) {
        follower->latest_ns = time_ns;
        if (follower->is_known && follower->is_running &&
            follower->ops[follower->op].is_backward == is_backward)
            end(follower, time_ns);
        return;
    }
    place = lull_cycle_take(follower->kinds, is_backward, time_ns - follower->latest_ns);
    if (follower->is_known &&
        (place == LULL_CYCLE_UNKNOWN || place != (follower->op + 1) % follower->count))
        lose(follower, time_ns);
    if (place == LULL_CYCLE_UNKNOWN)
        return;
    if (follower->is_known && follower->is_running)
        end(follower, time_ns); /* the program never said that it ended */
    follower->is_known = true;
    begin(follower, place, time_ns);
}

/* ---- transfers --------------------------------------------------------------------------- */

static void forget_inputs(struct lull_follower *follower)
{
    memset(follower->input_ns, 0, follower->count * sizeof(follower->input_ns[0]));
}

/* Begins the next operation, at the earliest time that what is known allows. */
static void begin_next(struct lull_follower *follower)
{
    const uint32_t next = (follower->op + 1) % follower->count;
    int64_t time_ns = follower->end_ns;

    if (follower->input_ns[next] > time_ns)
        time_ns = follower->input_ns[next];
    begin(follower, next, time_ns);
    if (next + 1 == follower->count)
        forget_inputs(follower); /* all operations of the iteration have had theirs */
}

static bool may_begin_next(const struct lull_follower *follower)
{
    const uint32_t next = (follower->op + 1) % follower->count;

    return follower->ops[next].receives_from == LULL_FOLLOWER_NOBODY ||
           follower->input_ns[next] != 0;
}

/* INT64_MAX: nothing runs, or its end will be seen. */
static int64_t expected_end_ns(const struct lull_follower *follower)
{
    const struct lull_follower_op *op = &follower->ops[follower->op];

    if (!follower->is_known || !follower->is_running || follower->has_sections ||
        op->sends_to != LULL_FOLLOWER_NOBODY)
        return INT64_MAX;
    return follower->begin_ns + op->length_ns;
}

/* Tells the ends that were expected by now, and the begins that follow from what was received. */
static void advance(struct lull_follower *follower, int64_t now_ns)
{
    if (!follower->is_known || follower->has_sections)
        return;
    for (;;) {
        if (follower->is_running) {
            if (expected_end_ns(follower) > now_ns)
                return;
            end(follower, expected_end_ns(follower));
        }
        if (!may_begin_next(follower))
            return;
        begin_next(follower);
    }
}

/* The operation has certainly begun: those before it, of which nothing was seen, are over. */
static void catch_up(struct lull_follower *follower, uint32_t op, int64_t time_ns)
{
    assert(op < follower->count);
    while (follower->op != op || !follower->is_running) {
        if (follower->is_running) {
            const int64_t expected_ns = expected_end_ns(follower);

            end(follower, lull_earlier_ns(expected_ns, time_ns));
        }
        begin_next(follower);
    }
}

static struct peer *peer_of(struct lull_follower *follower, uint32_t device)
{
    for (uint32_t i = 0; i < follower->peer_count; i++)
        if (follower->peers[i].device == device)
            return &follower->peers[i];
    if (follower->peer_count == PEERS)
        return NULL;
    follower->peers[follower->peer_count] = (struct peer){.device = device};
    return &follower->peers[follower->peer_count++];
}

/* The first operation that waits for the device gets its input; false: none does. */
static bool give_input(struct lull_follower *follower, uint32_t device, int64_t time_ns)
{
    for (uint32_t i = 0; i < follower->count; i++) {
        if (follower->ops[i].receives_from != device || follower->input_ns[i] != 0)
            continue;
        follower->input_ns[i] = time_ns;
        return true;
    }
    return false;
}

/*
 * The first operation that sends has just ended, so it and those before it have received what they
 * wait for. Where the last operation of an iteration sends, all that was received after that is for
 * the next iteration.
 */
static void find_place(struct lull_follower *follower, int64_t time_ns)
{
    const uint32_t op = follower->send_ops[0];

    forget_inputs(follower);
    if (follower->send_ops[follower->send_count - 1] + 1 == follower->count) {
        for (uint32_t i = 0; i < follower->peer_count; i++)
            for (uint32_t n = 0; n < follower->peers[i].received; n++)
                give_input(follower, follower->peers[i].device, time_ns);
    }
    for (uint32_t i = 0; i <= op; i++)
        follower->input_ns[i] = time_ns;
    follower->is_known = true;
    follower->op = op;
    end(follower, time_ns);
}

static void take_send(struct lull_follower *follower, uint32_t device, int64_t time_ns)
{
    uint32_t place = LULL_CYCLE_UNKNOWN;

    if (follower->sends != NULL)
        place = lull_cycle_take(follower->sends, device, time_ns - follower->latest_ns);
    follower->latest_ns = time_ns;
    if (place == LULL_CYCLE_UNKNOWN) {
        lose(follower, time_ns);
    } else if (!follower->is_known) {
        find_place(follower, time_ns);
    } else {
        catch_up(follower, follower->send_ops[place], time_ns);
        end(follower, time_ns);
    }
    for (uint32_t i = 0; i < follower->peer_count; i++)
        follower->peers[i].received = 0;
}

static void take_receive(struct lull_follower *follower, uint32_t device, int64_t time_ns)
{
    struct peer *peer = peer_of(follower, device);

    if (peer != NULL)
        peer->received++;
    if (!follower->is_known || give_input(follower, device, time_ns))
        return;
    lose(follower, time_ns);
    if (follower->sends != NULL)
        lull_cycle_forget(follower->sends);
}

void lull_follower_take_transfer(struct lull_follower *follower, uint32_t device, bool is_send,
                                 bool is_end, int64_t time_ns)
{
    if (follower->has_sections || is_send == is_end)
        return; /* sends tell when they begin, receives when they end */
    advance(follower, time_ns);
    if (is_send)
        take_send(follower, device, time_ns);
    else
        take_receive(follower, device, time_ns);
    advance(follower, time_ns);
}

/* ---- polling ----------------------------------------------------------------------------- */

bool lull_follower_poll(struct lull_follower *follower, int64_t now_ns,
                        struct lull_follower_edge *edge_out)
{
    advance(follower, now_ns);
    if (follower->edge_count == 0)
        return false;
    *edge_out = follower->edges[follower->edge_first];
    follower->edge_first = (follower->edge_first + 1) % follower->edge_room;
    follower->edge_count--;
    return true;
}

int64_t lull_follower_wake_ns(const struct lull_follower *follower)
{
    return expected_end_ns(follower);
}
