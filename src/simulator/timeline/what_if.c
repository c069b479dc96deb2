/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/timeline/what_if.h"

#include <errno.h>
#include <stdlib.h>

struct what_if_work {
    const struct lull_timeline_job *job;
    struct lull_memory memory;
    int64_t ideal_ns[LULL_TIMELINE_KINDS];
    bool is_there[LULL_TIMELINE_KINDS];
    int64_t *lengths_ns;
    int64_t *ends_ns;
    int64_t *steps_ns;
};

enum lull_timeline_kind lull_what_if_kind(enum lull_timeline_kind kind)
{
    if (kind == LULL_TIMELINE_FORWARD_RECEIVE)
        return LULL_TIMELINE_FORWARD_SEND;
    return kind == LULL_TIMELINE_BACKWARD_RECEIVE ? LULL_TIMELINE_BACKWARD_SEND : kind;
}

static int compare_lengths(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

/* Finds the length that all operations of a kind have. */
static void find_ideal(struct what_if_work *work, enum lull_timeline_kind kind)
{
    const struct lull_operation_timeline *const timeline = work->job->timeline;
    int64_t *const found = work->ends_ns;
    double sum_ns = 0.0;
    size_t count = 0;
    bool computes = false;

    for (size_t i = 0; i < timeline->op_count; i++) {
        if (lull_what_if_kind(timeline->ops[i].kind) != kind)
            continue;
        computes = lull_timeline_computes(&timeline->ops[i]);
        found[count++] = work->job->length_ns[i];
        sum_ns += (double)work->job->length_ns[i];
    }
    work->is_there[kind] = count > 0;
    if (count == 0)
        return;
    qsort(found, count, sizeof(*found), compare_lengths);
    work->ideal_ns[kind] = computes ? (int64_t)(sum_ns / (double)count)
                                    : (found[(count - 1) / 2] + found[count / 2]) / 2;
}

/* The time of all steps with the recorded lengths of one stage, or one kind; all others are equal.
 * A negative stage, and LULL_TIMELINE_KINDS, choose none. */
static double what_if_play(struct what_if_work *work, int64_t stage, enum lull_timeline_kind kind)
{
    const struct lull_operation_timeline *const timeline = work->job->timeline;
    double sum_ns = 0.0;

    for (size_t i = 0; i < timeline->op_count; i++) {
        const struct lull_timeline_op *const op = &timeline->ops[i];
        const enum lull_timeline_kind own = lull_what_if_kind(op->kind);
        const bool is_recorded = timeline->ranks[op->rank].stage == stage || own == kind;

        work->lengths_ns[i] = is_recorded ? work->job->length_ns[i] : work->ideal_ns[own];
    }
    lull_timeline_replay(work->job, work->lengths_ns, work->ends_ns, work->steps_ns);
    for (size_t s = 0; s < timeline->step_count; s++)
        sum_ns += (double)work->steps_ns[s];
    return sum_ns;
}

static int what_if_compare_all(struct what_if_work *work, struct lull_what_if *answer,
                               struct lull_error *err)
{
    const struct lull_operation_timeline *const timeline = work->job->timeline;
    double recorded_ns = 0.0;
    double ideal_ns;

    for (int kind = 0; kind < LULL_TIMELINE_KINDS; kind++)
        find_ideal(work, (enum lull_timeline_kind)kind);
    ideal_ns = what_if_play(work, -1, LULL_TIMELINE_KINDS);
    if (ideal_ns <= 0.0)
        return lull_error_set(err, LULL_E_FORMAT, "all its operations take no time");
    /* A timeline may lack stages; those stay 0. */
    for (size_t r = 0; r < timeline->rank_count; r++)
        if (answer->stage_ratios[timeline->ranks[r].stage] <= 0.0)
            answer->stage_ratios[timeline->ranks[r].stage] =
                what_if_play(work, timeline->ranks[r].stage, LULL_TIMELINE_KINDS) / ideal_ns;
    for (int kind = 0; kind < LULL_TIMELINE_KINDS; kind++)
        if (work->is_there[kind])
            answer->kind_ratios[kind] =
                what_if_play(work, -1, (enum lull_timeline_kind)kind) / ideal_ns;
    lull_timeline_replay(work->job, work->job->length_ns, work->ends_ns, work->steps_ns);
    for (size_t s = 0; s < timeline->step_count; s++)
        recorded_ns += (double)work->steps_ns[s];
    answer->slowdown_ratio = recorded_ns / ideal_ns;
    return 0;
}

int lull_what_if_ask(const struct lull_timeline_job *job, struct lull_what_if *answer_out,
                     struct lull_error *err)
{
    const struct lull_operation_timeline *const timeline = job->timeline;
    struct what_if_work work = {.job = job};
    struct lull_what_if answer = {.stage_ratios = calloc(job->stages, sizeof(double))};
    int result;

    work.lengths_ns = lull_memory_take(&work.memory, timeline->op_count, sizeof(int64_t));
    work.ends_ns = lull_memory_take(&work.memory, timeline->op_count, sizeof(int64_t));
    work.steps_ns = lull_memory_take(&work.memory, timeline->step_count, sizeof(int64_t));
    if (work.memory.has_failed || answer.stage_ratios == NULL)
        result = lull_error_set(err, -ENOMEM, "not enough memory for %zu operations",
                                timeline->op_count);
    else
        result = what_if_compare_all(&work, &answer, err);
    lull_memory_free(&work.memory);
    if (result < 0)
        free(answer.stage_ratios);
    else
        *answer_out = answer;
    return result;
}
