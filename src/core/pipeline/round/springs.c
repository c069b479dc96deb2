/* Springs: ties, and their matrices. SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/round/springs.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/round/beam_state.h"

enum { NOWHERE = UINT32_MAX };

/* Values of all forms together, at most: 128 MB. */
static const size_t MOST_VALUES = (size_t)1 << 24;

/* An event is eliminated where anything holds it, W per ns. */
static const double LEAST_HOLD = 1e-12;

/* ---- ties --------------------------------------------------------------------------------- */

static uint32_t root(uint32_t *event, uint32_t at)
{
    while (event[at] != at)
        at = event[at] = event[event[at]];
    return at;
}

/* Edges with a flow tie an end and a begin together; what nobody waits for ends with all. */
static void tie(struct springs *springs, const struct beam *beam)
{
    const struct lull_pipeline_rounding *rounding = beam->rounding;
    const uint32_t count = rounding->count;

    for (uint32_t at = 0; at <= 2 * count; at++)
        springs->event[at] = at;
    for (uint32_t op = 0; op < count; op++) {
        for (uint32_t k = rounding->first_in[op]; k < rounding->first_in[op + 1]; k++)
            if (beam->in_price_w[k] > springs->least_w)
                springs->event[root(springs->event, 2 * rounding->in[k].op + 1)] =
                    root(springs->event, 2 * op);
        if (rounding->first_out[op] == rounding->first_out[op + 1])
            springs->event[root(springs->event, 2 * op + 1)] = root(springs->event, 2 * count);
    }
    for (uint32_t at = 0; at <= 2 * count; at++)
        springs->event[at] = root(springs->event, at);
}

/* ---- the matrix at hand ------------------------------------------------------------------- */

struct work {
    uint32_t room;
    uint32_t count;
    uint32_t *at;   /* of each event, its row; NOWHERE: none */
    uint32_t *held; /* of each event, how many ends of partial plans are in it */
    uint32_t *events;
    double *values; /* room * room */
};

static int work_create(struct work *work, uint32_t nodes, uint32_t room)
{
    *work = (struct work){.room = room};
    work->at = malloc(nodes * sizeof(*work->at));
    work->held = calloc(nodes, sizeof(*work->held));
    work->events = calloc(room, sizeof(*work->events));
    work->values = calloc((size_t)room * room, sizeof(*work->values));
    if (work->at == NULL || work->held == NULL || work->events == NULL || work->values == NULL)
        return -ENOMEM;
    memset(work->at, 0xff, nodes * sizeof(*work->at));
    return 0;
}

static void work_destroy(struct work *work)
{
    free(work->at);
    free(work->held);
    free(work->events);
    free(work->values);
}

static double *value(struct work *work, uint32_t row, uint32_t column)
{
    return &work->values[(size_t)row * work->room + column];
}

static uint32_t row_of(struct work *work, uint32_t event)
{
    const uint32_t row = work->count;

    if (work->at[event] != NOWHERE)
        return work->at[event];
    for (uint32_t i = 0; i <= row; i++)
        *value(work, row, i) = *value(work, i, row) = 0.0;
    work->events[work->count++] = event;
    work->at[event] = row;
    return row;
}

/* A spring between two events, of which `still` does not move. */
static void add(struct work *work, uint32_t begin, uint32_t end, uint32_t still, double stiffness)
{
    const uint32_t from = begin == still ? NOWHERE : row_of(work, begin);
    const uint32_t to = end == still ? NOWHERE : row_of(work, end);

    if (from != NOWHERE)
        *value(work, from, from) += stiffness;
    if (to != NOWHERE)
        *value(work, to, to) += stiffness;
    if (from != NOWHERE && to != NOWHERE) {
        *value(work, from, to) -= stiffness;
        *value(work, to, from) -= stiffness;
    }
}

