/* The bound of the whole run, on runs whose loss is known. SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/whole_bound.h"
#include "../property.h"

enum { RUNS = 400, PAIRS = 60 };

/* Behaviour of the job without Lull, and the cost of a low iteration. */
struct job {
    double warm_up; /* fades by 1/e in 100 iterations */
    double trend;   /* per iteration */
    double noise;
    double harm;
    uint32_t blocks; /* at the candidate per pair */
};

static double length_ms(const struct job *job, struct lull_random *random, uint64_t iteration,
                        bool is_low)
{
    const double i = (double)iteration;

    return 400.0 * (1.0 + job->warm_up * exp(-i / 100.0) + job->trend * i) *
           lull_random_normal(random, 1.0, job->noise) * (is_low ? 1.0 + job->harm : 1.0);
}

/* Returns whether the bound holds after a run of whole pairs and part of one. */
static bool is_covered(const struct job *job, uint64_t seed, double *bound_out)
{
    const struct lull_pair_schedule schedule = {2, job->blocks, seed, 0};
    struct lull_whole_bound bound;
    struct lull_random random;
    struct lull_whole_slowdown whole;
    double lost_ms = 0.0;
    double passed_ms = 0.0;
    const uint64_t end = lull_pair_schedule_begin(&schedule, PAIRS / job->blocks) + seed % 7;

    lull_random_init(&random, seed);
    lull_whole_bound_init(&bound, 0.05);
    for (uint64_t i = 0; i < 6; i++)
        lull_whole_bound_take_unplaced(&bound, length_ms(job, &random, i, false), true);
    holds(lull_whole_bound_find(&bound).upper_ratio <= 0.0, seed);
    for (uint64_t i = 0; i < end; i++) {
        const struct lull_pair_slot slot = lull_pair_slot(&schedule, i);
        const double ms = length_ms(job, &random, i + 6, slot.candidate);

        lull_whole_bound_take(&bound, &slot, ms);
        passed_ms += ms;
        if (slot.candidate)
            lost_ms += ms * job->harm / (1.0 + job->harm);
    }
    whole = lull_whole_bound_find(&bound);
    holds(whole.upper_ratio >= whole.ratio, seed);
    *bound_out = whole.upper_ratio;
    return whole.upper_ratio >= lost_ms / (bound.passed_ms - lost_ms) && passed_ms > 0.0;
}

static void test_nothing_that_the_job_does_itself_breaks_it(void **state)
{
    static const struct job jobs[] = {
        {0.0, 0.0, 0.003, 0.0, 1},    {0.02, 0.0, 0.003, 0.0, 1},  {0.25, 0.0, 0.003, 0.0, 1},
        {0.0, -2e-5, 0.003, 0.0, 1},  {0.02, 0.0, 0.003, 0.0, 20}, {0.0, -2e-5, 0.003, 0.008, 20},
        {0.02, 0.0, 0.003, 0.008, 1}, {0.0, 0.0, 0.01, 0.05, 5},   {0.0, 2e-5, 0.003, 0.008, 20},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        uint32_t covered = 0;
        double sum = 0.0;

        for (uint64_t seed = 1; seed <= RUNS; seed++) {
            double bound;

            covered += is_covered(&jobs[i], seed, &bound);
            sum += bound / RUNS;
        }
        assert_true(covered >= 0.94 * RUNS);
        if (jobs[i].warm_up < 0.1)
            assert_true(sum < jobs[i].harm + 0.02);
    }
}

/* Without a reference of its own a stretch is charged with what its point may cost. */
static void test_a_stretch_without_a_reference_is_charged(void **state)
{
    const struct lull_pair_slot low = {.candidate = true, .measured = true};
    struct lull_guard seen = {0};
    struct lull_whole_bound bound;
    struct lull_whole_slowdown before;

    (void)state;
    for (uint32_t i = 0; i < 10; i++)
        lull_guard_add(&seen, 100.0, 100.5 + 0.1 * (i % 2));
    lull_whole_bound_init(&bound, 0.05);
    for (uint32_t i = 0; i < 20; i++)
        lull_whole_bound_take_unplaced(&bound, 100.0, true);
    lull_whole_bound_change_point(&bound, &seen);
    /* The job itself becomes faster by more than the point costs. */
    for (uint32_t i = 0; i < 1000; i++)
        lull_whole_bound_take(&bound, &low, 99.0);
    before = lull_whole_bound_find(&bound);
    assert_true(before.upper_ratio > 0.0055 * 1000 / 1020 && before.upper_ratio < 0.01);
    lull_whole_bound_break(&bound);
    assert_near(lull_whole_bound_find(&bound).upper_ratio, before.upper_ratio, 1e-12);
    lull_whole_bound_charge_carry(&bound, 0.02);
    assert_true(lull_whole_bound_find(&bound).upper_ratio > before.upper_ratio + 0.018);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_that_the_job_does_itself_breaks_it),
        cmocka_unit_test(test_a_stretch_without_a_reference_is_charged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
