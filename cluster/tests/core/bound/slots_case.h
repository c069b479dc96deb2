/* Random slot relaxation problems, small enough for exhaustive search. SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef LULL_CLUSTER_TESTS_CORE_BOUND_SLOTS_CASE_H
#define LULL_CLUSTER_TESTS_CORE_BOUND_SLOTS_CASE_H

#include "cluster/core/model/slots.h"
#include "core/stats/random.h"

enum { CASE_TYPES = 3, CASE_JOBS = 6, CASE_POINTS = 3, CASE_SLOTS = 9 };

struct slots_case {
    uint32_t gpus[CASE_TYPES];
    struct lull_slot_point points[CASE_JOBS][CASE_POINTS];
    struct lull_slot_job jobs[CASE_JOBS];
    struct lull_slot_problem problem;
};

static inline void slots_case_point(struct lull_random *random, const struct slots_case *it,
                                    struct lull_slot_point *point)
{
    const uint32_t slots = it->problem.slots;

    point->type = (uint32_t)lull_random_below(random, it->problem.type_count);
    point->gpus = 1 + (uint32_t)lull_random_below(random, it->gpus[point->type]);
    point->slots = (uint32_t)lull_random_below(random, slots);
    point->last = (uint32_t)lull_random_below(random, slots - point->slots + 1);
    point->first = (uint32_t)lull_random_below(random, point->last + 1);
    point->power_w = (uint32_t)lull_random_below(random, 400);
    point->cost_j = 100.0 * lull_random_uniform(random);
    point->delay_j = lull_random_below(random, 2) == 0 ? 0.0 : 9.0 * lull_random_uniform(random);
}

/* With a cap or not; jobs mandatory or not (some costs below 0 then). */
static inline void slots_case_draw(struct lull_random *random, struct slots_case *it)
{
    *it = (struct slots_case){0};
    it->problem = (struct lull_slot_problem){
        .slots = 1 + (uint32_t)lull_random_below(random, CASE_SLOTS),
        .type_count = 1 + (uint32_t)lull_random_below(random, CASE_TYPES),
        .gpus = it->gpus,
        .cap_w = lull_random_below(random, 2) == 0 ? LULL_SLOTS_UNCAPPED
                                                   : (int64_t)lull_random_below(random, 900),
        .job_count = 1 + lull_random_below(random, CASE_JOBS),
        .jobs = it->jobs,
    };
    for (uint32_t i = 0; i < it->problem.type_count; i++)
        it->gpus[i] = 1 + (uint32_t)lull_random_below(random, 5);
    for (size_t i = 0; i < it->problem.job_count; i++) {
        it->jobs[i].points = it->points[i];
        it->jobs[i].point_count = 1 + (uint32_t)lull_random_below(random, CASE_POINTS);
        it->jobs[i].reject_j = lull_random_below(random, 2) == 0
                                   ? LULL_SLOTS_MANDATORY
                                   : 150.0 * lull_random_uniform(random) - 50.0;
        for (uint32_t m = 0; m < it->jobs[i].point_count; m++)
            slots_case_point(random, it, &it->points[i][m]);
    }
}

#endif
