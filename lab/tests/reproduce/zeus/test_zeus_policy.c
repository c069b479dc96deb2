/*
 * Zeus's policy on synthetic jobs: it finds the cheapest size,
 * continues if no size works, and lets one run explore at a time. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <math.h>

#include "tests/core/property.h"
#include "core/tuning/batch_state.h"
#include "lab/reproduce/zeus/policy.h"

static const uint32_t sizes[] = {8, 16, 32, 64, 128, 256};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), NEVER = 0, MAX = 60 };

/* Mean cost per size, in J with eta 1; NEVER: that size does not reach the target. */
static const double valley[SIZES] = {900.0, 500.0, 300.0, 200.0, 260.0, 500.0};
static const double edges[SIZES] = {NEVER, 700.0, 300.0, 250.0, NEVER, NEVER};
static const double only_default[SIZES] = {NEVER, NEVER, 300.0, NEVER, NEVER, NEVER};
static const double nothing[SIZES] = {NEVER, NEVER, NEVER, NEVER, NEVER, NEVER};

struct zeus_job {
    struct lull_zeus *zeus;
    const double *costs;
    struct lull_random random;
    uint64_t run;
    uint32_t of_size[SIZES];
};

static void begin(struct zeus_job *job, uint64_t seed, double beta_ratio, const double *costs)
{
    struct lull_zeus_config config;
    struct lull_error err = {0};

    lull_zeus_config_default(&config, true);
    config.batch.sizes = sizes;
    config.batch.size_count = SIZES;
    config.batch.default_size = 32;
    config.batch.price.eta_ratio = 1.0;
    config.batch.beta_ratio = beta_ratio;
    config.batch.seed = seed;
    *job = (struct zeus_job){.costs = costs};
    lull_random_init(&job->random, seed + 1);
    if (lull_zeus_create(&config, &job->zeus, &err) < 0)
        fail_msg("%s", err.text);
}

static size_t arm_of(uint32_t size)
{
    size_t arm = 0;

    while (sizes[arm] != size)
        arm++;
    return arm;
}

static void apply(struct zeus_job *job, const struct lull_batch_record *record)
{
    struct lull_error err = {0};

    if (lull_zeus_apply(job->zeus, record, &err) < 0)
        fail_msg("%s", err.text);
}

static struct lull_batch_choice submit(struct zeus_job *job, uint64_t retry_of)
{
    struct lull_batch_choice choice;

    lull_zeus_choose(job->zeus, retry_of, &choice);
    apply(job, &(struct lull_batch_record){LULL_BATCH_SUBMITTED, ++job->run, .retry_of = retry_of,
                                           .size = choice.size, .bound = choice.bound});
    return choice;
}

/* Ends a run as the made-up job would. Returns whether it has reached its target. */
static bool finish(struct zeus_job *job, uint64_t run, const struct lull_batch_choice *choice)
{
    const double never_j = 5000.0;
    const double noise_ratio = 0.05;
    const double mean_j = job->costs[arm_of(choice->size)];
    const double needs_j = mean_j * exp(noise_ratio * lull_random_normal(&job->random, 0, 1));
    struct lull_batch_record record = {LULL_BATCH_MISSED, run, .time_s = 1.0};

    job->of_size[arm_of(choice->size)]++;
    record.energy_j = fmin(mean_j == NEVER ? never_j : needs_j, choice->bound);
    if (mean_j != NEVER && needs_j <= choice->bound)
        record.event = LULL_BATCH_REACHED;
    apply(job, &record);
    return record.event == LULL_BATCH_REACHED;
}

/* Runs a recurrence. Returns its attempts; MOST: it was given up. */
static uint32_t recur(struct zeus_job *job)
{
    uint64_t before = 0;

    for (uint32_t attempt = 1; attempt < MAX; attempt++) {
        const struct lull_batch_choice choice = submit(job, before);

        if (finish(job, job->run, &choice))
            return attempt;
        before = job->run;
    }
    return MAX;
}

static void test_the_cheapest_size_is_found(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct zeus_job job;

        begin(&job, seed, 2.0, seed % 2 == 0 ? valley : edges);
        for (int i = 0; i < 60; i++)
            holds(recur(&job) < MAX, seed);
        holds(!lull_zeus_is_pruning(job.zeus), seed);
        holds(lull_batch_cheapest_arm(lull_zeus_history(job.zeus)) == 3, seed);
        holds(job.of_size[3] >= 30, seed);
        lull_zeus_destroy(job.zeus);
    }
}

