/*
 * Fit: brings a measured profile to the stages of a pipeline. The fitted profile has one class for
 * every (stage of the pipeline, kind) that operations need, made when it is first requested.
 *
 * Stages: a profile of stages 0..n - 1 serves a pipeline of any number of them: the last stays the
 * last (it has the head of the model), stage i before it takes profile stage min(i, n - 2).
 *
 * Values that were not measured are derived, clock by clock. They are assumptions, not
 * measurements:
 *   input, weight   shares of the backward: input_ratio, and what is left
 *   backward        input and weight together
 *   recompute       the forward
 *   overlap         the forward and the backward one after the other, at one clock: nothing is won
 *   a chunk         an equal part of its device's stage (parts > 1)
 *
 * Pure. Threads: any, one at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_MODEL_FIT_H
#define LULL_CORE_PIPELINE_MODEL_FIT_H

#include <stdint.h>

#include "base/error.h"
#include "core/pipeline/model/profile.h"

enum { LULL_PIPELINE_MAX_STAGES = 4096 };

struct lull_pipeline_fit {
    const struct lull_pipeline_profile *measured; /* borrowed */
    struct lull_pipeline_profile *fitted;         /* borrowed; grows */
    uint32_t stages;    /* of the pipeline, model chunks counted; 1..LULL_PIPELINE_MAX_STAGES */
    uint32_t parts;     /* neighbouring stages of the pipeline that share a measured one; 1.. */
    double input_ratio; /* of a backward that is split; in (0, 1), 0.5 is typical */
    uint32_t copy;      /* the data parallel copy that `measured` belongs to; 0: all copies */
};

/* The profile's stage that stage `stage` of the pipeline takes. */
uint32_t lull_pipeline_fit_stage(const struct lull_pipeline_fit *fit, uint32_t stage);

/*
 * The index, in fit->fitted, of the class of (stage, kind, partner); partner: the stage of an
 * overlap's backward, else 0. Errors: -ENOENT neither measured nor derivable, -EINVAL stage or
 * ratio out of range or a derived operating point out of the profile's limits; -ENOMEM.
 */
int lull_pipeline_fit_class(struct lull_pipeline_fit *fit, uint32_t stage,
                            enum lull_pipeline_kind kind, uint32_t partner, struct lull_error *err);

/* Adds a class of one fixed operating point, for collectives and similar ones, and returns its
 * index; equal classes of a stage become one. Errors: as lull_pipeline_profile_add. */
int lull_pipeline_fit_fixed(struct lull_pipeline_fit *fit, uint32_t stage, int64_t time_ns,
                            int64_t energy_nj, struct lull_error *err);

#endif
