/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "simulator/timeline/levers.h"

/* The search: each rank's clock, what the next lower one would save, and what it would cost. */
struct ranks_search {
    const struct lull_timeline_parts *parts;
    const struct lull_timeline_power *power;
    struct lull_memory memory;
    double *chosen_ns;  /* of each rank: its forwards and backwards at the highest clock */
    uint32_t *first_of; /* rank_count + 1, into its parts */
    uint32_t *parts_of; /* by rank */
    int64_t *next_ns;   /* beside parts_of: the part's time with the rank one clock lower */
    bool *is_stale;     /* of each rank: next_ns has to be found again */
    int64_t *step_ns;   /* of each step, here */
    int64_t *length_ns; /* of each operation, here */
    int64_t *end_ns;
    double left_ns;  /* of the allowance */
    uint32_t *point; /* of each rank */
};

static int64_t scaled_ns(const struct ranks_search *search, uint32_t op, uint32_t point)
{
    const int64_t length_ns = search->parts->job->length_ns[op];

    if (!lull_timeline_is_chosen(search->parts->job, op))
        return length_ns;
    return (int64_t)((double)length_ns / search->power->points[point].speed_ratio);
}

/* Sets the lengths of a rank's operations in a part to those of a point. */
static void set_lengths(const struct ranks_search *search, uint32_t part, uint32_t rank,
                        uint32_t point)
{
    const struct lull_timeline_job *const job = search->parts->job;

    for (uint32_t i = search->parts->first_of[part]; i < search->parts->first_of[part + 1]; i++) {
        const uint32_t collective = search->parts->collectives[i];
        const uint32_t op = job->members[job->first_member[collective]];

        if (lull_timeline_is_chosen(job, op) && job->timeline->ops[op].rank == rank)
            search->length_ns[op] = scaled_ns(search, op, point);
    }
}

/* The energy of a rank, but for the time in which all wait longer. */
static double rank_nj(const struct ranks_search *search, uint32_t rank, uint32_t point)
{
    const struct lull_timeline_point *const at = &search->power->points[point];
    const double busy_ns = search->chosen_ns[rank] / at->speed_ratio;
    double all_ns = 0.0;

    for (size_t s = 0; s < search->parts->job->timeline->step_count; s++)
        all_ns += (double)search->step_ns[s];
    return busy_ns * at->compute_w + (all_ns - busy_ns) * at->wait_w;
}

/* Finds how long a rank's parts take with the rank one clock lower. */
static void ranks_try_lower(const struct ranks_search *search, uint32_t rank)
{
    const uint32_t point = search->point[rank];

    for (uint32_t i = search->first_of[rank]; i < search->first_of[rank + 1]; i++) {
        const uint32_t part = search->parts_of[i];

        set_lengths(search, part, rank, point + 1);
        search->next_ns[i] =
            lull_timeline_part_play(search->parts, part, search->length_ns, search->end_ns);
        set_lengths(search, part, rank, point);
    }
    search->is_stale[rank] = false;
}

static double cost_ns(const struct ranks_search *search, uint32_t rank)
{
    double sum_ns = 0.0;

    for (uint32_t i = search->first_of[rank]; i < search->first_of[rank + 1]; i++) {
        const int64_t step_ns = search->step_ns[search->parts->step_of[search->parts_of[i]]];

        if (search->next_ns[i] > step_ns)
            sum_ns += (double)(search->next_ns[i] - step_ns);
    }
    return sum_ns;
}

static void ranks_lower(struct ranks_search *search, uint32_t rank)
{
    const struct lull_timeline_job *const job = search->parts->job;

    search->left_ns -= cost_ns(search, rank);
    search->point[rank]++;
    for (uint32_t i = search->first_of[rank]; i < search->first_of[rank + 1]; i++) {
        const uint32_t part = search->parts_of[i];
        int64_t *const step_ns = &search->step_ns[search->parts->step_of[part]];

        set_lengths(search, part, rank, search->point[rank]);
        if (search->next_ns[i] > *step_ns)
            *step_ns = search->next_ns[i];
        for (uint32_t p = search->parts->first_of[part]; p < search->parts->first_of[part + 1];
             p++) {
            const uint32_t op = job->members[job->first_member[search->parts->collectives[p]]];

            if (lull_timeline_is_chosen(job, op))
                search->is_stale[job->timeline->ops[op].rank] = true;
        }
    }
}

/* Finds the rank whose next clock saves most per nanosecond, free ones first. */
static uint32_t ranks_find_best(struct ranks_search *search)
{
    uint32_t best = LULL_TIMELINE_NONE;
    double most = 0.0;

    for (uint32_t r = 0; r < search->parts->job->timeline->rank_count; r++) {
        double saved_nj;
        double lost_ns;

        if (search->point[r] + 1 >= search->power->point_count ||
            search->first_of[r] == search->first_of[r + 1])
            continue;
        saved_nj = rank_nj(search, r, search->point[r]) - rank_nj(search, r, search->point[r] + 1);
        if (saved_nj <= 0.0)
            continue;
        if (search->is_stale[r])
            ranks_try_lower(search, r);
        lost_ns = cost_ns(search, r);
        /* The added nanosecond avoids a division by 0 and ranks steps without cost first. */
        if (lost_ns <= search->left_ns && saved_nj / (lost_ns + 1.0) > most) {
            most = saved_nj / (lost_ns + 1.0);
            best = r;
        }
    }
    return best;
}

