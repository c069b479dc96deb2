/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/bound/dual_search.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/core/bound/dual_bound.h"

/* The share of all summed terms by which a run's result, a sum of doubles over up to millions of
 * jobs, may be below the bound by rounding alone. */
static const double sum_slip_ratio = 1e-9;

static bool dual_search_is_capped(const struct lull_slot_problem *problem)
{
    return problem->cap_w != LULL_SLOTS_UNCAPPED;
}

static size_t gpu_cells_of(const struct lull_slot_problem *problem)
{
    return (size_t)problem->type_count * problem->slots;
}

size_t lull_dual_cells(const struct lull_slot_problem *problem)
{
    return gpu_cells_of(problem) + (dual_search_is_capped(problem) ? problem->slots : 0);
}

struct dual_search {
    const struct lull_slot_problem *problem;
    struct lull_slot_choice *choices;
    double *change; /* of the requested amount, from slot to slot; one element more than cells */
};

/* Counts a schedule from its first slot to its last. */
static void dual_search_count(double *row, const struct lull_slot_choice *choice, uint32_t slots,
                              double amount)
{
    row[choice->start] += amount;
    row[choice->start + slots] -= amount; /* may be the next row's first: see below */
}

/* The amount that a row's slots request, less the available amount. Schedules that end with the
 * last slot were counted into the next row; that is corrected here. */
static void dual_search_take_row(double *change, uint32_t slots, double room, double *excess_out)
{
    double load = 0.0;

    for (uint32_t slot = 0; slot < slots; slot++) {
        load += change[slot];
        excess_out[slot] = load - room;
    }
    change[slots] += load;
}

static void find_excess(struct dual_search *search, double *excess_out)
{
    const struct lull_slot_problem *problem = search->problem;
    const size_t gpu_cells = gpu_cells_of(problem);
    double *change = search->change;

    memset(change, 0, (lull_dual_cells(problem) + 1) * sizeof(*change));
    for (size_t j = 0; j < problem->job_count; j++) {
        const struct lull_slot_choice *choice = &search->choices[j];
        const struct lull_slot_point *point;

        if (choice->point == LULL_SLOT_REJECTED)
            continue;
        point = &problem->jobs[j].points[choice->point];
        assert((uint64_t)choice->start + point->slots <= problem->slots);
        dual_search_count(&change[(size_t)point->type * problem->slots], choice, point->slots,
                          point->gpus);
        if (dual_search_is_capped(problem))
            dual_search_count(&change[gpu_cells], choice, point->slots, point->power_w);
    }
    for (size_t type = 0; type < problem->type_count; type++)
        dual_search_take_row(&change[type * problem->slots], problem->slots, problem->gpus[type],
                             &excess_out[type * problem->slots]);
    if (dual_search_is_capped(problem))
        dual_search_take_row(&change[gpu_cells], problem->slots, (double)problem->cap_w,
                             &excess_out[gpu_cells]);
}

static int dual_search_evaluate(void *user, const double *prices_j, double *bound_j_out,
                                double *excess_out)
{
    struct dual_search *search = user;
    const struct lull_slot_problem *problem = search->problem;
    const struct lull_dual_prices prices = {
        prices_j, dual_search_is_capped(problem) ? prices_j + gpu_cells_of(problem) : NULL};
    const int rc = lull_dual_bound(problem, &prices, bound_j_out, search->choices);

    if (rc < 0)
        return rc;
    find_excess(search, excess_out);
    return 0;
}

int lull_dual_search(const struct lull_slot_problem *problem,
                     const struct lull_price_ascent *ascent, double *prices_j, double *bound_j_out)
{
    const size_t cells = lull_dual_cells(problem);
    struct dual_search search = {
        .problem = problem,
        .choices = calloc(problem->job_count + 1, sizeof(*search.choices)),
        .change = calloc(cells + 1, sizeof(*search.change)),
    };
    int rc = -ENOMEM;

    if (search.choices != NULL && search.change != NULL)
        rc = lull_price_ascend(cells, dual_search_evaluate, &search, ascent, prices_j, bound_j_out);
    free(search.choices);
    free(search.change);
    return rc;
}

bool lull_dual_is_sound(double bound_j, double achieved_j, double size_j)
{
    return bound_j <= achieved_j + sum_slip_ratio * size_j;
}

double lull_dual_ratio(double bound_j, double achieved_j)
{
    if (bound_j >= achieved_j) /* by rounding alone: lull_dual_is_sound() */
        return 1.0;
    if (bound_j < 0.0)
        return achieved_j < 0.0 ? bound_j / achieved_j : INFINITY;
    return bound_j > 0.0 ? achieved_j / bound_j : INFINITY;
}
