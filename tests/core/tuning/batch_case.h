/*
 * Synthetic recurring jobs for tests of the batch-size search. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_CORE_TUNING_BATCH_CASE_H
#define LULL_TESTS_CORE_TUNING_BATCH_CASE_H

#include <stdbool.h>

#include "core/tuning/batch.h"
#include "../property.h"

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

static struct lull_batch_config config_of(uint64_t seed)
{
    struct lull_batch_config config;

    lull_batch_config_default(&config);
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
enum { MAX = 60 };

static uint32_t recur(struct job *job)
{
    uint64_t before = 0;

    for (uint32_t attempt = 1; attempt <= MAX; attempt++) {
        const struct lull_batch_choice choice = submit(job, before);

        if (finish(job, job->run, &choice))
            return attempt;
        before = job->run;
    }
    return MAX;
}

static inline void play(struct job *job, uint32_t recurrences)
{
    for (uint32_t i = 0; i < recurrences; i++)
        if (recur(job) == MAX)
            fail_msg("recurrence %u never reaches its target", i);
}

#endif
