/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/price_ascent.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SCALES = 13, PATIENCE = 6 };

/* How far beyond the best bound the goal lies, of the way to what was achieved. */
static const double first_reach = 0.5;

/* What a search carries along. */
struct climb {
    size_t cells;
    lull_price_look look;
    void *asked;
    double *tried;
    double *best; /* of the caller */
    double *excess;
    double bound; /* of the trial */
    double best_bound;
};

/* The bound of the trial; keeps the best. */
static int look(struct climb *climb)
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

static int scale(struct climb *climb)
{
    const int scales = is_zero(climb->best, climb->cells) ? 1 : SCALES;
    double *guess = malloc((climb->cells + 1) * sizeof(*guess));
    int rc = guess == NULL ? -ENOMEM : 0;

    if (guess != NULL)
        memcpy(guess, climb->best, climb->cells * sizeof(*guess));
    for (int i = 0; i < scales && rc == 0; i++) {
        for (size_t cell = 0; cell < climb->cells; cell++)
            climb->tried[cell] = guess[cell] * 0.1 * i;
        rc = look(climb);
    }
    free(guess);
    return rc;
}

/* The excess's squared length, without what prices of 0 cannot follow. */
static double square(struct climb *climb)
{
    double squares = 0.0;

    for (size_t cell = 0; cell < climb->cells; cell++) {
        if (climb->tried[cell] <= 0.0 && climb->excess[cell] < 0.0)
            climb->excess[cell] = 0.0;
        squares += climb->excess[cell] * climb->excess[cell];
    }
    return squares;
}

static void go_back(struct climb *climb)
{
    memcpy(climb->tried, climb->best, climb->cells * sizeof(*climb->tried));
}

static int step_up(struct climb *climb, const struct lull_price_ascent *ascent)
{
    double reach = first_reach;
    int stuck = 0;

    go_back(climb);
    for (uint32_t i = 0; i < ascent->steps; i++) {
        const double before = climb->best_bound;
        double squares;
        double step;
        int rc;

        if (ascent->tell != NULL)
            ascent->tell(ascent->user, i);
        rc = look(climb);
        if (rc < 0)
            return rc;
        squares = square(climb);
        if (squares <= 0.0)
            return 0;
        stuck = climb->best_bound > before ? 0 : stuck + 1;
        if (stuck > PATIENCE) {
            reach *= 0.5;
            stuck = 0;
            go_back(climb);
            continue;
        }
        step = (climb->best_bound + reach * (ascent->achieved - climb->best_bound) - climb->bound) /
               squares;
        for (size_t cell = 0; cell < climb->cells; cell++)
            climb->tried[cell] = fmax(climb->tried[cell] + step * climb->excess[cell], 0.0);
    }
    return look(climb);
}

int lull_price_ascend(size_t cells, lull_price_look look_at, void *asked,
                      const struct lull_price_ascent *ascent, double *prices, double *bound_out)
{
    struct climb climb = {
        .cells = cells,
        .look = look_at,
        .asked = asked,
        .tried = calloc(cells + 1, sizeof(double)),
        .best = prices,
        .excess = calloc(cells + 1, sizeof(double)),
        .best_bound = -INFINITY,
    };
    int rc = climb.tried != NULL && climb.excess != NULL ? scale(&climb) : -ENOMEM;

    if (rc == 0)
        rc = step_up(&climb, ascent);
    if (rc == 0)
        *bound_out = climb.best_bound;
    free(climb.tried);
    free(climb.excess);
    return rc;
}
