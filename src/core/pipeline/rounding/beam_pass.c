/*
 * Beam: one pass, operation by operation. SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/rounding/beam_state.h"

/* Price that a partial plan pays for each nanosecond by which an end is off the guide, as a share
 * of the price of the operation's flow: it represents losses to come. Commit 1c63aea measured it.
 */
#define ASTRAY_SHARE 0.2

/* The slot of an operation whose end no later turn needs. */
enum { NO_SLOT = UINT32_MAX };

/* Number of candidates considered for each that is kept, since some are alike; chosen. */
enum { ALIKE = 2 };

/* ---- turns and slots --------------------------------------------------------------------- */

static int beam_pass_by_begin(const void *left, const void *right)
{
    const struct lull_beam_turn *a = left;
    const struct lull_beam_turn *b = right;

    if (a->begin_ns != b->begin_ns)
        return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
    return (a->op > b->op) - (a->op < b->op);
}

/* Operations take their turns in the order in which the guide begins them, but always after the
 * operations that they wait for. */
static void take_turns(struct lull_beam *beam)
{
    const struct lull_pipeline_rounding *rounding = beam->rounding;
    struct lull_beam_turn *turns = beam->turns;

    for (uint32_t op = 0; op < rounding->count; op++) {
        turns[op] = (struct lull_beam_turn){0, op};
        for (uint32_t k = rounding->first_in[op]; k < rounding->first_in[op + 1]; k++) {
            const uint32_t before = rounding->in[k].op;
            const int64_t arrival_ns = beam->guide_ns[before] + rounding->in[k].latency_ns;

            if (arrival_ns > turns[op].begin_ns)
                turns[op].begin_ns = arrival_ns;
            if (turns[before].begin_ns > turns[op].begin_ns)
                turns[op].begin_ns = turns[before].begin_ns;
        }
    }
    qsort(turns, rounding->count, sizeof(*turns), beam_pass_by_begin);
    for (uint32_t turn = 0; turn < rounding->count; turn++)
        beam->turn_of[turns[turn].op] = turn;
}

/* Ends are kept in as few slots as there are ends that later turns need. */
static void assign_slots(struct lull_beam *beam)
{
    const struct lull_pipeline_rounding *rounding = beam->rounding;
    uint32_t free_count = 0;

    beam->slot_count = 0;
    for (uint32_t turn = 0; turn < rounding->count; turn++) {
        const uint32_t op = beam->turns[turn].op;

        for (uint32_t k = rounding->first_in[op]; k < rounding->first_in[op + 1]; k++)
            if (beam->last_use[rounding->in[k].op] == turn)
                beam->free_slots[free_count++] = beam->slot[rounding->in[k].op];
        beam->slot[op] = NO_SLOT;
        beam->last_use[op] = turn;
        for (uint32_t k = rounding->first_out[op]; k < rounding->first_out[op + 1]; k++)
            if (beam->turn_of[rounding->out[k].op] > beam->last_use[op])
                beam->last_use[op] = beam->turn_of[rounding->out[k].op];
        if (beam->last_use[op] > turn)
            beam->slot[op] = free_count > 0 ? beam->free_slots[--free_count] : beam->slot_count++;
    }
}

/* ---- candidates -------------------------------------------------------------------------- */

struct choice {
    uint32_t step;
    double loss_nj;
};

/* Lists the steps of least loss at the price of the operation's flow, the least first. Returns how
 * many there are. */
static uint32_t list_choices(const struct lull_beam *beam, uint32_t op, struct choice *choices)
{
    const struct lull_rounding_ladder *ladder = ladder_at(beam->rounding, op);
    const struct lull_pipeline_point *points =
        beam->rounding->problem->profile->classes[ladder->class_index].points;
    const double price_w = beam->op_price_w[op] - ladder->blocking_w;
    uint32_t count = 0;

    for (uint32_t step = 0; step < ladder->count; step++) {
        const struct lull_pipeline_point *point = &points[ladder->steps[step].point];
        const double cost_nj = (double)point->energy_nj + price_w * (double)point->time_ns;
        uint32_t at = count < BEAM_STEPS ? count++ : BEAM_STEPS;

        if (at == BEAM_STEPS && cost_nj >= choices[--at].loss_nj)
            continue;
        for (; at > 0 && choices[at - 1].loss_nj > cost_nj; at--)
            choices[at] = choices[at - 1];
        choices[at] = (struct choice){step, cost_nj};
    }
    for (uint32_t i = count; i-- > 0;)
        choices[i].loss_nj -= choices[0].loss_nj;
    return count;
}

