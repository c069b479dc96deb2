/*
 * The options of `lull plan` that may differ by stage: the power of a stage that waits, and how
 * long its data parallel copies synchronise. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_STAGES_H
#define LULL_CLI_PLAN_STAGES_H

#include "base/array.h"
#include "base/error.h"
#include "cli/plan/task.h"
#include "core/energy/device_curve.h"
#include "core/pipeline/schedule/schedule.h"

/* Finds the GPU model that an option names, such as "A40", or "8xA40" for stages of eight GPUs;
 * null if there is none. */
const struct lull_device_curve *lull_plan_stages_model(const char *text, double *count_out);

/*
 * Sets task->blocking_w, which it allocates, for the stages of one copy. text: watts or a GPU
 * model; null means LULL_PLAN_BLOCKING_W. Errors: -EINVAL the text is neither; -ENOMEM.
 */
int lull_plan_stages_blocking(const char *text, struct lull_plan_task *task,
                              struct lull_error *err);

/* Spreads task->blocking_w from the stages of one copy to all devices of the finished graph: the
 * copies are alike. Error: -ENOMEM. */
int lull_plan_stages_spread(struct lull_plan_task *task, struct lull_error *err);

/* The shape of the pipeline that a task's schedule is for, with the joint operation of its data
 * parallel copies at the end. No device computes then, so each draws its blocking power. */
struct lull_plan_shape {
    struct lull_pipeline_shape shape; /* points to the rest */
    int64_t latency_ns;
    int64_t *sync_ns;                              /* of each stage */
    int64_t *sync_energy_nj;                       /* of each stage */
    const struct lull_pipeline_profile **measured; /* of each copy; null where it has none */
    struct lull_memory memory;                     /* of the three arrays */
};

/* Takes the options of a task whose stages and blocking power are known. The caller frees
 * shape->memory also after an error: -EINVAL the times are none; -ENOMEM. */
int lull_plan_shape_init(const struct lull_plan_task *task, struct lull_plan_shape *shape,
                         struct lull_error *err);

/* Reads one whole number for all stages, or one for each, from 1 to most. Errors: -EINVAL the text
 * is something else; -ENOMEM. */
int lull_plan_stages_counts(const char *text, uint32_t stages, double most, uint32_t *counts_out);

#endif
