/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/dual_search.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cluster/dual_bound.h"

static const double full_ratio = 0.9; /* a slot with more booked has a price */

static size_t cells_of(const struct lull_slot_problem *problem)
{
    return (size_t)problem->type_count * problem->slots;
}

/* ---- a guess ------------------------------------------------------------------------------ */

static void cover(const struct lull_slot_problem *problem, const struct lull_slot_mode *mode,
                  uint32_t start, double *load, double *least_j)
{
    const double gain_j = -(mode->cost_j + mode->delay_j * (double)(start - mode->first));
    const double price_j = gain_j / mode->gpus / mode->slots;

    for (uint32_t i = 0; i < mode->slots; i++) {
        const size_t cell = (size_t)mode->type * problem->slots + start + i;

        load[cell] += mode->gpus;
        least_j[cell] = fmin(least_j[cell], price_j);
    }
}

int lull_dual_guess(const struct lull_slot_problem *problem, const struct lull_slot_choice *choices,
                    double *gpu_j_out)
{
    const size_t cells = cells_of(problem);
    double *load = calloc(cells, sizeof(*load));

    if (load == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < cells; i++)
        gpu_j_out[i] = INFINITY;
    for (size_t j = 0; j < problem->job_count; j++)
        if (choices[j].mode != LULL_SLOT_REJECTED)
            cover(problem, &problem->jobs[j].modes[choices[j].mode], choices[j].start, load,
                  gpu_j_out);
    for (size_t i = 0; i < cells; i++)
        if (load[i] < full_ratio * problem->gpus[i / problem->slots] || isinf(gpu_j_out[i]) ||
            gpu_j_out[i] < 0.0)
            gpu_j_out[i] = 0.0;
    free(load);
    return 0;
}

/* ---- the search --------------------------------------------------------------------------- */

struct search {
    const struct lull_slot_problem *problem;
    struct lull_slot_choice *choices;
    double *change; /* of what is asked for, from slot to slot; a place more than cells */
};

/* What the choices ask for less what there is. */
static void find_excess(struct search *search, double *excess_out)
{
    const struct lull_slot_problem *problem = search->problem;
    double *change = search->change;

    memset(change, 0, (cells_of(problem) + 1) * sizeof(*change));
    for (size_t j = 0; j < problem->job_count; j++) {
        const struct lull_slot_choice choice = search->choices[j];
        const struct lull_slot_mode *mode;
        double *row;

        if (choice.mode == LULL_SLOT_REJECTED)
            continue;
        mode = &problem->jobs[j].modes[choice.mode];
        row = &change[(size_t)mode->type * problem->slots];
        row[choice.start] += mode->gpus;
        row[choice.start + mode->slots] -= mode->gpus; /* may be the next row's first: see below */
    }
    for (size_t type = 0, cell = 0; type < problem->type_count; type++) {
        double load = 0.0;

        for (uint32_t slot = 0; slot < problem->slots; slot++, cell++) {
            load += change[cell];
            excess_out[cell] = load - problem->gpus[type];
        }
        /* What ends with the last slot was counted into the next row: bring it back. */
        change[cell] += load;
    }
}

static int look(void *user, const double *gpu_j, double *bound_j_out, double *excess_out)
{
    struct search *search = user;
    const struct lull_dual_prices prices = {gpu_j, NULL};
    const int rc = lull_dual_bound(search->problem, &prices, bound_j_out, search->choices);

    if (rc == 0)
        find_excess(search, excess_out);
    return rc;
}

int lull_dual_search(const struct lull_slot_problem *problem,
                     const struct lull_price_ascent *ascent, double *gpu_j, double *bound_j_out)
{
    const size_t cells = cells_of(problem);
    struct search search = {
        .problem = problem,
        .choices = calloc(problem->job_count + 1, sizeof(*search.choices)),
        .change = calloc(cells + 1, sizeof(*search.change)),
    };
    int rc = -ENOMEM;

    if (search.choices != NULL && search.change != NULL)
        rc = lull_price_ascend(cells, look, &search, ascent, gpu_j, bound_j_out);
    free(search.choices);
    free(search.change);
    return rc;
}

double lull_dual_ratio(double bound_j, double achieved_j)
{
    if (bound_j >= achieved_j)
        return 1.0;
    if (bound_j < 0.0)
        return achieved_j < 0.0 ? bound_j / achieved_j : INFINITY;
    return bound_j > 0.0 ? achieved_j / bound_j : INFINITY;
}
