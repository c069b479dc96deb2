/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tuning/batch.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/minmax.h"
#include "core/tuning/batch_state.h"

/* ---- settings ----------------------------------------------------------------------------- */

void lull_batch_config_default(struct lull_batch_config *config)
{
    *config = (struct lull_batch_config){
        .price = {.eta_ratio = 0.5, .max_power_w = 0.0, .gpu_count = 1},
        .beta_ratio = 2.0,
        .window = 20, /* docs/research/measurements/batch-jobs.md, which says what was tried */
        .is_watching = true,
    };
}

/* Sizes must ascend: the search takes neighbours in the list for neighbours in size. */
static int batch_search_check_sizes(const struct lull_batch_config *config, uint32_t *default_out,
                                    struct lull_error *err)
{
    uint32_t found = LULL_BATCH_SIZES;

    if (config->size_count == 0 || config->size_count > LULL_BATCH_SIZES)
        return lull_error_set(err, -EINVAL, "%zu batch sizes: must be 1 to %d", config->size_count,
                              LULL_BATCH_SIZES);
    for (uint32_t i = 0; i < config->size_count; i++) {
        if (config->sizes[i] == 0 || (i > 0 && config->sizes[i] <= config->sizes[i - 1]))
            return lull_error_set(err, -EINVAL,
                                  "batch size %u: sizes must be above 0 and ascending",
                                  config->sizes[i]);
        if (config->sizes[i] == config->default_size)
            found = i;
    }
    if (found == LULL_BATCH_SIZES)
        return lull_error_set(err, -EINVAL, "default batch size %u is not among the %zu sizes",
                              config->default_size, config->size_count);
    *default_out = found;
    return 0;
}

int lull_batch_create(const struct lull_batch_config *config, struct lull_batch **batch_out,
                      struct lull_error *err)
{
    struct lull_batch *batch;
    uint32_t default_arm = 0;
    int rc = lull_job_price_check(&config->price, err);

    if (rc < 0)
        return rc;
    if (!(config->beta_ratio >= 1.0))
        return lull_error_set(err, -EINVAL, "beta %g: must be 1 or more", config->beta_ratio);
    rc = batch_search_check_sizes(config, &default_arm, err);
    if (rc < 0)
        return rc;
    batch = calloc(1, sizeof(*batch));
    if (batch == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for a batch-size search");
    batch->config = *config;
    memcpy(batch->sizes, config->sizes, config->size_count * sizeof(*config->sizes));
    batch->config.sizes = batch->sizes;
    batch->default_arm = default_arm;
    batch->min_cost = INFINITY;
    *batch_out = batch;
    return 0;
}

void lull_batch_destroy(struct lull_batch *batch)
{
    if (batch == NULL)
        return;
    free(batch->runs);
    free(batch->results);
    free(batch);
}

/* ---- runs --------------------------------------------------------------------------------- */

static int find_arm(const struct lull_batch *batch, uint32_t size)
{
    for (uint32_t arm = 0; arm < batch->config.size_count; arm++)
        if (batch->sizes[arm] == size)
            return (int)arm;
    return -1;
}

/* Makes room for one more run, and for its result later, so that its end cannot fail for lack of
 * memory. Both arrays grow with the number of runs. */
static int batch_search_make_room(struct lull_batch *batch, struct lull_error *err)
{
    if (lull_array_grow(&batch->runs, batch->run_count, sizeof(*batch->runs)) < 0 ||
        lull_array_grow(&batch->results, batch->run_count, sizeof(*batch->results)) < 0)
        return lull_error_set(err, -ENOMEM, "not enough memory for more than %zu runs",
                              batch->run_count);
    return 0;
}

/* Finds the run that is repeated; where there is none, one of no attempts represents it. */
static const struct lull_batch_run *run_before(const struct lull_batch *batch, uint64_t retry_of)
{
    static const struct lull_batch_run none = {.attempt = 0};
    const struct lull_batch_run *before = lull_batch_find_run(batch, retry_of);

    if (before == NULL)
        return &none;
    return before;
}

static int batch_search_submit(struct lull_batch *batch, const struct lull_batch_record *record,
                               struct lull_error *err)
{
    const struct lull_batch_run *before;
    const int arm = find_arm(batch, record->size);
    struct lull_batch_run *run;
    int rc;