/* With the tightest bound, or where only the default works, every recurrence still ends. */
static void test_no_bound_is_too_tight(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct zeus_job job;

        begin(&job, seed, 1.0, seed % 2 == 0 ? valley : only_default);
        for (int i = 0; i < 60; i++)
            holds(recur(&job) < MAX, seed);
        lull_zeus_destroy(job.zeus);
    }
}

static void test_a_job_that_never_works_goes_on_without_a_bound(void **state)
{
    struct lull_batch_choice choice;
    struct zeus_job job;

    (void)state;
    begin(&job, 1, 2.0, nothing);
    assert_int_equal(recur(&job), MAX);
    assert_false(lull_zeus_is_pruning(job.zeus));
    lull_zeus_choose(job.zeus, job.run, &choice);
    assert_true(isinf(choice.bound));
    assert_int_equal(choice.size, 32);
    lull_zeus_destroy(job.zeus);
}

/* All sizes that were left after the first round fail in the second. */
static void test_the_bound_goes_when_all_sizes_have_failed(void **state)
{
    struct lull_batch_choice choice;
    struct zeus_job job;

    (void)state;
    begin(&job, 1, 2.0, valley);
    while (job.run < 6) /* 32, 16, 8 and upward 64, 128, 256 */
        holds(recur(&job) < MAX, UINT64_C(1));
    job.costs = nothing;
    for (int i = 0; i < 2; i++) { /* 64 and upward 128, which end both walks */
        choice = submit(&job, 0);
        assert_true(choice.is_exploring && !isinf(choice.bound));
        assert_int_equal(choice.size, i == 0 ? 64 : 128);
        finish(&job, job.run, &choice);
    }
    assert_false(lull_zeus_is_pruning(job.zeus));
    lull_zeus_choose(job.zeus, 0, &choice);
    assert_true(isinf(choice.bound) && choice.size == 64);
    lull_zeus_destroy(job.zeus);
}

/* The bound ends with the 21st attempt at one recurrence; the cheapest size known is used then. */
static void test_the_twenty_first_attempt_has_no_bound(void **state)
{
    struct lull_batch_choice choice;
    struct zeus_job job;
    uint64_t before = 0;

    (void)state;
    begin(&job, 1, 2.0, valley);
    while (lull_zeus_is_pruning(job.zeus))
        holds(recur(&job) < MAX, UINT64_C(1));
    for (int attempt = 1; attempt <= 20; attempt++) {
        choice = submit(&job, before);
        assert_true(!isinf(choice.bound));
        before = job.run;
        apply(&job, &(struct lull_batch_record){LULL_BATCH_MISSED, before, .energy_j = 400.0,
                                                .time_s = 1.0});
    }
    choice = submit(&job, before);
    assert_true(isinf(choice.bound) && choice.size == 64);
    lull_zeus_destroy(job.zeus);
}

/* While one run explores, others use the cheapest size known; after it is lost it is tried again.
 */
static void test_one_run_explores_at_a_time(void **state)
{
    struct lull_batch_choice first, exploring, other;
    struct zeus_job job;

    (void)state;
    begin(&job, 1, 2.0, valley);
    first = submit(&job, 0);
    assert_true(first.is_exploring && first.size == 32);
    other = submit(&job, 0);
    assert_true(!other.is_exploring && other.size == 32);
    finish(&job, 1, &first);
    finish(&job, 2, &other);
    exploring = submit(&job, 0);
    assert_true(exploring.is_exploring && exploring.size == 16);
    for (int i = 0; i < 5; i++) {
        other = submit(&job, 0);
        assert_true(!other.is_exploring && other.size == 32);
    }
    apply(&job, &(struct lull_batch_record){.event = LULL_BATCH_LOST, .run = 3});
    exploring = submit(&job, 0);
    assert_true(exploring.is_exploring && exploring.size == 16);
    lull_zeus_destroy(job.zeus);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_cheapest_size_is_found),
        cmocka_unit_test(test_no_bound_is_too_tight),
        cmocka_unit_test(test_a_job_that_never_works_goes_on_without_a_bound),
        cmocka_unit_test(test_the_bound_goes_when_all_sizes_have_failed),
        cmocka_unit_test(test_the_twenty_first_attempt_has_no_bound),
        cmocka_unit_test(test_one_run_explores_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