static double astray_nj(const struct lull_beam *beam, uint32_t op, int64_t end_ns)
{
    return ASTRAY_SHARE * beam->op_price_w[op] * fabs((double)(end_ns - beam->guide_ns[op]));
}

/* Updates a partial plan when the operation begins: slack on its edges is lost, and an end that no
 * later turn needs is no longer astray. Returns when the operation begins. */
static int64_t beam_pass_begin_turn(const struct lull_beam *beam, uint32_t turn,
                                    const int64_t *end_ns, struct lull_beam_partial *partial)
{
    const struct lull_pipeline_rounding *rounding = beam->rounding;
    const uint32_t op = beam->turns[turn].op;
    int64_t begin_ns = 0;

    for (uint32_t k = rounding->first_in[op]; k < rounding->first_in[op + 1]; k++) {
        const struct lull_rounding_link *link = &rounding->in[k];
        const int64_t arrival_ns = end_ns[beam->slot[link->op]] + link->latency_ns;

        if (arrival_ns > begin_ns)
            begin_ns = arrival_ns;
    }
    for (uint32_t k = rounding->first_in[op]; k < rounding->first_in[op + 1]; k++) {
        const struct lull_rounding_link *link = &rounding->in[k];
        const int64_t arrival_ns = end_ns[beam->slot[link->op]] + link->latency_ns;

        partial->lost_nj += beam->in_price_w[k] * (double)(begin_ns - arrival_ns);
        if (beam->last_use[link->op] == turn)
            partial->astray_nj -= astray_nj(beam, link->op, end_ns[beam->slot[link->op]]);
    }
    return begin_ns;
}

/* Extends every partial plan by the few steps of least loss. A candidate that cannot reach the
 * deadline any more, even at the fastest steps, is dropped at once. */
static uint32_t beam_pass_list_candidates(struct lull_beam *beam, uint32_t turn, uint32_t partials)
{
    const uint32_t op = beam->turns[turn].op;
    const struct lull_rounding_ladder *ladder = ladder_at(beam->rounding, op);
    struct choice choices[BEAM_STEPS];
    const uint32_t choice_count = list_choices(beam, op, choices);
    uint32_t count = 0;

    for (uint32_t from = 0; from < partials; from++) {
        const int64_t *ends_ns = beam->now_end_ns + (size_t)from * beam->slot_count;
        struct lull_beam_partial begun = beam->now[from];
        const int64_t begin_ns = beam_pass_begin_turn(beam, turn, ends_ns, &begun);

        for (uint32_t i = 0; i < choice_count; i++) {
            const int64_t end_ns = begin_ns + ladder->steps[choices[i].step].time_ns;
            struct lull_beam_partial then = begun;

            if (end_ns + beam->tail_ns[op] > beam->deadline_ns)
                continue;
            then.lost_nj += choices[i].loss_nj;
            if (beam->slot[op] == NO_SLOT)
                then.lost_nj += beam->op_price_w[op] * (double)(beam->deadline_ns - end_ns);
            if (beam->slot[op] != NO_SLOT)
                then.astray_nj += astray_nj(beam, op, end_ns);
            beam->candidates[count++] = (struct lull_beam_candidate){
                then, then.lost_nj + then.astray_nj, from, choices[i].step, end_ns};
        }
    }
    return count;
}

/* ---- kept partial plans ------------------------------------------------------------------ */

/* The order is total, so that equal losses give the same plan on every machine. */
static int beam_pass_by_key(const void *left, const void *right)
{
    const struct lull_beam_candidate *a = left;
    const struct lull_beam_candidate *b = right;

    if (a->key < b->key || a->key > b->key)
        return (a->key > b->key) - (a->key < b->key);
    if (a->from != b->from)
        return (a->from > b->from) - (a->from < b->from);
    return (a->step > b->step) - (a->step < b->step);
}

/* Brings the candidates with the `wanted` least keys to the front, in any order (quickselect, Hoare
 * 1961). */
static void select_least(struct lull_beam_candidate *candidates, uint32_t count, uint32_t wanted)
{
    uint32_t low = 0;
    uint32_t high = count;

    while (low + 1 < high) {
        const double pivot = candidates[low + (high - low) / 2].key;
        uint32_t left = low;
        uint32_t right = high; /* one past */

        while (left < right) {
            if (candidates[left].key < pivot) {
                left++;
            } else if (candidates[right - 1].key > pivot) {
                right--;
            } else if (left + 1 == right) {
                break; /* only the pivot is left, which begins the upper side */
            } else {
                const struct lull_beam_candidate swapped = candidates[left];

                candidates[left++] = candidates[right - 1];
                candidates[--right] = swapped;
            }
        }
        if (wanted <= left)
            high = left;
        else
            low = left;
    }
}

