/*
 * The batch-size search on made-up jobs: what both policies promise, however runs end and in
 * whatever order. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdbool.h>

#include "core/job/batch.h"
#include "property.h"

static const uint32_t sizes[] = {8, 16, 32, 64, 128, 256};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), NEVER = 0 };

/* Mean cost per size, in J with eta 1; NEVER: that size does not reach the target. */
static const double valley[SIZES] = {900.0, 500.0, 300.0, 200.0, 260.0, 500.0};
static const double edges[SIZES] = {NEVER, 700.0, 300.0, 250.0, NEVER, NEVER};
static const double nothing[SIZES] = {NEVER, NEVER, NEVER, NEVER, NEVER, NEVER};

struct job {
    struct lull_batch *batch;
    const double *costs;
    double noise_ratio;
    struct lull_random random;
    uint64_t run;
    double spent_j;
    uint32_t runs;
    uint32_t of_size[SIZES];
};

static struct lull_batch_config config_of(enum lull_batch_policy policy, uint64_t seed)
{
    struct lull_batch_config config;

    lull_batch_config_default(&config);
    if (policy == LULL_BATCH_ZEUS) {
        lull_batch_config_publish(&config);
        config.deviation_floor_ratio = 1e-3;
    }
    config.sizes = sizes;
    config.size_count = SIZES;
    config.default_size = 32;
    config.price.eta_ratio = 1.0;
    config.seed = seed;
    return config;
}

static void begin(struct job *job, const struct lull_batch_config *config, const double *costs)
{
    struct lull_error err = {0};

    *job = (struct job){.costs = costs, .noise_ratio = 0.05};
    lull_random_init(&job->random, config->seed + 1);
    if (lull_batch_create(config, &job->batch, &err) < 0)
        fail_msg("%s", err.text);
}

static size_t arm_of(uint32_t size)
{
    size_t arm = 0;

    while (sizes[arm] != size)
        arm++;
    return arm;
}

static struct lull_batch_choice submit(struct job *job, uint64_t retry_of)
{
    struct lull_batch_choice choice;
    struct lull_error err = {0};

    lull_batch_choose(job->batch, retry_of, &choice);
    assert_int_equal(lull_batch_apply(job->batch,
                                      &(struct lull_batch_record){.event = LULL_BATCH_SUBMITTED,
                                                                  .run = ++job->run,
                                                                  .retry_of = retry_of,
                                                                  .size = choice.size,
                                                                  .bound = choice.bound},
                                      &err),
                     0);
    return choice;
}

/* Ends a run as the made-up job would; true: it has reached its target. */
static bool finish(struct job *job, uint64_t run, const struct lull_batch_choice *choice)
{
    const double never_j = 5000.0;
    const double mean_j = job->costs[arm_of(choice->size)];
    const double needs_j =
        mean_j == NEVER ? never_j
                        : mean_j * exp(job->noise_ratio * lull_random_normal(&job->random, 0, 1));
    const bool has_reached = mean_j != NEVER && needs_j <= choice->bound;
    const double spent_j = has_reached ? needs_j : fmin(needs_j, choice->bound);
    const struct lull_batch_record record = {
        .event = has_reached ? LULL_BATCH_REACHED : LULL_BATCH_MISSED,
        .run = run,
        .energy_j = spent_j,
        .time_s = 1.0,
    };
    struct lull_error err = {0};

    assert_int_equal(lull_batch_apply(job->batch, &record, &err), 0);
    job->spent_j += spent_j;
    job->runs++;
    job->of_size[arm_of(choice->size)]++;
    return has_reached;
}

/* Returns how many attempts it took; MOST: it was given up. */
enum { MOST = 60 };

static uint32_t recur(struct job *job)
{
    uint64_t before = 0;

    for (uint32_t attempt = 1; attempt <= MOST; attempt++) {
        const struct lull_batch_choice choice = submit(job, before);

        if (finish(job, job->run, &choice))
            return attempt;
        before = job->run;
    }
    return MOST;
}

