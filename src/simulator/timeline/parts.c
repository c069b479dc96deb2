/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/timeline/parts.h"

#include <errno.h>
#include <string.h>

/* Working data of each meeting while the parts are found. */
struct parts_work {
    struct lull_timeline_parts *parts;
    struct lull_memory memory;
    bool *has_chosen_before; /* of each meeting */
    bool *has_chosen_behind; /* of each operation, then of each meeting by its members */
    bool *is_chosen;         /* of each meeting */
    uint32_t *root;          /* of each meeting, for union and find */
};

static void parts_scan_before(const struct parts_work *work, uint32_t collective)
{
    const struct lull_timeline_job *const job = work->parts->job;

    for (uint32_t m = job->first_member[collective]; m < job->first_member[collective + 1]; m++) {
        const uint32_t op = job->members[m];

        work->is_chosen[collective] =
            work->is_chosen[collective] || lull_timeline_is_chosen(job, op);
        for (int w = 0; w < LULL_TIMELINE_WAITS; w++) {
            const uint32_t before = job->waits[op][w];

            if (before == LULL_TIMELINE_NONE)
                continue;
            if (work->is_chosen[job->collective[before]] ||
                work->has_chosen_before[job->collective[before]])
                work->has_chosen_before[collective] = true;
        }
    }
}

static bool is_chosen_behind(const struct parts_work *work, uint32_t collective)
{
    const struct lull_timeline_job *const job = work->parts->job;

    for (uint32_t m = job->first_member[collective]; m < job->first_member[collective + 1]; m++)
        if (work->has_chosen_behind[job->members[m]])
            return true;
    return false;
}

/* Passes information about what follows a meeting back to the operations that
 * it waits for: whether chosen operations follow, and the length of the tail. */
static void parts_scan_after(const struct parts_work *work, uint32_t collective)
{
    const struct lull_timeline_job *const job = work->parts->job;
    const bool is_behind = is_chosen_behind(work, collective) || work->is_chosen[collective];
    int64_t tail_ns = 0;

    for (uint32_t m = job->first_member[collective]; m < job->first_member[collective + 1]; m++) {
        const uint32_t op = job->members[m];
        const int64_t behind_ns = job->length_ns[op] + work->parts->after_ns[op];

        if (behind_ns > tail_ns)
            tail_ns = behind_ns;
    }
    for (uint32_t m = job->first_member[collective]; m < job->first_member[collective + 1]; m++)
        for (int w = 0; w < LULL_TIMELINE_WAITS; w++) {
            const uint32_t before = job->waits[job->members[m]][w];

            if (before == LULL_TIMELINE_NONE)
                continue;
            if (is_behind)
                work->has_chosen_behind[before] = true;
            else if (tail_ns > work->parts->after_ns[before])
                work->parts->after_ns[before] = tail_ns;
        }
}

static bool is_middle(const struct parts_work *work, uint32_t collective)
{
    return work->is_chosen[collective] ||
           (work->has_chosen_before[collective] && is_chosen_behind(work, collective));
}

static uint32_t find_root(uint32_t *root, uint32_t collective)
{
    while (root[collective] != collective) {
        root[collective] = root[root[collective]];
        collective = root[collective];
    }
    return collective;
}

static void parts_unite(const struct parts_work *work, uint32_t collective)
{
    const struct lull_timeline_job *const job = work->parts->job;

    for (uint32_t m = job->first_member[collective]; m < job->first_member[collective + 1]; m++)
        for (int w = 0; w < LULL_TIMELINE_WAITS; w++) {
            const uint32_t before = job->waits[job->members[m]][w];

            if (before != LULL_TIMELINE_NONE && is_middle(work, job->collective[before]))
                work->root[find_root(work->root, job->collective[before])] =
                    find_root(work->root, collective);
        }
}

