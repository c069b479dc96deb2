/*
 * The batch-size search on synthetic jobs: its guarantees, for all ends and orders of runs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdbool.h>

#include "batch_case.h"

/* ---- guarantees ----------------------------------------------------------------- */

static void test_the_cheapest_size_is_found(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const struct lull_batch_config config = config_of(seed);
        struct job job;

        begin(&job, &config, seed % 2 == 0 ? valley : edges);
        play(&job, 60);
        holds(lull_batch_best_size(job.batch) == 64, seed);
        holds(job.of_size[3] >= 30, seed);
        lull_batch_destroy(job.batch);
    }
}

/* With a tight bound, or if only the default works, no search gives up. */
static void test_no_bound_is_too_tight(void **state)
{
    static const double only_default[SIZES] = {NEVER, NEVER, 300.0, NEVER, NEVER, NEVER};

    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct lull_batch_config config = config_of(seed);
        struct job job;

        config.beta_ratio = 1.0;
        begin(&job, &config, seed % 2 == 0 ? valley : only_default);
        job.noise_ratio = 0.2;
        play(&job, 60);
        lull_batch_destroy(job.batch);
    }
}

static void test_a_job_that_never_works_goes_on(void **state)
{
    (void)state;
    const struct lull_batch_config config = config_of(1);
    struct lull_batch_choice choice;
    struct job job;

    begin(&job, &config, nothing);
    assert_int_equal(recur(&job), MAX);
    lull_batch_choose(job.batch, job.run, &choice);
    assert_true(isinf(choice.bound));
    assert_int_equal(lull_batch_best_size(job.batch), 0);
    assert_true(isinf(lull_batch_min_cost(job.batch)));
    lull_batch_destroy(job.batch);
}

/* All sizes are tried before the search gives up. */
static void test_a_default_that_fails_is_left(void **state)
{
    static const double far_end[SIZES] = {400.0, NEVER, NEVER, NEVER, NEVER, NEVER};
    const struct lull_batch_config config = config_of(3);
    struct job job;

    (void)state;
    begin(&job, &config, far_end);
    play(&job, 20);
    assert_int_equal(lull_batch_best_size(job.batch), 8);
    lull_batch_destroy(job.batch);
}

/* The records alone give the same state: the same choices from there on. */
static void test_the_state_is_its_records(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct lull_batch_config config = config_of(seed);
        struct lull_batch_record records[400];
        struct lull_batch *again = NULL;
        struct lull_error err = {0};
        size_t count = 0;
        struct job job;

        begin(&job, &config, valley);
        assert_int_equal(lull_batch_create(&config, &again, &err), 0);
        for (uint32_t i = 0; i < 40; i++) {
            const struct lull_batch_choice choice = submit(&job, 0);
            struct lull_batch_choice same;

            lull_batch_choose(again, 0, &same);
            holds(same.size == choice.size && same.bound == choice.bound &&
                      same.is_exploring == choice.is_exploring,
                  seed);
            records[count] = (struct lull_batch_record){.event = LULL_BATCH_SUBMITTED,
                                                        .run = job.run,
                                                        .size = choice.size,
                                                        .bound = choice.bound};
            lull_batch_apply(again, &records[count++], &err);
            records[count] = (struct lull_batch_record){.event = LULL_BATCH_REACHED,
                                                        .run = job.run,
                                                        .energy_j = valley[arm_of(choice.size)],
                                                        .time_s = 1.0};
            lull_batch_apply(again, &records[count], &err);
            lull_batch_apply(job.batch, &records[count++], &err);
        }
        lull_batch_destroy(again);
        assert_int_equal(lull_batch_create(&config, &again, &err), 0);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(lull_batch_apply(again, &records[i], &err), 0);
        holds(lull_batch_best_size(again) == lull_batch_best_size(job.batch), seed);
        lull_batch_destroy(again);
        lull_batch_destroy(job.batch);
    }
}

/* ---- overlapping runs --------------------------------------------------------------------- */

