/* What a batch-size search is set to. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>

#include "core/job/batch_state.h"

enum { DEFAULT_WINDOW = 20, DEFAULT_ROUNDS = 2 };

void lull_batch_config_default(struct lull_batch_config *config)
{
    *config = (struct lull_batch_config){
        .policy = LULL_BATCH_LULL,
        .price = {.eta_ratio = 0.5, .max_power_w = 0.0, .gpu_count = 1},
        .beta_ratio = 2.0,
        .rounds = DEFAULT_ROUNDS,
        .window = DEFAULT_WINDOW,
        .deviation_floor_ratio = 1e-3,
        .is_watching = true,
    };
}

void lull_batch_config_publish(struct lull_batch_config *config)
{
    config->policy = LULL_BATCH_ZEUS;
    config->rounds = DEFAULT_ROUNDS;
    config->window = 0;
    config->deviation_floor_ratio = 0.0;
    config->is_watching = false;
}

static int check_numbers(const struct lull_batch_config *config, struct lull_error *err)
{
    const struct lull_job_price *price = &config->price;

    if (!(price->eta_ratio >= 0.0 && price->eta_ratio <= 1.0))
        return lull_error_set(err, -EINVAL, "eta %g: must be in 0..1", price->eta_ratio);
    if (!(price->max_power_w >= 0.0 && isfinite(price->max_power_w)) || price->gpu_count == 0)
        return lull_error_set(err, -EINVAL, "%g W, %u GPUs: not a job's power", price->max_power_w,
                              price->gpu_count);
    if (!(config->beta_ratio >= 1.0))
        return lull_error_set(err, -EINVAL, "beta %g: must be 1 or more", config->beta_ratio);
    if (config->rounds == 0)
        return lull_error_set(err, -EINVAL, "0 pruning rounds: must be 1 or more");
    if (!(config->deviation_floor_ratio >= 0.0 && isfinite(config->deviation_floor_ratio)))
        return lull_error_set(err, -EINVAL, "deviation floor %g: must be 0 or more",
                              config->deviation_floor_ratio);
    return 0;
}

static int check_sizes(const struct lull_batch_config *config, uint32_t *default_out,
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

int lull_batch_config_check(const struct lull_batch_config *config, uint32_t *default_out,
                            struct lull_error *err)
{
    const int rc = check_numbers(config, err);

    return rc < 0 ? rc : check_sizes(config, default_out, err);
}