/* Numbers the parts in the job's order and lists their meetings. */
static void number_parts(const struct parts_work *work)
{
    struct lull_timeline_parts *const parts = work->parts;
    const struct lull_timeline_job *const job = parts->job;
    uint32_t *const number = work->root; /* roots become parts one by one */

    for (uint32_t i = 0; i < job->collective_count; i++)
        parts->part_of[i] = is_middle(work, i) ? find_root(work->root, i) : LULL_TIMELINE_NONE;
    memset(number, 0xff, job->collective_count * sizeof(*number));
    for (uint32_t i = 0; i < job->collective_count; i++) {
        const uint32_t collective = job->order[i];
        const uint32_t root = parts->part_of[collective];

        if (root == LULL_TIMELINE_NONE)
            continue;
        if (number[root] == LULL_TIMELINE_NONE) {
            const uint32_t op = job->members[job->first_member[collective]];

            parts->step_of[parts->part_count] = job->timeline->ops[op].step;
            number[root] = parts->part_count++;
        }
        parts->part_of[collective] = number[root];
        parts->first_of[number[root] + 1]++;
    }
    for (uint32_t p = 0; p < parts->part_count; p++)
        parts->first_of[p + 1] += parts->first_of[p];
    for (uint32_t i = job->collective_count; i-- > 0;)
        if (parts->part_of[job->order[i]] != LULL_TIMELINE_NONE)
            parts->collectives[--parts->first_of[parts->part_of[job->order[i]] + 1]] =
                job->order[i];
    /* Each entry has moved to the start of its part, one place early. */
    memmove(parts->first_of, parts->first_of + 1, parts->part_count * sizeof(*parts->first_of));
}

static void parts_divide(const struct parts_work *work)
{
    const struct lull_timeline_job *const job = work->parts->job;
    uint32_t count = 0;

    for (uint32_t i = 0; i < job->collective_count; i++)
        parts_scan_before(work, job->order[i]);
    for (uint32_t i = job->collective_count; i-- > 0;)
        parts_scan_after(work, job->order[i]);
    for (uint32_t i = 0; i < job->collective_count; i++)
        work->root[i] = i;
    for (uint32_t i = 0; i < job->collective_count; i++)
        if (is_middle(work, i)) {
            parts_unite(work, i);
            count++;
        }
    number_parts(work);
    work->parts->first_of[work->parts->part_count] = count;
}

int lull_timeline_parts_init(struct lull_timeline_parts *parts, const struct lull_timeline_job *job,
                             struct lull_error *err)
{
    const size_t ops = job->timeline->op_count;
    const size_t collectives = job->collective_count;
    struct parts_work work = {.parts = parts};

    *parts = (struct lull_timeline_parts){.job = job};
    parts->end_ns = lull_memory_take(&parts->memory, ops, sizeof(int64_t));
    parts->after_ns = lull_memory_take(&parts->memory, ops, sizeof(int64_t));
    parts->step_ns = lull_memory_take(&parts->memory, job->timeline->step_count, sizeof(int64_t));
    parts->part_of = lull_memory_take(&parts->memory, collectives, sizeof(uint32_t));
    parts->first_of = lull_memory_take(&parts->memory, collectives + 2, sizeof(uint32_t));
    parts->collectives = lull_memory_take(&parts->memory, collectives, sizeof(uint32_t));
    parts->step_of = lull_memory_take(&parts->memory, collectives, sizeof(uint32_t));
    work.has_chosen_before = lull_memory_take(&work.memory, collectives, sizeof(bool));
    work.has_chosen_behind = lull_memory_take(&work.memory, ops, sizeof(bool));
    work.is_chosen = lull_memory_take(&work.memory, collectives, sizeof(bool));
    work.root = lull_memory_take(&work.memory, collectives, sizeof(uint32_t));
    if (parts->memory.has_failed || work.memory.has_failed) {
        lull_memory_free(&work.memory);
        lull_timeline_parts_fini(parts);
        return lull_error_set(err, -ENOMEM, "not enough memory for %zu operations", ops);
    }
    lull_timeline_replay(job, job->length_ns, parts->end_ns, parts->step_ns);
    parts_divide(&work);
    lull_memory_free(&work.memory);
    return 0;
}

void lull_timeline_parts_fini(struct lull_timeline_parts *parts)
{
    lull_memory_free(&parts->memory);
}

int64_t lull_timeline_part_play(const struct lull_timeline_parts *parts, uint32_t part,
                                const int64_t *length_ns, int64_t *end_inout)
{
    const struct lull_timeline_job *const job = parts->job;
    int64_t step_ns = 0;

    for (uint32_t i = parts->first_of[part]; i < parts->first_of[part + 1]; i++) {
        const uint32_t collective = parts->collectives[i];
        const int64_t begin_ns = lull_timeline_begin(job, collective, end_inout);

        for (uint32_t m = job->first_member[collective]; m < job->first_member[collective + 1];
             m++) {
            const uint32_t op = job->members[m];

            end_inout[op] = begin_ns + length_ns[op];
            if (end_inout[op] + parts->after_ns[op] > step_ns)
                step_ns = end_inout[op] + parts->after_ns[op];
        }
    }
    return step_ns;
}