static void test_runs_may_overlap_and_end_in_any_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct lull_batch_config config = config_of(seed);
        struct lull_batch_choice choices[4];
        uint64_t open[4];
        size_t open_count = 0;
        struct job job;

        begin(&job, &config, valley);
        for (uint32_t i = 0; i < 200; i++) {
            if (open_count < 4 && lull_random_below(&job.random, 2) == 0) {
                choices[open_count] = submit(&job, 0);
                open[open_count++] = job.run;
            } else if (open_count > 0) {
                const size_t which = (size_t)lull_random_below(&job.random, open_count);

                finish(&job, open[which], &choices[which]);
                open[which] = open[--open_count];
                choices[which] = choices[open_count];
            }
        }
        holds(lull_batch_best_size(job.batch) == 64, seed);
        lull_batch_destroy(job.batch);
    }
}

/* While one run explores, the others use what is known; a lost one is tried again. */
static void test_one_run_explores_at_a_time(void **state)
{
    (void)state;
    const struct lull_batch_config config = config_of(1);
    struct lull_batch_choice first, second, third;
    struct lull_error err = {0};
    struct job job;

    begin(&job, &config, valley);
    first = submit(&job, 0);
    assert_int_equal(first.size, 32);
    second = submit(&job, 0);
    assert_int_equal(second.size, 32);
    finish(&job, 1, &first);
    finish(&job, 2, &second);
    do
        second = submit(&job, 0);
    while (!second.is_exploring);
    for (int i = 0; i < 5; i++) {
        third = submit(&job, 0);
        assert_true(third.size != second.size);
    }
    assert_int_equal(
        lull_batch_apply(job.batch, &(struct lull_batch_record){.event = LULL_BATCH_LOST, .run = 3},
                         &err),
        0);
    lull_batch_destroy(job.batch);
}

/* ---- crashes ------------------------------------------------------------------------------ */

/* Ends a run with a crash. */
static void crash(struct job *job, uint64_t run)
{
    struct lull_error err = {0};

    assert_int_equal(lull_batch_apply(job->batch,
                                      &(struct lull_batch_record){.event = LULL_BATCH_CRASHED,
                                                                  .run = run,
                                                                  .energy_j = NAN,
                                                                  .time_s = 0.1},
                                      &err),
                     0);
}

/* A recurrence of a job of which sizes from `from` on do not fit into memory. Returns the attempts
 * that it took; counts the crashes. */
static uint32_t recur_within(struct job *job, uint32_t from, uint32_t *crashes)
{
    uint64_t before = 0;

    for (uint32_t attempt = 1; attempt <= MAX; attempt++) {
        const struct lull_batch_choice choice = submit(job, before);

        before = job->run;
        if (choice.size < from && finish(job, job->run, &choice))
            return attempt;
        if (choice.size >= from) {
            crash(job, job->run);
            crashes[arm_of(choice.size)]++;
        }
    }
    return MAX;
}

/* No recurrence fails while a size works, and none of the others is run more than twice. */
static void test_sizes_that_crash_are_given_up(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct lull_batch_config config = config_of(seed);
        uint32_t crashes[SIZES] = {0};
        struct job job;

        config.default_size = seed % 2 == 0 ? 32 : 256;
        begin(&job, &config, valley);
        for (int i = 0; i < 60; i++)
            holds(recur_within(&job, 128, crashes) <= 3, seed);
        for (size_t arm = 0; arm < SIZES; arm++)
            holds(crashes[arm] <= 2, seed);
        lull_batch_destroy(job.batch);
    }
}

static struct lull_batch_arm arm_at(const struct job *job, uint32_t size)
{
    struct lull_batch_arm arms[SIZES];

    assert_int_equal(lull_batch_arms(job->batch, arms, SIZES), SIZES);
    return arms[arm_of(size)];
}

/* A run of the size, chosen or not. */
static void run_size(struct job *job, uint32_t size, bool crashes)
{
    struct lull_error err = {0};
    const struct lull_batch_choice choice = {.size = size, .bound = INFINITY};

    assert_int_equal(lull_batch_apply(job->batch,
                                      &(struct lull_batch_record){.event = LULL_BATCH_SUBMITTED,
                                                                  .run = ++job->run,
                                                                  .size = size,
                                                                  .bound = INFINITY},
                                      &err),
                     0);
    if (crashes)
        crash(job, job->run);
    else
        finish(job, job->run, &choice);
}

/* A script that is broken for a week is not the size's fault; a size that crashes while others run
 * is. One success clears it. */
