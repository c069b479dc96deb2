/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/plan/plan_setup.h"

#include <errno.h>

int lull_pipeline_plans_load(struct lull_pipeline_plans *plans, const char *const *paths,
                             uint32_t count, struct lull_error *err)
{
    int result = 0;

    if (count > LULL_PLAN_RUNNER_MAX_PLANS)
        return lull_error_set(err, -E2BIG, "%u plans: at most %d are tried", count,
                              LULL_PLAN_RUNNER_MAX_PLANS);
    for (uint32_t i = 0; i < count && result == 0; i++) {
        result = lull_plan_file_read(paths[i], &plans->files[i], err);
        plans->count += result == 0;
    }
    if (result < 0)
        lull_pipeline_plans_fini(plans);
    return result;
}

void lull_pipeline_plans_fini(struct lull_pipeline_plans *plans)
{
    for (uint32_t i = 0; i < plans->count; i++)
        lull_plan_file_fini(&plans->files[i]);
    plans->count = 0;
}

int lull_plan_runner_setup(const struct lull_plan_file *plans, uint32_t plan_count,
                           const struct lull_controller_config *config,
                           struct lull_devices *devices, const uint32_t *gpus, uint32_t gpu_count,
                           struct lull_plan_runner **runner_out, struct lull_error *err)
{
    struct lull_plan_runner_config setup = {.plans = plans, .plan_count = plan_count};

    lull_conductor_config_default(&setup.config);
    setup.config.tolerance_ratio = config->tolerance_ratio;
    setup.config.confidence = config->confidence;
    setup.config.observe_only = config->observe_only;
    for (; setup.gpu_count < gpu_count && setup.gpu_count < LULL_CONDUCTOR_MAX_GPUS;
         setup.gpu_count++)
        setup.gpus[setup.gpu_count] = lull_device_info(devices, gpus[setup.gpu_count]);
    return lull_plan_runner_create(&setup, runner_out, err);
}
