/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/bound/dual_bound.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Sums of one schedule stay below 2^QUANTUM_BITS quanta, so that 64 bits hold them. */
enum { QUANTUM_BITS = 60 };

typedef __int128 wide;

/* Prices prepared for a problem. */
struct lull_dual {
    const struct lull_slot_problem *problem;
    int exponent;           /* a quantum is 2^exponent J */
    const int64_t **before; /* [type], and power behind them: prices of all slots before, quanta */
    int64_t *sums;
};

/* ---- quanta ------------------------------------------------------------------------------- */

static double dual_bound_usable_price(double price_j)
{
    if (!(price_j > 0.0) || isinf(price_j))
        return 0.0;
    return price_j;
}

static double sum_of(const double *prices_j, uint32_t count)
{
    double sum_j = 0.0;

    for (uint32_t i = 0; prices_j != NULL && i < count; i++)
        sum_j += dual_bound_usable_price(prices_j[i]);
    return sum_j;
}

/* A number that no schedule of any job can exceed in cost and prices, J. */
static double dual_bound_largest(const struct lull_slot_problem *problem,
                                 const struct lull_dual_prices *prices)
{
    double own_j = 0.0, price_j = 0.0;
    double gpus = 0.0, power_w = 0.0;

    for (size_t i = 0; i < problem->job_count; i++) {
        const struct lull_slot_job *job = &problem->jobs[i];

        if (!isinf(job->reject_j))
            own_j = fmax(own_j, fabs(job->reject_j));
        for (uint32_t m = 0; m < job->point_count; m++) {
            const struct lull_slot_point *point = &job->points[m];

            own_j = fmax(own_j, fabs(point->cost_j) + point->delay_j * problem->slots);
            gpus = fmax(gpus, point->gpus);
            power_w = fmax(power_w, point->power_w);
        }
    }
    for (uint32_t i = 0; i < problem->type_count; i++)
        price_j = fmax(price_j, sum_of(prices->gpu_j + (size_t)i * problem->slots, problem->slots));
    return own_j + fmax(gpus, 1.0) * price_j +
           fmax(power_w, 1.0) * sum_of(prices->cap_j, problem->slots);
}

static int64_t quanta_below(double value_j, int exponent)
{
    return (int64_t)floor(ldexp(value_j, -exponent));
}

static double joules_below(wide quanta, int exponent)
{
    unsigned __int128 size = quanta < 0 ? -(unsigned __int128)quanta : (unsigned __int128)quanta;
    double near;

    for (; size > (uint64_t)1 << 53 && (size & 1) == 0; size >>= 1)
        exponent++;
    near = ldexp((double)(uint64_t)(size >> 64), 64) + (double)(uint64_t)size;
    if (quanta < 0)
        near = -near;
    if (size > (uint64_t)1 << 53)
        near -= fabs(near) * 0x1p-50; /* three roundings, 2^-53 each */
    return ldexp(near, exponent);
}

/* ---- prices ------------------------------------------------------------------------------- */

static void dual_bound_sum(const double *prices_j, uint32_t slots, int exponent, int64_t *before)
{
    before[0] = 0;
    for (uint32_t t = 0; t < slots; t++) {
        before[t + 1] = before[t];
        if (prices_j != NULL)
            before[t + 1] += quanta_below(dual_bound_usable_price(prices_j[t]), exponent);
    }
}