    if (record->run == 0 || lull_batch_find_run(batch, record->run) != NULL)
        return lull_error_set(err, -EEXIST, "run %" PRIu64 ": the number is taken", record->run);
    if (arm < 0)
        return lull_error_set(err, -EINVAL, "run %" PRIu64 ": batch size %u is no candidate",
                              record->run, record->size);
    if (!(record->bound >= 0.0))
        return lull_error_set(err, -EINVAL, "run %" PRIu64 ": a bound of %g J", record->run,
                              record->bound);
    rc = batch_search_make_room(batch, err);
    if (rc < 0)
        return rc;
    before = run_before(batch, record->retry_of);
    run = &batch->runs[batch->run_count];
    *run = (struct lull_batch_run){
        .id = record->run,
        .arm = (uint32_t)arm,
        .attempt = before->attempt + 1,
        .retry_of = before->id,
        .bound = record->bound,
        .attempts_cost = before->attempts_cost,
    };
    batch->run_count++;
    return 0;
}

/* A run for which not even one epoch fitted has cost nothing, which is not to look cheap. */
static double observed_cost(const struct lull_batch *batch, const struct lull_batch_run *run,
                            const struct lull_batch_record *record)
{
    const double penalty = 100.0; /* default: more expensive than any run that fits */

    if (record->event == LULL_BATCH_MISSED && record->energy_j == 0.0 && record->time_s == 0.0) {
        if (!isfinite(run->bound))
            return 0.0;
        return penalty * run->bound;
    }
    return lull_job_cost(&batch->config.price, record->energy_j, record->time_s);
}

/* A change of the data is looked for before the result joins the others, which it would dilute. */
static void batch_search_learn(struct lull_batch *batch, struct lull_batch_run *run, double cost)
{
    bool has_changed;

    run->cost = cost;
    run->attempts_cost += cost;
    has_changed = batch->config.is_watching && lull_batch_change_test(batch, run);
    batch->results[batch->result_count++] = (size_t)(run - batch->runs);
    if (run->has_reached && run->attempts_cost < batch->min_cost)
        batch->min_cost = run->attempts_cost;
    if (has_changed)
        lull_batch_reset_min_cost(batch);
}

static int batch_search_end(struct lull_batch *batch, const struct lull_batch_record *record,
                            struct lull_error *err)
{
    struct lull_batch_run *run = lull_batch_find_run(batch, record->run);
    const bool has_result =
        record->event == LULL_BATCH_REACHED || record->event == LULL_BATCH_MISSED;

    if (run == NULL || run->is_over)
        return lull_error_set(err, -ENOENT, "run %" PRIu64 ": not running", record->run);
    if (has_result && !(record->energy_j >= 0.0 && isfinite(record->energy_j) &&
                        record->time_s >= 0.0 && isfinite(record->time_s)))
        return lull_error_set(err, -EINVAL, "run %" PRIu64 ": %g J in %g s cannot be", record->run,
                              record->energy_j, record->time_s);
    run->is_over = true;
    run->has_result = has_result;
    run->has_reached = record->event == LULL_BATCH_REACHED;
    run->has_crashed = record->event == LULL_BATCH_CRASHED;
    if (has_result)
        batch_search_learn(batch, run, observed_cost(batch, run, record));
    else if (run->has_crashed && record->energy_j >= 0.0 && record->time_s >= 0.0)
        run->attempts_cost += lull_job_cost(&batch->config.price, record->energy_j, record->time_s);
    return 0;
}

int lull_batch_apply(struct lull_batch *batch, const struct lull_batch_record *record,
                     struct lull_error *err)
{
    if (record->event == LULL_BATCH_SUBMITTED)
        return batch_search_submit(batch, record, err);
    return batch_search_end(batch, record, err);
}

/* ---- choice ------------------------------------------------------------------------------- */

void lull_batch_choose(const struct lull_batch *batch, uint64_t retry_of,
                       struct lull_batch_choice *choice_out)
{
    *choice_out = (struct lull_batch_choice){0};
    lull_batch_smooth_choose(batch, run_before(batch, retry_of), choice_out);
}

/* ---- to look at --------------------------------------------------------------------------- */

double lull_batch_min_cost(const struct lull_batch *batch)
{
    return batch->min_cost;
}

uint32_t lull_batch_best_size(const struct lull_batch *batch)
{
    if (lull_batch_cheapest_arm(batch) < 0)
        return 0;
    return batch->sizes[lull_batch_smooth_best(batch)];
}

uint32_t lull_batch_change_count(const struct lull_batch *batch)
{
    return batch->change_count;
}

size_t lull_batch_arms(const struct lull_batch *batch, struct lull_batch_arm *arms, size_t capacity)
{
    const struct lull_batch_run *runs[LULL_BATCH_RESULTS];
    const size_t count = lull_min_size(batch->config.size_count, capacity);

    for (uint32_t arm = 0; arm < count; arm++) {
        const size_t results = lull_batch_results(batch, arm, runs, LULL_BATCH_RESULTS);
        struct lull_batch_belief belief;

        lull_batch_smooth_accept(batch, arm, &belief);
        arms[arm] = (struct lull_batch_arm){
            .size = batch->sizes[arm],
            .run_count = (uint32_t)results,
            .crashed_count = lull_batch_crashes(batch, arm),
            .mean_cost = belief.mean,
            .deviation_cost = belief.deviation,
            .is_candidate = belief.is_candidate,
        };
        for (size_t i = 0; i < results; i++)
            arms[arm].missed_count += !runs[i]->has_reached;
    }
    return count;
}
