/*
 * What the user says of each stage of `lull plan`: the power of one that waits, and how long its
 * data parallel copies synchronise. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_STAGES_H
#define LULL_CLI_PLAN_STAGES_H

#include "base/error.h"
#include "cli/plan/task.h"
#include "core/pipeline/schedule/schedule.h"

/*
 * task->blocking_w, new, of the stages of one copy: from watts or a GPU model (text), NULL: the
 * default. Errors: -EINVAL the text is neither; -ENOMEM.
 */
int lull_plan_stages_blocking(const char *text, struct lull_plan_task *task,
                              struct lull_error *err);

/* From stages to devices: the copies are alike. The graph is finished. -ENOMEM. */
int lull_plan_stages_spread(struct lull_plan_task *task, struct lull_error *err);

/* What the copies of a device do together in the end, and what it takes: nobody computes, so a
 * device draws its blocking power. */
struct lull_plan_sync {
    struct lull_pipeline_replicas replicas; /* points into this */
    int64_t *time_ns;
    int64_t *energy_nj;
    struct lull_pipeline_profile *copies; /* of copies with their own, by copy */
    const struct lull_pipeline_profile **measured;
    uint32_t copy_count; /* of copies */
};

/* The blocking power of the stages is known. fini also after an error: -EINVAL times that are none;
 * those of reading the copies' profiles; -ENOMEM. */
int lull_plan_sync_init(const struct lull_plan_source *source, const struct lull_plan_task *task,
                        struct lull_plan_sync *sync, struct lull_error *err);
void lull_plan_sync_fini(struct lull_plan_sync *sync);

/* The pipeline that a schedule of the source is for. */
struct lull_plan_shape {
    struct lull_pipeline_shape shape; /* points into this */
    int64_t latency_ns;
    struct lull_plan_sync sync;
};

/* As lull_plan_sync_init. */
int lull_plan_shape_init(const struct lull_plan_source *source, const struct lull_plan_task *task,
                         struct lull_plan_shape *shape, struct lull_error *err);
void lull_plan_shape_fini(struct lull_plan_shape *shape);

/* One whole number for all stages, or one for each, from 1 to most. -EINVAL. */
int lull_plan_stages_counts(const char *text, uint32_t stages, double most, uint32_t *counts_out);

#endif
