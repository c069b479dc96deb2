/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/dual_search.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/cluster/dual_bound.h"

enum { SCALES = 13, PATIENCE = 6 };

/* How far beyond the best bound the goal lies, of the way to what was achieved. */
static const double first_reach = 0.5;
static const double full_ratio = 0.9; /* a slot with more booked has a price */

/* What a search carries along. */
struct search {
    const struct lull_slot_problem *problem;
    size_t cells; /* types * slots */
    double *tried_j;
    double *best_j; /* prices of the caller */
    double *excess; /* asked for less what there is; sums of differences at first */
    struct lull_slot_choice *choices;
    double bound_j;      /* of the trial */
    double best_bound_j; /* of all */
};

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

/* The bound of the trial; keeps the best. */
static int look(struct search *search)
{
    const struct lull_dual_prices prices = {search->tried_j, NULL};
    const int rc = lull_dual_bound(search->problem, &prices, &search->bound_j, search->choices);

    if (rc < 0)
        return rc;
    if (search->bound_j > search->best_bound_j) {
        search->best_bound_j = search->bound_j;
        memcpy(search->best_j, search->tried_j, search->cells * sizeof(*search->tried_j));
    }
    return 0;
}

static bool is_zero(const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (values[i] > 0.0)
            return false;
    return true;
}

static int scale(struct search *search, const double *guess_j)
{
    const int scales = is_zero(guess_j, search->cells) ? 1 : SCALES;

    for (int i = 0; i < scales; i++) {
        int rc;

        for (size_t cell = 0; cell < search->cells; cell++)
            search->tried_j[cell] = guess_j[cell] * 0.1 * i;
        rc = look(search);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Of the choices at the trial's prices; its squared length, without what prices of 0 cannot follow.
 */
static double find_excess(struct search *search)
{
    const struct lull_slot_problem *problem = search->problem;
    double squares = 0.0;

    memset(search->excess, 0, (search->cells + 1) * sizeof(*search->excess));
    for (size_t j = 0; j < problem->job_count; j++) {
        const struct lull_slot_choice choice = search->choices[j];
        const struct lull_slot_mode *mode;
        double *row;

        if (choice.mode == LULL_SLOT_REJECTED)
            continue;
        mode = &problem->jobs[j].modes[choice.mode];
        row = &search->excess[(size_t)mode->type * problem->slots];
        row[choice.start] += mode->gpus;
        row[choice.start + mode->slots] -= mode->gpus; /* may be the next row's first: see below */
    }
    for (size_t type = 0, cell = 0; type < problem->type_count; type++) {
        double load = 0.0;

        for (uint32_t slot = 0; slot < problem->slots; slot++, cell++) {
            load += search->excess[cell];
            search->excess[cell] = load - problem->gpus[type];
            if (search->tried_j[cell] <= 0.0 && search->excess[cell] < 0.0)
                search->excess[cell] = 0.0;
            squares += search->excess[cell] * search->excess[cell];
        }
        /* What ends with the last slot was counted into the next row: bring it back. */
        search->excess[cell] += load;
    }
    return squares;
}

static int descend(struct search *search, double achieved_j, uint32_t steps)
{
    double reach = first_reach;
    int stuck = 0;

    memcpy(search->tried_j, search->best_j, search->cells * sizeof(*search->tried_j));
    for (uint32_t i = 0; i < steps; i++) {
        const double before_j = search->best_bound_j;
        double squares;
        double step;
        int rc = look(search);

        if (rc < 0)
            return rc;
        squares = find_excess(search);
        if (squares <= 0.0)
            return 0;
        stuck = search->best_bound_j > before_j ? 0 : stuck + 1;
        if (stuck > PATIENCE) {
            reach *= 0.5;
            stuck = 0;
            memcpy(search->tried_j, search->best_j, search->cells * sizeof(*search->tried_j));
            continue;
        }
        step =
            (search->best_bound_j + reach * (achieved_j - search->best_bound_j) - search->bound_j) /
            squares;
        for (size_t cell = 0; cell < search->cells; cell++)
            search->tried_j[cell] = fmax(search->tried_j[cell] + step * search->excess[cell], 0.0);
    }
    return look(search);
}

int lull_dual_search(const struct lull_slot_problem *problem, double achieved_j, uint32_t steps,
                     double *gpu_j, double *bound_j_out)
{
    const size_t cells = cells_of(problem);
    struct search search = {
        .problem = problem,
        .cells = cells,
        .tried_j = calloc(cells, sizeof(double)),
        .best_j = calloc(cells, sizeof(double)),
        .excess = calloc(cells + 1, sizeof(double)),
        .choices = calloc(problem->job_count + 1, sizeof(struct lull_slot_choice)),
        .best_bound_j = -INFINITY,
    };
    int rc = -ENOMEM;

    if (search.tried_j != NULL && search.best_j != NULL && search.excess != NULL &&
        search.choices != NULL)
        rc = scale(&search, gpu_j);
    if (rc == 0)
        rc = descend(&search, achieved_j, steps);
    if (rc == 0) {
        memcpy(gpu_j, search.best_j, cells * sizeof(*gpu_j));
        *bound_j_out = search.best_bound_j;
    }
    free(search.tried_j);
    free(search.best_j);
    free(search.excess);
    free(search.choices);
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
