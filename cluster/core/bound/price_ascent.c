/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/bound/price_ascent.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The number of scales of a guess that are tried, a tenth apart. */
enum { SCALES = 13 };

/* Distance of the goal beyond the best bound. `first` is the initial distance, as a share of the
 * distance to the cost of a known schedule or, if none is known, of the bound that the guess
 * proves. After more than `patience` steps in a row without a higher bound, `shrink` multiplies the
 * share. Measured on problems of 100 to 3000 jobs: of patience 29 to 44 with shrink 0.7 or 0.75,
 * only this pair raises all five bounds at about the same time. */
struct goal {
    double first;
    double shrink;
    int patience;
};
static const struct goal to_schedule = {.first = 0.5, .shrink = 0.5, .patience = 6};
static const struct goal to_level = {.first = 0.1, .shrink = 0.75, .patience = 33};

/* The state of one search. */
struct climb {
    const struct lull_price_ascent *ascent;
    size_t cells;
    lull_price_look look;
    void *asked;
    double *tried;
    double *best; /* of the caller */
    double *excess;
    double bound; /* of the trial */
    double best_bound;
};

/* Computes the bound of the trial prices, and keeps the best. */
static int ascent_evaluate(struct climb *climb)
{
    const int rc = climb->look(climb->asked, climb->tried, &climb->bound, climb->excess);

    if (rc < 0)
        return rc;
    if (climb->bound > climb->best_bound) {
        climb->best_bound = climb->bound;
        memcpy(climb->best, climb->tried, climb->cells * sizeof(*climb->tried));
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

/* Tries the guessed prices times 0, 0.1 and so on. A guess of all zeros is tried once. */
static int ascent_scale(struct climb *climb)
{
    const int scales = is_zero(climb->best, climb->cells) ? 1 : SCALES;
    double *guess = malloc((climb->cells + 1) * sizeof(*guess));
    int rc = 0;

    if (guess == NULL)
        return -ENOMEM;
    memcpy(guess, climb->best, climb->cells * sizeof(*guess));
    for (int i = 0; i < scales; i++) {
        for (size_t cell = 0; cell < climb->cells; cell++)
            climb->tried[cell] = guess[cell] * 0.1 * i;
        rc = ascent_evaluate(climb);
        if (rc < 0)
            break;
    }
    free(guess);
    return rc;
}

/* Returns the excess's squared length. Sets components to 0 that would lower prices of 0. */
static double ascent_square(struct climb *climb)
{
    double squares = 0.0;

    for (size_t cell = 0; cell < climb->cells; cell++) {
        if (climb->tried[cell] <= 0.0 && climb->excess[cell] < 0.0)
            climb->excess[cell] = 0.0;
        squares += climb->excess[cell] * climb->excess[cell];
    }
    return squares;
}

static void ascent_go_back(struct climb *climb)
{
    memcpy(climb->tried, climb->best, climb->cells * sizeof(*climb->tried));
}

/* The distance of the goal beyond the best bound, after it has shrunk to this share. */
static double way_to_goal(const struct climb *climb, double part, double level)
{
    const double achieved = climb->ascent->achieved;

    return isinf(achieved) ? part * level : part * (achieved - climb->best_bound);
}

/* Returns whether the search ends before its last step. */
static bool ascent_is_over(const struct climb *climb, double way)
{
    const struct lull_price_ascent *ascent = climb->ascent;

    if (isinf(ascent->achieved) && way <= ascent->fine_ratio * fabs(climb->best_bound))
        return true;
    return ascent->is_over != NULL && ascent->is_over(ascent->user);
}

/* Steps along the subgradient. After many steps without a better bound the goal moves closer, and
 * the search continues from the best prices. */
static int step_up(struct climb *climb)
{
    const struct lull_price_ascent *ascent = climb->ascent;
    const struct goal *goal = isinf(ascent->achieved) ? &to_level : &to_schedule;
    const double level = fabs(climb->best_bound);
    double part = goal->first;
    int stuck = 0;

    ascent_go_back(climb);
    for (uint32_t i = 0; i < ascent->steps; i++) {
        const double before = climb->best_bound;
        double squares;
        double step;
        int rc;

        if (ascent->tell != NULL)
            ascent->tell(ascent->user, i);
        rc = ascent_evaluate(climb);
        if (rc < 0)
            return rc;
        assert(climb->best_bound >= before);
        squares = ascent_square(climb);
        if (squares <= 0.0 || ascent_is_over(climb, way_to_goal(climb, part, level)))
            return 0;
        stuck = climb->best_bound > before ? 0 : stuck + 1;
        if (stuck > goal->patience) {
            part *= goal->shrink;
            stuck = 0;
            ascent_go_back(climb);
            continue;
        }
        step = (climb->best_bound + way_to_goal(climb, part, level) - climb->bound) / squares;
        for (size_t cell = 0; cell < climb->cells; cell++)
            climb->tried[cell] = fmax(climb->tried[cell] + step * climb->excess[cell], 0.0);
    }
    return ascent_evaluate(climb);
}

int lull_price_ascend(size_t cells, lull_price_look look_at, void *asked,
                      const struct lull_price_ascent *ascent, double *prices, double *bound_out)
{
    struct climb climb = {
        .ascent = ascent,
        .cells = cells,
        .look = look_at,
        .asked = asked,
        .tried = calloc(cells + 1, sizeof(double)),
        .best = prices,
        .excess = calloc(cells + 1, sizeof(double)),
        .best_bound = -INFINITY,
    };
    int rc = -ENOMEM;

    if (climb.tried == NULL || climb.excess == NULL)
        goto end;
    rc = ascent_scale(&climb);
    if (rc < 0)
        goto end;
    rc = step_up(&climb);
    if (rc < 0)
        goto end;
    *bound_out = climb.best_bound;
end:
    free(climb.tried);
    free(climb.excess);
    return rc;
}