/* The event settles: it leaves the matrix, and the last row takes its place. */
static void eliminate(struct work *work, uint32_t row)
{
    const double hold = *value(work, row, row);
    const uint32_t last = work->count - 1;

    for (uint32_t i = 0; i < work->count && hold > LEAST_HOLD; i++)
        for (uint32_t j = 0; j < work->count && i != row; j++)
            if (j != row)
                *value(work, i, j) -= *value(work, i, row) * *value(work, row, j) / hold;
    work->at[work->events[row]] = NOWHERE;
    work->count--;
    if (row == last)
        return;
    for (uint32_t i = 0; i < last; i++) {
        *value(work, row, i) = *value(work, last, i);
        *value(work, i, row) = *value(work, i, last);
    }
    *value(work, row, row) = *value(work, last, last);
    work->events[row] = work->events[last];
    work->at[work->events[row]] = row;
}

/* ---- turn by turn ------------------------------------------------------------------------- */

/* The operation of a turn is yet to come: its spring is there, its end is held by nobody, and the
 * ends that nobody asked for after it are held again. */
static void take_back(struct work *work, const struct springs *springs, const struct beam *beam,
                      uint32_t turn)
{
    const struct lull_pipeline_rounding *rounding = beam->rounding;
    const uint32_t op = beam->turns[turn].op;
    const uint32_t still = springs->event[2 * rounding->count];

    if (beam->last_use[op] > turn)
        work->held[springs->event[2 * op + 1]]--;
    for (uint32_t k = rounding->first_in[op]; k < rounding->first_in[op + 1]; k++)
        if (beam->last_use[rounding->in[k].op] == turn)
            work->held[springs->event[2 * rounding->in[k].op + 1]]++;
    if (springs->stiffness[op] > 0.0)
        add(work, springs->event[2 * op], springs->event[2 * op + 1], still,
            springs->stiffness[op]);
    for (uint32_t row = work->count; row-- > 0;)
        if (work->held[work->events[row]] == 0)
            eliminate(work, row);
}

static void store(struct springs *springs, struct work *work, uint32_t turn, uint64_t at,
                  uint64_t value_at)
{
    springs->size[turn] = work->count;
    springs->first[turn] = at;
    springs->first_value[turn] = value_at;
    memcpy(springs->events + at, work->events, work->count * sizeof(*work->events));
    for (uint32_t row = 0; row < work->count; row++)
        memcpy(springs->values + value_at + (size_t)row * work->count, value(work, row, 0),
               work->count * sizeof(*springs->values));
}

static int make_forms(struct springs *springs, const struct beam *beam)
{
    const uint32_t count = beam->rounding->count;
    struct work work;
    uint64_t at = 0;
    uint64_t value_at = 0;
    int result = work_create(&work, 2 * count + 1, beam->slot_count + 3);

    for (uint32_t turn = count; result == 0 && turn-- > 0;) {
        if (turn + 1 < count)
            take_back(&work, springs, beam, turn + 1);
        store(springs, &work, turn, at, value_at);
        at += work.count;
        value_at += (uint64_t)work.count * work.count;
    }
    work_destroy(&work);
    return result;
}

int lull_springs_create(struct springs *springs, const struct beam *beam)
{
    const size_t count = beam->rounding->count;
    const size_t slots = beam->slot_count;

    if (count * slots * slots > MOST_VALUES)
        return -E2BIG;
    springs->event = calloc(2 * count + 1, sizeof(*springs->event));
    springs->size = calloc(count, sizeof(*springs->size));
    springs->first = calloc(count, sizeof(*springs->first));
    springs->first_value = calloc(count, sizeof(*springs->first_value));
    springs->events = calloc(count * slots + 1, sizeof(*springs->events));
    springs->values = calloc(count * slots * slots + 1, sizeof(*springs->values));
    springs->holder = malloc((slots + 1) * sizeof(*springs->holder));
    springs->ends = calloc(slots + 1, sizeof(*springs->ends));
    springs->move_ns = calloc(slots + 1, sizeof(*springs->move_ns));
    if (springs->event == NULL || springs->size == NULL || springs->first == NULL ||
        springs->first_value == NULL || springs->events == NULL || springs->values == NULL ||
        springs->holder == NULL || springs->ends == NULL || springs->move_ns == NULL)
        return -ENOMEM;
    memset(springs->holder, 0xff, (slots + 1) * sizeof(*springs->holder));
    tie(springs, beam);
    return make_forms(springs, beam);
}