/* ---- preparation ---- */

static bool is_last_part(const struct ranks_search *search, const uint32_t *ends, uint32_t rank,
                         uint32_t part)
{
    return ends[rank] > search->first_of[rank] && search->parts_of[ends[rank] - 1] == part;
}

/* Lists the parts of each rank; room for one per chosen operation. */
static void list_parts(struct ranks_search *search, uint32_t *ends)
{
    const struct lull_timeline_parts *const parts = search->parts;
    const struct lull_timeline_job *const job = parts->job;
    const struct lull_operation_timeline *const timeline = job->timeline;

    for (uint32_t i = 0; i < timeline->op_count; i++)
        if (lull_timeline_is_chosen(job, i)) {
            search->first_of[timeline->ops[i].rank + 1]++;
            search->chosen_ns[timeline->ops[i].rank] += (double)job->length_ns[i];
        }
    for (size_t r = 0; r < timeline->rank_count; r++) {
        search->first_of[r + 1] += search->first_of[r];
        ends[r] = search->first_of[r];
    }
    for (uint32_t p = 0; p < parts->part_count; p++)
        for (uint32_t i = parts->first_of[p]; i < parts->first_of[p + 1]; i++) {
            const uint32_t op = job->members[job->first_member[parts->collectives[i]]];
            const uint32_t rank = timeline->ops[op].rank;

            if (lull_timeline_is_chosen(job, op) && !is_last_part(search, ends, rank, p))
                search->parts_of[ends[rank]++] = p;
        }
    /* The lists are compacted, since a part counts once and not per operation. */
    for (uint32_t r = 0, next = 0; r < timeline->rank_count; r++) {
        const uint32_t count = ends[r] - search->first_of[r];

        memmove(search->parts_of + next, search->parts_of + search->first_of[r],
                count * sizeof(*search->parts_of));
        search->first_of[r] = next;
        next += count;
        ends[r] = next;
    }
    if (timeline->rank_count > 0)
        search->first_of[timeline->rank_count] = ends[timeline->rank_count - 1];
}

static bool ranks_allocate(struct ranks_search *search, uint32_t **ends_out)
{
    const struct lull_operation_timeline *const timeline = search->parts->job->timeline;
    const size_t ops = timeline->op_count;
    const size_t ranks = timeline->rank_count;
    struct lull_memory *const memory = &search->memory;

    search->chosen_ns = lull_memory_take(memory, ranks, sizeof(double));
    search->first_of = lull_memory_take(memory, ranks + 1, sizeof(uint32_t));
    search->parts_of = lull_memory_take(memory, ops, sizeof(uint32_t));
    search->next_ns = lull_memory_take(memory, ops, sizeof(int64_t));
    search->is_stale = lull_memory_take(memory, ranks, sizeof(bool));
    search->step_ns = lull_memory_take(memory, timeline->step_count, sizeof(int64_t));
    search->length_ns = lull_memory_take(memory, ops, sizeof(int64_t));
    search->end_ns = lull_memory_take(memory, ops, sizeof(int64_t));
    *ends_out = lull_memory_take(memory, ranks, sizeof(uint32_t));
    return !memory->has_failed;
}

/* All ranks begin at one point, which has cost some of the allowance. */
static void ranks_begin_at(struct ranks_search *search, uint32_t begin, double tolerance_ratio)
{
    const struct lull_timeline_parts *const parts = search->parts;
    const struct lull_operation_timeline *const timeline = parts->job->timeline;

    memcpy(search->step_ns, parts->step_ns, timeline->step_count * sizeof(int64_t));
    memcpy(search->end_ns, parts->end_ns, timeline->op_count * sizeof(int64_t));
    for (size_t s = 0; s < timeline->step_count; s++)
        search->left_ns += tolerance_ratio * (double)parts->step_ns[s];
    for (uint32_t i = 0; i < timeline->op_count; i++)
        search->length_ns[i] = scaled_ns(search, i, begin);
    for (uint32_t r = 0; r < timeline->rank_count; r++) {
        search->point[r] = begin;
        search->is_stale[r] = true;
    }
    for (uint32_t p = 0; p < parts->part_count; p++) {
        int64_t *const step_ns = &search->step_ns[parts->step_of[p]];

        const int64_t part_ns =
            lull_timeline_part_play(parts, p, search->length_ns, search->end_ns);

        if (part_ns > *step_ns) {
            search->left_ns -= (double)(part_ns - *step_ns);
            *step_ns = part_ns;
        }
    }
}

int lull_timeline_choose_ranks(const struct lull_timeline_parts *parts,
                               const struct lull_timeline_power *power, double tolerance_ratio,
                               uint32_t begin, uint32_t *point_out)
{
    struct ranks_search search = {.parts = parts, .power = power, .point = point_out};
    uint32_t *ends;
    uint32_t rank;

    if (!ranks_allocate(&search, &ends)) {
        lull_memory_free(&search.memory);
        return -ENOMEM;
    }
    list_parts(&search, ends);
    ranks_begin_at(&search, begin, tolerance_ratio);
    while ((rank = ranks_find_best(&search)) != LULL_TIMELINE_NONE)
        ranks_lower(&search, rank);
    lull_memory_free(&search.memory);
    return 0;
}
