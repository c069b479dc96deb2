/* SPDX-License-Identifier: Apache-2.0 */
#include "bound/solve_prices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/cluster/dual_bound.h"

enum { MOST_STEPS = 3000, PATIENCE = 30 };

/* One price for each slot of a type, and behind them for each of the power cap. */
struct ascent {
    const struct lull_slot_problem *problem;
    size_t count;
    double *price_j;
    double *best_price_j;
    double *lacking; /* what the schedules take beyond what there is; < 0: left over */
    struct lull_slot_choice *choices;
    double bound_j; /* by the prices as they are */
    double best_j;
    double level_j; /* how much above the best is aimed at */
    int since_best;
};

static double room_at(const struct lull_slot_problem *problem, size_t at)
{
    const size_t resource = at / problem->slots;

    return resource < problem->type_count ? (double)problem->gpus[resource]
                                          : (double)problem->cap_w;
}

static void add_schedules(struct ascent *ascent)
{
    const struct lull_slot_problem *problem = ascent->problem;
    double *power = ascent->lacking + (size_t)problem->type_count * problem->slots;

    for (size_t at = 0; at < ascent->count; at++)
        ascent->lacking[at] = -room_at(problem, at);
    for (size_t i = 0; i < problem->job_count; i++) {
        const struct lull_slot_choice choice = ascent->choices[i];
        const struct lull_slot_mode *mode;
        double *gpus;

        if (choice.mode == LULL_SLOT_REJECTED)
            continue;
        mode = &problem->jobs[i].modes[choice.mode];
        gpus = ascent->lacking + (size_t)mode->type * problem->slots;
        for (uint32_t t = choice.start; t < choice.start + mode->slots; t++) {
            gpus[t] += mode->gpus;
            if (problem->cap_w != LULL_SLOTS_UNCAPPED)
                power[t] += mode->power_w;
        }
    }
}

/* The square of how far the direction of ascent goes, which is what is lacking; where the price is
   0 and there is room, it cannot. */
static double length_of(const struct ascent *ascent)
{
    double square = 0.0;

    for (size_t at = 0; at < ascent->count; at++)
        if (ascent->price_j[at] > 0.0 || ascent->lacking[at] > 0.0)
            square += ascent->lacking[at] * ascent->lacking[at];
    return square;
}

static int look(struct ascent *ascent)
{
    const struct lull_dual_prices prices = {ascent->price_j,
                                            ascent->price_j + (size_t)ascent->problem->type_count *
                                                                  ascent->problem->slots};

    if (lull_dual_bound(ascent->problem, &prices, &ascent->bound_j, ascent->choices) < 0)
        return -ENOMEM;
    if (ascent->bound_j > ascent->best_j) {
        ascent->best_j = ascent->bound_j;
        ascent->since_best = 0;
        memcpy(ascent->best_price_j, ascent->price_j, ascent->count * sizeof(double));
    } else if (++ascent->since_best >= PATIENCE) { /* too far: back, and nearer */
        ascent->since_best = 0;
        ascent->level_j *= 0.7;
        memcpy(ascent->price_j, ascent->best_price_j, ascent->count * sizeof(double));
    }
    add_schedules(ascent);
    return 0;
}

static int climb(struct ascent *ascent, double fine_ratio, double time_limit_s)
{
    const clock_t until = clock() + (clock_t)(fmin(time_limit_s, 1e5) * CLOCKS_PER_SEC);

    for (int i = 0; i < MOST_STEPS; i++) {
        double square, step;

        if (look(ascent) < 0)
            return -ENOMEM;
        if (i == 0)
            ascent->level_j = 0.1 * fabs(ascent->best_j);
        square = length_of(ascent);
        if (square <= 0.0 || ascent->level_j <= fine_ratio * fabs(ascent->best_j) ||
            clock() > until)
            break;
        step = (ascent->best_j + ascent->level_j - ascent->bound_j) / square;
        for (size_t at = 0; at < ascent->count; at++)
            ascent->price_j[at] = fmax(0.0, ascent->price_j[at] + step * ascent->lacking[at]);
    }
    return 0;
}

static int make_room(struct ascent *ascent)
{
    const size_t count = ascent->count + 1;

    ascent->price_j = calloc(count, sizeof(double));
    ascent->best_price_j = calloc(count, sizeof(double));
    ascent->lacking = calloc(count, sizeof(double));
    ascent->choices = calloc(ascent->problem->job_count + 1, sizeof(*ascent->choices));
    return ascent->price_j == NULL || ascent->best_price_j == NULL || ascent->lacking == NULL ||
                   ascent->choices == NULL
               ? -ENOMEM
               : 0;
}

static int take(const struct ascent *ascent, struct lull_lp_result *result)
{
    const struct lull_slot_problem *problem = ascent->problem;
    const size_t gpus = (size_t)problem->type_count * problem->slots;

    *result = (struct lull_lp_result){
        .bound_j = ascent->best_j,
        .objective_j = (double)NAN,
        .gpu_j = calloc(gpus, sizeof(double)),
        .cap_j = calloc(problem->slots, sizeof(double)),
    };
    if (result->gpu_j == NULL || result->cap_j == NULL)
        return -ENOMEM;
    memcpy(result->gpu_j, ascent->best_price_j, gpus * sizeof(double));
    if (ascent->count > gpus)
        memcpy(result->cap_j, ascent->best_price_j + gpus, problem->slots * sizeof(double));
    return 0;
}

int lull_solve_prices(const struct lull_slot_problem *problem, double fine_ratio,
                      double time_limit_s, struct lull_lp_result *result_out,
                      struct lull_error *err)
{
    const uint32_t resources =
        problem->type_count + (problem->cap_w != LULL_SLOTS_UNCAPPED ? 1u : 0u);
    struct ascent ascent = {
        .problem = problem, .count = (size_t)resources * problem->slots, .best_j = -HUGE_VAL};
    int result = make_room(&ascent);

    *result_out = (struct lull_lp_result){0};
    if (result == 0)
        result = climb(&ascent, fine_ratio, time_limit_s);
    if (result == 0)
        result = take(&ascent, result_out);
    free(ascent.price_j);
    free(ascent.best_price_j);
    free(ascent.lacking);
    free(ascent.choices);
    if (result < 0) {
        lull_lp_result_fini(result_out);
        return lull_error_set(err, result, "no memory for prices of %zu slots", ascent.count);
    }
    return 0;
}