/* Hashes the ends that later turns need; never 0, which marks a free place of the hash table. */
static uint64_t beam_pass_describe(const struct lull_beam *beam, const int64_t *end_ns)
{
    uint64_t hash = UINT64_C(1469598103934665603);

    for (uint32_t i = 0; i < beam->slot_count; i++) {
        hash = (hash ^ (uint64_t)(end_ns[i] / beam->grain_ns)) * UINT64_C(1099511628211);
        hash ^= hash >> 29;
    }
    return hash | 1;
}

/* Returns whether no partial plan with this description has been kept yet; remembers it. */
static bool is_new(struct lull_beam *beam, uint64_t description)
{
    const uint32_t mask = beam->seen_size - 1;
    uint32_t at = (uint32_t)(description >> 20) & mask;

    for (; beam->seen[at] != 0; at = (at + 1) & mask)
        if (beam->seen[at] == description)
            return false;
    beam->seen[at] = description;
    return true;
}

/* Writes the ends of the partial plan that a candidate makes. */
static void beam_pass_extend(const struct lull_beam *beam, uint32_t turn,
                             const struct lull_beam_candidate *candidate, int64_t *end_ns)
{
    const struct lull_pipeline_rounding *rounding = beam->rounding;
    const uint32_t op = beam->turns[turn].op;

    memcpy(end_ns, beam->now_end_ns + (size_t)candidate->from * beam->slot_count,
           beam->slot_count * sizeof(*end_ns));
    for (uint32_t k = rounding->first_in[op]; k < rounding->first_in[op + 1]; k++)
        if (beam->last_use[rounding->in[k].op] == turn)
            end_ns[beam->slot[rounding->in[k].op]] = 0;
    if (beam->slot[op] != NO_SLOT)
        end_ns[beam->slot[op]] = candidate->end_ns;
}

/* Keeps the best candidates, only one of those alike. Returns how many are kept. */
static uint32_t beam_pass_select(struct lull_beam *beam, uint32_t turn, uint32_t count)
{
    uint32_t kept = 0;

    if (count > ALIKE * beam->width) {
        select_least(beam->candidates, count, ALIKE * beam->width);
        count = ALIKE * beam->width;
    }
    qsort(beam->candidates, count, sizeof(*beam->candidates), beam_pass_by_key);
    memset(beam->seen, 0, beam->seen_size * sizeof(*beam->seen));
    for (uint32_t i = 0; i < count && kept < beam->width; i++) {
        const struct lull_beam_candidate *candidate = &beam->candidates[i];
        int64_t *end_ns = beam->next_end_ns + (size_t)kept * beam->slot_count;

        beam_pass_extend(beam, turn, candidate, end_ns);
        if (!is_new(beam, beam_pass_describe(beam, end_ns)))
            continue;
        beam->next[kept] = candidate->partial;
        beam->origins[(size_t)turn * beam->width + kept] =
            (struct lull_beam_origin){candidate->from, candidate->step};
        kept++;
    }
    return kept;
}

static void swap_sides(struct lull_beam *beam)
{
    struct lull_beam_partial *const partials = beam->now;
    int64_t *const end_ns = beam->now_end_ns;

    beam->now = beam->next;
    beam->next = partials;
    beam->now_end_ns = beam->next_end_ns;
    beam->next_end_ns = end_ns;
}

bool lull_beam_pass(struct lull_beam *beam, uint32_t *step_out)
{
    const uint32_t count = beam->rounding->count;
    uint32_t partials = 1;
    uint32_t at = 0; /* the best partial plan comes first */

    take_turns(beam);
    assign_slots(beam);
    assert(beam->slot_count <= count);
    beam->now[0] = (struct lull_beam_partial){0.0, 0.0};
    memset(beam->now_end_ns, 0, beam->slot_count * sizeof(*beam->now_end_ns));
    for (uint32_t turn = 0; turn < count; turn++) {
        partials = beam_pass_select(beam, turn, beam_pass_list_candidates(beam, turn, partials));
        if (partials == 0)
            return false;
        swap_sides(beam);
    }
    for (uint32_t turn = count; turn-- > 0;) {
        const struct lull_beam_origin *origin = &beam->origins[(size_t)turn * beam->width + at];

        assert(at < beam->width);
        step_out[beam->turns[turn].op] = origin->step;
        at = origin->from;
    }
    return true;
}
