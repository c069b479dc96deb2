/*
 * The price of watts relative to GPUs: as good as the best on a
 * fine grid, whichever jobs were added and removed before. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cluster/core/power/power_price.h"
#include "tests/core/property.h"

enum { SEEDS = 300, MAX_JOBS = 40, MAX_CLOCKS = 16, GRID = 1000 };

struct job {
    struct lull_power_use clocks[MAX_CLOCKS];
    uint32_t count;
};

/* Any clocks, also such as no sensible job would have. */
static void draw(struct job *job, struct lull_random *random, double watts)
{
    const double min_s = 1.0 + lull_random_uniform(random);

    job->count = 1 + (uint32_t)lull_random_below(random, MAX_CLOCKS);
    for (uint32_t i = 0; i < job->count; i++) {
        const double slower = 1.0 + 0.05 * i;
        const double saving = lull_random_below(random, 3) ? 1.0 - 0.05 * i : 1.0;

        job->clocks[i] = (struct lull_power_use){
            min_s * slower, watts * min_s * saving * (lull_random_below(random, 2) ? 1.0 : slower)};
    }
}

/* The dual: the cost of all jobs at a ratio of prices. */
static double cost_s(const struct job *jobs, size_t count, double ratio)
{
    double sum_s = 0.0;

    for (size_t i = 0; i < count; i++) {
        double min_s = INFINITY;

        for (uint32_t k = 0; k < jobs[i].count; k++)
            min_s = fmin(min_s, ratio * jobs[i].clocks[k].watts_s +
                                    (1.0 - ratio) * jobs[i].clocks[k].gpus_s);
        sum_s += min_s;
    }
    return sum_s;
}

/* Returns the sum over jobs of the most GPUs or watts that each takes: a bound on the slope of the
 * dual. */
static double max_s(const struct job *jobs, size_t count)
{
    double sum_s = 0.0;

    for (size_t i = 0; i < count; i++) {
        double most = 0.0;

        for (uint32_t k = 0; k < jobs[i].count; k++)
            most = fmax(most, fmax(jobs[i].clocks[k].gpus_s, jobs[i].clocks[k].watts_s));
        sum_s += most;
    }
    return sum_s;
}

static double best_s(const struct job *jobs, size_t count)
{
    double best = 0.0;

    for (int i = 0; i <= GRID; i++)
        best = fmax(best, cost_s(jobs, count, (double)i / GRID));
    return best;
}

static void test_as_good_as_any(void **state)
{
    static struct job jobs[MAX_JOBS];

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct lull_power_price price = {0};
        struct lull_random random;
        double ratio, watts;
        size_t count;

        lull_random_init(&random, seed);
        count = 1 + lull_random_below(&random, MAX_JOBS);
        watts = 0.3 + 3.0 * lull_random_uniform(&random);
        for (size_t i = 0; i < count; i++) {
            draw(&jobs[i], &random, watts);
            lull_power_price_add(&price, jobs[i].clocks, jobs[i].count);
        }
        ratio = lull_power_price_ratio(&price);
        holds(ratio >= 0.0 && ratio <= 1.0, seed);
        /* Within a step of the best, which may lie between two jobs' changes of clock. */
        holds(cost_s(jobs, count, ratio) >=
                  best_s(jobs, count) - max_s(jobs, count) / LULL_POWER_PRICE_STEPS,
              seed);
    }
}

static void test_coming_and_going(void **state)
{
    static struct job jobs[MAX_JOBS];

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct lull_power_price price = {0};
        struct lull_power_price fresh = {0};
        struct lull_random random;
        size_t kept = 0;

        lull_random_init(&random, seed);
        for (size_t i = 0; i < MAX_JOBS; i++) {
            draw(&jobs[i], &random, 1.5);
            lull_power_price_add(&price, jobs[i].clocks, jobs[i].count);
        }
        for (size_t i = 0; i < MAX_JOBS; i++) {
            const struct job *job = &jobs[i];

            if (seed % 4 == 0 || lull_random_below(&random, 2)) {
                lull_power_price_remove(&price, job->clocks, job->count);
                continue;
            }
            lull_power_price_add(&fresh, job->clocks, job->count);
            kept++;
        }
        holds(price.count == kept, seed);
        assert_near(lull_power_price_ratio(&price), lull_power_price_ratio(&fresh), 1e-9);
    }
}

/* Watts that are abundant have price 0, and so have abundant GPUs. */
static void test_ends(void **state)
{
    const struct lull_power_use frugal[] = {{2.0, 1.0}, {3.0, 0.5}};
    const struct lull_power_use hungry[] = {{1.0, 9.0}, {2.0, 8.0}};
    struct lull_power_price price = {0};

    (void)state;
    assert_near(lull_power_price_ratio(&price), 0.0, 0.0);
    lull_power_price_add(&price, frugal, 2);
    assert_near(lull_power_price_ratio(&price), 0.0, 0.0);
    lull_power_price_add(&price, hungry, 2);
    assert_near(lull_power_price_ratio(&price), 1.0, 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_good_as_any),
        cmocka_unit_test(test_coming_and_going),
        cmocka_unit_test(test_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
