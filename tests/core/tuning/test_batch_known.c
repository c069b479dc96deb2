/*
 * The batch-size search on synthetic jobs: known problems of Zeus, and changed data.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdbool.h>

#include "batch_case.h"

/* ---- known mistakes of Zeus --------------------------------------------------------------- */

/* A cheap failure is no best size and tightens no bound. */
static void test_a_failure_is_no_least_cost(void **state)
{
    const struct lull_batch_config config = config_of(1);
    struct lull_error err = {0};
    struct job job;

    (void)state;
    begin(&job, &config, valley);
    submit(&job, 0);
    assert_int_equal(
        lull_batch_apply(job.batch,
                         &(struct lull_batch_record){
                             .event = LULL_BATCH_MISSED, .run = 1, .energy_j = 1.0, .time_s = 1.0},
                         &err),
        0);
    assert_true(isinf(lull_batch_min_cost(job.batch)));
    assert_int_equal(lull_batch_best_size(job.batch), 0);
    lull_batch_destroy(job.batch);
}

/* Reaching the target beyond the bound is reaching it; attempts before count. */
static void test_success_is_success(void **state)
{
    const struct lull_batch_config config = config_of(1);
    struct lull_error err = {0};
    const struct lull_batch_record records[] = {
        {.event = LULL_BATCH_SUBMITTED, .run = 1, .size = 32, .bound = 100.0},
        {.event = LULL_BATCH_MISSED, .run = 1, .energy_j = 100.0, .time_s = 1.0},
        {.event = LULL_BATCH_SUBMITTED, .run = 2, .retry_of = 1, .size = 64, .bound = 100.0},
        {.event = LULL_BATCH_REACHED, .run = 2, .energy_j = 120.0, .time_s = 1.0},
    };
    struct job job;

    (void)state;
    begin(&job, &config, valley);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(lull_batch_apply(job.batch, &records[i], &err), 0);
    assert_near(lull_batch_min_cost(job.batch), 220.0, 1e-9);
    lull_batch_destroy(job.batch);
}

/* A run for which not one epoch fitted must not look like the best of all. */
static void test_no_epoch_is_no_bargain(void **state)
{
    (void)state;
    const struct lull_batch_config config = config_of(1);
    struct lull_error err = {0};
    const struct lull_batch_record records[] = {
        {.event = LULL_BATCH_SUBMITTED, .run = 1, .size = 32, .bound = INFINITY},
        {.event = LULL_BATCH_REACHED, .run = 1, .energy_j = 300.0, .time_s = 1.0},
        {.event = LULL_BATCH_SUBMITTED, .run = 2, .size = 16, .bound = 600.0},
        {.event = LULL_BATCH_MISSED, .run = 2},
    };
    struct lull_batch_arm arms[SIZES];
    struct job job;

    begin(&job, &config, valley);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(lull_batch_apply(job.batch, &records[i], &err), 0);
    lull_batch_arms(job.batch, arms, SIZES);
    assert_true(arms[1].mean_cost > 1.5 * arms[2].mean_cost);
    assert_int_equal(arms[1].missed_count, 1);
    lull_batch_destroy(job.batch);
}

/* ---- changed data ------------------------------------------------------------------------- */

static void test_a_change_opens_the_search_again(void **state)
{
    static const double moved[SIZES] = {700.0, 400.0, 600.0, 900.0, 1500.0, 2500.0};
    uint32_t alarms = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct lull_batch_config config = config_of(seed);
        struct job job;

        config.is_watching = true;
        begin(&job, &config, valley);
        play(&job, 60);
        alarms += lull_batch_change_count(job.batch);
        job.costs = moved;
        play(&job, 60);
        holds(lull_batch_change_count(job.batch) >= 1, seed);
        holds(lull_batch_best_size(job.batch) == 16, seed);
        lull_batch_destroy(job.batch);
    }
    /* 40 series of 60 without a change. */
    assert_true(alarms <= 1);
}

/* Ends one run of the default size at this cost. */
static void cost(struct job *job, double energy_j)
{
    struct lull_error err = {0};
    const struct lull_batch_record records[] = {
        {.event = LULL_BATCH_SUBMITTED, .run = ++job->run, .size = 32, .bound = INFINITY},
        {.event = LULL_BATCH_REACHED, .run = job->run, .energy_j = energy_j, .time_s = 1.0},
    };

    for (size_t i = 0; i < 2; i++)
        assert_int_equal(lull_batch_apply(job->batch, &records[i], &err), 0);
}

/* Once a change is noticed, every result since the data changed counts, and none before. */
static void test_results_count_from_the_change_on(void **state)
{
    static const double changed_j[] = {600.0, 66.0};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct lull_batch_config config = config_of(1);
        struct lull_batch_arm arms[SIZES];
        struct job job;
        uint32_t since = 0;

        begin(&job, &config, valley);
        for (int run = 0; run < 12; run++)
            cost(&job, 200.0);
        while (lull_batch_change_count(job.batch) == 0 && since < 20) {
            cost(&job, changed_j[i]);
            since++;
        }
        assert_int_equal(lull_batch_change_count(job.batch), 1);
        assert_true(since > 1);
        lull_batch_arms(job.batch, arms, SIZES);
        assert_int_equal(arms[arm_of(32)].run_count, since);
        assert_near(lull_batch_min_cost(job.batch), changed_j[i], 1e-9);
        lull_batch_destroy(job.batch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failure_is_no_least_cost),
        cmocka_unit_test(test_success_is_success),
        cmocka_unit_test(test_no_epoch_is_no_bargain),
        cmocka_unit_test(test_a_change_opens_the_search_again),
        cmocka_unit_test(test_results_count_from_the_change_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
