/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/model/slots.h"

#include <errno.h>
#include <stdbool.h>

static int slots_check_point(const struct lull_slot_problem *problem,
                             const struct lull_slot_point *point, struct lull_error *err)
{
    if (point->type >= problem->type_count)
        return lull_error_set(err, -EINVAL, "there is no such type of GPU");
    if (point->gpus == 0 || point->gpus > LULL_SLOTS_MOST_GPUS)
        return lull_error_set(err, -EINVAL, "a mode has 1 to %d GPUs", LULL_SLOTS_MOST_GPUS);
    if (point->first > point->last)
        return lull_error_set(err, -EINVAL, "a mode's last start is before its first");
    if ((uint64_t)point->last + point->slots > problem->slots)
        return lull_error_set(err, -EINVAL, "a mode may end behind the last of %u slots",
                              problem->slots);
    if (!(fabs(point->cost_j) <= LULL_SLOTS_MAX_J))
        return lull_error_set(err, -EINVAL, "a cost is at most %g J", LULL_SLOTS_MAX_J);
    if (!(point->delay_j >= 0.0) || !(point->delay_j <= LULL_SLOTS_MAX_J))
        return lull_error_set(err, -EINVAL, "a slot later costs 0 to %g J", LULL_SLOTS_MAX_J);
    return 0;
}

static int slots_check_job(const struct lull_slot_problem *problem, const struct lull_slot_job *job,
                           struct lull_error *err)
{
    const bool is_mandatory = isinf(job->reject_j) && job->reject_j > 0.0;

    if (!is_mandatory && !(fabs(job->reject_j) <= LULL_SLOTS_MAX_J))
        return lull_error_set(err, -EINVAL, "leaving a job out costs at most %g J",
                              LULL_SLOTS_MAX_J);
    if (job->point_count > LULL_SLOTS_MAX_POINTS)
        return lull_error_set(err, -EINVAL, "a job has at most %d modes", LULL_SLOTS_MAX_POINTS);
    if (is_mandatory && job->point_count == 0)
        return lull_error_set(err, -EINVAL, "a job that has to run has no mode");
    for (uint32_t i = 0; i < job->point_count; i++) {
        const int result = slots_check_point(problem, &job->points[i], err);

        if (result < 0)
            return result;
    }
    return 0;
}

static int slots_check_sizes(const struct lull_slot_problem *problem, struct lull_error *err)
{
    if (problem->slots == 0 || problem->slots > LULL_SLOTS_MOST)
        return lull_error_set(err, -EINVAL, "there are 1 to %d slots", LULL_SLOTS_MOST);
    if (problem->type_count == 0 || problem->type_count > LULL_SLOTS_MAX_TYPES)
        return lull_error_set(err, -EINVAL, "there are 1 to %d types of GPU", LULL_SLOTS_MAX_TYPES);
    for (uint32_t i = 0; i < problem->type_count; i++)
        if (problem->gpus[i] > LULL_SLOTS_MOST_GPUS)
            return lull_error_set(err, -EINVAL, "there are at most %d GPUs of a type",
                                  LULL_SLOTS_MOST_GPUS);
    if (problem->cap_w != LULL_SLOTS_UNCAPPED &&
        (problem->cap_w < 0 || problem->cap_w > LULL_SLOTS_MOST_CAP_W))
        return lull_error_set(err, -EINVAL, "a power cap is 0 to %g W",
                              (double)LULL_SLOTS_MOST_CAP_W);
    return 0;
}

int lull_slot_problem_check(const struct lull_slot_problem *problem, struct lull_error *err)
{
    int rc = slots_check_sizes(problem, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < problem->job_count; i++) {
        struct lull_error why = {0};

        rc = slots_check_job(problem, &problem->jobs[i], &why);
        if (rc < 0)
            return lull_error_set(err, rc, "job %zu: %s", i, why.text);
    }
    return 0;
}
