/*
 * The dual bound against its formula term by term, and against schedules: no price proves more
 * than a schedule costs. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>

#include "cluster/core/bound/dual_bound.h"
#include "cluster/tests/core/model/slot_cost.h"
#include "tests/core/property.h"
#include "slots_case.h"

enum { SEEDS = 3000, TRIES = 30 };

struct price_case {
    double gpu_j[CASE_TYPES * CASE_SLOTS];
    double cap_j[CASE_SLOTS];
    struct lull_dual_prices prices;
};

static void draw_prices(struct lull_random *random, struct price_case *it, double max_j)
{
    for (int i = 0; i < CASE_TYPES * CASE_SLOTS; i++)
        it->gpu_j[i] =
            lull_random_below(random, 2) == 0 ? 0.0 : max_j * lull_random_uniform(random);
    for (int i = 0; i < CASE_SLOTS; i++)
        it->cap_j[i] =
            lull_random_below(random, 2) == 0 ? 0.0 : 0.01 * max_j * lull_random_uniform(random);
    it->prices = (struct lull_dual_prices){it->gpu_j, it->cap_j};
}

static long double price_of(const struct lull_slot_problem *problem, const struct price_case *price,
                            const struct lull_slot_point *point, uint32_t start)
{
    long double cost_j =
        (long double)point->cost_j + (long double)point->delay_j * (start - point->first);

    for (uint32_t t = start; t < start + point->slots; t++) {
        cost_j += (long double)point->gpus * price->gpu_j[point->type * problem->slots + t];
        if (problem->cap_w != LULL_SLOTS_UNCAPPED)
            cost_j += (long double)point->power_w * price->cap_j[t];
    }
    return cost_j;
}

static long double best_plainly(const struct lull_slot_problem *problem,
                                const struct price_case *price, const struct lull_slot_job *job)
{
    long double best_j = job->reject_j;

    for (uint32_t m = 0; m < job->point_count; m++)
        for (uint32_t s = job->points[m].first; s <= job->points[m].last; s++)
            best_j = fminl(best_j, price_of(problem, price, &job->points[m], s));
    return best_j;
}

static long double bound_plainly(const struct lull_slot_problem *problem,
                                 const struct price_case *price)
{
    long double bound_j = 0.0L;

    for (size_t i = 0; i < problem->job_count; i++)
        bound_j += best_plainly(problem, price, &problem->jobs[i]);
    for (uint32_t i = 0; i < problem->type_count * problem->slots; i++)
        bound_j -= (long double)problem->gpus[i / problem->slots] * price->gpu_j[i];
    for (uint32_t t = 0; t < problem->slots && problem->cap_w != LULL_SLOTS_UNCAPPED; t++)
        bound_j -= (long double)problem->cap_w * price->cap_j[t];
    return bound_j;
}

static void test_is_the_formula(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct lull_slot_choice choices[CASE_JOBS];
        struct lull_random random;
        struct slots_case it;
        struct price_case price;
        double bound_j;
        long double plain_j;

        lull_random_init(&random, seed);
        slots_case_draw(&random, &it);
        draw_prices(&random, &price, 20.0);
        holds(lull_slot_problem_check(&it.problem, NULL) == 0, seed);
        holds(lull_dual_bound(&it.problem, &price.prices, &bound_j, choices) == 0, seed);
        plain_j = bound_plainly(&it.problem, &price);
        holds((long double)bound_j <= plain_j + 1e-10L, seed);
        holds(fabsl(bound_j - plain_j) <= 1e-9L, seed);
        for (size_t i = 0; i < it.problem.job_count; i++) {
            const struct lull_slot_job *job = &it.problem.jobs[i];
            const long double chosen_j =
                choices[i].point == LULL_SLOT_REJECTED
                    ? (long double)job->reject_j
                    : price_of(&it.problem, &price, &job->points[choices[i].point],
                               choices[i].start);

            holds(fabsl(chosen_j - best_plainly(&it.problem, &price, job)) <= 1e-9L, seed);
        }
    }
}

static void draw_choices(struct lull_random *random, const struct lull_slot_problem *problem,
                         struct lull_slot_choice *choices)
{
    for (size_t i = 0; i < problem->job_count; i++) {
        const struct lull_slot_job *job = &problem->jobs[i];
        const uint32_t m = (uint32_t)lull_random_below(random, job->point_count);
        const struct lull_slot_point *point = &job->points[m];

        choices[i] = (struct lull_slot_choice){
            m, point->first + (uint32_t)lull_random_below(random, point->last - point->first + 1)};
        if (!isinf(job->reject_j) && lull_random_below(random, 2) == 0)
            choices[i] = (struct lull_slot_choice){.point = LULL_SLOT_REJECTED};
    }
}

static void test_no_schedule_costs_less(void **state)
{
    int feasible = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct lull_slot_choice choices[CASE_JOBS];
        struct lull_random random;
        struct slots_case it;
        struct price_case price;

        lull_random_init(&random, seed);
        slots_case_draw(&random, &it);
        for (int i = 0; i < TRIES; i++) {
            double bound_j, cost_j;

            draw_prices(&random, &price, 1e3 * lull_random_uniform(&random));
            draw_choices(&random, &it.problem, choices);
            if (slot_cost(&it.problem, choices, &cost_j) != 0)
                continue;
            feasible++;
            holds(lull_dual_bound(&it.problem, &price.prices, &bound_j, NULL) == 0, seed);
            holds(bound_j <= cost_j, seed);
        }
    }
    assert_true(feasible > SEEDS);
}

/* Without prices every job takes what is cheapest alone: the bound is that sum, to the last bit or
   one below. */