void lull_springs_destroy(struct springs *springs)
{
    free(springs->stiffness);
    free(springs->event);
    free(springs->size);
    free(springs->first);
    free(springs->first_value);
    free(springs->events);
    free(springs->values);
    free(springs->holder);
    free(springs->ends);
    free(springs->move_ns);
    *springs = (struct springs){0};
}

/* ---- asked in a pass ---------------------------------------------------------------------- */

static struct spring_end end_of(const struct springs *springs, const struct beam *beam,
                                uint32_t turn, uint32_t op)
{
    const uint32_t *events = springs->events + springs->first[turn];
    uint32_t row = 0;

    while (row < springs->form_size && events[row] != springs->event[2 * op + 1])
        row++;
    return (struct spring_end){beam->slot[op], row, beam->guide_ns[op]};
}

void lull_springs_turn(struct springs *springs, const struct beam *beam, uint32_t turn)
{
    const struct lull_pipeline_rounding *rounding = beam->rounding;
    const uint32_t op = beam->turns[turn].op;

    springs->form = springs->values + springs->first_value[turn];
    springs->form_size = springs->size[turn];
    for (uint32_t k = rounding->first_in[op]; k < rounding->first_in[op + 1]; k++)
        if (beam->last_use[rounding->in[k].op] == turn)
            springs->holder[beam->slot[rounding->in[k].op]] = NOWHERE;
    springs->end_count = 0;
    for (uint32_t slot = 0; slot < beam->slot_count; slot++) {
        const uint32_t holder = springs->holder[slot];

        if (holder == NOWHERE)
            continue;
        springs->ends[springs->end_count] = end_of(springs, beam, turn, holder);
        springs->end_count += springs->ends[springs->end_count].row < springs->form_size;
    }
    springs->own = (struct spring_end){0, springs->form_size, 0};
    if (beam->last_use[op] > turn) {
        springs->own = end_of(springs, beam, turn, op);
        springs->holder[beam->slot[op]] = op;
    }
}

void lull_springs_enter(struct springs *springs, const int64_t *ends_ns)
{
    const uint32_t size = springs->form_size;
    const uint32_t own = springs->own.row;

    for (uint32_t row = 0; row < size; row++)
        springs->move_ns[row] = -INFINITY;
    for (uint32_t i = 0; i < springs->end_count; i++) {
        const struct spring_end *end = &springs->ends[i];

        springs->move_ns[end->row] =
            fmax(springs->move_ns[end->row], (double)(ends_ns[end->slot] - end->guide_ns));
    }
    springs->is_free = own < size && isinf(springs->move_ns[own]);
    for (uint32_t row = 0; row < size; row++)
        if (isinf(springs->move_ns[row]))
            springs->move_ns[row] = 0.0;
    springs->held_nj = 0.0;
    for (uint32_t row = 0; row < size; row++) {
        const double *values = springs->form + (size_t)row * size;
        double pull_w = 0.0;

        for (uint32_t i = 0; i < size; i++)
            pull_w += values[i] * springs->move_ns[i];
        springs->held_nj += 0.5 * pull_w * springs->move_ns[row];
        if (row == own)
            springs->pull_w = pull_w;
    }
    springs->own_move_ns = own < size ? springs->move_ns[own] : 0.0;
}

double lull_springs_held_nj(const struct springs *springs, int64_t end_ns)
{
    const uint32_t own = springs->own.row;
    double by_ns;

    if (own == springs->form_size)
        return springs->held_nj;
    by_ns = (double)(end_ns - springs->own.guide_ns) - springs->own_move_ns;
    if (!springs->is_free)
        by_ns = fmax(by_ns, 0.0);
    return springs->held_nj +
           by_ns * (springs->pull_w +
                    0.5 * by_ns * springs->form[(size_t)own * springs->form_size + own]);
}
