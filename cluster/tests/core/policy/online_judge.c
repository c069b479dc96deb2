/* SPDX-License-Identifier: Apache-2.0 */
#include "online_judge.h"

#include <math.h>
#include <stdlib.h>

#include "cluster/core/bound/dual_search.h"
#include "cluster/core/bound/slot_relaxation.h"
#include "cluster/tests/core/bound/slot_lp.h"
#include "cluster/tests/core/model/slot_cost.h"

enum { STEPS = 100 };

/* The tuned policy's schedule. A problem's operating points are the job's in order, without those
 * of no use.
 */
static struct online_result run_tuned(const struct online_case *it,
                                      const struct lull_slot_relaxation *made,
                                      struct lull_slot_choice *choices)
{
    uint32_t *starts = calloc(it->jobs.count + 1, sizeof(*starts));
    uint32_t *points = calloc(it->jobs.count + 1, sizeof(*points));
    const struct online_result result =
        online_case_run(it, lull_cluster_policy_find("pd-rats"), starts, points);

    for (size_t j = 0; j < it->jobs.count; j++) {
        const struct lull_cluster_job *job = &it->jobs.all[j];
        uint32_t at = 0;

        choices[j] = (struct lull_slot_choice){LULL_SLOT_REJECTED, 0};
        if (starts[j] == UINT32_MAX)
            continue;
        while (at < made->jobs[j].point_count &&
               (made->jobs[j].points[at].type != job->points[points[j]].type ||
                -made->jobs[j].points[at].cost_j !=
                    lull_cluster_gain_j(job, points[j], job->arrival_ns, 0.0)))
            at++;
        choices[j] = (struct lull_slot_choice){at, starts[j]};
    }
    free(starts);
    free(points);
    return result;
}

/* A slot of a type with more booked has a price. */
static const double full_ratio = 0.9;

static void cover(const struct lull_slot_problem *problem, const struct lull_slot_point *point,
                  uint32_t start, double *load, double *min_j)
{
    const double gain_j = -(point->cost_j + point->delay_j * (double)(start - point->first));
    const double price_j = gain_j / point->gpus / point->slots;

    for (uint32_t i = 0; i < point->slots; i++) {
        const size_t cell = (size_t)point->type * problem->slots + start + i;

        load[cell] += point->gpus;
        min_j[cell] = fmin(min_j[cell], price_j);
    }
}

/* Prices guessed from a schedule: where little more would have fitted into a slot of a type, the
 * least that a job there gains per GPU and slot; else 0. */
static void guess(const struct lull_slot_problem *problem, const struct lull_slot_choice *choices,
                  double *gpu_j_out)
{
    const size_t cells = (size_t)problem->type_count * problem->slots;
    double *load = calloc(cells, sizeof(*load));

    if (load == NULL)
        abort();
    for (size_t i = 0; i < cells; i++)
        gpu_j_out[i] = INFINITY;
    for (size_t j = 0; j < problem->job_count; j++)
        if (choices[j].point != LULL_SLOT_REJECTED)
            cover(problem, &problem->jobs[j].points[choices[j].point], choices[j].start, load,
                  gpu_j_out);
    for (size_t i = 0; i < cells; i++)
        if (load[i] < full_ratio * problem->gpus[i / problem->slots] || isinf(gpu_j_out[i]) ||
            gpu_j_out[i] < 0.0)
            gpu_j_out[i] = 0.0;
    free(load);
}

static double certify(const struct lull_slot_problem *problem,
                      const struct lull_slot_choice *choices, double welfare_j, uint32_t steps)
{
    double *prices_j = calloc((size_t)problem->type_count * problem->slots, sizeof(*prices_j));
    const struct lull_price_ascent ascent = {.achieved = -welfare_j, .steps = steps};
    double bound_j = -INFINITY;

    guess(problem, choices, prices_j);
    if (lull_dual_search(problem, &ascent, prices_j, &bound_j) < 0)
        abort();
    free(prices_j);
    return -bound_j;
}

struct online_verdict online_judge(const struct online_case *it)
{
    struct lull_slot_choice *choices = calloc(it->jobs.count + 1, sizeof(*choices));
    const struct online_result greedy = online_case_greedy(it);
    struct online_result tuned;
    struct online_verdict verdict;
    const struct lull_slotting slotting = online_case_slotting(it);
    struct lull_slot_relaxation made;
    struct lull_error err;
    double cost_j;

    if (lull_slot_relaxation_create(&it->cluster, &it->jobs, &slotting, &made, &err) < 0)
        abort();
    tuned = run_tuned(it, &made, choices);
    verdict = (struct online_verdict){
        .optimum_j = slot_lp_welfare(&made.problem, NULL),
        .greedy_j = greedy.welfare_j,
        .tuned_j = tuned.welfare_j,
        .scaled_j = certify(&made.problem, choices, tuned.welfare_j, 0),
        .certified_j = certify(&made.problem, choices, tuned.welfare_j, STEPS),
        .is_sound = greedy.is_sound && tuned.is_sound &&
                    slot_cost(&made.problem, choices, &cost_j) == 0 &&
                    fabs(cost_j + tuned.welfare_j) <= 1e-9 * fabs(cost_j),
    };
    lull_slot_relaxation_fini(&made);
    free(choices);
    return verdict;
}