/* The caller frees lull_dual's arrays, also after -ENOMEM. */
static int dual_bound_init(struct lull_dual *dual, const struct lull_slot_problem *problem,
                           const struct lull_dual_prices *prices)
{
    const size_t rows = (size_t)problem->type_count + 1;
    const size_t row = (size_t)problem->slots + 1;

    *dual = (struct lull_dual){
        .problem = problem,
        .sums = calloc(rows * row, sizeof(*dual->sums)),
        .before = calloc(rows, sizeof(*dual->before)),
    };
    if (dual->sums == NULL || dual->before == NULL)
        return -ENOMEM;
    frexp(dual_bound_largest(problem, prices), &dual->exponent);
    dual->exponent -= QUANTUM_BITS;
    for (size_t i = 0; i < rows; i++) {
        const double *of_row =
            i < problem->type_count ? prices->gpu_j + i * problem->slots : prices->cap_j;

        dual_bound_sum(of_row, problem->slots, dual->exponent, dual->sums + i * row);
        dual->before[i] = dual->sums + i * row;
    }
    return 0;
}

/* ---- schedules ---------------------------------------------------------------------------- */

/* Finds the least cost below `most`, and its start. Returns `most` if there is none. Exact. */
static int64_t choose_start(const struct lull_dual *dual, const struct lull_slot_point *point,
                            int64_t most, uint32_t *start_out)
{
    const int64_t *gpu = dual->before[point->type];
    const int64_t *power = dual->before[dual->problem->type_count];
    const int64_t delay = quanta_below(point->delay_j, dual->exponent);
    int64_t own = quanta_below(point->cost_j, dual->exponent);
    int64_t best = most;

    for (uint32_t start = point->first; start <= point->last && own < best; start++, own += delay) {
        const uint32_t end = start + point->slots;
        const int64_t cost = own + point->gpus * (gpu[end] - gpu[start]) +
                             point->power_w * (power[end] - power[start]);

        if (cost < best) {
            best = cost;
            *start_out = start;
        }
    }
    return best;
}

/* The least cost of a job at the prices, and its schedule; INT64_MAX: a mandatory job has none. */
static int64_t dual_bound_choose(const struct lull_dual *dual, const struct lull_slot_job *job,
                                 struct lull_slot_choice *choice)
{
    int64_t best = isinf(job->reject_j) ? INT64_MAX : quanta_below(job->reject_j, dual->exponent);

    *choice = (struct lull_slot_choice){.point = LULL_SLOT_REJECTED};
    for (uint32_t m = 0; m < job->point_count; m++) {
        uint32_t start = 0;
        const int64_t cost = choose_start(dual, &job->points[m], best, &start);

        if (cost < best) {
            best = cost;
            *choice = (struct lull_slot_choice){.point = m, .start = start};
        }
    }
    return best;
}

/* The price of all GPUs and all watts of the problem. */
static wide cost_of_all(const struct lull_dual *dual)
{
    const struct lull_slot_problem *problem = dual->problem;
    const uint64_t power = (uint64_t)dual->before[problem->type_count][problem->slots];
    unsigned __int128 all = 0;

    for (uint32_t i = 0; i < problem->type_count; i++)
        all += (unsigned __int128)problem->gpus[i] * (uint64_t)dual->before[i][problem->slots];
    if (problem->cap_w != LULL_SLOTS_UNCAPPED)
        all += (unsigned __int128)(uint64_t)problem->cap_w * power;
    return (wide)all;
}

int lull_dual_bound(const struct lull_slot_problem *problem, const struct lull_dual_prices *prices,
                    double *bound_j_out, struct lull_slot_choice *choices_out)
{
    const struct lull_dual_prices taken = {
        prices->gpu_j, problem->cap_w != LULL_SLOTS_UNCAPPED ? prices->cap_j : NULL};
    struct lull_dual dual;
    wide sum = 0;
    const int rc = dual_bound_init(&dual, problem, &taken);

    if (rc < 0)
        goto end;
    for (size_t i = 0; i < problem->job_count; i++) {
        struct lull_slot_choice choice;

        sum += dual_bound_choose(&dual, &problem->jobs[i], &choice);
        if (choices_out != NULL)
            choices_out[i] = choice;
    }
    *bound_j_out = joules_below(sum - cost_of_all(&dual), dual.exponent);
end:
    free(dual.sums);
    free(dual.before);
    return rc;
}