static void play(struct job *job, uint32_t recurrences)
{
    for (uint32_t i = 0; i < recurrences; i++)
        if (recur(job) == MOST)
            fail_msg("recurrence %u never reaches its target", i);
}

/* ---- what both policies promise ----------------------------------------------------------- */

static const enum lull_batch_policy policies[] = {LULL_BATCH_LULL, LULL_BATCH_ZEUS};

static void test_the_cheapest_size_is_found(void **state)
{
    (void)state;
    for (size_t p = 0; p < 2; p++)
        for (uint64_t seed = 1; seed <= 40; seed++) {
            const struct lull_batch_config config = config_of(policies[p], seed);
            struct job job;

            begin(&job, &config, seed % 2 == 0 ? valley : edges);
            play(&job, 60);
            holds(lull_batch_best_size(job.batch) == 64, seed);
            holds(job.of_size[3] >= 30, seed);
            holds(policies[p] == LULL_BATCH_LULL || !lull_batch_is_exploring(job.batch), seed);
            lull_batch_destroy(job.batch);
        }
}

/* With a tight bound, or where only the default works, nobody gives up. */
static void test_no_bound_is_too_tight(void **state)
{
    static const double only_default[SIZES] = {NEVER, NEVER, 300.0, NEVER, NEVER, NEVER};

    (void)state;
    for (size_t p = 0; p < 2; p++)
        for (uint64_t seed = 1; seed <= 40; seed++) {
            struct lull_batch_config config = config_of(policies[p], seed);
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
    for (size_t p = 0; p < 2; p++) {
        const struct lull_batch_config config = config_of(policies[p], 1);
        struct lull_batch_choice choice;
        struct job job;

        begin(&job, &config, nothing);
        assert_int_equal(recur(&job), MOST);
        lull_batch_choose(job.batch, job.run, &choice);
        assert_true(isinf(choice.bound));
        assert_int_equal(lull_batch_best_size(job.batch), 0);
        assert_true(isinf(lull_batch_least_cost(job.batch)));
        lull_batch_destroy(job.batch);
    }
}

/* Lull looks at all sizes before it despairs. */
static void test_a_default_that_fails_is_left(void **state)
{
    static const double far_end[SIZES] = {400.0, NEVER, NEVER, NEVER, NEVER, NEVER};
    const struct lull_batch_config config = config_of(LULL_BATCH_LULL, 3);
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
    for (size_t p = 0; p < 2; p++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            const struct lull_batch_config config = config_of(policies[p], seed);
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
    for (size_t p = 0; p < 2; p++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            const struct lull_batch_config config = config_of(policies[p], seed);
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
    for (size_t p = 0; p < 2; p++) {
        const struct lull_batch_config config = config_of(policies[p], 1);
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
            lull_batch_apply(job.batch,
                             &(struct lull_batch_record){.event = LULL_BATCH_LOST, .run = 3}, &err),
            0);
        lull_batch_destroy(job.batch);
    }
}

/* A result that comes after the pruning stage counts like any other. */
static void test_a_late_result_is_taken(void **state)
{
    const struct lull_batch_config config = config_of(LULL_BATCH_ZEUS, 1);
    struct lull_batch_choice first, late;
    struct lull_batch_arm arms[SIZES];
    struct job job;
    uint64_t late_run;

    (void)state;
    begin(&job, &config, valley);
    first = submit(&job, 0);
    late = submit(&job, 0);
    late_run = job.run;
    finish(&job, 1, &first);
    while (lull_batch_is_exploring(job.batch))
        recur(&job);
    assert_int_equal(lull_batch_arms(job.batch, arms, SIZES), SIZES);
    finish(&job, late_run, &late);
    {
        const uint32_t before = arms[2].run_count;

        lull_batch_arms(job.batch, arms, SIZES);
        assert_int_equal(arms[2].run_count, before + 1);
    }
    lull_batch_destroy(job.batch);
}

/* ---- known mistakes of Zeus --------------------------------------------------------------- */

/* A cheap failure is no best size and tightens no bound. */
static void test_a_failure_is_no_least_cost(void **state)
{
    const struct lull_batch_config config = config_of(LULL_BATCH_ZEUS, 1);
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
    assert_true(isinf(lull_batch_least_cost(job.batch)));
    assert_int_equal(lull_batch_best_size(job.batch), 0);
    lull_batch_destroy(job.batch);
}

/* Reaching the target beyond the bound is reaching it; attempts before count. */
static void test_success_is_success(void **state)
{
    const struct lull_batch_config config = config_of(LULL_BATCH_ZEUS, 1);
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
    assert_near(lull_batch_least_cost(job.batch), 220.0, 1e-9);
    lull_batch_destroy(job.batch);
}

/* A run for which not one epoch fitted must not look like the best of all. */
static void test_no_epoch_is_no_bargain(void **state)
{
    (void)state;
    for (size_t p = 0; p < 2; p++) {
        const struct lull_batch_config config = config_of(policies[p], 1);
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
}

/* Alike results in a short window: without a floor the size is frozen, with it others have a
 * chance. */
static void test_alike_results_are_no_certainty(void **state)
{
    static const double close[SIZES] = {NEVER, 200.2, 200.1, 200.0, 200.2, NEVER};
    struct lull_batch_config config = config_of(LULL_BATCH_ZEUS, 1);
    struct job job;

    (void)state;
    config.window = 3;
    begin(&job, &config, close);
    job.noise_ratio = 0.0;
    play(&job, 100);
    assert_true(job.of_size[1] > 4 && job.of_size[2] > 4 && job.of_size[4] > 4);
    lull_batch_destroy(job.batch);
}

/* ---- changed data ------------------------------------------------------------------------- */

static void test_a_change_opens_the_search_again(void **state)
{
    static const double moved[SIZES] = {700.0, 400.0, 600.0, 900.0, 1500.0, 2500.0};
    uint32_t alarms = 0;

    (void)state;
    for (size_t p = 0; p < 2; p++)
        for (uint64_t seed = 1; seed <= 40; seed++) {
            struct lull_batch_config config = config_of(policies[p], seed);
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
    /* 80 series of 60 without a change. */
    assert_true(alarms <= 2);
}

/* ---- what is refused ---------------------------------------------------------------------- */

static void test_settings_that_cannot_be_are_refused(void **state)
{
    static const uint32_t descending[] = {16, 8};
    struct lull_batch *batch = NULL;
    struct lull_error err = {0};

    (void)state;
    for (int i = 0; i < 8; i++) {
        struct lull_batch_config config = config_of(LULL_BATCH_LULL, 1);

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
        else if (i == 5)
            config.rounds = 0;
        else if (i == 6)
            config.price.gpu_count = 0;
        else
            config.deviation_floor_ratio = -1.0;
        assert_int_equal(lull_batch_create(&config, &batch, &err), -EINVAL);
        assert_null(batch);
    }
}

static void test_records_that_cannot_be_change_nothing(void **state)
{
    const struct lull_batch_config config = config_of(LULL_BATCH_LULL, 1);
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
        cmocka_unit_test(test_a_late_result_is_taken),
        cmocka_unit_test(test_a_failure_is_no_least_cost),
        cmocka_unit_test(test_success_is_success),
        cmocka_unit_test(test_no_epoch_is_no_bargain),
        cmocka_unit_test(test_alike_results_are_no_certainty),
        cmocka_unit_test(test_a_change_opens_the_search_again),
        cmocka_unit_test(test_settings_that_cannot_be_are_refused),
        cmocka_unit_test(test_records_that_cannot_be_change_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
