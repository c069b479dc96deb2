/*
 * What `lull run --plan` needs before the job starts: the plans of the files that the user names,
 * and a plan runner for each pass. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_PLAN_PLAN_SETUP_H
#define LULL_GOVERNOR_PLAN_PLAN_SETUP_H

#include "core/section/controller/controller.h"
#include "governor/plan/plan_runner.h"

/* Zero-initialised is empty. */
struct lull_pipeline_plans {
    struct lull_plan_file files[LULL_PLAN_RUNNER_MAX_PLANS];
    uint32_t count;
};

/* Loads up to LULL_PLAN_RUNNER_MAX_PLANS files. Errors: those of lull_plan_file_read(); -E2BIG;
 * nothing is loaded then. */
int lull_pipeline_plans_load(struct lull_pipeline_plans *plans, const char *const *paths,
                             uint32_t count, struct lull_error *err);
void lull_pipeline_plans_fini(struct lull_pipeline_plans *plans);

/*
 * A plan runner with these plans for the GPUs of a job, by their indices in devices. config:
 * tolerance, confidence and observe_only count. Errors: those of lull_plan_runner_create().
 */
int lull_plan_runner_setup(const struct lull_plan_file *plans, uint32_t plan_count,
                           const struct lull_controller_config *config,
                           struct lull_devices *devices, const uint32_t *gpus, uint32_t gpu_count,
                           struct lull_plan_runner **runner_out, struct lull_error *err);

#endif