static void test_whose_fault_a_crash_is(void **state)
{
    const struct lull_batch_config config = config_of(1);
    struct job job;

    (void)state;
    begin(&job, &config, valley);
    run_size(&job, 32, false);
    run_size(&job, 64, false);
    run_size(&job, 64, true);
    assert_true(arm_at(&job, 64).is_candidate);
    run_size(&job, 64, true);
    run_size(&job, 64, true);
    assert_int_equal(arm_at(&job, 64).crashed_count, 3);
    assert_true(arm_at(&job, 64).is_candidate);
    run_size(&job, 32, false);
    assert_false(arm_at(&job, 64).is_candidate);
    assert_int_equal(lull_batch_best_size(job.batch), 32);
    run_size(&job, 64, false);
    assert_true(arm_at(&job, 64).is_candidate);
    assert_int_equal(arm_at(&job, 64).crashed_count, 0);
    run_size(&job, 128, true);
    assert_true(arm_at(&job, 128).is_candidate);
    run_size(&job, 128, true);
    assert_false(arm_at(&job, 128).is_candidate);
    lull_batch_destroy(job.batch);
}

/* ---- refused results ---------------------------------------------------------------------- */

static void test_settings_that_cannot_be_are_refused(void **state)
{
    static const uint32_t descending[] = {16, 8};
    struct lull_batch *batch = NULL;
    struct lull_error err = {0};

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct lull_batch_config config = config_of(1);

        if (i == 0)
            config.sizes = descending, config.size_count = 2, config.default_size = 8;
        else if (i == 1)
            config.size_count = 0;
        else if (i == 2)
            config.default_size = 33;
        else if (i == 3)
            config.beta_ratio = 0.9;
        else if (i == 4)
            config.price.eta_ratio = NAN;
        else
            config.price.gpu_count = 0;
        assert_int_equal(lull_batch_create(&config, &batch, &err), -EINVAL);
        assert_null(batch);
    }
}

static void test_records_that_cannot_be_change_nothing(void **state)
{
    const struct lull_batch_config config = config_of(1);
    const struct {
        struct lull_batch_record record;
        int code;
    } wrong[] = {
        {{.event = LULL_BATCH_SUBMITTED, .run = 0, .size = 32}, -EEXIST},
        {{.event = LULL_BATCH_SUBMITTED, .run = 1, .size = 32}, -EEXIST},
        {{.event = LULL_BATCH_SUBMITTED, .run = 2, .size = 33}, -EINVAL},
        {{.event = LULL_BATCH_SUBMITTED, .run = 2, .size = 32, .bound = NAN}, -EINVAL},
        {{.event = LULL_BATCH_REACHED, .run = 2, .energy_j = 1.0, .time_s = 1.0}, -ENOENT},
        {{.event = LULL_BATCH_REACHED, .run = 1, .energy_j = -1.0, .time_s = 1.0}, -EINVAL},
        {{.event = LULL_BATCH_MISSED, .run = 1, .energy_j = 1.0, .time_s = NAN}, -EINVAL},
    };
    struct lull_error err = {0};
    struct job job;

    (void)state;
    begin(&job, &config, valley);
    submit(&job, 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(lull_batch_apply(job.batch, &wrong[i].record, &err), wrong[i].code);
    assert_int_equal(
        lull_batch_apply(job.batch, &(struct lull_batch_record){.event = LULL_BATCH_LOST, .run = 1},
                         &err),
        0);
    assert_int_equal(
        lull_batch_apply(job.batch, &(struct lull_batch_record){.event = LULL_BATCH_LOST, .run = 1},
                         &err),
        -ENOENT);
    lull_batch_destroy(job.batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_cheapest_size_is_found),
        cmocka_unit_test(test_no_bound_is_too_tight),
        cmocka_unit_test(test_a_job_that_never_works_goes_on),
        cmocka_unit_test(test_a_default_that_fails_is_left),
        cmocka_unit_test(test_the_state_is_its_records),
        cmocka_unit_test(test_runs_may_overlap_and_end_in_any_order),
        cmocka_unit_test(test_one_run_explores_at_a_time),
        cmocka_unit_test(test_sizes_that_crash_are_given_up),
        cmocka_unit_test(test_whose_fault_a_crash_is),
        cmocka_unit_test(test_settings_that_cannot_be_are_refused),
        cmocka_unit_test(test_records_that_cannot_be_change_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