static void test_without_prices(void **state)
{
    static const double none[CASE_TYPES * CASE_SLOTS];
    const struct lull_slot_point point = {0, 4, 2, 0, 3, 0, 0.1, 0.0};
    const struct lull_slot_job job = {LULL_SLOTS_MANDATORY, 1, &point};
    const uint32_t gpus = 4;
    const struct lull_slot_problem problem = {5, 1, &gpus, LULL_SLOTS_UNCAPPED, 1, &job};
    const struct lull_dual_prices prices = {none, NULL};
    double bound_j;

    (void)state;
    assert_int_equal(lull_dual_bound(&problem, &prices, &bound_j, NULL), 0);
    assert_true(bound_j <= 0.1);
    assert_near(bound_j, 0.1, 1e-15);
}

static void test_no_memory_is_lost(void **state)
{
    static const double none[CASE_TYPES * CASE_SLOTS];
    const struct lull_slot_problem problem = {5, 1, &(uint32_t){4}, LULL_SLOTS_UNCAPPED, 0, NULL};
    const struct lull_dual_prices prices = {none, NULL};
    size_t before = 0;
    double bound_j;

    (void)state;
    for (int i = 0; i < 1100; i++) {
        if (i == 100)
            before = heap_bytes();
        assert_int_equal(lull_dual_bound(&problem, &prices, &bound_j, NULL), 0);
    }
    assert_true(heap_bytes() <= before + 10000);
}

static void test_prices_that_are_none(void **state)
{
    const struct lull_slot_point point = {0, 4, 1, 0, 1, 0, 5.0, 0.0};
    const struct lull_slot_job job = {LULL_SLOTS_MANDATORY, 1, &point};
    const uint32_t gpus = 4;
    const struct lull_slot_problem problem = {2, 1, &gpus, LULL_SLOTS_UNCAPPED, 1, &job};
    const double odd[] = {-3.0, (double)NAN};
    const double endless[] = {(double)INFINITY, 1e300};
    double bound_j;

    (void)state;
    assert_int_equal(
        lull_dual_bound(&problem, &(struct lull_dual_prices){odd, NULL}, &bound_j, NULL), 0);
    assert_near(bound_j, 5.0, 0.0);
    assert_int_equal(
        lull_dual_bound(&problem, &(struct lull_dual_prices){endless, odd}, &bound_j, NULL), 0);
    assert_true(bound_j <= 5.0);
}

static void test_welfare(void **state)
{
    /* Two jobs of net value 10 and 7 want the one GPU for the one slot; a price of 7 proves 10. */
    const struct lull_slot_point points[] = {{0, 1, 1, 0, 0, 0, -10.0, 0.0},
                                             {0, 1, 1, 0, 0, 0, -7.0, 0.0}};
    const struct lull_slot_job jobs[] = {{0.0, 1, &points[0]}, {0.0, 1, &points[1]}};
    const uint32_t gpus = 1;
    const struct lull_slot_problem problem = {1, 1, &gpus, LULL_SLOTS_UNCAPPED, 2, jobs};
    const double price = 7.0;
    double bound_j;

    (void)state;
    assert_int_equal(
        lull_dual_bound(&problem, &(struct lull_dual_prices){&price, NULL}, &bound_j, NULL), 0);
    assert_near(bound_j, -10.0, 0.0);
}

static void test_bad_schedules_and_problems(void **state)
{
    struct lull_slot_point point = {0, 2, 2, 0, 1, 100, 5.0, 1.0};
    struct lull_slot_job jobs[] = {{LULL_SLOTS_MANDATORY, 1, &point}, {3.0, 1, &point}};
    const uint32_t gpus = 3;
    struct lull_slot_problem problem = {3, 1, &gpus, LULL_SLOTS_UNCAPPED, 2, jobs};
    struct lull_slot_choice choices[] = {{0, 1}, {LULL_SLOT_REJECTED, 0}};
    double cost_j = -1.0;

    (void)state;
    assert_int_equal(slot_cost(&problem, choices, &cost_j), 0);
    assert_near(cost_j, 9.0, 0.0);
    choices[1] = (struct lull_slot_choice){0, 0};
    assert_int_equal(slot_cost(&problem, choices, &cost_j), -ERANGE);
    choices[0] = (struct lull_slot_choice){LULL_SLOT_REJECTED, 0};
    assert_int_equal(slot_cost(&problem, choices, &cost_j), -EINVAL);
    choices[0] = (struct lull_slot_choice){0, 2};
    assert_int_equal(slot_cost(&problem, choices, &cost_j), -EINVAL);
    choices[0] = (struct lull_slot_choice){1, 0};
    assert_int_equal(slot_cost(&problem, choices, &cost_j), -EINVAL);
    problem.cap_w = 99;
    choices[0] = (struct lull_slot_choice){0, 0};
    choices[1] = (struct lull_slot_choice){LULL_SLOT_REJECTED, 0};
    assert_int_equal(slot_cost(&problem, choices, &cost_j), -ERANGE);
    assert_near(cost_j, 9.0, 0.0);
    assert_int_equal(lull_slot_problem_check(&problem, NULL), 0);
    point.last = 2;
    assert_int_equal(lull_slot_problem_check(&problem, NULL), -EINVAL);
    point.last = 1;
    point.cost_j = (double)NAN;
    assert_int_equal(lull_slot_problem_check(&problem, NULL), -EINVAL);
    point.cost_j = 0.0;
    jobs[0].point_count = 0;
    assert_int_equal(lull_slot_problem_check(&problem, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_the_formula),
        cmocka_unit_test(test_no_schedule_costs_less),
        cmocka_unit_test(test_without_prices),
        cmocka_unit_test(test_prices_that_are_none),
        cmocka_unit_test(test_no_memory_is_lost),
        cmocka_unit_test(test_welfare),
        cmocka_unit_test(test_bad_schedules_and_problems),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
