/* SPDX-License-Identifier: Apache-2.0 */
#include "slot_cost.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* Returns whether the use, the sum of the changes up to each slot, never exceeds the capacity. */
static bool slots_is_within(int64_t *change, uint32_t slots, int64_t most)
{
    int64_t taken = 0;

    for (uint32_t t = 0; t < slots; t++) {
        taken += change[t];
        if (taken > most)
            return false;
    }
    return true;
}

/* Sums the cost of the choices, and records in `changes` the change of use from slot to slot of
 * each type, followed by power; each row has one more slot, for ends. */
static int slots_take(const struct lull_slot_problem *problem,
                      const struct lull_slot_choice *choices, int64_t *changes, double *cost_j_out)
{
    const size_t row = (size_t)problem->slots + 1;
    long double cost_j = 0.0L;

    for (size_t i = 0; i < problem->job_count; i++) {
        const struct lull_slot_job *job = &problem->jobs[i];
        const struct lull_slot_choice choice = choices[i];
        const struct lull_slot_point *point;

        if (choice.point == LULL_SLOT_REJECTED) {
            if (isinf(job->reject_j))
                return -EINVAL;
            cost_j += (long double)job->reject_j;
            continue;
        }
        if (choice.point >= job->point_count)
            return -EINVAL;
        point = &job->points[choice.point];
        if (choice.start < point->first || choice.start > point->last)
            return -EINVAL;
        cost_j += (long double)point->cost_j +
                  (long double)point->delay_j * (long double)(choice.start - point->first);
        changes[point->type * row + choice.start] += point->gpus;
        changes[point->type * row + choice.start + point->slots] -= point->gpus;
        changes[problem->type_count * row + choice.start] += point->power_w;
        changes[problem->type_count * row + choice.start + point->slots] -= point->power_w;
    }
    *cost_j_out = (double)cost_j;
    return 0;
}

int slot_cost(const struct lull_slot_problem *problem, const struct lull_slot_choice *choices,
              double *cost_j_out)
{
    const size_t row = (size_t)problem->slots + 1;
    int64_t *changes = calloc(row * (problem->type_count + 1), sizeof(*changes));
    double cost_j = 0.0;
    int result;

    if (changes == NULL)
        return -ENOMEM;
    result = slots_take(problem, choices, changes, &cost_j);
    for (uint32_t i = 0; i < problem->type_count && result == 0; i++)
        if (!slots_is_within(changes + i * row, problem->slots, problem->gpus[i]))
            result = -ERANGE;
    if (result == 0 &&
        !slots_is_within(changes + problem->type_count * row, problem->slots, problem->cap_w))
        result = -ERANGE;
    free(changes);
    if (result == 0)
        *cost_j_out = cost_j;
    return result;
}
